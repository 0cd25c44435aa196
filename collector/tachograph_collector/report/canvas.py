"""matplotlib's SVG made fit for a page: inline, small, coloured by the page, and reproducible.

A figure is drawn in stand-in colours, one per role; ``finish`` replaces them by the page's CSS variables, so that one
drawing is legible in light, in dark and on paper. Text stays text and is never read as mathematics.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tachograph_collector.ledger.books import ACCOUNTS
from tachograph_collector.report import palette

WIDTH_IN: Final = 8.6
POINTS: Final = 72
_ROLES: Final = (
    "ink",
    "muted",
    "line",
    "page",
    "idle",
    "loss",
    *ACCOUNTS,
    *(f"phase-{name}" for name in palette.PHASES),
)
STAND_IN: Final = {role: f"#0c{index:02x}fe" for index, role in enumerate(_ROLES)}
"""Role to stand-in colour: distinct, and of no use as a real colour."""
_ROLE_OF: Final = {colour: role for role, colour in STAND_IN.items()}
_STYLE: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tachograph",
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "text.color": STAND_IN["ink"],
    "axes.labelcolor": STAND_IN["muted"],
    "axes.edgecolor": STAND_IN["line"],
    "xtick.color": STAND_IN["line"],
    "ytick.color": STAND_IN["line"],
    "xtick.labelcolor": STAND_IN["muted"],
    "ytick.labelcolor": STAND_IN["muted"],
    "grid.color": STAND_IN["line"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "path.simplify": True,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib's settings for the page, restored afterwards: whoever draws in the same process keeps theirs."""
    with mpl.rc_context(cast("Any", _STYLE)):  # the stubs want every key to be a literal
        yield


def figure(height_in: float, width_in: float = WIDTH_IN) -> tuple[Figure, Axes]:
    """A figure of its own (no pyplot, no global state) with one pair of axes."""
    drawn = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasSVG(drawn)
    axes = drawn.subplots()
    assert isinstance(axes, Axes)
    return drawn, axes


def finish(drawn: Figure, title: str, prefix: str) -> str:
    """The figure as one ``<svg>`` element with ``title`` for screen readers; ids begin with ``prefix``."""
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    used = frozenset(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    # Only inside tags: what stands between them are words, which matplotlib has escaped, and they stay as they are.
    svg = re.sub(r"<[^>]*>", lambda tag: _tag(tag.group(), used, prefix), svg)
    svg = re.sub(r">\s+<", "><", svg)
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box is not None
    head_end = svg.index(">") + 1
    spoken = escape(title, quote=True)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {view_box.group()} '
        f'role="img" aria-label="{spoken}">'
    )
    return f"{head}<title>{spoken}</title>{svg[head_end:].strip()}"


def _tag(tag: str, used: frozenset[str], prefix: str) -> str:
    """One tag with the page's colours and font, coordinates to a tenth, and ids that no other drawing has."""
    tag = re.sub(r"#0c[0-9a-f]{2}fe", lambda found: _variable(found.group()), tag)
    tag = re.sub(r' id="([^"]+)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", tag)
    tag = re.sub(r'(href="#|url\(#)([^")]+)', lambda found: f"{found[1]}{prefix}-{found[2]}", tag)
    tag = re.sub(r"font: (bold |700 )?([0-9.]+)px [^;\"]*", _font, tag)
    tag = re.sub(r"(-?\d+\.\d)\d+", r"\1", tag)  # a tenth of a point is finer than any screen
    tag = re.sub(r"(\d)\.0(?![\d.])", r"\1", tag)
    return re.sub(r"\s+", " ", tag).replace(' "', '"')


def _font(found: re.Match[str]) -> str:
    return f"{'font-weight: 600; ' if found[1] else ''}font-size: {found[2]}px"


def _variable(colour: str) -> str:
    role = _ROLE_OF.get(colour)
    return f"var(--{role})" if role else colour
