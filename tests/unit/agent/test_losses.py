"""What is lost is told to the runs that it was of."""

from __future__ import annotations

from tachograph_agent.sidecar.losses import Loss, losses


def test_each_run_has_its_count_and_the_times_of_its_first_and_last() -> None:
    lines = b'{"run":"b","t":5}\n{"run":"a","t":3}\n{"run":"b","t":1.5}\n'
    assert losses(lines) == [Loss("a", 1, 3.0, 3.0), Loss("b", 2, 1.5, 5.0)]


def test_lines_without_a_run_are_a_loss_of_their_own() -> None:
    assert losses(b'{"t":2}\n{"run":"a"}\n[1]\n{"run":7,"t":true}\n') == [Loss("a", 1), Loss(None, 3, 2.0, 2.0)]


def test_line_that_is_no_json_is_told_to_the_run_that_it_names() -> None:
    lines = b'{"kind":"step","run":"lab/\\"x\\"","t":NaN}\n{"run":"cut\n{"run":"\\q","t":NaN}\n'
    assert losses(lines) == [Loss('lab/"x"', 1), Loss(None, 2)]


def test_nothing_lost_is_no_loss() -> None:
    assert losses(b"") == []
