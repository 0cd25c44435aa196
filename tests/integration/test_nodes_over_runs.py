"""Nodes over runs, on both databases: what is held against whom, whose it is, and how it is asked for."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from app_client import AppClient
from click.testing import CliRunner
from httpx import Response
from no_keeper import NoKeeper
from sqlalchemy import Connection, insert
from stand_in import Asked, Says, StandIn
from stored_incidents import incident, put
from stored_runs import add_run, store
from tachograph_agent.events import AttemptStart, Failure, Health, RunStart, Step, encode, microseconds
from tachograph_collector.cli.main import cli
from tachograph_collector.client import Client, ProblemError
from tachograph_collector.detect.suspicion import DAY_US
from tachograph_collector.service import node_examples, node_shapes
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.node_records import Records as NodeRecords
from tachograph_collector.store.node_records import Stay, read_records
from tachograph_collector.store.schema import events, nodes

T0 = 1_772_323_200.0
T0_US = microseconds(T0)
WINDOW = "since=2026-02-20&until=2026-03-20"
SINCE_US, UNTIL_US = T0_US - 10 * DAY_US, T0_US + 20 * DAY_US


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client


def told(response: Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def failing(name: str, fails_on: list[str | None]) -> list[Any]:
    """A run with an attempt an hour, each of which ends by a failure on that node."""
    run: list[Any] = [RunStart(t=T0, run=name, world_size=4)]
    for attempt, node in enumerate(fails_on):
        t0 = T0 + 3600 * attempt
        run.append(AttemptStart(t=t0, run=name, attempt=attempt, resume_step=10 * attempt))
        run += [
            Step(t=t0 + 60 * step, run=name, attempt=attempt, rank=0, node="n0", step=10 * attempt + step, dur=60.0)
            for step in range(1, 11)
        ]
        run.append(Failure(t=t0 + 1000, run=name, category="gpu", node=node, detail="made up"))
        run.append(Failure(t=t0 + 1001, run=name, category="collective_timeout", node="n9"))
    return run


def add_node(connection: Connection, run: RunKey, node: str, days: float = 10.0, begin_us: int = T0_US) -> None:
    connection.execute(
        insert(nodes).values(
            tenant_id=run.tenant_id, run_id=run.run_id, node=node, first_heard_us=begin_us,
            last_heard_us=begin_us + round(days * DAY_US), state="alive", state_since_us=begin_us,
        )
    )  # fmt: skip


def add_xid(connection: Connection, run: RunKey, node: str, xid: int, at_s: float, seq: int) -> None:
    event = Health(t=T0 + at_s, run="r", node=node, check="xid", gpu="0000:3b:00", value=xid, severity="warning")
    connection.execute(
        insert(events).values(
            tenant_id=run.tenant_id, run_id=run.run_id, seq=seq, received_us=microseconds(event.t), kind="health",
            t_us=microseconds(event.t), node=node, body=encode(event).decode(),
        )
    )  # fmt: skip


@pytest.fixture
def lemon(database: Database) -> RunKey:
    """Two runs on 40 nodes; n3 fails four times, n1 once; n2 is slow; a third one was only loaded."""
    store(database, failing("a", ["n3", "n3", "n1", None]), run_id=7)
    store(database, failing("b", ["n3", "n3"]), run_id=8)
    store(database, failing("old", ["n5"] * 5), run_id=9, origin="replay")
    a, b = RunKey(1, 7), RunKey(1, 8)
    with database.write() as connection:
        for number in range(40):
            add_node(connection, a, f"n{number}")
        for number in range(20):
            add_node(connection, b, f"n{number}")
        put(connection, a, incident("a", node="n2", opened_us=T0_US))
        put(connection, a, incident("a", "xid", "node n3", node="n3", severity="critical", opened_us=T0_US))
        put(connection, a, incident("a", "xid", "node n2", node="n2", severity="warning", opened_us=T0_US))
        put(connection, a, incident("a", "hang", "run", node="n4", opened_us=T0_US))
        put(connection, a, incident("a", "nan", "rank 1", node=None, rank=None, opened_us=T0_US))
        gone = incident(
            "a", "straggler", "rank 9", node="n6", opened_us=T0_US, cleared_us=T0_US, outcome="withdrawn: x"
        )
        put(connection, a, gone)
    return a


@pytest.mark.usefixtures("lemon")
def test_the_node_that_fails_again_and_again_is_first_and_that_is_sure(client: AppClient) -> None:
    answer = told(client.get(f"/v1/nodes?{WINDOW}"))
    node_shapes.NodeList.model_validate(answer)
    first, second, third, *others = answer["nodes"]
    assert (first["node"], first["failures"], first["xids"], first["how_sure"]) == ("n3", 4, 1, "sure")
    assert first["exposure_s"] == 10 * 86_400
    assert first["expected_failures"] == pytest.approx(5 / 40)
    assert "4 failures in 10 node-days" in first["sentence"]
    assert {second["node"], third["node"]} == {"n1", "n2"}
    assert {one["node"]: one for one in answer["nodes"]}["n1"]["how_sure"] == "not sure"
    assert len(others) == 37
    assert {one["score"] for one in others} == {0.0}


@pytest.mark.usefixtures("lemon")
def test_a_record_says_what_is_held_against_a_node_and_where_it_was(client: AppClient) -> None:
    answer = told(client.get(f"/v1/nodes/n3?{WINDOW}"))
    node_shapes.NodeAnswer.model_validate(answer)
    assert (answer["rank"], answer["num_nodes"], answer["num_marks"]) == (1, 40, 5)
    assert [(one["kind"], one["run"]) for one in answer["marks"]].count(("failure", "a")) == 2
    assert "gpu: made up" in {one["detail"] for one in answer["marks"]}
    assert [(one["run"], one["state"]) for one in answer["stays"]] == [("a", "alive"), ("b", "alive")]
    assert answer["runs"] == 2


@pytest.mark.usefixtures("lemon")
def test_what_follows_a_failure_what_was_withdrawn_and_what_names_no_node_is_held_against_nobody(
    client: AppClient,
) -> None:
    assert told(client.get(f"/v1/nodes/n6?{WINDOW}"))["marks"] == []
    assert told(client.get(f"/v1/nodes/n4?{WINDOW}"))["marks"] == []
    assert told(client.get(f"/v1/nodes/n9?{WINDOW}"))["failures"] == 0


@pytest.mark.usefixtures("lemon")
def test_loaded_runs_count_only_if_asked_for(client: AppClient) -> None:
    (one,) = told(client.get(f"/v1/nodes?origin=replay&{WINDOW}"))["nodes"]
    assert (one["node"], one["failures"], one["how_sure"]) == ("n5", 5, "unknown")
    assert told(client.get(f"/v1/nodes/n5?{WINDOW}"))["failures"] == 0


@pytest.mark.usefixtures("lemon")
def test_a_window_takes_what_happened_and_the_hours_in_it(client: AppClient) -> None:
    first = told(client.get(f"/v1/nodes?since={T0 + 3000}&until={T0 + 86_400}"))["nodes"][0]
    assert (first["node"], first["failures"]) == ("n3", 2)
    assert first["exposure_s"] == 86_400 - 3000


@pytest.mark.usefixtures("lemon")
def test_pages_follow_each_other_without_a_gap(client: AppClient) -> None:
    seen: list[str] = []
    address: str | None = f"/v1/nodes?{WINDOW}&limit=7"
    while address is not None:
        answer = told(client.get(address))
        seen += [one["node"] for one in answer["nodes"]]
        address = answer["next"]
    assert seen == [one["node"] for one in told(client.get(f"/v1/nodes?{WINDOW}"))["nodes"]]
    assert len(seen) == 40


@pytest.mark.usefixtures("lemon")
def test_nodes_are_chosen_by_name_and_by_how_sure_it_is(client: AppClient) -> None:
    assert next(one["node"] for one in told(client.get(f"/v1/nodes?{WINDOW}&name=n3*"))["nodes"]) == "n3"
    assert len(told(client.get(f"/v1/nodes?{WINDOW}&name=n3?"))["nodes"]) == 10
    assert [one["node"] for one in told(client.get(f"/v1/nodes?{WINDOW}&how_sure=sure"))["nodes"]] == ["n3"]
    table = client.get(f"/v1/nodes?{WINDOW}&format=csv&limit=1").text
    assert next(csv.DictReader(io.StringIO(table)))["node"] == "n3"


@pytest.mark.usefixtures("lemon")
def test_a_half_life_may_be_given_and_what_is_wrong_is_said(client: AppClient) -> None:
    by_days = [told(client.get(f"/v1/nodes/n3?{WINDOW}&half_life_days={days}"))["score"] for days in (1, 7, 1000)]
    assert by_days == sorted(by_days)
    assert by_days[2] == pytest.approx(5, abs=0.1)
    for wrong in ("half_life_days=0", "half_life_days=nan", "half_life=3", "how_sure=maybe", "since=yesterday"):
        told(client.get(f"/v1/nodes?{wrong}"), 422)
    told(client.get("/v1/nodes?cursor=bm9uZQ"), 422)
    assert "'n77'" in told(client.get(f"/v1/nodes/n77?{WINDOW}"), 404)["detail"]


@pytest.mark.parametrize(
    "name", ["team/n1", "..", ".", "-", "<script>alert(1)</script>", "n 1\n", "né#2?x=1&y", "\u202en"]
)
def test_a_node_of_any_name_is_found(client: AppClient, database: Database, name: str) -> None:
    with database.write() as connection:
        run = add_run(connection, "r", run_id=7)
        add_node(connection, run, name)
        add_node(connection, run, "other")
    (one,) = [each for each in told(client.get(f"/v1/nodes?{WINDOW}"))["nodes"] if each["node"] != "other"]
    assert one["node"] == name
    assert told(client.get(f"/v1/nodes/-?node={quote(name, safe='')}&{WINDOW}"))["node"] == name
    if name not in {"..", ".", "-"}:
        assert told(client.get(f"/v1/nodes/{quote(name, safe='')}?{WINDOW}"))["node"] == name


def test_another_tenants_nodes_are_nobodys_business(client: AppClient, database: Database) -> None:
    with database.write() as connection:
        theirs = add_run(connection, "theirs", run_id=7, tenant_id=2)
        add_node(connection, theirs, "n1")
        put(connection, theirs, incident("theirs", node="n1", opened_us=T0_US))
        add_xid(connection, theirs, "n1", 31, 10, 1)
    assert told(client.get(f"/v1/nodes?{WINDOW}"))["nodes"] == []
    told(client.get(f"/v1/nodes/n1?{WINDOW}"), 404)
    told(client.get(f"/v1/nodes/n1%00?{WINDOW}"), 404)


def test_an_applications_xid_of_one_gpu_in_two_runs_within_a_day_is_held_against_its_node(database: Database) -> None:
    with database.write() as connection:
        first, second = add_run(connection, "first", run_id=7), add_run(connection, "second", run_id=8)
        for seq, (run, node, xid, at_s) in enumerate(
            [
                (first, "n1", 31, 100.0), (second, "n1", 13, 5000.0),
                (first, "n2", 31, 100.0), (second, "n2", 13, 100_000.0),
                (first, "n3", 31, 100.0), (first, "n3", 13, 5000.0),
                (first, "n4", 79, 100.0), (second, "n4", 79, 5000.0),
            ],
            1,
        ):  # fmt: skip
            add_xid(connection, run, node, xid, at_s, seq)
        broken = {"tenant_id": 1, "run_id": 7, "seq": 99, "received_us": T0_US, "kind": "health", "t_us": T0_US}
        connection.execute(insert(events).values(**broken, node="n1", body='{"check": "xid"'))
        connection.execute(events.update().values(received_us=events.c.t_us))
        connection.exec_driver_sql("UPDATE runs SET last_received_us = 1772409600000000")
    with database.read() as connection:
        found = read_records(connection, 1, ["live"], SINCE_US, UNTIL_US)
    assert sorted((one.node, one.run, one.kind) for one in found.marks) == [
        ("n1", "first", "application_xid"),
        ("n1", "second", "application_xid"),
    ]
    assert not found.is_cut


def test_time_in_two_runs_at_once_counts_once() -> None:
    stays = [
        Stay("n1", run, "live", begin, end, "alive") for run, begin, end in (("a", 0, 10), ("b", 5, 20), ("c", 30, 40))
    ]
    records = NodeRecords([], [*stays, Stay("n2", "a", "live", 90, 99, "gone")], is_cut=False)
    assert records.exposure_us(2, 35) == {"n1": 18 + 5}
    assert records.runs()["n1"] == ["a", "b", "c"]


def test_the_examples_of_the_reference_have_the_shape_of_answers() -> None:
    node_shapes.NodeList.model_validate(node_examples.NODES)
    node_shapes.NodeAnswer.model_validate(node_examples.NODE)


# -- the client and the command --------------------------------------------------------------------------------------


@pytest.fixture
def served(client: AppClient, lemon: RunKey) -> Iterator[StandIn]:
    """The collector, as a client reaches it."""

    def answer(asked: Asked) -> Says:
        response = client.get(asked.path)
        return Says(response.status_code, response.json())

    with StandIn(answer) as stand_in:
        yield stand_in


def test_the_client_gives_records_and_frames(served: StandIn) -> None:
    with Client(served.url) as client:
        found = client.nodes("n*", since="2026-02-20", until="2026-03-20", how_sure=["sure", "not sure"])
        assert next(one.node for one in found) == "n3"
        assert found.frame()["last_at"].dt.tz is not None
        record = client.node("n3", since="2026-02-20", until="2026-03-20", half_life_days=3)
        assert (record.rank, record.failures, record.half_life_days) == (1, 4, 3.0)
        assert {one.run for one in record.stays} == {"a", "b"}
        with pytest.raises(ProblemError, match="n77"):
            client.node("n77")


@pytest.fixture
def typed(served: StandIn) -> Callable[..., str]:
    def run(*words: str) -> str:
        argv = ["nodes", *words, "--url", served.url, "--since", "2026-02-20", "--until", "2026-03-20"]
        result = CliRunner().invoke(cli, argv)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def test_the_command_ranks_nodes_and_says_how_sure_that_is(typed: Callable[..., str]) -> None:
    lines = typed("--limit", "2").splitlines()
    assert lines[1].split()[0] == "n3"
    assert "it fails oftener than the others" in lines[1]
    assert "--limit 20" in lines[-1]
    rows = json.loads(typed("--json", "--sure", "sure"))["nodes"]
    assert [one["node"] for one in rows] == ["n3"]


def test_the_command_tells_one_nodes_record(typed: Callable[..., str], served: StandIn) -> None:
    text = typed("n3", "--half-life", "3")
    assert text.splitlines()[0].startswith("n3: score")
    assert "1 of 40" in text
    assert "held against it" in text
    assert parse_qs(urlsplit(served.asked[-1].path).query)["half_life_days"] == ["3"]
    assert json.loads(typed("n3", "--json"))["failures"] == 4
