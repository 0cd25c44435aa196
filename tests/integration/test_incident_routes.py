"""The routes of incidents and silences, on both databases: who sees what, who may say what, and what stays of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from app_client import AppClient
from httpx import Response
from no_keeper import NoKeeper
from sqlalchemy import insert, text
from stored_incidents import SECOND, incident, put
from stored_runs import add_run
from tachograph_collector.detect import Incident
from tachograph_collector.service import incident_shapes as shapes
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_tables import sights
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.tokens import create_token, tenant_named

PUBLIC = "https://collector.example"


@dataclass(frozen=True)
class Stored:
    """What lies in the database."""

    run: RunKey
    slow: Incident
    hung: Incident


@pytest.fixture
def stored(database: Database) -> Stored:
    """A run with a slow rank and a hang that is over, and a replayed one."""
    with database.write() as connection:
        run = add_run(connection, "team/llama", run_id=7)
        slow = put(connection, run, incident("team/llama"))
        over = {"severity": "critical", "cleared_us": 1200 * SECOND, "outcome": "recovered", "node": None, "rank": None}
        hung = put(connection, run, incident("team/llama", "hang", "run", opened_us=1100 * SECOND, **over))
        replayed = add_run(connection, "old", run_id=8, origin="replay")
        put(connection, replayed, incident("old", opened_us=5 * SECOND), origin="replay")
    return Stored(run, slow, hung)


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    with AppClient(create_app(Settings(public_url=PUBLIC), database, NoKeeper())) as client:
        yield client


def token(database: Database, *scopes: str, runs: tuple[str, ...] = (), tenant: str = "default") -> dict[str, str]:
    """A header with a new token, which is called "pager"."""
    with database.write() as connection:
        now_us = database.now_us(connection)
        tenant_id = tenant_named(connection, tenant, create=True)
        _, made = create_token(
            connection, now_us=now_us, tenant_id=tenant_id, name="pager", scopes=scopes, run_patterns=runs
        )
    return {"Authorization": f"Bearer {made}"}


def told(answer: Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: Response, status: int) -> str:
    return str(told(answer, status)["detail"])


# -- reading ----------------------------------------------------------------------------------------------------------


def test_incidents_of_all_runs_are_listed_as_described_what_began_last_first(client: AppClient, stored: Stored) -> None:
    answer = told(client.get("/v1/incidents"))
    shapes.Incidents.model_validate(answer, strict=True)
    assert [(one["run"], one["detector"]) for one in answer["incidents"]] == [
        ("team/llama", "hang"),
        ("team/llama", "straggler"),
        ("old", "straggler"),
    ]
    slow = answer["incidents"][1]
    assert slow["url"] == f"{PUBLIC}/#/incidents/{stored.slow.incident_id}"
    assert (slow["cost"]["gpu_hours"], slow["evidence"]["first_step"], slow["is_open"]) == (0.5, 3, True)


@pytest.mark.parametrize(
    ("asked", "detectors"),
    [
        ("run=team/*", ["hang", "straggler"]),
        ("origin=live&detector=hang", ["hang"]),
        ("severity=critical&severity=info", ["hang"]),
        ("node=n3&origin=replay", ["straggler"]),
        ("open=false", ["hang"]),
        ("since=1201&origin=live", ["straggler"]),
        ("until=6", ["straggler"]),
        ("detector=nan", []),
    ],
)
def test_a_list_takes_what_is_asked_for_alone(
    client: AppClient, stored: Stored, asked: str, detectors: list[str]
) -> None:
    assert [one["detector"] for one in told(client.get(f"/v1/incidents?{asked}"))["incidents"]] == detectors


def test_a_detector_that_there_is_not_is_told_with_those_that_are_like_it(client: AppClient, stored: Stored) -> None:
    silence = {"detector": "dead_nod", "for": "1h", "why": "x"}
    for answer in (client.get("/v1/incidents?detector=dead_nod"), client.post("/v1/silences", json=silence)):
        assert answer.status_code == 422
        assert "no detector has the name 'dead_nod'; did you mean dead_node" in answer.json()["detail"]


def test_pages_leave_nothing_out_and_a_run_has_its_own(client: AppClient, stored: Stored) -> None:
    whole = told(client.get("/v1/incidents"))["incidents"]
    found: list[Any] = []
    address = "/v1/incidents?limit=1"
    while address:
        page = told(client.get(address))
        found += page["incidents"]
        address = page["next"]
    assert found == whole
    mine = told(client.get("/v1/runs/team%2Fllama/incidents?open=true"))
    shapes.RunIncidents.model_validate(mine, strict=True)
    assert (mine["run"], [one["detector"] for one in mine["incidents"]]) == ("team/llama", ["straggler"])
    assert "lists those there are" in refused(client.get("/v1/runs/none/incidents"), 404)


def test_a_list_comes_as_a_file_too(client: AppClient, stored: Stored) -> None:
    lines = client.get("/v1/incidents?format=csv").text.splitlines()
    assert len(lines) == 4
    assert "1970-01-01T00:18:20Z" in lines[1]
    assert client.get("/v1/incidents?format=parquet").content[:4] == b"PAR1"


def test_one_is_found_by_the_beginning_of_its_id_and_has_its_notes(
    client: AppClient, database: Database, stored: Stored
) -> None:
    answer = told(client.get(f"/v1/incidents/{stored.slow.incident_id[:8]}"))
    shapes.OneIncident.model_validate(answer, strict=True)
    assert (answer["incident_id"], answer["notes"]) == (stored.slow.incident_id, [])
    with database.write() as connection:
        for name in ("aaaa1", "aaaa2"):
            put(connection, stored.run, incident("team/llama", subject=name, incident_id=name))
    assert "aaaa1, aaaa2" in refused(client.get("/v1/incidents/aaaa"), 409)
    assert "no incident 'bbbbbb'" in refused(client.get("/v1/incidents/bbbbbb"), 404)
    assert client.get("/v1/incidents/aaa").status_code == 422


def test_what_is_unchanged_is_not_sent_again(client: AppClient, stored: Stored) -> None:
    for path in ("/v1/incidents", f"/v1/incidents/{stored.slow.incident_id}"):
        etag = client.get(path).headers["etag"]
        assert client.get(path, headers={"If-None-Match": etag}).status_code == 304


def test_sights_say_how_well_each_detector_sees(client: AppClient, database: Database, stored: Stored) -> None:
    with database.write() as connection:
        connection.execute(
            insert(sights).values(
                tenant_id=1, run_id=7, detector="hang", state="blind", reason="no heartbeat came", num_evaluations=3,
                num_verdicts=0, at_us=SECOND,
            )
        )  # fmt: skip
    answer = told(client.get("/v1/runs/team%2Fllama/sights"))
    shapes.Sights.model_validate(answer, strict=True)
    assert (answer["sights"][0]["state"], answer["sights"][0]["evaluations"]) == ("blind", 3)


# -- what operators say ---------------------------------------------------------------------------------------------


def test_an_acknowledgement_is_recorded_and_can_be_taken_back(client: AppClient, stored: Stored) -> None:
    at = f"/v1/incidents/{stored.slow.incident_id}"
    first = told(client.post(f"{at}/acknowledge", json={"author": "ada", "text": "I drain it"}))
    shapes.OneIncident.model_validate(first, strict=True)
    assert first["acknowledged"]["author"] == "ada"
    again = told(client.post(f"{at}/acknowledge", json={"author": "bob"}))
    assert again == first
    assert told(client.post(f"{at}/acknowledge"))["acknowledged"] == first["acknowledged"]
    back = told(client.post(f"{at}/unacknowledge", json={"author": "bob"}))
    assert back["acknowledged"] is None
    assert [(note["author"], note["what"]) for note in back["notes"]] == [
        ("ada", "acknowledged"),
        ("bob", "unacknowledged"),
    ]
    assert told(client.get(at)) == back


def test_a_note_that_is_sent_twice_is_stored_once(client: AppClient, stored: Stored) -> None:
    at = f"/v1/incidents/{stored.slow.incident_id}/notes"
    note = {"text": "<b>fan</b>\n\x1b[31mbroken", "author": "ada", "id": "0123456789abcdef"}
    for _ in range(2):
        answer = told(client.post(at, json=note))
    assert [each["text"] for each in answer["notes"]] == [note["text"]]
    told(client.post(at, json={"text": "again"}))
    answer = told(client.post(at, json={"text": "again"}))
    assert [each["author"] for each in answer["notes"]] == ["ada", "unknown", "unknown"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"{", b'{"text": ""}', b'{"text": 5}', b'{"text": "a\\u0000b"}', b'{"text": "\\ud800"}',
     b'{"text": "a", "more": 1}', json.dumps({"text": "a" * 10_001}).encode(), b'{"text": "a", "id": "X"}', b"\xff"],
)  # fmt: skip
def test_a_note_that_is_none_is_refused_and_nothing_is_stored(client: AppClient, stored: Stored, body: bytes) -> None:
    at = f"/v1/incidents/{stored.slow.incident_id}"
    assert refused(client.post(f"{at}/notes", content=body), 422)
    assert told(client.get(at))["notes"] == []


def test_a_body_of_any_size_is_not_read_to_its_end(client: AppClient, stored: Stored) -> None:
    at = f"/v1/incidents/{stored.slow.incident_id}/notes"
    assert "say less" in refused(client.post(at, content=b" " * 70_000), 413)


def test_a_token_says_who_it_was_whatever_the_sender_says(
    client: AppClient, database: Database, stored: Stored
) -> None:
    operator = token(database, "read", "operate")
    at = f"/v1/incidents/{stored.slow.incident_id}/acknowledge"
    assert told(client.post(at, json={"author": "ada"}, headers=operator))["acknowledged"]["author"] == "pager"


def test_to_say_something_takes_more_than_to_read(client: AppClient, database: Database, stored: Stored) -> None:
    reader, at = token(database, "read", "ingest"), f"/v1/incidents/{stored.slow.incident_id}"
    told(client.get(at, headers=reader))
    for path in ("acknowledge", "unacknowledge", "notes"):
        assert "operate" in refused(client.post(f"{at}/{path}", json={"text": "a"}, headers=reader), 403)
        assert client.post(f"{at}/{path}", json={"text": "a"}).status_code == 401
    assert "operate" in refused(client.post("/v1/silences", json={}, headers=reader), 403)
    assert client.request("DELETE", "/v1/silences/abcd", headers=reader).status_code == 403
    told(client.post(f"{at}/notes", json={"text": "a"}, headers=token(database, "admin")))


def test_a_token_for_some_runs_writes_to_those_alone(client: AppClient, database: Database, stored: Stored) -> None:
    other = token(database, "read", "operate", runs=("gpt-*",))
    own = token(database, "read", "operate", runs=("team/*",))
    at = f"/v1/incidents/{stored.slow.incident_id}/notes"
    assert "may not write to run 'team/llama'" in refused(client.post(at, json={"text": "a"}, headers=other), 403)
    told(client.post(at, json={"text": "a"}, headers=own))


def test_another_tenants_incidents_are_not_there(client: AppClient, database: Database, stored: Stored) -> None:
    stranger = token(database, "admin", tenant="acme")
    at = f"/v1/incidents/{stored.slow.incident_id}"
    assert told(client.get("/v1/incidents", headers=stranger))["incidents"] == []
    assert client.get(at, headers=stranger).status_code == 404
    assert client.post(f"{at}/acknowledge", headers=stranger).status_code == 404


def test_another_sites_page_writes_nothing(client: AppClient, stored: Stored) -> None:
    at = f"/v1/incidents/{stored.slow.incident_id}"
    foreign = {"Origin": "https://elsewhere.example"}
    assert client.post(f"{at}/acknowledge", headers=foreign).status_code == 403
    assert client.post("/v1/silences", headers=foreign, json={}).status_code == 403
    assert told(client.get(at))["acknowledged"] is None


# -- silences -------------------------------------------------------------------------------------------------------


def silence(client: AppClient, **told_: Any) -> Response:
    return client.post("/v1/silences", json={"why": "maintenance", "for": "1h", **told_})


def test_a_silence_holds_until_it_is_ended(client: AppClient, stored: Stored) -> None:
    at = f"/v1/incidents/{stored.slow.incident_id}"
    made = told(silence(client, run="team/*", subject="rank *", author="ada"), 201)
    shapes.SilenceShape.model_validate(made, strict=True)
    assert (made["state"], made["author"], made["until"] - made["from"]) == ("active", "ada", 3600.0)
    assert told(client.get(at))["is_silenced"] is True
    assert [one["is_silenced"] for one in told(client.get("/v1/incidents"))["incidents"]] == [False, True, False]
    listed = told(client.get("/v1/silences"))
    shapes.Silences.model_validate(listed, strict=True)
    assert listed["silences"] == [made]
    ended = told(client.request("DELETE", f"/v1/silences/{made['silence_id'][:6]}"))
    assert ended["state"] == "ended"
    assert told(client.request("DELETE", f"/v1/silences/{made['silence_id']}")) == ended
    assert told(client.get(at))["is_silenced"] is False
    assert told(client.get("/v1/silences?over=false"))["silences"] == []
    assert told(client.get("/v1/silences?over=true"))["silences"] == [ended]
    assert "no silence 'abcdef'" in refused(client.request("DELETE", "/v1/silences/abcdef"), 404)


def test_a_silence_that_is_sent_twice_is_one(client: AppClient, stored: Stored) -> None:
    first = told(silence(client, node="n3", id="0123456789abcdef"), 201)
    assert told(silence(client, node="n3", id="0123456789abcdef"), 201) == first
    assert len(told(client.get("/v1/silences"))["silences"]) == 1


def test_pages_of_silences_leave_none_out(client: AppClient, stored: Stored) -> None:
    made = {told(silence(client, node=f"n{number}"), 201)["silence_id"] for number in range(5)}
    found, address = [], "/v1/silences?limit=2"
    while address:
        page = told(client.get(address))
        found += [one["silence_id"] for one in page["silences"]]
        address = page["next"]
    assert sorted(found) == sorted(made)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"why": "a", "for": "1h"}, "name a run"),
        ({"run": "r", "for": "1h"}, "why"),
        ({"run": "r", "why": "a"}, "until"),
        ({"run": "r", "why": "a", "for": "1h", "until": 9e9}, "one of until"),
        ({"run": "r", "why": "a", "for": "soon"}, "soon"),
        ({"run": "r", "why": "a", "until": "never"}, "never"),
        ({"run": "r", "why": "a", "until": True}, "until"),
        ({"run": "r", "why": "a", "until": 5}, "later end"),
        ({"run": "r", "why": "a", "from": 9_000_000_000, "until": 8_999_999_999}, "later end"),
        ({"run": "r", "why": "a", "from": 253_402_300_000, "for": "36000d"}, "year 10000"),
        ({"run": "r\0", "why": "a", "for": "1h"}, "run"),
        ({"run": "r", "why": "a", "for": "1h", "who": "b"}, "who"),
    ],
    ids=str,
)
def test_a_silence_that_makes_no_sense_is_refused(
    client: AppClient, stored: Stored, body: dict[str, Any], word: str
) -> None:
    assert word in refused(client.post("/v1/silences", json=body), 422)
    assert told(client.get("/v1/silences"))["silences"] == []


def test_a_silence_may_begin_later(client: AppClient, stored: Stored) -> None:
    made = told(client.post("/v1/silences", json={"run": "*", "why": "a", "from": 9_000_000_000, "for": "1h"}), 201)
    assert (made["state"], made["until"]) == ("pending", 9_000_003_600.0)
    assert told(client.get(f"/v1/incidents/{stored.slow.incident_id}"))["is_silenced"] is False


@pytest.mark.parametrize(
    ("run", "status"),
    [("team/llama", 201), ("team/*", 201), ("team/l?ama*", 201), ("*", 403), (None, 403), ("te*", 403), ("gpt", 403)],
)
def test_a_token_for_some_runs_silences_those_alone(
    client: AppClient, database: Database, stored: Stored, run: str | None, status: int
) -> None:
    operator = token(database, "operate", runs=("team/*",))
    body = {"run": run, "node": "n3", "why": "a", "for": "1h"}
    assert client.post("/v1/silences", json=body, headers=operator).status_code == status


def test_a_token_for_some_runs_does_not_end_the_silence_of_others(
    client: AppClient, database: Database, stored: Stored
) -> None:
    admin, operator = token(database, "admin"), token(database, "operate", runs=("team/*",))
    body = {"node": "n3", "why": "a", "for": "1h"}
    made = told(client.post("/v1/silences", json=body, headers=admin), 201)
    at = f"/v1/silences/{made['silence_id']}"
    assert client.request("DELETE", at, headers=operator).status_code == 403
    assert client.request("DELETE", at, headers=token(database, "operate", tenant="acme")).status_code == 404


@pytest.mark.parametrize("asked", ["", " AND cleared_us IS NULL"])
def test_the_newest_of_many_incidents_are_found_by_an_index(sqlite_url: str, asked: str) -> None:
    database = Database(sqlite_url)
    query = f"SELECT * FROM incidents WHERE tenant_id = 1{asked} ORDER BY opened_us DESC, run_id, incident_id LIMIT 100"
    with database.read() as connection:
        plan = " ".join(str(row) for row in connection.execute(text(f"EXPLAIN QUERY PLAN {query}")))
    database.close()
    assert ("incidents_open_idx" if asked else "incidents_fleet_idx") in plan
