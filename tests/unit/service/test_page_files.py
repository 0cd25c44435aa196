"""The files of the page: what is served, under which policy, and what must never be in them."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha384
from pathlib import Path

import pytest
from tachograph_collector.report import palette
from tachograph_collector.service import page
from tachograph_collector.web import assets as web

FILES = Path(web.__file__).parent / "static"
SCRIPTS = sorted(FILES.rglob("*.js"))


def test_the_chart_library_is_the_published_one_and_the_page_says_so() -> None:
    index = web.assets()["index.html"].body.decode()
    for name in ("uplot.js", "uplot.css"):
        digest = b64encode(sha384(web.assets()[name].body).digest()).decode()
        assert f'web/{name}" integrity="sha384-{digest}"' in index
    assert b"uPlot (v1.6.31)" in web.assets()["uplot.js"].body[:200]


def test_another_file_in_the_wheel_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "UPLOT", {"uplot.js": ("uplot.iife.min.js", "sha384-of another")})
    web.assets.cache_clear()
    try:
        assert "uplot.js" not in web.assets()
    finally:
        monkeypatch.undo()
        web.assets.cache_clear()


def test_every_module_is_loaded_ahead_and_nothing_is_from_elsewhere() -> None:
    index = web.assets()["index.html"].body.decode()
    for script in SCRIPTS:
        assert f'<link rel="modulepreload" href="web/{script.relative_to(FILES).as_posix()}">' in index
    addresses = re.findall(r'(?:href|src)="([^"]+)"', index)
    assert all(each.startswith(("web/", "#")) for each in addresses)
    assert "{{" not in index


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_module_makes_html_of_text_or_code_of_text(script: Path) -> None:
    text = script.read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setHTML"):
        assert word not in text
    imported = re.findall(r'from "([^"]+)"', text)
    assert all((script.parent / each).resolve().is_file() for each in imported)


def test_the_policy_allows_nothing_that_is_written_into_the_page() -> None:
    policy = dict(part.strip().split(" ", 1) for part in page.HEADERS["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in page.HEADERS["Content-Security-Policy"]
    index = web.assets()["index.html"].body.decode()
    assert re.search(r"<style|style=|<script>| on\w+=", index) is None


def test_the_page_has_the_colours_of_the_reports() -> None:
    told = page._palette().body.decode()
    for account, colour in (palette.LIGHT | palette.DARK).items():
        assert f"--{account}:{colour};" in told
    for phase, (light, dark) in palette.PHASES.items():
        assert f"--phase-{phase}:{light};" in told
        assert f"--phase-{phase}:{dark};" in told
        assert f'"{phase}"' in (FILES / "js" / "charts" / "theme.js").read_text()


def test_the_files_that_a_first_visit_loads_are_small() -> None:
    whole = sum(len(each.packed or each.body) for each in web.assets().values())
    assert whole < 120_000
