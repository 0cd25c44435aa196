"""Spikes, NaN in the open and hidden, and norms: found once each, and nothing else is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from detect_streams import RUN, T0, found, losses, noisy_loss
from tachograph_agent.events import CheckpointSaved, Rollback, RunStart
from tachograph_collector.detect.settings import settings_from


def test_spikes_of_0_6_are_found_at_once_and_no_other_is():
    rng = np.random.default_rng(5)
    num_found = 0
    for seed in range(40):
        values = noisy_loss(600, seed=seed, heavy=bool(seed % 2)) - 1.0
        at, length = int(rng.integers(150, 500)), int(rng.integers(1, 30))
        values[at : at + length] += 0.6
        incidents = found(losses(values))
        assert len(incidents) <= 1
        num_found += any(at + 1 <= one.evidence.more["first_step"] <= at + 3 for one in incidents)
    assert num_found >= 38


@pytest.mark.parametrize("heavy", [False, True])
def test_50000_steps_of_noise_give_at_most_one_false_spike(heavy):
    assert len(found(losses(noisy_loss(50_000, heavy=heavy)))) <= 1


@pytest.mark.parametrize("seed", [101, 102])
def test_heavy_tails_of_noise_that_exceed_a_fifth_of_the_loss_give_at_most_one_false_spike(seed):
    values = noisy_loss(50_000, scale=0.04, seed=seed, heavy=True)
    lone = [place for place in range(1_000, 50_000) if values[place] > 1.25 * np.median(values[place - 64 : place])]
    assert len(lone) >= 4
    assert len(found(losses(values))) <= 1


def test_after_heavy_tailed_noise_a_spike_of_two_steps_is_found_at_its_second():
    values = noisy_loss(6_000, scale=0.04, heavy=True) + 0.5
    values[5_000:5_002] += 0.9
    spikes = [one for one in found(losses(values)) if one.detector == "loss_spike"]
    assert [one.evidence.more["first_step"] for one in spikes] == [5_001]
    assert spikes[0].found_us == round((T0 + 2.0 * 5_002) * 1e6)


def test_gaussian_noise_hides_no_lone_spike_however_long_it_was_learnt_from():
    values = noisy_loss(6_000) + 0.5
    values[5_000] += 0.8
    (spike,) = found(losses(values))
    assert spike.evidence.more["first_step"] == 5_001


def test_a_second_spike_soon_after_a_first_is_a_second_incident():
    values = noisy_loss(500)
    values[300:310] += 3.0
    values[325:330] += 3.0
    first, second = found(losses(values))
    assert [one.outcome for one in (first, second)] == ["recovered", "recovered"]
    assert (first.evidence.more["first_step"], second.evidence.more["first_step"]) == (301, 326)


def test_a_spike_of_few_records_is_one_spike():
    values = [2.20, 2.22, 2.60, 2.24, 2.34, 5.10, 3.50, 3.20, 2.80, 2.21, 2.22, 2.2, 2.21, 2.22]
    (incident,) = found(losses(values, step_s=100.0))
    assert (incident.detector, incident.severity, incident.outcome) == ("loss_spike", "critical", "recovered")
    assert incident.evidence.value == 5.10


def test_a_loss_that_doubles_is_critical_and_one_that_stays_has_diverged():
    values = noisy_loss(1200)
    values[300:] += 5.0
    (incident,) = found(losses(values))
    assert (incident.severity, incident.outcome) == ("critical", "diverged")
    assert "diverged" in incident.summary
    assert incident.opened_us == round((T0 + 2.0 * 301) * 1e6)


def test_a_spike_says_where_to_go_back_to_what_that_costs_and_which_batches_to_skip():
    values = noisy_loss(500)
    values[400:420] += 3.0
    saves = [
        CheckpointSaved(t=T0 + 2.0 * step + 0.5, run=RUN, attempt=0, rank=0, step=step, dur=0.4)
        for step in (100, 250, 350)
    ]
    events = [RunStart(t=T0, run=RUN, world_size=64), *losses(values), *saves]
    (incident,) = found(events)
    more = incident.evidence.more
    assert (more["go_back_to_step"], more["skip_from_step"]) == (250, 251)
    assert 401 <= more["skip_to_step"] <= 420
    assert more["go_back_cost_gpu_hours"] == pytest.approx(more["go_back_cost_s"] * 64 / 3600)
    assert "checkpoint of step 250" in incident.advice


def test_a_checkpoint_that_was_deleted_or_only_local_is_not_advised():
    values = noisy_loss(500)
    values[400:420] += 3.0
    local = CheckpointSaved(t=T0 + 500, run=RUN, attempt=0, rank=0, step=240, dur=0.4, tier="local")
    (incident,) = found([*losses(values), local])
    assert incident.evidence.more["go_back_to_step"] is None


@pytest.mark.parametrize("back", ["resume", "rollback"])
def test_going_back_makes_the_loss_rise_lawfully(back):
    early = 8.0 * np.exp(-np.arange(500) / 100) + 1.0
    if back == "resume":
        events = losses(early) + losses(early[50:], attempt=1, first_step=51, t0=T0 + 1100)
    else:
        events = [
            *losses(early),
            Rollback(t=T0 + 1001, run=RUN, attempt=0, to_step=50, reason="operator"),
            *losses(early[50:], first_step=51, t0=T0 + 1001),
        ]
    assert found(events) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_critical_at_once(bad):
    values = noisy_loss(300)
    values[200:] = bad
    (incident,) = found(losses(values))
    assert (incident.detector, incident.severity, incident.cleared_us) == ("nan", "critical", None)
    assert incident.found_us == incident.opened_us == round((T0 + 2.0 * 201) * 1e6)
    assert incident.evidence.more["poisoned_s"] > 100


def hidden(kind):
    values, norms = list(noisy_loss(300)), [1.0 + 0.01 * (place % 7) for place in range(300)]
    for place in range(200, 300):
        if kind == "missing":
            values[place] = None
        elif kind == "identical":
            values[place] = values[200]
        else:
            values[place], norms[place] = 0.0, math.nan if kind == "zero" else None
    return losses(values, norms=norms)


@pytest.mark.parametrize("kind", ["missing", "identical", "zero", "zero and a norm that a log wrote as null"])
def test_a_hidden_nan_is_found_within_a_few_records(kind):
    incidents = [one for one in found(hidden(kind)) if one.detector == "nan"]
    assert [(one.severity, one.evidence.more["is_hidden"]) for one in incidents] == [("critical", "yes")]
    assert incidents[0].found_us <= round((T0 + 2.0 * 206) * 1e6)
    assert incidents[0].opened_us <= round((T0 + 2.0 * 201) * 1e6)


def test_a_loss_that_comes_with_each_tenth_record_is_not_missing():
    values = [value if place % 10 == 9 else None for place, value in enumerate(noisy_loss(400))]
    assert found(losses(values)) == []


def test_a_constant_loss_from_the_beginning_is_no_hidden_nan():
    assert found(losses([0.5] * 100)) == []


def test_steps_that_loss_scaling_skips_now_and_then_are_normal_and_many_are_not():
    norms = [math.nan if place in (100, 130, 200, 201) else 1.0 for place in range(300)]
    assert found(losses(noisy_loss(300), norms=norms)) == []
    norms = [math.nan if 200 <= place < 204 else 1.0 for place in range(300)]
    (incident,) = found(losses(noisy_loss(300), norms=norms))
    assert (incident.detector, incident.severity, incident.outcome) == ("skipped_steps", "warning", "recovered")


@pytest.mark.parametrize(("norm", "word"), [(250.0, "exploded"), (1e-9, "vanished")])
def test_norms_a_hundred_times_the_median_or_vanished_are_a_warning(norm, word):
    norms = [norm if place == 200 else 1.0 for place in range(300)]
    (incident,) = found(losses(noisy_loss(300), norms=norms))
    assert (incident.detector, incident.severity) == ("grad_norm", "warning")
    assert word in incident.summary


def test_a_loss_that_goes_below_zero_is_judged_on_its_own_scale():
    values = -2.0 + 0.02 * np.random.default_rng(1).standard_normal(400)
    assert found(losses(values)) == []
    values[300:310] += 2.0
    assert [one.detector for one in found(losses(values))] == ["loss_spike"]


def test_a_model_that_is_nan_from_its_first_step_is_one_incident():
    said = found(losses([0.0] * 120, norms=[math.nan] * 120))
    assert [(one.detector, one.severity) for one in said] == [("nan", "critical")]


def test_nan_names_the_newest_checkpoint_that_landed_before_it():
    values = [2.0 + 0.01 * (place % 7) for place in range(100)] + [math.nan] * 20
    saves = [CheckpointSaved(t=T0 + 2 * step + 0.5, run=RUN, attempt=0, rank=0, step=step) for step in (40, 80, 110)]
    (said,) = found([*losses(values), *saves])
    assert said.advice is not None
    assert "go back to the checkpoint of step 80" in said.advice


@pytest.mark.parametrize("kind", ["nan", "missing", "identical", "zero"])
def test_while_a_model_stays_nan_no_checkpoint_of_it_is_advised_and_where_it_began_is_told(kind):
    if kind == "nan":
        values = noisy_loss(300)
        values[200:] = math.nan
        told = losses(values)
    else:
        told = hidden(kind)
    saves = [
        CheckpointSaved(t=T0 + 2 * step + 0.5, run=RUN, attempt=0, rank=0, step=step) for step in range(40, 300, 50)
    ]
    (said,) = [one for one in found([*told, *saves]) if one.detector == "nan"]
    assert said.updated_us - said.opened_us > 150_000_000  # renewed long after the dead model was saved, too
    assert "go back to the checkpoint of step 190, which landed before it" in said.advice
    assert said.summary.partition(":")[0].endswith("since step 201")
    assert said.evidence.more["first_step"] == 201


def test_going_back_is_told_in_a_unit_that_fits():
    values = noisy_loss(500)
    values[400:420] += 3.0
    saves = [CheckpointSaved(t=T0 + 0.05 * 290 + 0.01, run=RUN, attempt=0, rank=0, step=290, dur=0.01)]
    events = [RunStart(t=T0, run=RUN, world_size=64), *losses(values, step_s=0.05), *saves]
    (incident,) = found(events, settings_from({"common": {"warmup_s": 1, "settle_s": 0}}))
    assert "which does 6.5 s of work again" in incident.advice
