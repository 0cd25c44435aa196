"""Tables and NeMo's logs, damaged at random: no exception, no event that can't be kept, no answer from nothing."""

from __future__ import annotations

import random

import damaged_logs
import pytest
import samples_b
import samples_tables
from tachograph_agent.events import RunStart, Step, decode, encode
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.base import Context

SAMPLES = {
    "lightning-csv": samples_tables.LIGHTNING,
    "keras-csv": samples_tables.KERAS,
    "worker-csv": samples_tables.WORKERS,
    "nemo": samples_tables.NEMO_2 + samples_tables.nemo1(50, 53),
}
LENDERS = [*SAMPLES.values(), samples_b.NANOGPT, samples_b.TORCHTITAN]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_log_gives_events_that_can_be_kept_and_never_more_steps_than_lines(name: str) -> None:
    adapter = registry.adapters()[name]
    own = list(SAMPLES).index(name)
    for text in damaged_logs.damaged(LENDERS, own, damaged_logs.NUM_DAMAGED):
        lines = text.replace("\r", "\n").split("\n")
        assert 0.0 <= adapter.sniff(text) <= 1.0
        events = list(adapter.read(lines, Context(run="r7")))
        assert sum(isinstance(event, Step) for event in events) <= len(lines)
        if any(isinstance(event, Step) for event in events):
            assert any(isinstance(event, RunStart) for event in events)
        for event in events:
            assert decode(encode(event)).kind == event.kind


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_and_shuffled_letters_of_it_are_not(name: str) -> None:
    choose = random.Random(7)
    assert registry.recognise(SAMPLES[name].encode()) == name
    for _ in range(20):
        letters = list(SAMPLES[name])
        choose.shuffle(letters)
        assert registry.recognise("".join(letters).encode()) is None
