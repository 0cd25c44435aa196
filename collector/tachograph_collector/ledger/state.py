"""A run's ledger as bytes and back, so that whoever feeds it can go on after a restart.

What is kept is what folding needs: lifecycle events, the newest steps, the pieces folded for good, and how often each
minute was booked differently. Sums and segments are booked anew from the pieces. The bytes begin with a mark, the
version and a checksum: another version's, and broken ones, are refused, and the run is then rebuilt from its stored
events.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from tachograph_agent.events import AnyEvent, decode, encode

from tachograph_collector.ledger.books import Restated
from tachograph_collector.ledger.cover import Cover
from tachograph_collector.ledger.gpus import Allocations
from tachograph_collector.ledger.legs import Leg, Piece, StepRow
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.saves import SaveLog

VERSION: Final = 2

_HEAD: Final = struct.Struct(">4sII")
"""Mark, version, and the checksum of what follows."""
_MARK: Final = b"TGLS"


class StateError(ValueError):
    """Bytes that are no state of this version's ledger."""


class AnchorState(Struct, array_like=True):
    """See ``track.Anchor``."""

    at_us: int
    num_steps: int
    num_legs: int
    num_pieces: int
    leg: Leg | None
    closed_us: int | None
    num_set_aside: int


class TrackState(Struct):
    """See ``track.Track``."""

    name: str
    lead: int | None
    steps: list[StepRow]
    num_dropped: int
    ahead: dict[int, list[StepRow]]
    starts: list[bytes]
    rollbacks: list[bytes]
    save_logs: list[SaveLog]
    legs: list[Leg]
    pieces: list[Piece]
    anchors: list[AnchorState]
    num_set_aside: int
    reach_us: int


class MinutesState(Struct):
    """How far the minutes of one generation were booked, and what of them was booked differently."""

    closed_us: int
    revisions: dict[int, int]
    restated: list[Restated]
    """What nobody has asked for yet."""


class RunState(Struct):
    """See ``run_ledger.RunLedger``."""

    run: str
    latest_us: int
    islands: list[tuple[int, int, bytes | None]]
    tracks: list[TrackState]
    phases: PhaseBook
    allocations: list[tuple[int, int, str, int | None]]
    boundaries: list[bytes]
    ends: list[bytes]
    unnamed: list[tuple[bytes, str | None]]
    gaps: Cover
    heard: list[tuple[int, int]]
    expected_us: int | None
    settled_for: int | None
    minutes: list[MinutesState]
    withdrawn: list[Restated]


_DECODER = msgspec.msgpack.Decoder(RunState)
_ENCODER = msgspec.msgpack.Encoder()


def pack(state: RunState) -> bytes:
    """The state as bytes."""
    data = _ENCODER.encode(state)
    return _HEAD.pack(_MARK, VERSION, zlib.crc32(data)) + data


def unpack(run: str, data: bytes) -> RunState:
    """The state of these bytes; raises ``StateError`` if they are none, broken, or another version's."""
    mark, version, checksum = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0, 0)
    if mark != _MARK:
        raise StateError(
            f"run {run!r}: these {len(data)} bytes are no saved state of a ledger; "
            "rebuild the run from its stored events"
        )
    if version != VERSION:
        raise StateError(
            f"run {run!r}: saved by version {version} of the ledger, this is version {VERSION}; "
            "rebuild the run from its stored events"
        )
    packed = memoryview(data)[_HEAD.size :]
    # Broken bytes may still decode, into ranges without end for instance: they are told by the checksum alone.
    if zlib.crc32(packed) != checksum:
        raise StateError(
            f"run {run!r}: the saved state is broken (its checksum differs); rebuild the run from its stored events"
        )
    try:
        return _DECODER.decode(packed)
    except msgspec.MsgspecError as error:
        raise StateError(
            f"run {run!r}: not the saved state of a ledger ({error}); rebuild the run from its stored events"
        ) from error


def pack_events(events: Sequence[AnyEvent]) -> list[bytes]:
    """Events as lines of the log."""
    return [encode(event) for event in events]


def unpack_events(lines: Sequence[bytes]) -> list[AnyEvent]:
    """Events of lines."""
    return [decode(line) for line in lines]


def ranges(numbers: set[int]) -> list[tuple[int, int]]:
    """A set of whole numbers as ranges, both ends included: ``{1, 2, 5}`` is ``[(1, 2), (5, 5)]``."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def allocations_of(events: list[tuple[int, int, str, int | None]]) -> Allocations:
    """Allocations with these events, to be settled at the next look."""
    return Allocations(events=events, stale=True)
