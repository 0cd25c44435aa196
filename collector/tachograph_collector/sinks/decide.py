"""Whether a sink is to be told of an incident now, and of what about it. Pure: what is known, and the time, go in.

Who was told that something broke is told that it is over, whatever has changed since: silences and filters keep news
from beginning, they don't leave anybody with news that is no longer so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from tachograph_collector.report.text import duration
from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.kinds import Manner
from tachograph_collector.sinks.telling import TellingEvent
from tachograph_collector.store.incident_reader import StoredIncident

BEFORE: Final = "before"
"""In the place of a severity: it was open before the sink was, and is never told."""
CLEARED: Final = "cleared"
SILENCE_LOOK_US: Final = 15_000_000
"""So soon after its end a silence is over for sinks, too."""
CHANGES_EVERY_US: Final = 60_000_000
LONG_OVER_US: Final = 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Tell:
    """Now, this."""

    event: TellingEvent


@dataclass(frozen=True, slots=True)
class Skip:
    """Not to be told, until it changes or, if that is given, until another look."""

    reason: str
    look_again_us: int | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is told; look again then, if that is given."""

    look_again_us: int | None = None


Verdict: TypeAlias = Tell | Skip | Nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a sink was told of an incident until now."""

    told: str | None
    """Its severity then, ``CLEARED`` or ``BEFORE``; None: nothing."""
    sent_us: int | None
    """When the incident had changed that was told."""
    told_at_us: int | None


def decide(
    config: SinkConfig,
    manner: Manner,
    stored: StoredIncident,
    known: Known,
    now_us: int,
    *,
    tenant: str,
    notify_rehearsals: bool,
) -> Verdict:
    """What to do about one incident and one sink."""
    if known.told == BEFORE:
        return Skip("it was open before this sink was set up")
    if known.told is None:
        return _first(config, manner, stored, now_us, tenant, notify_rehearsals)
    if not stored.is_open:
        return Nothing() if known.told == CLEARED else Tell("cleared")
    if stored.is_silenced:
        return Skip("silenced", now_us + SILENCE_LOOK_US)
    if known.told == CLEARED:
        return Tell("opened")
    if stored.incident.severity != known.told:
        return Tell("updated")
    return _change(manner, stored, known, now_us)


def _first(
    config: SinkConfig, manner: Manner, stored: StoredIncident, now_us: int, tenant: str, notify_rehearsals: bool
) -> Verdict:
    incident = stored.incident
    if stored.origin != "live" and not (notify_rehearsals and stored.origin == "rehearsal"):
        return Skip(f"of a run that is {'a rehearsal' if stored.origin == 'rehearsal' else 'replayed'}")
    if config.tenant is not None and tenant != config.tenant:
        return Skip("of another tenant")
    unwanted = config.wants(incident.run, incident.detector, incident.severity)
    if unwanted is not None:
        return Skip(unwanted)
    if incident.is_withdrawn:
        return Skip("withdrawn")
    if incident.consequence_of is not None and not manner.tells_consequences:
        return Skip(f"follows from {incident.consequence_of}")
    if stored.is_silenced:
        return Skip("silenced", now_us + SILENCE_LOOK_US if stored.is_open else None)
    if incident.cleared_us is None:
        return Tell("opened")
    if not manner.tells_what_is_over:
        return Skip("over before it could be told")
    if now_us - incident.cleared_us > LONG_OVER_US and not manner.tells_what_is_long_over:
        return Skip(f"over for {duration(now_us - incident.cleared_us)} when it could be told")
    return Tell("cleared")


def _change(manner: Manner, stored: StoredIncident, known: Known, now_us: int) -> Verdict:
    told_at_us = known.told_at_us or 0
    if manner.tells_each_change and known.sent_us is not None and stored.changed_us > known.sent_us:
        due_us = told_at_us + CHANGES_EVERY_US
        return Tell("updated") if now_us >= due_us else Nothing(due_us)
    if manner.again_every_us is not None:
        due_us = told_at_us + manner.again_every_us
        return Tell("updated") if now_us >= due_us else Nothing(due_us)
    return Nothing()
