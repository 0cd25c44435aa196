"""The demo's watch tells each thing once, and takes for found only what was expected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from demo import watch as watching
from demo.watch import Watch
from tachograph_collector.client import Client, UnknownRunError
from tachograph_collector.client.incident_records import Incident
from tachograph_collector.client.records import Restart


def restart(**fields: Any) -> Restart:
    told = {"attempt": 0, "how": "failure", "at": 1.0, "cost_s": 0.0, "lost_s": 0.0, "restart_s": 0.0}
    return Restart(**told | fields)


def incident(detector: str, subject: str, *, is_open: bool = True) -> Incident:
    return Incident(
        incident_id=f"{detector}-{subject}", run="demo", detector=detector, subject=subject, severity="critical",
        is_open=is_open, opened_at=1.0, found_at=2.0, updated_at=2.0, summary=f"{subject} is wrong",
        outcome=None if is_open else "recovered",
    )  # fmt: skip


@dataclass
class Answers:
    """A collector that knows of the run what it was told."""

    knows: bool = True
    told_restarts: list[Restart] = field(default_factory=list)
    told_incidents: list[Incident] = field(default_factory=list)

    def run(self, name: str) -> Answers:
        return self

    def restarts(self) -> list[Restart]:
        if not self.knows:
            raise UnknownRunError("no such run", None, [])
        return self.told_restarts

    def incidents(self) -> list[Incident]:
        return self.told_incidents


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    monkeypatch.setattr(watching, "ASK_EVERY_S", 0.0)
    return Answers()


def looking(answers: Answers) -> tuple[Watch, list[str]]:
    said: list[str] = []
    return Watch(cast(Client, answers), said.append), said


def test_a_run_that_is_not_known_yet_is_waited_for(answers: Answers) -> None:
    answers.knows = False
    watch, said = looking(answers)
    watch.look()
    assert said == []


def test_what_was_expected_is_found_and_nothing_else_is_taken_for_it(answers: Answers) -> None:
    watch, _ = looking(answers)
    killed = watch.expect("rank 5 killed", "failure, rank 5")
    slow = watch.expect("rank 3 held back", "straggler, rank 3")
    answers.told_restarts = [restart(rank=4)]
    answers.told_incidents = [incident("straggler", "rank 2"), incident("hang", "rank 3")]
    watch.look()
    assert (killed.by, slow.by, slow.after_s) == (None, None, None)
    answers.told_restarts = [restart(rank=4), restart(rank=5)]
    answers.told_incidents = [incident("straggler", "rank 3")]
    watch.look()
    assert (killed.by, slow.by) == ("failure, rank 5", "straggler, rank 3")
    assert slow.after_s is not None


def test_each_incident_is_told_when_it_opens_and_when_it_is_over_and_no_oftener(answers: Answers) -> None:
    watch, said = looking(answers)
    answers.told_incidents = [incident("loss_spike", "run")]
    watch.look()
    watch.look()
    answers.told_incidents = [incident("loss_spike", "run", is_open=False)]
    watch.look()
    watch.look()
    assert [line.strip() for line in said] == [
        "collector: critical: run is wrong",
        "over: loss_spike, run (recovered)",
    ]
