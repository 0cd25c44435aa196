"""Every log format that is known, and how a file's format is recognised.

An adapter is named here as ``module:Class`` and imported when a log is to be recognised or read, so that a command
that reads nothing pays nothing. To add a format, write its module and name it here.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Final, cast

from tachograph_agent.trainers import eventlog, tensorboard, tensorboard_files
from tachograph_agent.trainers.base import Adapter
from tachograph_agent.trainers.encodings import decoded
from tachograph_agent.trainers.files import ReadingError
from tachograph_agent.trainers.text import clean

ADAPTERS: Final[tuple[str, ...]] = (
    "megatron:Megatron",
    "megatron_progress:MegatronProgress",
    "torchtitan:Torchtitan",
    "torchtitan_trace:TorchtitanTrace",
    "hf_console:HFConsole",
    "hf_state:HFTrainerState",
    "nanogpt:NanoGPT",
    "llmc:LLMC",
    "modded_nanogpt:ModdedNanoGPT",
    "deepspeed:DeepSpeed",
    "mlperf:MLPerf",
    "detectron2:Detectron2",
    "metrics_csv:LightningCSV",
    "metrics_csv:KerasCSV",
    "worker_csv:WorkerCSV",
    "nemo:NeMo",
    "mmengine:MMEngine",
    "mmengine_scalars:MMEngineScalars",
    "fairseq:Fairseq",
    "llamafactory:LLaMAFactory",
    "olmo:OLMo",
    "composer:Composer",
    "returnn:RETURNN",
    "one_logger:OneLogger",
    "torchelastic_events:TorchelasticEvents",
    "nvrx_cycles:NVRxCycles",
    "tensorboard:TensorBoard",
    "tensorboard_viewer:TensorBoardViewer",
    "horovod:Horovod",
    "folding:Folding",
    "iterations:Iterations",
    "keyvalue:KeyValue",
    "failures:FailureLines",
    "pattern:PatternLog",
)

WEAK: Final = "failures"
"""A format that a few lines of any log may look like."""
PATTERN: Final = "pattern"
"""The format that a pattern file describes."""
NOT_FOLLOWED: Final = {
    "hf-state": "written anew as a whole each time",
    "nvrx-cycles": "written anew as a whole each time",
    "tensorboard": "binary, not a log of lines",
    "worker-csv": "known only when it is whole, since a step ends with its last worker",
}
"""Formats of files that can be replayed but not followed as they grow, and why."""

WITHOUT_CLOCK: Final = frozenset(
    {"lightning-csv", "keras-csv", "worker-csv", "nemo", "hf-state", "hf-console", "nanogpt", "llmc", "modded-nanogpt"}
)
"""Formats that never tell a time of day: their timeline begins at 0, so they can't stand beside one that does."""

WITHOUT_STEPS: Final = frozenset({"failures", "torchelastic-events", "nvrx-cycles"})
"""Formats that tell of starts and failures only: they stand in for no training log."""

SURE_ENOUGH: Final = 0.3
"""A score below this is no recognition."""


@cache
def adapters() -> dict[str, Adapter]:
    """The adapters of the trainers' own logs by the name that ``--format`` takes."""
    found: dict[str, Adapter] = {}
    for entry in ADAPTERS:
        module, _, name = entry.partition(":")
        adapter = cast("Adapter", getattr(import_module(f"tachograph_agent.trainers.{module}"), name)())
        found[adapter.name] = adapter
    return found


def formats() -> dict[str, str]:
    """What each format is, in one line, by the name that ``--format`` takes; the event log comes first."""
    return {eventlog.NAME: eventlog.TITLE, **{name: adapter.title for name, adapter in adapters().items()}}


def recognise(head: bytes) -> str | None:
    """The name of the format that the first 64 KiB of a file are in, None if it is none of ours."""
    if tensorboard_files.is_event_file(head):
        return tensorboard.NAME
    best, best_score = eventlog.NAME, eventlog.sniff(head)
    if best_score < 1.0 and not is_binary(head):
        texts = dict.fromkeys([text_of(head), _bare(text_of(head))])
        for name, adapter in adapters().items():
            score = max(map(adapter.sniff, texts))
            if score > best_score:
                best, best_score = name, score
    return best if best_score >= SURE_ENOUGH else None


def text_of(head: bytes) -> str:
    """The beginning of a file as text for recognition: a line for each that is read."""
    return decoded(head).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _bare(text: str) -> str:
    """The text as its program wrote it, without what a terminal and a launcher put before its lines."""
    return "\n".join(map(clean, text.split("\n")))


def is_binary(head: bytes) -> bool:
    """Whether this is no text: zero bytes at its beginning, or many (a few further on are what a lost disk leaves)."""
    return b"\0" in head[:512] or head.count(b"\0") * 3 > len(head)


def known(name: str) -> str:
    """``name`` if it is a format; raises ``ReadingError`` with what may be meant, else the list, if it is none."""
    names = formats()
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? ('tachograph formats' lists them)" if near else f"known are {', '.join(names)}"
        raise ReadingError(f"format {name!r} is not known; {hint}")
    return name
