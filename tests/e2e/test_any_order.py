"""A recorded run in small batches, shuffled, and each of them sent twice at the same time: the books are the same.

What dies on the way is in test_chaos.py.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from collector_process import CollectorProcess, Starts
from tachograph_agent.events import decode
from tachograph_collector.ledger import Ledger
from tachograph_collector.report.json_report import run_object
from tachograph_collector.report.model import RunReport

RECORDED = Path(__file__).parents[2] / "examples" / "recorded_run.jsonl"
RUN = "atlas-7b-pretrain"
LINES = RECORDED.read_bytes().splitlines()
SETTLES_WITHIN_S = 60.0
OF_THE_READING = frozenset({"clock", "format", "notes", "skips", "stored"})
"""What is told of the reading of a log, which no collector does."""


def plain(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: plain(value) for name, value in told.items() if name not in OF_THE_READING}
    return [plain(each) for each in told] if isinstance(told, list) else told


def told_by_the_ledger() -> Any:
    ledger = Ledger()
    ledger.add([decode(line) for line in LINES])
    return plain(json.loads(json.dumps(run_object(RunReport(ledger.books(RUN), ledger.details(RUN))))))


def shuffled(seed: int) -> list[bytes]:
    """All lines in batches of one to seven, whichever come together."""
    chance, lines = random.Random(seed), list(LINES)
    chance.shuffle(lines)
    batches = []
    while lines:
        num = chance.randint(1, 7)
        batches.append(b"\n".join(lines[:num]))
        del lines[:num]
    return batches


def send(batches: Sequence[bytes], collectors: Sequence[CollectorProcess]) -> list[dict[str, Any]]:
    """Each batch to each of them, eight at a time; what was answered."""

    def post(call: tuple[int, bytes, CollectorProcess]) -> dict[str, Any]:
        number, body, collector = call
        reply = collector.post_events(body, Tachograph_Batch=f"b{number}", Tachograph_Origin="replay")
        assert reply.status == 200, reply.body
        return dict(reply.json())

    calls = [(number, body, each) for number, body in enumerate(batches) for each in collectors]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(post, calls))


def until_told(collector: CollectorProcess, expected: Any) -> None:
    give_up_s = time.monotonic() + SETTLES_WITHIN_S
    while True:
        reply = collector.request("GET", f"/v1/runs/{RUN}")
        told = plain(reply.json()) if reply.status == 200 else None
        if told == expected:
            return
        assert time.monotonic() < give_up_s, told
        time.sleep(0.2)


def test_in_any_order_the_books_are_those_of_the_ledger(start_collector: Starts, database_url: str) -> None:
    collector = start_collector(database_url)
    answers = send(shuffled(7), [collector])
    assert sum(answer["accepted"] for answer in answers) == len(LINES)
    until_told(collector, told_by_the_ledger())


def test_sent_to_two_collectors_at_once_it_is_booked_once(start_collector: Starts, postgresql_url: str) -> None:
    collectors = [start_collector(postgresql_url), start_collector(postgresql_url)]
    batches = shuffled(11)
    answers = send(batches, collectors)
    assert sum(answer["duplicate"] for answer in answers) == len(batches)
    expected = told_by_the_ledger()
    for collector in collectors:
        until_told(collector, expected)
    stored = collectors[0].request("GET", f"/v1/runs/{RUN}/events").body.splitlines()
    assert len(stored) == len(LINES)
