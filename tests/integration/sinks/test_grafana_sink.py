"""Annotations in what behaves like Grafana: one an incident, whatever answers are lost, a region once it is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from sink_server import Behaviour, Grafana
from tachograph_collector.sinks.courier import Courier
from tachograph_collector.sinks.secret import Secret
from tachograph_collector.store.database import Database
from told_sinks import World, config


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def courier_to(world: World, grafana: Grafana, **more: object) -> Courier:
    return world.courier(told=config("grafana", url=grafana.url + "/", **more))


def turns(world: World, courier: Courier, num: int = 4) -> None:
    for _ in range(num):
        courier.turn()
        world.hours_pass()


def test_an_incident_is_a_mark_when_it_opens_and_a_region_when_it_is_over(world: World) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana, dashboard_uid="abc")
        one = world.incident(consequence_of="f" * 40)
        turns(world, courier, 2)
        (mark,) = grafana.annotations.values()
        assert mark["time"] == mark["timeEnd"] == one.opened_us // 1000
        assert mark["dashboardUID"] == "abc"
        expected = {"tachograph", f"tachograph-incident:{one.incident_id}", "run:llama-1", "severity:warning"}
        assert expected | {"consequence"} <= set(mark["tags"])
        one = world.clear(one)
        turns(world, courier, 2)
        (region,) = grafana.annotations.values()
        assert one.cleared_us is not None
        assert region["timeEnd"] == one.cleared_us // 1000 > region["time"]
        assert "OVER llama-1" in region["text"]
        assert [came.method for came in grafana.came] == ["POST", "PATCH"]


@pytest.mark.parametrize(
    "trouble",
    [
        [Behaviour(loses=True)],
        [Behaviour(loses=True), Behaviour(loses=True)],
        [Behaviour(status=500)],
        [Behaviour(status=401)],
        [Behaviour(status=429, headers={"Retry-After": "5"})],
        [Behaviour(status=302, headers={"Location": "/api/annotations"})],
        [Behaviour(only="POST", loses=True), Behaviour(only="GET", status=503), Behaviour(only="PATCH", loses=True)],
    ],
    ids=["lost", "lost twice", "500", "401", "429", "302", "lost and away and lost"],
)
def test_there_is_one_annotation_whatever_happened_to_the_first_tries(world: World, trouble: list[Behaviour]) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana)
        one = world.incident()
        grafana.then(*trouble)
        turns(world, courier, 5)
        world.clear(one)
        turns(world, courier, 2)
        (only,) = grafana.annotations.values()
        assert only["timeEnd"] > only["time"]
        assert world.row(one).state == "sent"


def test_a_grafana_that_answers_too_late_makes_no_second_one(world: World) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana, timeout_s=1.0)
        one = world.incident()
        grafana.then(Behaviour(holds=True))
        courier.turn()
        assert "does not answer in time" in world.row(one).error
        grafana.release()
        turns(world, courier)
        assert len(grafana.annotations) == 1


def test_two_that_were_made_at_the_same_time_become_one_again(world: World) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana)
        one = world.incident()
        tag = f"tachograph-incident:{one.incident_id}"
        grafana.then(Behaviour(status=500), Behaviour(only="GET", status=200, body=b"[]"))
        courier.turn()
        grafana.annotations[3] = {"tags": [tag], "time": 1, "text": "the first try, seen only after it was looked for"}
        world.hours_pass()
        courier.turn()
        assert list(grafana.annotations) == [3]
        assert world.row(one).remote_id == "3"


def test_one_that_somebody_deleted_is_not_made_again(world: World) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana)
        one = world.incident()
        turns(world, courier, 1)
        grafana.annotations.clear()
        world.clear(one)
        turns(world, courier)
        assert grafana.annotations == {}
        assert (world.row(one).state, world.row(one).told) == ("sent", "cleared")


def test_an_address_that_is_wrong_is_not_taken_for_an_annotation_that_is_gone(world: World) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana)
        one = world.incident()
        turns(world, courier, 1)
        grafana.then(Behaviour(status=404), Behaviour(status=404))
        world.clear(one)
        courier.turn()
        assert world.row(one).state == "waiting"
        turns(world, courier)
        (only,) = grafana.annotations.values()
        assert only["timeEnd"] > only["time"]


def test_a_token_that_is_renewed_in_its_file_is_taken_at_the_next_try(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    with Grafana() as grafana:
        courier = courier_to(world, grafana, token=Secret("file", str(file)))
        one = world.incident()
        courier.turn()
        assert "401" in world.row(one).error
        assert "old" not in world.row(one).error
        file.write_text("glsa_secret\n")
        turns(world, courier, 2)
        assert len(grafana.annotations) == 1


def test_what_runs_are_called_is_shown_as_text(world: World) -> None:
    with Grafana() as grafana:
        courier = courier_to(world, grafana)
        world.incident(summary="<script>alert(1)</script>\nrank")
        turns(world, courier, 1)
        (only,) = grafana.annotations.values()
        assert "&lt;script&gt;" in only["text"]
        assert "<script>" not in only["text"]
