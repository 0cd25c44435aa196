"""From the lines of a body to its events, and to the lines that are none, each with the reason.

The fast way decodes all lines at once. Where it finds anything that it doesn't know or can't take, the slow way goes
line by line, so that one bad line costs its batch nothing but time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Union, cast

import msgspec
from tachograph_agent import events as vocabulary
from tachograph_agent.events import AnyEvent, EventError, KnownEvent, UnknownEvent

from tachograph_collector.service.problems import Problem
from tachograph_collector.service.settings import MEMORY_FACTOR
from tachograph_collector.store.writer import RejectedLine

ORIGINS: Final = ("live", "replay", "rehearsal")
MAX_LINES: Final = 200_000
MAX_LINE_BYTES: Final = 1 << 20
MAX_NAME_CHARACTERS: Final = 200
"""Of a run, an attempt, a node."""
MAX_KIND_CHARACTERS: Final = 100
MAX_KEPT: Final = 1000
"""Refused lines of one batch that are kept for inspection; those beyond it are counted."""
KEPT_BYTES: Final = 4096
"""Of each line."""

BYTES_A_VALUE: Final = 64
"""Of what is kept as it came, in lists and dictionaries; measured: 40 to 60."""

_DAY_S: Final = 86_400.0
AHEAD_S: Final = _DAY_S
BEHIND_S: Final = 366 * _DAY_S
EARLIEST_UNIX_SECONDS: Final = 946_684_800.0
"""2000-01-01."""
LATEST_UNIX_SECONDS: Final = 4_102_444_800.0
"""2100-01-01."""
_MOST_ATTEMPT: Final = 2**63


@dataclass(slots=True)
class Decoded:
    """A body's events in their order, and what was refused. ``num_rejected`` counts also what is not kept."""

    events: list[AnyEvent]
    rejected: list[RejectedLine] = field(default_factory=list)
    num_rejected: int = 0
    num_not_allowed: int = 0
    """Of the rejected: because the token may not write to their run."""

    def refuse(self, line_number: int, reason: str, line: bytes) -> None:
        """Count a line that is not taken, and keep it, if not too many are kept."""
        self.num_rejected += 1
        if len(self.rejected) < MAX_KEPT:
            self.rejected.append(RejectedLine(line_number, plain(reason), line[:KEPT_BYTES]))

    @property
    def runs(self) -> set[str]:
        """The names of the runs in it."""
        return {event.run for event in self.events}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which times are taken, in Unix seconds."""

    earliest: float
    latest: float
    advice: str


def bounds_for(origin: str, now_unix_s: float) -> Bounds:
    """Which times are taken of an origin.

    A run that is going on lies near the collector's own clock: at most a day ahead of it, at most a year behind, which
    is less than the longest run that is booked (live/pace.py): no clock sets a whole run aside. One that was never set
    says 1970 or 2000, a broken one 2262 or 9999; one such event could make a run of millions of minutes. A
    rehearsal goes on like a live run, so it has the same bounds. What is replayed may lie anywhere in this century.
    """
    if origin != "replay":
        return Bounds(
            now_unix_s - BEHIND_S,
            now_unix_s + AHEAD_S,
            "set that node's clock; a recorded log is sent with the header Tachograph-Origin: replay",
        )
    return Bounds(EARLIEST_UNIX_SECONDS, LATEST_UNIX_SECONDS, "expected a time from 2000 to 2099")


def _strict(cls: type[vocabulary.Event]) -> type[vocabulary.Event]:
    """The same record, refusing fields that it does not know."""
    return cast(
        "type[vocabulary.Event]",
        msgspec.defstruct(
            cls.__name__,
            [],
            bases=(cls,),
            tag=cls.__struct_config__.tag,
            tag_field="kind",
            kw_only=True,
            omit_defaults=True,
            gc=False,
            forbid_unknown_fields=True,
        ),
    )


_CLASSES: Final = {_strict(cls): cls for cls in KnownEvent.__args__}
_FAST: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Union[tuple(_CLASSES)])  # noqa: UP007 - made at run time
_BOM: Final = b"\xef\xbb\xbf"
_HIDDEN: Final = b'""'
"""A field without a name is where the vocabulary's records keep unknown fields; the fast way would fill it."""


def decode_body(
    data: bytes,
    bounds: Bounds,
    may_write: Callable[[str], bool] | None = None,
    charge: Callable[[int], None] = lambda _: None,
) -> Decoded:
    """The events of a body. Raises ``Problem`` 413 for more than ``MAX_LINES`` lines.

    ``may_write`` says whether a run may be written to; None: all. ``charge`` is told how many bytes of memory the
    events will take, before they do; what it raises ends the work.
    """
    data = data.removeprefix(_BOM)
    if data.count(b"\n") >= MAX_LINES:
        raise Problem(413, "Too many lines", f"the body has more than {MAX_LINES:,} lines; send it in smaller batches")
    charge(MEMORY_FACTOR * len(data))
    if _HIDDEN not in data:
        events = _fast(data)
        if events is not None and _is_fine(events, bounds, may_write):
            return Decoded(cast("list[AnyEvent]", events))
        del events
    num_values = data.count(b",") + data.count(b"[") + data.count(b"{")
    charge(max(0, BYTES_A_VALUE * num_values - (MEMORY_FACTOR - 2) * len(data)))
    return _slow(data, bounds, may_write)


