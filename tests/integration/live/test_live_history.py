"""What was booked once is never silently booked otherwise: revisions, frozen runs, late events, further runs."""

from __future__ import annotations

from ledger_oracle.build import T0_US, Log
from ledger_oracle.order import at_us
from live_world import MINUTE, SECOND, World
from tachograph_agent.events import AnyEvent
from tachograph_collector.live.rebuild import rebuild
from tachograph_collector.store.schema import books, ledger_states, minutes, segments


def live(world: World, events: list[AnyEvent], every: int = 15) -> None:
    """Events come a second after they were told, some at a time."""
    for at in range(0, len(events), every):
        world.at(max(at_us(event) for event in events[at : at + every]) + SECOND)
        world.receive(events[at : at + every])
        world.settle()


def trained(minutes: int = 5) -> Log:
    return Log("r").start(0).up(0, resume=0).steps(0, 1, 30 * minutes)


def test_rollback_that_reaches_back_is_stored_as_revisions_beside_what_was_first_booked(world: World) -> None:
    live(world, trained().events)
    world.wait(40)  # agents that tell every half minute are waited for
    assert world.revisions("r") == []
    live(world, Log("r").rollback(300, 75).steps(300, 76, 80).events)
    world.wait(1)
    found = world.revisions("r")
    assert [(row["start_us"], row["revision"]) for row in found] == [(T0_US + n * MINUTE, 2) for n in (2, 3, 4)]
    assert [(row["was_kept_us"], row["was_lost_us"], row["kept_us"], row["lost_us"]) for row in found] == [
        (MINUTE, 0, MINUTE // 2, MINUTE // 2),
        (MINUTE, 0, 0, MINUTE),
        (MINUTE, 0, 0, MINUTE),
    ]
    assert set(world.first_booked("r").values()) == {(MINUTE, 0, 0, 0)}
    assert [(minute.lost_us, minute.revision) for minute in world.minutes("r")][:5] == [
        (0, 1), (0, 1), (MINUTE // 2, 2), (MINUTE, 2), (MINUTE, 2),
    ]  # fmt: skip
    [view] = next(iter(world.keepers[0].snapshot().runs.values()))
    assert view.booked.lost_later_us == 2.5 * MINUTE
    assert view.booked.first_us[0] >= 5 * MINUTE
    world.check("r")


def test_counters_of_what_was_booked_go_on_where_they_were_after_a_crash(world: World) -> None:
    live(world, trained().events)
    live(world, Log("r").rollback(300, 75).steps(300, 76, 110).events)
    world.wait(30)
    [before] = next(iter(world.keepers[0].snapshot().runs.values()))
    world.crash()
    world.take_over()
    [after] = next(iter(world.keepers[0].snapshot().runs.values()))
    assert after.booked.lost_later_us == before.booked.lost_later_us
    assert all(a >= b for a, b in zip(after.booked.first_us, before.booked.first_us, strict=True))


def test_folding_the_same_again_writes_no_row_and_no_version(world: World) -> None:
    live(world, trained().end(300).events)
    world.wait(30)
    before = [world.rows(table, "r") for table in (books, minutes, segments)]
    assert before[0][0]["frozen_us"] is not None
    found = rebuild(world.database, world.run("r"), world.pace)
    assert found.equal
    assert found.num_events == len(world.events("r"))
    assert [world.rows(table, "r") for table in (books, minutes, segments)] == before


def test_rebuild_puts_right_what_was_wrong(world: World) -> None:
    live(world, trained().end(300).events)
    world.wait(30)
    with world.database.write() as connection:
        connection.execute(minutes.update().where(minutes.c.start_us == T0_US).values(kept_us=7, lost_us=MINUTE - 7))
        connection.execute(segments.delete())
    found = rebuild(world.database, world.run("r"), world.pace)
    assert (found.equal, found.num_minutes_revised) == (False, 1)
    world.check("r")


def test_state_that_can_not_be_read_is_made_anew_from_the_events(world: World) -> None:
    live(world, trained().events)
    world.keepers[0].close()
    with world.database.write() as connection:
        connection.execute(ledger_states.update().values(data=b"\x00 no state"))
    world.crash()
    live(world, Log("r").steps(300, 151, 200).events)
    world.wait(10)
    assert world.keepers[0].snapshot().counters.states_refused == 1
    world.check("r")


def test_finished_run_is_frozen_when_it_is_quiet_and_its_lease_let_go(world: World) -> None:
    live(world, trained().end(300).events)
    assert world.books("r").frozen_us is None
    world.wait(15)
    frozen = world.books("r")
    assert (frozen.revision, len(frozen.digest or "")) == (1, 64)
    assert world.keepers[0].snapshot().runs == {}
    version = frozen.version
    world.wait(200, step_s=20)
    assert world.books("r").version == version


def test_late_event_of_a_frozen_run_makes_a_visible_revision(world: World) -> None:
    live(world, trained().end(300).events)
    world.wait(30)
    frozen = world.books("r")
    world.receive(Log("r").failure(200, "gpu").events)
    world.wait(30)
    late = world.books("r")
    assert (late.revision, late.frozen_us is None) == (1, False)  # survived: nothing changed
    assert late.digest == frozen.digest
    world.receive(Log("r").rollback(300, 100).events)
    world.wait(30)
    late = world.books("r")
    assert late.revision == 2
    assert late.digest != frozen.digest
    assert {row["revision"] for row in world.revisions("r")} == {2}
    world.check("r")


def test_heartbeat_after_the_end_leaves_a_frozen_run_as_it_was(world: World) -> None:
    live(world, trained().end(300).events)
    world.wait(30)
    frozen = world.rows(books, "r")
    world.receive(Log("r").add("heartbeat", 299, node="n1", seq=1).events)
    world.wait(30)
    assert [row["digest"] for row in world.rows(books, "r")] == [row["digest"] for row in frozen]
    assert world.books("r").revision == 1


def test_further_run_of_a_name_has_books_of_its_own(world: World) -> None:
    first = trained(2).end(120).events
    second = Log("r").start(400).as_attempt(1).up(400, resume=0).steps(400, 1, 90).events
    live(world, first + second)
    world.wait(20)
    assert world.books("r").frozen_us is not None
    assert world.books("r#2").books.status == "running"
    assert [minute.kept_us for minute in world.minutes("r#2")][1:3] == [MINUTE, MINUTE]
    world.check("r")


def test_run_that_turns_out_to_be_none_gives_its_minutes_up_as_revisions(world: World) -> None:
    live(world, trained(2).end(120).events)
    live(world, Log("r").start(400).as_attempt(1).up(400, resume=0).steps(400, 1, 90).events)
    world.wait(20)
    key = world.books("r#2").key
    # It had not been completed after all: what came after goes on with the first run.
    world.receive(Log("r").end(120, "cancelled").events)
    world.wait(20)
    world.check("r")
    gone = [row for row in world.rows(minutes, "r") if row["generation"] == key.generation]
    assert gone
    assert all(row["kept_us"] == row["restart_us"] == 0 and row["revision"] == 2 for row in gone)


def test_loaded_recording_is_booked_to_its_last_event_and_not_to_now(world: World) -> None:
    events = trained(3).events
    world.at(T0_US + 90 * 24 * 3600 * SECOND)
    world.receive(events, origin="replay")
    world.wait(15)
    stored = world.books("r")
    assert (stored.origin, stored.books.status, stored.books.wall_us) == ("replay", "running", 3 * MINUTE)
    assert [minute.kept_us for minute in world.minutes("r")] == [MINUTE] * 3
    world.check("r", live=False)


def test_live_run_that_is_silent_for_hours_is_abandoned_and_frozen(world: World) -> None:
    live(world, trained(2).events)
    world.wait(6.1 * 3600, step_s=300)
    stored = world.books("r")
    assert (stored.books.status, stored.books.end_us) == ("abandoned", T0_US + 2 * MINUTE)
    assert stored.frozen_us is not None
    assert {row["kept_us"] for row in world.revisions("r")} != set()
    world.check("r")


def test_run_of_decades_is_set_aside_and_others_go_on(world: World) -> None:
    world.receive([*Log("broken").add("run.start", -50 * 365 * 86400.0).steps(0, 1, 3).events])
    live(world, trained(2).events)
    world.wait(40)
    snapshot = world.keepers[0].snapshot()
    [aside] = snapshot.set_aside.values()
    assert aside.name == "broken"
    assert "clock" in aside.reason
    assert len(world.minutes("r")) == 2
    world.wait(60, step_s=5)
    again = next(iter(world.keepers[0].snapshot().set_aside.values()))
    assert 1 < again.num_tries < 6
