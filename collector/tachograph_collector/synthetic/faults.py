"""What can go wrong in a made-up run: one record a fault. Times are seconds since the run's start."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct
from tachograph_agent.events import CATEGORIES

from tachograph_collector.synthetic.cluster import Cluster, SyntheticError

_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Above0 = Annotated[float, Meta(gt=0, le=1e9)]
_Rank = Annotated[int, Meta(ge=0)]
_Ratio = Annotated[float, Meta(gt=1, le=1000)]
_Whole = Annotated[int, Meta(ge=1)]

NEVER_US: Final = 2**62
"""The end of what lasts, and the time of what doesn't come."""

NanKind = Literal["nan", "missing", "frozen", "zero"]


class _Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="fault"):
    at_s: _Seconds

    @property
    def name(self) -> str:
        """``node-death`` for a ``NodeDeath``."""
        return str(self.__struct_config__.tag)


class _Stops(_Fault, frozen=True, kw_only=True):
    """Training stops. What is left of the job notices after ``noticed_s`` and starts anew."""


class NodeDeath(_Stops, frozen=True, kw_only=True, tag="node-death"):
    """A node is gone at once, agent and all. The others wait in a collective until it times out."""

    node: str
    noticed_s: _Seconds = 120.0
    is_replaced: bool = True
    """By a spare with a name of its own; else the same node comes back."""


class FrozenRank(_Stops, frozen=True, kw_only=True, tag="frozen-rank"):
    """One rank does not go on; the others finish their step and wait for it."""

    rank: _Rank
    noticed_s: _Seconds = 600.0


class Crash(_Stops, frozen=True, kw_only=True, tag="crash"):
    """A rank fails and says so; the others follow."""

    rank: _Rank
    category: str = "gpu"


class Straggler(_Fault, frozen=True, kw_only=True, tag="straggler"):
    """A rank works ``ratio`` times as long, and the whole job waits for it."""

    rank: _Rank
    ratio: _Ratio = 1.2
    for_s: _Above0 | None = None


class HiddenStraggler(_Fault, frozen=True, kw_only=True, tag="hidden-straggler"):
    """A rank works ``ratio`` times as long within the time that steps take anyway: their time doesn't show it.

    Something else, communication for instance, is what bounds the step. Only ``busy_s`` and ``wait`` tell.
    """

    rank: _Rank
    ratio: _Ratio = 1.2
    for_s: _Above0 | None = None


class SlowJob(_Fault, frozen=True, kw_only=True, tag="slow-job"):
    """All steps take ``ratio`` times as long, and no rank works longer: the network."""

    ratio: _Ratio = 1.25
    for_s: _Above0 | None = None


class PeriodicSlow(_Fault, frozen=True, kw_only=True, tag="periodic-slow"):
    """Each ``every_steps``-th step takes ``ratio`` times as long."""

    every_steps: Annotated[int, Meta(ge=2)] = 50
    ratio: _Ratio = 3.0
    for_s: _Above0 | None = None


class LossSpike(_Fault, frozen=True, kw_only=True, tag="loss-spike"):
    """The loss is ``height`` higher for ``num_steps`` steps."""

    height: _Above0 = 1.0
    num_steps: _Whole = 20


class HiddenNan(_Fault, frozen=True, kw_only=True, tag="hidden-nan"):
    """The model turns NaN, and the trainer tells it (``nan``) or hides it.

    ``missing``: the loss is no longer told; ``frozen``: the last one is told again and again; ``zero``: the loss is 0
    and the gradient norm NaN. It stays so until the run goes back, after ``rollback_after_s`` if that is given.
    """

    kind: NanKind = "missing"
    rollback_after_s: _Above0 | None = None


class CheckpointNeverLands(_Fault, frozen=True, kw_only=True, tag="checkpoint-never-lands"):
    """The next ``num`` saves don't land. An asynchronous one says nothing; a synchronous one fails."""

    num: _Whole = 1


