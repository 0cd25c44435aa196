"""The boards and rules as files: generated, committed, and compared with what the code says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from grafanalib.core import Dashboard

from tachograph_dashboards import rules
from tachograph_dashboards.boards.fleet import fleet
from tachograph_dashboards.boards.node import node
from tachograph_dashboards.boards.reliability import reliability
from tachograph_dashboards.boards.run import run
from tachograph_dashboards.boards.stragglers import stragglers
from tachograph_dashboards.boards.tachograph import tachograph
from tachograph_dashboards.modern import Json, modern
from tachograph_dashboards.without_ledger import without_ledger

FOLDER: Final = Path(__file__).parent / "json"
ALERTS: Final = Path(__file__).parents[1] / "alerts"
"""Of a clone; an installed package has no such folder."""
BOARDS: Final[Mapping[str, Callable[[str | None], Dashboard]]] = {
    "fleet": fleet,
    "run": run,
    "stragglers": stragglers,
    "reliability": reliability,
    "node": node,
    "tachograph": tachograph,
}


def boards(public_url: str | None = None, *, with_ledger: bool = True) -> dict[str, Json]:
    """Each board by the name of its file."""
    made = {name: modern(make(public_url)) for name, make in BOARDS.items()}
    return made if with_ledger else {name: without_ledger(board) for name, board in made.items()}


def write(folder: Path, *, public_url: str | None = None, with_ledger: bool = True, check: bool = False) -> list[str]:
    """Write each board into the folder, unless ``check``; the names of those that weren't so before."""
    made = {
        f"{name}.json": json.dumps(board, indent=1, ensure_ascii=False) + "\n"
        for name, board in boards(public_url, with_ledger=with_ledger).items()
    }
    return _put(folder, made, check=check)


def write_rules(folder: Path, *, check: bool = False) -> list[str]:
    """The same for the rule files."""
    return _put(folder, rules.files(), check=check)


def _put(folder: Path, texts: Mapping[str, str], *, check: bool) -> list[str]:
    stale = []
    for name, text in texts.items():
        path = folder / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return stale
