"""Incidents in words for the terminal, and as JSON Lines for ``--incidents``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from tachograph_collector.report.text import duration, visible

if TYPE_CHECKING:
    from tachograph_collector.detect import Incident
    from tachograph_collector.report.model import RunReport

NUM_SHOWN: Final = 10


def to_json_lines(runs: Iterable[RunReport]) -> bytes:
    """One JSON object a line for each incident of all runs; numbers that JSON has no word for are null."""
    from tachograph_collector.detect.incident_json import incident_object  # the detectors bring numpy along

    lines = [msgspec.json.encode(incident_object(one)) for run in runs for one in run.incidents or ()]
    return b"".join(line + b"\n" for line in lines)


def incident_words(run: RunReport) -> tuple[str, list[tuple[str, str, list[str]]]]:
    """A heading, and for each incident its severity, a sentence, and what stands behind it. The gravest come first.

    What was withdrawn is counted, not shown.
    """
    all_of_them: Sequence[Incident] = run.incidents or ()
    real = [one for one in all_of_them if not one.is_withdrawn]
    num_withdrawn = len(all_of_them) - len(real)
    heading = f"{len(real)} incident{'' if len(real) == 1 else 's'}" if real else "No incident found"
    if num_withdrawn:
        heading += f" ({num_withdrawn} withdrawn)"
    grave = {"critical": 0, "warning": 1, "info": 2}
    shown = sorted(real, key=lambda one: (grave[one.severity], one.opened_us))
    return heading, [_words(run, one) for one in shown]


def _words(run: RunReport, one: Incident) -> tuple[str, str, list[str]]:
    lasted = "still open" if one.cleared_us is None else f"for {duration(one.cleared_us - one.opened_us)}"
    what = f"{run.when(one.opened_us)}  {one.severity}: {visible(one.summary, 300)} ({lasted}"
    what += f", {visible(one.outcome, 60)})" if one.outcome is not None else ")"
    behind = ["in steps that an earlier attempt had done before"] if one.is_replayed else []
    behind += [visible(one.advice, 300)] if one.advice is not None else []
    return one.severity, what, behind
