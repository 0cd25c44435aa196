"""What tachograph-agent says to whoever mistypes: one line, the mistake, and what may have been meant."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest
from tachograph_agent.sidecar.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "there is no command 'chekc'; did you mean check?"),
        (["help"], "commands are check, exec, notice, run; more: tachograph-agent --help"),
        (["--colector", "x"], "there is no option --colector; did you mean --collector?"),
        (["--colector=x"], "there is no option --colector; did you mean --collector?"),
        (["check", "here"], "'here' is not expected here"),
        (["--encoding", "brotli"], "'brotli'"),
        (["exec", "torchrun", "train.py"], "write -- before the command: tachograph-agent exec [options] -- torchrun"),
        (["exec", "--rn", "a", "--", "true"], "there is no option --rn; did you mean --run?"),
        (["notice", "atempt.end"], "no kind of event; did you mean attempt.end?"),
        (["notice", "attempt.end", "--reson", "x"], "did you mean --reason?"),
        (["notice"], "required: KIND"),
    ],
)  # fmt: skip
def test_a_mistake_costs_one_line_that_says_what_may_have_been_meant(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(words)
    except SystemExit as end:  # as argparse ends
        status = end.code  # type: ignore[assignment]  # a number
    assert status == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert told.err.startswith("tachograph-agent")
    assert told.err.count("\n") == 1


def test_help_names_the_other_commands_and_cuts_no_option_in_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in ("60", "80", "97"):
        monkeypatch.setenv("COLUMNS", columns)
        with pytest.raises(SystemExit) as ended:
            main(["--help"])
        assert ended.value.code == 0
        told = capsys.readouterr().out
        assert "tachograph-agent exec [options] -- COMMAND" in told
        assert "tachograph-agent notice KIND" in told
        assert [line for line in told.splitlines() if re.search(r"\w-$", line)] == []
        assert "--token-file /etc/tachograph/token" in " ".join(told.split())


@pytest.mark.parametrize("words", [["--version"], ["check", "--version"]])
def test_version_is_the_packages(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tachograph-agent {version('tachograph')}\n"
