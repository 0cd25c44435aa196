"""A run with a million steps and a thousand interruptions: what questions about it take, and what its next batch."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median

import collected
import inputs
from collected import Running
from figure import Figure, Row, Setting

MOST_SUMMARY_S = 0.05
MOST_MINUTES_S = 0.2
MOST_RATIO = 1.25
SAVE_EVERY = 100
LINES_AT_ONCE = 20_000
BATCH_STEPS = 50
STEP_S = 2.0
OLD, YOUNG = "bench-month", "bench-hour"
SUMMARIES = {
    "the run": "",
    "with the model": "?judge=true",
    "the model": "/model",
    "the gate": "/gate?min_goodput=0",
    "a day of it": "?since={day_ago}",
    "1,000 restarts": "/restarts",
}


def measure(setting: Setting) -> Figure:
    """The same questions and the same next batches on SQLite and on PostgreSQL."""
    num_steps, num_restarts, rounds = (50_000, 50, 6) if setting.quick else (1_000_000, 1000, 20)
    rows: list[Row] = []
    for kind, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
        with collected.running(setting.scratch, kind) as running, ExitStack() as stack:
            logs = {}
            for run, steps, restarts in ((OLD, num_steps, num_restarts), (YOUNG, 1800, 1)):
                path = setting.scratch / f"{kind}-{run}.jsonl"
                logs[run] = _Log(path, run, steps, restarts, rounds)
                stack.callback(logs[run].close)
            loaded_s = {run: _load(running, log, run) for run, log in logs.items()}
            running.wait_folded(OLD, within_s=300)
            costs, answers = _rounds(running, logs, rounds)
            rows += _rows(name, costs, answers, loaded_s[OLD])
    return Figure(
        "A million steps and a thousand interruptions, in the collector",
        f"A live run of one rank told from its start, {num_steps:,} steps of {STEP_S:g} s and {num_restarts:,} "
        f"failures and restarts, saves every {SAVE_EVERY} steps, all of it before now; beside it one of an hour. "
        f"{rounds} times, in turn: the next {BATCH_STEPS} steps of the old run and of the young one, each until the "
        "books hold them (processor time of the collector's process, medians), then each question about the old run, "
        "asked over HTTP on a connection of its own when something has just changed, and once more.",
        rows,
        "Another program on the same cores shows here first.",
    )


class _Log:
    """A run's lines, most of them for the beginning and the last ones for later."""

    def __init__(self, path: Path, run: str, num_steps: int, num_restarts: int, rounds: int) -> None:
        num_later = (rounds + 1) * BATCH_STEPS

        def write(start_unix_s: float) -> None:
            inputs.event_log(
                path,
                num_steps=num_steps + num_later,
                num_restarts=num_restarts,
                save_every=SAVE_EVERY,
                start_unix_s=start_unix_s,
            )

        write(0.0)
        with path.open("rb") as file:
            last = file.readlines()[-1]
        length_s = float(last.split(b'"t":')[1].split(b",")[0])
        # The steps told in the rounds lie a little ahead of the clock; a day ahead is taken.
        write(time.time() - length_s + num_later * STEP_S)
        self._file = path.open("rb")
        self._run = run.encode()
        self._num_steps = num_steps

    def _lines(self) -> Iterator[bytes]:
        for line in self._file:
            if not line.startswith(b'{"kind":"run.end"'):
                yield line.replace(b'"run":"bench"', b'"run":"%s"' % self._run, 1)

    def beginning(self) -> Iterator[list[bytes]]:
        """Large batches up to where the rounds begin."""
        left = self._num_steps
        lines = self._lines()
        while left > 0:
            some = []
            for line in lines:
                some.append(line)
                left -= line.startswith(b'{"kind":"step"')
                if left == 0 or len(some) == LINES_AT_ONCE:
                    break
            yield some

    def next_steps(self) -> list[bytes]:
        """The next few lines."""
        return list(islice(self._lines(), BATCH_STEPS))

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def _load(running: Running, log: _Log, run: str) -> float:
    begin_s = time.monotonic()
    for lines in log.beginning():
        _send(running, lines)
    running.wait_folded(run, within_s=300)
    return time.monotonic() - begin_s


def _send(running: Running, lines: list[bytes]) -> None:
    reply = running.collector.post_events(gzip.compress(b"".join(lines), 1), Content_Encoding="gzip")
    if reply.status != 200 or reply.json()["rejected"]:
        raise RuntimeError(f"a batch was answered {reply.status}: {reply.body[:300]!r}")


def _rounds(
    running: Running, logs: dict[str, _Log], rounds: int
) -> tuple[dict[str, list[float]], dict[str, tuple[list[float], list[float]]]]:
    costs: dict[str, list[float]] = {run: [] for run in logs}
    asked = {**SUMMARIES, "a month of minutes": "/minutes"}
    answers: dict[str, tuple[list[float], list[float]]] = {what: ([], []) for what in asked}
    for number in range(rounds + 1):
        for run, log in logs.items():
            time.sleep(0.3)
            before_s = running.exact_cpu_s()
            _send(running, log.next_steps())
            running.wait_folded(run)
            if number:  # the first is for warming up
                costs[run].append(running.exact_cpu_s() - before_s)
        for what, path in asked.items():
            path = path.format(day_ago=round(time.time() - 86_400))
            for times in answers[what]:
                took_s, _ = running.get(f"/v1/runs/{OLD}{path}")
                if number:
                    times.append(took_s)
    return costs, answers


def _rows(
    name: str, costs: dict[str, list[float]], answers: dict[str, tuple[list[float], list[float]]], loaded_s: float
) -> list[Row]:
    slowest = max(SUMMARIES, key=lambda what: median(answers[what][0]))
    each = ", ".join(f"{what} {_ms(answers[what][0])}" for what in SUMMARIES)
    fresh, again = answers["a month of minutes"]
    old_s, young_s = median(costs[OLD]), median(costs[YOUNG])
    ratio = old_s / young_s
    return [
        Row(
            f"{name}: any summary, after a change",
            f"{_ms(answers[slowest][0])} at the slowest ({each}); asked again "
            f"{_ms(max((answers[what][1] for what in SUMMARIES), key=median))}",
            f"< {MOST_SUMMARY_S * 1e3:.0f} ms",
            median(answers[slowest][0]) < MOST_SUMMARY_S,
        ),
        Row(
            f"{name}: a month of minutes, after a change",
            f"{_ms(fresh)}; asked again {_ms(again)}",
            f"< {MOST_MINUTES_S * 1e3:.0f} ms",
            median(fresh) < MOST_MINUTES_S,
        ),
        Row(
            f"{name}: the next batch, over that of a run in its first hour",
            f"{ratio:.2f} ({old_s * 1e3:.1f} ms over {young_s * 1e3:.1f} ms of processor time)",
            f"≤ {MOST_RATIO:g}",
            ratio <= MOST_RATIO,
        ),
        Row(f"{name}: for scale: the whole run told and booked", f"{loaded_s:.0f} s"),
    ]


def _ms(times_s: list[float]) -> str:
    return f"{median(times_s) * 1e3:.0f} ms (worst {max(times_s) * 1e3:.0f})"
