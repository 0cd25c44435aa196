"""The records behind the books: attempts, interruptions and anomalies, field by field.

Steps take 2 s; times in a record are turned into seconds after the run's first.
"""

from __future__ import annotations

from typing import Any

import pytest
from ledger_oracle.build import T0_US, Log
from tachograph_collector.ledger import AttemptRecord, Details, Interruption, Ledger

SECOND = 1_000_000


def details(log: Log, now: float | None = None) -> Details:
    ledger = Ledger()
    ledger.add(log.events)
    return ledger.details(log.run, None if now is None else T0_US + round(now * 1e6))


def interruptions(log: Log) -> list[Interruption]:
    return details(log).interruptions


def at(us: int | None) -> float | None:
    return None if us is None else (us - T0_US) / SECOND


def saved() -> Log:
    """Five steps from 10 to 20, a save to 25, five steps more to 35."""
    return Log().start(0).up(0, resume=0, world_size=8).steps(10, 1, 5).save(5, 20, 25).steps(25, 6, 10)


# ---- attempts


def test_record_of_an_attempt() -> None:
    log = saved().failure(37, "network").as_attempt("b").up(50, resume=5).steps(60, 6, 8).end(70)
    first, second = details(log).attempts
    assert first == AttemptRecord(
        index=0,
        name="0",
        start_us=T0_US,
        end_us=T0_US + 37 * SECOND,
        how="failure",
        world_size=8,
        resume_step=0,
        told_resume_step=0,
        first_step=1,
        last_step=10,
        category="network",
        kept_us=10 * SECOND,
        lost_us=12 * SECOND,
    )
    assert (second.name, second.how, second.resume_step, second.first_step, second.last_step) == (
        "b", "completed", 5, 6, 8,
    )  # fmt: skip
    assert (second.category, second.kept_us, second.lost_us, second.world_size) == (None, 6 * SECOND, 0, None)


def test_attempt_that_never_stepped_has_no_steps() -> None:
    log = saved().failure(35).as_attempt(1).up(50, resume=5).failure(60, "storage").as_attempt(2).up(70, resume=10)
    record = details(log.steps(80, 11, 12).end(84)).attempts[1]
    assert (record.how, record.category, record.first_step, record.last_step) == ("failure", "storage", None, None)
    assert (record.resume_step, record.told_resume_step) == (None, 5)


