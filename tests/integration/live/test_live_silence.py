"""A dead node becomes a failure in the log and an incident, is booked, and is taken back when it proves wrong."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_oracle.build import T0, T0_US
from live_world import SECOND, World
from tachograph_agent.events import AnyEvent, Failure, FailureWithdrawn, from_dict
from tachograph_collector.ledger import Ledger
from tachograph_collector.store.incident_tables import incidents


def told(kind: str, t: float, **fields: Any) -> AnyEvent:
    return from_dict({"kind": kind, "t": T0 + t, "run": "r", "attempt": "a1", **fields})


def beats(low: int, high: int, node: str, *, rank: int = 0) -> list[AnyEvent]:
    """Steps of 2 s and heartbeats every 4 s of one node in (low, high]."""
    events: list[AnyEvent] = []
    for t in range(low + 2, high + 1, 2):
        events.append(told("step", t, step=t // 2, dur=2.0, node=node, rank=rank))
        if t % 4 == 0:
            events.append(told("heartbeat", t, node=node, interval_s=5.0))
    return events


def play(world: World, low: int, high: int, nodes: list[str]) -> None:
    """What the nodes tell from second ``low`` to ``high``, every four seconds or so."""
    for t in range(low, high, 4):
        world.at(T0_US + (t + 4) * SECOND + SECOND // 2)
        world.receive([event for rank, node in enumerate(nodes) for event in beats(t, t + 4, node, rank=rank)])
        world.settle()


def begin(world: World) -> None:
    world.receive([told("run.start", 0), told("attempt.start", 0, resume_step=0)])
    play(world, 0, 120, ["n0", "n1"])


def conclusions(world: World) -> list[AnyEvent]:
    return [event for event in world.events("r") if isinstance(event, Failure | FailureWithdrawn)]


def test_dead_node_is_a_failure_in_the_log_an_incident_and_in_the_books(world: World) -> None:
    begin(world)
    world.wait(60, step_s=4)
    found = conclusions(world)
    assert {failure.node for failure in found} == {"n0", "n1"}
    assert all(failure.attempt == "a1" and isinstance(failure, Failure) and failure.inferred for failure in found)
    assert set(world.nodes("r").values()) == {"dead"}
    found_incidents = world.rows(incidents, "r")
    assert {(row["detector"], row["node"], row["cleared_us"]) for row in found_incidents} == {
        ("dead_node", "n0", None),
        ("dead_node", "n1", None),
        ("failure", "n0", None),
    }
    assert world.books("r").books.num_failures == 1
    world.check("r")


def by_detector(world: World) -> dict[str, Any]:
    return {row["detector"]: row for row in world.rows(incidents, "r")}


def test_what_a_death_makes_follows_from_it_and_it_costs_and_says_what_the_run_goes_back_to(world: World) -> None:
    started = told("run.start", 0, world_size=16, price_per_gpu_hour=3.0)
    world.receive([started, told("attempt.start", 0, resume_step=0)])
    play(world, 0, 120, ["n0", "n1"])
    world.receive([told("checkpoint.saved", 60, step=30, dur=0.1, rank=0, node="n0")])
    for t in range(120, 320, 4):  # the other node's agent lives on, and its rank waits
        world.at(T0_US + (t + 4) * SECOND + SECOND // 2)
        world.receive([told("heartbeat", t + 4, node="n0", interval_s=5.0, ranks_alive=[0])])
        world.settle()
    rows = by_detector(world)
    assert set(rows) == {"dead_node", "failure"}
    death, failure = rows["dead_node"], rows["failure"]
    assert (death["node"], death["consequence_of"]) == ("n1", None)
    assert failure["consequence_of"] == death["incident_id"]
    assert death["advice"].startswith("drain n1, replace it, and start again without it; ")
    assert death["advice"].endswith("it goes back to the checkpoint of step 30 and loses 1 min of work")
    cost = death["cost"]
    assert cost["wall_s"] >= 120
    assert cost["gpu_hours"] == pytest.approx(cost["wall_s"] * 16 / 3600)
    assert cost["money"] == pytest.approx(3 * cost["gpu_hours"])
    world.crash()
    world.settle()
    again = by_detector(world)
    assert {name: (row["consequence_of"], row["advice"]) for name, row in again.items()} == {
        name: (row["consequence_of"], row["advice"]) for name, row in rows.items()
    }
    world.check("r")


def test_partition_that_heals_takes_the_death_back_and_a_replay_of_the_log_agrees(world: World) -> None:
    begin(world)
    world.wait(70, step_s=5)
    assert world.books("r").books.num_failures >= 1
    for rank, node in enumerate(["n0", "n1"]):
        world.receive(beats(120, 190, node, rank=rank))
    world.settle()
    play(world, 190, 250, ["n0", "n1"])
    found = conclusions(world)
    failures = [event for event in found if isinstance(event, Failure)]
    assert len(found) == 2 * len(failures)
    assert set(world.nodes("r").values()) == {"alive"}
    assert all(row["cleared_us"] is not None for row in world.rows(incidents, "r"))
    books = world.books("r").books
    assert (books.num_failures, books.accounts_us["lost"], books.accounts_us["restart"]) == (0, 0, 0)
    world.check("r")
    replayed = Ledger()
    replayed.add(world.events("r"))
    assert replayed.books("r").num_failures == 0


def test_collector_that_was_down_holds_nothing_against_the_nodes(world: World) -> None:
    begin(world)
    world.crash()
    world.at(world.clock.now_us + 40 * SECOND)
    world.settle()
    play(world, 160, 200, ["n0", "n1"])
    assert conclusions(world) == []
    assert set(world.nodes("r").values()) == {"alive"}


def test_death_concluded_by_a_collector_that_dies_is_told_once(world: World) -> None:
    begin(world)
    world.wait(24, step_s=4)
    while not conclusions(world):
        world.wait(1)
    world.crash()
    world.wait(120, step_s=4)
    assert len(conclusions(world)) == 2
    assert sorted(row["detector"] for row in world.rows(incidents, "r")) == ["dead_node", "dead_node", "failure"]
    world.check("r")


def test_node_of_a_loaded_recording_never_dies(world: World) -> None:
    world.receive([told("run.start", 0), told("attempt.start", 0), *beats(0, 120, "n0")], origin="replay")
    world.wait(120, step_s=4)
    assert conclusions(world) == []


def test_good_bye_at_the_end_leaves_no_incident(world: World) -> None:
    begin(world)
    goodbye = [told("heartbeat", 121, node=node, goodbye=True) for node in ("n0", "n1")]
    world.receive([*goodbye, told("run.end", 121)])
    world.wait(120, step_s=4)
    assert conclusions(world) == []
    assert world.rows(incidents, "r") == []
    assert set(world.nodes("r").values()) == {"gone"}
    assert world.books("r").frozen_us is not None
