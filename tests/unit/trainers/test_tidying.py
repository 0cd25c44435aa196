"""What adapters never see: colours, blanks at ends, and the same line of every rank."""

from __future__ import annotations

import pytest
from tachograph_agent.trainers.tidying import Tidying


def test_a_line_that_all_ranks_print_is_given_once_and_the_number_of_lines_stays() -> None:
    text = "".join(f"[rank{rank}]:step {step} loss 2.5\n" for step in (1, 2) for rank in (1, 0, 2))
    assert Tidying().text(text).split("\n") == [
        "[rank1]:step 1 loss 2.5",
        "",
        "",
        "[rank1]:step 2 loss 2.5",
        "",
        "",
        "",
    ]


def test_times_of_day_may_differ_and_values_may_not() -> None:
    tidying = Tidying()
    tidying.text("0: begun\n1: begun, too\n2: begun as well")
    assert tidying.text("0: 03:04:05,100 loss 2.5\n1: 03:04:05,250 loss 2.5\n2: 03:04:05,260 loss 2.6").split("\n") == [
        "0: 03:04:05,100 loss 2.5",
        "",
        "2: 03:04:05,260 loss 2.6",
    ]


def test_numbers_that_count_on_are_steps_and_no_ranks() -> None:
    text = "".join(f"{step}: loss 2.5\n" for step in range(50))
    assert Tidying().text(text) == text


def test_what_one_rank_says_again_is_its_own_history() -> None:
    text = "[rank0]:resumed\n[rank0]:step 1\n[rank0]:resumed\n[rank0]:step 1"
    assert Tidying().text(text) == text


@pytest.mark.parametrize(
    "line", ["RuntimeError: CUDA error: an illegal memory access", "[E419 10:42:28] Watchdog caught collective timeout"]
)
def test_lines_of_failures_are_kept_from_every_rank(line: str) -> None:
    text = "\n".join(f"[rank{rank}]:{line}" for rank in range(4))
    assert Tidying().text(text) == text


def test_a_line_long_ago_is_not_the_same_line() -> None:
    tidying = Tidying()
    tidying.text("[rank0]:begin")
    for number in range(2000):
        tidying.text(f"[rank0]:{number}")
    assert tidying.text("[rank1]:begin") == "[rank1]:begin"


def test_a_tag_holds_for_all_that_was_drawn_over_its_line() -> None:
    assert Tidying().lines("[rank0]:10%\r20%\r\n[rank1]:10%\r20%\r\nbare\r\n") == ["[rank0]:10%", "20%", "", "bare", ""]


def test_colours_and_blanks_at_ends_go() -> None:
    assert Tidying().text("\x1b[2K\x1b[1;32mstep 1\x1b[0m  \nplain \t") == "step 1\nplain"


def test_a_log_without_tags_is_given_as_it_is() -> None:
    text = "iter 1: loss 2\niter 1: loss 2\n12:30:00 same\n12:30:00 same"
    assert Tidying().text(text) == text
