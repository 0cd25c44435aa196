"""GPUs that report errors, and computations that have silently gone wrong; and what looks like either and is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tachograph_agent.events import AttemptStart, Failure, Health, RunStart
from tachograph_collector.detect.scoring import Expected

from labelled.columns import step_columns
from labelled.losses import STEP_S, curve
from labelled.scenario import RUN, SECOND_US, T0, Scenario, Told
from labelled.tale import Tale

GPU = "0000:3b:00"


def xids(*numbers: int, is_said: bool) -> Callable[[int], Told]:
    """So many Xids, a few seconds apart, in the middle of a run; the job goes on."""

    def make(seed: int) -> Told:
        tale = Tale(seed, num_ranks=16)
        tale.steps(int(tale.rng.integers(30, 90)))
        if is_said:
            tale.expect("xid", subjects=("node n1",))
        for number in numbers:
            tale.events.append(xid(tale.t, number))
            tale.t += 3.0
        tale.steps(60)
        return tale.told()

    return make


def xid(t: float, number: int, node: str = "n1") -> Health:
    told = f"Xid {number} on {GPU}: as the driver has it"
    return Health(t=t, run=RUN, node=node, check="xid", gpu=GPU, value=number, severity="warning", detail=told)


def same_gpu_again(seed: int) -> Told:
    """An application's Xid, on one GPU in two attempts: it is the GPU's."""
    tale = Tale(seed, num_ranks=16)
    tale.steps(int(tale.rng.integers(60, 90)))
    tale.sync()
    newest = tale.step
    tale.events.append(xid(tale.t, 31))
    tale.fail(node="n1", category="software")
    tale.resume(newest)
    tale.steps(int(tale.rng.integers(60, 90)))
    tale.expect("xid", subjects=("node n1",))
    tale.events.append(xid(tale.t, 31))
    tale.fail(node="n1", category="software")
    tale.resume(newest)
    tale.steps(60)
    return tale.told()


def done_again(difference: float, *, deterministic: bool) -> Callable[[int], Told]:
    """Half of the steps are done again after a failure; from the tenth on their losses differ by that much.

    A run that isn't deterministic differs by a ten-thousandth each time, and had done 60 steps again before.
    """

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        spread = 0.0 if deterministic else 1e-4
        values = curve(rng, 400, "gaussian")
        events: list = [RunStart(t=T0, run=RUN, world_size=8, labels={"deterministic": str(deterministic).lower()})]
        columns, t, expected = [], T0, []
        for attempt, first in enumerate((1, 200, 260)):
            if attempt:
                events.append(Failure(t=t + 1, run=RUN, attempt=attempt - 1, category="gpu"))
                failed_us = round((t + 1) * SECOND_US)
                expected.append(Expected(detectors=("failure",), subjects=("run",), since_us=failed_us))
                t += 120.0
                events.append(AttemptStart(t=t, run=RUN, attempt=attempt, resume_step=first - 1))
            last = 320 if attempt < 2 else 400
            loss = values[first - 1 : last] + spread * rng.standard_normal(last - first + 1)
            ends_s = t + STEP_S * np.arange(1, len(loss) + 1)
            if attempt == 2 and difference:
                loss[9:60] += difference
                expected.append(Expected(detectors=("silent_corruption",), since_us=round(ends_s[8] * SECOND_US)))
            columns.append(
                step_columns(
                    ends_s, np.full(len(loss), STEP_S), loss=loss, first_step=first, attempt=str(attempt), num_ranks=8
                )
            )
            t = float(ends_s[-1])
        return Told(expected, columns, events)

    return make


def checksums(*, is_odd: bool) -> Callable[[int], Told]:
    """Four replicas tell a checksum each hundred steps; one of them another, once."""

    def make(seed: int) -> Told:
        tale = Tale(seed, step_s=2.0, num_ranks=16)
        odd = int(tale.rng.integers(4)) if is_odd else -1
        for number in range(5):
            tale.steps(100)
            if number == 2 and is_odd:
                tale.expect("silent_corruption")
            for replica in range(4):
                told = Health(
                    t=tale.t + 0.1 * replica, run=RUN, node=f"n{replica // 2}", check="checksum", severity="info",
                    rank=4 * replica, value=7000 + number + (replica == odd and number == 2),
                )  # fmt: skip
                told.unknown_fields = {"step": tale.step, "group": "dp0"}
                tale.events.append(told)
        tale.steps(100)
        return tale.told()

    return make


def spike_after(number: int | None) -> Callable[[int], Told]:
    """A critical spike two minutes after an error of a GPU's memory, or after nothing."""

    def make(seed: int) -> Told:
        rng = np.random.default_rng(seed)
        values = curve(rng, 600, "gaussian")
        at = int(rng.integers(200, 400))
        values[at : at + 30] += 4.0
        ends_s = T0 + STEP_S * np.arange(1, 601)
        since_us = round(ends_s[at - 1] * SECOND_US)
        events: list = [RunStart(t=T0, run=RUN, world_size=8)]
        expected = [Expected(detectors=("loss_spike",), since_us=since_us)]
        if number is not None:
            events.append(xid(float(ends_s[at - 60]), number, "n0"))
            expected.append(Expected(detectors=("silent_corruption",), since_us=since_us))
        return Told(expected, [step_columns(ends_s, np.full(600, STEP_S), loss=values, num_ranks=8)], events)

    return make


def scenarios() -> list[Scenario]:
    """All of this kind."""
    made: list[Scenario] = []

    def add(name: str, family: str, num: int, make: Callable[[int], Told]) -> None:
        first = 6_000 + len(made)
        made.extend(Scenario(name, family, first + seed, make) for seed in range(num))

    add("Xid of the hardware", "dense", 3, xids(79, is_said=True))
    add("Xids of the hardware", "dense", 2, xids(95, 119, 79, is_said=True))
    add("Xid of an application", "dense", 4, xids(31, is_said=False))
    add("Xids of an application, 17 lines", "dense", 2, xids(*[13] * 16, 43, is_said=False))
    add("the same GPU in two attempts", "dense", 3, same_gpu_again)
    add("done again otherwise, deterministic", "gaussian", 4, done_again(1e-4, deterministic=True))
    add("done again otherwise", "gaussian", 4, done_again(0.01, deterministic=False))
    add("done again alike, deterministic", "gaussian", 3, done_again(0.0, deterministic=True))
    add("done again alike", "gaussian", 4, done_again(0.0, deterministic=False))
    add("a replica's checksum is odd", "dense", 3, checksums(is_odd=True))
    add("checksums agree", "dense", 2, checksums(is_odd=False))
    add("spike after an Xid of memory", "gaussian", 3, spike_after(94))
    add("spike without an Xid", "gaussian", 2, spike_after(None))
    return made
