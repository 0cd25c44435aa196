"""Detectors look while a run runs: incidents open, change and close as rows, whoever folds it and however often."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from faulty_run import RUN, WRONG, faulty_run
from ledger_oracle.build import T0_US
from live_world import SECOND, World
from sqlalchemy import delete, insert, update
from tachograph_agent.events import AnyEvent, microseconds
from tachograph_collector.detect import Detectors, Incident
from tachograph_collector.live import detecting, recording
from tachograph_collector.live.rebuild import rebuild
from tachograph_collector.store.incident_rows import incident_row
from tachograph_collector.store.incident_tables import detector_states, incident_notes, incidents, sights

FLUSH_US = 10 * SECOND
Row = dict[str, object]


def pieces(events: Sequence[AnyEvent], begin_us: int = T0_US) -> Iterator[tuple[int, list[AnyEvent]]]:
    """What is told every ten seconds, and when; also when nothing is."""
    place, at_us = 0, begin_us
    while place < len(events):
        at_us += FLUSH_US
        begin = place
        while place < len(events) and microseconds(events[place].t) <= at_us:
            place += 1
        yield at_us, list(events[begin:place])


def play(world: World, events: Sequence[AnyEvent], crash_at: Sequence[int] = ()) -> None:
    """Let a run happen; the collector is killed, and another started, at these seconds of it."""
    waiting = [T0_US + second * SECOND for second in crash_at]
    for at_us, told in pieces(events):
        world.at(at_us)
        if told:
            world.receive(told)
        world.settle()
        if waiting and at_us >= waiting[0]:
            waiting.pop(0)
            world.crash()
    world.wait(30, step_s=5)


def found(world: World) -> dict[object, Row]:
    return {row["incident_id"]: row for row in world.rows(incidents, RUN)}


def told_without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in {"changed_us", *names}}


def replayed(events: Sequence[AnyEvent]) -> list[Incident]:
    """What a replay of the log finds."""
    detectors = Detectors()
    detectors.add(events)
    detectors.look()
    return detectors.incidents(RUN)


def test_incidents_are_those_of_a_replay_of_the_same_events(world: World) -> None:
    events = faulty_run()
    play(world, events)
    rows = found(world)
    assert {(row["detector"], row["subject"]) for row in rows.values()} >= WRONG
    expected = {one.incident_id: incident_row(one) for one in replayed(events)}
    assert rows.keys() == expected.keys()
    for incident_id, row in rows.items():
        assert {name: row[name] for name in expected[incident_id]} == expected[incident_id]
        assert row["origin"] == "live"
        assert row["cleared_us"] is not None
    world.check(RUN)


def test_collector_that_was_away_holds_silence_against_nobody(world: World) -> None:
    play(world, faulty_run(last_step=30, ended=False))
    world.at(world.clock.now_us + 120 * SECOND)
    world.settle()
    assert found(world) == {}
    world.wait(30, step_s=5)
    assert found(world) == {}
    world.wait(60, step_s=5)
    assert [row["detector"] for row in found(world).values()] == ["hang"]


def test_straggler_is_open_while_it_lasts_in_the_rows_and_in_what_the_keeper_shows(world: World) -> None:
    events = faulty_run(last_step=100, ended=False)
    play(world, events)
    [row] = [row for row in found(world).values() if row["detector"] == "straggler"]
    assert (row["rank"], row["node"], row["cleared_us"]) == (5, "n5", None)
    assert isinstance(row["updated_us"], int)
    assert isinstance(row["found_us"], int)
    assert row["updated_us"] > row["found_us"]
    snapshot = world.keepers[0].snapshot()
    [[view]] = snapshot.runs.values()
    assert {one.incident_id for one in view.incidents} == {row["incident_id"] for row in found(world).values()}
    assert (view.sights["straggler"].state, view.detectors_fault) == ("armed", None)
    assert snapshot.counters.incidents_opened == len(found(world))
    stored = {row["detector"]: row["state"] for row in world.rows(sights, RUN)}
    assert stored["straggler"] == "armed"
    assert stored["checkpoint_overdue"] == "blind"


def test_hang_is_found_though_nothing_comes(world: World) -> None:
    play(world, faulty_run(last_step=80, ended=False))
    assert [row["detector"] for row in found(world).values()] == ["straggler"]
    world.wait(60, step_s=5)
    [row] = [row for row in found(world).values() if row["detector"] == "hang"]
    assert row["cleared_us"] is None
    assert world.clock.now_us - int(str(row["found_us"])) < 60 * SECOND


def cuts(seed: int) -> tuple[int, ...]:
    """Seconds at which the collector dies; it takes the next one 14 s or so to go on."""
    dice = random.Random(seed)
    return tuple(sorted(dice.sample(range(30, 1200), 1 + seed % 7)))


@pytest.mark.parametrize("crash_at", [(370, 380), (655, 715, 725), *map(cuts, range(1, 6))])
def test_crash_repeats_no_incident_and_forgets_none(world: World, crash_at: tuple[int, ...]) -> None:
    events = faulty_run()
    play(world, events, crash_at)
    expected = {one.incident_id: one for one in replayed(events)}
    rows = found(world)
    assert rows.keys() == expected.keys()
    for incident_id, row in rows.items():
        assert row["opened_us"] == expected[incident_id].opened_us
        assert row["cleared_us"] == expected[incident_id].cleared_us
    world.check(RUN)


def test_what_a_crash_finds_again_is_not_written_again(world: World) -> None:
    play(world, faulty_run(last_step=85, ended=False))
    before = found(world)
    world.crash()
    world.take_over()
    after = found(world)
    assert after.keys() >= before.keys()
    for incident_id, row in before.items():
        if row["cleared_us"] is not None:
            assert after[incident_id] == row


def refuse_state(world: World) -> None:
    with world.database.write() as connection:
        connection.execute(update(detector_states).values(version="of another time"))


def test_detectors_that_begin_afresh_go_on_with_what_is_open(world: World) -> None:
    play(world, faulty_run(last_step=85, ended=False))
    [before] = [row for row in found(world).values() if row["detector"] == "straggler"]
    world.keepers[0].close()
    refuse_state(world)
    world.crash()
    slow = [event for event in faulty_run(last_step=94, ended=False) if getattr(event, "step", 0) >= 20]
    shift_s = (world.clock.now_us - microseconds(slow[0].t)) / 1e6 + 5
    more = [msgspec.structs.replace(event, t=event.t + shift_s, step=event.step + 66) for event in slow]
    for at_us, told in pieces(more, world.clock.now_us):
        world.at(at_us)
        world.receive(told)
        world.settle()
    assert world.keepers[0].snapshot().counters.detector_states_refused == 1
    [after] = [row for row in found(world).values() if row["detector"] == "straggler"]
    assert (after["incident_id"], after["opened_us"], after["cleared_us"]) == (
        before["incident_id"], before["opened_us"], None,
    )  # fmt: skip
    assert int(str(after["updated_us"])) > int(str(before["updated_us"])) + 60 * SECOND


@pytest.mark.parametrize("seconds", [1200])
def test_incident_that_nobody_sees_any_more_is_closed(world: World, seconds: int) -> None:
    play(world, faulty_run(last_step=30, ended=False))
    run = world.run(RUN)
    ghost = incident_row(replayed(faulty_run())[0]) | {"incident_id": "ghost", "cleared_us": None, "subject": "rank 7"}
    with world.database.write() as connection:
        connection.execute(
            insert(incidents).values(
                tenant_id=run.tenant_id, run_id=run.run_id, origin="live", changed_us=T0_US, **ghost
            )
        )
    world.keepers[0].close()
    world.wait(20, step_s=5)
    assert found(world)["ghost"]["cleared_us"] is None
    world.wait(seconds, step_s=60)
    row = found(world)["ghost"]
    assert (row["cleared_us"] is not None, row["outcome"]) == (True, "not seen again by detectors that began afresh")


def check_recording(world: World, events: Sequence[AnyEvent]) -> None:
    expected = {one.incident_id: incident_row(one) for one in replayed(events)}
    rows = found(world)
    assert rows.keys() == expected.keys()
    assert {row["origin"] for row in rows.values()} == {"replay"}
    for incident_id, row in rows.items():
        assert {name: row[name] for name in expected[incident_id]} == expected[incident_id]


@pytest.mark.parametrize("pending", [100_000, 50])
def test_recording_is_judged_as_a_finished_log_in_whatever_order_it_came(
    world: World, monkeypatch: pytest.MonkeyPatch, pending: int
) -> None:
    monkeypatch.setattr(recording, "PENDING", pending)
    monkeypatch.setattr(recording, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr(detecting, "RECORDING_A_TURN_S", 0.0)
    events = faulty_run()
    chunks = [events[place : place + 100] for place in range(0, len(events), 100)]
    for chunk in reversed(chunks):
        world.receive(chunk, origin="replay")
    world.wait(120, step_s=5)
    check_recording(world, events)
    assert {row["detector"]: row["state"] for row in world.rows(sights, RUN)}["straggler"] == "armed"
    assert world.keepers[0].snapshot().runs == {}


def test_recording_that_goes_on_later_is_judged_anew(world: World) -> None:
    events = faulty_run()
    world.receive(events[900:], origin="replay")
    world.wait(30, step_s=5)
    world.receive(events[:900], origin="replay")
    world.crash()
    world.take_over()
    world.wait(30, step_s=5)
    expected = {one.incident_id for one in replayed(events)}
    assert found(world).keys() >= expected


def test_rebuild_finds_the_same_and_leaves_what_operators_said(world: World) -> None:
    play(world, faulty_run())
    before = found(world)
    run = world.run(RUN)
    one = next(iter(before))
    with world.database.write() as connection:
        note = {"incident_id": one, "note_id": "n", "at_us": 1, "author": "ann", "what": "annotated", "text": "!"}
        connection.execute(insert(incident_notes).values(tenant_id=run.tenant_id, run_id=run.run_id, **note))
        forgotten = incidents.c.detector == "loss_spike"
        connection.execute(delete(incidents).where(forgotten))
        connection.execute(update(incidents).where(incidents.c.detector == "hang").values(summary="wrong"))
    told = rebuild(world.database, run, world.pace)
    assert told.num_incidents == 2
    after = found(world)
    assert {key: told_without(row) for key, row in after.items()} == {
        key: told_without(row) for key, row in before.items()
    }
    assert after[one] == before[one] or before[one]["detector"] in ("loss_spike", "hang")
    assert [row["text"] for row in world.rows(incident_notes, RUN)] == ["!"]
    assert rebuild(world.database, run, world.pace).equal


def test_detector_that_raises_is_set_aside_and_the_books_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a detector broke")

    events = faulty_run()
    play(world, events[:400])
    monkeypatch.setattr(Detectors, "look", broken)
    for at_us, told in pieces(events[400:600], world.clock.now_us):
        world.at(at_us)
        world.receive(told)
        world.settle()
    [[view]] = world.keepers[0].snapshot().runs.values()
    assert view.detectors_fault == "RuntimeError: a detector broke"
    assert world.keepers[0].snapshot().counters.detectors_failed == 1
    assert view.sights["straggler"].state == "blind"
    assert world.keepers[0].snapshot().set_aside == {}
    world.check(RUN)
