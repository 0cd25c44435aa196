"""The numbers of ``docs/judge.md``, and of the docstrings behind it, are what the code gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tachograph_collector.model import advice, conditional, evalue, memoryless, mtbf, theory

PAGE = Path(__file__).parents[3] / "docs" / "judge.md"
ROWS = re.findall(r"^\| `([^`]+\([^`]*)` \| (-?[\d.]+)( %)? \|", PAGE.read_text(), re.MULTILINE)
KNOWN = {
    name: thing
    for module in (advice, conditional, evalue, memoryless, mtbf, theory)
    for name, thing in vars(module).items()
} | {"exp": np.exp}


@pytest.mark.parametrize(("call", "number", "percent"), ROWS, ids=lambda value: str(value))
def test_the_pages_number_is_what_its_call_gives(call: str, number: str, percent: str) -> None:
    value = float(eval(call, dict(KNOWN))) * (100 if percent else 1)
    assert abs(value - float(number)) <= 0.5000001 * 10.0 ** -len(number.partition(".")[2])


def test_every_row_with_a_call_is_read() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| `.*\(.*` \|", line)]
    assert len(rows) == len(ROWS) >= 18
