"""A plan's numbers from a run: what it measured, with the samples behind each; what it can't tell stays a guess."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.model.estimate import RESTART_PARTS, Measured, Samples
from tachograph_collector.model.plan.inputs import BY_NAME, Known, Mark, Number, Saves, number
from tachograph_collector.model.plan.quantity import shown

USUAL_GPUS_PER_NODE: Final = 8
FEW_SAMPLES: Final = 10


class FromRun(Struct, frozen=True):
    """What a run tells a plan."""

    numbers: dict[str, Number]
    saves: Saves | None
    name: str
    notes: tuple[str, ...]
    """What it can't tell, and what was assumed instead, one sentence each."""


def from_run(
    measured: Measured,
    books: Books,
    details: Details,
    *,
    nodes: float | None = None,
    gpus_per_node: float | None = None,
    price: float | None = None,
) -> FromRun:
    """The numbers of one run. ``nodes`` and ``gpus_per_node`` are those of the plan, where they are known."""
    numbers: dict[str, Number] = {}
    notes: list[str] = []
    run_nodes = _cluster(books.world_size, nodes, gpus_per_node, numbers)
    _failures(measured, run_nodes, nodes, numbers, notes)
    _saves(measured, details, numbers, notes)
    _restart(measured, numbers, notes)
    _step(books, details, numbers)
    if price is not None:
        _put(numbers, "price", price, mark="spec sheet")
    saves: Saves | None = ("asynchronous" if measured.is_async else "blocking") if measured.cost.num else None
    return FromRun(numbers, saves, books.run, tuple(notes))


def _put(
    numbers: dict[str, Number],
    name: str,
    value: float | None,
    samples: int | None = None,
    reach: tuple[float, float] | None = None,
    mark: Mark = "measured",
) -> None:
    """Take a number, if it is one that a plan can use."""
    known = BY_NAME[name]
    if value is None or not known.least <= value <= known.most:
        return
    low, high = reach if reach is not None else (None, None)
    numbers[name] = Number(value, mark, low, high, "run", samples)


def _cluster(
    world_size: int | None, nodes: float | None, per_node: float | None, numbers: dict[str, Number]
) -> float | None:
    """The run's nodes, if they can be told; its GPUs are its ranks."""
    if not world_size:
        return None
    if per_node is None:
        usual = [each for each in range(min(USUAL_GPUS_PER_NODE, world_size), 0, -1) if world_size % each == 0]
        per_node = float(usual[0])
        _put(numbers, "gpus_per_node", per_node, mark="guess")
    run_nodes = max(1.0, math.ceil(world_size / per_node))
    if nodes is None:
        _put(numbers, "nodes", run_nodes)
    return run_nodes


def _failures(
    measured: Measured, run_nodes: float | None, nodes: float | None, numbers: dict[str, Number], notes: list[str]
) -> None:
    """The MTBF from incidents. A plan for another number of nodes takes the nodes', since the job's would not hold."""
    told = measured.incident_mtbf
    if told.mean_s is None:
        notes.append(
            f"No failure in {shown(measured.exposure_s, 'time')}: the run tells only that its MTBF is above "
            f"{shown(told.low_s, 'time')} (95 %); the MTBF stays a guess."
        )
        return
    if nodes is not None and run_nodes is not None and nodes != run_nodes:
        reach = (told.low_s * run_nodes, told.high_s * run_nodes)
        _put(numbers, "node_mtbf", told.mean_s * run_nodes, told.num_failures, reach)
        notes.append(
            f"The run had {run_nodes:,.0f} nodes and the plan has {nodes:,.0f}: its MTBF of "
            f"{shown(told.mean_s, 'time')} was taken as {shown(told.mean_s * run_nodes, 'time')} a node."
        )
    else:
        _put(numbers, "job_mtbf", told.mean_s, told.num_failures, (told.low_s, told.high_s))
    raw = measured.raw_mtbf.num_failures
    if raw > told.num_failures:
        notes.append(f"{raw:,} failures are {told.num_failures:,} incidents; the MTBF is that of the incidents.")
    if told.num_failures < FEW_SAMPLES:
        notes.append(
            f"Only {told.num_failures} failures stand behind the MTBF: it lies between {shown(told.low_s, 'time')} and "
            f"{shown(told.high_s, 'time')} (95 %)."
        )


def _saves(measured: Measured, details: Details, numbers: dict[str, Number], notes: list[str]) -> None:
    if not measured.cost.num:
        why = "its log can't show when a save has landed" if not measured.saves_seen else "no save in it has landed"
        notes.append(f"What a save costs stays a guess: {why}.")
        return
    _put_samples(numbers, "snapshot" if measured.is_async else "blocking_save", measured.cost)
    if measured.is_async:
        _put_samples(numbers, "persist", measured.persist)
    sizes = [save.bytes for save in details.checkpoints if save.bytes]
    if sizes:
        _put(numbers, "checkpoint_size", statistics.median(sizes), len(sizes))
    _put(numbers, "interval_now", measured.tau.median_s, measured.tau.num)


def _restart(measured: Measured, numbers: dict[str, Number], notes: list[str]) -> None:
    """The parts of the way back; what no part explains goes into replace, and a whole without parts is split."""
    num = measured.restart.num
    if not num:
        notes.append("No restart after a failure in the run: its parts stay guesses.")
        return
    parts = dict(measured.restart_parts)
    other = parts.pop("other", 0.0)
    if not any(parts.values()):
        usual = {name: number(name, BY_NAME[name].default or "").value for name in RESTART_PARTS}
        for name, seconds in usual.items():
            _put(numbers, name, other * seconds / sum(usual.values()), num, mark="guess")
        notes.append(
            f"Restarts took {shown(other, 'time')} on average ({num:,} of them), measured; the log doesn't tell their "
            "parts, which are guessed in the usual proportions."
        )
        return
    for name in RESTART_PARTS:
        _put(numbers, name, parts.get(name, 0.0) + (other if name == "replace" else 0.0), num)
    if other:
        notes.append(f"{shown(other, 'time')} of each restart belong to no part that is told; replace has them.")


def _step(books: Books, details: Details, numbers: dict[str, Number]) -> None:
    firsts = [attempt.first_step for attempt in details.attempts if attempt.first_step is not None]
    steps = books.steps - (min(firsts) - 1) if firsts else 0
    if steps > 0:
        _put(numbers, "step_time", books.subs_us.get("kept/train", 0) / 1e6 / steps, steps)


def _put_samples(numbers: dict[str, Number], name: str, samples: Samples) -> None:
    _put(numbers, name, samples.mean_s, samples.num, _reach(BY_NAME[name], samples.values_s.tolist()))


def _reach(known: Known, values: Sequence[float]) -> tuple[float, float] | None:
    """Two standard errors about the mean; None for a single sample."""
    if len(values) < 2:
        return None
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    return max(mean - 2 * error, known.least, mean / 2), mean + 2 * error
