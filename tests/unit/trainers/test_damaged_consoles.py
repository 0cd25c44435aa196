"""Consoles and launchers' events, damaged at random: no exception, no event that can't be kept, no run from nothing."""

from __future__ import annotations

import random

import damaged_logs
import pytest
import samples_b
import samples_tables
from adapter_runs import steps
from samples_consoles import MMCV, SAMPLES
from tachograph_agent.events import RunStart, decode, encode
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.base import Context

LENDERS = [*SAMPLES.values(), MMCV, samples_b.NANOGPT, samples_b.TORCHTITAN]
LAST_RESORTS = {"key-value", "failures"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_log_gives_events_that_can_be_kept_and_never_more_steps_than_lines(name: str) -> None:
    adapter = registry.adapters()[name]
    for text in damaged_logs.damaged(LENDERS, list(SAMPLES).index(name), damaged_logs.NUM_DAMAGED):
        lines = text.replace("\r", "\n").split("\n")
        assert 0.0 <= adapter.sniff(text) <= 1.0
        events = list(adapter.read(lines, Context(run="r7")))
        assert len(steps(events)) <= 2 * len(lines)  # a viewer's warning names two, MPI glues more than one
        if steps(events):
            assert any(isinstance(event, RunStart) for event in events)
        for event in events:
            assert decode(encode(event)).kind == event.kind


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_and_shuffled_letters_of_it_are_not(name: str) -> None:
    choose = random.Random(7)
    assert registry.recognise(SAMPLES[name].encode()) == name
    for _ in range(10):
        letters = list(SAMPLES[name])
        choose.shuffle(letters)
        assert registry.recognise("".join(letters).encode()) is None


@pytest.mark.parametrize("name", SAMPLES)
def test_no_reader_is_sure_of_anothers_log(name: str) -> None:
    others = {
        **{other: text for other, text in SAMPLES.items() if other != name},
        **{key: text for key, text in vars(samples_b).items() if key.isupper() and isinstance(text, str)},
        **{key: text for key, text in vars(samples_tables).items() if key.isupper() and isinstance(text, str)},
    }
    adapter = registry.adapters()[name]
    most = 0.5 if name in LAST_RESORTS else 0.0
    assert {key: score for key, text in others.items() if (score := adapter.sniff(text)) > most} == {}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_megabyte_of_a_records_beginning_is_over_with_in_bounded_work(name: str) -> None:
    """Patterns that look for an end must not look through all of it again from each beginning."""
    adapter = registry.adapters()[name]
    for line in SAMPLES[name].split("\n")[:3]:
        for part in {line[: len(line) // 2], line[: 2 * len(line) // 3]} - {""}:
            endless = (part * (1_000_000 // len(part)))[:1_000_000]
            assert adapter.sniff(endless[:65_536]) >= 0.0
            assert len(steps(list(adapter.read([endless], Context(run="r7"))))) <= 1_000_000 // len(part) + 1
