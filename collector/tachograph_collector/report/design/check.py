"""Whether a run still agrees with a document: each claimed number against the interval that the run measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.special import stdtrit

from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.model.check import Floats
from tachograph_collector.model.decision import FLAT
from tachograph_collector.model.estimate import Measured
from tachograph_collector.model.plan.quantity import shown
from tachograph_collector.model.theory import optimum
from tachograph_collector.report.design.block import Claims
from tachograph_collector.report.text import count, percent

Verdict = Literal["holds", "no longer holds", "can't be judged"]
TOLERANCE: Final = 0.05
"""No measured interval is narrower than this part of its mean to each side: the best interval moves by half of it."""
FEWEST: Final = 2
ENOUGH_MTBFS: Final = 20
"""A goodput is not judged in less than so many MTBFs: its spread is no normal one there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One number of the document, and what the run says of it."""

    name: str
    claimed: str
    measured: str
    """The interval with what stands behind it; empty where nothing was measured."""
    verdict: Verdict
    why: str = ""
    """Why it can't be judged."""


def hold(told: Claims, run: Measured, books: Books, details: Details) -> list[Finding]:
    """A finding for every number that the document claims and a run can show, in the document's order."""
    numbers = {name: claim.value for name, claim in told.numbers.items()}
    found = [_mtbf(numbers["job_mtbf"], run)] if "job_mtbf" in numbers else []
    found.append(_saves(told.saves, run))
    if "cost" in numbers:
        found.append(_mean("a save stops training", numbers["cost"], run.cost.values_s, "saves"))
    if "persist" in numbers:
        found.append(_mean("persist", numbers["persist"], run.persist.values_s, "persists"))
    if "interval" in numbers:
        found.append(_interval(numbers["interval"], run))
    found += _parts(numbers, details)
    if "restart" in numbers:
        found.append(_mean("restart", numbers["restart"], run.restart.values_s, "restarts"))
    if "goodput" in numbers:
        found.append(_goodput(numbers["goodput"], run, books))
    if "gpus" in numbers:
        found.append(_gpus(round(numbers["gpus"]), books))
    return found


def better_interval(told: Claims, run: Measured) -> str | None:
    """What the measured numbers say of the interval in a sentence; None where too little was measured."""
    if "interval" not in told.numbers or not run.mean_cost_s or not run.incident_mtbf.mean_s:
        return None
    claimed_s = told.numbers["interval"].value
    best_s = max(float(optimum(run.mean_cost_s, run.incident_mtbf.mean_s)), run.mean_persist_s)
    flat = best_s / FLAT <= claimed_s <= best_s * FLAT
    return f"With what was measured the best interval is {_s(best_s)}; the document's {_s(claimed_s)} is " + (
        "in its flat top: leave it." if flat else "outside its flat top: write the document anew."
    )


def _mtbf(claimed_s: float, run: Measured) -> Finding:
    given = run.incident_mtbf
    behind = f"{count(given.num_failures, 'incident')} in {_s(given.exposure_s)}"
    if given.num_failures == 0:
        fits: Verdict = "can't be judged" if claimed_s >= given.low_s else "no longer holds"
        return Finding("job MTBF", _s(claimed_s), f"above {_s(given.low_s)} ({behind})", fits, "nothing has failed yet")
    reach = f"{_s(given.low_s)} to {_s(given.high_s)} ({behind})"
    return Finding("job MTBF", _s(claimed_s), reach, _within(claimed_s, given.low_s, given.high_s))


def _saves(claimed: str, run: Measured) -> Finding:
    if run.cost.num == 0:
        return _unknown("way of saving", claimed, "no save has landed in the log")
    measured = "asynchronous" if run.is_async else "blocking"
    return Finding("way of saving", claimed, measured, "holds" if measured == claimed else "no longer holds")


def _mean(name: str, claimed_s: float, values_s: Floats, what: str) -> Finding:
    if values_s.size < FEWEST:
        return _unknown(name, _s(claimed_s), f"{values_s.size or 'no'} {what} in the log; {FEWEST} are needed")
    low, high = mean_interval(values_s)
    reach = f"{_s(low)} to {_s(high)} ({values_s.size:,} {what})"
    return Finding(name, _s(claimed_s), reach, _within(claimed_s, low, high))


