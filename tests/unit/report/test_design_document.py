"""The design document says what the plan says, everywhere the same, and carries its numbers through editing."""

from __future__ import annotations

import re
from datetime import date

import pytest
from tachograph_collector.model.plan.inputs import Inputs, Mark, layered, number
from tachograph_collector.model.plan.plan import Plan, make_plan
from tachograph_collector.report.design import block
from tachograph_collector.report.design.document import design_document
from tachograph_collector.report.design.facts import Facts, facts
from tachograph_collector.report.design.record import decision_record, revisit
from tachograph_collector.report.plan_words import seconds

DAY = date(2026, 3, 1)
SECTIONS = [
    "Summary", "Context", "Goals and non-goals", "Requirements", "Design", "Alternatives", "Failure modes",
    "Rollout and fault injection", "Open questions", "Appendix: derivation and seeds",
]  # fmt: skip


def told(name: str = "atlas", saves: str = "asynchronous", marks: Mark = "measured", **numbers: str) -> Inputs:
    given = {"nodes": "128", "job_mtbf": "6..12..50 h", "blocking_save": "60 s", "price": "2.5"} | numbers
    # the fields come by name, which the checker can't see
    return layered({k: number(k, v, marks) for k, v in given.items()}, saves=saves, name=name)  # type: ignore[arg-type]


def plan(num_runs: int = 0, **numbers: str) -> Plan:
    return make_plan(told(**numbers), num_runs=num_runs, seed=7)


@pytest.fixture(scope="module")
def known() -> Facts:
    return facts(plan())


@pytest.fixture(scope="module")
def document(known: Facts) -> str:
    return design_document(known, DAY)


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_every_section_is_there_in_order(document: str) -> None:
    assert re.findall(r"^## (.+)$", document, re.MULTILINE) == SECTIONS


def test_the_summary_comes_first_and_has_five_lines(document: str, known: Facts) -> None:
    lines = section(document, "Summary").strip().splitlines()
    assert [line[:2] for line in lines] == ["1.", "2.", "3.", "4.", "5."]
    assert seconds(known.plan.advice.interval_s) in lines[0]
    assert f"{known.plan.advice.goodput * 100:.1f} %" in lines[1]
    assert document.index("## Summary") < 200


def test_every_number_stands_in_the_requirements_with_its_mark(document: str, known: Facts) -> None:
    table = rows(section(document, "Requirements"))[2:]
    assert len(table) == len(known.plan.inputs.numbers)
    assert sorted(row[4] for row in table) == sorted(each.mark for each in known.plan.inputs.numbers.values())


def test_every_guess_becomes_one_open_question_and_nothing_else_does(document: str, known: Facts) -> None:
    asked = re.findall(r"^\d+\. \*\*(.+?)\?\*\*", section(document, "Open questions"), re.MULTILINE)
    guesses = [name for name, each in known.plan.inputs.numbers.items() if each.mark == "guess"]
    assert len(asked) == len(guesses) > 10
    assert not any("Blocking save" in question for question in asked)


def test_the_question_that_matters_most_is_asked_first() -> None:
    text = design_document(facts(make_plan(told(marks="guess"), num_runs=0)), DAY)
    assert section(text, "Open questions").strip().startswith("1. **Job MTBF: 12 h?**")


def test_the_failure_path_adds_up_to_what_a_failure_costs(document: str, known: Facts) -> None:
    (head, _, *steps) = rows(section(document, "Design"))
    assert head[:2] == ["at", "step"]
    assert [row[1] for row in steps] == ["failure", "detect", "replace", "reload", "warm-up", "redo", "where it was"]
    assert steps[-2][0] == seconds(known.restart_s) == "30 min"
    assert steps[-1][0] == seconds(known.failure_s)


def test_a_failure_loses_half_an_interval_and_the_persist_on_average(known: Facts) -> None:
    interval_s, persist_s = known.plan.advice.interval_s, known.rung.persist_s
    assert known.lost_s == pytest.approx(interval_s / 2 + persist_s, rel=0.02)
    assert known.most_lost_s == interval_s + known.rung.cost_s + persist_s


def test_the_alternatives_are_the_plan_s_ladder_with_the_decision_in_bold(document: str, known: Facts) -> None:
    table = rows(section(document, "Alternatives").partition("\n\nPoints")[0])[2:]
    assert [row[0].strip("*") for row in table] == [step.rung.title for step in known.plan.ladder]
    assert [row[0] for row in table if row[0].startswith("**")] == ["**asynchronous**"]
    assert [row[3] for row in table] == [f"{step.expected.goodput * 100:.1f} %" for step in known.plan.ladder]
    assert all(row[5:8] != ["", "", ""] for row in table[1:])


