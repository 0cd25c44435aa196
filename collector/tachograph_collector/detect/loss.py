"""Loss spikes, NaN in the open and hidden, skipped steps, and gradient norms (detection, "Loss and gradient norm").

The baseline is the last points that were not flagged, on a log scale where the loss is positive, with their slope (down
only) and their robust deviation: a spike stays out of what it is compared with, so that a second one soon after is
seen.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct, field

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import Course, Point
from tachograph_collector.detect.settings import LossSettings
from tachograph_collector.detect.tail import Tail
from tachograph_collector.detect.verdict import Cost, Evidence, Severity, Verdict
from tachograph_collector.model.words import span

SPIKE: Final = "loss_spike"
NAN: Final = "nan"
SKIPPED: Final = "skipped_steps"
NORM: Final = "grad_norm"
MAD_TO_DEVIATION: Final = 1.4826
USUAL_POINTS: Final = 512
REFIT_POINTS: Final = 4
"""The baseline is fitted again after so many new points."""
MIN_NORMS: Final = 16
CALM_RECORDS: Final = 2


class Fit(Struct, frozen=True):
    """The baseline: what the next point should be, and how far points stray."""

    middle: float
    slope: float
    deviation: float
    is_log: bool
    num: int


class Spike(Struct):
    """A spike that goes on."""

    since_us: int
    first_step: int
    fit: Fit
    num_points: int = 0
    num_high: int = 0
    num_calm: int = 0
    peak: float = 0.0
    last_high_step: int = 0


class LossState(Struct):
    """What is saved."""

    points: list[float] = field(default_factory=list)
    num_since_fit: int = 0
    fit: Fit | None = None
    recent_high: list[tuple[int, int]] = field(default_factory=list)
    """(time, step) of the last points above the lower bar; 0 for one below."""
    spike: Spike | None = None
    nan_since_us: int | None = None
    nan_since_step: int = 0
    last_loss: float | None = None
    num_identical: int = 0
    first_identical_us: int = 0
    first_identical_step: int = 0
    num_with_loss: int = 0
    num_changes: int = 0
    cadence: int = 1
    """A loss comes with each so-many-th record."""
    num_missing: int = 0
    last_loss_us: int = 0
    last_loss_step: int = 0
    skipped: list[int] = field(default_factory=list)
    num_skipped: int = 0
    """Skipped steps since the last stretch without any."""
    norms: list[float] = field(default_factory=list)
    num_odd_norms: int = 0
    tail: Tail = field(default_factory=Tail)
    usual_deviation: float | None = None
    """The baselines' robust deviation, smoothed: that of one is uncertain by an eighth."""
    lone_limit: float | None = None
    """In usual deviations: what a lone point must exceed by the run's own noise."""


def fitted(points: list[float], few: int) -> Fit:
    """The baseline of the points, oldest first; of few it is their lower quartile, and no deviation is known."""
    values = np.array(points)
    is_log = bool((values > 0).all())
    if is_log:
        values = np.log(values)
    num = len(values)
    if num < few:
        return Fit(float(np.quantile(values, 0.25)), 0.0, math.inf, is_log, num)
    half, quarter = num // 2, max(4, num // 4)
    overall = (float(np.median(values[-half:])) - float(np.median(values[:half]))) / (num - half)
    lately = (float(np.median(values[-quarter:])) - float(np.median(values[-2 * quarter : -quarter]))) / quarter
    slope = min(0.0, max(overall, lately))  # a curve that flattens would be undercut by a line through all of it
    residuals = values - slope * (np.arange(num) - (num - 1))
    middle = float(np.median(residuals[-quarter:]))
    deviation = MAD_TO_DEVIATION * float(np.median(np.abs(residuals[-half:] - np.median(residuals[-half:]))))
    return Fit(middle + slope, slope, deviation, is_log, num)


