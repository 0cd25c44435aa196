"""The vocabulary: every kind of event as a typed record, with decode and encode.

One event is one JSON object on one line. ``decode`` gives the typed record and keeps what it does not know: an
unknown field in ``unknown_fields``, an unknown kind as an ``UnknownEvent``; ``encode`` writes both back.
``decode_lines`` is the fast way for readers that only compute: it drops unknown fields.

Times are Unix seconds (UTC) as the emitter wrote them; ``microseconds`` turns them into the whole microseconds in
which all accounts are kept. ``docs/event-log.md`` describes every field.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

LATEST_UNIX_SECONDS: Final = 253_402_300_800.0
"""The first second of the year 10000; a later ``t`` is refused, since no calendar can show it."""

LARGEST_STEP: Final = 2**63 - 1
"""The largest step number that every database and data frame can hold."""

LONGEST_DURATION_SECONDS: Final = 366 * 86_400.0
"""No step, save or phase lasts longer than a year; a ``dur`` that says so is broken, and would make the run as long."""

Time = Annotated[float, Meta(ge=0.0, lt=LATEST_UNIX_SECONDS)]
Seconds = Annotated[float, Meta(ge=0.0, lt=LATEST_UNIX_SECONDS)]
Duration = Annotated[float, Meta(ge=0.0, le=LONGEST_DURATION_SECONDS)]
StepNumber = Annotated[int, Meta(ge=0, le=LARGEST_STEP)]
Count = Annotated[int, Meta(ge=1, le=LARGEST_STEP)]
Rank = Annotated[int, Meta(ge=0, le=LARGEST_STEP)]
Number = Annotated[int, Meta(ge=0, le=LARGEST_STEP)]
Attempt: TypeAlias = int | str
Mode = Literal["sync", "async"]
Category = Literal[
    "gpu",
    "gpu_memory",
    "network",
    "host",
    "storage",
    "software",
    "collective_timeout",
    "heartbeat",
    "sdc",
    "unknown",
]
CATEGORIES: Final[tuple[str, ...]] = Category.__args__  # type: ignore[attr-defined]  # a Literal's

TRAINING_PHASES: Final = frozenset({"eval", "data_wait"})
RESTART_PHASES: Final = frozenset({"detect", "replace", "reload", "warmup", "compile"})


class EventError(ValueError):
    """A line that is no event. The message says which field, which value and what is accepted."""


class Event(Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="kind"):
    """What every event carries: when, whose run, which attempt, where."""

    t: Time
    run: str = ""
    attempt: Attempt | None = None
    node: str | None = None
    rank: Rank | None = None
    dur: Duration | None = None
    unknown_fields: dict[str, Any] | UnsetType = field(default=UNSET, name="")

    @property
    def kind(self) -> str:
        """The event's kind as it stands in the log, ``checkpoint.saved`` for instance."""
        return str(self.__struct_config__.tag)


class RunStart(Event, tag="run.start"):
    """The run was started; everything beyond the time is optional."""

    world_size: Number | None = None
    nodes: Any = None
    gpus: Number | None = None
    labels: dict[str, Any] | None = None
    planned_mtbf_s: Seconds | None = None
    planned_interval_s: Seconds | None = None
    price_per_gpu_hour: float | None = None
    origin: str | None = None
    checkpoints: str | None = None


class RunEnd(Event, tag="run.end"):
    """The run is over. No status means ``completed``."""

    status: Literal["completed", "failed", "cancelled"] = "completed"


class AllocationStart(Event, tag="allocation.start"):
    """The scheduler gave the machines."""

    gpus: Number | None = None


class AllocationEnd(Event, tag="allocation.end"):
    """The scheduler took the machines back."""

    gpus: Number | None = None


class AttemptStart(Event, tag="attempt.start"):
    """The processes of this attempt are up. ``resume_step`` is the step restored, 0 from scratch, None if unknown."""

    resume_step: StepNumber | None = None
    world_size: Number | None = None


class AttemptEnd(Event, tag="attempt.end"):
    """The attempt stops, or was told to, without a failure of its own; ``planned=False`` counts as a failure."""

    planned: bool = True
    reason: str | None = None


class Failure(Event, tag="failure"):
    """Something broke that stops the attempt."""

    category: str = "unknown"
    detail: str | None = None
    inferred: bool = False


class FailureWithdrawn(Event, tag="failure.withdrawn"):
    """A failure that was only inferred was none: the one of the same attempt, node and rank told at ``of_t``."""

    of_t: Time
    reason: str | None = None


