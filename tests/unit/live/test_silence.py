"""When a node is suspect, dead, or only its agent lost; what is taken back; and what is held against nobody."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ledger_oracle.build import T0, T0_US
from tachograph_agent.events import AnyEvent, Failure, FailureWithdrawn, from_dict
from tachograph_collector.detect.silence import Conclusion, Silence, SilenceState
from tachograph_collector.live.node_rows import node_rows
from tachograph_collector.store.incident_rows import incident_row

SECOND = 1_000_000


class Cluster:
    """Nodes that beat every 5 s and step every 4 s, heard ``way_s`` later, watched by a collector that may be down."""

    def __init__(self, num_nodes: int = 1, *, way_s: float = 0.2, clock_s: float = 0.0) -> None:
        self.silence = Silence("r", 7)
        self.names = [f"n{number}" for number in range(num_nodes)]
        self.beating = set(self.names)
        self.stepping = set(self.names)
        self.way_s, self.clock_s = way_s, clock_s
        self.now_s = 0
        self.attempt: str | None = "a1"
        self.concluded: list[Conclusion] = []
        self.step_of = dict.fromkeys(self.names, 0)

    def event(self, kind: str, t: float, **fields: Any) -> AnyEvent:
        return from_dict({"kind": kind, "t": T0 + t + self.clock_s, "run": "r", "attempt": "a1", **fields})

    def hear(self, *events: AnyEvent, at: float | None = None) -> None:
        at = self.now_s + self.way_s if at is None else at
        self.silence.hear(T0_US + round(at * SECOND), list(events))

    def step(self, name: str, t: float | None = None, at: float | None = None, **fields: Any) -> None:
        self.step_of[name] += 1
        t = self.now_s if t is None else t
        told = {"step": self.step_of[name], "dur": 4.0, "node": name, "rank": 0, **fields}
        self.hear(self.event("step", t, **told), at=at)

    def run(self, seconds: int, *, judged: bool = True) -> None:
        """Let time pass; what is concluded is heard again, as from the log."""
        for _ in range(seconds):
            self.now_s += 1
            for name in self.names:
                if name in self.beating and self.now_s % 5 == 0:
                    self.hear(self.event("heartbeat", self.now_s, node=name, interval_s=5.0))
                if name in self.stepping and self.now_s % 4 == 0:
                    self.step(name)
            if judged:
                self.judge()

    def judge(self) -> list[Conclusion]:
        at_us = T0_US + self.now_s * SECOND + SECOND // 2
        found = self.silence.judge(at_us, self.attempt)
        self.concluded += found
        for each in found:
            self.silence.hear(at_us, [each.event])
        return found

    def states(self) -> list[str]:
        return [self.silence.nodes[name].state for name in self.names]

    def deaths(self) -> list[Failure]:
        return [each.event for each in self.concluded if isinstance(each.event, Failure)]


def fell_silent(num_nodes: int = 1, **how: Any) -> Cluster:
    """A cluster in which the first node falls silent, ranks and all, after two minutes (last heartbeat at 120 s)."""
    cluster = Cluster(num_nodes, **how)
    cluster.run(120)
    cluster.beating.discard("n0")
    cluster.stepping.discard("n0")
    return cluster


def test_node_that_beats_is_alive_and_nothing_is_concluded() -> None:
    cluster = Cluster(3)
    cluster.run(300)
    assert cluster.states() == ["alive"] * 3
    assert cluster.concluded == []
    assert cluster.silence.take_incidents() == []


def test_silent_node_is_suspect_at_15_s_and_dead_at_30_s_if_its_ranks_are_silent_too() -> None:
    cluster = fell_silent()
    cluster.run(14)
    assert cluster.states() == ["alive"]
    cluster.run(1)
    assert cluster.states() == ["suspect"]
    cluster.run(14)
    assert cluster.deaths() == []
    cluster.run(1)
    [death] = cluster.deaths()
    assert cluster.states() == ["dead"]
    assert (death.category, death.inferred, death.node, death.attempt, death.run) == (
        "heartbeat", True, "n0", "a1", "r",
    )  # fmt: skip
    assert death.dur == pytest.approx(30, abs=0.5)
    [incident] = cluster.silence.take_incidents()
    assert (incident.detector, incident.subject, incident.severity, incident.cleared_us) == (
        "dead_node", "node n0", "critical", None,
    )  # fmt: skip
    cluster.run(120)
    assert len(cluster.deaths()) == 1


def test_death_is_told_by_the_nodes_own_clock() -> None:
    cluster = fell_silent(clock_s=-3600.0)
    cluster.run(31)
    [death] = cluster.deaths()
    assert death.t == pytest.approx(T0 - 3600 + 150, abs=1)


def test_node_of_unknown_ranks_is_dead_at_60_s_only() -> None:
    cluster = Cluster()
    cluster.stepping.clear()
    cluster.run(120)
    cluster.beating.clear()
    cluster.run(59)
    assert (cluster.states(), cluster.deaths()) == (["suspect"], [])
    cluster.run(1)
    assert len(cluster.deaths()) == 1


def test_agent_is_lost_and_not_the_node_where_its_ranks_step_on() -> None:
    cluster = Cluster(2)
    cluster.run(120)
    cluster.beating.discard("n0")
    cluster.run(300)
    assert cluster.states() == ["lost", "alive"]
    assert cluster.concluded == []
    cluster.stepping.discard("n0")
    cluster.run(31)
    assert [death.node for death in cluster.deaths()] == ["n0"]


def test_node_that_reports_no_steps_itself_lives_while_the_run_steps_on() -> None:
    cluster = Cluster(2)
    cluster.stepping.discard("n1")
    cluster.run(120)
    cluster.beating.discard("n1")
    cluster.run(300)
    assert (cluster.states(), cluster.concluded) == (["alive", "lost"], [])


def test_good_bye_is_no_death() -> None:
    cluster = Cluster()
    cluster.run(120)
    cluster.beating.clear()
    cluster.stepping.clear()
    cluster.hear(cluster.event("heartbeat", 121, node="n0", goodbye=True), at=121)
    cluster.run(300)
    assert (cluster.states(), cluster.concluded) == (["gone"], [])


def test_node_without_ranks_left_leaves_without_a_death() -> None:
    cluster = fell_silent()
    cluster.hear(cluster.event("heartbeat", 121, node="n0", ranks_alive=0), at=121)
    cluster.run(300)
    assert (cluster.states(), cluster.concluded) == (["gone"], [])


def test_slow_steps_are_no_second_sign_of_death() -> None:
    cluster = Cluster()
    cluster.stepping.clear()
    for _ in range(6):
        cluster.run(40)
        cluster.step("n0", dur=40.0)
    cluster.beating.clear()
    cluster.run(45)
    assert cluster.deaths() == []


def test_absence_while_the_collector_was_down_is_held_against_nobody() -> None:
    cluster = Cluster(2)
    cluster.run(120)
    cluster.beating.clear()
    cluster.stepping.clear()
    cluster.run(40, judged=False)
    cluster.judge()
    assert cluster.concluded == []
    cluster.run(29)
    assert cluster.deaths() == []
    cluster.run(32)
    assert len(cluster.deaths()) == 2


def test_absence_before_a_collector_took_over_is_held_against_nobody() -> None:
    cluster = fell_silent()
    cluster.run(29)
    cluster.silence = Silence("r", 7, cluster.silence.state())
    cluster.run(20)
    assert cluster.deaths() == []
    cluster.run(41)
    assert len(cluster.deaths()) == 1


def test_backlog_flushed_after_a_partition_revives_nobody() -> None:
    cluster = fell_silent()
    cluster.run(60)
    backlog = [cluster.event("heartbeat", t, node="n0") for t in range(121, 136, 5)]
    cluster.hear(*backlog)
    for late in backlog:
        cluster.hear(late)
    assert cluster.states() == ["dead"]


def test_work_from_after_its_death_takes_the_death_back() -> None:
    cluster = fell_silent()
    cluster.run(60)
    [death] = cluster.deaths()
    for t in range(124, 180, 4):
        cluster.step("n0", t=t)
    [withdrawn] = cluster.judge()
    assert isinstance(withdrawn.event, FailureWithdrawn)
    event = withdrawn.event
    assert (event.of_t, event.attempt, event.node, event.rank) == (death.t, "a1", "n0", None)
    cluster.beating.add("n0")
    cluster.stepping.add("n0")
    cluster.run(60)
    assert (cluster.states(), len(cluster.concluded)) == (["alive"], 2)
    incident = cluster.silence.take_incidents()[-1]
    assert incident.cleared_us is not None
    assert incident.is_withdrawn


def test_work_from_before_its_death_that_comes_late_proves_nothing() -> None:
    cluster = fell_silent()
    cluster.run(60)
    for t in range(124, 148, 4):
        cluster.step("n0", t=t)
    cluster.run(5)
    assert len(cluster.concluded) == 1


def test_steps_of_another_attempt_or_from_an_earlier_step_prove_nothing() -> None:
    cluster = fell_silent()
    cluster.run(60)
    cluster.step("n0", t=178, attempt="a2")
    cluster.step("n0", t=179, step=3)
    cluster.run(5)
    assert len(cluster.concluded) == 1


def test_replacement_of_the_same_name_inherits_no_age_and_clears_the_incident() -> None:
    cluster = fell_silent()
    cluster.run(60)
    cluster.attempt = "a2"
    cluster.beating.add("n0")
    cluster.run(10)
    assert cluster.states() == ["alive"]
    assert cluster.silence.take_incidents()[-1].cleared_us is not None
    cluster.beating.clear()
    cluster.run(58)
    assert len(cluster.concluded) == 1
    cluster.run(8)
    assert [death.attempt for death in cluster.deaths()] == ["a1", "a2"]


def test_many_nodes_at_once_are_one_failure_and_one_incident() -> None:
    cluster = Cluster(10)
    cluster.run(120)
    for name in cluster.names[:6]:
        cluster.beating.discard(name)
        cluster.stepping.discard(name)
    cluster.run(120)
    [death] = cluster.deaths()
    assert death.node is None
    assert "6 of 10 nodes" in (death.detail or "")
    assert cluster.states() == ["dead"] * 6 + ["alive"] * 4
    [incident] = cluster.silence.take_incidents()
    assert (incident.subject, incident.node) == ("run", None)


def test_nobody_dies_after_the_run() -> None:
    cluster = fell_silent(2)
    cluster.attempt = None
    cluster.run(300)
    assert cluster.concluded == []


def test_node_that_was_expected_and_never_seen_is_an_incident_after_ten_minutes() -> None:
    cluster = Cluster(1)
    cluster.hear(cluster.event("run.start", 0, nodes=["n0", "n9"]), at=0.1)
    cluster.run(595)
    assert cluster.silence.take_incidents() == []
    cluster.run(10)
    [incident] = cluster.silence.take_incidents()
    assert (incident.node, incident.severity) == ("n9", "warning")
    cluster.hear(cluster.event("heartbeat", 606, node="n9"), at=606)
    [cleared] = cluster.silence.take_incidents()
    assert cleared.cleared_us is not None
    assert cluster.concluded == []


def test_clock_that_is_set_back_kills_nobody() -> None:
    cluster = Cluster(1)
    cluster.run(120)
    cluster.clock_s = -7200
    cluster.run(300)
    assert (cluster.states(), cluster.concluded) == (["alive"], [])


def test_conclusion_has_the_same_name_whoever_comes_to_it() -> None:
    one, other = fell_silent(), fell_silent()
    one.run(31)
    other.run(20)
    other.silence = Silence(
        "r", 7, msgspec.msgpack.decode(msgspec.msgpack.encode(other.silence.state()), type=SilenceState)
    )
    other.run(70)
    assert [each.batch_id for each in one.concluded] == [each.batch_id for each in other.concluded]


def test_death_heard_from_the_log_is_not_concluded_again() -> None:
    cluster = fell_silent()
    cluster.run(29)
    cluster.hear(cluster.event("failure", 149, node="n0", category="heartbeat", inferred=True))
    cluster.run(100)
    assert cluster.concluded == []
    assert cluster.states() == ["dead"]


def test_rows_hold_what_a_heartbeat_told() -> None:
    cluster = Cluster(1)
    told = {"ranks_alive": 8, "queue_bytes": 17, "dropped": 2, "clock_offset_s": 0.25, "step": 40, "interval_s": 5.0}
    cluster.hear(cluster.event("heartbeat", 10, node="n0", **told), at=11)
    [row] = node_rows(cluster.silence.take_heard())
    assert {name: row[name] for name in told if name != "interval_s"} == {
        name: value for name, value in told.items() if name != "interval_s"
    }
    assert (row["interval_us"], row["last_heard_us"], row["state"]) == (5 * SECOND, T0_US + 11 * SECOND, "alive")
    assert node_rows(cluster.silence.take_heard()) == []


def test_names_no_database_can_hold_are_written_all_the_same() -> None:
    cluster = Cluster(1)
    cluster.hear(cluster.event("heartbeat", 10, node="a\0b"), at=11)
    cluster.hear(cluster.event("failure", 20, node="a\0b", category="heartbeat", inferred=True), at=21)
    rows = [*node_rows(cluster.silence.take_heard()), *map(incident_row, cluster.silence.take_incidents())]
    assert len(rows) == 2
    assert "\0" not in repr(rows)
    assert "\\x00" not in repr(rows)


def test_heartbeat_that_its_good_bye_overtook_revives_nobody() -> None:
    cluster = Cluster(2)
    cluster.run(121)
    cluster.beating.discard("n0")
    cluster.stepping.discard("n0")
    last, goodbye = (cluster.event("heartbeat", 121 + late, node="n0", interval_s=5.0) for late in (0.0, 0.5))
    goodbye.unknown_fields = {"goodbye": True}
    cluster.hear(goodbye)
    cluster.hear(last, at=cluster.now_s + 1.0)
    cluster.run(120)
    assert (cluster.states()[0], cluster.deaths()) == ("gone", [])
    cluster.hear(cluster.event("heartbeat", cluster.now_s, node="n0", interval_s=5.0))
    assert cluster.states()[0] == "alive"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_node_that_dies_soon_after_the_collector_was_down_is_named_as_soon_as_ever(is_restarted: bool) -> None:
    """What the collector missed made steps look far apart, and a death then waited for three times that."""
    cluster = Cluster(3)
    cluster.run(120)
    cluster.now_s += 25
    if is_restarted:
        cluster.silence = Silence("r", 7, cluster.silence.state())
    cluster.run(20)
    cluster.beating.discard("n0")
    cluster.stepping.discard("n0")
    cluster.run(35)
    assert [death.node for death in cluster.deaths()] == ["n0"]


def test_death_costs_the_time_since_the_last_step_more_each_minute_and_says_what_to_do() -> None:
    cluster = fell_silent(num_nodes=3)
    cluster.stepping.clear()  # the others wait for it
    cluster.run(30)
    [incident] = cluster.silence.take_incidents()
    assert incident.advice == "drain n0, replace it, and start again without it"
    assert incident.cost is not None
    assert incident.cost.wall_s == pytest.approx(30, abs=1)
    cluster.run(59)
    assert cluster.silence.take_incidents() == []
    cluster.run(1)
    [later] = cluster.silence.take_incidents()
    assert later.cost is not None
    assert (later.incident_id, later.cost.wall_s) == (incident.incident_id, pytest.approx(90, abs=1))
    cluster.attempt = "a2"
    cluster.step("n1", attempt="a2")
    cluster.judge()
    [over] = cluster.silence.take_incidents()
    assert over.outcome == "attempt ended"
    assert over.cost is not None
    assert over.cost.wall_s == pytest.approx(90, abs=1)


def test_death_that_nobody_waits_for_costs_next_to_nothing() -> None:
    cluster = fell_silent(num_nodes=3)
    cluster.run(150)
    incident = cluster.silence.take_incidents()[-1]
    assert incident.cost is not None
    assert 0 <= (incident.cost.wall_s or 0.0) <= 5


def test_a_death_that_is_taken_back_has_cost_nothing() -> None:
    cluster = fell_silent()
    cluster.run(31)
    cluster.step("n0", t=160, at=200, dur=4.0)
    cluster.judge()
    last = cluster.silence.take_incidents()[-1]
    assert last.outcome is not None
    assert last.outcome.startswith("withdrawn")
    assert last.cost is None
