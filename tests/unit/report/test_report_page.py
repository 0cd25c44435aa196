"""The page: one small file that opens offline, legible in light and dark, in which every name is only a name."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import matplotlib as mpl
import msgspec
import pytest
from tachograph_collector.ledger.books import ACCOUNTS
from tachograph_collector.report import canvas, charts, palette
from tachograph_collector.report.errors import MissingExtraError
from tachograph_collector.report.html import render_html
from tachograph_collector.report.model import RunReport
from unit.report import made_up

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(HTMLParser):
    """Tags, attributes and words of a page; the tags must close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return render_html([made_up.three_attempts(made_up.HOSTILE)])


def test_a_month_with_200_interruptions_and_a_million_losses_stays_under_a_megabyte() -> None:
    written = render_html([made_up.month()])
    assert len(written.encode()) < 1_000_000
    assert "a-month-on-1024" in written
    assert written.count("<svg") == 6


def test_many_runs_stay_under_a_megabyte_and_what_is_left_out_is_said() -> None:
    written = render_html([made_up.clean(f"run{i}") for i in range(40)])
    assert len(written.encode()) < 1_000_000
    assert "run39" in written
    assert "of the runs have no section of their own" in written


def test_the_page_asks_for_nothing_and_runs_nothing(page: str) -> None:
    reader = Reader(page)
    assert not {"script", "link", "iframe", "object", "img", "base", "form"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    links = [value for name, value in reader.attributes if name in {"href", "src", "xlink:href"} and value]
    assert all(value.startswith("#") for value in links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_hostile_names_are_words_everywhere(page: str) -> None:
    reader = Reader(page)
    words = "".join(reader.words)
    assert "<script>alert('x')</script>[bold red]pwn[/]\\x1b[31m\\nline2" in words
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "$\\frac{1}{0}$" in words


def test_a_hostile_category_in_a_chart_is_text_and_no_mathematics() -> None:
    report = made_up.three_attempts()
    evil = [msgspec.structs.replace(it, category="$\\x<b>&\n😀") for it in report.details.interruptions]
    drawn = charts.anatomy(
        RunReport(books=report.books, details=msgspec.structs.replace(report.details, interruptions=evil)), "x"
    )
    assert drawn is not None
    words = "".join(ET.fromstring(drawn[0]).itertext())
    assert "$\\x<b>&\\n" in words


def test_every_chart_is_an_image_with_a_name_and_every_table_has_headers(page: str) -> None:
    svgs = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(svgs) == 6
    for svg in svgs:
        root = ET.fromstring(svg)
        assert root.get("role") == "img"
        assert root.get("aria-label")
        title = root.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert title.text == root.get("aria-label")
    assert page.count("<table") == page.count("<thead")
    assert 'scope="col"' in page
    assert 'scope="row"' in page


def test_charts_are_coloured_by_the_page_only_so_that_dark_and_print_can_change_them(page: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        used = set(re.findall(r"(?:fill|stroke): ?([^;\"]+)", svg))
        assert {colour for colour in used if not colour.startswith("var(--") and colour != "none"} == set()
    light, dark, paper = (
        set(re.findall(r"--([\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", page, flags=re.DOTALL)
    )
    assert light == dark == paper
    assert set(re.findall(r"var\(--([\w-]+)\)", page)) <= light
    assert set(canvas.STAND_IN) <= light


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    written = render_html([made_up.three_attempts("a"), made_up.three_attempts("b")])
    ids = re.findall(r'\sid="([^"]+)"', written)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', written)) <= set(ids)


def test_the_same_run_gives_the_same_bytes() -> None:
    assert render_html([made_up.three_attempts()]) == render_html([made_up.three_attempts()])


def test_unknown_is_said_and_charts_without_data_are_not_there() -> None:
    written = render_html([made_up.clean()])
    words = " ".join(" ".join(Reader(written).words).split())
    assert "at risk unknown" in words
    assert "GPU-hours" not in words
    assert "Restart anatomy" not in words
    assert "it ran through" in words


def test_a_log_without_a_run_gives_a_page_that_says_so() -> None:
    assert "No run in this log" in render_html([])


def test_a_run_of_no_length_and_a_loss_without_a_finite_value_are_no_error() -> None:
    report = made_up.clean()
    empty = msgspec.structs.replace(report.books, wall_us=0, accounts_us=dict.fromkeys(ACCOUNTS, 0))
    bare = msgspec.structs.replace(report.details, minutes=[], segments=[])
    assert "the run has no length" in render_html([RunReport(books=empty, details=bare, loss_points=[(0, 1, 2.0)])])
    odd = [(made_up.START + i, i, float("nan")) for i in range(10)]
    assert "<h2>Loss</h2>" not in render_html([RunReport(books=report.books, details=report.details, loss_points=odd)])


def test_a_strip_of_more_changes_than_can_be_drawn_shares_cells_and_says_so() -> None:
    pair: list[made_up.Stretch] = [(made_up.MIN, "lost", "rollback", 0, None), (made_up.MIN, "kept", "train", 0, None)]
    stretches = pair * 10_000
    segments = made_up.segments_of(stretches)
    minutes = made_up.minutes_of(segments)
    books = made_up.books_of(segments, minutes, "flicker", None)
    details = msgspec.structs.replace(made_up.clean().details, minutes=minutes, segments=segments)
    drawn = charts.strip(RunReport(books=books, details=details), "x")
    assert drawn is not None
    svg, caption = drawn
    assert len(svg) < 300_000
    assert "A cell is 2 min" in caption


def test_segments_years_apart_are_drawn_without_a_row_for_every_day_between() -> None:
    report = made_up.clean()
    late = [
        msgspec.structs.replace(m, start_us=m.start_us + 200 * 365 * 24 * made_up.HOUR) for m in report.details.minutes
    ]
    details = msgspec.structs.replace(report.details, minutes=[*report.details.minutes, *late])
    written = render_html([RunReport(books=report.books, details=details)])
    assert len(written) < 300_000


def test_matplotlibs_settings_are_left_as_they_were() -> None:
    before = dict(mpl.rcParams)
    render_html([made_up.three_attempts()])
    assert dict(mpl.rcParams) == before


def test_without_the_extra_the_line_to_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tachograph\[collector\]'"):
        render_html([made_up.clean()])


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _as_seen(colour: str, matrix: list[list[float]]) -> tuple[float, ...]:
    """The colour as a dichromat sees it (Machado, Oliveira and Fernandes 2009, severity 1.0), in linear RGB."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return tuple(sum(m * c for m, c in zip(row, linear, strict=True)) for row in matrix)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ],
    ids=["protanopia", "deuteranopia", "tritanopia"],
)
@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_no_two_accounts_look_alike_to_the_colour_blind(colours: dict[str, str], matrix: list[list[float]]) -> None:
    seen = {name: _as_seen(colour, matrix) for name, colour in colours.items()}
    for one in seen:
        for other in seen:
            if one < other:
                apart = sum((a - b) ** 2 for a, b in zip(seen[one], seen[other], strict=True)) ** 0.5
                assert apart > 0.1, (one, other, apart)


@pytest.mark.parametrize(("colours", "background"), [(palette.LIGHT, "#ffffff"), (palette.DARK, "#12171d")])
def test_every_account_stands_out_from_the_page(colours: dict[str, str], background: str) -> None:
    for name, colour in colours.items():
        high, low = sorted((_luminance(colour), _luminance(background)), reverse=True)
        assert (high + 0.05) / (low + 0.05) > 2.1, name


def test_a_log_without_a_clock_shows_no_dates_anywhere() -> None:
    report = made_up.three_attempts()
    shift = made_up.START
    details = report.details
    moved = msgspec.structs.replace(
        details,
        attempts=[
            msgspec.structs.replace(a, start_us=a.start_us - shift, end_us=a.end_us - shift) for a in details.attempts
        ],
        interruptions=[msgspec.structs.replace(it, at_us=it.at_us - shift) for it in details.interruptions],
        minutes=[msgspec.structs.replace(m, start_us=m.start_us - shift) for m in details.minutes],
        checkpoints=[],
        anomalies=[],
    )
    written = render_html([RunReport(books=report.books, details=moved, has_clock=False)])
    words = " ".join(Reader(written).words)
    assert "+3 h 57 min" in words
    assert "1970" not in words
    assert "2026" not in words
    assert "UTC" not in words.replace(made_up.HOSTILE, "")


def test_few_losses_are_drawn_as_points_and_a_line_stops_at_an_interruption() -> None:
    report = made_up.three_attempts()
    few = made_up.losses(report.details.segments, 40)
    drawn = charts.loss_curve(RunReport(books=report.books, details=report.details, loss_points=few), "x")
    assert drawn is not None
    assert drawn[0].count("<use") >= 30


def test_losses_of_another_run_in_the_same_log_are_not_drawn() -> None:
    report = made_up.clean()
    own = [(made_up.START + i * made_up.MIN, i, 2.0 + i / 100) for i in range(1, 110)]
    later = [(made_up.START + (200 + i) * made_up.MIN, i, 900.0) for i in range(1, 110)]

    def drawn(points: list[tuple[int, int, float]]) -> object:
        return charts.loss_curve(RunReport(books=report.books, details=report.details, loss_points=points), "x")

    assert drawn(own) == drawn(own + later)
    assert drawn(later) is None