class Step(Event, tag="step"):
    """Optimizer steps were completed; ``step`` is the 1-based number of the last, ``dur`` the time of all ``count``."""

    step: StepNumber
    count: Count = 1
    loss: float | None = None
    grad_norm: float | None = None
    tokens: float | None = None
    busy_s: Seconds | None = None
    stage: int | None = None
    sections: dict[str, float] | None = None


class CheckpointStart(Event, tag="checkpoint.start"):
    """Training stops to save the state after ``step``."""

    step: StepNumber
    mode: Mode = "sync"
    tier: str | None = None


class CheckpointSaved(Event, tag="checkpoint.saved"):
    """Training may go on. A ``sync`` save has landed with it; an ``async`` one has not."""

    step: StepNumber
    mode: Mode = "sync"
    tier: str | None = None
    bytes: Number | None = None


class CheckpointPersisted(Event, tag="checkpoint.persisted"):
    """The whole save is restorable from ``tier``; ``storage`` and ``peer`` land, ``local`` and ``memory`` do not."""

    step: StepNumber
    tier: str = "storage"
    bytes: Number | None = None


class CheckpointFailed(Event, tag="checkpoint.failed"):
    """The save, or one rank's part of it, will not land."""

    step: StepNumber
    error: str | None = None


class CheckpointDeleted(Event, tag="checkpoint.deleted"):
    """The save can no longer be restored (a matter of retention, not of the ledger)."""

    step: StepNumber
    tier: str | None = None


class Phase(Event, tag="phase"):
    """A named stretch of time, told at its end."""

    name: str


class PhaseStart(Event, tag="phase.start"):
    """A named stretch of time has begun; a ``phase`` of that name closes it."""

    name: str


class Rollback(Event, tag="rollback"):
    """From here the run goes on from ``to_step``, in the same attempt."""

    to_step: StepNumber
    reason: str | None = None


class Heartbeat(Event, tag="heartbeat"):
    """The node's agent is alive. It says nothing of progress."""

    seq: Number | None = None
    interval_s: Seconds | None = None
    ranks_alive: Any = None
    step: StepNumber | None = None


class Health(Event, tag="health"):
    """One finding on a node."""

    check: str = ""
    gpu: Any = None
    value: Any = None
    severity: str | None = None
    detail: str | None = None


class Gap(Event, tag="gap"):
    """The emitter lost events here: what is missing is known to be missing."""

    dropped: Any = None
    since: Time | None = None


class UnknownEvent(Struct, kw_only=True, gc=False):
    """An event of a kind that this version does not know, kept as it was."""

    t: float
    data: dict[str, Any]
    run: str = ""
    attempt: Attempt | None = None
    node: str | None = None
    rank: int | None = None
    dur: float | None = None

    @property
    def kind(self) -> str:
        """The event's kind as it stands in the log."""
        return str(self.data["kind"])


KnownEvent: TypeAlias = (
    RunStart
    | RunEnd
    | AllocationStart
    | AllocationEnd
    | AttemptStart
    | AttemptEnd
    | Failure
    | FailureWithdrawn
    | Step
    | CheckpointStart
    | CheckpointSaved
    | CheckpointPersisted
    | CheckpointFailed
    | CheckpointDeleted
    | Phase
    | PhaseStart
    | Rollback
    | Heartbeat
    | Health
    | Gap
)
AnyEvent: TypeAlias = KnownEvent | UnknownEvent

_CLASSES: Final[dict[str, type[Event]]] = {str(cls.__struct_config__.tag): cls for cls in KnownEvent.__args__}
KINDS: Final[tuple[str, ...]] = tuple(_CLASSES)
_FIELDS: Final = {
    kind: frozenset(name for name in cls.__struct_encode_fields__ if name) for kind, cls in _CLASSES.items()
}
_LINES = msgspec.json.Decoder(KnownEvent)
_ENCODER = msgspec.json.Encoder()


def microseconds(t: float) -> int:
    """Whole microseconds since 1970 of ``t`` in Unix seconds: ``microseconds(1760000000.25)`` is 1760000000250000."""
    return round(t * 1e6)


def decode_lines(buffer: bytes) -> list[KnownEvent]:
    """Decode many lines at once, without unknown fields; any line that is no known event raises ``MsgspecError``."""
    return _LINES.decode_lines(buffer)


def _not_a_number(text: str) -> float:
    return math.nan if text == "NaN" else (math.inf if text == "Infinity" else -math.inf)


