"""Incidents are read as they were found, in order, with what operators made of them."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import msgspec
import pytest
from stored_incidents import SECOND, incident, put
from stored_runs import add_run
from tachograph_collector.detect import Evidence
from tachograph_collector.detect.incident_json import incident_object
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_object import stored_object
from tachograph_collector.store.incident_reader import (
    IncidentFilter,
    StoredIncident,
    changed_since,
    find_incidents,
    num_open,
    place_of,
    read_incidents,
    read_notes,
)
from tachograph_collector.store.incident_writer import acknowledge, add_note, unacknowledge
from tachograph_collector.store.silences import add_silence, end_silence, read_silences

NOW_US = 2000 * SECOND


def listed(database: Database, at_us: int = NOW_US, tenant_id: int = 1, **which: Any) -> list[StoredIncident]:
    with database.read() as connection:
        return read_incidents(connection, tenant_id, IncidentFilter(**which), 100, at_us=at_us)


def one_of(database: Database, at_us: int = NOW_US) -> StoredIncident:
    (found,) = listed(database, at_us)
    return found


def test_an_incident_is_read_as_it_was_found(database: Database) -> None:
    with database.write() as connection:
        run = add_run(connection, "r", run_id=7)
        told = put(connection, run, incident())
    stored = one_of(database)
    assert stored.incident == told
    assert (stored.origin, stored.is_open, stored.acknowledged, stored.is_silenced) == ("live", True, None, False)
    plain = stored_object(stored, "https://collector.example/")
    assert incident_object(told).items() <= plain.items()
    assert plain["cost"] == {"wall_s": 120.0, "gpu_hours": 0.5, "money": 1.25, "basis": "steps slower by 20 %"}
    assert plain["url"] == f"https://collector.example/#/incidents/{told.incident_id}"


def test_a_number_that_is_none_is_stored_as_unknown(database: Database) -> None:
    broken = Evidence(value=nan, more={"loss": float("inf")})
    with database.write() as connection:
        run = add_run(connection, "r", run_id=7)
        told = put(connection, run, incident(evidence=broken, cost=None))
    plain = stored_object(one_of(database))
    assert (plain["evidence"]["value"], plain["evidence"]["loss"], plain["cost"]) == (None, None, None)
    assert incident_object(told)["evidence"] == plain["evidence"]


def test_what_began_last_comes_first_and_pages_leave_nothing_out(database: Database) -> None:
    with database.write() as connection:
        for run_id in (7, 8):
            run = add_run(connection, f"r{run_id}", run_id=run_id)
            for second in (1000, 1000, 1001, 1002):
                subject = f"rank {len(listed_now(connection))}"
                put(connection, run, incident(f"r{run_id}", subject=subject, opened_us=second * SECOND))
    whole = listed(database)
    assert [one.incident.opened_us for one in whole] == sorted((o.incident.opened_us for o in whole), reverse=True)
    paged: list[StoredIncident] = []
    while True:
        with database.read() as connection:
            after = place_of(paged[-1]) if paged else None
            page = read_incidents(connection, 1, IncidentFilter(), 3, after, at_us=NOW_US)
        if not page:
            break
        paged += page
    assert paged == whole


def listed_now(connection: Any) -> list[StoredIncident]:
    return read_incidents(connection, 1, IncidentFilter(), 100, at_us=NOW_US)


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abc"),
    ({"run_pattern": "llama*"}, "ab"),
    ({"run_pattern": "Llama*"}, ""),
    ({"detectors": ["hang", "nan"]}, "bc"),
    ({"severities": ["critical"]}, "b"),
    ({"origins": ["replay"]}, "c"),
    ({"node": "n3"}, "ac"),
    ({"is_open": True}, "ac"),
    ({"is_open": False}, "b"),
    ({"since_us": 1200 * SECOND}, "ac"),
    ({"until_us": 1100 * SECOND}, "ab"),
]


@pytest.mark.parametrize(("which", "expected"), FILTERS, ids=str)
def test_a_filter_takes_those_alone(database: Database, which: dict[str, Any], expected: str) -> None:
    with database.write() as connection:
        llama, other = add_run(connection, "llama_1", run_id=7), add_run(connection, "other", run_id=8)
        put(connection, llama, incident("llama_1", subject="a"))
        over = incident("llama_1", "hang", "b", severity="critical", node=None, cleared_us=1100 * SECOND)
        put(connection, llama, over)
        put(connection, other, incident("other", "nan", "c", opened_us=1100 * SECOND), origin="replay")
    assert {one.incident.subject for one in listed(database, **which)} == set(expected)


def test_another_tenant_sees_none_of_it(database: Database) -> None:
    with database.write() as connection:
        told = put(connection, add_run(connection, "r", run_id=7), incident())
        add_run(connection, "r", run_id=9, tenant_id=2)
    assert listed(database, tenant_id=2) == []
    with database.read() as connection:
        assert find_incidents(connection, 2, told.incident_id, 10, at_us=NOW_US) == []


def test_an_incident_is_found_by_the_beginning_of_its_id(database: Database) -> None:
    with database.write() as connection:
        run = add_run(connection, "r", run_id=7)
        for name in ("abc1", "abc123", "abd%"):
            put(connection, run, incident(subject=name, incident_id=name))

    def found(prefix: str) -> set[str]:
        with database.read() as connection:
            return {one.incident.incident_id for one in find_incidents(connection, 1, prefix, 10, at_us=NOW_US)}

    assert found("abc") == {"abc1", "abc123"}
    assert found("abc1") == {"abc1"}
    assert found("ab%") == set()


def test_an_acknowledgement_holds_until_it_is_taken_back_and_all_of_it_is_written_down(database: Database) -> None:
    with database.write() as connection:
        run = add_run(connection, "r", run_id=7)
        put(connection, run, incident(), changed_us=5)
        put(connection, run, incident(subject="rank 8"), changed_us=5)
    first, second = listed(database)
    with database.write() as connection:
        acknowledge(connection, first, author="ada", text="I look at it", now_us=100)
    acknowledged, untouched = listed(database)
    assert acknowledged.acknowledged is not None
    assert (acknowledged.acknowledged.author, acknowledged.acknowledged.at_us) == ("ada", 100)
    assert (acknowledged.changed_us, untouched) == (100, second)
    with database.write() as connection:
        assert acknowledge(connection, acknowledged, author="bob", text=None, now_us=101) is None
        add_note(connection, acknowledged, author="bob", text="drained", now_us=102)
        unacknowledge(connection, acknowledged, author="bob", text=None, now_us=103)
    again, _ = listed(database)
    assert again.acknowledged is None
    with database.read() as connection:
        notes = read_notes(connection, first.key, first.incident.incident_id)
    assert [(note.author, note.what, note.text) for note in notes] == [
        ("ada", "acknowledged", "I look at it"),
        ("bob", "annotated", "drained"),
        ("bob", "unacknowledged", None),
    ]


SILENCES: list[tuple[dict[str, Any], bool]] = [
    ({"run_pattern": "r"}, True),
    ({"run_pattern": "*"}, True),
    ({"run_pattern": "R"}, False),
    ({"detector": "straggler"}, True),
    ({"detector": "hang"}, False),
    ({"subject": "rank ?"}, True),
    ({"subject": "node*"}, False),
    ({"node": "n3"}, True),
    ({"node": "n4"}, False),
    ({"run_pattern": "r", "node": "n4"}, False),
]


@pytest.mark.parametrize(("about", "silenced"), SILENCES, ids=str)
def test_a_silence_is_about_what_fits_all_of_it(database: Database, about: dict[str, Any], silenced: bool) -> None:
    nothing = dict.fromkeys(("run_pattern", "detector", "subject", "node"))
    with database.write() as connection:
        put(connection, add_run(connection, "r", run_id=7), incident())
        times = {"from_us": 10, "until_us": NOW_US + 1, "now_us": 10}
        add_silence(connection, 1, author="ada", why="maintenance", **(nothing | about | times))
    assert one_of(database).is_silenced is silenced


def test_a_silence_holds_from_its_beginning_until_just_before_its_end_or_until_it_is_taken_back(
    database: Database,
) -> None:
    with database.write() as connection:
        put(connection, add_run(connection, "r", run_id=7), incident())
        silence = add_silence(
            connection, 1, run_pattern="*", detector=None, subject=None, node=None, from_us=100, until_us=200,
            author="ada", why="maintenance", now_us=50,
        )  # fmt: skip
    assert [one_of(database, at_us).is_silenced for at_us in (99, 100, 199, 200)] == [False, True, True, False]
    with database.write() as connection:
        end_silence(connection, 1, silence.silence_id, now_us=150)
        end_silence(connection, 1, silence.silence_id, now_us=160)
    assert [one_of(database, at_us).is_silenced for at_us in (149, 150, 199)] == [True, False, False]
    with database.read() as connection:
        assert read_silences(connection, 1, 10, at_us=170) == [replace(silence, ended_us=150)]
        assert read_silences(connection, 1, 10, at_us=170, is_over=False) == []
        assert len(read_silences(connection, 1, 10, at_us=149, is_over=False)) == 1
    assert (silence.state(50), silence.state(150), silence.state(200)) == ("pending", "active", "expired")


def test_who_tells_others_sees_what_changed_of_all_tenants_in_that_order(database: Database) -> None:
    with database.write() as connection:
        run, other = add_run(connection, "r", run_id=7), add_run(connection, "r", run_id=9, tenant_id=2)
        put(connection, run, incident(subject="late"), changed_us=30)
        put(connection, other, incident(subject="early"), changed_us=10)
        put(connection, run, incident(subject="same"), changed_us=20)
    with database.read() as connection:
        found = changed_since(connection, 20, 10, at_us=NOW_US)
        assert [one.incident.subject for one in changed_since(connection, 0, 2, at_us=NOW_US)] == ["early", "same"]
    assert [(one.incident.subject, one.changed_us) for one in found] == [("same", 20), ("late", 30)]


def test_open_incidents_are_counted_by_run(database: Database) -> None:
    with database.write() as connection:
        run, calm = add_run(connection, "r", run_id=7), add_run(connection, "calm", run_id=8)
        put(connection, run, incident(subject="a"))
        put(connection, run, incident(subject="b"))
        put(connection, calm, incident("calm", subject="c", cleared_us=NOW_US))
    with database.read() as connection:
        assert num_open(connection, 1, [7, 8]) == {7: 2}


def test_the_object_can_be_written_as_json(database: Database) -> None:
    with database.write() as connection:
        put(connection, add_run(connection, "r", run_id=7), incident())
    assert msgspec.json.decode(msgspec.json.encode(stored_object(one_of(database), None, [])))["notes"] == []
