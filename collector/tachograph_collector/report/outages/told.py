"""From opened tables to their report: each kind's module by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tachograph_agent.trainers.files import ReadingError, Source
from tachograph_agent.trainers.outage_tables import KINDS
from tachograph_agent.trainers.table_rows import TableRow

from tachograph_collector.report.outages.attempts import add_attempts
from tachograph_collector.report.outages.causes import add_causes
from tachograph_collector.report.outages.devices import add_devices
from tachograph_collector.report.outages.facts import add_facts
from tachograph_collector.report.outages.findings import Options, OutageReport
from tachograph_collector.report.outages.incidents import add_incidents
from tachograph_collector.report.outages.reading import rows_of
from tachograph_collector.report.outages.slurm import add_slurm

_KINDS: Final[dict[str, Callable[[OutageReport, Sequence[TableRow], Options], None]]] = {
    "sacct": add_slurm,
    "incidents": add_incidents,
    "causes": add_causes,
    "devices": add_devices,
    "attempts": add_attempts,
    "facts": add_facts,
}


def outage_reports(tables: Sequence[tuple[Source, str]], options: Options) -> list[OutageReport]:
    """One report for each kind of table; several files of one kind are parts of one.

    Raises ``ReadingError`` where a table has no row that could be read.
    """
    reports = []
    for kind in dict.fromkeys(kind for _, kind in tables):
        sources = [source for source, of in tables if of == kind]
        rows, context = rows_of(sources, options.tz)
        if not rows:
            told = (
                f"the first is line {context.skips[0].line_number}: {context.skips[0].reason}" if context.skips else ""
            )
            raise ReadingError(
                f"{sources[0].name}: no row could be read as {KINDS[kind].partition(' (')[0]}"
                + (f"; {context.skipped_lines} lines could not be, {told}" if told else "")
            )
        report = OutageReport(name=sources[0].stem, kind=kind, num_rows=len(rows))
        report.notes += context.notes
        report.skipped_lines, report.skips = context.skipped_lines, context.skips
        _KINDS[kind](report, rows, options)
        reports.append(report)
    return reports
