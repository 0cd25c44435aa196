"""The terminal report: readable anywhere, and no log can write anything but words into it."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tachograph_collector.report import palette
from tachograph_collector.report.model import RunReport, Window
from tachograph_collector.report.terminal import render_terminal, share_out
from tachograph_collector.report.windows import clip
from unit.report import made_up

GLYPHS = {f"{glyph * 2} " for glyph in palette.GLYPHS.values()}


def shown(*runs: RunReport, width: int = 100, **options: Any) -> str:
    file = io.StringIO()
    render_terminal(runs, Console(file=file, width=width, no_color=True, **options))
    return file.getvalue()


def test_the_verdict_is_one_sentence_with_share_length_loss_and_its_causes() -> None:
    text = " ".join(shown(made_up.three_attempts()).split())
    assert "78.1 % of 11 h 1 min was kept so far; 1.3 h lost to 1 failure and 1 rollback, 1.0 h restarting" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_nothing_is_wider_than_the_terminal_or_cut_off(width: int) -> None:
    for report in (made_up.three_attempts(), made_up.month(num_losses=10)):
        lines = shown(report, width=width).splitlines()
        assert max(map(len, lines)) <= width
        money = report.money()
        assert money is not None
        table = [line for line in lines if line.strip().startswith("all ")]
        assert len(table) == 1
        assert f"{money['held']:,.0f}"[:-1] in table[0]


def test_a_pipe_gets_no_escape_codes_and_tells_the_accounts_apart_by_glyphs() -> None:
    text = shown(made_up.three_attempts())
    assert "\x1b" not in text
    bar = next(line for line in text.splitlines() if line.startswith("███"))
    assert len(set(bar)) == 4


def test_an_ascii_terminal_gets_ascii() -> None:
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding="ascii")
    render_terminal([made_up.three_attempts()], Console(file=file, width=80))
    file.flush()
    text = buffer.getvalue().decode("ascii")
    assert "###" in text
    assert "\\U0001f600" in text


def test_markup_and_control_characters_in_names_are_shown_and_not_obeyed() -> None:
    report = made_up.three_attempts(made_up.HOSTILE)
    text = shown(report, width=400, force_terminal=True, color_system="truecolor")
    assert "[bold red]pwn[/]\\x1b[31m\\nline2" in text
    assert "\x1b[31m" not in text
    assert "\u202e" not in text
    assert "\nline2" not in text


def test_unknown_is_said_to_be_unknown() -> None:
    text = shown(made_up.clean())
    assert "At risk: unknown" in text
    assert "GPU-hours" not in text
    assert "nothing lost" in text


def test_the_worst_five_interruptions_are_shown_worst_first_with_their_phases() -> None:
    report = made_up.month(num_losses=10)
    text = shown(report)
    assert "Worst 5 of 200 interruptions" in text
    costs = sorted((it.lost_us + it.restart_us for it in report.details.interruptions), reverse=True)
    numbers = [line.split()[0] for line in text.splitlines() if line.lstrip().startswith("#") and "cost" in line]
    assert len(numbers) == 5
    by_number = {f"#{i}": it for i, it in enumerate(report.details.interruptions, start=1)}
    assert [by_number[n].lost_us + by_number[n].restart_us for n in numbers] == costs[:5]
    assert text.count("detect ") >= 5


def test_what_is_at_risk_anomalies_notes_and_skipped_lines_are_said() -> None:
    text = " ".join(shown(made_up.three_attempts()).split())
    assert "At risk: 8 min of work that no landed checkpoint covers yet; if it were lost now, 76.9 %" in text
    assert "told another step than it resumed (at 2026-03-01 04:21:00)" in text
    assert "times had no zone; UTC was taken" in text
    assert "2 lines could not be read and were skipped" in text
    assert "b.log, line 9: not JSON" in text


def test_a_stop_from_which_nothing_has_resumed_says_so() -> None:
    report = made_up.three_attempts()
    down = msgspec.structs.replace(report.details.interruptions[0], resumed_at_us=None)
    details = msgspec.structs.replace(report.details, interruptions=[down])
    assert "and no step since" in " ".join(shown(RunReport(books=report.books, details=details)).split())


def test_a_log_without_a_run_or_a_run_of_no_length_is_no_division_by_zero() -> None:
    assert "No run in this log" in shown()
    report = made_up.clean()
    empty = msgspec.structs.replace(report.books, wall_us=0, accounts_us=dict.fromkeys(report.books.accounts_us, 0))
    assert "the run has no length" in shown(RunReport(books=empty, details=report.details))


def test_what_an_interruption_cost_is_unknown_where_nothing_in_the_log_has_a_length() -> None:
    report = made_up.three_attempts()
    back = msgspec.structs.replace(
        report.details.interruptions[0], last_step=9, resume_step=4, lost_us=0, restart_us=0, phases_us={}
    )
    empty = msgspec.structs.replace(report.books, wall_us=0, accounts_us=dict.fromkeys(report.books.accounts_us, 0))
    details = msgspec.structs.replace(report.details, interruptions=[back])
    text = " ".join(shown(RunReport(books=empty, details=details)).split())
    assert "cost unknown" in text
    assert "work lost (back from step 9 to 4); how long it took is not in the log" in text
    assert "0 s of restart" not in text
    assert "no work lost" not in text


def test_a_log_without_a_clock_shows_no_dates() -> None:
    report = made_up.clean()
    text = shown(RunReport(books=report.books, details=report.details, has_clock=False))
    assert "durations only" in text
    assert "2026-03-01" not in text


def test_a_window_is_named_in_the_verdict() -> None:
    clipped = clip(made_up.three_attempts(), Window(made_up.START, made_up.START + made_up.HOUR))
    assert clipped is not None
    assert "83.3 % of 1 h within the window was kept" in shown(clipped)


@pytest.mark.parametrize("amounts", [[1, 0, 0, 10**12], [5, 5, 5, 5], [0, 0, 0, 1], [10**15, 1, 1, 1]])
def test_a_bar_has_its_whole_width_and_a_cell_for_whatever_is_not_nothing(amounts: list[int]) -> None:
    cells = share_out(amounts, 60)
    assert sum(cells) == 60
    assert all((cell > 0) == (amount > 0) for cell, amount in zip(cells, amounts, strict=True))


def test_a_log_of_thousands_of_runs_shows_some_and_counts_the_rest() -> None:
    runs = [made_up.clean()] * 2_050
    text = shown(*runs)
    assert "and 2,000 more runs: --json has them all" in text
    assert text.count("At risk") == 50


@pytest.mark.parametrize("width", [30, 34, 40, 46, 52])
def test_a_terminal_too_narrow_for_every_column_shows_fewer_and_cuts_no_number(width: int) -> None:
    report = made_up.three_attempts()
    whole, narrow = (
        {line.split()[1]: line.split()[2:] for line in shown(report, width=columns).splitlines() if line[:3] in GLYPHS}
        for columns in (120, width)
    )
    assert whole.keys() == narrow.keys() == {"kept", "checkpoint", "lost", "restart"}
    for account, cells in narrow.items():
        assert cells == whole[account][: len(cells)]
        assert len(cells) >= 2
