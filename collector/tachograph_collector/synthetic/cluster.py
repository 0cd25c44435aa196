"""What a made-up run is like while nothing is wrong: its machines, its pace and noise, its loss, saves and restarts."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

START_UNIX_SECONDS = 1_760_000_000.0

_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_Above0 = Annotated[float, Meta(gt=0, le=1e7)]
_AtLeast0 = Annotated[float, Meta(ge=0, le=1e7)]
_Part = Annotated[float, Meta(ge=0, lt=1)]

Kind = Literal["dense", "pipeline", "moe"]
Distribution = Literal["gaussian", "student_t"]
Tells = Literal["busy", "wait", "wall"]


class SyntheticError(ValueError):
    """A run or a fault that can't be: the message says which value, and what is accepted."""


class Noise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the work of ranks differs from step to step, as parts of it."""

    kind: Kind = "dense"
    """``dense``: all alike. ``pipeline``: stages differ. ``moe``: each rank's load wanders."""
    relative: _Part = 0.02
    """Of each rank's work in each step, independent."""
    distribution: Distribution = "gaussian"
    """Student's t has four degrees of freedom."""
    stage_spread: _Part = 0.15
    """``pipeline``: the lightest stage works so much less than the heaviest."""
    imbalance: _Part = 0.05
    """``moe``: standard deviation of a rank's load."""
    persistence: _Part = 0.9
    """``moe``: autocorrelation of it from one step to the next."""


class Loss(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loss that falls from ``start`` to ``floor`` with a decay of ``tau_steps``, and its noise (absolute)."""

    start: _Above0 = 3.7
    floor: _AtLeast0 = 2.2
    tau_steps: _Above0 = 8000.0
    noise: _AtLeast0 = 0.02
    distribution: Distribution = "gaussian"
    replay_spread: _AtLeast0 = 1e-4
    """By so much a step's loss differs when the step is done again; 0 in a deterministic run."""


class Saves(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A save every so many steps. ``block_s`` holds training up; an ``async`` one lands ``persist_s`` later."""

    every_steps: _Count = 100
    mode: Literal["sync", "async"] = "async"
    block_s: _AtLeast0 = 2.0
    persist_s: _AtLeast0 = 20.0
    num_kept: int | None = None
    """Older ones are deleted when one lands; None keeps all."""


class Evals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An evaluation of ``dur_s`` every so many steps."""

    every_steps: _Count = 500
    dur_s: _Above0 = 30.0


class Restarts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the way back takes, by phase. The first start has no ``replace``."""

    replace_s: _AtLeast0 = 30.0
    reload_s: _AtLeast0 = 20.0
    warmup_s: _AtLeast0 = 10.0


class Cluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run without a fault. Nodes are ``n0``, ``n1`` ...; spares that replace dead ones go on counting."""

    run: str = "synthetic"
    start_unix_seconds: Annotated[float, Meta(ge=0, le=4e9)] = START_UNIX_SECONDS
    num_nodes: Annotated[int, Meta(ge=1, le=65_536)] = 4
    ranks_per_node: Annotated[int, Meta(ge=1, le=64)] = 8
    num_stages: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Pipeline stages, in equal blocks of ranks; told in step records where there is more than one."""
    num_steps: _Count = 1000
    step_s: _Above0 = 5.0
    """About a step's time: of it ``busy_part`` is a rank's own work."""
    busy_part: Annotated[float, Meta(gt=0, lt=1)] = 0.8
    tells: Tells = "busy"
    """What ranks tell of their own work: ``busy_s``, ``sections.wait``, or only the step's time."""
    ranks_tell: Literal["all", "lead"] = "all"
    """Which ranks have step records."""
    noise: Noise = field(default_factory=Noise)
    loss: Loss | None = field(default_factory=Loss)
    saves: Saves | None = field(default_factory=Saves)
    evals: Evals | None = None
    restarts: Restarts = field(default_factory=Restarts)
    heartbeat_s: _Above0 | None = 5.0
    price_per_gpu_hour: _AtLeast0 | None = 2.5
    planned_interval_s: _Above0 | None = None
    planned_mtbf_s: _Above0 | None = None
    latency_s: _AtLeast0 = 0.5
    """The mean time from an event to its arrival."""
    origin: str | None = None

    @property
    def num_ranks(self) -> int:
        """All of them."""
        return self.num_nodes * self.ranks_per_node

    def stage(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return rank * self.num_stages // self.num_ranks

    def check(self) -> None:
        """Raise ``SyntheticError`` where numbers don't go together."""
        if self.num_ranks % self.num_stages:
            raise SyntheticError(
                f"num_stages is {self.num_stages}; expected a divisor of the {self.num_ranks} ranks "
                f"({self.num_nodes} nodes of {self.ranks_per_node})"
            )
        if self.noise.kind == "pipeline" and self.num_stages < 2:
            raise SyntheticError("noise of kind 'pipeline' needs num_stages of at least 2; there is one")
