"""Simulate many runs of a design at once."""

from __future__ import annotations

import numpy as np

from tachograph_collector.model.check import ModelError, positive
from tachograph_collector.model.simulate.corrupted import Corrupted, corrupted
from tachograph_collector.model.simulate.crashes import crashed
from tachograph_collector.model.simulate.design import Design, Failures
from tachograph_collector.model.simulate.draws import Draws, width
from tachograph_collector.model.simulate.outcome import Outcome
from tachograph_collector.model.simulate.restarts import Rules
from tachograph_collector.model.simulate.schedule import whole_us
from tachograph_collector.model.simulate.stretches import Sums, sums

CHUNK = 48_000
"""Gaps simulated at once: enough that calls don't count, few enough that what is at work stays in a core's cache."""

HEAP_BYTES = 1 << 24


def simulate(design: Design, failures: Failures, *, duration_s: float, num_runs: int, seed: int) -> Outcome:
    """Simulate ``num_runs`` runs of ``duration_s`` seconds; run ``i`` is the same whatever the number of runs.

    Runs begin with training and end after ``duration_s`` whatever they are doing: what survives then is kept, the step
    in flight is not. Their long-run goodput needs weeks: a short run has seen too few failures. Example: blocking saves
    of 60 s every 3 h with restarts of 30 min and an MTBF of 12 h give 83.9 %. Raises ``ModelError``.
    """
    duration_us = checked(design, failures, duration_s, num_runs, seed)
    # Once it has seen a block as large as this freed, glibc keeps freed memory for the next arrays. Else each would be
    # mapped and cleared anew, which takes longer than all sums over it. The block itself is never touched.
    np.empty(HEAP_BYTES, dtype=np.uint8)
    rules, draws = Rules.of(design), Draws(failures, duration_us, seed)
    chunk = max(1, CHUNK // width(failures.mean_gap_s, duration_us))
    pieces = [
        simulated(rules, failures, draws, duration_us, min(chunk, num_runs - first))
        for first in range(0, num_runs, chunk)
    ]
    if len(pieces) == 1:
        return pieces[0]
    names = ("kept_us", "checkpoint_us", "lost_us", "restart_us", "num_failures", "num_from_scratch", "useful_us")
    joined = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
    return Outcome(wall_us=duration_us, hardware_share=design.hardware_share, **joined)


def checked(design: Design, failures: Failures, duration_s: float, num_runs: int, seed: int) -> int:
    """The duration in whole microseconds, if all arguments can be simulated; else ``ModelError``."""
    positive("duration_s", duration_s)
    for name, value, least in (("num_runs", num_runs, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ModelError(f"{name} is {value!r}; expected a whole number of at least {least}")
    if design.elastic is not None and failures.corruption is not None:
        raise ModelError("a design with elastic can't be simulated with corruption; expected one of the two")
    return max(1, whole_us("duration_s", duration_s))


def simulated(rules: Rules, failures: Failures, draws: Draws, duration_us: int, num_runs: int) -> Outcome:
    """The next ``num_runs`` runs that ``draws`` has numbers for; the arguments are checked."""
    design = rules.design
    num_from_scratch = np.zeros(num_runs, dtype=np.int64)
    missed_us = np.zeros(num_runs)
    booked: Corrupted | Sums
    if failures.corruption is not None:
        booked = corrupted(rules, draws, failures.corruption, duration_us, num_runs)
        num_failures, num_from_scratch = booked.num_failures, booked.num_from_scratch
    else:
        stretches, _, num_failures = crashed(rules, draws, duration_us, num_runs)
        booked = sums(stretches, rules.schedule, peer_holds_newest=design.peer_holds_newest)
        if design.elastic is not None:
            missed_us = booked.missed_us / design.elastic.replicas
    kept_us, checkpoint_us, lost_us = (
        account.astype(np.int64) for account in (booked.kept_us, booked.checkpoint_us, booked.lost_us)
    )
    return Outcome(
        duration_us,
        kept_us,
        checkpoint_us,
        lost_us,
        duration_us - kept_us - checkpoint_us - lost_us,
        num_failures,
        num_from_scratch,
        kept_us - missed_us,
        design.hardware_share,
    )
