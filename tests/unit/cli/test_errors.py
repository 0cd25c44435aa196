"""Failures become one sentence and a documented exit code."""

from __future__ import annotations

import click
import pytest
from tachograph_collector.cli import errors


def failing(error: BaseException):
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (errors.BadInputError("x.log: empty"), 2, "tachograph: x.log: empty\n"),
        (errors.extra_missing("--html"), 3, "pip install 'tachograph[collector]'\n"),
        (KeyboardInterrupt(), 130, "tachograph: interrupted\n"),
        (
            FileNotFoundError(2, "No such file", "x"),
            2,
            "x: no such file; is the name right, and the folder you are in?\n",
        ),
        (OSError(28, "No space left"), 2, "standard output: no space left; make room, or name another place\n"),
    ],
)
def test_what_went_wrong_is_one_sentence_and_a_code(error, code, sentence, capsys) -> None:
    assert errors.guarded(failing(error)) == code
    told = capsys.readouterr().err
    assert told.endswith(sentence)
    assert told.count("\n") == 1
    assert code in errors.EXIT_CODES


def test_a_defect_says_where_it_is_and_can_not_be_taken_for_a_failed_gate(capsys, monkeypatch) -> None:
    monkeypatch.delenv(errors.DEBUG, raising=False)
    assert errors.guarded(failing(ZeroDivisionError("oops\nand more"))) == errors.DEFECT
    told = capsys.readouterr().err
    assert "(ZeroDivisionError: oops and more in test_errors.py, line " in told
    assert "report it" in told
    assert told.count("\n") == 1


def test_whoever_wants_to_see_the_traceback_of_a_defect_can(capsys, monkeypatch) -> None:
    monkeypatch.setenv(errors.DEBUG, "1")
    assert errors.guarded(failing(ZeroDivisionError("oops"))) == errors.DEFECT
    assert "Traceback" in capsys.readouterr().err


def test_a_command_that_returns_a_code_exits_with_it() -> None:
    assert errors.guarded(lambda: 1) == 1
    assert errors.guarded(lambda: None) == 0


def test_wrong_usage_says_how_to_get_help(capsys) -> None:
    context = click.Context(click.Command("replay"), info_name="tachograph replay")
    assert errors.guarded(failing(click.UsageError("No such option: --jsn", context))) == errors.BAD_INPUT
    assert "No such option: --jsn" in capsys.readouterr().err
