"""What looks odd in a plan's numbers, one sentence each: a question, never a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from tachograph_collector.model.plan.costs import WRITES, Costs, effective_rate
from tachograph_collector.model.plan.inputs import MTBFS, Inputs
from tachograph_collector.model.plan.quantity import TIMES, shown
from tachograph_collector.model.plan.rungs import Key, Rung

DAY: Final = TIMES["d"]
LONGEST_NODE_S: Final = 500 * DAY
"""A node's MTBF above this is better than any published fleet's (the best: 427 days, Kokolis et al. 2024, RSC-2)."""
SHORTEST_NODE_S: Final = 15 * DAY
"""A node's MTBF below this is worse than any published fleet's."""
FEW_NODES: Final = 8
"""With fewer, a job's MTBF and a node's are too close to tell one from the other."""

Kind = Literal["mtbf", "interval", "persist", "restart", "save", "bandwidth"]


class Question(Struct, frozen=True):
    """Something to look at again."""

    kind: Kind
    sentence: str


def questions(inputs: Inputs, paid: Costs, by_key: Mapping[Key, Rung], interval_s: float) -> Iterator[Question]:
    """Every question that the numbers raise."""
    yield from _mtbf(inputs)
    yield from _interval(paid, by_key)
    yield from _persist(inputs, paid, interval_s)
    yield from _restart(paid, by_key[inputs.saves], interval_s)
    yield from _save(inputs, paid)


def _mtbf(inputs: Inputs) -> Iterator[Question]:
    nodes = inputs.value("nodes")
    (told,) = (inputs.numbers[name] for name in MTBFS if inputs.has(name))
    if nodes < FEW_NODES or told.source in {"run", "default"}:
        return
    if inputs.has("job_mtbf"):
        job = inputs.numbers["job_mtbf"]
        node_s = job.value * nodes
        if node_s > LONGEST_NODE_S:
            yield Question(
                "mtbf",
                f"job_mtbf is {shown(job.value, 'time')} for {nodes:,.0f} nodes, as if each node failed once in "
                f"{shown(node_s, 'time')} (Llama 3's: 264 d): is it a node's? Then give "
                f"node_mtbf, and the job's is {shown(job.value / nodes, 'time')}.",
            )
        elif node_s < SHORTEST_NODE_S:
            yield Question(
                "mtbf",
                f"job_mtbf is {shown(job.value, 'time')} for {nodes:,.0f} nodes, so that each node fails every "
                f"{shown(node_s, 'time')} (Llama 3's: 264 d): is the unit right?",
            )
        return
    node = inputs.numbers["node_mtbf"]
    if node.value < SHORTEST_NODE_S:
        yield Question(
            "mtbf",
            f"node_mtbf is {shown(node.value, 'time')} (Llama 3's: 264 d), so that {nodes:,.0f} nodes fail every "
            f"{shown(node.value / nodes, 'time')}: is it the job's? Then give job_mtbf.",
        )
    elif node.value > 4 * LONGEST_NODE_S:
        yield Question(
            "mtbf",
            f"node_mtbf is {shown(node.value, 'time')}, far above any published fleet's (Llama 3's: 264 d): "
            "is the unit right?",
        )


def _interval(paid: Costs, by_key: Mapping[Key, Rung]) -> Iterator[Question]:
    now = by_key["now"]
    assert now.interval_s is not None
    if now.interval_s > paid.mtbf.value:
        goodput = now.goodput(now.interval_s, paid.mtbf.value)
        yield Question(
            "interval",
            f"interval_now is {shown(now.interval_s, 'time')}, longer than the job's MTBF of "
            f"{shown(paid.mtbf.value, 'time')}: {goodput * 100:.1f} % of the time would be kept; was it planned with "
            "an MTBF that nobody divided by the number of nodes?",
        )


def _persist(inputs: Inputs, paid: Costs, interval_s: float) -> Iterator[Question]:
    if inputs.saves == "blocking":
        return
    persist_s = paid.persist.value
    now_s = inputs.value("interval_now")
    if persist_s > now_s:
        yield Question(
            "persist",
            f"A persist takes {shown(persist_s, 'time')}, longer than interval_now, {shown(now_s, 'time')}: "
            "saves would wait for one another.",
        )
    if persist_s > interval_s / 2:
        yield Question(
            "persist",
            f"A persist takes {shown(persist_s, 'time')} of an interval of {shown(interval_s, 'time')}: "
            "a slow day of the storage would make saves wait; faster storage would allow a shorter interval.",
        )


def _restart(paid: Costs, rung: Rung, interval_s: float) -> Iterator[Question]:
    mtbf_s = paid.mtbf.value
    share = paid.restart_s / mtbf_s
    if paid.restart_s > mtbf_s / 2:
        yield Question(
            "restart",
            f"A restart takes {shown(paid.restart_s, 'time')} and the job fails every {shown(mtbf_s, 'time')}: "
            f"no interval will help; {rung.goodput(interval_s, mtbf_s) * 100:.1f} % of the time would be kept.",
        )
    elif share > 3 * (interval_s / 2 / mtbf_s + rung.cost_s / interval_s):
        yield Question(
            "restart",
            f"Restarts of {shown(paid.restart_s, 'time')} are most of the waste ({share * 100:.1f} points): "
            "a faster way back pays more than any other interval.",
        )


def _save(inputs: Inputs, paid: Costs) -> Iterator[Question]:
    if paid.snapshot.value >= paid.blocking.value:
        yield Question(
            "save",
            f"The snapshot stops training for {shown(paid.snapshot.value, 'time')}, no less than a blocking save "
            f"({shown(paid.blocking.value, 'time')}): asynchronous saves gain nothing.",
        )
    if not inputs.has("checkpoint_size") or not any(inputs.has(name) for name in WRITES):
        return
    rate, binding = effective_rate(inputs)
    if inputs.numbers[binding].source == "default":
        return
    by_size_s = inputs.value("checkpoint_size") / rate
    for name in ("blocking_save", "persist"):
        if inputs.has(name) and not 1 / 3 <= inputs.value(name) / by_size_s <= 3:
            yield Question(
                "bandwidth",
                f"{name} is {shown(inputs.value(name), 'time')}, and checkpoint_size over {binding} makes "
                f"{shown(by_size_s, 'time')}: one of them is off; {name} was used.",
            )
