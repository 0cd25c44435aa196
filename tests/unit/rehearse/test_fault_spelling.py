"""Faults are read as they are typed, and one that can't be read says which part of it and what is accepted."""

from __future__ import annotations

import pytest
from tachograph_collector.rehearse.scenario import DRILL, QUIET
from tachograph_collector.rehearse.spelling import SpellingError, fault_from, spelled
from tachograph_collector.synthetic import CollectorPause, Crash, HiddenNan, NodeDeath, Partition, Straggler


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("node-death@120s:node=n3", NodeDeath(at_s=120, node="n3")),
        ("node-death@2min:node=n3,noticed=1h", NodeDeath(at_s=120, node="n3", noticed_s=3600)),
        ("node-death@2:node=n3,is_replaced=no", NodeDeath(at_s=2, node="n3", is_replaced=False)),
        ("straggler:rank=7,ratio=1.12,for=90", Straggler(at_s=75, rank=7, ratio=1.12, for_s=90)),
        (" partition@0.5h:share=0.25 ", Partition(at_s=1800, share=0.25)),
        ("hidden-nan@.5s:kind=zero,rollback-after=500ms", HiddenNan(at_s=0.5, kind="zero", rollback_after_s=0.5)),
        ("collector-pause@1", CollectorPause(at_s=1)),
        ("crash@5s:rank=0,category=network", Crash(at_s=5, rank=0, category="network")),
    ],
)
def test_fault_is_read_as_it_is_typed(text: str, fault: object) -> None:
    assert fault_from(text, 75) == fault


@pytest.mark.parametrize("text", [*DRILL, *QUIET])
def test_fault_is_shown_as_one_can_type_it(text: str) -> None:
    assert fault_from(spelled(fault_from(text, 1)), 2) == fault_from(text, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node-dath", "there is no fault 'node-dath'; did you mean node-death?"),
        ("gremlins@5s", "there is no fault 'gremlins'; known are node-death, frozen-rank"),
        ("straggler@soon:rank=1", "'soon' is no time; expected 90s, 2min or 1h"),
        ("straggler@5s:rank=1,for=-3s", "for: '-3s' is no time"),
        ("straggler@5s", "it needs rank"),
        ("straggler@5s:rank=one", "expected int"),
        ("straggler@5s:rank=1,ratio=0.5", "ratio"),
        (
            "straggler@5s:rank=1,colour=red",
            "'colour=red' is nothing that straggler takes; expected KEY=VALUE of for, rank",
        ),
        ("hidden-nan@5s:kind=odd", "kind: nan or missing or frozen or zero"),
    ],
)
def test_fault_that_cannot_be_read_is_refused_with_what_is_accepted(text: str, said: str) -> None:
    with pytest.raises(SpellingError) as refused:
        fault_from(text, 75)
    assert said in str(refused.value)
    assert repr(text) in str(refused.value)
