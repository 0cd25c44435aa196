"""What a client asks and says of incidents and silences. ``Client`` has all of it.

Everything that is said here may be sent twice, as the transport does after an answer was lost: notes and silences carry
an id that is drawn here, by which the collector knows them again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from tachograph_collector.client.incident_records import Incident, IncidentWithNotes, Silence
from tachograph_collector.client.records import Records
from tachograph_collector.client.transport import Parameters, Transport
from tachograph_collector.client.values import When, decoded, time_of

T = TypeVar("T", bound=Struct)
Names = str | Sequence[str] | None
"""One, or several of which any may be."""


class IncidentCalls:
    """The part of ``Client`` that is about incidents."""

    _transport: Transport

    def _pages(
        self, kind: type[T], path: str, name: str, parameters: Parameters, limit: int | None = None
    ) -> Records[T]:
        raise NotImplementedError

    def ask(self, kind: Any, path: str, parameters: Parameters | None = None) -> Any:
        """One answer as ``kind``."""
        raise NotImplementedError

    def incidents(
        self,
        run: str | None = None,
        *,
        detector: Names = None,
        severity: Names = None,
        origin: Names = None,
        node: str | None = None,
        is_open: bool | None = None,
        since: When = None,
        until: When = None,
        limit: int | None = None,
    ) -> Records[Incident]:
        """Incidents of all runs, what began last first; ``run`` may hold ``*`` and ``?``.

        A window takes what was open at any time in it.
        """
        asked = {"run": run, "origin": origin, **filters(detector, severity, node, is_open, since, until)}
        return self._pages(Incident, "/v1/incidents", "incidents", asked, limit)

    def incident(self, incident_id: str) -> IncidentWithNotes:
        """One incident by its id or the beginning of it, with everything that was said of it."""
        found: IncidentWithNotes = self.ask(IncidentWithNotes, _path(incident_id))
        return found

    def acknowledge(self, incident_id: str, text: str | None = None, *, author: str | None = None) -> IncidentWithNotes:
        """Say that somebody takes care of it. ``author`` counts where no token is needed; else it is the token's name.

        Of one that is acknowledged already only ``text`` is written down.
        """
        return self._say(f"{_path(incident_id)}/acknowledge", {"text": text, "author": author})

    def unacknowledge(
        self, incident_id: str, text: str | None = None, *, author: str | None = None
    ) -> IncidentWithNotes:
        """Say that nobody takes care of it any longer."""
        return self._say(f"{_path(incident_id)}/unacknowledge", {"text": text, "author": author})

    def annotate(self, incident_id: str, text: str, *, author: str | None = None) -> IncidentWithNotes:
        """Add words to an incident; they can't be taken back."""
        own_id = secrets.token_hex(16)
        return self._say(f"{_path(incident_id)}/notes", {"text": text, "author": author, "id": own_id})

    def silences(self, *, is_over: bool | None = None, limit: int | None = None) -> Records[Silence]:
        """Silences, the newest first; ``is_over=False`` leaves out those that hold no longer."""
        return self._pages(Silence, "/v1/silences", "silences", {"over": flag(is_over)}, limit)

    def silence(
        self,
        *,
        why: str,
        run: str | None = None,
        detector: str | None = None,
        subject: str | None = None,
        node: str | None = None,
        since: When = None,
        until: When = None,
        lasts: str | None = None,
        author: str | None = None,
    ) -> Silence:
        """Let nobody be told of incidents that fit all that is given; they are recorded all the same.

        ``run`` and ``subject`` are shell patterns. It holds from ``since`` (now, without it) until ``until``, or for as
        long as ``lasts`` says: ``2h``, ``7d``.
        """
        body = {
            "run": run,
            "detector": detector,
            "subject": subject,
            "node": node,
            "from": time_of(since),
            "until": time_of(until),
            "for": lasts,
            "why": why,
            "author": author,
            "id": secrets.token_hex(16),
        }
        made: Silence = self._post(Silence, "/v1/silences", body)
        return made

    def end_silence(self, silence_id: str) -> Silence:
        """Take a silence back, named by its id or the beginning of it. One that is over stays as it was."""
        body = self._transport.delete(f"/v1/silences/{_segment(silence_id)}").body
        ended: Silence = decoded(self._transport, Silence, body)
        return ended

    def _say(self, path: str, body: dict[str, str | None]) -> IncidentWithNotes:
        said: IncidentWithNotes = self._post(IncidentWithNotes, path, body)
        return said

    def _post(self, kind: Any, path: str, body: dict[str, str | None]) -> Any:
        told = {name: value for name, value in body.items() if value is not None}
        plain = msgspec.json.encode({name: _well(value) for name, value in told.items()})
        answer = self._transport.say(path, plain)
        return decoded(self._transport, kind, answer.body)


def filters(
    detector: Names, severity: Names, node: str | None, is_open: bool | None, since: When, until: When
) -> dict[str, Any]:
    """The parameters by which lists of incidents are narrowed."""
    return {
        "detector": detector,
        "severity": severity,
        "node": node,
        "open": flag(is_open),
        "since": time_of(since),
        "until": time_of(until),
    }


def flag(told: bool | None) -> str | None:
    """As the collector reads it."""
    return None if told is None else str(told).lower()


def _path(incident_id: str) -> str:
    return f"/v1/incidents/{_segment(incident_id)}"


def _segment(text: str) -> str:
    """One segment of a path; an empty one, or dots, would lead elsewhere."""
    return quote(text, safe="", errors="surrogatepass") if text.strip(".") else "%20"


def _well(text: str) -> str:
    """Without lone surrogates, which JSON can't carry: a terminal that is no UTF-8 makes such."""
    return text.encode("utf-8", "backslashreplace").decode()
