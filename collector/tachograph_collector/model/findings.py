"""What the judge says: one sentence for each thing it found, with what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from tachograph_collector.model.advice import Advice, Undivided, predicted_goodput
from tachograph_collector.model.conditional import Conditional, lost_per_failure
from tachograph_collector.model.estimate import Measured
from tachograph_collector.model.evalue import RateAlarm
from tachograph_collector.model.facts import Facts, Stakes
from tachograph_collector.model.recorded import PARTS
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
class Finding:
    """One thing to say, with what it costs."""

    kind: Kind
    level: Level
    sentence: str
    points: float | None = None
    gpu_hours_a_day: float | None = None
    money_a_day: float | None = None


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


def hidden_loss(conditional: Conditional | None, measured: Measured, facts: Facts, stakes: Stakes) -> list[Finding]:
    """The main alarm, with what it costs and which parts of the window exceed what the model gives them."""
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


def fast_failures(rate: RateAlarm | None, measured: Measured, advice: Advice | None, stakes: Stakes) -> list[Finding]:
    """Failures that come faster than planned."""
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


def slow_persist(measured: Measured, advice: Advice | None, stakes: Stakes) -> list[Finding]:
    """A persist that takes longer than the interval."""
    persist, tau = measured.mean_persist_s, measured.interval_s
    if advice is None or tau is None or persist <= tau:
        return []
    sentence = (
        f"A save takes {span(persist)} to land, longer than the {span(tau)} between saves, so that training waits for "
        f"storage and a failure falls back past two saves: saving every {span(advice.best.tau_s)} instead is worth "
        f"{stakes.words(advice.gain_points)}."
    )
    return [_finding("persist", "alarm", sentence, advice.gain_points, stakes)]


def undivided_mtbf(wrong: Undivided | None, measured: Measured, stakes: Stakes) -> list[Finding]:
    """An interval longer than the job's MTBF."""
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


def interval_advice(advice: Advice | None, measured: Measured, stakes: Stakes) -> list[Finding]:
    """What to do about the interval, or why nothing."""
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


def nothing_missing(conditional: Conditional, facts: Facts) -> Finding:
    """What is said of a run that its failures explain; where less was kept than they do, why that says nothing."""
    share = facts.exposure_s / facts.wall_s
    kept, explained = percent(conditional.observed * share), _explained(conditional, facts)
    if conditional.z > -1:
        sentence = f"Nothing is missing: {kept} was kept, and {explained}."
    else:
        less = points(100 * (conditional.expected - conditional.observed) * share)
        sentence = (
            f"Nothing is missing beyond chance: {kept} was kept, and {explained}. The {less} between them are "
            f"{-conditional.z:.1f} times what chance gives or takes; from {conditional.limit:.1f} times on it would be "
            "said that something else costs time."
        )
    return Finding(kind="fine", level="fine", sentence=sentence)


def too_little(measured: Measured, facts: Facts) -> Finding:
    """What is missing for a judgement, and what can be said nevertheless."""
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
