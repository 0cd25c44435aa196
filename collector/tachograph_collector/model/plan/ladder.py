"""The ladder: what each step of engineering buys, in points, GPU-hours and money, at three MTBFs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from tachograph_collector.model.check import ModelError
from tachograph_collector.model.plan.inputs import Inputs
from tachograph_collector.model.plan.rungs import Rung

if TYPE_CHECKING:
    from tachograph_collector.model.simulate import Design

SHORTEST_S: Final = 14 * 86_400.0
LONGEST_S: Final = 60 * 86_400.0
"""Simulated runs are as long as the planned one within these: in shorter ones the last interval weighs too much."""
MOST_FAILURES: Final = 3_000.0
MOST_INTERVALS: Final = 30_000.0
"""Expected number in a simulated run: beyond it runs are cut short, since they show all there is to see."""


class Cell(Struct, frozen=True):
    """One alternative at one MTBF."""

    mtbf_s: float
    interval_s: float
    goodput: float
    """Simulated, if it was; else in closed form."""
    low: float | None
    high: float | None
    """95 % interval of the simulated figure; None in closed form."""
    closed_form: float
    seed: int | None


class Step(Struct, frozen=True):
    """One alternative at every MTBF, and what it brings against the one before at the expected MTBF."""

    rung: Rung
    cells: tuple[Cell, ...]
    points: float | None
    """Points of goodput gained; None for the first."""
    gpu_hours: float | None
    """GPU-hours kept more over the run; for charged spares, minus what they are paid."""
    money: float | None

    @property
    def expected(self) -> Cell:
        """At the expected MTBF."""
        return self.cells[len(self.cells) // 2]


def ladder(
    rungs: Sequence[Rung], mtbfs_s: Sequence[float], inputs: Inputs, hours: float, *, num_runs: int, seed: int
) -> Iterator[Step]:
    """Every rung as a step of the ladder over a run of so many hours.

    All rungs meet the same failures (one seed), so that what they differ by isn't chance.
    """
    if num_runs == 1:
        raise ModelError("runs is 1; expected at least 2, for an interval, or 0 for the closed form")
    price = inputs.value("price") if inputs.has("price") else None
    before: Cell | None = None
    for rung in rungs:
        cells = tuple(_cell(rung, mtbf_s, hours * 3600, num_runs, seed) for mtbf_s in mtbfs_s)
        here = cells[len(cells) // 2]
        points = None if before is None else (here.goodput - before.goodput) * 100
        gained = None if before is None else (here.goodput - before.goodput) * inputs.num_gpus * hours
        if rung.spare_share:
            gained = -inputs.value("spares") * inputs.value("gpus_per_node") * hours
        money = None if gained is None or price is None else gained * price
        yield Step(rung, cells, points, gained, money)
        before = here


def _cell(rung: Rung, mtbf_s: float, duration_s: float, num_runs: int, seed: int) -> Cell:
    interval_s = rung.best_interval_s(mtbf_s)
    closed = rung.goodput(interval_s, mtbf_s)
    if not num_runs:
        return Cell(mtbf_s, interval_s, closed, None, None, closed, None)
    from tachograph_collector.model.simulate import Failures, simulate

    outcome = simulate(
        design(rung, interval_s),
        Failures(mtbf_s),
        duration_s=simulated_s(duration_s, interval_s, mtbf_s),
        num_runs=num_runs,
        seed=seed,
    )
    paid = 1 + rung.spare_share
    low, high = outcome.goodput_interval()
    return Cell(mtbf_s, interval_s, outcome.goodput / paid, low / paid, high / paid, closed, seed)


def design(rung: Rung, interval_s: float) -> Design:
    """The rung as the simulator takes it; spares are charged on top of what it gives."""
    from tachograph_collector.model.simulate import Design

    return Design(
        interval_s=interval_s,
        blocking_s=rung.cost_s,
        persist_s=rung.persist_s if rung.saves == "asynchronous" else None,
        detect_s=rung.detect_s,
        replace_s=rung.replace_s,
        reload_s=rung.reload_s,
        warmup_s=rung.warmup_s,
        peer_share=rung.peer_share,
        peer_reload_s=rung.peer_reload_s,
    )


def simulated_s(duration_s: float, interval_s: float, mtbf_s: float) -> float:
    """How long the simulated runs are, in seconds."""
    wanted = min(max(duration_s, SHORTEST_S), LONGEST_S)
    return max(min(wanted, MOST_FAILURES * mtbf_s, MOST_INTERVALS * interval_s), 10 * interval_s)
