"""The alternatives that a plan compares, each a step of engineering beyond the one before it."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from msgspec import Struct

from tachograph_collector.model import theory
from tachograph_collector.model.plan.costs import costs
from tachograph_collector.model.plan.inputs import Inputs, Saves

Key = Literal["now", "blocking", "asynchronous", "heartbeats", "spares", "charged"]
KEYS: Final[tuple[Key, ...]] = ("now", "blocking", "asynchronous", "heartbeats", "spares", "charged")


class Rung(Struct, frozen=True):
    """One alternative, all durations in seconds."""

    key: Key
    title: str
    change: str
    """What is done, against the row before."""
    saves: Saves
    cost_s: float
    """What one save stops: the whole of a blocking one, the snapshot of an asynchronous one."""
    persist_s: float
    detect_s: float
    replace_s: float
    reload_s: float
    warmup_s: float
    interval_s: float | None = None
    """The interval if it is given; else the best one for the MTBF at hand."""
    peer_reload_s: float = 0.0
    peer_share: float = 0.0
    """After this share of failures a peer's memory is read, after the others storage."""
    spare_share: float = 0.0
    """Spare nodes charged, over the nodes that work."""

    def best_interval_s(self, mtbf_s: float) -> float:
        """The interval in use at this MTBF: the given one, else the best that the persist fits into."""
        if self.interval_s is not None:
            return self.interval_s
        return max(float(theory.optimum(self.cost_s, mtbf_s)), self.persist_s)

    def goodput(self, interval_s: float, mtbf_s: float) -> float:
        """Expected goodput in closed form; with spares charged, per GPU that is paid for."""
        shared = self.detect_s + self.replace_s + self.warmup_s
        restarts = np.array([shared + self.peer_reload_s, shared + self.reload_s])
        shares = np.array([self.peer_share, 1 - self.peer_share])
        each = theory.asynchronous_goodput(interval_s, self.cost_s, self.persist_s, restarts, mtbf_s)
        return float(shares @ each) / (1 + self.spare_share)


def rungs(inputs: Inputs) -> list[Rung]:
    """The ladder of these inputs (``completed``), from what is done now to spares that are paid for."""
    paid = costs(inputs)
    value = inputs.value
    way_back = {f"{name}_s": value(name) for name in ("detect", "replace", "reload", "warmup")}
    blocking = {"saves": "blocking", "cost_s": paid.blocking.value, "persist_s": 0.0, **way_back}
    background = {
        "saves": "asynchronous",
        "cost_s": paid.snapshot.value,
        "persist_s": paid.persist.value,
        **way_back,
    }
    fast = background | {"detect_s": value("fast_detect")}
    spared = fast | {
        "replace_s": value("spare_replace"),
        "warmup_s": value("spare_warmup"),
        "peer_reload_s": value("peer_reload"),
        "peer_share": value("peer_share"),
    }
    charged = spared | {"spare_share": value("spares") / value("nodes")}
    now = (background if asynchronous_now(inputs) else blocking) | {"interval_s": value("interval_now")}
    found: list[tuple[Key, str, str, dict[str, object]]] = [
        ("now", f"{now['saves']}, as now", f"{now['saves']} saves at the interval in use", now),
        ("blocking", "blocking, best interval", "the same saves at the best interval", blocking),
        ("asynchronous", "asynchronous", "saves persist in the background", background),
        ("heartbeats", "and heartbeats", "failures are noticed at once", fast),
        ("spares", "and hot spares, peer memory", "spare nodes stand by, state comes from a peer", spared),
    ]  # fmt: skip
    if value("spares"):
        found.append(("charged", "the same, spares charged", "the spares are paid for", charged))
    return [_rung(*each) for each in found]


def asynchronous_now(inputs: Inputs) -> bool:
    """Whether a run told that it saves asynchronously already: then the ladder begins there."""
    return inputs.saves == "asynchronous" and inputs.numbers["interval_now"].source == "run"


def _rung(key: Key, title: str, change: str, fields: dict[str, object]) -> Rung:
    return Rung(key=key, title=title, change=change, **fields)  # type: ignore[arg-type]  # one dict for all durations


def chosen(inputs: Inputs) -> Rung:
    """The design that the plan is for: saves as the inputs say, at the best interval, nothing else changed."""
    return next(rung for rung in rungs(inputs) if rung.key == inputs.saves)
