"""What the document says of one plan in numbers: computed once, so that every section says the same."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, floor
from typing import Final

from tachograph_collector.model.decision import Thresholds, thresholds
from tachograph_collector.model.plan.ladder import Step
from tachograph_collector.model.plan.plan import Plan
from tachograph_collector.model.plan.quantity import shown
from tachograph_collector.model.plan.rungs import Rung

_LONG: Final = 500.0
"""A period of so many MTBFs never ends."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Seconds and GPU-hours of the design that a plan recommends."""

    plan: Plan
    rung: Rung
    """The recommended design."""
    step: Step
    """Its row of the ladder."""
    now: Step
    """The row of what is done today."""
    next: Step | None
    """The row after it that brings most; None if there is none."""
    restart_s: float
    lost_s: float
    """Work that a failure loses on average: the part of an interval, and the persist that hadn't landed."""
    most_lost_s: float
    """The most that one failure can lose."""
    num_failures: float
    """Expected in the run."""
    goal: float
    """The goodput that the design promises: what it reaches at the low end of the MTBF's range, rounded down."""
    limits: Thresholds

    @property
    def failure_s(self) -> float:
        """What one failure costs: the way back, and the work that is done again."""
        return self.restart_s + self.lost_s

    @property
    def num_gpus(self) -> int:
        """GPUs that stand still then."""
        return self.plan.inputs.num_gpus

    def gpu_hours(self, seconds: float) -> float:
        """So long on all GPUs."""
        return seconds / 3600 * self.num_gpus

    @property
    def today(self) -> str:
        """``a blocking save every 3 h``"""
        article = "an" if self.now.rung.saves == "asynchronous" else "a"
        return f"{article} {self.now.rung.saves} save every {shown(self.now.expected.interval_s, 'time')}"

    @property
    def other_is_better(self) -> bool:
        """Whether the way of saving that was not asked for would keep more."""
        return self.plan.other.goodput > self.plan.advice.goodput

    @property
    def save_word(self) -> str:
        """What a save blocks: ``snapshot`` or ``blocking save``."""
        return "snapshot" if self.rung.saves == "asynchronous" else "blocking save"


def facts(plan: Plan) -> Facts:
    """The numbers of a plan."""
    rows = {step.rung.key: step for step in plan.ladder}
    step = rows[plan.advice.saves]
    rung = step.rung
    restart_s, interval_s, mtbf_s = plan.costs.restart_s, plan.advice.interval_s, plan.mtbfs_s[1]
    period_s = max(interval_s, rung.persist_s) + rung.cost_s
    goal = floor(plan.advice.goodput_low * 100) / 100
    return Facts(
        plan=plan,
        rung=rung,
        step=step,
        now=rows["now"],
        next=_next(plan, step),
        restart_s=restart_s,
        lost_s=_mean_into(period_s, mtbf_s) + rung.persist_s,
        most_lost_s=interval_s + rung.cost_s + rung.persist_s,
        num_failures=plan.inputs.value("run_length") / mtbf_s,
        goal=goal,
        limits=thresholds(
            interval_s,
            rung.cost_s,
            rung.persist_s,
            restart_s,
            mtbf_s,
            other_cost_s=(plan.costs.blocking if rung.saves == "asynchronous" else plan.costs.snapshot).value,
            goal=max(goal, 0.01),
        ),
    )


def _next(plan: Plan, step: Step) -> Step | None:
    """The row beyond ``step`` that brings the most GPU-hours, what its spares are paid taken off; None if none does."""
    charged = next((each.gpu_hours or 0.0 for each in plan.ladder if each.rung.key == "charged"), 0.0)
    gains = {
        each.rung.key: (each.gpu_hours or 0.0) + (charged if each.rung.key == "spares" else 0.0)
        for each in plan.ladder[plan.ladder.index(step) + 1 :]
        if each.rung.key != "charged"
    }
    best = max(gains, key=lambda key: gains[key], default=None)
    if best is None or gains[best] <= 0:
        return None
    return next(each for each in plan.ladder if each.rung.key == best)


def _mean_into(period_s: float, mtbf_s: float) -> float:
    """How far into a period of saving and training a failure strikes on average: ``M - w / (exp(w/M) - 1)``."""
    ratio = period_s / mtbf_s
    # For short periods the difference loses digits; to first order it is half the period.
    if ratio < 1e-4:
        return period_s * exp(-ratio / 6) / 2
    return mtbf_s - period_s / expm1(ratio) if ratio < _LONG else mtbf_s
