"""The runbooks of the alerts: in an installed package beside this module, in a clone in ``docs/runbooks``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_FOLDERS: Final = (Path(__file__).parent / "runbook_pages", Path(__file__).parents[2] / "docs" / "runbooks")


def runbook(alert: str) -> str | None:
    """What to do about the alert, as Markdown; None if nothing is written of it."""
    if not re.fullmatch("Tachograph[A-Za-z]+", alert):
        return None
    for folder in _FOLDERS:
        path = folder / f"{alert}.md"
        if path.is_file():
            return path.read_text()
    return None