def mean_interval(values: Floats) -> tuple[float, float]:
    """The 95 % interval of a mean (Student's t), no narrower than ``TOLERANCE`` of it to each side, never below 0."""
    mean, error = float(values.mean()), float(values.std(ddof=1)) / values.size**0.5
    reach = max(float(stdtrit(values.size - 1, 0.975)) * error, TOLERANCE * mean)
    return max(mean - reach, 0.0), mean + reach


def _interval(claimed_s: float, run: Measured) -> Finding:
    values_s = run.tau.values_s
    if values_s.size < FEWEST:
        return _unknown("interval", _s(claimed_s), f"{values_s.size or 'no'} intervals in the log; {FEWEST} are needed")
    # A deliberate length, so the middle of what was done counts, not the mean, which a restart's short ones pull.
    low, middle, high = (float(each) for each in np.quantile(values_s, (0.1, 0.5, 0.9)))
    low, high = min(low, middle * (1 - TOLERANCE)), max(high, middle * (1 + TOLERANCE))
    reach = f"{_s(low)} to {_s(high)} ({values_s.size:,} intervals)"
    return Finding("interval", _s(claimed_s), reach, _within(claimed_s, low, high))


def _parts(numbers: dict[str, float], details: Details) -> list[Finding]:
    """The parts of a restart. A log without warm-up phases has the warm-up in its reload, so they are held together."""
    done = [
        it.phases_us
        for it in details.interruptions
        if it.how == "failure" and it.resumed_at_us is not None and it.last_step is not None
    ]
    together = not any("warmup" in phases for phases in done)
    groups = [("detect",), ("replace",), *([("reload", "warmup")] if together else [("reload",), ("warmup",)])]
    found = []
    for group in groups:
        if all(name in numbers for name in group):
            values = np.array([sum(phases.get(name, 0) for name in group) * 1e-6 for phases in done])
            told = [name for name in group if any(name in phases for phases in done)]
            label = " and ".join(name.replace("warmup", "warm-up") for name in group)
            claimed_s = sum(numbers[name] for name in group)
            if not told and done:
                found.append(_unknown(label, _s(claimed_s), "the log does not tell it apart"))
            else:
                found.append(_mean(label, claimed_s, values, "restarts"))
    return found


def _goodput(claimed: float, run: Measured, books: Books) -> Finding:
    """The claim against the run's goodput and its spread: a compound Poisson sum of what each failure costs."""
    name, shown_claim = "goodput", percent(claimed)
    num, time_s = run.incident_mtbf.num_failures, run.exposure_s
    observed = books.accounts_us["kept"] * 1e-6 / time_s
    if num < ENOUGH_MTBFS:
        why = f"{count(num, 'incident')} in the log; under {ENOUGH_MTBFS} chance decides"
        return Finding(name, shown_claim, percent(observed), "can't be judged", why)
    period_s = (run.interval_s or 0.0) + (run.mean_cost_s or 0.0)
    down_s = float(run.restarts_s.mean()) + run.mean_persist_s + period_s / 2
    spread = float(np.sqrt(num * (down_s**2 + run.restarts_s.var() + period_s**2 / 12))) / time_s
    low, high = max(observed - 1.96 * spread, 0.0), min(observed + 1.96 * spread, 1.0)
    reach = f"{percent(low)} to {percent(high)} ({percent(observed)} over {_s(time_s)})"
    return Finding(name, shown_claim, reach, _within(claimed, low, high))


def _gpus(claimed: int, books: Books) -> Finding:
    if books.world_size is None:
        return _unknown("GPUs", f"{claimed:,}", "the log does not tell its world size")
    return Finding(
        "GPUs", f"{claimed:,}", f"{books.world_size:,}", "holds" if books.world_size == claimed else "no longer holds"
    )


def _unknown(name: str, claimed: str, why: str) -> Finding:
    return Finding(name, claimed, "", "can't be judged", why)


def _within(value: float, low: float, high: float) -> Verdict:
    return "holds" if low <= value <= high else "no longer holds"


def _s(seconds: float) -> str:
    return "no end" if np.isinf(seconds) else shown(seconds, "time")
