"""What Hugging Face trainers log, console or state file, as events on a timeline made of what little time they tell.

A record is a dictionary: of a training log (``loss``), an evaluation (``eval_..._runtime``), or the summary at the end
(``train_runtime``). No record has a time. Without a summary only evaluations have a duration; with one, the rest of the
run's time is spread evenly over its steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tachograph_agent.events import LONGEST_DURATION_SECONDS, AnyEvent, AttemptStart, Phase, RunEnd, Step
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.story import DurationClock

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Logged:
    """One record: the steps done when it was logged, the steps it stands for, and what it says."""

    step: int
    count: int
    values: Values


def real(value: object) -> float | None:
    """The number, None if it is none; NaN and infinities are numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def eval_seconds(values: Values) -> float | None:
    """How long the evaluation took that the record is of, None if it is of none or doesn't say."""
    runtimes = [
        runtime
        for name, value in values.items()
        if name.startswith("eval_") and name.endswith("_runtime") and (runtime := real(value)) is not None
    ]
    known = [runtime for runtime in runtimes if 0.0 <= runtime <= LONGEST_DURATION_SECONDS]
    return sum(known) if known else None


def train_seconds(values: Values) -> float | None:
    """The whole training's time, evaluations included, from the summary record."""
    runtime = real(values.get("train_runtime"))
    return runtime if runtime is not None and 0.0 < runtime <= LONGEST_DURATION_SECONDS else None


def is_training(values: Values) -> bool:
    """Whether the record is of training steps."""
    return "loss" in values and not any(name.startswith("eval_") for name in values)


def told(
    records: Iterable[Logged], clock: DurationClock, context: Context, *, attempt: int, finished: bool
) -> Iterator[AnyEvent]:
    """The events of one attempt's records, in their order, from the clock's time on."""
    log = list(records)
    if not log:
        return
    start = clock.pass_time(None)
    runtime_s = next((runtime for record in log if (runtime := train_seconds(record.values)) is not None), None)
    evals_s = sum(eval_seconds(record.values) or 0.0 for record in log)
    num_steps = sum(record.count for record in log if is_training(record.values))
    one_s: float | None = None
    if runtime_s is not None and num_steps and runtime_s > evals_s:
        one_s = (runtime_s - evals_s) / num_steps
        context.note(
            f"Only the whole time is logged (train_runtime, {runtime_s:g} s): less evaluations, it was spread evenly "
            "over the steps."
        )
    elif num_steps:
        context.note(
            "No record has a time, and there is no train_runtime: how long training took can't be known; of the time "
            f"only the evaluations' {evals_s:.1f} s are known."
            if evals_s
            else "No record has a time, and there is no train_runtime: how long anything took can't be known."
        )
    yield AttemptStart(t=start, attempt=attempt)
    for record in log:
        took = eval_seconds(record.values)
        if took is not None:
            yield Phase(t=clock.pass_time(took), attempt=attempt, name="eval", dur=took)
        elif is_training(record.values):
            dur = None if one_s is None else one_s * record.count
            yield Step(
                t=clock.pass_time(dur),
                attempt=attempt,
                step=record.step,
                count=record.count,
                dur=dur,
                loss=real(record.values["loss"]),
                grad_norm=real(record.values.get("grad_norm")),
            )
    if finished or runtime_s is not None:
        yield RunEnd(t=clock.now)


def is_dead(values: Values) -> bool:
    """A loss of exactly 0 beside a gradient norm that is not finite: a dead run, not a perfect one."""
    norm = real(values.get("grad_norm"))
    return real(values.get("loss")) == 0.0 and norm is not None and not math.isfinite(norm)
