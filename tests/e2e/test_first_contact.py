"""docs/first-contact/ and docs/gallery/: what the pages say to type is typed, and does what they show."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from console_pages import Typed, fits, run, typed

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "docs" / "first-contact"
GALLERY = REPOSITORY / "docs" / "gallery"
PAGES = [*sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md"), GALLERY / "README.md"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files that the pages speak of."""
    subprocess.run([sys.executable, str(FOLDER / "make_files.py"), str(tmp_path)], check=True)
    shutil.copy(REPOSITORY / "examples" / "recorded_run.jsonl", tmp_path / "run.jsonl")
    for table in (*GALLERY.glob("*.csv"), *GALLERY.glob("*.toml")):
        shutil.copy(table, tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_what_the_page_says_to_type_does_what_it_says(page: Path, files: Path) -> None:
    steps = typed(page.read_text(encoding="utf-8"))
    assert steps, "a page of first contact has something to type"
    told = run([step.command for step in steps], files)
    assert len(told) == len(steps)
    pairs = zip(steps, told, strict=True)
    wrong = [f"$ {step.command}\n{out}" for step, out in pairs if not fits(step.expected, out)]
    assert not wrong, "\n\n".join(wrong)


def test_what_a_page_shows_is_told_from_what_is_something_else() -> None:
    assert fits("a\n…\nz", "a\nb\nc\nz\n")
    assert fits("a … ms", "a 12 ms")
    assert fits("", "")
    assert not fits("", "said")
    assert not fits("a\n…\nz", "a\nb\n")
    assert not fits("a", "a\nb")


def test_only_what_can_be_run_here_is_run() -> None:
    page = "```console\n$ one \\\n> two\nout\n$ three\n```\n```console cluster\n$ srun\n```\n"
    page += "```console typed\n$ pip\n```\n"
    assert typed(page) == [Typed("one \\\ntwo", "out"), Typed("three", "")]
