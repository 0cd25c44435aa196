"""Silent corruption is suspected by four signs, each with what looks like it and is none."""

from __future__ import annotations

import numpy as np
import pytest
from detect_streams import RUN, T0, found, live, losses, noisy_loss
from tachograph_agent.events import AttemptStart, Health, Rollback, RunStart, Step
from tachograph_collector.detect import Detectors

GPU = "0000:3b:00"


def suspected(events):
    return [one for one in found(events) if one.detector == "silent_corruption"]


def replayed(difference, *, deterministic=True, rank=0, world_size=16, noise=0.0, at=60, until=61, num=100):
    """200 steps, of which the second hundred are done again; of those ``at`` to ``until`` with another loss."""
    first = noisy_loss(200)
    again = first[100:].copy() + noise * np.random.default_rng(5).standard_normal(100)
    again[at:until] += difference
    events = losses(list(first)) + losses(list(again[:num]), first_step=101, attempt=1, t0=T0 + 500)
    for one in events:
        one.node = "n0" if one.attempt == 0 else "n7"
        if one.attempt == 1:
            one.rank = rank
    labels = {"deterministic": True} if deterministic else None
    return [
        RunStart(t=T0, run=RUN, world_size=16, labels=labels),
        *events,
        AttemptStart(t=T0 + 500, run=RUN, attempt=1, resume_step=100, world_size=world_size),
    ]


def test_a_deterministic_run_that_does_a_step_again_with_another_loss_is_suspect():
    (incident,) = suspected(replayed(1e-4))
    assert (incident.subject, incident.severity, incident.is_replayed) == ("run", "warning", True)
    assert "suspected" in incident.summary
    assert "step 161 was done again with another loss" in incident.summary
    assert incident.evidence.more["step"] == 161
    assert incident.evidence.more["nodes_left"] == "n0"
    assert incident.evidence.more["nodes_came"] == "n7"
    assert "go back to a checkpoint from before" in incident.advice


def test_the_same_loss_again_is_none_and_neither_is_a_difference_of_a_millionth():
    assert suspected(replayed(0.0)) == []
    assert suspected(replayed(1e-7, until=100)) == []


def test_elsewhere_a_difference_is_held_against_the_runs_own():
    assert suspected(replayed(0.001, deterministic=False, noise=0.001)) == []
    (incident,) = suspected(replayed(0.05, deterministic=False, noise=0.001))
    assert incident.evidence.threshold < 0.02
    assert "usually by less than" in incident.summary


def test_nothing_is_said_before_it_is_known_by_how_much_losses_differ():
    assert suspected(replayed(0.05, deterministic=False, noise=0.001, at=10, until=11)) == []


def test_steps_of_another_world_size_or_another_ranks_loss_are_not_compared():
    assert suspected(replayed(0.5, world_size=8)) == []
    assert suspected(replayed(0.5, rank=1)) == []


def rolled_back(reason):
    first = list(noisy_loss(200))
    again = [value + 0.01 for value in first[100:]]
    return [
        RunStart(t=T0, run=RUN, world_size=16, labels={"deterministic": "yes"}),
        *losses(first),
        Rollback(t=T0 + 410, run=RUN, attempt=0, to_step=100, reason=reason),
        *losses(again, first_step=101, t0=T0 + 420),
    ]


def test_after_a_rollback_that_may_skip_batches_losses_may_differ():
    assert suspected(rolled_back("loss_spike")) == []
    assert len(suspected(rolled_back("sdc"))) == 1


def test_it_is_over_when_all_steps_were_done_again():
    events = replayed(1e-4) + losses(list(noisy_loss(20)), first_step=201, attempt=1, t0=T0 + 700)
    for one in events[-20:]:
        one.node = "n7"
    (incident,) = suspected(events)
    assert incident.outcome == "all steps were done again"


def test_a_node_whose_memory_has_shown_an_error_is_the_suspect():
    told = Health(t=T0 + 300, run=RUN, node="n0", check="xid", gpu=GPU, value=94, severity="warning")
    (incident,) = suspected([*replayed(1e-4), told])
    assert incident.node == "n0"
    assert incident.evidence.more["suspects"] == "n0"


def checksums(values, *, step=100, at_s=250.0, group=None):
    extra = {"step": step} | ({} if group is None else {"group": group})
    return [
        Health(
            t=T0 + at_s + 0.1 * rank,
            run=RUN,
            node=f"n{rank // 2}",
            rank=rank,
            check="checksum",
            value=value,
            severity="info",
            unknown_fields=extra,
        )
        for rank, value in enumerate(values)
    ]


BASE = losses(list(noisy_loss(300)))


def test_a_replica_whose_checksum_is_in_the_minority_is_suspect():
    (incident,) = suspected([*BASE, *checksums(["aa", "aa", "bb", "aa"])])
    assert (incident.subject, incident.rank, incident.node, incident.severity) == ("rank 2", 2, "n1", "critical")
    assert incident.evidence.num_samples == 4
    assert incident.found_us == round((T0 + 310) * 1e6)


def test_replicas_that_agree_and_groups_that_differ_are_none():
    assert suspected([*BASE, *checksums(["aa"] * 4)]) == []
    assert suspected([*BASE, *checksums(["aa"] * 4, group="dp0"), *checksums(["bb"] * 4, group="dp1", at_s=251)]) == []
    assert suspected([*BASE, *checksums(["aa"] * 4), *checksums(["bb"] * 4, step=200, at_s=450)]) == []
    assert suspected([*BASE, *checksums(["aa"])]) == []


def test_where_no_checksum_has_a_majority_no_replica_is_named():
    (incident,) = suspected([*BASE, *checksums(["aa", "bb"])])
    assert (incident.subject, incident.rank) == ("run", None)


