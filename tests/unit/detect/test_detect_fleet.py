"""One document holds the thresholds of all runs, and others for runs by name."""

from __future__ import annotations

import math
import tomllib

import pytest
from tachograph_collector.detect import Detectors, Settings, SettingsError
from tachograph_collector.detect.fleet import FleetSettings, document_of

DOCUMENT = """
[straggler]
ratio = 1.2

[[run]]
match = "llama-*"
straggler.critical_ratio = 1.5
hang.least_s = 120

[[run]]
match = "llama-7*"

[run.hang]
least_s = 300
"""


def test_later_tables_win_name_by_name_and_the_fleet_holds_for_the_rest() -> None:
    fleet = FleetSettings(tomllib.loads(DOCUMENT))
    assert fleet.of("other").hang.least_s == Settings().hang.least_s
    assert fleet.of("llama-405").hang.least_s == 120
    found = fleet.of("llama-70")
    assert (found.straggler.ratio, found.straggler.critical_ratio, found.hang.least_s) == (1.2, 1.5, 300)
    assert fleet.of("Llama-70") == fleet.fleet


def test_nothing_said_is_the_defaults() -> None:
    assert FleetSettings().of("any") == Settings()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ('[[run]]\nmatch = "a*"\nstragler.ratio = 2.0', "the 1st [[run]] table, of 'a*'"),
        ('[[run]]\nmatch = "a*"\n[[run]]\nmatch = "b"\nhang.least_s = -1', "the 2nd [[run]] table, of 'b'"),
        ("[[run]]\nhang.least_s = 3", "match of the 1st [[run]] table is None"),
        ("[[run]]\nmatch = 3", "match of the 1st [[run]] table is 3"),
        ("run = 7", "expected [[run]]"),
        ("[run]\nmatch = 'a'", "expected [[run]]"),
        ('[[run]]\nmatch = "a"\nhang = 7', "of 'a'"),
        ("[hang]\nleast = 7", "hang has no threshold 'least'; did you mean"),
    ],
)
def test_what_can_not_be_is_refused_with_the_table_it_stands_in(document: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        FleetSettings(tomllib.loads(document))
    assert said in str(caught.value)


def test_tables_that_contradict_each_other_are_refused_for_the_run_that_both_match() -> None:
    fleet = FleetSettings(
        tomllib.loads(
            '[[run]]\nmatch = "*x"\nstraggler.raise_k = 5\n[[run]]\nmatch = "a*"\nstraggler.raise_n = 4\n'
            "straggler.raise_k = 4\n[[run]]\nmatch = 'a?x'\nstraggler.raise_k = 5"
        )
    )
    assert fleet.of("ab").straggler.raise_n == 4
    with pytest.raises(SettingsError, match="of run 'abx' together"):
        fleet.of("abx")


def test_detectors_take_each_run_by_its_own() -> None:
    detectors = Detectors(FleetSettings(tomllib.loads('[[run]]\nmatch = "b"\nhang.least_s = 300')))
    from detect_streams import losses

    events = [each for run in ("a", "b") for each in _of(run, losses([1.0] * 30))]
    detectors.add(events)
    detectors.look(round(max(each.t for each in events) * 1e6) + 100_000_000)
    assert [one.run for one in detectors.incidents() if one.detector == "hang"] == ["a"]


def _of(run, events):
    for each in events:
        each.run = run
    return events


EACH = [(table, name) for table in Settings.__struct_fields__ for name in getattr(Settings(), table).__struct_fields__]


@pytest.mark.parametrize("value", [math.inf, 1e300, 10**18, math.nan])
@pytest.mark.parametrize(("table", "name"), EACH)
def test_a_threshold_beyond_any_measure_is_refused_by_name(table: str, name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=rf"{table}\.{name} is "):
        FleetSettings({table: {name: value}})


def test_never_is_a_large_number() -> None:
    assert FleetSettings({"hang": {"least_s": 1e9}}).fleet.hang.least_s == 1e9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[hang]\nleast_s = " + "9" * 5000, "a whole number of thousands of digits"),
        ("x = " + "[" * 5000 + "]" * 5000, "too deep"),
        ("[hang]\nleast_s = 2026-02-30", "invalid date"),
        ("[hang", "not TOML"),
    ],
)
def test_a_document_that_no_reader_takes_is_refused_in_a_short_sentence(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        document_of(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 200
