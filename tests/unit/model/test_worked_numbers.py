"""Every worked number of the theory, in docstrings and in ``docs/model.md``, is what the code gives."""

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from tachograph_collector.model import best, corruption, gaps, levels, mtbf, peers, theory

MODULES = (theory, gaps, corruption, levels, peers)
PAGE = Path(__file__).parents[3] / "docs" / "model.md"
IN_TEXT = re.compile(r"``([^`]+)`` is (-?\d+(?:\.\d+)?)")
IN_TABLE = re.compile(r"^\| `([^`]+)` \| (-?\d+(?:\.\d+)?)( %)? \|", re.MULTILINE)


class Example(NamedTuple):
    where: str
    call: str
    number: str
    percent: bool = False


def described(module: ModuleType) -> dict[str, str]:
    """The docstrings of a module's public functions and classes of its own."""
    return {
        name: inspect.getdoc(thing) or ""
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__ == module.__name__
    }


def examples_in(where: str, docstring: str) -> list[Example]:
    return [Example(where, call, number) for call, number in IN_TEXT.findall(" ".join(docstring.split()))]


DOCSTRINGS = {f"{module.__name__}.{name}": text for module in MODULES for name, text in described(module).items()}
EXAMPLES = [example for where, text in DOCSTRINGS.items() for example in examples_in(where, text)]
ROWS = [
    Example("docs/model.md", call, number, bool(percent))
    for call, number, percent in IN_TABLE.findall(PAGE.read_text())
]
KNOWN = {name: thing for module in (*MODULES, best) for name, thing in vars(module).items()}
KNOWN |= {"mtbf": mtbf.mtbf, "exp": np.exp, "arange": np.arange}


def agrees(example: Example) -> bool:
    value = float(eval(example.call, dict(KNOWN))) * (100 if example.percent else 1)
    decimals = len(example.number.partition(".")[2])
    return abs(value - float(example.number)) <= 0.5000001 * 10.0**-decimals


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.call)
def test_a_docstrings_number_is_what_its_call_gives(example: Example) -> None:
    assert agrees(example), f"{example.where}: {example.call} is {eval(example.call, dict(KNOWN))}"


@pytest.mark.parametrize("example", ROWS, ids=lambda example: example.call)
def test_the_pages_number_is_what_its_call_gives(example: Example) -> None:
    assert agrees(example), f"{example.call} is {eval(example.call, dict(KNOWN))}"


@pytest.mark.parametrize("where", [where for where in DOCSTRINGS if not where.endswith("levels.TwoLevel")])
def test_every_public_function_has_a_worked_number(where: str) -> None:
    assert examples_in(where, DOCSTRINGS[where])


def test_no_row_of_the_pages_tables_of_numbers_goes_unread() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.search(r"\| `.*\(.*` \|", line)]
    assert len(rows) == len(ROWS) >= 40


@pytest.mark.parametrize(("number", "right"), [("0.9287", True), ("0.9286", False), ("0.93", True), ("0.92", False)])
def test_a_wrong_last_digit_is_noticed(number: str, right: bool) -> None:
    assert agrees(Example("here", "best_goodput(1, 15, 720)", number)) is right
