"""Is a run's goodput what its failures explain? Says in one sentence what is wrong and what it costs.

``judge`` puts the checks together: the conditional check (main alarm), the rate of failures against the plan, a persist
that doesn't fit, an interval longer than the MTBF, and advice on the interval. What is computed is in the modules of
those names; here is decided what is said, and what comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.model.advice import Advice, Undivided, advise, undivided
from tachograph_collector.model.band import Band, predictive_band
from tachograph_collector.model.conditional import ALPHA, Conditional, conditional_check
from tachograph_collector.model.estimate import Measured, measure_recorded
from tachograph_collector.model.evalue import RateAlarm, rate_alarm
from tachograph_collector.model.facts import Facts, Stakes
from tachograph_collector.model.findings import (
    FEWEST_INTERVALS,
    FEWEST_PERIODS,
    Finding,
    Level,
    fast_failures,
    hidden_loss,
    interval_advice,
    nothing_missing,
    slow_persist,
    too_little,
    undivided_mtbf,
)
from tachograph_collector.model.memoryless import Memorylessness, memorylessness
from tachograph_collector.model.recorded import recorded
from tachograph_collector.model.waste import Waste, waste_by_cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judge's view. What could not be computed is None; ``findings`` are in order, the one that counts first."""

    sentence: str
    level: Level
    findings: Sequence[Finding]
    facts: Facts
    measured: Measured
    conditional: Conditional | None
    band: Band | None
    rate: RateAlarm | None
    advice: Advice | None
    undivided: Undivided | None
    memorylessness: Memorylessness
    waste: Sequence[Waste] = ()


def judge(
    books: Books,
    details: Details,
    *,
    price_per_gpu_hour: float | None = None,
    planned_mtbf_s: float | None = None,
    num_looks: int = 1,
    seed: int = 0,
    with_band: bool = True,
) -> Judgement | None:
    """Judge a run, or the window that its books and details were clipped to, by its own numbers.

    None for a run of no length. ``num_looks`` says how often the same run will be judged, see ``conditional_check``.
    The band is simulated, which takes most of the time: who looks every few minutes leaves it out.
    """
    if not details.segments:
        return None
    run = recorded(details)
    measured = measure_recorded(run, books, details, planned_mtbf_s=planned_mtbf_s)
    if measured is None:
        return None
    parts = run.parts_s()
    facts = Facts(
        wall_s=sum(parts.values()),
        parts_s=parts,
        num_failures=len(measured.failures),
        num_failures_at_work=sum(stop.at_work for stop in measured.failures),
        begins_with_startup=not bool(run.is_work[0]),
    )
    price = books.price_per_gpu_hour if price_per_gpu_hour is None else price_per_gpu_hour
    is_price = price is not None and 0 <= price < math.inf
    gpus = books.gpu.held / books.wall_us if books.gpu is not None and books.wall_us else books.world_size
    stakes = Stakes(gpus=gpus or None, price_per_gpu_hour=price if is_price else None)
    return judge_measured(
        measured,
        facts,
        stakes,
        num_looks=num_looks,
        seed=seed,
        waste=waste_by_cause(books, details),
        with_band=with_band,
    )


def judge_measured(
    measured: Measured,
    facts: Facts,
    stakes: Stakes,
    *,
    num_looks: int = 1,
    seed: int = 0,
    waste: Sequence[Waste] = (),
    with_band: bool = True,
) -> Judgement:
    """Judge a window by numbers that may come from another one: a live run's last day by the days before."""
    memory = memorylessness(
        [stop.struck_s for stop in measured.failures],
        [one.struck_s for one in measured.incidents],
        measured.exposure_s,
    )
    rate = None
    if measured.planned_mtbf_s is not None:
        times = [one.struck_s for one in measured.incidents]
        rate = rate_alarm(times, measured.exposure_s, measured.planned_mtbf_s)
    tau, cost = measured.interval_s, measured.mean_cost_s
    conditional = band = advice = wrong = None
    if tau is not None and cost is not None and _is_enough(measured, facts):
        mtbf_s = measured.mtbf_s or measured.belief.mtbf_s
        persist = measured.mean_persist_s
        conditional = conditional_check(
            exposure_s=facts.exposure_s,
            kept_s=facts.parts_s["kept"],
            down_s=facts.parts_s["down"],
            num_failures=facts.num_failures_at_work,
            tau_s=tau,
            cost_s=cost,
            mtbf_s=mtbf_s,
            persist_s=persist,
            alpha=ALPHA,
            num_looks=num_looks,
        )
        if with_band:
            band = predictive_band(
                measured.belief,
                window_s=facts.exposure_s,
                tau_s=tau,
                costs_s=measured.cost.values_s,
                restarts_s=measured.restarts_s,
                persist_s=persist,
                startup_s=measured.startup_s if facts.begins_with_startup else None,
                seed=seed,
            )
        # While the next save waits for the last one's persist, that wait is measured as blocking.
        blocking = cost if persist <= tau else max(cost - (persist - tau), 0.01 * cost)
        advice = advise(
            tau_s=tau,
            cost_s=blocking,
            restarts_s=measured.restarts_s,
            # Before the first failure: what holds at the shortest MTBF that is still possible.
            mtbf_s=measured.mtbf_s or measured.mtbf_interval_s[0],
            mtbf_interval_s=measured.mtbf_interval_s,
            persist_s=persist,
        )
        if measured.mtbf_s is not None:
            wrong = undivided(
                max(measured.planned_interval_s or 0.0, tau),
                cost_s=blocking,
                restarts_s=measured.restarts_s,
                mtbf_s=mtbf_s,
                persist_s=persist,
            )
    found = [
        *hidden_loss(conditional, measured, facts, stakes),
        *fast_failures(rate, measured, advice, stakes),
        *slow_persist(measured, advice, stakes),
        *undivided_mtbf(wrong, measured, stakes),
    ]
    found.sort(key=lambda one: -(one.points or 0.0))
    if conditional is None:
        found.append(too_little(measured, facts))
    else:
        if not any(one.kind in ("persist", "undivided") for one in found):  # those advise on the interval themselves
            found += interval_advice(advice, measured, stakes)
        if not any(one.level in ("alarm", "advice") for one in found):
            found.insert(0, nothing_missing(conditional, facts))
    return Judgement(
        sentence=found[0].sentence,
        level=found[0].level,
        findings=found,
        facts=facts,
        measured=measured,
        conditional=conditional,
        band=band,
        rate=rate,
        advice=advice,
        undivided=wrong,
        memorylessness=memory,
        waste=waste,
    )


def _is_enough(measured: Measured, facts: Facts) -> bool:
    period_s = (measured.interval_s or 0.0) + (measured.mean_cost_s or 0.0)
    return measured.tau.num >= FEWEST_INTERVALS and facts.exposure_s >= FEWEST_PERIODS * period_s > 0
