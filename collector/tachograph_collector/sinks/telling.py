"""What a sink is asked to tell, and what it says when it could not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from tachograph_collector.store.incident_object import incident_url, stored_object
from tachograph_collector.store.incident_reader import StoredIncident

TellingEvent = Literal["opened", "updated", "cleared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One incident, and what is new about it."""

    event: TellingEvent
    stored: StoredIncident
    now_us: int
    """On the database's clock."""
    told: str | None = None
    """Its severity as this sink was last told of it."""
    remote_id: str | None = None
    """What the other side calls it, if that is known."""
    is_retry: bool = False
    """An earlier try may have arrived."""
    public_url: str | None = None
    is_test: bool = False

    @property
    def plain(self) -> dict[str, Any]:
        """The incident as everywhere in JSON."""
        return stored_object(self.stored, self.public_url)

    @property
    def url(self) -> str | None:
        """Where more of it is to be seen; None if nobody said by which address the collector is reached."""
        return incident_url(self.public_url, self.stored.incident.incident_id)

    def with_remote(self, remote_id: str | None) -> Telling:
        """The same, with what the other side calls it."""
        return replace(self, remote_id=remote_id)

    @property
    def key(self) -> str:
        """The same for the same news, however often it is tried: what a receiver knows a repetition by."""
        incident = self.stored.incident
        detail = ""
        if self.event == "cleared":
            detail = f"/{incident.cleared_us}"
        elif self.event == "updated" or self.told is not None:
            detail = f"/{self.stored.changed_us}"
        return f"{incident.incident_id}/{self.event}{detail}"


class NotToldError(Exception):
    """A try failed. The sentence says where, what came back, and what can be done."""

    def __init__(
        self,
        message: str,
        *,
        is_final: bool = False,
        may_have_arrived: bool = False,
        retry_after_s: float | None = None,
        is_away: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.is_final = is_final
        """The same again would be refused again."""
        self.may_have_arrived = may_have_arrived
        self.retry_after_s = retry_after_s
        """What the other side asked for."""
        self.is_away = is_away
        """It is about the whole sink, not about this incident."""
        self.status = status
        """What was answered, if anything was."""


class Sink(Protocol):
    """One way to tell."""

    def tell(self, telling: Telling) -> str | None:
        """Tell it; what the other side calls it, where that matters later. Raises ``NotToldError``."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...