def test_a_replica_whose_checksum_agrees_again_is_cleared():
    told = [*checksums(["aa", "aa", "bb", "aa"]), *checksums(["cc"] * 4, step=200, at_s=450)]
    (incident,) = suspected([*BASE, *told])
    assert incident.outcome == "its checksum agrees again"


def norms(num_steps=400, *, num_ranks=8, wild=(), factor=20.0, scale=None, all_of=()):
    """Each rank tells its own norm; ``wild`` are pairs of rank and step whose norm is ``factor`` times as large."""
    rng = np.random.default_rng(3)
    events = [RunStart(t=T0, run=RUN, world_size=num_ranks)]
    for step in range(1, num_steps + 1):
        common = np.exp(0.3 * rng.standard_normal())
        for rank in range(num_ranks):
            norm = common * np.exp(0.1 * rng.standard_normal()) * (1.0 if scale is None else scale(rank))
            if (rank, step) in wild or step in all_of:
                norm *= factor
            events.append(
                Step(
                    t=T0 + 5 * step + 1e-3 * rank,
                    run=RUN,
                    attempt=0,
                    rank=rank,
                    node=f"n{rank // 2}",
                    step=step,
                    dur=5.0,
                    grad_norm=float(norm),
                )
            )
    return events


def test_a_rank_whose_norm_is_out_of_line_three_times_a_day_is_suspect():
    (incident,) = suspected(norms(wild={(5, 100), (5, 200), (5, 300)}))
    assert (incident.subject, incident.rank, incident.node) == ("rank 5", 5, "n2")
    assert incident.evidence.more["steps"] == [100, 200, 300]
    assert incident.opened_us == round((T0 + 500 + 0.005) * 1e6)


def test_a_norm_that_is_no_number_while_the_others_are_is_out_of_line():
    events = norms()
    for one in events:
        if isinstance(one, Step) and one.rank == 5 and one.step in (100, 200, 300):
            one.grad_norm = float("nan")
    assert [one.subject for one in suspected(events)] == ["rank 5"]


def test_twice_or_three_different_ranks_or_all_together_are_none():
    assert suspected(norms(wild={(5, 100), (5, 200)})) == []
    assert suspected(norms(wild={(5, 100), (6, 200), (7, 300)})) == []
    assert suspected(norms(all_of={100, 200, 300, 350})) == []


def test_a_rank_whose_norm_is_always_another_is_in_line():
    assert suspected(norms(scale=lambda rank: 10.0 if rank == 3 else 1.0)) == []
    assert suspected(norms(num_ranks=2, wild={(1, 100), (1, 200), (1, 300)})) == []


def spiky(xid_number, *, before_s=60.0, height=6.0):
    """A spike at step 200, 400 s after the start, and an Xid so long before it."""
    values = noisy_loss(300)
    values[200:210] += height
    return [
        RunStart(t=T0, run=RUN, world_size=16),
        *losses(list(values)),
        Health(t=T0 + 400 - before_s, run=RUN, node="n3", check="xid", gpu=GPU, value=xid_number, severity="warning"),
    ]


@pytest.mark.parametrize("number", [48, 63, 64, 92, 94, 95])
def test_a_critical_spike_just_after_an_xid_of_a_gpus_memory_is_suspect(number):
    (incident,) = suspected(spiky(number))
    assert (incident.subject, incident.node, incident.severity) == ("node n3", "n3", "warning")
    assert incident.evidence.more["xids"] == [number]
    assert incident.outcome == "the loss came back"


def test_other_xids_other_times_and_small_spikes_are_none():
    assert suspected(spiky(79)) == []
    assert suspected(spiky(31)) == []
    assert suspected(spiky(94, before_s=-60)) == []
    assert suspected(spiky(94, before_s=-10)) == [], "the spike was first, and goes on"
    assert suspected(spiky(94, height=0.8)) == []
    late = [one for one in spiky(94, before_s=60) if not isinstance(one, Health)]
    early = Health(t=T0 - 250, run=RUN, node="n3", check="xid", gpu=GPU, value=94, severity="warning")
    assert suspected([*late, early]) == []


@pytest.mark.parametrize(
    "events",
    [
        replayed(1e-4),
        replayed(0.05, deterministic=False, noise=0.001),
        [*BASE, *checksums(["aa", "aa", "bb", "aa"])],
        norms(wild={(5, 100), (5, 200), (5, 300)}),
        spiky(94),
    ],
)
def test_live_and_over_restarts_the_same_is_suspected(events):
    def opened(changes):
        return sorted(
            (one.incident.subject, one.incident.opened_us, one.incident.found_us)
            for one in changes
            if one.what == "opened" and one.incident.detector == "silent_corruption"
        )

    expected = sorted((one.subject, one.opened_us, one.found_us) for one in suspected(events))
    assert len(expected) == 1
    assert opened(live(events, 7.0)) == expected
    assert opened(live(events, 7.0, restart_every=1)) == expected


def test_healthy_heavy_tailed_norms_of_many_ranks_are_in_line():
    rng = np.random.default_rng(7)
    events = [RunStart(t=T0, run=RUN, world_size=64)]
    for step in range(1, 301):
        noise = 0.1 * rng.standard_t(4, 64)
        events += [
            Step(
                t=T0 + 5 * step, run=RUN, attempt=0, rank=rank, step=step, dur=5.0, grad_norm=float(np.exp(noise[rank]))
            )
            for rank in range(64)
        ]
    detectors = Detectors()
    detectors.add(events)
    detectors.look()
    assert [one for one in detectors.incidents() if one.detector == "silent_corruption"] == []
