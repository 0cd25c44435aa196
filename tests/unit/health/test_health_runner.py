"""Checks are run when they are due, told on change, and one that raises, hangs or floods harms no other."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
from node_made_up import Says, at_once, run
from tachograph_agent.health.finding import AbsentError, BlindError, Finding
from tachograph_agent.health.runner import Health

LOW = Finding("disk", "warning", "4 % is free", 0.04)
LOWEST = Finding("disk", "critical", "0 % is free", 0.0)
HAPPENED = Finding("xid", "critical", "Xid 79", 79, "0000:3b:00", t=5.0, lasts=False)


def severities(turns: list[list[dict[str, Any]]]) -> list[list[str]]:
    return [[str(told["severity"]) for told in turn] for turn in turns]


def test_a_condition_is_told_when_it_begins_worsens_and_ends_and_not_each_time() -> None:
    check = Says([], [LOW], [LOW], [LOW], [LOWEST], [LOWEST], [], [], [], [])
    turns = run(Health([check], at_once), 10)
    assert severities(turns) == [[], ["warning"], [], [], ["critical"], [], [], ["info"], [], []]
    assert turns[4][0]["open"] is True
    assert turns[7][0]["open"] is False
    assert turns[7][0]["detail"] == "cleared: 0 % is free"


def test_one_look_without_it_does_not_end_a_condition() -> None:
    turns = run(Health([Says([LOW], [], [LOW], [], [LOW])], at_once), 5)
    assert severities(turns) == [["warning"], [], [], [], []]


def test_a_condition_that_stays_is_told_again_each_hour() -> None:
    health = Health([Says(*[[LOW]] * 20, every_s=600.0)], at_once)
    assert [len(turn) for turn in run(health, 13, every_s=600.0)] == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]


def test_a_condition_that_must_last_is_told_when_it_has() -> None:
    slow = Finding("stuck", "warning", "stuck", 7, num_looks=3)
    turns = run(Health([Says([slow], [slow], [], [slow], [slow], [slow])], at_once), 6)
    assert [len(turn) for turn in turns] == [0, 0, 0, 0, 0, 1]


def test_what_happened_is_told_as_it_is_each_time() -> None:
    turns = run(Health([Says([HAPPENED], [HAPPENED])], at_once), 2)
    assert turns[0] == turns[1] == [
        {"check": "xid", "gpu": "0000:3b:00", "value": 79, "severity": "critical", "detail": "Xid 79", "t": 5.0}
    ]  # fmt: skip


@pytest.mark.parametrize(("error", "state"), [(AbsentError("no GPU"), "absent"), (BlindError("may not"), "blind")])
def test_absent_and_blind_are_said_once_and_are_no_failure(error: Exception, state: str) -> None:
    health = Health([Says(*[error] * 5, name="nvml")], at_once)
    turns = run(health, 5, every_s=4000.0)
    assert [len(turn) for turn in turns] == [1, 0, 0, 0, 0]
    told = turns[0][0]
    assert (told["check"], told["severity"], told["state"]) == ("nvml", "info", state)
    assert told["detail"] == f"{state}: {error}"
    assert health.states() == {"nvml": state}
    assert not health.failures


def test_a_check_that_raises_is_told_once_and_the_others_go_on() -> None:
    bad, good = Says(*[ZeroDivisionError("by zero")] * 4, name="bad"), Says(*[[HAPPENED]] * 4)
    health = Health([bad, good], at_once)
    turns = run(health, 4)
    assert [[told["check"] for told in turn] for turn in turns] == [["bad", "xid"], ["xid"], ["xid"], ["xid"]]
    assert turns[0][0]["detail"] == "the check bad failed: ZeroDivisionError: by zero"
    assert health.failures == {"bad": 4}
    assert health.states() == {"bad": "failed", "made": "ok"}


def test_what_happened_before_a_check_failed_is_told_and_what_lasts_is_not_cleared() -> None:
    def half() -> Any:
        yield HAPPENED
        raise OSError("gone")

    check = Says([LOW], half(), half())
    turns = run(Health([check], at_once), 3)
    assert [[told["check"] for told in turn] for turn in turns] == [["disk"], ["xid", "made"], ["xid"]]


@pytest.mark.parametrize("found", [[{"check": "xid"}], [None], 7, None])
def test_what_is_no_finding_fails_its_check_alone(found: Any) -> None:
    check = Says()
    check.looks = [found]
    ((told,),) = run(Health([check], at_once), 1)
    assert told["state"] == "failed"


def test_a_flood_is_cut_and_said() -> None:
    flood = [Finding("made", "warning", f"number {number}", lasts=False) for number in range(500)]
    (told,) = run(Health([Says(flood)], at_once), 1)
    assert len(told) == 101
    assert "more than 100 things" in str(told[-1]["detail"])


class Threads:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.works.append(work)


def test_a_check_that_hangs_is_told_once_is_not_started_again_and_holds_up_nobody() -> None:
    threads = Threads()
    slow = Says([LOW], name="slow")
    health = Health([slow, Says(name="other")], threads)
    assert run(health, 10) == [[]] * 10
    assert len(threads.works) == 2
    (told,) = health.run_due(10.0)[:1]
    assert (told["check"], told["state"], told["severity"]) == ("slow", "hung", "warning")
    assert health.states()["slow"] == "hung"
    threads.works[1]()
    health.run_due(11.0)
    assert health.run_due(12.0) == []
    assert [work for work in threads.works if work is threads.works[0]] == [threads.works[0]]
    assert health.failures["slow"] == 1
    threads.works[0]()
    assert [told["check"] for told in health.run_due(13.0)] == ["disk"]
    assert health.states()["slow"] == "ok"


def test_a_turn_never_waits_for_a_check_that_hangs_in_a_thread() -> None:
    let_go = threading.Event()
    ended = threading.Event()

    class Hangs(Says):
        def look(self) -> list[Finding]:
            let_go.wait(60.0)
            ended.set()
            return []

    health = Health([Hangs()])
    assert health.run_due(0.0) == []
    assert [told["state"] for told in health.run_due(100.0)] == ["hung"]
    let_go.set()
    assert ended.wait(60.0)


def test_no_more_threads_is_a_failure_of_the_look_and_not_of_the_agent() -> None:
    def refuse(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    ((told,),) = run(Health([Says()], refuse), 1)
    assert "can't start new thread" in str(told["detail"])


def test_a_long_detail_is_cut() -> None:
    ((told,),) = run(Health([Says([Finding("made", "warning", "x" * 5000)])], at_once), 1)
    assert told["detail"] == "x" * 300


def test_looks_keep_their_interval_and_the_least_that_is_told() -> None:
    often, seldom = Says(name="often", every_s=1.0), Says(name="seldom", every_s=10.0)
    run(Health([often, seldom], at_once, least_every_s=5.0), 20)
    assert (often.num_looks, seldom.num_looks) == (4, 2)


def test_a_dear_check_looks_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    used_s = iter(range(1000))
    monkeypatch.setattr("tachograph_agent.health.runner.time.thread_time", lambda: next(used_s) * 0.01)
    check = Says(every_s=1.0)
    run(Health([check], at_once), 30)
    assert check.num_looks == 6  # 10 ms a look, at most 0.2 % of a core: every 5 s


def test_a_very_dear_check_still_looks_at_a_tenth_of_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    used_s = iter(range(1000))
    monkeypatch.setattr("tachograph_agent.health.runner.time.thread_time", lambda: next(used_s) * 100.0)
    check = Says(every_s=1.0)
    run(Health([check], at_once), 30)
    assert check.num_looks == 3


def test_what_a_check_found_is_settled_only_after_it_was_given() -> None:
    check = Says([LOW], every_s=100.0)
    health = Health([check], at_once)
    health.run_due(0.0)
    assert check.num_settled == 0
    health.run_due(1.0)
    assert check.num_settled == 1


def test_what_is_open_is_there_for_a_run_that_begins() -> None:
    health = Health([Says([LOW, HAPPENED]), Says(AbsentError("no GPU"), name="nvml")], at_once)
    health.run_due(0.0)
    assert [told["check"] for told in health.open()] == ["disk", "nvml"]


@pytest.mark.parametrize(
    "fields",
    [
        {"severity": "bad"},
        {"check": ""},
        {"detail": None},
        {"value": math.nan},
        {"value": object()},
        {"t": math.inf},
        {"dur": "long"},
        {"gpu": {1: {2: 3}}},
        {"extra": {"run": "another"}},
        {"extra": {"count": object()}},
        {"subject": []},
    ],
)
def test_a_finding_that_no_event_can_hold_is_refused_where_it_is_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"of a finding|of every event"):
        Finding(**{"check": "made", "severity": "warning", "detail": "words", **fields})
