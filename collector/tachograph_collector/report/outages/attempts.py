"""A list of attempts by when each began: how many, how close, in what order of processes; why they ended is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tachograph_agent.events import microseconds
from tachograph_agent.trainers.outage_tables import STARTS
from tachograph_agent.trainers.table_rows import TableRow
from tachograph_agent.trainers.text import integer

from tachograph_collector.report.outages.findings import Listing, Options, OutageReport, Value, hours
from tachograph_collector.report.outages.rates import gaps
from tachograph_collector.report.outages.reading import Times, cell, column
from tachograph_collector.report.text import count, iso

_BYTES: Final = ("event_file_bytes", "bytes", "size", "log_bytes")


def add_attempts(report: OutageReport, rows: Sequence[TableRow], options: Options) -> None:
    """Attempts and the time between their starts."""
    times = Times(options.tz)
    start = column(rows, STARTS) or "start"
    placed = sorted(
        ((when.t, row) for row in rows if (when := times.read(row.cells.get(start))) is not None),
        key=lambda pair: pair[0],
    )
    if len(placed) < len(rows):
        report.note(f"{count(len(rows) - len(placed), 'row')} told no start that could be read.")
    report.headline = f"{count(len(rows), 'attempt')}"
    report.figure("num_attempts", "attempts", len(rows))
    at = [t for t, _ in placed]
    if at:
        report.figure("first", "first start", iso(microseconds(at[0])))
        report.figure("last", "last start", iso(microseconds(at[-1])))
        report.figure("span_s", "from the first start to the last", at[-1] - at[0], hours(at[-1] - at[0]))
        report.headline += f" in {hours(at[-1] - at[0])}"
    found = gaps(at)
    if found is not None:
        report.figure("gap_median_s", "between starts: median", found.median_s, hours(found.median_s))
        report.figure("gap_shortest_s", "  shortest", found.shortest_s, hours(found.shortest_s))
        report.figure("gap_longest_s", "  longest", found.longest_s, hours(found.longest_s))
    pids = [pid for _, row in placed if (pid := integer(row.cells.get("pid", ""))) is not None]
    falls = sum(after < before for before, after in pairwise(pids))
    if pids:
        report.figure("num_pid_falls", "times that the process number fell", falls)
        if falls:
            report.note("Process numbers fall when they wrap around or at a reboot: the order here is that of time.")
    sizes = Counter(size for row in rows if (size := integer(cell(row, _BYTES) or "")) is not None)
    if sizes:
        listed: list[Sequence[Value]] = [(size, num) for size, num in sizes.most_common(5)]
        report.listings.append(Listing("sizes", "attempts by the size of what they wrote", ("bytes", "num"), listed))
        if len(sizes) == 1 and len(rows) > 1:
            report.note("All attempts wrote equally much: none shows progress.")
    report.figure("mtbf_s", "mean time between failures", None, why="a list of starts doesn't say why an attempt ended")
    report.notes += times.notes()