class LossDetector:
    """Takes the records of the rank that tells the loss, in order."""

    def __init__(self, settings: LossSettings, board: Board, course: Course, state: LossState) -> None:
        self._settings = settings
        self._board = board
        self._course = course
        self.state = state

    def reset(self, at_us: int, outcome: str = "attempt ended") -> None:
        """A new attempt or a rollback: the loss may lawfully be higher."""
        for name in (SPIKE, NAN, SKIPPED, NORM):
            self._board.clear_all(at_us, name, outcome)
        self.state = LossState(tail=self.state.tail, lone_limit=self.state.lone_limit)

    def step(self, point: Point) -> None:
        """Judge one record."""
        state = self.state
        self._norm(point)
        if not point.has_loss:
            self._missing(point)
            return
        if state.num_with_loss and not state.num_missing:
            state.cadence = 1
        elif state.num_with_loss:
            state.cadence = max(state.cadence, state.num_missing + 1)
        state.num_missing, state.last_loss_us, state.last_loss_step = 0, point.t_us, point.step
        state.num_with_loss += 1
        if self._not_a_number(point):
            return
        if state.nan_since_us is not None:
            state.nan_since_us = None
            self._board.clear(point.t_us, NAN, "run")
        if not point.is_eligible:
            self._learn(point.loss)
            self._board.sight(SPIKE, "eligible", "warm-up")
        elif state.spike is not None:
            self._go_on(point, state.spike)
        else:
            self._judge(point)

    # -- spikes ------------------------------------------------------------------------------------------------------

    def _learn(self, loss: float) -> None:
        state = self.state
        state.points.append(loss)
        del state.points[: -self._settings.baseline_points]
        state.num_since_fit += 1
        if state.fit is not None:
            state.fit = Fit(
                state.fit.middle + state.fit.slope,
                state.fit.slope,
                state.fit.deviation,
                state.fit.is_log,
                state.fit.num,
            )

    def _fit(self) -> Fit | None:
        state, few = self.state, self._settings.few_points
        if len(state.points) < 4:
            return None
        if state.fit is None or state.num_since_fit >= REFIT_POINTS or len(state.points) < 2 * few:
            state.fit, state.num_since_fit = fitted(state.points, few), 0
        return state.fit

    def _height(self, fit: Fit, loss: float) -> tuple[float, float]:
        """How far above the baseline: in robust deviations, and as a ratio to it."""
        floor = self._settings.floor
        if fit.is_log and loss > 0:
            above = math.log(loss) - fit.middle
            return above / max(fit.deviation, floor), math.exp(min(above, 700.0))
        middle = math.exp(fit.middle) if fit.is_log else fit.middle
        scale = max(abs(middle), 1e-12)
        deviation = fit.deviation * scale if fit.is_log else fit.deviation
        return (loss - middle) / max(deviation, floor * scale), 1.0 + (loss - middle) / scale

    def _judge(self, point: Point) -> None:
        state, settings = self.state, self._settings
        fit = self._fit()
        if fit is None:
            self._board.sight(SPIKE, "eligible", "too few losses to compare with")
            self._learn(point.loss)
            return
        self._board.evaluated(SPIKE)
        deviations, ratio = self._height(fit, point.loss)
        twice = ratio >= settings.critical_ratio and (
            fit.num < settings.few_points or deviations > settings.again_deviations
        )
        usual = deviations * self._against_usual(fit)
        high = deviations > settings.warn_deviations and usual > (state.lone_limit or 0.0)
        high = high and ratio >= 1 + settings.warn_relative
        again = deviations > settings.again_deviations and ratio >= 1 + settings.again_relative
        state.recent_high.append((point.t_us, point.step) if again or twice else (0, 0))
        del state.recent_high[: -settings.again_n]
        flagged = [one for one in state.recent_high if one[0]]
        if twice or high or len(flagged) >= settings.again_k:
            since_us, first_step = flagged[0] if flagged else (point.t_us, point.step)
            state.spike = Spike(since_us=since_us, first_step=first_step, fit=fit)
            state.recent_high = []
            self._go_on(point, state.spike)
            return
        self._note_noise(fit, usual)
        if not again:
            self._learn(point.loss)  # a lone point above the bar was flagged, and stays out of the baseline

    def _against_usual(self, fit: Fit) -> float:
        """The baseline's deviation against the usual one."""
        usual = self.state.usual_deviation
        return 1.0 if usual is None or math.isinf(fit.deviation) else fit.deviation / usual

    def _note_noise(self, fit: Fit, deviations: float) -> None:
        """Learn how far this run's noise goes: of points that no spike was made of, high or low."""
        state = self.state
        if fit.num < self._settings.baseline_points:
            return
        before = state.usual_deviation or fit.deviation
        state.usual_deviation = max(before + (fit.deviation - before) / USUAL_POINTS, self._settings.floor)
        state.tail.add(deviations)
        if state.tail.num % REFIT_POINTS == 0:
            state.lone_limit = state.tail.once_in(self._settings.lone_points)

    def _go_on(self, point: Point, spike: Spike) -> None:
        settings, state = self._settings, self.state
        fit = spike.fit
        deviations, ratio = self._height(fit, point.loss)
        spike.num_points += 1
        spike.peak = point.loss if spike.num_points == 1 else max(spike.peak, point.loss)
        if math.isinf(fit.deviation):  # too few points to know how far they stray
            again = ratio >= 1 + settings.warn_relative
            below = not again
        else:
            again = deviations > settings.again_deviations and ratio >= 1 + settings.again_relative
            below = deviations < settings.clear_deviations or ratio < 1 + settings.again_relative / 2
        if again or spike.num_points == 1:
            spike.num_high += 1
            spike.last_high_step = point.step
        spike.num_calm = spike.num_calm + 1 if below else 0
        if below:
            self._learn(point.loss)
        if spike.num_calm >= CALM_RECORDS and point.step - spike.last_high_step >= settings.clear_steps:
            self._board.clear(point.t_us, SPIKE, "run", "recovered")
            state.spike = None
            return
        critical = ratio >= settings.critical_ratio or spike.num_high >= settings.critical_points
        diverged = spike.num_points >= settings.diverged_points and spike.num_high * 2 > spike.num_points
        if spike.num_points >= settings.settled_points:
            self._board.clear(point.t_us, SPIKE, "run", "diverged" if diverged else "lingering")
            state.spike, state.points, state.fit = None, [point.loss], None
            return
        if again or spike.num_points == 1:
            self._say(point, spike, "critical" if critical or diverged else "warning", is_diverged=diverged)

    def _say(self, point: Point, spike: Spike, severity: Severity, *, is_diverged: bool) -> None:
        fit = spike.fit
        baseline = math.exp(fit.middle) if fit.is_log else fit.middle
        more = self._cost_of_going_back(point, spike)
        verb = "has diverged" if is_diverged else "jumped"
        summary = f"the loss {verb} from {baseline:.4g} to {spike.peak:.4g} at step {spike.first_step}"
        self._board.say(
            point.t_us,
            Verdict(
                detector=SPIKE,
                subject="run",
                severity=severity,
                since_us=spike.since_us,
                summary=summary,
                evidence=Evidence(
                    value=spike.peak,
                    baseline=baseline,
                    threshold=baseline * (1 + self._settings.warn_relative),
                    num_samples=fit.num,
                    unit="loss",
                    more={
                        "first_step": spike.first_step,
                        "num_points": spike.num_points,
                        "in_question_s": (point.t_us - spike.since_us) / 1e6,
                        "robust_deviation": None if math.isinf(fit.deviation) else fit.deviation,
                        **more,
                    },
                ),
                advice=self._advice(spike, more),
                cost=self._cost(point, spike, more),
            ),
        )

    def _cost_of_going_back(self, point: Point, spike: Spike) -> dict[str, float | int | str | list[int] | None]:
        course = self._course
        save = course.newest_before(spike.first_step - self._settings.go_back_steps)
        if save is None:
            return {"go_back_to_step": None}
        seconds = None if course.one_s is None else (point.step - save.step) * course.one_s
        return {
            "go_back_to_step": save.step,
            "go_back_cost_s": seconds,
            "go_back_cost_gpu_hours": None if seconds is None else course.gpu_hours(seconds),
            "skip_from_step": save.step + 1,
            "skip_to_step": max(spike.last_high_step, spike.first_step),
        }

    def _cost(self, point: Point, spike: Spike, more: dict[str, float | int | str | list[int] | None]) -> Cost | None:
        """What going back would cost; where that can't be, the work since it began, which may be in vain."""
        back_s = more.get("go_back_cost_s")
        if isinstance(back_s, float):
            return self._course.cost(back_s, f"work to do again, if it goes back to step {more['go_back_to_step']}")
        return self._course.cost((point.t_us - spike.since_us) / 1e6, "work since it began, in vain if it stays")

    def _advice(self, spike: Spike, more: dict[str, float | int | str | list[int] | None]) -> str:
        back = more["go_back_to_step"]
        if back is None:
            steps = self._settings.go_back_steps
            return f"no landed checkpoint lies {steps} steps or more before step {spike.first_step}: wait and see"
        seconds, hours = more.get("go_back_cost_s"), more.get("go_back_cost_gpu_hours")
        cost = "" if not isinstance(seconds, float) else f", which does {span(seconds)} of work again"
        if isinstance(hours, float) and hours >= 0.05:
            cost += f" ({hours:.1f} GPU-hours)"
        return (
            f"if it stays, go back to the checkpoint of step {back}{cost}, and skip the batches of steps "
            f"{more['skip_from_step']} to {more['skip_to_step']}"
        )

    # -- not a number ------------------------------------------------------------------------------------------------

    def _not_a_number(self, point: Point) -> bool:
        """NaN, Inf, and a loss that hides them. No baseline is needed, so warm-up excuses nothing here."""
        state, settings = self.state, self._settings
        self._board.evaluated(NAN)
        if not math.isfinite(point.loss):
            self._say_nan(point, point.t_us, point.step, f"the loss is {_no_number(point.loss)}", is_hidden=False)
            return True
        no_norm = math.isnan(point.norm) and (point.has_norm or len(state.norms) > 0)  # logs write NaN as null
        if point.loss == 0.0 and no_norm:
            self._say_nan(point, point.t_us, point.step, "the loss is exactly 0 and the gradient norm NaN")
            return True
        if point.loss == state.last_loss:
            state.num_identical += 1
        else:
            if state.last_loss is not None:
                state.num_changes += 1
            state.num_identical, state.first_identical_us, state.first_identical_step = 1, point.t_us, point.step
        state.last_loss = point.loss
        if state.num_identical >= settings.identical_points and state.num_changes >= settings.identical_points:
            words = f"the loss is exactly {point.loss:g} in {state.num_identical} records in a row"
            self._say_nan(point, state.first_identical_us, state.first_identical_step, words)
            return True
        return False

    def _missing(self, point: Point) -> None:
        state, settings = self.state, self._settings
        state.num_missing += 1
        if state.num_with_loss < settings.missing_points:
            return
        if state.num_missing >= settings.missing_points * state.cadence + state.cadence - 1:
            words = f"the loss has been missing from {state.num_missing} records"
            self._say_nan(point, state.last_loss_us, state.last_loss_step + 1, words)

    def _say_nan(self, point: Point, since_us: int, step: int, words: str, *, is_hidden: bool = True) -> None:
        """Say so; ``since_us`` and ``step`` are where it began, if it has not been said yet."""
        state, course = self.state, self._course
        if state.nan_since_us is None:
            state.nan_since_us, state.nan_since_step = since_us, step
        since_us = state.nan_since_us
        words += f", since step {state.nan_since_step}"
        poisoned_s = max(0, point.t_us - state.nan_since_us) / 1e6
        save = course.newest_before(point.step)
        before = [one for one in course.landed if one.landed_us < since_us]
        sound = max(before, key=lambda one: one.step, default=None)
        self._board.say(
            point.t_us,
            Verdict(
                detector=NAN,
                subject="run",
                severity="critical",
                since_us=since_us,
                summary=words + (": what a model does that has turned NaN" if is_hidden else ""),
                evidence=Evidence(
                    num_samples=state.num_with_loss,
                    unit="loss",
                    more={
                        "step": point.step,
                        "first_step": state.nan_since_step,
                        "is_hidden": "yes" if is_hidden else "no",
                        "poisoned_s": poisoned_s,
                        "poisoned_gpu_hours": course.gpu_hours(poisoned_s),
                        "newest_landed_step": None if save is None else save.step,
                    },
                ),
                advice="stop it: each further step is work done on a dead model; "
                + (
                    "no checkpoint had landed before it"
                    if sound is None
                    else f"go back to the checkpoint of step {sound.step}, which landed before it, once its weights "
                    "are seen to be finite"
                ),
                cost=course.cost(poisoned_s, "poisoned: trained after the model had turned NaN"),
            ),
        )

    # -- gradient norms ----------------------------------------------------------------------------------------------

    def _norm(self, point: Point) -> None:
        if not point.has_norm:
            self._board.sight(NORM, "blind", "no gradient norm is told")
            return
        state, settings = self.state, self._settings
        is_skip = not math.isfinite(point.norm) and (not point.has_loss or math.isfinite(point.loss))
        is_skip &= state.nan_since_us is None  # no step of a model that has turned NaN is a skipped one
        if not point.is_eligible:
            return
        self._board.evaluated(NORM)
        state.skipped.append(point.t_us if is_skip else 0)
        del state.skipped[: -settings.skipped_n]
        num = sum(one > 0 for one in state.skipped)
        state.num_skipped += is_skip
        if num == 0:
            state.num_skipped = 0
        if num > settings.skipped_k:
            self._board.say(
                point.t_us,
                Verdict(
                    detector=SKIPPED,
                    subject="run",
                    severity="warning",
                    since_us=next(one for one in state.skipped if one),
                    summary=f"{num} of the last {len(state.skipped)} steps have a gradient norm that is no number: "
                    "more than loss scaling skips now and then",
                    evidence=Evidence(
                        value=float(num),
                        threshold=float(settings.skipped_k),
                        num_samples=len(state.skipped),
                        unit="steps",
                        more={"num_skipped": state.num_skipped},
                    ),
                    advice="see whether the loss scale keeps falling; if so, lower the learning rate or use bfloat16",
                    cost=self._course.cost(
                        None if self._course.one_s is None else state.num_skipped * self._course.one_s,
                        "steps that changed nothing",
                    ),
                ),
            )
        elif num == 0:
            self._board.clear(point.t_us, SKIPPED, "run")
        if is_skip or not math.isfinite(point.norm):
            return
        if len(state.norms) < MIN_NORMS:
            state.norms.append(point.norm)
            return
        middle = float(np.median(state.norms))
        exploded = middle > 0 and point.norm > settings.norm_ratio * middle
        vanished = middle > 0 and point.norm < settings.norm_vanished * middle
        if not exploded and not vanished:
            state.norms.append(point.norm)
            del state.norms[: -settings.baseline_points]
            state.num_odd_norms = 0
            self._board.clear(point.t_us, NORM, "run")
            return
        state.num_odd_norms += 1
        self._board.say(
            point.t_us,
            Verdict(
                detector=NORM,
                subject="run",
                severity="warning",
                since_us=point.t_us,
                summary=f"the gradient norm is {point.norm:.4g} at step {point.step}, usually {middle:.4g}: it has "
                + ("exploded" if exploded else "vanished"),
                evidence=Evidence(
                    value=point.norm,
                    baseline=middle,
                    threshold=middle * (settings.norm_ratio if exploded else settings.norm_vanished),
                    num_samples=len(state.norms),
                    unit="norm",
                ),
                advice="look at the loss and the batch of that step; if it goes on, clip the gradients' norm"
                if exploded
                else "see whether the loss still changes; if not, weights are frozen or the loss scale is too low",
            ),
        )


def _no_number(loss: float) -> str:
    return "NaN" if math.isnan(loss) else "infinite"
