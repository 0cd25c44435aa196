"""What a plan is made from: the known numbers, and what is said of each: its mark, its range, where it came from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tachograph_collector.model.plan.quantity import TIMES, Dimension, PlanError, parse_range, shown

Mark = Literal["measured", "spec sheet", "guess"]
MARKS: Final[tuple[Mark, ...]] = ("measured", "spec sheet", "guess")
"""From the firmest to the weakest."""
Source = Literal["default", "file", "run", "flag", "derived"]
Saves = Literal["asynchronous", "blocking"]
SAVES: Final[tuple[Saves, ...]] = ("asynchronous", "blocking")

SPREADS: Final[dict[Mark, float]] = {"measured": 1.1, "spec sheet": 1.5, "guess": 2.0}
"""A number's plausible range where none is given: from itself divided by this to itself times this."""
MTBF_SPREAD: Final = (0.5, 4.0)
"""The range of a guessed MTBF, lower and upper factor: about that of 6, 12 and 50 h."""
_YEAR: Final = TIMES["y"]


class Known(NamedTuple):
    """A number that a plan can be told."""

    name: str
    section: str
    dimension: Dimension
    about: str
    least: float
    most: float
    """Beyond these it is a slip of the pen, or of a unit."""
    default: str | None = None
    example: str = ""
    decided: bool = False
    """Somebody's decision rather than a fact to be found out: no question stays open about it."""

    @property
    def flag(self) -> str:
        """``--node-mtbf`` for ``node_mtbf``."""
        return "--" + self.name.replace("_", "-")


SECTIONS: Final = {
    "cluster": "What the run holds.",
    "failures": "How often something breaks. Give ONE of the two: a node's, or the whole job's.",
    "checkpoint": "What a save costs: what was measured, else its size and the bandwidths.",
    "restart": "The way back from a failure, part by part.",
    "measures": "What the steps of engineering would change; the ladder compares them.",
    "money": "What it is worth.",
}

KNOWN: Final[tuple[Known, ...]] = (
    Known("nodes", "cluster", "count", "Nodes in the job.", 1, 1e6, None, "128", decided=True),
    Known("gpus_per_node", "cluster", "count", "GPUs in a node.", 1, 1024, "8", decided=True),
    Known("step_time", "cluster", "time", "Length of a training step; with it, intervals are told in steps too.",
          1e-3, 86_400, None, "6.5 s"),
    Known("run_length", "cluster", "time", "Wall-clock length of the run.", 3600, 20 * _YEAR, "30 d", decided=True),
    Known("node_mtbf", "failures", "time", "Mean time between failures of ONE NODE; the job's is this over the nodes.",
          60, 1000 * _YEAR, None, "264 d"),
    Known("job_mtbf", "failures", "time", "Mean time between failures of the WHOLE JOB.",
          60, 100 * _YEAR, "6..12..50 h", "12 h"),
    Known("checkpoint_size", "checkpoint", "bytes", "Size of one checkpoint, all ranks together.",
          1e3, 1e18, None, "1.1 TB"),
    Known("node_write", "checkpoint", "rate", "What one node can write to storage.", 1e3, 1e15, "2 GB/s"),
    Known("storage", "checkpoint", "rate", "What the shared storage takes from all nodes together.",
          1e3, 1e16, "20 GB/s"),
    Known("host_copy", "checkpoint", "rate", "From the GPUs of one node into its memory (PCIe).", 1e3, 1e15, "3 GB/s"),
    Known("blocking_save", "checkpoint", "time", "How long a blocking save stops training (C), if measured.",
          1e-3, 86_400, None, "1 min"),
    Known("snapshot", "checkpoint", "time", "How long the snapshot of an asynchronous save stops it, if measured.",
          1e-3, 86_400, None, "3 s"),
    Known("persist", "checkpoint", "time", "From the snapshot until the checkpoint can be restored, if measured.",
          1e-3, 7 * 86_400, None, "55 s"),
    Known("interval_now", "checkpoint", "time", "Training time between saves as it is now, or as others do it.",
          1, 30 * 86_400, "3 h", decided=True),
    Known("keep_last", "checkpoint", "count", "Retention: so many of the newest checkpoints.",
          1, 1e6, "20", decided=True),
    Known("keep_every", "checkpoint", "time", "Retention: and one for each stretch of this length ...",
          60, _YEAR, "6 h", decided=True),
    Known("keep_for", "checkpoint", "time", "Retention: ... for this long.", 0, 20 * _YEAR, "7 d", decided=True),
    Known("detect", "restart", "time", "From the failure until somebody or something knows.", 0, 7 * 86_400, "10 min"),
    Known("replace", "restart", "time", "Until the failed node is replaced and the job runs again.",
          0, 30 * 86_400, "12 min"),
    Known("reload", "restart", "time", "Until the checkpoint is loaded.", 0, 7 * 86_400, "3 min"),
    Known("warmup", "restart", "time", "Until steps take their usual time again: compilation, data, caches.",
          0, 7 * 86_400, "5 min"),
    Known("fast_detect", "measures", "time", "detect, with heartbeats.", 0, 7 * 86_400, "30 s"),
    Known("spare_replace", "measures", "time", "replace, with hot spares.", 0, 30 * 86_400, "30 s"),
    Known("spare_warmup", "measures", "time", "warmup, with hot spares.", 0, 7 * 86_400, "3.8 min"),
    Known("peer_reload", "measures", "time", "reload, from a peer's memory.", 0, 7 * 86_400, "48 s"),
    Known("peer_share", "measures", "share", "Failures after which a peer still holds the checkpoint.",
          0, 1, "95 %"),
    Known("spares", "measures", "count", "Spare nodes that stand by, and are paid for.", 0, 1e6, "2", decided=True),
    Known("price", "money", "money", "Price of one GPU for one hour, in any currency.", 0, 1e5, None, "2.5"),
)  # fmt: skip

