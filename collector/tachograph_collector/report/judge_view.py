"""The judge's view of a run, ready to be shown: what was measured, predicted against observed, and waste by cause.

The model needs numpy and scipy, which the base install lacks: there is no view then, and ``MISSING`` says what to type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tachograph_collector.report.model import RunReport
from tachograph_collector.report.text import count, hours, joined, percent, seconds, visible
from tachograph_collector.report.verdict import cause_words

if TYPE_CHECKING:
    from tachograph_collector.model.judge import Judgement
    from tachograph_collector.model.memoryless import Assessed

MISSING: Final = (
    "How the run compares with the checkpoint model needs numpy and scipy; type: pip install 'tachograph[collector]'"
)
MAX_CAUSES: Final = 8

Rows = Sequence[tuple[str, str]]
"""(what, words)"""


@dataclass(frozen=True, slots=True)
class JudgeView:
    """One run's judgement in words. Nothing in it comes from a log unescaped."""

    judgement: Judgement
    sentence: str
    others: Sequence[str]
    """Further findings, a sentence each."""
    measured: Rows
    goodput: Rows
    waste: Rows


def is_available() -> bool:
    """Whether the packages that the model needs are installed."""
    return find_spec("numpy") is not None and find_spec("scipy") is not None


def judged(run: RunReport) -> Judgement | None:
    """The judgement of a run or window; None for one of no length, and where the packages are missing."""
    if not is_available():
        return None
    from tachograph_collector.model.judge import judge

    return judge(run.books, run.details, price_per_gpu_hour=run.price)


def judge_view(run: RunReport) -> JudgeView | None:
    """The view of a run or window; None where ``judged`` is."""
    told = judged(run)
    if told is None:
        return None
    return JudgeView(
        judgement=told,
        sentence=told.sentence,
        others=[finding.sentence for finding in told.findings[1:]],
        measured=list(_measured(told)),
        goodput=list(_goodput(run, told)),
        waste=list(_waste(run, told)),
    )


def _span(value: float | None) -> str:
    return hours(None if value is None or math.isinf(value) else round(value * 1e6))


def _measured(told: Judgement) -> Iterator[tuple[str, str]]:
    measured = told.measured
    if measured.tau.num:
        yield "interval", f"{_span(measured.interval_s)} between landed saves ({count(measured.tau.num, 'interval')})"
    if measured.mean_cost_s is not None:
        lands = f", lands {_span(measured.mean_persist_s)} later" if measured.persist.num else ""
        yield "save", f"blocks {_span(measured.mean_cost_s)}{lands} ({count(measured.cost.num, 'save')})"
    if measured.restart.num:
        order = ("detect", "replace", "reload", "warmup", "other")
        parts = [
            f"{visible(name)} {_span(measured.restart_parts[name])}" for name in order if name in measured.restart_parts
        ]
        split = f": {', '.join(parts)}" if parts else ""
        yield "restart", f"{_span(measured.restart.mean_s)} ({count(measured.restart.num, 'failure')}){split}"
        together = measured.incident_down
        if together.num and together.num != measured.restart.num:
            yield "incident", f"{_span(together.mean_s)} until back for good ({count(together.num, 'incident')})"
    yield "MTBF", _mtbf(told)
    yield "failures", _failures(told)


def _mtbf(told: Judgement) -> str:
    measured = told.measured
    low, high = measured.mtbf_interval_s
    failures = count(measured.raw_mtbf.num_failures, "failure")
    if measured.mtbf_s is None:
        return f"above {_span(low)} (95 %): no failure in {_span(measured.exposure_s)}"
    grouped = f"{failures} in {count(measured.incident_mtbf.num_failures, 'incident')}"
    plan = f", the planned {_span(measured.planned_mtbf_s)} counted as one" if measured.belief.has_plan else ""
    return f"{_span(measured.mtbf_s)}, {_span(low)} to {_span(high)} (95 %; {grouped}{plan})"


def _failures(told: Judgement) -> str:
    memory = told.memorylessness
    if not memory.enough:
        return f"not enough failures to judge clusters or a trend ({memory.num_failures} of 10)"
    said = []
    if memory.clusters is not None and memory.clusters.rejects:
        said.append(f"in clusters ({memory.num_short_gaps} within 20 min of another)")
    elif memory.exponential is not None and memory.exponential.rejects:
        said.append("not memoryless")
    if memory.trend is not None and memory.trend.rejects:
        said.append(f"becoming {'more frequent' if memory.trend.statistic > 0 else 'rarer'}")
    return joined(said) if said else "without memory or trend, as the model assumes"