def test_simulated_alternatives_show_their_spread_and_their_seeds() -> None:
    simulated = plan(num_runs=4, run_length="3 d")
    text = design_document(facts(simulated), DAY)
    assert "±" in section(text, "Alternatives")
    seeds = [row[5] for row in rows(section(text, SECTIONS[-1]))[2:]]
    assert seeds == [str(cell.seed) for step in simulated.ladder for cell in step.cells]
    assert "--seed 7 --runs 4" in text


def test_the_derivation_has_the_numbers_put_in() -> None:
    inputs = layered({k: number(k, v) for k, v in {"nodes": "128", "node_mtbf": "264 d"}.items()}, saves="blocking")
    text = section(design_document(facts(make_plan(inputs, num_runs=0)), DAY), SECTIONS[-1])
    assert "264 d / 128 = 49.5 h = 2970" in text
    assert "M = 2970, C = 1: 76.41" in text
    assert "10 + 12 + 3 + 5 = 30" in text


def test_a_decision_against_the_numbers_is_said_to_be_one() -> None:
    text = design_document(facts(plan(saves="blocking")), DAY)
    assert "Against the numbers" in section(text, "Summary")
    assert "Against the numbers" not in design_document(facts(plan()), DAY)


def test_spares_that_do_not_pay_are_not_the_next_step() -> None:
    dear = facts(plan(spares="60"))
    assert dear.next is not None
    assert dear.next.rung.key == "heartbeats"


def test_a_hostile_name_is_no_markup_and_ends_no_comment() -> None:
    name = "x | <b> --> <!-- tachograph numbers\n# y"
    text = design_document(facts(plan(name=name)), DAY)
    assert len(re.findall("^# ", text, re.MULTILINE)) == 1
    assert text.count("-->") == 1
    assert block.read(text, "x.md").name == name


@pytest.mark.parametrize(
    "numbers",
    [
        {"job_mtbf": "1 min"},
        {"nodes": "1", "job_mtbf": "10 y"},
        {"snapshot": "1 ms", "persist": "7 d"},
        {"detect": "0 s", "replace": "0 s", "reload": "0 s", "warmup": "0 s"},
        {"spares": "0"},
    ],
)
@pytest.mark.parametrize("saves", ["blocking", "asynchronous"])
def test_numbers_at_the_edge_make_a_document_without_holes(numbers: dict[str, str], saves: str) -> None:
    known = facts(plan(saves=saves, **numbers))
    text = design_document(known, DAY) + decision_record(known, 1, DAY)
    assert re.search(r"\b(nan|inf|None)\b", text) is None


def test_the_record_says_its_number_what_was_turned_down_and_when_to_look_again(known: Facts) -> None:
    text = decision_record(known, 12, DAY)
    assert text.startswith("# 12. Save every ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Context", "Decision", "Turned down", "What we give up", "Revisit if",
    ]  # fmt: skip
    assert block.read(text, "12.md") == block.claims(known)


def test_the_record_s_thresholds_are_the_computed_ones(known: Facts) -> None:
    text = "\n".join(revisit(known))
    limits = known.limits
    for value in (*limits.mtbf_s, *limits.cost_s, limits.persist_s, limits.restart_s, limits.other_persist_s):
        assert value is not None
        assert seconds(value) in text
    assert "(now 12 h)" in text


def test_the_numbers_survive_editing_of_the_text_and_windows_line_ends(document: str, known: Facts) -> None:
    edited = document.replace("## Goals and non-goals", "## Aims").replace("128", "many").partition("<!--")[0]
    edited += document[document.index("<!--") :]
    assert block.read(edited.replace("\n", "\r\n") + "\nA last word.\n", "x.md") == block.claims(known)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: text.partition("<!--")[0], "no block of numbers"),
        (lambda text: text + text, "2 blocks"),
        (lambda text: text.replace('"cost": {"value": 3.0', '"cost": {"value": 4.0'), "was edited"),
        (lambda text: text.replace('"schema": 1', '"schema": 9'), "schema '9'"),
        (lambda text: text.replace('"numbers": {', '"numbers": '), "no JSON"),
        (lambda text: re.sub(r"\{\"schema.*\}\}\}", "[1]", text, flags=re.DOTALL), "no JSON object"),
        (lambda text: re.sub(r"\{\"schema.*\}\}\}", "[" * 100_000, text, flags=re.DOTALL), "no JSON"),
    ],
)
def test_a_block_that_is_gone_or_edited_is_an_error_that_says_so(edit: object, words: str, document: str) -> None:
    assert callable(edit)
    with pytest.raises(block.BlockError, match=re.escape(words)) as caught:
        block.read(edit(document), "x.md")
    assert str(caught.value).startswith("x.md: ")
    assert len(str(caught.value).splitlines()) == 1
