"""Simulating a ladder of designs and a sweep of intervals; and what one run costs, against a plain loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import process_time

import plain_simulator
from figure import Figure, Row, Setting
from tachograph_collector.model.simulate import Design, Failures, Spares, simulate
from tachograph_collector.model.theory import optimum

MTBF_HOURS = (6, 12, 50)
DAYS = 30
NUM_RUNS = 200
NUM_MANY = 20_000
MOST_SECONDS = 15.0
LEAST_TIMES = {NUM_RUNS: 10.0, NUM_MANY: 40.0}
FACTORS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)


def ladder(hours: float) -> Sequence[Design]:
    """Blocking every 3 h; at the best interval; asynchronous; and heartbeats; and hot spares and peer memory."""
    best_s, best_async_s = (float(optimum(cost_s, hours * 3600)) for cost_s in (60.0, 3.0))
    blocking = Design(
        interval_s=10_800, blocking_s=60, detect_s=600, replace_s=720, reload_s=180, warmup_s=300, nodes=128
    )
    asynchronous = replace(blocking, interval_s=best_async_s, blocking_s=3, persist_s=55.2)
    watched = replace(asynchronous, detect_s=30)
    spared = replace(watched, spares=Spares(2, swap_s=30), warmup_s=228, peer_share=0.95, peer_reload_s=48)
    return blocking, replace(blocking, interval_s=best_s), asynchronous, watched, spared


def measure(setting: Setting) -> Figure:
    """The ladder and the sweep on one core; a run among 200 and among 20,000 against the plain loop, in turn."""
    _run(ladder(12)[0], 12, 1)
    whole_s = [_cpu_s(_ladder_and_sweep) for _ in range(setting.rounds)]
    num = len(MTBF_HOURS) * 5 * (1 + len(FACTORS))
    rows = [
        Row(
            f"ladder and sweep, {num} simulations of {NUM_RUNS} runs, one core",
            f"{min(whole_s):.2f} s (median {median(whole_s):.2f} s)",
            f"< {MOST_SECONDS:g} s",
            min(whole_s) < MOST_SECONDS,
        )
    ]
    for num_runs, least in LEAST_TIMES.items():
        times, measured = _against_plain(num_runs, 40 if setting.quick else NUM_RUNS, setting.rounds)
        rows.append(Row(f"one run among {num_runs:,}", measured, f"≥ {least:g} times", times >= least))
    method = (
        f"The five designs of the ladder at job MTBFs of {', '.join(map(str, MTBF_HOURS))} h, and each at "
        f"{len(FACTORS)} multiples of its interval; runs of {DAYS} days. Then the ladder at 12 h, per simulated run, "
        "in turn with the same model as a plain Python loop over failures (`bench/plain_simulator.py`). "
        "Processor time of one process."
    )
    return Figure("Simulators", method, rows, "Too many passes are made over the gaps between failures.")


def _cpu_s(work: Callable[[], object]) -> float:
    """Processor time of a call in this process."""
    begin = process_time()
    work()
    return process_time() - begin


def _run(design: Design, hours: float, num_runs: int) -> None:
    simulate(design, Failures(hours * 3600.0), duration_s=DAYS * 86_400.0, num_runs=num_runs, seed=1)


def _ladder_and_sweep() -> None:
    for hours in MTBF_HOURS:
        for design in ladder(hours):
            for factor in (1.0, *FACTORS):
                _run(replace(design, interval_s=design.interval_s * factor), hours, NUM_RUNS)


def _against_plain(num_runs: int, num_plain: int, rounds: int) -> tuple[float, str]:
    def ours() -> None:
        for design in ladder(12):
            _run(design, 12, num_runs)

    def plain() -> None:
        for design in ladder(12):
            plain_simulator.simulate(
                design, Failures(12 * 3600.0), duration_s=DAYS * 86_400.0, num_runs=num_plain, seed=1
            )

    ours()
    ours_s: list[float] = []
    plain_s: list[float] = []
    for _ in range(rounds):
        ours_s.append(_cpu_s(ours) / num_runs / 5)
        plain_s.append(_cpu_s(plain) / num_plain / 5)
    times = min(plain_s) / min(ours_s)
    return times, (
        f"{times:.0f} times as fast (medians {median(plain_s) / median(ours_s):.0f}; "
        f"{min(ours_s) * 1e6:.2f} µs over {min(plain_s) * 1e6:.0f} µs)"
    )
