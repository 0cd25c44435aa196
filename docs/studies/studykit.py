"""What every study shares: numbers kept as JSON, a page rendered from them, plots that stand alone, the command line.

A study is a module with ``NAME`` (of its page), ``numbers(num_runs)`` and ``plot(numbers)``. Running it writes
``NAME.json``, ``NAME.svg`` and ``NAME.md``, the page from ``NAME.md.j2``: no number of a page is typed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import jinja2

HERE: Final = Path(__file__).parent
NUM_RUNS: Final = 200
"""Simulated runs behind each committed number."""
_LIGHT: Final = {
    "page": "#ffffff", "ink": "#16202b", "muted": "#56636f", "line": "#d5dbe1", "loss": "#2a5d9f", "kept": "#009e73",
    "checkpoint": "#0072b2", "lost": "#d55e00", "restart": "#b57d00", "idle": "#9aa3ad",
}  # fmt: skip

Numbers = dict[str, Any]


def page(name: str, numbers: Mapping[str, Any]) -> str:
    """The study's page with its numbers in it."""
    loader = jinja2.FileSystemLoader(HERE)
    # Markdown, not HTML: nothing is to be escaped.
    environment = jinja2.Environment(  # noqa: S701 - it's our own text and our own numbers
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["pc"] = lambda share, digits=1: f"{100 * share:.{digits}f} %"
    environment.filters["num"] = lambda value, digits=1: f"{value:,.{digits}f}"
    return environment.get_template(f"{name}.md.j2").render(numbers)


def alone(svg: str) -> str:
    """A drawing of ``report.canvas`` as a file of its own: colours and font set, a white ground under it."""
    head_end = svg.index("</title>") + len("</title>")
    rules = "".join(f"--{role}:{colour};" for role, colour in _LIGHT.items())
    style = f"<style>svg{{{rules}font-family:DejaVu Sans,Verdana,sans-serif}}</style>"
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f"{svg[:head_end]}{style}{ground}{svg[head_end:]}\n"


def rounded(value: Any, digits: int = 6) -> Any:
    """Numbers cut to ``digits`` significant ones, in lists and dicts too, so that the files stay readable."""
    if isinstance(value, dict):
        return {str(key): rounded(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each, digits) for each in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    return float(f"{float(value):.{digits}g}")


def kept_numbers(name: str) -> Numbers:
    """The numbers of the committed run."""
    numbers: Numbers = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return numbers


def make(name: str, numbers: Callable[[int], Numbers], plot: Callable[[Numbers], str]) -> None:
    """Run a study at full size and write its numbers, its plot and its page."""
    found = rounded(numbers(NUM_RUNS))
    (HERE / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (HERE / f"{name}.svg").write_text(alone(plot(found)), encoding="utf-8")
    (HERE / f"{name}.md").write_text(page(name, found), encoding="utf-8")
    sys.stderr.write(f"wrote {name}.json, {name}.svg and {name}.md in {HERE.name}/\n")
