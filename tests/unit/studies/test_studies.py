"""Every study's page and plot come from its numbers, and its numbers from its program."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from importlib import import_module
from types import ModuleType

import pytest
import studykit

MODULES = [import_module(path.stem) for path in sorted(studykit.HERE.glob("study_*.py"))]


@pytest.mark.parametrize("study", MODULES, ids=lambda study: study.NAME)
def test_a_page_is_its_template_with_the_committed_numbers(study: ModuleType) -> None:
    committed = (studykit.HERE / f"{study.NAME}.md").read_text(encoding="utf-8")
    assert studykit.page(study.NAME, studykit.kept_numbers(study.NAME)) == committed


@pytest.mark.parametrize("study", MODULES, ids=lambda study: study.NAME)
def test_a_plot_is_drawn_anew_from_the_committed_numbers(study: ModuleType) -> None:
    committed = (studykit.HERE / f"{study.NAME}.svg").read_text(encoding="utf-8")
    drawn = studykit.alone(study.plot(studykit.kept_numbers(study.NAME)))
    assert _words(drawn) == _words(committed)
    assert len(committed) < 100_000
    assert "<script" not in committed


@pytest.mark.parametrize("study", MODULES, ids=lambda study: study.NAME)
def test_a_page_names_its_command_and_shows_its_plot(study: ModuleType) -> None:
    page = (studykit.HERE / f"{study.NAME}.md").read_text(encoding="utf-8")
    assert f"make studies STUDY={study.NAME}\n" in page
    assert f"({study.NAME}.svg)" in page
    assert "**The question.**" in page
    assert "## What to take from it" in page


@pytest.mark.parametrize("study", MODULES, ids=lambda study: study.NAME)
def test_the_list_of_studies_has_it(study: ModuleType) -> None:
    assert f"({study.NAME}.md)" in (studykit.HERE / "README.md").read_text(encoding="utf-8")


def _words(svg: str) -> list[str]:
    """What is written in a drawing, in order; where it stands may depend on the version of the library."""
    root = ET.fromstring(svg)
    return [re.sub(r"\s+", " ", text) for text in root.itertext() if text.strip() and "{" not in text]
