"""A rehearsal's outcome as a table and as JSON, and the list of faults."""

from __future__ import annotations

from typing import Final

import msgspec

from tachograph_collector.rehearse.outcome import Line
from tachograph_collector.rehearse.rehearsal import Outcome
from tachograph_collector.report.text import visible
from tachograph_collector.synthetic.faults import FAULTS, CollectorPause

_HEADINGS: Final = ("run", "fault", "verdict", "after", "by", "of", "severity")


def as_json(outcome: Outcome) -> str:
    """One JSON object; instants as Unix seconds."""
    lines = [{**msgspec.structs.asdict(line), "is_good": line.is_good} for line in outcome.lines]
    body = {
        "is_good": outcome.is_good,
        "took_s": round(outcome.took_s, 3),
        "late_s": round(outcome.late_s, 3),
        "num_events": outcome.num_sent,
        "origins": outcome.origins,
        "lines": lines,
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def table(outcome: Outcome) -> str:
    """The outcome in columns, and what it comes to."""
    rows = [_HEADINGS, *(_row(line) for line in outcome.lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    faults = [line for line in outcome.lines if line.within_s is not None]
    found = sum(line.verdict == "detected" for line in faults)
    alarms = sum(line.verdict == "false alarm" for line in outcome.lines)
    text += ["", f"{found} of {len(faults)} faults detected, {alarms} false alarms, in {outcome.took_s:.0f} s"]
    if outcome.late_s:
        text.append(f"events were sent up to {outcome.late_s:.0f} s late: this machine or the collector was too busy")
    text.append(f"the runs are of origin {', '.join(outcome.origins)}: they count in no total and page nobody")
    return "\n".join(text) + "\n"


def _row(line: Line) -> tuple[str, ...]:
    after = "-" if line.after_s is None else f"{line.after_s:.0f} s"
    if line.verdict == "missed" and line.within_s is not None:
        after = f"> {line.within_s:.0f} s"
    of = line.found_subject or line.subject or "-"
    return (
        visible(line.run, 60),
        line.fault,
        line.verdict,
        after,
        line.detector or "-",
        visible(of, 40),
        line.severity or "-",
    )


def faults_listed() -> str:
    """Every fault with what it takes and what is so unless it is told."""
    text = []
    for name, kind in FAULTS.items():
        if kind is CollectorPause:
            continue  # nobody can make a collector pause from outside
        defaults = dict(zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False))
        takes = []
        for field in kind.__struct_fields__:
            if field == "at_s":
                continue
            key = field.removesuffix("_s")
            takes.append(f"{key}={defaults[field]}" if defaults.get(field) is not None else key)
        about = (kind.__doc__ or "").strip().splitlines()[0]
        text += [f"{name}" + (f":{','.join(takes)}" if takes else ""), f"    {about}"]
    return "\n".join(text) + "\n"
