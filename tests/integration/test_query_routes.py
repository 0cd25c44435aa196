"""The query routes of one run, on both databases: what they answer is what the ledger says of the same events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
import stored_runs
from app_client import AppClient
from no_keeper import NoKeeper
from run_questions import HOUR, at, pages, problem, recorded_run, short_run, told
from sqlalchemy import insert
from stored_runs import Booked
from tachograph_agent.events import AnyEvent, Failure, RunStart, Step
from tachograph_collector.report.json_report import run_object
from tachograph_collector.report.model import Window
from tachograph_collector.report.windows import clip
from tachograph_collector.service import fleet_shapes, row_shapes, summary_shapes
from tachograph_collector.service.app import create_app
from tachograph_collector.service.incident_shapes import RunIncidents, Sights
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.schema import nodes


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client


@pytest.fixture(scope="module")
def recorded() -> list[AnyEvent]:
    return recorded_run()


# -- a run ----------------------------------------------------------------------------------------------------------


def test_the_summary_is_what_replay_says(client: AppClient, database: Database, recorded: list[AnyEvent]) -> None:
    (one,) = stored_runs.store(database, recorded, origin="replay")
    answer = told(client.get(at(one.books.run)))
    stored = answer.pop("stored")
    assert stored == {
        "as_of": one.books.end_us / 1e6,
        "version": 1,
        "folded_seq": 10,
        "revision": 1,
        "frozen_at": None,
        "digest": None,
    }
    assert answer == json.loads(json.dumps(run_object(one.report)))
    judged = told(client.get(at(one.books.run, "?judge=true")))
    assert judged["model"] == json.loads(json.dumps(run_object(one.report, True)))["model"]
    assert judged["model"]["findings"]
    assert told(client.get(at(one.books.run, "/model")))["model"] == judged["model"]


def test_the_summary_of_a_window_is_what_replay_says_of_it(
    client: AppClient, database: Database, recorded: list[AnyEvent]
) -> None:
    (one,) = stored_runs.store(database, recorded)
    window = Window(one.books.start_us + 3_600_000_000, one.books.start_us + 40_000_030_000)
    clipped = clip(one.report, window)
    assert clipped is not None
    expected = json.loads(json.dumps(run_object(clipped)))
    expected["details"]["origin"] = "live"
    asked = {"since": window.since_us / 1e6, "until": window.until_us / 1e6}  # type: ignore[operator]  # both are there
    answer = told(client.get(at(one.books.run), params=asked))
    assert answer | {"stored": None} == expected | {"stored": None}
    assert answer["details"]["window"] == asked


def test_the_model_of_a_run_that_goes_on_is_kept_until_the_run_differs(client: AppClient, database: Database) -> None:
    start = 1_772_323_200.0
    events = [event for event in short_run() if event.t <= start + HOUR]
    with database.write() as connection:
        run = stored_runs.add_run(connection, "llama", run_id=7)

    def exposure_s(version: int, now: float, more: list[AnyEvent]) -> float:
        one = stored_runs.booked([*events, *more], int(now * 1e6))[0]
        with database.write() as connection:
            stored_runs.write(connection, run, "llama", one, version=version)
        answer = told(client.get(at("llama", "/model")))
        assert answer["version"] == version
        assert told(client.get(at("llama", "?judge=true")))["model"] == answer["model"]
        return float(answer["model"]["measured"]["exposure_s"])

    assert exposure_s(1, start + HOUR, []) == HOUR
    assert exposure_s(2, start + HOUR + 0.3, []) == HOUR
    assert exposure_s(3, start + HOUR + 0.35, []) == HOUR
    assert exposure_s(4, start + HOUR + 10, []) == HOUR + 10
    stopped = Failure(t=start + HOUR + 10.1, run="llama", category="gpu")
    assert exposure_s(5, start + HOUR + 10.2, [stopped]) > HOUR + 10.1


NAMES = (
    "llama", "team/llama/70b", "a.b", "100%", "run#2", "run#0", "a\nb", "<script>alert(1)</script>", "x' OR '1'='1",
    "%2F", "a?b=c&d", "größe ☃", "..%2f..", "a b+c", "a;b", "-", "/", "//", "x/minutes", "[a]*?", "A%5fb",
)  # fmt: skip


def test_a_run_of_any_name_is_found_by_it(client: AppClient, database: Database) -> None:
    for run_id, name in enumerate(NAMES):
        stored_runs.store(database, short_run(name), run_id=run_id)
    for name in NAMES:
        for rest in ("", "/minutes", "/attempts", "/nodes"):
            assert told(client.get(at(name, rest)))["run"] == name
        assert told(client.get("/v1/runs/-/minutes", params={"run": name}))["run"] == name
        assert [run["run"] for run in told(client.get("/v1/runs", params={"name": name}))["runs"]] == [name]


def test_a_name_that_no_path_carries_is_given_as_a_parameter(client: AppClient, database: Database) -> None:
    for run_id, name in enumerate(("..", ".", "a/../b")):
        stored_runs.store(database, short_run(name), run_id=run_id)
        assert told(client.get("/v1/runs/-", params={"run": name}))["run"] == name
        assert told(client.get("/v1/runs/-/restarts", params={"run": name}))["restarts"][0]["category"] == "gpu"


def test_the_second_run_of_a_name_has_its_own(client: AppClient, database: Database) -> None:
    start = 1_772_323_200.0
    _, second = stored_runs.store(database, [*short_run(), *short_run(start=start + 86_400)])
    assert second.books.run == "llama#2"
    assert told(client.get(at("llama")))["start"] == start
    assert told(client.get(at("llama#2")))["start"] == start + 86_400
    assert told(client.get(at("llama#2", "/steps")))["since"] > start + 86_000
    for name in ("llama", "llama#2"):
        assert told(client.get(at(name, "/steps")))["records"] == 220
    assert told(client.get(at("llama", "/steps")))["until"] == start + 86_400
    assert told(client.get(at("llama#2", "/nodes")))["nodes"] == []
    for unknown in ("llama#1", "llama#3", "llama#02", "llama#99999999999999999999", "llama#٢"):
        problem(client.get(at(unknown)), 404)


def test_an_unknown_run_is_told_on_every_route(client: AppClient, database: Database) -> None:
    rests = ("", "/minutes", "/revisions", "/attempts", "/restarts", "/checkpoints", "/segments", "/incidents")
    for rest in (*rests, "/nodes", "/steps", "/model", "/gate?min_goodput=0.5"):
        for name in ("nobody", "no\0body", "'; DROP TABLE runs; --"):
            assert "/v1/runs lists those there are" in problem(client.get(at(name, rest)), 404)
    assert "UTF-8" in problem(client.get("/v1/runs/%ff%fe/minutes"), 404)
    with database.write() as connection:
        stored_runs.add_run(connection, "early", run_id=9)
    response = client.get(at("early"))
    assert "no time of it is booked yet" in problem(response, 404)
    assert response.headers["retry-after"] == "5"
    assert told(client.get(at("early", "/steps")))["steps"] == []


def test_a_tenant_sees_its_own_runs_only(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run("mine"))
    stored_runs.store(database, short_run("theirs"), tenant_id=2)
    assert [run["run"] for run in told(client.get("/v1/runs"))["runs"]] == ["mine"]
    problem(client.get(at("theirs")), 404)
    problem(client.get(at("theirs", "/steps")), 404)
    assert told(client.get("/v1/fleet"))["runs"] == 1


# -- rows -----------------------------------------------------------------------------------------------------------


def test_rows_are_those_of_the_summary(client: AppClient, database: Database, recorded: list[AnyEvent]) -> None:
    (one,) = stored_runs.store(database, recorded)
    name, details = one.books.run, run_object(one.report)["details"]
    for route, key in (
        ("attempts", "attempts_detail"),
        ("restarts", "interruptions"),
        ("checkpoints", "checkpoints_detail"),
    ):
        rows = told(client.get(at(name, f"/{route}")))[route]
        assert [row.pop("index", place) for place, row in enumerate(rows)] == list(range(len(details[key])))
        expected = [{k: v for k, v in row.items() if k != "index"} for row in details[key]]
        assert rows == json.loads(json.dumps(expected))
    strip = told(client.get(at(name, "/segments")))["segments"]
    assert len(strip) == len(one.details.segments)
    assert all(before["end"] == after["start"] for before, after in pairwise(strip))
    minutes = told(client.get(at(name, "/minutes")))["minutes"]
    assert [(m["start"], m["kept_s"], m["label"]) for m in minutes] == [
        (m.start_us / 1e6, m.kept_us / 1e6, m.label) for m in one.details.minutes
    ]


def test_minutes_sum_to_the_same_at_every_resolution(
    client: AppClient, database: Database, recorded: list[AnyEvent]
) -> None:
    (one,) = stored_runs.store(database, recorded)
    for every, length_s in (("1m", 60), ("5m", 300), ("1h", 3600), ("1d", 86_400), ("7d", 604_800)):
        answer = told(client.get(at(one.books.run, f"/minutes?every={every}")))
        rows = answer["minutes"]
        assert answer["every_s"] == length_s
        assert all(row["start"] % length_s == 0 for row in rows)
        for account, amount in one.books.accounts_us.items():
            assert sum(row[f"{account}_s"] for row in rows) == pytest.approx(amount / 1e6)
            assert sum(row[f"first_{account}_s"] for row in rows) == pytest.approx(amount / 1e6)
    for wrong in ("90s", "0m", "1", "-1h", "1y", "1.7m", "400d", ""):
        assert "1m, 5m, 1h" in problem(client.get(at(one.books.run, "/minutes"), params={"every": wrong}), 422)


def test_a_window_of_minutes_takes_those_it_touches(client: AppClient, database: Database) -> None:
    stored_runs.store(database, short_run())
    window = {"since": "2026-03-01T00:10:30Z", "until": "2026-03-01T01:13:00+01:00"}
    rows = told(client.get(at("llama", "/minutes"), params=window))["minutes"]
    assert [row["start"] for row in rows] == [1_772_323_800.0, 1_772_323_860.0, 1_772_323_920.0]
    unescaped = f"/minutes?since={window['since']}&until={window['until']}"
    assert told(client.get(at("llama", unescaped)))["minutes"] == rows


def test_what_was_restated_is_told_from_a_version_on(client: AppClient, database: Database) -> None:
    start = 1_772_323_200.0
    events = short_run()
    whole = stored_runs.booked(events)[0]
    early = stored_runs.booked([event for event in events if event.t < start + HOUR + 1], int((start + HOUR) * 1e6))[0]
    with database.write() as connection:
        run = stored_runs.add_run(connection, "llama", run_id=7)
        stored_runs.write(connection, run, "llama", early, version=3)
    assert told(client.get(at("llama", "/revisions")))["revisions"] == []
    before = told(client.get(at("llama", "/minutes")))
    with database.write() as connection:
        stored_runs.write(connection, run, "llama", whole, version=4)
    answer = told(client.get(at("llama", "/revisions?after=3")))
    assert answer["version"] == 4
    lost = [row for row in answer["revisions"] if row["lost_s"] == 60.0]
    assert len(lost) == 20
    assert all(row["was_kept_s"] == 60.0 and row["revision"] == 2 for row in lost)
    assert told(client.get(at("llama", "/revisions?after=4")))["revisions"] == []
    now = {row["start"]: row for row in told(client.get(at("llama", "/minutes")))["minutes"]}
    for row in before["minutes"][:40]:
        assert now[row["start"]] == row
    for row in lost:
        minute = now[row["start"]]
        assert (minute["lost_s"], minute["first_kept_s"], minute["revision"]) == (60.0, 60.0, 2)
    paged = pages(client, at("llama", "/revisions?limit=7"), "revisions")
    assert paged == answer["revisions"]


def test_what_changed_is_read_into_what_was_read_before(client: AppClient, database: Database) -> None:
    """An answer after each of many versions is that of a collector that has never been asked before."""
    events = short_run()
    with database.write() as connection:
        run = stored_runs.add_run(connection, "llama", run_id=7)
    gone: set[int] = set()
    seen: set[int] = set()
    for version, until in enumerate((10, 30, 70, 62, 61, 75, 110, 80, 115), start=1):
        t = 1_772_323_200.0 + until * 60
        one = stored_runs.booked([event for event in events if event.t <= t], int(t * 1e6))[0]
        now = {minute.start_us for minute in one.details.minutes}
        with database.write() as connection:
            stored_runs.write(connection, run, "llama", one, version=version, gone=seen - now)
        seen |= now
        gone |= seen - now
        with AppClient(create_app(Settings(), database, NoKeeper())) as fresh:
            for rest in ("", "/segments", "/minutes", "/attempts", "/restarts", "/checkpoints"):
                assert told(client.get(at("llama", rest))) == told(fresh.get(at("llama", rest))), (version, rest)
        assert told(client.get(at("llama")))["wall_s"] == one.books.wall_us / 1e6
        assert len(told(client.get(at("llama", "/segments")))["segments"]) == len(one.details.segments)
    assert gone


def test_pages_join_to_the_whole(client: AppClient, database: Database, recorded: list[AnyEvent]) -> None:
    (one,) = stored_runs.store(database, recorded)
    for route in ("minutes", "segments", "checkpoints", "restarts", "attempts"):
        whole = told(client.get(at(one.books.run, f"/{route}")))
        assert whole["next"] is None
        size = max(1, len(whole[route]) // 3)
        assert pages(client, at(one.books.run, f"/{route}?limit={size}"), route) == whole[route]
        if route in {"checkpoints", "restarts", "attempts"}:
            latest = pages(client, at(one.books.run, f"/{route}?latest=true&limit={size}"), route)
            assert latest == whole[route][::-1]


def test_nodes_are_told(client: AppClient, database: Database) -> None:
    with database.write() as connection:
        run = stored_runs.add_run(connection, "llama", run_id=7)
        for number in range(5):
            connection.execute(
                insert(nodes).values(
                    tenant_id=1, run_id=run.run_id, node=f"n{number}", first_heard_us=1, last_heard_us=2_500_000,
                    state="alive" if number else "dead", state_since_us=10**6,
                )
            )  # fmt: skip
    listed = told(client.get(at("llama", "/nodes")))["nodes"]
    assert [(row["node"], row["state"], row["last_heard_at"]) for row in listed][:2] == [
        ("n0", "dead", 2.5),
        ("n1", "alive", 2.5),
    ]
    assert listed[0]["last_heartbeat_at"] is None
    assert [row["node"] for row in told(client.get(at("llama", "/nodes?state=dead")))["nodes"]] == ["n0"]
    assert pages(client, at("llama", "/nodes?limit=2"), "nodes") == listed


# -- steps ----------------------------------------------------------------------------------------------------------


def test_steps_are_thinned_out_to_their_least_mean_and_most(client: AppClient, database: Database) -> None:
    start = 1_772_323_200.0
    events: list[AnyEvent] = [RunStart(t=start, run="llama")]
    for step in range(1, 101):
        for rank in (0, 1, 2):
            dur = 10.0 * (1 + rank) if step != 50 else 40.0
            events.append(
                Step(t=start + 60 * step, run="llama", node=f"n{rank}", rank=rank, step=step, dur=dur, count=2,
                     loss=float(step) if rank == 0 else None)
            )  # fmt: skip
    stored_runs.store(database, events)
    every = told(client.get(at("llama", "/steps?rank=1&points=10")))
    assert every["records"] == 100
    rows = every["steps"]
    assert len(rows) == 10
    assert sum(row["records"] for row in rows) == 100
    assert sum(row["steps"] for row in rows) == 200
    assert {row["rank"] for row in rows} == {1}
    assert [row["step_s_min"] for row in rows] == [10.0] * 10
    assert sorted(row["step_s_max"] for row in rows) == [10.0] * 9 + [20.0]
    assert all(row["loss_mean"] is None for row in rows)
    assert rows[0]["first_step"] == 1
    assert rows[-1]["last_step"] == 100
    together = told(client.get(at("llama", "/steps?points=1")))["steps"]
    assert [(row["rank"], row["step_s_min"], row["step_s_max"]) for row in together] == [(None, 5.0, 20.0)]
    assert together[0]["step_s_mean"] == pytest.approx((99 * (5 + 10 + 15) + 60) / 300)
    assert (together[0]["loss_min"], together[0]["loss_mean"], together[0]["loss_max"]) == (1.0, 50.5, 100.0)
    two = told(client.get(at("llama", "/steps?rank=2&rank=0&points=3&metric=step_s")))["steps"]
    assert [row["rank"] for row in two] == [0, 0, 0, 2, 2, 2]
    assert "loss_mean" not in two[0]
    twice = told(client.get(at("llama", "/steps?metric=loss&metric=loss&metric=step_s&points=1")))["steps"]
    assert twice[0]["loss_max"] == 100.0
    part = told(client.get(at("llama", f"/steps?rank=0&since={start + 600}&until={start + 660}")))
    assert [(row["first_step"], row["last_step"]) for row in part["steps"]] == [(10, 10)]
    assert told(client.get(at("llama", "/steps?node=n2&points=1")))["records"] == 100
    assert told(client.get(at("llama", "/steps?rank=77")))["steps"] == []
    assert told(client.get(at("llama", "/steps?attempt=5")))["records"] == 0


# -- the gate -------------------------------------------------------------------------------------------------------


def test_the_gate_passes_with_200_and_closes_with_409(client: AppClient, database: Database) -> None:
    one = stored_runs.store(database, short_run())[0]
    goodput = one.books.goodput
    assert goodput is not None
    answer = told(client.get(at("llama", f"/gate?min_goodput={goodput}")))
    assert answer["pass"] is True
    assert answer["goodput"] == goodput
    closed = client.get(at("llama", "/gate?min_goodput=0.95"))
    assert "below the 95.00 % asked for" in problem(closed, 409)
    assert closed.json()["pass"] is False
    assert closed.json()["goodput"] == goodput
    first_half_hour = {"since": 1_772_323_300, "until": 1_772_325_000, "min_goodput": 1}
    assert told(client.get(at("llama", "/gate"), params=first_half_hour))["pass"] is True
    assert "divided by 100" in problem(client.get(at("llama", "/gate?min_goodput=90")), 422)
    for wrong in ("", "nan", "inf", "-1", "half", "1e400"):
        problem(client.get(at("llama", "/gate"), params={"min_goodput": wrong}), 422)
    assert "min_goodput" in problem(client.get(at("llama", "/gate")), 422)
    outside = {"since": 10, "until": 20, "min_goodput": 0.5}
    assert "has no time in this window" in problem(client.get(at("llama", "/gate"), params=outside), 422)


# -- what is documented ---------------------------------------------------------------------------------------------


SHAPES = {
    "": summary_shapes.Summary, "?judge=true": summary_shapes.Summary, "/model": summary_shapes.ModelAnswer,
    "/minutes": row_shapes.Minutes, "/minutes?every=1d": row_shapes.Minutes, "/revisions": row_shapes.Revisions,
    "/attempts": row_shapes.Attempts, "/restarts": row_shapes.Restarts, "/checkpoints": row_shapes.Checkpoints,
    "/segments": row_shapes.Segments, "/incidents": RunIncidents, "/sights": Sights, "/nodes": row_shapes.Nodes,
    "/steps": row_shapes.Steps, "/steps?rank=1&metric=loss": row_shapes.Steps,
    "/gate?min_goodput=0.1": summary_shapes.Gate,
}  # fmt: skip


def test_answers_are_as_the_openapi_says(client: AppClient, database: Database, recorded: list[AnyEvent]) -> None:
    one: Booked
    (one,) = stored_runs.store(database, recorded)
    for rest, shape in SHAPES.items():
        shape.model_validate(told(client.get(at(one.books.run, rest))), strict=True)
    summary_shapes.RunList.model_validate(told(client.get("/v1/runs")), strict=True)
    fleet_shapes.Fleet.model_validate(told(client.get("/v1/fleet")), strict=True)
    summary_shapes.GateClosed.model_validate(
        told(client.get(at(one.books.run, "/gate?min_goodput=1")), 409), strict=True
    )
