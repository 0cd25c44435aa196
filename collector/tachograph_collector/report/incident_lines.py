"""Incidents in words for the terminal, and as JSON Lines for ``--incidents``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tachograph_collector.report.flagged import Flagged, by_weight, cost_words, lasted_words
from tachograph_collector.report.text import count, visible

if TYPE_CHECKING:
    from tachograph_collector.report.model import RunReport

NUM_SHOWN: Final = 10


def to_json_lines(runs: Iterable[RunReport]) -> bytes:
    """One JSON object a line for each incident of all runs; numbers that JSON has no word for are null."""
    lines = [msgspec.json.encode(one) for run in runs for one in incident_objects(run)]
    return b"".join(line + b"\n" for line in lines)


def incident_objects(run: RunReport) -> list[dict[str, Any]]:
    """The incidents that the detectors found here, as plain data in their order."""
    if not run.incidents:
        return []
    from tachograph_collector.detect import Incident  # brings numpy along
    from tachograph_collector.detect.incident_json import incident_object

    return [incident_object(one) for one in run.incidents if isinstance(one, Incident)]


def incident_words(run: RunReport) -> tuple[str, list[tuple[str, str, list[str]]]]:
    """A heading, and for each incident its severity, a sentence, and what stands behind it.

    What is open comes first, the gravest of it first.

    What was withdrawn is counted, not shown.
    """
    all_of_them: Sequence[Flagged] = run.incidents or ()
    real = [one for one in all_of_them if not one.is_withdrawn]
    return heading(all_of_them), [_words(run, one) for one in by_weight(real)]


def heading(found: Sequence[Flagged]) -> str:
    """How many there are, and how many were withdrawn."""
    num_withdrawn = sum(one.is_withdrawn for one in found)
    num = len(found) - num_withdrawn
    words = count(num, "incident") if num else "No incident found"
    return words + (f" ({num_withdrawn} withdrawn)" if num_withdrawn else "")


def _words(run: RunReport, one: Flagged) -> tuple[str, str, list[str]]:
    what = f"{run.when(one.opened_us)}  {one.severity}: {visible(one.summary, 300)} ({lasted_words(one)})"
    behind = ["in steps that an earlier attempt had done before"] if one.is_replayed else []
    cost = cost_words(one.cost)
    behind += [f"cost: {cost}"] if cost is not None else []
    behind += [visible(one.advice, 300)] if one.advice is not None else []
    return one.severity, what, behind