def _parse(line: bytes) -> Any:
    """The JSON value of a line. Bare NaN and Infinity, which trainers write for a loss, are taken too."""
    try:
        return msgspec.json.decode(line)
    except RecursionError as error:
        raise EventError("nested too deeply to be an event; an event is one flat JSON object") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as first:
        if b"NaN" not in line and b"Infinity" not in line:
            raise EventError(f"not JSON ({first})") from first
    try:
        return json.loads(line, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise EventError(f"not JSON ({error})") from error


_NO_UNICODE: Final = "has text that is no Unicode (half of a surrogate pair) in one of its fields"
"""What only Python's own reader of JSON lets through, which takes over where a line has a bare NaN."""


def decode(line: bytes | str) -> AnyEvent:
    """Decode one line into its typed event; raises ``EventError`` with field, value and what is accepted."""
    raw = _parse(line.encode() if isinstance(line, str) else line)
    if not isinstance(raw, dict):
        raise EventError(f"a JSON {type(raw).__name__}, not an object with 'kind' and 't'")
    return from_dict(raw)


def from_dict(raw: dict[str, Any]) -> AnyEvent:
    """The typed event of a decoded JSON object; raises ``EventError`` like ``decode``."""
    kind = raw.get("kind")
    if not isinstance(kind, str):
        raise EventError(f"'kind' is {kind!r}; expected the name of an event, such as 'step'")
    cls = _CLASSES.get(kind)
    if cls is None:
        return _unknown(raw)
    known = _FIELDS[kind]
    extra = {name: value for name, value in raw.items() if name not in known and name != "kind"}
    try:
        event = msgspec.convert({name: value for name, value in raw.items() if name in known}, cls, strict=True)
    except msgspec.ValidationError as error:
        raise EventError(f"{kind}: {_plain(error, raw)}") from error
    except UnicodeEncodeError as error:
        raise EventError(f"{kind}: {_NO_UNICODE}") from error
    if math.isnan(event.t):
        raise EventError(f"{kind}: 't' is NaN; expected Unix seconds")
    if event.dur is not None and math.isnan(event.dur):
        raise EventError(f"{kind}: 'dur' is NaN; expected seconds, or no such field")
    if extra:
        event.unknown_fields = extra
    return cast("KnownEvent", event)


def _unknown(raw: dict[str, Any]) -> UnknownEvent:
    try:
        base = msgspec.convert({name: value for name, value in raw.items() if name in _BASE_FIELDS}, Event, strict=True)
    except msgspec.ValidationError as error:
        raise EventError(f"{raw['kind']}: {_plain(error, raw)}") from error
    except UnicodeEncodeError as error:
        raise EventError(f"{raw['kind']}: {_NO_UNICODE}") from error
    return UnknownEvent(
        t=base.t, data=raw, run=base.run, attempt=base.attempt, node=base.node, rank=base.rank, dur=base.dur
    )


_BASE_FIELDS: Final = frozenset(name for name in Event.__struct_encode_fields__ if name)


def _plain(error: msgspec.ValidationError, raw: dict[str, Any]) -> str:
    """The validator's sentence with the offending value beside it."""
    text = str(error)
    _, found, path = text.partition(" - at `$.")
    if not found:
        return text
    name = path.rstrip("`").split(".")[0].split("[")[0]
    shown = repr(raw.get(name))
    return f"{name!r} is {shown if len(shown) <= 60 else shown[:57] + '...'}: {text.partition(' - at')[0]}"


def to_dict(event: AnyEvent) -> dict[str, Any]:
    """The event as a plain dictionary, unknown fields in their place."""
    if isinstance(event, UnknownEvent):
        return dict(event.data)
    plain: dict[str, Any] = msgspec.to_builtins(event)
    plain.update(plain.pop("", {}))
    return plain


def encode(event: AnyEvent) -> bytes:
    """One line of the log, without the newline.

    A step whose loss or gradient norm is NaN or Infinity says so by that name, as recorders write it and readers take
    it, although JSON has no word for it: ``null`` would say that nobody told it. Elsewhere they become ``null``.
    """
    if type(event) is Step and not (_is_finite(event.loss) and _is_finite(event.grad_norm)):
        return json.dumps(to_dict(event), separators=(",", ":"), ensure_ascii=False).encode()
    return _ENCODER.encode(to_dict(event))


def _is_finite(number: float | None) -> bool:
    return number is None or math.isfinite(number)


def canonical(event: AnyEvent) -> str:
    """The event's canonical JSON (sorted keys), which settles the order of events that share a time and a kind."""
    return json.dumps(to_dict(event), sort_keys=True, separators=(",", ":"))