class SlowSave(_Fault, frozen=True, kw_only=True, tag="slow-save"):
    """The next save holds training up ``ratio`` times as long."""

    ratio: _Ratio = 10.0


class ClockJump(_Fault, frozen=True, kw_only=True, tag="clock-jump"):
    """A node's clock is set by ``seconds``; its agent says so. Not the node of rank 0, by whose clock is booked."""

    node: str
    seconds: Annotated[float, Meta(ge=-80_000, le=80_000)] = 3600.0


class Partition(_Fault, frozen=True, kw_only=True, tag="partition"):
    """A share of the nodes, the last ones, can't reach the collector. Training goes on; all is told afterwards."""

    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    for_s: _Above0 = 90.0


class NodePause(_Fault, frozen=True, kw_only=True, tag="node-pause"):
    """A node stands still, agent and all, and goes on; the job waits for it."""

    node: str
    for_s: _Above0 = 20.0


class CollectorPause(_Fault, frozen=True, kw_only=True, tag="collector-pause"):
    """Nothing arrives for a while: the collector is down. Step records come afterwards, heartbeats are gone."""

    for_s: _Above0 = 30.0


class Xid(_Fault, frozen=True, kw_only=True, tag="xid"):
    """The driver reports an Xid on a node. Nothing else follows from it."""

    node: str
    code: Annotated[int, Meta(ge=1, le=10_000)] = 79
    gpu: str = "0000:0b:00"


Fault: TypeAlias = (
    NodeDeath
    | FrozenRank
    | Crash
    | Straggler
    | HiddenStraggler
    | SlowJob
    | PeriodicSlow
    | LossSpike
    | HiddenNan
    | CheckpointNeverLands
    | SlowSave
    | ClockJump
    | Partition
    | NodePause
    | CollectorPause
    | Xid
)
STOPS = (NodeDeath, FrozenRank, Crash)
FAULTS: dict[str, type[_Fault]] = {str(cls.__struct_config__.tag): cls for cls in Fault.__args__}


def slot_of(node: str, cluster: Cluster) -> int | None:
    """The place of a node by its name, None if there is no such node."""
    digits = node[1:]
    if node[:1] != "n" or not digits.isascii() or not digits.isdigit() or str(int(digits)) != digits:
        return None
    return int(digits) if int(digits) < cluster.num_nodes else None


def check(fault: Fault, cluster: Cluster) -> None:
    """Raise ``SyntheticError`` if the cluster has no such node or rank, or nothing that the fault could happen to."""
    node, rank = getattr(fault, "node", None), getattr(fault, "rank", None)
    if node is not None and slot_of(node, cluster) is None:
        raise SyntheticError(f"{fault.name}: there is no node {node!r}; expected n0 to n{cluster.num_nodes - 1}")
    if rank is not None and rank >= cluster.num_ranks:
        raise SyntheticError(f"{fault.name}: there is no rank {rank}; expected 0 to {cluster.num_ranks - 1}")
    match fault:
        case NodeDeath() if cluster.num_nodes < 2:
            raise SyntheticError("node-death: a cluster of one node has no other to notice; expected num_nodes from 2")
        case FrozenRank() if cluster.num_ranks < 2:
            raise SyntheticError("frozen-rank: a single rank has no other to wait for it; expected 2 ranks or more")
        case ClockJump() if slot_of(fault.node, cluster) == 0:
            raise SyntheticError("clock-jump: n0 has rank 0, by whose clock the run is booked; name another node")
        case LossSpike() | HiddenNan() if cluster.loss is None:
            raise SyntheticError(f"{fault.name}: the run tells no loss")
        case CheckpointNeverLands() | SlowSave() if cluster.saves is None:
            raise SyntheticError(f"{fault.name}: the run makes no saves")
        case Crash() if fault.category not in CATEGORIES:
            raise SyntheticError(f"crash: no category {fault.category!r}; expected one of {', '.join(CATEGORIES)}")
        case _:
            pass
