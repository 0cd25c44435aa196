"""The group of commands: quick to explain itself, since nothing is imported that isn't called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tachograph_collector.cli.errors import EXIT_CODES
from tachograph_collector.cli.main import COMMANDS, cli


def test_help_imports_no_command_and_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from tachograph_collector.cli.main import cli\n"
        "try: cli.main(['--help'], prog_name='tachograph')\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('rich', 'msgspec', 'pandas', 'numpy')"
        " or m.startswith('tachograph_collector.cli.replay')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert "replay" in done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_table_of_commands_says_what_the_commands_say(name: str) -> None:
    command = cli.get_command(None, name)
    assert command is not None
    assert command.help.splitlines()[0] == COMMANDS[name][1]


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS)])
def test_every_help_shows_an_example_and_the_exit_codes(words: list[str]) -> None:
    told = CliRunner().invoke(cli, [*words, "--help"], prog_name="tachograph")
    assert told.exit_code == 0
    assert "Example" in told.output
    for meaning in EXIT_CODES.values():
        assert meaning in " ".join(told.output.split())


def test_version_names_the_program() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output.startswith("tachograph ")


def test_a_command_that_does_not_exist_is_wrong_usage() -> None:
    told = CliRunner().invoke(cli, ["repaly"])
    assert told.exit_code == 2
    assert "No such command 'repaly'. Did you mean 'tachograph replay'?" in told.output


def test_a_log_without_a_command_is_told_which_command_reads_it(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("")
    told = CliRunner().invoke(cli, [str(log)])
    assert told.exit_code == 2
    assert f"Did you mean 'tachograph replay {log}'?" in told.output


def test_formats_lists_the_event_log_first_and_every_adapter() -> None:
    told = CliRunner().invoke(cli, ["formats"])
    assert told.exit_code == 0
    assert told.output.startswith("events ")
    assert "\nnanogpt " in told.output


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("logs/trian.log", "logs/trian.log: no such file or directory; did you mean logs/train.log?"),
        ("lgos/train.log", "lgos/train.log: no such file or directory; did you mean logs?"),
        ("elsewhere/train.log", "elsewhere/train.log: no such file or directory; there is no elsewhere"),
        ("logs/else", "logs/else: no such file or directory"),
    ],
)
def test_a_log_that_is_not_there_is_told_with_what_may_be_meant(
    typed: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_text("")
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "from tachograph_collector.cli.main import main; main()", "replay", typed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"tachograph: {says}\n")
