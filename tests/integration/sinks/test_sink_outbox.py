"""The outbox over real databases: who is told what, once, whoever dies, and what is given up."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import insert, update
from tachograph_collector.sinks.telling import NotToldError, Telling
from tachograph_collector.store import outbox
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_tables import sinks
from tachograph_collector.store.schema import tenants
from told_sinks import Ear, S, World, config


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def test_an_incident_is_told_when_it_opens_and_when_it_is_over_and_once_each(world: World) -> None:
    ear = Ear()
    courier = world.courier(ear)
    one = world.incident()
    for _ in range(3):
        courier.turn()
    world.clear(one)
    for _ in range(3):
        world.hours_pass()
        courier.turn()
    assert ear.events == ["opened", "cleared"]
    assert [each.remote_id for each in ear.heard] == [None, "remote-1"]
    assert (world.row(one).state, world.row(one).told) == ("sent", "cleared")


def test_what_was_open_before_a_sink_was_set_up_is_never_told(world: World) -> None:
    before = world.incident("rank 1")
    ear = Ear()
    courier = world.courier(ear)
    after = world.incident("rank 2")
    world.change(before, severity="critical")
    courier.turn()
    world.clear(before)
    world.clear(after)
    courier.turn()
    assert {each.stored.incident.subject for each in ear.heard} == {"rank 2"}


def test_a_collector_that_starts_anew_goes_on_where_the_last_one_was(world: World) -> None:
    first, second = Ear(), Ear()
    world.courier(first)
    one = world.incident()  # while no collector runs
    world.courier(second, holder="b").turn()
    assert second.events == ["opened"]
    third = Ear()
    world.courier(third, holder="c").turn()
    assert third.events == []
    assert world.row(one).num_tries == 0


def test_two_collectors_at_once_tell_each_incident_once(world: World) -> None:
    ear = Ear()
    couriers = [world.courier(ear, holder=name) for name in "ab"]
    for number in range(12):
        world.incident(f"rank {number}")
    threads = [threading.Thread(target=courier.turn) for courier in couriers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for courier in couriers:
        courier.turn()
    told = sorted(each.stored.incident.subject for each in ear.heard)
    assert told == sorted(f"rank {number}" for number in range(12))


def test_a_sink_that_no_collector_had_for_days_begins_anew(world: World) -> None:
    told_before, first = world.incident("rank 0"), Ear()
    world.courier(first)
    open_and_told = world.incident("rank 1")
    world.courier(first).turn()
    with world.database.write() as connection:
        connection.execute(update(sinks).values(looked_us=sinks.c.looked_us - 2 * 86_400 * S))
    world.incident("rank 2")
    again = Ear()
    courier = world.courier(again, holder="b")
    world.incident("rank 3")
    world.clear(open_and_told)
    world.clear(told_before)
    courier.turn()
    assert sorted((each.event, each.stored.incident.subject) for each in again.heard) == [
        ("cleared", "rank 1"),
        ("opened", "rank 3"),
    ]


class DiesAfterSending(BaseException):
    """The process is killed."""


def test_a_collector_killed_between_sending_and_writing_it_down_is_followed_by_one_that_knows_it(world: World) -> None:
    class Dying(Ear):
        def tell(self, telling: Telling) -> str | None:
            super().tell(telling)
            raise DiesAfterSending

    dying, other = Dying(), Ear()
    courier = world.courier(dying)
    survivor = world.courier(other, holder="b")
    world.incident()
    with pytest.raises(DiesAfterSending):
        courier.turn()
    survivor.turn()
    assert other.events == []  # the claim holds
    world.hours_pass()
    survivor.turn()
    assert [(each.event, each.is_retry) for each in other.heard] == [("opened", True)]
    assert other.heard[0].key == dying.heard[0].key


def test_a_try_that_fails_is_repeated_later_and_later_and_then_told(world: World) -> None:
    ear = Ear(fails=[NotToldError("away", is_away=True) for _ in range(4)])
    courier = world.courier(ear)
    one = world.incident()
    for wait_us in (4 * S, 8 * S, 16 * S, 32 * S):
        before_us = world.now_us()
        courier.turn()
        row = world.row(one)
        assert (row.state, row.error) == ("waiting", "away")
        assert before_us + wait_us <= row.next_try_us <= world.now_us() + wait_us
        world.hours_pass()
    courier.turn()
    assert ear.events == ["opened"]
    assert (world.row(one).num_tries, world.row(one).error) == (0, None)


def test_a_try_waits_as_long_as_the_other_side_asked(world: World) -> None:
    courier = world.courier(Ear(fails=[NotToldError("slowly", retry_after_s=3000.0, is_away=True)]))
    one, other = world.incident("rank 1"), world.incident("rank 2")
    courier.turn()
    tried = [each for each in (world.row(one), world.row(other)) if each.num_tries]
    assert len(tried) == 1  # nothing else is sent there meanwhile
    with world.database.read() as connection:
        assert tried[0].next_try_us - world.database.now_us(connection) > 2900 * S


def test_what_is_refused_as_such_is_given_up_at_once_and_can_be_tried_again(world: World) -> None:
    ear = Ear(fails=[NotToldError("it answers 400", is_final=True)])
    courier = world.courier(ear)
    one = world.incident()
    courier.turn()
    world.hours_pass()
    courier.turn()
    assert (world.row(one).state, world.row(one).error, ear.events) == ("dead", "it answers 400", [])
    assert courier.tally.dead == 1
    with world.database.write() as connection:
        dead = outbox.read_deliveries(connection, 10, states=(outbox.DEAD,))
        assert outbox.retry(connection, [each.delivery.key for each in dead], world.database.now_us(connection)) == 1
    courier.turn()
    assert ear.events == ["opened"]


def test_what_was_given_up_is_tried_again_when_there_is_news(world: World) -> None:
    ear = Ear(fails=[NotToldError("it answers 400", is_final=True)])
    courier = world.courier(ear)
    one = world.incident()
    courier.turn()
    world.clear(one)
    courier.turn()
    assert [(each.event, each.is_retry) for each in ear.heard] == [("cleared", True)]


def test_what_fails_for_too_long_is_given_up(world: World) -> None:
    ear = Ear(fails=[NotToldError("away") for _ in range(9)])
    courier = world.courier(ear, config(give_up_after_s=3600.0))
    one = world.incident()
    courier.turn()
    assert world.row(one).state == "waiting"
    world.hours_pass(1.1)
    courier.turn()
    assert world.row(one).state == "dead"
    assert courier.standing.num_dead == 1


def test_a_silenced_incident_is_skipped_and_told_when_the_silence_ends_if_it_is_still_open(world: World) -> None:
    ear = Ear()
    courier = world.courier(ear)
    silence = world.silence(subject="rank *")
    stays, ends = world.incident("rank 1"), world.incident("rank 2")
    courier.turn()
    assert (world.row(stays).state, world.row(stays).error) == ("skipped", "silenced")
    world.clear(ends)
    world.hours_pass()
    courier.turn()
    assert ear.events == []
    world.end_silence(silence)
    world.hours_pass()
    courier.turn()
    assert [(each.event, each.stored.incident.subject) for each in ear.heard] == [("opened", "rank 1")]


def test_who_was_told_of_it_is_told_that_it_is_over_though_it_is_silenced_now(world: World) -> None:
    ear = Ear()
    courier = world.courier(ear)
    one = world.incident()
    courier.turn()
    world.silence()
    world.change(one, severity="critical")
    world.hours_pass()
    courier.turn()
    assert ear.events == ["opened"]
    world.clear(one)
    courier.turn()
    assert ear.events == ["opened", "cleared"]


@pytest.mark.parametrize(
    ("origin", "notify", "expected"),
    [
        ("live", False, ["opened"]),
        ("replay", True, []),
        ("rehearsal", False, []),
        ("rehearsal", True, ["opened"]),
    ],
)
def test_only_live_runs_page_anybody_unless_rehearsals_are_to(
    world: World, origin: str, notify: bool, expected: list[str]
) -> None:
    ear = Ear()
    courier = world.courier(ear, notify_rehearsals=notify)
    world.incident(origin=origin)
    courier.turn()
    assert ear.events == expected


def test_a_webhook_is_told_of_changes_at_most_once_a_minute(world: World) -> None:
    ear = Ear()
    courier = world.courier(ear)
    one = world.incident()
    courier.turn()
    one = world.change(one, summary="21 % slower")
    courier.turn()
    one = world.change(one, summary="22 % slower")
    courier.turn()
    assert ear.events == ["opened"]
    world.hours_pass(0.02)
    courier.turn()
    world.hours_pass(0.02)
    courier.turn()
    assert [each.stored.incident.summary for each in ear.heard[1:]] == ["22 % slower"]


def test_a_graver_severity_reaches_who_was_not_told_before_and_who_was(world: World) -> None:
    all_of_it, critical = Ear(), Ear()
    couriers = [
        world.courier(all_of_it, config("slack", "all")),
        world.courier(critical, config("slack", "critical", min_severity="critical")),
    ]
    one = world.incident()
    for courier in couriers:
        courier.turn()
    world.change(one, severity="critical")
    for courier in couriers:
        courier.turn()
    assert (all_of_it.events, critical.events) == (["opened", "updated"], ["opened"])


def test_an_alert_is_said_again_while_it_is_open(world: World) -> None:
    ear = Ear()
    courier = world.courier(ear, config("alertmanager"))
    one = world.incident()
    courier.turn()
    for _ in range(2):
        world.hours_pass(0.02)
        courier.turn()
    world.clear(one)
    courier.turn()
    world.hours_pass()
    courier.turn()
    assert ear.events == ["opened", "updated", "updated", "cleared"]


def test_a_sink_of_one_tenant_hears_nothing_of_another(world: World) -> None:
    with world.database.write() as connection:
        connection.execute(insert(tenants).values(tenant_id=2, name="research"))
    ear = Ear()
    courier = world.courier(ear, config(tenant="research"))
    one = world.incident()
    courier.turn()
    assert (ear.events, world.row(one).error) == ([], "of another tenant")


def test_a_sink_that_is_defective_in_one_message_goes_on_with_the_next(world: World, caplog: object) -> None:
    class Defective(Ear):
        def tell(self, telling: Telling) -> str | None:
            if telling.stored.incident.subject == "rank 1":
                raise KeyError("oops")
            return super().tell(telling)

    ear = Defective()
    courier = world.courier(ear)
    one = world.incident("rank 1")
    world.incident("rank 2")
    courier.turn()
    assert (ear.events, world.row(one).state) == (["opened"], "dead")


def test_what_was_over_long_before_it_could_be_told_is_left_to_grafana(world: World) -> None:
    pager, board = Ear(), Ear()
    couriers = [world.courier(pager, config("slack", "p")), world.courier(board, config("grafana", "g"))]
    world.incident(ago_s=9000, cleared_us=world.began_us - 8000 * S)
    for courier in couriers:
        courier.turn()
    assert (pager.events, board.events) == ([], ["cleared"])


def test_many_changes_at_once_are_all_noted(world: World) -> None:
    ear = Ear()
    courier = world.courier(ear, config(min_severity="critical"))
    for number in range(620):
        world.incident(f"rank {number}")
    courier.turn()
    assert world.num_rows() == 620
    assert courier.tally.skipped == 620
