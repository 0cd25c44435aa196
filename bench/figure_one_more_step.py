"""One more step added to a ledger of a million: what the books cost again. Run as a script, it measures itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import inputs
from figure import Figure, Row, Setting
from measure import environment, timed

NUM_ADDITIONS = 200
NUM_DECODED = 1000
MOST_MS = 5.0


def measure(setting: Setting) -> Figure:
    """Median over 200 additions, in a process of its own."""
    num_steps = 100_000 if setting.quick else 1_000_000
    path = setting.scratch / "events.jsonl"
    if not path.exists() or setting.quick:
        inputs.in_child("event_log", path, num_steps=num_steps, num_restarts=num_steps // 10_000)
    child = subprocess.run(
        [sys.executable, __file__, str(path)], env=environment(setting.scratch), capture_output=True, check=True
    )
    told = json.loads(child.stdout)
    books_ms, decode_ms = told["books_ms"], told["decode_ms"]
    measured = (
        f"{median(books_ms):.2f} ms (least {min(books_ms):.2f}, worst {max(books_ms):.2f}); "
        f"{median(books_ms) / median(decode_ms):.1f} times the decoding of {NUM_DECODED:,} events "
        f"({median(decode_ms):.2f} ms)"
    )
    details = f"{median(told['details_ms']):.0f} ms"
    method = (
        f"A ledger fed with the first figure's log of {num_steps:,} steps, without its end. {NUM_ADDITIONS} times: one "
        f"more step is added and `books` asked for, then {NUM_DECODED:,} lines of the log are decoded as the "
        "reference. Medians."
    )
    return Figure(
        "One more step",
        method,
        [
            Row("`add` one step and `books`, median", measured, "< 5 ms", median(books_ms) < MOST_MS),
            Row("for scale: `add` one step and `details`, all minutes and segments", details),
        ],
        "What is settled anew for one step is more than that step touches.",
    )


def _measure_here(path: str) -> dict[str, list[float]]:
    import msgspec
    from tachograph_agent.events import AnyEvent, RunEnd, Step
    from tachograph_agent.trainers.reading import open_log
    from tachograph_collector.ledger import Ledger

    class Log:
        """The log, read again where the ledger asks for it."""

        def read(self, run: str, since_us: int) -> Iterator[AnyEvent]:
            for batch in reading.again(since_us):
                yield from (event for event in batch if event.run == run)

    reading = open_log([path])
    ledger = Ledger(source=Log())
    last: Step | None = None
    for batch in reading.batches():
        ledger.add([event for event in batch if not isinstance(event, RunEnd)])
        last = next((event for event in reversed(batch) if isinstance(event, Step)), last)
    assert last is not None
    ledger.books(last.run)
    with Path(path).open("rb") as file:
        lines = [next(file) for _ in range(NUM_DECODED)]
    decode = msgspec.json.Decoder().decode
    told: dict[str, list[float]] = {"books_ms": [], "decode_ms": [], "details_ms": []}

    def one_more() -> None:
        nonlocal last
        assert last is not None
        last = msgspec.structs.replace(last, t=last.t + 2.0, step=last.step + 1, dur=2.0)
        ledger.add([last])

    def books() -> None:
        one_more()
        ledger.books("bench")

    def details() -> None:
        one_more()
        ledger.details("bench")

    for _ in range(NUM_ADDITIONS):
        told["books_ms"].append(timed(books) * 1e3)
        told["decode_ms"].append(timed(lambda: [decode(line) for line in lines]) * 1e3)
    for _ in range(5):
        told["details_ms"].append(timed(details) * 1e3)
    return told


if __name__ == "__main__":
    json.dump(_measure_here(sys.argv[1]), sys.stdout)
