"""A reader that raises on a log is named with file and line, and takes nothing else down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from tachograph_agent.events import AnyEvent, Step
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.containment import AdapterError
from tachograph_agent.trainers.reading import open_log


class Fragile:
    """A made-up format whose reader has a defect: it takes every second word for a number."""

    name: ClassVar[str] = "fragile"
    title: ClassVar[str] = "A made-up format"

    def sniff(self, head: str) -> float:
        return 0.9 if head.startswith("fragile ") else 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        for line in lines:
            number = int(line.split()[1])
            yield Step(t=float(number), step=number)


@pytest.fixture(autouse=True)
def with_fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fragile format beside the real ones."""
    real = registry.adapters()
    monkeypatch.setattr(registry, "adapters", lambda: {**real, "fragile": Fragile()})


def test_the_line_that_a_reader_fails_on_is_named_with_its_file_and_format(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text("".join(f"fragile {number}\n" for number in range(1, 2000)))
    second.write_text("fragile 2000\r\nfragile 2001\nfragile two\nfragile 2003\n")
    with pytest.raises(AdapterError) as told:
        list(open_log([first, second]).batches())
    sentence = str(told.value)
    assert sentence.startswith(f"{second}, line 3: the reader of the format fragile failed there (ValueError: ")
    assert "please report it" in sentence
    assert isinstance(told.value.__cause__, ValueError)


def test_what_came_before_the_line_was_given(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text("".join(f"fragile {number}\n" for number in range(1, 2000)) + "fragile two\n")
    batches = open_log([log]).batches()
    given = [next(batches), next(batches), next(batches)]
    assert sum(map(len, given)) >= 1500
    with pytest.raises(AdapterError):
        list(batches)
