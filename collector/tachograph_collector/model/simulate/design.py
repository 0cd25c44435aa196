"""What is simulated: how a run saves and comes back (``Design``), what strikes it (``Failures``). All in seconds.

Values that can't be simulated raise ``ModelError``, which names the field, its value and what is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma
from typing import Literal

from tachograph_collector.model.check import ModelError, fraction, not_negative, positive

Overrun = Literal["stall", "skip"]
"""What a save does that is due while the one before is still being written: wait for it, or not take place."""


@dataclass(frozen=True, slots=True)
class Spares:
    """Hot spares: a failed node is swapped in ``swap_s`` for a free one, and is a spare itself after ``repair_s``.

    A failure that finds none free waits the design's ``replace_s``. ``charged``: idle spares count as hardware.
    """

    count: int
    swap_s: float
    repair_s: float = 0.0
    charged: bool = True

    def __post_init__(self) -> None:
        _whole("spares.count", self.count, 0)
        not_negative("spares.swap_s", self.swap_s)
        not_negative("spares.repair_s", self.repair_s)


@dataclass(frozen=True, slots=True)
class Elastic:
    """Going on with fewer of ``replicas`` (but ``min_replicas``) instead of waiting for the replacement.

    A failure takes one replica out; after ``reconfigure_s`` (in place of ``replace_s``), reload and warm-up the others
    go on. Replacements arrive ``replace_s`` after detection, and all rejoin together at the end of the first save
    thereafter, once it has landed, at the price of a reload and a warm-up.
    """

    replicas: int
    min_replicas: int = 1
    reconfigure_s: float = 0.0

    def __post_init__(self) -> None:
        _whole("elastic.replicas", self.replicas, 2)
        _whole("elastic.min_replicas", self.min_replicas, 1)
        if self.min_replicas > self.replicas:
            raise ModelError(f"elastic.min_replicas is {self.min_replicas}; expected at most replicas, {self.replicas}")
        not_negative("elastic.reconfigure_s", self.reconfigure_s)


@dataclass(frozen=True, slots=True)
class Retention:
    """Which landed checkpoints are kept: the ``last`` ones and, beyond, the first of each ``every_s`` of run time."""

    last: int = 1
    every_s: float | None = None

    def __post_init__(self) -> None:
        _whole("retention.last", self.last, 1)
        if self.every_s is not None:
            positive("retention.every_s", self.every_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How a run saves and comes back.

    ``interval_s`` is training time between saves, ``blocking_s`` what a save blocks: all of it for a blocking save
    (``persist_s`` None), the snapshot for an asynchronous one, which lands ``persist_s`` after. A failure falls back to
    the newest save that has landed. Restart is detect + replace + reload + warm-up. ``peer_share`` of failures is
    restored from a peer's memory in ``peer_reload_s`` instead of ``reload_s``, from the newest snapshot if
    ``peer_holds_newest``, else from the newest landed save. ``step_s`` is the longest a step may take: steps are
    shortened so that an interval is a whole number of them.
    """

    interval_s: float
    blocking_s: float
    persist_s: float | None = None
    overrun: Overrun = "stall"
    detect_s: float = 0.0
    replace_s: float = 0.0
    reload_s: float = 0.0
    warmup_s: float = 0.0
    peer_share: float = 0.0
    peer_reload_s: float | None = None
    peer_holds_newest: bool = False
    spares: Spares | None = None
    elastic: Elastic | None = None
    retention: Retention | None = None
    """None keeps every save. It matters where corruption is found late."""
    nodes: int = 1
    """Nodes that train, against which spares are charged."""
    step_s: float = 1.0

    def __post_init__(self) -> None:
        positive("interval_s", self.interval_s)
        positive("step_s", self.step_s)
        for name in ("blocking_s", "detect_s", "replace_s", "reload_s", "warmup_s"):
            not_negative(name, getattr(self, name))
        for name in ("persist_s", "peer_reload_s"):
            if getattr(self, name) is not None:
                not_negative(name, getattr(self, name))
        fraction("peer_share", self.peer_share)
        _whole("nodes", self.nodes, 1)
        if self.overrun not in ("stall", "skip"):
            raise ModelError(f"overrun is {self.overrun!r}; expected 'stall' or 'skip'")

    @property
    def is_asynchronous(self) -> bool:
        """Whether saves are written behind training's back."""
        return self.persist_s is not None

    @property
    def restart_s(self) -> float:
        """Restart of a failure that is restored from storage and finds no spare."""
        return self.detect_s + self.replace_s + self.reload_s + self.warmup_s

    @property
    def hardware_share(self) -> float:
        """Training nodes over all nodes that are paid for, 1 without charged spares."""
        if self.spares is None or not self.spares.charged:
            return 1.0
        return self.nodes / (self.nodes + self.spares.count)


@dataclass(frozen=True, slots=True)
class Corruption:
    """Silent corruption: strikes training every ``mean_gap_s`` on average, is noticed ``detection_s`` later.

    Then the run goes back to the newest kept save from before, or starts from scratch if there is none.
    """

    mean_gap_s: float
    detection_s: float

    def __post_init__(self) -> None:
        positive("corruption.mean_gap_s", self.mean_gap_s)
        not_negative("corruption.detection_s", self.detection_s)


@dataclass(frozen=True, slots=True)
class Failures:
    """When failures strike the job. Gaps are independent: Weibull of mean ``mtbf_s`` (``shape`` 1: memoryless).

    With ``cluster_probability`` the next gap is instead uniform up to ``cluster_within_s``: after each failure another
    soon. ``mtbf_s`` is that of the **job**: a node's divided by the number of nodes.
    """

    mtbf_s: float
    shape: float = 1.0
    cluster_probability: float = 0.0
    cluster_within_s: float = 1200.0
    corruption: Corruption | None = None

    def __post_init__(self) -> None:
        positive("mtbf_s", self.mtbf_s)
        positive("shape", self.shape)
        fraction("cluster_probability", self.cluster_probability)
        positive("cluster_within_s", self.cluster_within_s)

    @property
    def mean_gap_s(self) -> float:
        """Mean of the raw gaps, clusters included: 507 min for 720 min, 0.3 and 20 min."""
        near = self.cluster_probability
        return near * self.cluster_within_s / 2 + (1 - near) * self.mtbf_s

    @property
    def scale_s(self) -> float:
        """Weibull's scale."""
        return self.mtbf_s / gamma(1 + 1 / self.shape)


def _whole(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ModelError(f"{name} is {value!r}; expected a whole number of at least {least}")
