"""The recorder: what a step costs the training loop, over a bare write of as many bytes to the same file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from figure import Figure, Row, Setting
from tachograph_agent import Recorder

MOST_TIMES = 2.5
MOST_P99_S = 50e-6
MOST_SLOWER = 0.005
LOOP_STEP_S = 0.005
TURNS = 100_000


def measure(setting: Setting) -> Figure:
    """Ratio and 99th percentile of ``step_done``, and by how much a loop of 5 ms steps is slower with it."""
    spool = setting.scratch / "recorder"
    spool.mkdir()
    recorder = Recorder(run="bench/run", attempt=1, node="node-0001", rank=0, spool=spool)
    recorder.step_done(1, dur_s=0.25123, loss=2.512345)
    (path,) = spool.glob("u*/*/*.jsonl")
    line = path.read_bytes().splitlines(keepends=True)[-1]
    number = 20_000 if setting.quick else 100_000
    ratios, p99_s = _against_a_write(recorder, path, line, number, 2 * setting.rounds)
    loops = [_slower_loop(recorder, path, line, 100 if setting.quick else 400) for _ in range(2 * setting.rounds)]
    slower, by_writes = zip(*loops, strict=True)
    return Figure(
        "Recorder",
        f"In one process, in turn: {number} bare `os.write` calls of {len(line)} bytes, then as many `step_done` with "
        "duration and loss, to the same file; each call is timed for the percentile. The loop works for 5 ms a step by "
        "counting, then calls `step_done` or, every other step, writes as many bytes, with the caches as the work left "
        "them: the median call over the median step. A bare write alone makes that loop slower by "
        f"{min(by_writes) * 100:.2f} % (median of the rounds {median(by_writes) * 100:.2f} %).",
        [
            Row(
                "`step_done` over `os.write`",
                f"{min(ratios):.2f} (median of the rounds {median(ratios):.2f})",
                f"≤ {MOST_TIMES:g}",
                median(ratios) <= MOST_TIMES,
            ),
            Row("99th percentile", f"{p99_s * 1e6:.1f} µs", f"< {MOST_P99_S * 1e6:g} µs", p99_s < MOST_P99_S),
            Row(
                "a loop of 5 ms steps is slower by",
                f"{min(slower) * 100:.2f} % (median of the rounds {median(slower) * 100:.2f} %)",
                f"< {MOST_SLOWER * 100:g} %",
                min(slower) < MOST_SLOWER,
            ),
        ],
        "The digits of a line cost most: time, duration and loss.",
    )


def _against_a_write(
    recorder: Recorder, path: Path, line: bytes, number: int, rounds: int
) -> tuple[list[float], float]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    clock, write, step_done = time.perf_counter, os.write, recorder.step_done
    ratios, p99s_s = [], []
    for _ in range(rounds):
        begin_s = clock()
        for _ in range(number):
            write(descriptor, line)
        written_s = clock() - begin_s
        begin_s = clock()
        for step in range(number):
            step_done(step, dur_s=0.25123, loss=2.512345)
        ratios.append((clock() - begin_s) / written_s)
        each_s = []
        for step in range(number // 10):
            begin_s = clock()
            step_done(step, dur_s=0.25123, loss=2.512345)
            each_s.append(clock() - begin_s)
        p99s_s.append(sorted(each_s)[len(each_s) * 99 // 100])
    os.close(descriptor)
    return ratios, median(p99s_s)


def _slower_loop(recorder: Recorder, path: Path, line: bytes, steps: int) -> tuple[float, float]:
    """The median call of ``step_done``, and of a bare write, over the median step; as the work left the caches.

    The difference of two loops would say less: on a shared machine it varies by more than what is promised.
    """
    # By medians: one slow look would make the steps too short, and the call too large a part of them.
    turns = round(TURNS * LOOP_STEP_S / median(_work_s(TURNS) for _ in range(25)))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    works_s, calls_s, writes_s = [], [], []
    for number in range(steps):
        works_s.append(_work_s(turns))
        begin_s = time.perf_counter()
        recorder.step_done(number, loss=2.512345)
        calls_s.append(time.perf_counter() - begin_s)
        works_s.append(_work_s(turns))
        begin_s = time.perf_counter()
        os.write(descriptor, line)
        writes_s.append(time.perf_counter() - begin_s)
    os.close(descriptor)
    step_s = median(works_s)
    return median(calls_s) / step_s, median(writes_s) / step_s


def _work_s(turns: int) -> float:
    begin_s = time.perf_counter()
    total = 0
    for number in range(turns):
        total += number
    return time.perf_counter() - begin_s
