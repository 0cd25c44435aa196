"""Whatever the log: the judge answers, and what it says of the time sums to the run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle.generate import Truth
from ledger_oracle.mess import KINDS, messed
from ledger_oracle.strategies import runs
from tachograph_agent.events import AnyEvent
from tachograph_collector.ledger import Ledger
from tachograph_collector.model.judge import judge
from tachograph_collector.report.judge_view import judge_view, model_object
from tachograph_collector.report.loading import recording
from tachograph_collector.report.model import RunReport

CASES = sorted((Path(__file__).parents[2] / "data" / "ledger").glob("*.jsonl"))


def check(report: RunReport) -> None:
    view = judge_view(report)
    if view is None:
        assert report.books.wall_us == 0 or report.books.accounts_us["restart"] == report.books.wall_us
        return
    told = view.judgement
    assert view.sentence.endswith(".")
    assert "nan" not in view.sentence
    assert sum(told.facts.parts_s.values()) * 1e6 == pytest.approx(report.books.wall_us, abs=5)
    assert told.facts.parts_s["kept"] * 1e6 == pytest.approx(report.books.accounts_us["kept"], abs=5)
    assert sum(one.total_us for one in told.waste) == report.books.wall_us - report.books.accounts_us["kept"]
    for part in model_object(told)["goodput"].values():
        assert part is None or part == part
    if told.advice is not None:
        assert 0 <= told.advice.in_use.low <= told.advice.in_use.high <= 1
        assert told.advice.best.goodput >= told.advice.in_use.goodput - 1e-9
    if told.band is not None:
        assert 0 <= told.band.low <= told.band.high <= 1


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_worked_case_is_judged(path: Path) -> None:
    for report in recording([str(path)]).reports:
        check(report)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(runs(), st.integers(0, 2**32))
def test_every_generated_run_is_judged_however_messy(run: tuple[list[AnyEvent], Truth], seed: int) -> None:
    ledger = Ledger()
    ledger.add(messed(run[0], random.Random(seed), share=0.1, kinds=KINDS))
    for name in ledger.runs():
        check(RunReport(books=ledger.books(name), details=ledger.details(name)))


@settings(deadline=None, max_examples=30, derandomize=True)
@given(runs(), st.integers(0, 2**32))
def test_the_answer_does_not_depend_on_the_order_of_events(run: tuple[list[AnyEvent], Truth], seed: int) -> None:
    said = []
    for events in (list(run[0]), list(run[0])):
        if said:
            random.Random(seed).shuffle(events)
        ledger = Ledger()
        ledger.add(events)
        told = [judge(ledger.books(name), ledger.details(name)) for name in ledger.runs()]
        said.append([None if one is None else one.sentence for one in told])
    assert said[0] == said[1]
