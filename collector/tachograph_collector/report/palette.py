"""One colour per account and per restart phase, the same in the terminal and on the page.

The accounts use the Okabe-Ito set and the phases Paul Tol's muted set; both keep their members apart for colour-blind
readers. The dark variants are lighter versions of the same hues. Where there is no colour, ``GLYPHS`` tell them apart.
"""

from __future__ import annotations

from typing import Final

from tachograph_collector.ledger.books import Account

LIGHT: Final[dict[Account, str]] = {
    "kept": "#009e73",
    "checkpoint": "#0072b2",
    "lost": "#d55e00",
    "restart": "#e6a100",
}
DARK: Final[dict[Account, str]] = {
    "kept": "#2fb98f",
    "checkpoint": "#56b4e9",
    "lost": "#f0703a",
    "restart": "#f2c14e",
}
IDLE: Final = ("#9aa3ad", "#6b7480")

GLYPHS: Final[dict[Account, str]] = {"kept": "█", "checkpoint": "▓", "lost": "x", "restart": "░"}
ASCII_GLYPHS: Final[dict[Account, str]] = {"kept": "#", "checkpoint": "+", "lost": "x", "restart": "."}

PHASES: Final[dict[str, tuple[str, str]]] = {
    "queued": ("#5b4bb5", "#9c8ff0"),
    "startup": ("#88ccee", "#88ccee"),
    "detect": ("#cc6677", "#e58894"),
    "replace": ("#44aa99", "#5cc4b3"),
    "reload": ("#c9b458", "#ddcc77"),
    "warmup": ("#117733", "#3fa863"),
    "stall": ("#882255", "#c25a8e"),
    "planned": ("#999933", "#b8b850"),
    "shutdown": ("#aa4499", "#d078c2"),
    "other": ("#8a929b", "#8a929b"),
}
"""Restart sub-accounts in the order in which they follow one another: (on light, on dark)."""


def phases_in_order(phases_us: dict[str, int]) -> list[tuple[str, int]]:
    """Restart phases in the order in which they follow one another, unknown names last."""
    known = [(name, phases_us[name]) for name in PHASES if name in phases_us]
    return known + sorted((name, us) for name, us in phases_us.items() if name not in PHASES)
