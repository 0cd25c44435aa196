"""``Client``: what a collector knows, as typed records; ``Run``: one run of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from tachograph_collector.client import records
from tachograph_collector.client.address import address
from tachograph_collector.client.errors import ClientError, ProblemError, UnknownRunError
from tachograph_collector.client.incident_records import Incident, Sight
from tachograph_collector.client.incidents import IncidentCalls, Names, filters
from tachograph_collector.client.nodes import NodeCalls
from tachograph_collector.client.records import Records
from tachograph_collector.client.transport import Answer, Parameters, Transport, run_path
from tachograph_collector.client.values import When, decoded, stranger, time_of
from tachograph_collector.report.text import visible

Form = Literal["csv", "parquet", "arrow"]
FORMS: Final[dict[Form, str]] = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
NUM_NEAR: Final = 3
_MOST_NAMES: Final = 10_000
_EVENTS: Final = "application/x-ndjson"

T = TypeVar("T", bound=Struct)


class Client(IncidentCalls, NodeCalls):
    """One collector. Thread-safe; every call is one request or, of a long list, one a page.

    Without ``url`` and ``token`` the environment says them: ``TACHOGRAPH_URL``, else the agents'
    ``TACHOGRAPH_COLLECTOR`` (this machine's collector without either),
    ``TACHOGRAPH_TOKEN``, else the file in ``TACHOGRAPH_TOKEN_FILE``; ``TACHOGRAPH_CA_FILE`` names certificates to
    trust. Every failure is a ``ClientError`` in one sentence. Answers are remembered by their ETag, so asking again for
    what has not changed is cheap.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | None = None,
        ca_file: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._transport = transport or Transport(address(url, token, token_file, ca_file))

    @property
    def url(self) -> str:
        """The collector's address."""
        return self._transport.url

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let connections go. The client can be used again."""
        self._transport.close()

    def runs(
        self,
        name: str | None = None,
        *,
        status: str | None = None,
        origin: str | None = None,
        since: When = None,
        until: When = None,
        limit: int | None = None,
    ) -> Records[records.RunLine]:
        """The runs, the latest start first; ``name`` may hold ``*`` and ``?``, a window takes runs that overlap it."""
        asked: Parameters = {
            "name": name,
            "status": status,
            "origin": origin,
            "since": time_of(since),
            "until": time_of(until),
        }
        return self._pages(records.RunLine, "/v1/runs", "runs", asked, limit)

    def run(self, name: str) -> Run:
        """One run; nothing is asked for yet. The second run of a name is ``name#2``."""
        return Run(self, name)

    def fleet(
        self,
        since: When = None,
        until: When = None,
        *,
        name: str | None = None,
        origin: str | Sequence[str] | None = None,
        price: float | None = None,
    ) -> records.Fleet:
        """What all live runs together did in a window, in GPU-hours and money, by account and cause.

        ``price`` is that of a GPU-hour of runs that tell none, ``origin`` takes replayed runs or rehearsals instead.
        """
        asked = {"since": time_of(since), "until": time_of(until), "name": name, "origin": origin, "price": price}
        fleet: records.Fleet = self.ask(records.Fleet, "/v1/fleet", asked)
        return fleet

    def gate(self, run: str, min_goodput: float, since: When = None, until: When = None) -> records.Gate:
        """Whether a run keeps up with ``min_goodput`` (0 to 1), within a window if one is given."""
        return self.run(run).gate(min_goodput, since, until)

    def send(
        self, lines: bytes, batch: str, *, encoding: str = "identity", origin: str | None = None, agent: str = "client"
    ) -> records.Sent:
        """Send event lines as one batch. A batch of a name that is known already is not stored again."""
        headers = {
            "Content-Type": _EVENTS,
            "Content-Encoding": encoding,
            "Tachograph-Batch": batch,
            "Tachograph-Agent": agent,
        }
        if origin is not None:
            headers["Tachograph-Origin"] = origin
        answer = self._transport.post("/v1/events", lines, headers)
        sent: records.Sent = decoded(self._transport, records.Sent, answer.body)
        return sent

    def near(self, name: str) -> list[str]:
        """Names of runs that are like this one, the most alike first."""
        names = [line.run for line in self.runs(limit=_MOST_NAMES)]
        low = {known.lower(): known for known in reversed(names)}
        close = [low[each] for each in get_close_matches(name.lower(), low, NUM_NEAR, 0.6)]
        part = [known for known in names if name and name.lower() in known.lower()]
        return list(dict.fromkeys([*close, *part]))[:NUM_NEAR]

    # -- what Run is made of ------------------------------------------------------------------------------------------

    def ask(self, kind: type[T] | Any, path: str, parameters: Parameters | None = None) -> Any:
        """One answer as ``kind``."""
        return decoded(self._transport, kind, self._transport.get(path, parameters).body)

    def _pages(
        self, kind: type[T], path: str, name: str, parameters: Parameters, limit: int | None = None
    ) -> Records[T]:
        found: list[T] = []
        cursor: str | None = None
        while True:
            page = None if limit is None else max(1, min(limit - len(found), 100_000))
            body = self._transport.get(path, {**parameters, "limit": page, "cursor": cursor}).body
            told = decoded(self._transport, dict[str, msgspec.Raw], body)
            if name not in told:
                raise stranger(self._transport)
            found += decoded(self._transport, list[kind], told[name])  # type: ignore[valid-type] # a type at run time
            cursor = _cursor(decoded(self._transport, str | None, told.get("next", b"null")))
            if cursor is None or (limit is not None and len(found) >= limit):
                return Records(kind, found if limit is None else found[:limit])

    def unknown(self, name: str, error: ProblemError) -> ProblemError:
        """The same error, with names that are like it where the run is not known."""
        if error.title != _NO_SUCH_RUN:
            return error
        try:
            near = self.near(name)
        except ClientError:
            near = []
        like = f"; did you mean {' or '.join(repr(visible(each, 80)) for each in near)}?" if near else ""
        told = f"{self.url} knows no run {visible(name, 200)!r}{like or '; ' + _LIST}"
        return UnknownRunError(told, error.detail, near)


_NO_SUCH_RUN: Final = "No such run"
_NOT_BOOKED_YET: Final = "Not booked yet"
_LIST: Final = "'tachograph ls' lists those it knows"


class Run:
    """One run of a collector. Each method asks anew; of an unknown run each raises ``UnknownRunError``."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._transport = client._transport  # noqa: SLF001 - the two are one
        self.name: Final = name

    def __repr__(self) -> str:
        return f"<Run {self.name!r} of {self._client.url}>"

    def summary(self, since: When = None, until: When = None, *, model: bool = False) -> records.RunSummary:
        """The run as it stands, or its part of a window; ``model`` holds it against the checkpoint model."""
        asked = {"since": time_of(since), "until": time_of(until), "judge": "true" if model else None}
        summary: records.RunSummary = self._ask(records.RunSummary, "", asked)
        return summary

    def gate(self, min_goodput: float, since: When = None, until: When = None) -> records.Gate:
        """Whether it keeps up with ``min_goodput`` (0 to 1)."""
        asked = {"min_goodput": min_goodput, "since": time_of(since), "until": time_of(until)}
        gate: records.Gate
        try:
            gate = self._ask(records.Gate, "gate", asked)
        except ProblemError as error:
            if error.status != 409:
                raise
            gate = decoded(self._transport, records.Gate, error.body)
        return gate

    def minutes(self, since: When = None, until: When = None, every: str | None = None) -> Records[records.Minute]:
        """Its minutes, or longer stretches: ``every`` is a time such as ``5min``, ``1h`` or ``1d``."""
        asked = {"since": time_of(since), "until": time_of(until), "every": every}
        return self._pages(records.Minute, "minutes", asked)

    def attempts(self) -> Records[records.Attempt]:
        """Its attempts, in order."""
        return self._pages(records.Attempt, "attempts")

    def restarts(self) -> Records[records.Restart]:
        """Its interruptions, in order, with the way back by phase."""
        return self._pages(records.Restart, "restarts")

    def checkpoints(self) -> Records[records.Checkpoint]:
        """Its saves, in order."""
        return self._pages(records.Checkpoint, "checkpoints")

    def segments(self) -> Records[records.Segment]:
        """Its strip: the stretches of each account, in order of time."""
        return self._pages(records.Segment, "segments")

    def steps(
        self,
        since: When = None,
        until: When = None,
        *,
        rank: int | Sequence[int] | None = None,
        node: str | Sequence[str] | None = None,
        attempt: str | None = None,
        points: int | None = None,
    ) -> Records[records.StepBucket]:
        """Its steps, thinned out: smallest, mean and greatest of each metric in ``points`` stretches of time.

        One series of all ranks together, or one for each ``rank`` that is named. ``events`` has each step.
        """
        asked = {
            "since": time_of(since),
            "until": time_of(until),
            "rank": rank,
            "node": node,
            "attempt": attempt,
            "points": points,
        }
        return self._pages(records.StepBucket, "steps", asked)

    def incidents(
        self,
        since: When = None,
        until: When = None,
        *,
        detector: Names = None,
        severity: Names = None,
        node: str | None = None,
        is_open: bool | None = None,
    ) -> Records[Incident]:
        """What was flagged, what began last first; in a window, what was open at any time in it."""
        return self._pages(Incident, "incidents", filters(detector, severity, node, is_open, since, until))

    def sights(self) -> Records[Sight]:
        """How well each detector sees it: whether it is armed, and what it lacks where it is not."""
        return self._pages(Sight, "sights")

    def nodes(self) -> Records[records.Node]:
        """Its nodes and when each was last heard of, by name."""
        return self._pages(records.Node, "nodes")

    def revisions(self, after: int = 0) -> Records[records.Revision]:
        """The restatements of its minutes that were made after that version of its books."""
        return self._pages(records.Revision, "revisions", {"after": after})

    def events(self, after: int = 0) -> Iterator[bytes]:
        """Every event stored of it, as whole lines of JSON, some thousands at a time; begins behind place ``after``."""
        place: str | None = str(after)
        while place is not None:
            answer = self._get("events", {"after": place, "limit": EVENTS_A_PAGE}, accept=_EVENTS)
            if answer.body:
                yield answer.body
            place = answer.headers.get("tachograph-next")

    def place(self) -> records.Place:
        """Where it comes from, and how far it is stored and booked; of a run that is not booked yet, too."""
        told = self._get("events", {"after": _BEHIND_ALL, "limit": 1}, accept=_EVENTS).headers
        try:
            last_seq, folded_seq = int(told["tachograph-last-seq"]), int(told["tachograph-folded-seq"])
        except (KeyError, ValueError) as error:
            raise stranger(self._transport) from error
        return records.Place(
            told.get("tachograph-origin", "live"), last_seq, folded_seq, told.get("tachograph-pruned", "")
        )

    def table(self, part: str, form: Form) -> Iterator[bytes]:
        """One of its tables (``minutes``, ``attempts`` ...), a file a page; most are one page."""
        cursor: str | None = None
        limit = None if part in _NOT_PAGED else ROWS_A_PAGE
        while True:
            answer = self._get(part, {"limit": limit, "cursor": cursor}, accept=FORMS[form])
            yield answer.body
            found = _NEXT_LINK.search(answer.headers.get("link", ""))
            cursor = _cursor(found[1]) if found else None
            if cursor is None:
                return

    def _get(self, part: str, asked: Parameters, accept: str) -> Answer:
        path, named = run_path(self.name, part)
        try:
            return self._transport.get(path, {**named, **asked}, accept=accept)
        except ProblemError as error:
            raise self._client.unknown(self.name, error) from error

    def _ask(self, kind: Any, part: str, asked: Parameters) -> Any:
        path, named = run_path(self.name, part)
        try:
            return self._client.ask(kind, path, {**named, **asked})
        except ProblemError as error:
            raise self._client.unknown(self.name, error) from error

    def _pages(self, kind: type[T], part: str, asked: Parameters | None = None) -> Records[T]:
        path, named = run_path(self.name, part)
        try:
            return self._client._pages(kind, path, part, {**named, **(asked or {})})  # noqa: SLF001 - the two are one
        except ProblemError as error:
            raise self._client.unknown(self.name, error) from error


EVENTS_A_PAGE: Final = 20_000
ROWS_A_PAGE: Final = 100_000
_NOT_PAGED: Final = frozenset({"steps"})
_BEHIND_ALL: Final = 2**62
_NEXT_LINK: Final = re.compile(r'<([^>]*)>\s*;\s*rel="?next"?')


def is_unbooked(error: ClientError) -> bool:
    """Whether the run is known and nothing of it is booked yet."""
    return isinstance(error, ProblemError) and error.title == _NOT_BOOKED_YET


def _cursor(next_page: str | None) -> str | None:
    """The cursor alone: behind a proxy the collector does not know its own path."""
    if next_page is None:
        return None
    found = parse_qs(urlsplit(next_page).query).get("cursor")
    return found[0] if found else None


__all__ = ["FORMS", "Client", "Form", "Records", "Run", "When", "is_unbooked"]
