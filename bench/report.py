"""The page ``docs/benchmarks.md``: a table as measured, and the method of each figure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from figure import Figure

_INTRO = """# Benchmarks

Written by `make bench`, as measured. Every figure is a ratio within one run, or stands beside a reference of the same
run: seconds alone would say more about the machine than about us. Commands run in turn (A B A B ...), {rounds} rounds
after one to warm up; times are processor time, user and system, of the whole process unless it says otherwise. Noise
only adds time: a figure is judged by the least of each command, and the medians stand beside it.

Measured on {machine}.{quick}
"""


def page(figures: Sequence[Figure], machine: str, rounds: int, *, quick: bool) -> str:
    """The whole page as Markdown."""
    sentence = " With smaller inputs (`--quick`): the targets are meant for the large ones." if quick else ""
    lines = [_INTRO.format(rounds=rounds, machine=machine, quick=sentence)]
    lines += ["| figure | measured | target | met |", "| --- | --- | --- | --- |"]
    for figure in figures:
        for row in figure.rows:
            met = "" if row.is_met is None else "yes" if row.is_met else "**missed**"
            lines.append(
                f"| [{figure.title}](#{_anchor(figure.title)}): {row.what} | {row.measured} | {row.target} | {met} |"
            )
    for figure in figures:
        lines += ["", f"## {figure.title}", "", figure.method]
        if any(row.is_met is False for row in figure.rows):
            lines += ["", f"**Missed.** {figure.gap}"]
    return "\n".join(lines) + "\n"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
