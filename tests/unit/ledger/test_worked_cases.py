"""The worked cases hold to the microsecond, in whatever order, number and batches their events arrive."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from ledger_oracle.answers import Answer, Reading, ledger_answers, oracle_answers
from tachograph_agent.events import AnyEvent, decode

CASES = sorted((Path(__file__).parents[2] / "data" / "ledger").glob("*.jsonl"))


def load(path: Path) -> tuple[list[AnyEvent], int | None, dict[str, Any]]:
    told = json.loads(path.with_suffix(".expected.json").read_text())
    now = None if told["now"] is None else round(told["now"] * 1e6)
    return [decode(line) for line in path.read_bytes().splitlines()], now, told["expected"]


def shown(answers: dict[str, Answer]) -> dict[str, Any]:
    (answer,) = answers.values()
    return {
        **{f"{account}_s": us / 1_000_000 for account, us in answer.accounts_us.items()},
        "at_risk_s": None if answer.at_risk_us is None else answer.at_risk_us / 1_000_000,
        "wall_s": answer.wall_us / 1_000_000,
        "failures": answer.failures,
        "attempts": answer.num_attempts,
        "planned_stops": answer.planned_stops,
        "unexplained_stops": answer.unexplained_stops,
        "status": answer.status,
        "minutes": answer.num_minutes,
    }


def test_there_are_worked_cases() -> None:
    assert len(CASES) >= 34


@pytest.mark.parametrize("reading", [ledger_answers, oracle_answers], ids=["ledger", "oracle"])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_holds_exactly(path: Path, reading: Reading) -> None:
    events, now, expected = load(path)
    assert shown(reading(events, now)) == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_holds_shuffled_with_half_of_its_events_twice(path: Path) -> None:
    events, now, expected = load(path)
    chance = random.Random(path.stem)
    messy = events + [event for event in events if chance.random() < 0.5]
    chance.shuffle(messy)
    assert shown(ledger_answers(messy, now)) == expected


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_holds_in_batches(path: Path, size: int) -> None:
    events, now, expected = load(path)
    assert shown(ledger_answers(events, now, batch=size)) == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_holds_shuffled_in_batches_of_seven(path: Path) -> None:
    events, now, expected = load(path)
    random.Random(path.stem).shuffle(events)
    assert shown(ledger_answers(events, now, batch=7)) == expected
