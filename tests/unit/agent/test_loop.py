"""The loop: every event exactly once, whatever is answered and whenever the agent dies."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest
from agent_server.spools import Collector, dead_file, event, loop_of, run_dry, step
from tachograph_agent.sidecar.batch import Batch
from tachograph_agent.sidecar.loop import POLL_S, Loop
from tachograph_agent.sidecar.ship import Answer, Fate

END = event("recorder.end", 99, reason="exit")
LATER = Answer(Fate.LATER, "503")


def test_spool_is_shipped_and_then_empty(tmp_path: Path) -> None:
    path = dead_file(tmp_path / "spool", *[step(number) for number in range(1, 10)], END)
    collector = Collector()
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    run_dry(loop)
    assert collector.steps() == list(range(1, 10))
    assert not path.exists()
    assert not path.parent.exists()
    assert loop.counters.events_stored == 10


def test_steps_wait_for_the_flush_and_lifecycle_events_do_not(tmp_path: Path) -> None:
    path = dead_file(tmp_path / "spool", step(1))
    collector = Collector()
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector, flush_s=5.0)
    loop.liveness.look = lambda now_unix_s: False  # type: ignore[method-assign]  # the writer lives
    loop.tick(0.0)
    loop.tick(3.9)
    assert collector.seen == []
    loop.tick(6.1)
    assert collector.steps() == [1]
    with path.open("ab") as file:
        file.write(step(2) + event("checkpoint.persisted", 2, step=2))
    loop.tick(6.4)
    loop.tick(6.5)
    assert collector.kinds() == ["step", "step", "checkpoint.persisted"]


def test_batch_that_is_not_taken_is_sent_again_under_its_name(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    collector = Collector(LATER, LATER)
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    run_dry(loop)
    assert len({batch.name for batch in collector.seen}) == 1
    assert collector.steps() == [1]
    assert loop.counters.retries == 2


def test_retry_after_is_kept_to(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    collector = Collector(Answer(Fate.LATER, "503", retry_after_s=30.0))
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    for now_s in (0.0, 0.1, 20.0, 29.9):
        loop.tick(now_s, drain=True)
    assert len(collector.seen) == 1
    loop.tick(40.0, drain=True)
    assert len(collector.seen) == 2


def test_collector_that_is_away_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    loop = loop_of(tmp_path / "spool", tmp_path / "state", Collector(*[LATER] * 20))
    with caplog.at_level(logging.WARNING):
        for turn in range(10):
            loop.tick(turn * 100.0, drain=True)
    assert len(caplog.records) == 1


def test_batch_too_large_is_split_and_whole_in_the_end(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", *[step(number) for number in range(1, 50)], END)
    collector = Collector(Answer(Fate.TOO_LARGE), Answer(Fate.TOO_LARGE))
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    run_dry(loop)
    assert collector.steps() == list(range(1, 50))
    assert loop.counters.batches_split == 2


class SlowSender:
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.sent: list[Batch] = []
        self.prepared: list[Batch] = []
        self.answer: Answer | None = None

    def start(self, batch: Batch) -> None:
        self.sent.append(batch)

    def prepare(self, batch: Batch) -> None:
        self.prepared.append(batch)

    def take(self) -> Answer | None:
        answer, self.answer = self.answer, None
        return answer


def test_one_batch_is_away_at_a_time_and_the_next_is_packed_meanwhile(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", *[step(number) for number in range(1, 300)], END)
    sender = SlowSender()
    loop = Loop(tmp_path / "spool", tmp_path / "state", sender, "n1", batch_bytes=5000)
    for turn in range(5):
        loop.tick(float(turn))
    assert len(sender.sent) == len(sender.prepared) == 1
    assert loop.positions.pending == sender.sent[0].ranges
    sender.answer = Answer(Fate.STORED)
    loop.tick(10.0)
    assert sender.sent[1] is sender.prepared[0]
    assert loop.positions.pending == sender.sent[1].ranges


def test_death_is_written_while_a_batch_is_away(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    loop = Loop(tmp_path / "spool", tmp_path / "state", SlowSender(), "n1")
    loop.tick(0.0, drain=True)
    assert loop.is_waiting
    dead_file(tmp_path / "spool", step(1, rank=1), rank=1)
    loop.tick(0.25)
    (path,) = (tmp_path / "spool").glob("u*/agent/*.jsonl")
    assert b'"kind":"failure"' in path.read_bytes()


def test_batch_refused_for_good_is_kept_as_a_dead_letter_and_the_rest_goes_on(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    collector = Collector(Answer(Fate.REFUSED, "answered 400: no"))
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    now_s = run_dry(loop)
    dead_file(tmp_path / "spool", step(2), END)
    run_dry(loop, now_s)
    (letter,) = (tmp_path / "state" / "dead-letter").iterdir()
    assert letter.read_bytes() == b"# answered 400: no\n" + step(1) + END
    assert collector.steps() == [2]
    assert loop.counters.batches_refused == 1


def test_batch_refused_by_collector_and_disk_is_counted_and_told_by_a_gap(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    state = tmp_path / "state"
    state.mkdir()
    (state / "dead-letter").write_text("in the way")
    collector = Collector(Answer(Fate.REFUSED, "answered 400"))
    loop = loop_of(tmp_path / "spool", state, collector)
    run_dry(loop)
    assert (loop.counters.dropped["step"], loop.counters.dropped["lifecycle"]) == (1, 1)
    assert collector.kinds() == ["gap"]


def test_gap_of_a_batch_that_is_lost_is_told_to_each_run_in_it(tmp_path: Path) -> None:
    other = step(7).replace(b'"lab/run"', b'"lab/other"')
    dead_file(tmp_path / "spool", step(1), step(2), other, END)
    state = tmp_path / "state"
    state.mkdir()
    (state / "dead-letter").write_text("in the way")
    collector = Collector(Answer(Fate.REFUSED, "answered 400"))
    run_dry(loop_of(tmp_path / "spool", state, collector))
    gaps = {gap["run"]: gap for gap in collector.events}
    assert {run: gap["dropped"] for run, gap in gaps.items()} == {"lab/run": 3, "lab/other": 1}


@pytest.mark.parametrize("harm", ["deleted", "replaced"])
def test_file_of_a_dead_rank_that_is_taken_away_before_it_was_read_is_counted_and_told_by_a_gap(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = dead_file(tmp_path / "spool", step(1))
    collector = Collector()
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    run_dry(loop)
    path = dead_file(tmp_path / "spool", step(2))
    loop.follower.poll()  # seen, and not read yet
    with path.open("ab") as file:
        file.write(step(3) + event("checkpoint.persisted", 4, step=3))
    path.unlink()
    if harm == "replaced":
        dead_file(tmp_path / "spool", step(7), END)
    run_dry(loop, 100.0)
    (gap,) = [told for told in collector.events if told["kind"] == "gap"]
    assert (gap["run"], gap["dropped"]) == ("lab/run", 3)
    assert "was deleted before it was sent" in gap["detail"]
    assert dict(loop.counters.dropped) == {"step": 2, "lifecycle": 1}
    assert "3 events are lost" in caplog.text
    assert collector.steps() == ([1, 7] if harm == "replaced" else [1])


def test_positions_that_cannot_be_written_stop_nothing(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), END)
    (tmp_path / "state").write_text("in the way")
    collector = Collector()
    run_dry(loop_of(tmp_path / "spool", tmp_path / "state", collector))
    assert collector.steps() == [1]


def test_agent_that_dies_before_it_heard_the_answer_sends_the_same_batch_again(tmp_path: Path) -> None:
    path = dead_file(tmp_path / "spool", step(1), step(2))
    collector = Collector()
    first = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    first.tick(0.0, drain=True)  # sent and stored, and the agent dies here
    with path.open("ab") as file:
        file.write(step(3) + END)
    second = loop_of(tmp_path / "spool", tmp_path / "state", collector)
    run_dry(second)
    names = [batch.name for batch in collector.seen]
    assert names[0] == names[1]
    assert collector.steps() == [1, 2, 1, 2, 3]


def test_file_name_that_comes_again_is_read_from_its_start(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", step(1), step(2), END)
    collector = Collector()
    run_dry(loop_of(tmp_path / "spool", tmp_path / "state", collector))
    dead_file(tmp_path / "spool", step(3), END)
    run_dry(loop_of(tmp_path / "spool", tmp_path / "state", collector))
    assert collector.steps() == [1, 2, 3]


@pytest.mark.parametrize("seed", range(12))
def test_agents_that_die_at_any_turn_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for rank in range(3):
        dead_file(tmp_path / "spool", *[step(n, rank=rank) for n in range(1, 200)], END, rank=rank)
    fates = [LATER, Answer(Fate.TOO_LARGE), Answer(Fate.STORED), Answer(Fate.STORED)]
    collector = Collector(*[chance.choice(fates) for _ in range(60)])
    for _ in range(15):
        loop = loop_of(tmp_path / "spool", tmp_path / "state", collector, batch_bytes=chance.randint(500, 20_000))
        now_s = 0.0
        for _ in range(chance.randint(0, 12)):
            loop.tick(now_s, drain=True)
            now_s += chance.choice([0.0, 100.0])
        loop.follower.close()  # killed: nothing is written down at its end
    collector.answers.clear()
    run_dry(loop_of(tmp_path / "spool", tmp_path / "state", collector))
    by_name = {batch.name: batch for batch in collector.stored}
    lines = {line for batch in by_name.values() for line in batch.lines.splitlines()}
    assert {line + b"\n" for line in lines} >= {step(n, rank=rank) for rank in range(3) for n in range(1, 200)}
    assert not list((tmp_path / "spool").glob("u*/*/rank*"))


def test_full_batches_go_on_without_waiting_for_the_next_look(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", *[step(number) for number in range(1, 1000)], END)
    loop = loop_of(tmp_path / "spool", tmp_path / "state", Collector(), batch_bytes=10_000, max_bytes_per_s=1e6)
    loop.tick(0.0)
    assert loop.tick(0.0) < POLL_S / 5


def test_backlog_is_sent_at_a_limited_rate(tmp_path: Path) -> None:
    dead_file(tmp_path / "spool", *[step(number) for number in range(1, 2000)], END)
    collector = Collector()
    loop = loop_of(tmp_path / "spool", tmp_path / "state", collector, batch_bytes=10_000, max_bytes_per_s=10_000.0)
    for turn in range(100):
        loop.tick(turn * 0.05)  # five seconds
    sent = sum(len(batch.lines) for batch in collector.seen)
    assert 40_000 < sent < 70_000


def test_lag_and_queue_are_seen(tmp_path: Path) -> None:
    path = dead_file(tmp_path / "spool", step(1), END)
    loop = loop_of(tmp_path / "spool", tmp_path / "state", Collector(LATER))
    loop.tick(0.0, drain=True)
    assert loop.status.unconfirmed_bytes == path.stat().st_size
    assert loop.status.oldest_unix_s == pytest.approx(path.stat().st_mtime)