BY_NAME: Final = {known.name: known for known in KNOWN}
MTBFS: Final = ("node_mtbf", "job_mtbf")
WHOSE_MTBF: Final = "one node's or the whole job's? They differ by the number of nodes"


class Number(Struct, frozen=True):
    """One number of a plan, in the program's unit, and what is known about it."""

    value: float
    mark: Mark = "guess"
    low: float | None = None
    high: float | None = None
    """Its plausible range, if somebody told it: both or neither."""
    source: Source = "flag"
    samples: int | None = None
    """How many observations stand behind it; None if it isn't from a run."""
    derived_from: tuple[str, ...] = ()


class Inputs(Struct, frozen=True):
    """All numbers of a plan by name; a name that isn't there is unknown. Made by ``inputs``."""

    numbers: dict[str, Number]
    saves: Saves = "asynchronous"
    """How the run saves, or will."""
    name: str = ""
    notes: tuple[str, ...] = ()
    """What a run could not tell, and what was assumed instead, one sentence each."""

    def value(self, name: str) -> float:
        """The number itself, in seconds, bytes, bytes a second, or plain; raises ``KeyError`` where it is unknown."""
        return self.numbers[name].value

    def has(self, name: str) -> bool:
        """Whether the number is known at all."""
        return name in self.numbers

    def with_value(self, name: str, value: float) -> Inputs:
        """The same inputs with one number changed."""
        return replace(self, numbers=self.numbers | {name: replace(self.numbers[name], value=value)})

    @property
    def num_gpus(self) -> int:
        """GPUs that work: those of the spares not among them."""
        return round(self.value("nodes") * self.value("gpus_per_node"))


def number(name: str, text: str, mark: Mark = "guess", source: Source = "flag") -> Number:
    """The number called ``name`` from what somebody wrote; raises ``PlanError`` with value and what is accepted."""
    known = BY_NAME[name]
    value, low, high = parse_range(text, known.dimension)
    for one in (value, low, high):
        if one is not None:
            check(known, one, text)
    return Number(value, mark, low, high, source)


def check(known: Known, value: float, text: str) -> None:
    """Refuse what is beyond belief: nearly always a slip of a unit."""
    if value < 0 or (value == 0 and known.least > 0):
        raise PlanError(f"{text!r} is {'negative' if value < 0 else 'zero'}; expected {_accepted(known)}")
    if not known.least <= value <= known.most:
        raise PlanError(f"{text!r} is beyond belief; expected {_accepted(known)}")


def _accepted(known: Known) -> str:
    least, most = shown(known.least, known.dimension), shown(known.most, known.dimension)
    return f"{least} to {most}, such as {example(known)}"


def example(known: Known) -> str:
    """A value to show: the default, else one that is usual."""
    return known.default or known.example


def layered(
    *layers: Mapping[str, Number], saves: Saves = "asynchronous", name: str = "", defaults: bool = True
) -> Inputs:
    """Inputs from layers, the later ones on top, over the defaults.

    Of the two MTBFs the topmost layer that has one decides. Raises ``PlanError`` where a layer has both, or where the
    number of nodes is missing.
    """
    found: dict[str, Number] = {}
    if defaults:
        found = {k.name: number(k.name, k.default, source="default") for k in KNOWN if k.default is not None}
    for layer in layers:
        given = [each for each in MTBFS if each in layer]
        if len(given) == 2:
            values = " and ".join(f"{each} = {shown(layer[each].value, 'time')}" for each in given)
            raise PlanError(f"{values} are both given; give one: a job's MTBF is its nodes' over the number of nodes")
        if given:
            found = {each: value for each, value in found.items() if each not in MTBFS}
        found |= layer
    if "nodes" not in found:
        raise PlanError("the number of nodes is missing; give --nodes 128, or nodes = 128 in [cluster] of the file")
    return Inputs(found, saves, name)


def span(name: str, given: Number) -> tuple[float, float]:
    """The plausible range of a number: what was told, else what its mark stands for."""
    if given.low is not None and given.high is not None:
        return given.low, given.high
    known = BY_NAME[name]
    spread = _spread(given)
    low, high = given.value / spread, given.value * spread
    if name in MTBFS and given.mark == "guess":
        low, high = given.value * MTBF_SPREAD[0], given.value * MTBF_SPREAD[1]
    if known.dimension == "share":
        # a share's range is that of its remainder: 95 % by 2 is 90 to 97.5 %
        rest = 1 - given.value
        low, high = 1 - rest * spread, 1 - rest / spread
    return max(low, known.least), min(high, known.most)


def _spread(given: Number) -> float:
    """A mark's spread; few samples leave a measured number wider: 4 of them 1.5, 100 and more 1.1."""
    if given.mark == "measured" and given.samples:
        return max(SPREADS["measured"], 1 + 1 / math.sqrt(given.samples))
    return SPREADS[given.mark]


def weakest(marks: Iterable[Mark]) -> Mark:
    """The weakest of some marks: what follows from a guess is a guess."""
    return max(marks, key=MARKS.index, default="guess")


def nearest(word: str, names: Iterable[str]) -> str:
    """``; did you mean 'node_mtbf'?`` or nothing."""
    found = get_close_matches(word, list(names), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
