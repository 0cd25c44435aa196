"""The live judge: what a look at a run with a thousand failures takes."""

from __future__ import annotations

from statistics import median

import made_up_failures
from figure import Figure, Row, Setting
from measure import timed
from tachograph_collector.ledger import Details, Ledger
from tachograph_collector.model.judge import judge
from tachograph_collector.report.text import count

NUM_FAILURES = 1_000
MOST_S = 0.050


def measure(setting: Setting) -> Figure:
    """Seconds from books and details to the sentence, everything included but the booking itself."""
    ledger = Ledger()
    ledger.add(made_up_failures.events(100 if setting.quick else NUM_FAILURES))
    (run,) = ledger.runs()
    books, details = ledger.books(run), ledger.details(run)
    took_s = [timed(lambda: judge(books, details)) for _ in range(4 * setting.rounds)]
    measured = f"{min(took_s) * 1000:.0f} ms (median {median(took_s) * 1000:.0f} ms)"
    row = Row(f"a run with {_size(details)}", measured, "< 50 ms", min(took_s) < MOST_S)
    return Figure(
        "Live judge",
        "Estimates, conditional check, band, e-value, advice, memorylessness and waste of one run, by the wall clock, "
        "from its books and details. A run with an MTBF of 12 h that saves every 38 min.",
        [row],
        "The run's segments are turned into arrays anew at each look; a live collector could keep them.",
    )


def _size(details: Details) -> str:
    failures = sum(one.how == "failure" for one in details.interruptions)
    saves = count(len(details.checkpoints), "save")
    return f"{count(failures, 'failure')}, {saves} and {len(details.segments):,} stretches"