def test_attempts_count_their_own_kept_and_lost_time() -> None:
    log = saved().failure(35).as_attempt(1).up(50, resume=7).steps(60, 8, 9).end(64)
    found = details(log)
    assert [(a.kept_us // SECOND, a.lost_us // SECOND) for a in found.attempts] == [(14, 6), (4, 0)]


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_last_attempt_ended_as_its_run(status: str) -> None:
    assert details(saved().end(40, status)).attempts[0].how == status


def test_attempt_of_a_run_that_goes_on_is_running() -> None:
    assert details(saved(), now=40).attempts[0].how == "running"


def test_attempt_of_an_abandoned_run_failed() -> None:
    assert details(saved(), now=35 + 6 * 3600 + 1).attempts[0].how == "failure"


# ---- interruptions


def test_record_of_a_failure() -> None:
    log = saved().failure(45, "gpu", node="n7", rank=3, detail="fell off the bus", inferred=True)
    log.as_attempt(1).up(80, resume=5).steps(95, 6, 7).end(110)
    (stop,) = interruptions(log)
    assert stop == Interruption(
        attempt=0,
        how="failure",
        at_us=T0_US + 35 * SECOND,
        category="gpu",
        node="n7",
        rank=3,
        detail="fell off the bus",
        resumed_at_us=T0_US + 95 * SECOND,
        resume_step=5,
        last_step=10,
        lost_us=12 * SECOND,  # steps 6 to 10, and one in flight
        restart_us=58 * SECOND,
        phases_us={"detect": 8 * SECOND, "replace": 35 * SECOND, "reload": 15 * SECOND},
        inferred=True,
    )


def test_record_of_a_planned_stop_says_why() -> None:
    log = saved().stop(40, reason="maintenance").as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(80)
    (stop,) = interruptions(log)
    assert (stop.how, stop.category, stop.detail) == ("planned", None, "maintenance")
    assert (stop.lost_us, stop.restart_us) == (0, 35 * SECOND)
    assert stop.inferred is False


def test_record_of_a_stop_without_a_word() -> None:
    log = saved().as_attempt(1).up(60, resume=10).steps(70, 11, 12).end(80)
    (stop,) = interruptions(log)
    assert (stop.how, stop.category, stop.detail) == ("unexplained", None, None)
    assert (stop.last_step, stop.resume_step) == (10, 10)


def test_failure_that_nobody_names_is_of_unknown_category() -> None:
    log = saved().as_attempt(1).up(60, resume=5).steps(70, 6, 7).end(80)
    (stop,) = interruptions(log)
    assert (stop.how, stop.category) == ("failure", "unknown")


def test_stop_that_nothing_came_after_costs_all_the_restart_to_the_end() -> None:
    (stop,) = interruptions(saved().failure(37).end(100, "failed"))
    assert (stop.resumed_at_us, stop.resume_step) == (None, None)
    assert stop.restart_us == 63 * SECOND


def test_stop_is_not_charged_for_what_comes_after_the_resumption() -> None:
    log = saved().failure(37).as_attempt(1).up(60, resume=10).steps(70, 11, 12).stop(90).as_attempt(2)
    log.up(100, resume=12).steps(120, 13, 14).end(130)
    first, second = interruptions(log)
    assert (first.restart_us, second.restart_us) == (33 * SECOND, (120 - 74) * SECOND)


def test_restart_of_a_stop_counts_from_the_last_work() -> None:
    # a stall before the last record is restart of the run, and none of the stop's
    log = Log().start(0).up(0, resume=0).steps(10, 1, 5).step(70, 6).failure(70)
    log.as_attempt(1).up(80, resume=6).steps(90, 7, 8).end(94)
    (stop,) = interruptions(log)
    assert stop.restart_us == 20 * SECOND


def test_record_of_a_rollback() -> None:
    log = saved().rollback(40, 5, "nan").steps(46, 6, 10).end(56)
    (stop,) = interruptions(log)
    assert stop == Interruption(
        attempt=0,
        how="rollback",
        at_us=T0_US + 40 * SECOND,
        category="nan",
        node=None,
        rank=None,
        detail=None,
        resumed_at_us=T0_US + 46 * SECOND,
        resume_step=5,
        last_step=10,
        lost_us=12 * SECOND,
        restart_us=9 * SECOND,
        phases_us={"detect": 3 * SECOND, "reload": 6 * SECOND},
    )


def test_rollback_that_nothing_came_after_goes_on_from_where_it_says() -> None:
    (stop,) = interruptions(saved().rollback(40, 5))
    assert (stop.resumed_at_us, stop.resume_step) == (None, 5)


def test_each_of_several_rollbacks_is_charged_for_what_it_lost() -> None:
    log = saved().rollback(35, 7).steps(35, 8, 9).rollback(39, 5, "sdc").steps(39, 6, 10).end(49, "completed")
    first, second = interruptions(log)
    assert (first.lost_us, second.lost_us) == (6 * SECOND, (4 + 4) * SECOND)
    assert (first.last_step, second.last_step) == (10, 9)


def test_failure_after_a_rollback_is_charged_for_what_it_lost() -> None:
    log = saved().rollback(35, 7).steps(35, 8, 9).failure(39).as_attempt(1).up(50, resume=8).steps(60, 9, 10).end(64)
    back, stop = interruptions(log)
    assert (back.how, back.lost_us, stop.how, stop.lost_us) == ("rollback", 6 * SECOND, "failure", 2 * SECOND)


def test_rollback_before_any_step_knows_the_step_that_was_saved() -> None:
    log = Log().start(0).up(0, resume=None).save(7, 10, 12).rollback(20, 3).steps(30, 4, 5).end(34)
    (back,) = interruptions(log)
    assert back.last_step == 7


def test_lost_time_names_the_interruption_behind_it() -> None:
    log = saved().rollback(35, 7).steps(35, 8, 9).failure(39).as_attempt(1).up(50, resume=8).steps(60, 9, 10).end(64)
    lost = [(at(s.start_us), s.by) for s in details(log).segments if s.account == "lost"]
    assert lost == [(29, (0, 0)), (37, (0, 1))]


# ---- anomalies


def kinds(log: Log) -> list[tuple[str, Any]]:
    return [(anomaly.kind, at(anomaly.at_us)) for anomaly in details(log).anomalies]


def test_resume_step_that_is_not_believed_is_an_anomaly_that_says_both() -> None:
    log = saved().failure(35).as_attempt(1).up(50, resume=0).steps(50, 11, 15).end(60)
    (anomaly,) = details(log).anomalies
    assert (anomaly.kind, at(anomaly.at_us)) == ("resume_step_not_believed", 50)
    assert anomaly.detail == (
        "attempt 1: the resume step told is 0, but its first record, step 11, works on from step 10; "
        "the record is believed"
    )


def test_rollback_that_is_not_believed_is_an_anomaly() -> None:
    log = saved().rollback(35, 8).steps(35, 6, 9).end(43)
    (anomaly,) = details(log).anomalies
    assert anomaly.detail.startswith("attempt 0: the rollback's step told is 8, but its first record, step 6,")


def test_attempts_that_overlap_are_an_anomaly() -> None:
    log = saved().as_attempt(1).up(34, resume=10).steps(34, 11, 15).end(44)
    assert kinds(log) == [("attempts_overlap", 34)]
    assert "1.000 s" in details(log).anomalies[0].detail


def test_attempt_that_begins_as_the_last_step_ends_is_no_anomaly() -> None:
    log = saved().as_attempt(1).up(35, resume=10).steps(35, 11, 15).end(45)
    assert kinds(log) == []


def test_log_that_adds_up_has_no_anomalies() -> None:
    log = saved().failure(35).as_attempt(1).up(50, resume=5).steps(60, 6, 8).end(70)
    assert kinds(log) == []


# ---- what the run's starts tell


def test_of_several_starts_the_first_that_tells_a_thing_is_believed() -> None:
    log = Log().start(0, gpus=8, labels={"team": "a"}, planned_mtbf_s=100.0).up(0, resume=0).steps(10, 1, 5)
    log.end(20, "cancelled").start(100, gpus=16, world_size=4, price_per_gpu_hour=2.5, labels={"team": "b", "tier": 1})
    log.as_attempt(1).up(100, resume=5).steps(110, 6, 7).end(114)
    ledger = Ledger()
    ledger.add(log.events)
    books = ledger.books("r")
    assert (books.world_size, books.price_per_gpu_hour, books.planned_mtbf_s) == (4, 2.5, 100.0)
    assert books.labels == {"team": "a", "tier": "1"}


def test_origin_and_plans_are_the_runs() -> None:
    ledger = Ledger()
    ledger.add(Log().start(0, origin="rehearsal", planned_interval_s=600.0).steps(0, 1, 5).end(10).events)
    books = ledger.books("r")
    assert (books.origin, books.planned_interval_s, books.planned_mtbf_s) == ("rehearsal", 600.0, None)
    assert books.checkpoints_seen is True


def test_failure_that_names_its_attempt_is_its_own_although_it_is_told_before_that_began() -> None:
    log = saved().failure(37, "gpu").as_attempt(1).failure(45, "host").up(50, resume=10).as_attempt(2)
    found = details(log.up(60, resume=10).steps(70, 11, 12).end(74)).attempts
    assert [(a.how, a.category) for a in found] == [("failure", "gpu"), ("failure", "host"), ("completed", None)]


def test_save_that_has_not_landed_before_the_first_step_is_pending() -> None:
    log = Log().start(0).up(0, resume=5).save(5, 10, 11, mode="async")
    assert [save.state for save in details(log).checkpoints] == ["pending"]


def test_each_save_stands_in_the_records_once_also_after_a_rollback() -> None:
    log = saved().rollback(36, 5).steps(36, 6, 8).save(8, 42, 43).failure(45).as_attempt(0).up(60, resume=8)
    log.steps(70, 9, 10).save(10, 74, 75)
    assert [(save.step, save.attempt) for save in details(log).checkpoints] == [(5, 0), (8, 0), (10, 1)]


def test_restart_of_a_stop_counts_from_the_last_work_also_where_the_next_attempt_had_begun() -> None:
    # attempt 1 was up a second before the last step of attempt 0 ended
    (stop,) = interruptions(saved().as_attempt(1).up(34, resume=10).steps(50, 11, 12).end(54))
    assert stop.restart_us == 15 * SECOND
