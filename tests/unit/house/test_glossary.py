"""docs/glossary.md: one word per concept, held against what --help and the API say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
import tree
from commands import all_commands
from no_keeper import NoKeeper
from tachograph_collector.ledger.books import ACCOUNTS
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.tokens import SCOPES

GLOSSARY = tree.REPOSITORY / "docs" / "glossary.md"
ROWS = [line.strip("| ").split(" | ", 1) for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
TERMS = [left.strip("*") for left, _ in ROWS if left.startswith("**")]
UNUSED = [
    word.strip()
    for left, _ in ROWS[[left for left, _ in ROWS].index("not") + 2 :]
    for word in left.split(",")
]  # fmt: skip


def of_help() -> Iterator[tuple[str, str]]:
    """What commands and options say of themselves, without the examples."""
    for name, command in all_commands().items():
        yield f"tachograph {name}", command.help or ""
        for param in command.params:
            if isinstance(param, click.Option):
                yield f"tachograph {name} {param.opts[0]}", param.help or ""


def of_api(document: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """The summaries and descriptions of an OpenAPI document."""
    if isinstance(document, dict):
        for name, below in document.items():
            if name in {"description", "summary"} and isinstance(below, str):
                yield where, below
            elif name not in {"example", "examples"}:
                yield from of_api(below, f"{where}/{name}")
    elif isinstance(document, list):
        for below in document:
            yield from of_api(below, where)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('glossary') / 'none.db'}")
    try:
        document = create_app(Settings(), database, NoKeeper()).openapi()
    finally:
        database.close()
    return [*of_help(), *of_api(document)]


def test_terms_are_in_order_and_each_stands_once() -> None:
    assert len(TERMS) > 50
    assert [term.lower() for term in TERMS] == sorted({term.lower() for term in TERMS})


def test_every_term_is_in_use(told: list[tuple[str, str]]) -> None:
    pages = [page.read_text() for page in tree.pages() if page != GLOSSARY]
    words = "\n".join([*pages, *(text for _, text in told)]).lower()
    assert [term for term in TERMS if not re.search(rf"\b{re.escape(term.lower())}", words)] == []


def test_a_word_that_has_another_in_its_place_is_used_nowhere(told: list[tuple[str, str]]) -> None:
    assert {"host", "crash", "iteration"} <= set(UNUSED)
    found = [
        f"{where}: {word}: {text[:80]!r}"
        for where, text in told
        for word in UNUSED
        if re.search(rf"(?<![\w-]){re.escape(word)}(?:s|es)?(?![\w-])", text)
    ]
    assert found == []


def test_the_words_that_options_and_answers_choose_among_are_explained() -> None:
    text = GLOSSARY.read_text()
    chosen = {*SCOPES, *ACCOUNTS, "live", "replay", "rehearsal"}
    for name, command in all_commands().items():
        for param in command.params:
            if isinstance(param.type, click.Choice) and name in {"ls", "token create"}:
                chosen |= set(map(str, param.type.choices))
    assert sorted(word for word in chosen if f"**{word}**" not in text and f"{word}," not in text) == []