def _goodput(run: RunReport, told: Judgement) -> Iterator[tuple[str, str]]:
    yield "observed", percent(run.books.goodput)
    share = told.facts.exposure_s / told.facts.wall_s
    check = told.conditional
    if check is not None:
        give = f"{100 * check.deviation * share:.1f}"
        happened = count(check.num_failures, "failure")
        down = told.facts.parts_s["down"]
        yield "explained", f"{percent(check.expected * share)} ± {give} by {happened} and {_span(down)} of down time"
    planned = " of time that was not planned down time" if share < 0.9995 else ""
    advice, band = told.advice, told.band
    if advice is not None:
        use = advice.in_use
        low, high = f"{100 * use.low:.1f}", percent(use.high)
        yield "predicted", f"{percent(use.goodput)}{planned} in the long run, {low} to {high} over the MTBF's interval"
    if band is not None:
        yield "by chance", f"{100 * band.low:.1f} to {percent(band.high)} for 95 % of runs of this length"
    if advice is not None:
        best = advice.best
        yield "best", f"{percent(best.goodput)} saving every {_span(best.tau_s)} (+{advice.gain_points:.1f} points)"


def _waste(run: RunReport, told: Judgement) -> Iterator[tuple[str, str]]:
    wall = run.books.wall_us
    for one in told.waste[:MAX_CAUSES]:
        split = f", {hours(one.lost_us)} of it lost work" if one.lost_us and one.other_us else ""
        yield cause_words(one.cause), f"{percent(one.total_us / wall)} · {hours(one.total_us)}{split}"
    rest = told.waste[MAX_CAUSES:]
    if rest:
        yield "the rest", f"{percent(sum(one.total_us for one in rest) / wall)} · {count(len(rest), 'more cause')}"


def model_object(told: Judgement) -> dict[str, Any]:
    """The judgement as plain JSON values; ``docs/replay-json.md`` describes every key."""
    measured, advice, band, check = told.measured, told.advice, told.band, told.conditional
    share = told.facts.exposure_s / told.facts.wall_s
    rate, memory = told.rate, told.memorylessness
    low, high = measured.mtbf_interval_s
    return {
        "sentence": told.sentence,
        "level": told.level,
        "findings": [
            {
                "kind": finding.kind,
                "level": finding.level,
                "sentence": finding.sentence,
                "points": finding.points,
                "gpu_hours_per_day": finding.gpu_hours_a_day,
                "money_per_day": finding.money_a_day,
            }
            for finding in told.findings
        ],
        "measured": {
            "interval_s": measured.interval_s,
            "num_intervals": measured.tau.num,
            "cost_s": measured.mean_cost_s,
            "num_costs": measured.cost.num,
            "persist_s": measured.persist.mean_s,
            "num_persists": measured.persist.num,
            "restart_s": measured.restart.mean_s,
            "num_restarts": measured.restart.num,
            "restart_parts_s": dict(measured.restart_parts),
            "incident_s": measured.incident_down.mean_s,
            "num_incidents": measured.incident_mtbf.num_failures,
            "num_failures": measured.raw_mtbf.num_failures,
            "mtbf_s": measured.mtbf_s,
            "mtbf_low_s": low,
            "mtbf_high_s": _finite(high),
            "raw_mtbf_s": measured.raw_mtbf.mean_s,
            "mtbf_has_plan": measured.belief.has_plan,
            "exposure_s": measured.exposure_s,
        },
        "goodput": {
            "observed": told.facts.parts_s["kept"] / told.facts.wall_s,
            "explained": None if check is None else check.expected * share,
            "explained_deviation": None if check is None else check.deviation * share,
            "z": None if check is None else check.z,
            "alarm": None if check is None else check.fires,
            "predicted": None if advice is None else advice.in_use.goodput,
            "predicted_low": None if advice is None else advice.in_use.low,
            "predicted_high": None if advice is None else advice.in_use.high,
            "band_low": None if band is None else band.low,
            "band_high": None if band is None else band.high,
        },
        "best": None
        if advice is None
        else {
            "advice": advice.kind,
            "interval_s": advice.best.tau_s,
            "interval_low_s": advice.best_range_s[0],
            "interval_high_s": None if math.isinf(high) else advice.best_range_s[1],
            "goodput": advice.best.goodput,
            "gain_points": advice.gain_points,
            "restart_points": advice.restart_points,
            "interval_points": advice.interval_points,
        },
        "rate": None
        if rate is None
        else {"num_planned": rate.num_planned, "evalue": rate.greatest_evalue, "alarm": rate.fires},
        "memorylessness": {
            "exponential_p": _p(memory.exponential),
            "clusters_p": _p(memory.clusters),
            "trend_p": _p(memory.trend),
            "num_short_gaps": memory.num_short_gaps,
        },
        "waste": [
            {
                "cause": one.cause.encode("utf-8", "backslashreplace").decode(),
                "lost_s": seconds(one.lost_us),
                "other_s": seconds(one.other_us),
            }
            for one in told.waste
        ],
    }


def _p(test: Assessed | None) -> float | None:
    return None if test is None else test.p_value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