def _fast(data: bytes) -> list[KnownEvent] | None:
    """All lines at once, as plain records of the vocabulary; None if any is not such a record, whole and known."""
    try:
        events = _FAST.decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    for event in events:
        # Same fields, same layout: from here on it is the vocabulary's own record, whatever asks for its type.
        event.__class__ = _CLASSES[event.__class__]
    return cast("list[KnownEvent]", events)


def _is_fine(events: list[KnownEvent], bounds: Bounds, may_write: Callable[[str], bool] | None) -> bool:
    if not events:
        return True
    times = [event.t for event in events]
    if min(times) < bounds.earliest or max(times) > bounds.latest:
        return False
    runs = {event.run for event in events}
    names: set[object] = {event.attempt for event in events}
    names |= {event.node for event in events}
    return (
        all(_wrong_run(run) is None for run in runs)
        and all(_wrong_name(name) is None for name in names)
        and (may_write is None or all(map(may_write, runs)))
    )


def _wrong_run(run: str) -> str | None:
    if not run:
        return "has no 'run'; every event that is sent to a collector names its run"
    wrong = _wrong_name(run)
    return f"'run' {wrong}" if wrong else None


def _wrong_name(name: object) -> str | None:
    """Why a name can't be stored; None if it can."""
    if isinstance(name, str):
        if len(name) > MAX_NAME_CHARACTERS:
            return f"has {len(name)} characters; expected at most {MAX_NAME_CHARACTERS}"
        if "\0" in name:
            return f"is {name[:40]!r}; a name can't hold a NUL character"
    elif isinstance(name, int) and not -_MOST_ATTEMPT <= name < _MOST_ATTEMPT:
        return "is a number beyond 64 bits; expected a smaller one, or text"
    return None


def _slow(data: bytes, bounds: Bounds, may_write: Callable[[str], bool] | None) -> Decoded:
    found = Decoded([])
    allowed: dict[str, bool] = {}
    for number, line in enumerate(_lines(data), 1):
        if not line or line.isspace():
            continue
        try:
            event = _one(line, bounds)
        except EventError as error:
            found.refuse(number, str(error), line)
            continue
        if may_write is not None:
            if event.run not in allowed:
                allowed[event.run] = may_write(event.run)
            if not allowed[event.run]:
                found.num_not_allowed += 1
                found.refuse(number, f"this token may not write to run {event.run!r}", line)
                continue
        found.events.append(event)
    return found


def _lines(data: bytes) -> Iterable[bytes]:
    return data.split(b"\n")


def _one(line: bytes, bounds: Bounds) -> AnyEvent:
    """The event of one line; raises ``EventError``."""
    if len(line) > MAX_LINE_BYTES:
        raise EventError(f"a line of {len(line):,} bytes; expected at most {MAX_LINE_BYTES:,}")
    event = _one_fast(line) or _one_slow(line)
    wrong = _wrong_run(event.run)
    if wrong is None:
        for what, value in (("attempt", event.attempt), ("node", event.node)):
            why = _wrong_name(value)
            if why:
                wrong = f"{what!r} {why}"
    if wrong is not None:
        raise EventError(f"{event.kind}: {wrong}")
    if not bounds.earliest <= event.t <= bounds.latest:
        raise EventError(f"{event.kind}: 't' is {_date(event.t)}; {bounds.advice}")
    return event


def _one_fast(line: bytes) -> AnyEvent | None:
    if _HIDDEN in line:
        return None
    try:
        event = _FAST.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    event.__class__ = _CLASSES[event.__class__]
    return cast("AnyEvent", event)


def _one_slow(line: bytes) -> AnyEvent:
    event = vocabulary.decode(line)
    if isinstance(event, UnknownEvent):
        kind = event.kind
        if len(kind) > MAX_KIND_CHARACTERS or "\0" in kind:
            raise EventError(f"'kind' is {kind[:40]!r}; expected at most {MAX_KIND_CHARACTERS} characters, none NUL")
    try:
        vocabulary.encode(event)
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        raise EventError(f"{event.kind}: can't be written back as JSON ({error})") from error
    return event


def _date(unix_s: float) -> str:
    return f"{unix_s:g} ({datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d})"


def plain(text: str) -> str:
    """A sentence that every database and answer can hold, in one line and not long."""
    whole = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:400])
    return whole if len(whole) <= 400 else whole[:399] + "…"
