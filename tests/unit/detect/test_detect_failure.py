"""A failure that stops the run is one incident, whoever reports it; what it cost, and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from detect_streams import RUN, T0, all_found, live
from tachograph_agent.events import (
    CATEGORIES,
    AttemptEnd,
    AttemptStart,
    CheckpointSaved,
    Failure,
    FailureWithdrawn,
    Health,
    Rollback,
    RunEnd,
    RunStart,
    Step,
)
from tachograph_collector.detect import Detectors
from tachograph_collector.ledger import Ledger

STEP_S = 5.0


def steps(num, *, first=1, t0=T0, attempt=0, rank=0, step_s=STEP_S):
    return [
        Step(
            t=t0 + step_s * (place + 1),
            run=RUN,
            attempt=attempt,
            rank=rank,
            node=f"n{rank // 4}",
            step=first + place,
            dur=step_s,
        )
        for place in range(num)
    ]


def begin(attempt=0, t=T0, step=0):
    return AttemptStart(t=t, run=RUN, attempt=attempt, resume_step=step)


def fails(t, category="gpu", *, attempt=0, **more):
    return Failure(t=t, run=RUN, attempt=attempt, category=category, **more)


def stopped(*reports, resumes_after=300.0, to=60):
    """A run of 64 GPUs that saves at step 60, stops after 100 steps, and goes on from there."""
    died = T0 + 100 * STEP_S
    events = [
        RunStart(t=T0, run=RUN, world_size=64, price_per_gpu_hour=2.0),
        begin(),
        *steps(100),
        CheckpointSaved(t=T0 + 60 * STEP_S + 1e-3, run=RUN, attempt=0, rank=0, step=60, dur=1e-3),
        *[fails(died + after, category, **who) for after, category, who in reports],
    ]
    if resumes_after is not None:
        back = died + resumes_after
        events += [begin(1, back - 100, to), *steps(100, first=to + 1, t0=back, attempt=1)]
    return events


def of(incidents, detector="failure"):
    return [one for one in incidents if one.detector == detector]


REPORTS = (
    (3.0, "gpu", {"node": "n5", "rank": 21, "detail": "CUDA error: an illegal instruction"}),
    (63.0, "collective_timeout", {"node": "n0", "rank": 0}),
    (63.2, "collective_timeout", {"node": "n1", "rank": 4}),
    (63.4, "collective_timeout", {"node": "n1", "rank": 5}),
)


def test_a_failure_that_four_ranks_report_is_one_incident_and_the_first_names_it():
    (incident,) = all_found(stopped(*REPORTS))
    assert (incident.detector, incident.subject, incident.node, incident.rank) == ("failure", "run", "n5", 21)
    assert incident.summary == (
        "the run stopped: a GPU failed (CUDA error: an illegal instruction), rank 21 on n5 first; 3 more reports"
    )
    more = incident.evidence.more
    assert (more["num_ranks"], more["num_nodes"], more["ranks"]) == (4, 3, [0, 4, 5, 21])
    assert more["categories"] == "collective_timeout 3, gpu 1"
    assert more["detail"] == "CUDA error: an illegal instruction"
    assert incident.opened_us == incident.found_us == round((T0 + 503) * 1e6)


@pytest.mark.parametrize("num", [4, 16, 17, 5000])
def test_all_ranks_that_report_it_are_counted_also_where_the_log_ends_with_them(num):
    reports = [(1.0 + rank * 1e-3, "collective_timeout", {"rank": rank}) for rank in range(num)]
    (incident,) = all_found(stopped(*reports, resumes_after=None))
    assert (incident.rank, incident.evidence.value, incident.evidence.num_samples) == (0, num, num)
    assert incident.evidence.more["num_ranks"] == min(num, 4096)


def test_it_is_critical_while_the_run_is_down_and_a_warning_once_a_step_is_made():
    down = Detectors()
    down.add(stopped(*REPORTS, resumes_after=None))
    down.look(round((T0 + 900) * 1e6))
    (incident,) = down.incidents()
    assert (incident.severity, incident.cleared_us) == ("critical", None)
    assert incident.cost.wall_s == pytest.approx(40 * STEP_S + 363)  # as of when it was renewed last
    (incident,) = all_found(stopped(*REPORTS))
    assert (incident.severity, incident.outcome) == ("warning", "training resumed")
    assert incident.cleared_us == round((T0 + 800) * 1e6)  # when its first step began


def test_it_costs_the_work_that_is_done_again_and_the_time_until_then_as_the_ledger_books_them():
    events = stopped(*REPORTS)
    ledger = Ledger()
    ledger.add(events)
    (interruption,) = ledger.details(RUN).interruptions
    (incident,) = all_found(events)
    assert incident.cost.wall_s == pytest.approx((interruption.lost_us + interruption.restart_us) / 1e6, abs=1)
    assert incident.cost.wall_s == pytest.approx(40 * STEP_S + 300)
    assert incident.cost.gpu_hours == pytest.approx(500 * 64 / 3600)
    assert incident.cost.money == pytest.approx(2 * 500 * 64 / 3600)


@pytest.mark.parametrize(
    ("category", "node", "words"),
    [
        ("gpu", "n5", "drain n5"),
        ("host", None, "find the node in the first error"),
        ("network", "n5", "links of n5"),
        ("collective_timeout", "n5", "the rank that was missing"),
        ("software", "n5", "read the first error"),
        ("storage", None, "see that storage answers"),
        ("unknown", "n5", "the log of n5"),
        ("one that nobody knows", None, "the rank that ended first"),
    ],
)
def test_it_advises_what_to_do_by_what_broke_and_says_what_it_goes_back_to(category, node, words):
    (incident,) = all_found(stopped((1.0, category, {"node": node}), resumes_after=None))
    assert words in incident.advice
    assert "goes back to the checkpoint of step 60 and loses 3 min of work" in incident.advice


def test_what_was_planned_is_no_failure_nor_what_comes_of_the_notice():
    stop = AttemptEnd(t=T0 + 500, run=RUN, attempt=0, planned=True, reason="maintenance")
    assert all_found([*stopped(), stop]) == []
    notice = AttemptEnd(t=T0 + 400, run=RUN, attempt=0, planned=True, reason="preemption")
    assert all_found([*stopped(*REPORTS), notice]) == []
    long_ago = AttemptEnd(t=T0 + 10, run=RUN, attempt=0, planned=True)
    events = [*steps(400), begin(), long_ago, fails(T0 + 2003), RunEnd(t=T0 + 2010, run=RUN, status="failed")]
    assert [one.detector for one in all_found(events)] == ["failure"]


def test_an_end_that_was_not_planned_is_one_and_so_is_a_run_that_ends_as_failed():
    ended = AttemptEnd(t=T0 + 500, run=RUN, attempt=0, planned=False, reason="exit code 1")
    (incident,) = all_found([*stopped(), ended])
    assert (incident.evidence.more["category"], incident.evidence.more["detail"]) == ("unknown", "exit code 1")
    (incident,) = all_found([begin(), *steps(100), RunEnd(t=T0 + 501, run=RUN, status="failed")])
    assert (incident.severity, incident.outcome) == ("critical", "run ended")
    assert all_found([begin(), *steps(100), RunEnd(t=T0 + 501, run=RUN)]) == []


def test_an_attempt_that_ended_without_a_word_failed_if_the_next_goes_back():
    (incident,) = of(all_found(stopped()))
    assert (incident.attempt, incident.evidence.more["failed_attempt"]) == ("1", "0")
    assert incident.opened_us == round((T0 + 500) * 1e6)
    assert incident.cost.wall_s == pytest.approx(40 * STEP_S + 300)
    assert of(all_found(stopped(to=100))) == []  # it went on where it had stopped


def test_each_interruption_is_one_though_the_run_never_resumed_between():
    died = T0 + 500
    events = [
        *stopped(*REPORTS, resumes_after=None),
        begin(1, died + 100, 60),
        fails(died + 150, "storage", attempt=1, node="n2"),
        begin(2, died + 200, 60),  # nobody tells why it ended
        begin(3, died + 300, 60),
        *steps(50, first=61, t0=died + 400, attempt=3),
    ]
    incidents = of(all_found(events))
    assert [one.evidence.more["category"] for one in incidents] == ["gpu", "storage", "unknown"]
    assert [one.outcome for one in incidents] == ["the next attempt failed too"] * 2 + ["training resumed"]
    ledger = Ledger()
    ledger.add(events)
    assert [one.category for one in ledger.details(RUN).interruptions] == ["gpu", "storage", "unknown"]


def test_what_training_goes_on_after_is_withdrawn_and_late_words_of_an_attempt_that_is_over_are_none():
    (incident,) = all_found([begin(), *steps(100), fails(T0 + 251, "software", rank=3)])
    assert incident.outcome == "withdrawn: training went on"
    assert incident.cost is None
    (incident,) = all_found([*stopped(REPORTS[0]), fails(T0 + 900, "collective_timeout", rank=9)])
    assert incident.evidence.value == 1


def test_an_inferred_one_that_is_taken_back_is_withdrawn_unless_others_were_told():
    inferred = fails(T0 + 530, "heartbeat", node="n5", inferred=True)
    back = FailureWithdrawn(t=T0 + 600, run=RUN, attempt=0, node="n5", of_t=T0 + 530, reason="it worked on")
    (incident,) = all_found([*stopped(resumes_after=None), inferred, back])
    assert incident.outcome == "withdrawn: it worked on"
    others = fails(T0 + 560, "network", node="n6", rank=24)
    (incident,) = all_found([*stopped(resumes_after=None), inferred, others, back])
    assert (incident.cleared_us, incident.evidence.more["category"]) == (None, "network")


def test_it_follows_from_the_xid_of_its_node_and_else_from_the_hang_that_it_ends():
    xid = Health(t=T0 + 490, run=RUN, node="n5", check="xid", value=79, severity="critical", gpu=3)
    incidents = all_found([*stopped(*REPORTS), xid])
    assert of(incidents)[0].consequence_of == of(incidents, "xid")[0].incident_id
    hangs = all_found(stopped((1800.0, "collective_timeout", {"rank": 3}), resumes_after=3000.0))
    assert of(hangs)[0].consequence_of == of(hangs, "hang")[0].incident_id


def test_a_rollback_in_the_same_attempt_is_none():
    back = Rollback(t=T0 + 500, run=RUN, attempt=0, to_step=60, reason="loss_spike")
    again = steps(60, first=61, t0=T0 + 520)
    assert of(all_found([begin(), *steps(100), back, *again])) == []


@pytest.mark.parametrize("restart_every", [0, 7])
def test_live_tells_what_the_recording_tells_also_over_restarts(restart_every):
    events = stopped(*REPORTS)
    told = live(events, 1.0, restart_every=restart_every)
    (expected,) = all_found(events)
    assert [one.what for one in told].count("opened") == 1
    last = [one.incident for one in told if one.incident.detector == "failure"][-1]
    assert last == expected


@pytest.mark.parametrize("seed", range(60))
def test_there_are_as_many_as_the_ledger_has_interruptions_by_failure(seed):
    rng = np.random.default_rng(seed)
    t, step, newest, events = T0, 0, 0, [RunStart(t=T0, run=RUN, world_size=8), begin()]
    for attempt in range(8):
        num = int(rng.integers(0, 60))
        events += steps(num, first=step + 1, t0=t, attempt=attempt)
        t, step = t + num * STEP_S, step + num
        if rng.random() < 0.5 and num:
            newest = step
            events.append(CheckpointSaved(t=t + 0.1, run=RUN, attempt=attempt, rank=0, step=step, dur=0.1))
            t += 0.2
        how = rng.choice(["failure", "planned", "unplanned", "nothing"])
        if how == "failure":
            events += [fails(t + after, "gpu", attempt=attempt, rank=rank) for rank, after in ((2, 1.0), (3, 2.0))]
        elif how != "nothing":
            events.append(AttemptEnd(t=t + 1, run=RUN, attempt=attempt, planned=how == "planned"))
        t, step = t + 90, newest
        events.append(begin(attempt + 1, t, newest))
    events += steps(5, first=step + 1, t0=t + 30, attempt=8)
    ledger = Ledger()
    ledger.add(events)
    expected = [one for one in ledger.details(RUN).interruptions if one.how == "failure"]
    incidents = of(all_found(events))
    assert len(incidents) == len(expected)
    for incident, interruption in zip(incidents, expected, strict=True):
        assert incident.evidence.more["category"] == interruption.category
        assert incident.rank == interruption.rank


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_category_is_told_in_words_and_of_a_long_report_the_first_line(category):
    (incident,) = all_found(stopped((1.0, category, {"rank": 3, "detail": "first line\n" + "x" * 500})))
    assert incident.summary.startswith("the run stopped: ")
    assert incident.summary.endswith(" (first line), rank 3 first")
    assert "_" not in incident.summary
    (incident,) = all_found(stopped((1.0, category, {"rank": 3, "detail": "y" * 500})))
    assert len(incident.summary) < 200


def test_what_failed_before_any_checkpoint_starts_from_scratch():
    (incident,) = all_found(stopped((1.0, "gpu", {"node": "n5"}), to=0))
    assert incident.advice.endswith("it starts from scratch, and loses 8 min of work")


def test_an_attempt_whose_failure_has_the_time_of_its_start_failed_once():
    events = [fails(T0, "unknown"), begin(0, T0), begin(1, T0)]
    assert [one.evidence.more["failed_attempt"] for one in all_found(events)] == ["0"]
