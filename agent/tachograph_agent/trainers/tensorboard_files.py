"""The bytes of TensorBoard's event files, through TensorBoard's own record reader, which the extra brings.

What is cut off or damaged ends a file's reading there: frames have no marks at which reading could go on. TensorBoard's
pure-Python reader is used, so TensorFlow is not imported even where it is installed.
"""

from __future__ import annotations

import logging
import math
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tachograph_agent.events import LARGEST_STEP, AnyEvent
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.files import MissingExtraError, Source
from tachograph_agent.trainers.tensorboard import EventFile, Point, story
from tachograph_agent.trainers.trainerlog import TrainerLogStream

_VERSION: Final = b"brain.Event:"
_HEADER_BYTES: Final = 12
_NUM_EVENTS_PER_CHUNK: Final = 512
_DTYPE_FLOAT: Final = 1
_DTYPE_DOUBLE: Final = 2


def is_event_file(head: bytes) -> bool:
    """Whether a file begins as these do: with a frame, and in it the version of the format."""
    if len(head) < _HEADER_BYTES + len(_VERSION) or _VERSION not in head[:64]:
        return False
    (length,) = struct.unpack("<Q", head[:8])
    return 9 <= int(length) < 4096


class TensorBoardStream(TrainerLogStream):
    """Some event files, the parts of one run, as one stream."""

    def _read(self, context: Any) -> Iterator[list[AnyEvent]]:
        files = []
        for source in self.sources:
            context.begin(source.name, 0)
            files.append(_read_file(source, context))
        held: list[AnyEvent] = []
        for event in story(files, context):
            held.append(event)
            if len(held) >= _NUM_EVENTS_PER_CHUNK:
                yield held
                held = []
        if held:
            yield held


def _read_file(source: Source, context: Context) -> EventFile:
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.tensorflow_stub import errors
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
    except ImportError as error:
        raise MissingExtraError(
            f"{source.name}: a TensorBoard event file, which needs an extra: pip install 'tachograph[tensorboard]'"
        ) from error
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    found = EventFile()
    with tempfile.NamedTemporaryFile(prefix="tachograph-", suffix=".tfevents") as spool:
        for block in source.blocks(context.note):
            spool.write(block)
        spool.flush()
        size_bytes = Path(spool.name).stat().st_size
        if not _first_frame_fits(Path(spool.name), size_bytes):
            context.skip(1, "the first record of the event file is cut off")
            return found
        reader = PyRecordReader_New(spool.name, 0, b"", None)
        number = 0
        while True:
            number += 1
            try:
                reader.GetNext()
            except errors.OutOfRangeError:
                return found
            except (errors.OpError, struct.error, OverflowError, MemoryError, ValueError):
                context.skip(number, "a record of the event file is damaged or cut off; what follows can't be read")
                return found
            try:
                event = Event.FromString(reader.record())
            except Exception:  # noqa: BLE001 - protobuf's own error, whose class depends on its implementation
                context.skip(number, "a record of the event file is no event")
                continue
            if not found.saw(event.wall_time):
                context.skip(number, "an event whose time can't be one")
                continue
            if 0 <= event.step <= LARGEST_STEP:
                found.points += [
                    Point(event.wall_time, event.step, value.tag, number_of)
                    for value in event.summary.value
                    if (number_of := _scalar(value)) is not None
                ]


def _first_frame_fits(path: Path, size_bytes: int) -> bool:
    with path.open("rb") as file:
        start = file.read(8)
    return len(start) == 8 and struct.unpack("<Q", start)[0] + _HEADER_BYTES <= size_bytes


def _scalar(value: Any) -> float | None:
    """The number that a summary holds, None for a picture, a histogram or text; NaN is a number."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor"):
        return None
    tensor = value.tensor
    if tensor.tensor_shape.dim and math.prod(dim.size for dim in tensor.tensor_shape.dim) != 1:
        return None
    if tensor.dtype == _DTYPE_FLOAT:
        if len(tensor.float_val) == 1:
            return float(tensor.float_val[0])
        return float(struct.unpack("<f", tensor.tensor_content)[0]) if len(tensor.tensor_content) == 4 else None
    if tensor.dtype == _DTYPE_DOUBLE:
        if len(tensor.double_val) == 1:
            return float(tensor.double_val[0])
        return float(struct.unpack("<d", tensor.tensor_content)[0]) if len(tensor.tensor_content) == 8 else None
    return None
