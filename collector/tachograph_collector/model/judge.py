"""Is a run's goodput what its failures explain? Says in one sentence what is wrong and what it costs.

``judge`` puts the checks together: the conditional check (main alarm), the rate of failures against the plan, a persist
that doesn't fit, an interval longer than the MTBF, and advice on the interval. What is computed is in the modules of
those names; here is decided what is said, and what comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.model.advice import Advice, Undivided, advise, predicted_goodput, undivided
from tachograph_collector.model.band import Band, predictive_band
from tachograph_collector.model.conditional import ALPHA, Conditional, conditional_check, lost_per_failure
from tachograph_collector.model.estimate import Measured, measure_recorded
from tachograph_collector.model.evalue import RateAlarm, rate_alarm
from tachograph_collector.model.memoryless import Memorylessness, memorylessness
from tachograph_collector.model.recorded import PARTS, recorded
from tachograph_collector.model.waste import Waste, waste_by_cause
from tachograph_collector.model.words import count, number, percent, points, span

Level = Literal["alarm", "advice", "fine", "too_little"]
Kind = Literal["hidden_loss", "rate", "persist", "undivided", "interval", "restarts", "flat_top", "fine", "too_little"]

FEWEST_INTERVALS: Final = 3
"""Without so many intervals between landed saves there is nothing to compare with."""
FEWEST_PERIODS: Final = 10
"""A window shorter than so many intervals is all edges."""
FEWEST_RESTARTS: Final = 3
"""With fewer incidents nobody knows what restarts cost."""
WORTH_NAMING: Final = 0.2
"""A part of the window that explains less of what is missing is not named."""
CHANCE: Final = 2.0
"""Standard deviations within which failures lose more or less by chance."""
_NAMES: Final = {
    "saving": "saves that take longer or come more often than the interval in use",
    "aborted_saves": "saves that did not land",
    "lost_to_failures": "failures that threw away more than one interval",
    "lost_otherwise": "work thrown away without a failure",
    "stalls": "stalls",
    "other_restart": "time without training that no failure explains",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What happened in the window that is judged. Seconds."""

    wall_s: float
    parts_s: dict[str, float]
    """By the names of ``recorded.PARTS``; they sum to ``wall_s``."""
    num_failures: int
    num_failures_at_work: int
    """Those that struck an attempt that had stepped: the others struck in a restart and lost no work."""
    begins_with_startup: bool

    @property
    def exposure_s(self) -> float:
        """The window without planned down time and queueing."""
        return self.wall_s - self.parts_s["planned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """What a point of goodput is worth. None where nobody said."""

    gpus: float | None = None
    price_per_gpu_hour: float | None = None

    def gpu_hours_a_day(self, lost_points: float) -> float | None:
        """GPU-hours that so many points cost a day."""
        return None if self.gpus is None else lost_points / 100 * 24 * self.gpus

    def money_a_day(self, lost_points: float) -> float | None:
        """Their price."""
        hours = self.gpu_hours_a_day(lost_points)
        return None if hours is None or self.price_per_gpu_hour is None else hours * self.price_per_gpu_hour

    def words(self, lost_points: float) -> str:
        """``7.1 points, 109 GPU-hours a day (262 in money)``"""
        hours, money = self.gpu_hours_a_day(lost_points), self.money_a_day(lost_points)
        told = points(lost_points)
        if hours is not None:
            told += f", {number(hours)} GPU-hours a day"
        return told if money is None else f"{told} ({number(money)} in money)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to say, with what it costs."""

    kind: Kind
    level: Level
    sentence: str
    points: float | None = None
    gpu_hours_a_day: float | None = None
    money_a_day: float | None = None


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
) -> Judgement | None:
    """Judge a run, or the window that its books and details were clipped to, by its own numbers.

    None for a run of no length. ``num_looks`` says how often the same run will be judged, see ``conditional_check``.
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
    return judge_measured(measured, facts, stakes, num_looks=num_looks, seed=seed, waste=waste_by_cause(books, details))


def judge_measured(
    measured: Measured,
    facts: Facts,
    stakes: Stakes,
    *,
    num_looks: int = 1,
    seed: int = 0,
    waste: Sequence[Waste] = (),
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
        *_hidden_loss(conditional, measured, facts, stakes),
        *_rate(rate, measured, advice, stakes),
        *_persist(measured, advice, stakes),
        *_undivided(wrong, measured, stakes),
    ]
    found.sort(key=lambda one: -(one.points or 0.0))
    if conditional is None:
        found.append(_too_little(measured, facts))
    else:
        if not any(one.kind in ("persist", "undivided") for one in found):  # those advise on the interval themselves
            found += _interval(advice, measured, stakes)
        if not any(one.level in ("alarm", "advice") for one in found):
            found.insert(0, _fine(conditional, facts))
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


def excess_s(conditional: Conditional, measured: Measured, facts: Facts) -> dict[str, float]:
    """By how many seconds each part of the window exceeds what the model gives it; only what is above 0."""
    tau, cost = measured.interval_s or 0.0, measured.mean_cost_s or 0.0
    mtbf_s = measured.mtbf_s or measured.belief.mtbf_s
    lost = float(lost_per_failure(tau + cost, mtbf_s)) + measured.mean_persist_s
    expected = dict.fromkeys(PARTS, 0.0)
    expected["saving"] = conditional.expected * facts.exposure_s * cost / tau
    expected["lost_to_failures"] = facts.num_failures_at_work * lost * tau / (tau + cost)
    over = {part: facts.parts_s[part] - expected[part] for part in _NAMES}
    if over["lost_to_failures"] < CHANCE * conditional.deviation * facts.exposure_s:
        del over["lost_to_failures"]  # where in their interval failures happen to strike
    return {part: seconds for part, seconds in over.items() if seconds > 0}


def _finding(kind: Kind, level: Level, sentence: str, lost_points: float, stakes: Stakes) -> Finding:
    return Finding(
        kind=kind,
        level=level,
        sentence=sentence,
        points=lost_points,
        gpu_hours_a_day=stakes.gpu_hours_a_day(lost_points),
        money_a_day=stakes.money_a_day(lost_points),
    )


def _hidden_loss(conditional: Conditional | None, measured: Measured, facts: Facts, stakes: Stakes) -> list[Finding]:
    if conditional is None or not conditional.fires:
        return []
    missing = 100 * conditional.missing_s / facts.wall_s
    over = sorted(excess_s(conditional, measured, facts).items(), key=lambda pair: -pair[1])
    named = [
        f"{span(seconds)} {_NAMES[part]}" for part, seconds in over if seconds > WORTH_NAMING * conditional.missing_s
    ]
    where = f", of it {' and '.join(named[:2])}" if named else ""
    sentence = (
        f"{percent(conditional.observed * facts.exposure_s / facts.wall_s)} was kept where "
        f"{_explained(conditional, facts)}: something else costs {stakes.words(missing)}{where}."
    )
    return [_finding("hidden_loss", "alarm", sentence, missing, stakes)]


def _explained(conditional: Conditional, facts: Facts) -> str:
    """``6 failures and 1.5 h of down time explain 92.8 % (give or take 0.7 points)``"""
    share = facts.exposure_s / facts.wall_s
    down = facts.parts_s["down"]
    what = count(conditional.num_failures, "failure")
    what += " at work" if conditional.num_failures != facts.num_failures else ""
    what = f"{what} and {span(down)} of down time explain" if down >= 1 else f"{what} would explain"
    return (
        f"{what} {percent(conditional.expected * share)} (give or take {points(100 * conditional.deviation * share)})"
    )


def _rate(rate: RateAlarm | None, measured: Measured, advice: Advice | None, stakes: Stakes) -> list[Finding]:
    if rate is None or not rate.fires or measured.planned_mtbf_s is None:
        return []
    seen, planned = measured.incident_mtbf.mean_s, measured.planned_mtbf_s
    assert seen is not None  # more failures than planned are at least one
    said = (
        f"Failures come faster than planned: {count(rate.num_failures, 'incident')} in "
        f"{span(measured.exposure_s)}, one every {span(seen)}, where one every {span(planned)} was planned "
        f"(E = {number(rate.greatest_evalue)}, alarm from {number(1 / rate.alpha)})"
    )
    if planned > 5 * seen:
        said += ", as if a node's MTBF had not been divided by the number of nodes"
    lost = 0.0
    if advice is not None:
        tau, cost = advice.in_use.tau_s, measured.mean_cost_s or 0.0
        kept = predicted_goodput([tau, tau], cost, measured.restarts_s, [planned, seen], measured.mean_persist_s)
        lost = 100 * max(0.0, float(kept[0] - kept[1]))
        said += f"; against the plan that costs {stakes.words(lost)}"
    return [_finding("rate", "alarm", said + ".", lost, stakes)]


def _persist(measured: Measured, advice: Advice | None, stakes: Stakes) -> list[Finding]:
    persist, tau = measured.mean_persist_s, measured.interval_s
    if advice is None or tau is None or persist <= tau:
        return []
    sentence = (
        f"A save takes {span(persist)} to land, longer than the {span(tau)} between saves, so that training waits for "
        f"storage and a failure falls back past two saves: saving every {span(advice.best.tau_s)} instead is worth "
        f"{stakes.words(advice.gain_points)}."
    )
    return [_finding("persist", "alarm", sentence, advice.gain_points, stakes)]


def _undivided(wrong: Undivided | None, measured: Measured, stakes: Stakes) -> list[Finding]:
    if wrong is None:
        return []
    whose = (
        "The interval in use"
        if (measured.planned_interval_s or 0) < wrong.planned_interval_s
        else "The planned interval"
    )
    sentence = (
        f"{whose}, {span(wrong.planned_interval_s)}, is longer than the job's MTBF of {span(wrong.mtbf_s)}, as if that "
        f"had not been divided by the number of nodes: it keeps {percent(wrong.goodput)} where saving every "
        f"{span(wrong.best_tau_s)} keeps {percent(wrong.best_goodput)}, which costs {stakes.words(wrong.points)}."
    )
    return [_finding("undivided", "alarm", sentence, wrong.points, stakes)]


def _interval(advice: Advice | None, measured: Measured, stakes: Stakes) -> list[Finding]:
    if advice is None:
        return []
    tau, best, gain = advice.in_use.tau_s, advice.best.tau_s, advice.gain_points
    known = "" if measured.mtbf_s is not None else f", even at an MTBF of {span(measured.mtbf_interval_s[0])}"
    if advice.kind == "change":
        where = span(best) if not known else f"{span(best)} or more"
        sentence = (
            f"Saving every {span(tau)} keeps {percent(advice.in_use.goodput)} where every {where} would keep "
            f"{percent(advice.best.goodput)}{known}: the interval costs {stakes.words(gain)}."
        )
        return [_finding("interval", "advice", sentence, gain, stakes)]
    if advice.kind == "uncertain":
        low, high = sorted(advice.best_range_s)
        upper = "any length" if math.isinf(measured.mtbf_interval_s[1]) else span(high)
        sentence = (
            f"Saving every {span(tau)} may be off, {points(gain)} by the best estimate, but "
            f"{count(measured.incident_mtbf.num_failures, 'incident')} put the best interval anywhere from {span(low)} "
            f"to {upper}: nothing to change yet."
        )
        return [_finding("interval", "fine", sentence, gain, stakes)]
    if advice.kind == "restarts_dominate" and measured.incident_down.num >= FEWEST_RESTARTS:
        part = max(measured.restart_parts.items(), key=lambda pair: pair[1], default=None)
        whole = measured.restart.mean_s
        which = f"; {part[0]} takes {span(part[1])} of the {span(whole)} of one" if part is not None and whole else ""
        sentence = (
            f"Restarts cost {stakes.words(advice.restart_points)}, saving and the work lost between saves together "
            f"{points(advice.interval_points)}: no interval will help{which}."
        )
        return [_finding("restarts", "advice", sentence, advice.restart_points, stakes)]
    sentence = (
        f"The interval of {span(tau)} is within half and double of the best, {span(best)}, where goodput is flat: "
        f"leave it{known}."
    )
    return [_finding("flat_top", "fine", sentence, gain, stakes)]


def _fine(conditional: Conditional, facts: Facts) -> Finding:
    sentence = (
        f"Nothing is missing: {percent(conditional.observed * facts.exposure_s / facts.wall_s)} was kept, and "
        f"{_explained(conditional, facts)}."
    )
    return Finding(kind="fine", level="fine", sentence=sentence)


def _too_little(measured: Measured, facts: Facts) -> Finding:
    num = measured.raw_mtbf.num_failures
    seen = f"{count(num, 'failure')} in {span(measured.exposure_s)}"
    if num:
        seen += f" put the MTBF between {span(measured.raw_mtbf.low_s)} and {span(measured.raw_mtbf.high_s)}"
    else:
        seen += f": the MTBF is above {span(measured.raw_mtbf.low_s)} (95 %)"
    if not measured.saves_seen:
        why = "this log can't show saves"
    elif measured.tau.num < FEWEST_INTERVALS:
        why = f"{count(measured.tau.num, 'interval')} between landed saves where {FEWEST_INTERVALS} are needed"
    elif measured.mean_cost_s is None:
        why = "no save's duration is known"
    else:
        why = f"{span(facts.exposure_s)} are less than {FEWEST_PERIODS} intervals of {span(measured.interval_s or 0.0)}"
    return Finding(kind="too_little", level="too_little", sentence=f"Too little data to judge: {why}; {seen}.")
