"""What a plan is made from: files, layers, marks and ranges, and what is refused."""

from __future__ import annotations

import tomllib

import pytest
from tachograph_collector.model.plan.inputs import BY_NAME, KNOWN, Number, layered, number, span
from tachograph_collector.model.plan.quantity import PlanError
from tachograph_collector.model.plan.toml import read, template

HOUR, DAY = 3600.0, 86_400.0


def test_a_file_is_read_with_marks_ranges_and_settings() -> None:
    told = read(
        """
        name = "big one"
        saves = "blocking"
        nodes = 128
        [failures]
        node_mtbf = { value = "264 d", low = "240 d", high = "291 d", mark = "measured" }
        [restart]
        detect = "5..10..20 min"
        [money]
        price = { value = 2.5, mark = "spec sheet" }
        """
    )
    assert (told.name, told.saves) == ("big one", "blocking")
    assert told.numbers["nodes"] == Number(128, source="file")
    assert told.numbers["node_mtbf"] == Number(264 * DAY, "measured", 240 * DAY, 291 * DAY, "file")
    assert told.numbers["detect"] == Number(600, "guess", 300, 1200, "file")
    assert told.numbers["price"] == Number(2.5, "spec sheet", source="file")


def test_the_template_is_a_plan_that_names_every_number_once() -> None:
    told = read(template())
    assert told.numbers["nodes"].value == 128
    assert layered(told.numbers).value("node_mtbf") == 264 * DAY
    assert {given.mark for given in told.numbers.values()} == {"guess"}
    uncommented = "\n".join(
        line.removeprefix("# ") if line.startswith(tuple(f"# {known.name} =" for known in KNOWN)) else line
        for line in template().splitlines()
    )
    sections = {name: set(keys) for name, keys in tomllib.loads(uncommented).items() if isinstance(keys, dict)}
    assert sections == {section: {known.name for known in KNOWN if known.section == section} for section in sections}
    assert sum(map(len, sections.values())) == len(BY_NAME)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes = ", "no TOML"),
        ("nodes = " + "9" * 5_000, "no TOML"),
        ("nodes = " + "[" * 5_000, "too deep to be read"),
        ("nodse = 128", "unknown key 'nodse'; did you mean 'nodes'?"),
        ("[restart]\ndetcet = '1 min'", r"\[restart\] has an unknown key 'detcet'; did you mean 'detect'?"),
        ("[restrat]\ndetect = '1 min'", "unknown key 'restrat'; did you mean 'restart'?"),
        ("[money]\ndetect = '1 min'", r"belongs into \[restart\]"),
        ("nodes = 1\n[cluster]\nnodes = 1", "given twice"),
        ("detect = 10", "detect: 10 has no unit; expected text with its unit"),
        ("detect = '10'", "detect: '10' has no unit"),
        ("detect = '-10 min'", "negative"),
        ("node_mtbf = '0 d'", "zero"),
        ("node_mtbf = '90000 y'", "beyond belief"),
        ("detect = 'nan s'", "not finite"),
        ("nodes = nan", "not finite"),
        ("nodes = 1.5", "no whole number"),
        ("nodes = true", "is no number"),
        ("nodes = [1]", "is no number"),
        ("detect = { mark = 'guess' }", "value is missing"),
        ("detect = { value = '1 min', mark = 'sure' }", "mark is 'sure'; expected one of measured, spec sheet, guess"),
        ("detect = { value = '1 min', makr = 'guess' }", "unknown key 'makr'; did you mean 'mark'?"),
        ("detect = { value = '1 min', low = '30 s' }", "low is given alone"),
        ("detect = { value = '1..2..3 min', low = '1 min', high = '2 min' }", "a range of its own"),
        ("saves = 'async'", "saves is 'async'; expected asynchronous or blocking"),
        ("name = 3", "name is 3"),
        ("mtbf = '12 h'", "one node's or the whole job's"),
        ("[failures]\nmtbf = '12 h'", "say node_mtbf or job_mtbf"),
        ("cluster = 3", r"expected a section"),
        ("peer_share = 1.5", "beyond belief"),
    ],
)
def test_a_file_with_a_slip_is_refused_and_the_slip_named(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read(text)


def test_later_layers_go_before_earlier_ones_and_over_the_defaults() -> None:
    inputs = layered({"nodes": Number(8), "detect": Number(1)}, {"detect": Number(2)})
    assert inputs.value("nodes") == 8
    assert inputs.value("detect") == 2
    assert inputs.numbers["replace"] == Number(720, source="default")


def test_of_the_two_mtbfs_the_topmost_layer_decides() -> None:
    file, flags = {"nodes": Number(8), "node_mtbf": Number(264 * DAY)}, {"job_mtbf": Number(12 * HOUR)}
    inputs = layered(file, flags)
    assert inputs.value("job_mtbf") == 12 * HOUR
    assert not inputs.has("node_mtbf")


def test_both_mtbfs_in_one_layer_are_refused() -> None:
    with pytest.raises(PlanError, match=r"node_mtbf = 264 d and job_mtbf = 12 h are both given; give one"):
        layered({"nodes": Number(8), "job_mtbf": Number(12 * HOUR), "node_mtbf": Number(264 * DAY)})


def test_a_plan_without_nodes_says_how_to_give_them() -> None:
    with pytest.raises(PlanError, match="--nodes"):
        layered({})


def test_without_an_mtbf_the_job_is_guessed_to_fail_every_6_to_50_hours() -> None:
    given = layered({"nodes": Number(8)}).numbers["job_mtbf"]
    assert (given.low, given.value, given.high, given.mark) == (6 * HOUR, 12 * HOUR, 50 * HOUR, "guess")


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("detect", Number(600, "guess"), (300, 1200)),
        ("detect", Number(600, "spec sheet"), (400, 900)),
        ("detect", Number(660, "measured"), (600, 726)),
        ("detect", Number(600, "measured", samples=4), (400, 900)),
        ("detect", Number(600, "guess", 500, 601), (500, 601)),
        ("job_mtbf", Number(12 * HOUR, "guess"), (6 * HOUR, 48 * HOUR)),
        ("peer_share", Number(0.9, "guess"), (0.8, 0.95)),
        ("nodes", Number(1, "guess"), (1, 2)),
    ],
)
def test_a_number_without_a_range_has_the_one_of_its_mark(
    name: str, given: Number, expected: tuple[float, float]
) -> None:
    assert span(name, given) == pytest.approx(expected)


def test_every_default_and_example_is_a_number_that_would_be_taken() -> None:
    for known in KNOWN:
        for text in filter(None, (known.default, known.example)):
            assert number(known.name, text).value > 0
