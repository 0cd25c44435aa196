"""An incident in words, for who is woken by it: what broke, since when, what it costs, what to do, and where to look.

Plain text in short lines; each sink puts it into its own form. Names come from logs and events, so each goes through
``visible``: nothing in them can break a line.
"""

from __future__ import annotations

from typing import Final

from tachograph_collector.detect.verdict import Incident
from tachograph_collector.report.text import SECOND, amount, duration, instant, joined, visible
from tachograph_collector.sinks.telling import Telling

MAX_WORDS: Final = 600
MAX_NAME: Final = 90


def headline(telling: Telling) -> str:
    """``CRITICAL llama-70b: node n3 is silent``, or with ``OVER`` once it is over: one line."""
    incident = telling.stored.incident
    return f"{_word(telling)} {visible(incident.run, MAX_NAME)}: {visible(incident.summary, 300)}"


def _word(telling: Telling) -> str:
    incident = telling.stored.incident
    prefix = "TEST " if telling.is_test else "REHEARSAL " if telling.stored.origin == "rehearsal" else ""
    if incident.is_withdrawn:
        return f"{prefix}WITHDRAWN"
    return prefix + ("OVER" if telling.event == "cleared" else incident.severity.upper())


def details(telling: Telling) -> list[tuple[str, str]]:
    """What a reader needs beside the headline, in the order in which it is needed, each with a word for it."""
    incident = telling.stored.incident
    found = [("When", _when(incident, telling.now_us)), ("Cost", cost_words(incident))]
    if incident.advice:
        found.append(("To do", visible(incident.advice, MAX_WORDS)))
    found.append(("Where", _where(incident)))
    if incident.is_replayed:
        found.append(("Note", "in steps that an earlier attempt had done before"))
    if incident.consequence_of is not None:
        found.append(("Follows from", f"incident {incident.consequence_of}"))
    if telling.is_test:
        found.append(("Note", "this is a test of the sink; nothing is wrong"))
    return found


def _when(incident: Incident, now_us: int) -> str:
    begin = instant(incident.opened_us, with_seconds=True)
    if incident.cleared_us is None:
        lasted = max(0, now_us - incident.opened_us)
        return f"since {begin} UTC, {duration(lasted // SECOND * SECOND)} ago"
    lasted = max(0, incident.cleared_us - incident.opened_us)
    how = f"; {visible(incident.outcome, 120)}" if incident.outcome else ""
    return f"from {begin} to {instant(incident.cleared_us, with_seconds=True)} UTC, {duration(lasted)}{how}"


def cost_words(incident: Incident) -> str:
    """``12 min of the whole job, 51.2 GPU-hours and 154.00 in money (steps slower by 12 %)``; unknown is said."""
    is_over = incident.cleared_us is not None
    unknown = "none" if incident.is_withdrawn else "not known" if is_over else "not known yet"
    cost = incident.cost
    if cost is None:
        return unknown
    parts = []
    if cost.wall_s is not None:
        parts.append(f"{duration(round(cost.wall_s * SECOND))} of the whole job")
    if cost.gpu_hours is not None:
        parts.append(f"{amount(cost.gpu_hours, 1)} GPU-hours")
    if cost.money is not None:
        parts.append(f"{amount(cost.money, 2)} in money")
    if not parts:
        return unknown
    basis = f" ({visible(cost.basis, 120)})" if cost.basis else ""
    return f"{joined(parts)}{'' if is_over else ' so far'}{basis}"


def _where(incident: Incident) -> str:
    parts = [f"run {visible(incident.run, MAX_NAME)}"]
    if incident.node is not None:
        parts.append(f"node {visible(incident.node, MAX_NAME)}")
    if incident.rank is not None:
        parts.append(f"rank {incident.rank}")
    if incident.node is None and incident.rank is None and incident.subject != "run":
        parts.append(visible(incident.subject, MAX_NAME))
    if incident.attempt is not None:
        parts.append(f"attempt {visible(incident.attempt, MAX_NAME)}")
    return ", ".join(parts)
