"""docs/reference.md is what the code says now, and every command of the agent explains itself, too."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import subprocess
import sys
from types import ModuleType

import click
import pytest
import tree
from click.testing import CliRunner
from commands import all_commands
from tachograph_collector.cli.main import cli


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", tree.REPOSITORY / "docs" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = _maker()


def test_the_reference_is_what_the_code_says_now() -> None:
    written = (tree.REPOSITORY / "docs" / "reference.md").read_text()
    assert written == MAKER.page(), "docs/reference.md is stale: make reference"


def test_the_reference_has_every_command_and_every_option() -> None:
    page = MAKER.page()
    for name, command in all_commands().items():
        if not name or command.hidden:
            continue
        assert f"\n## tachograph {name}\n" in page
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        told = page.partition(f"\n## tachograph {name}\n")[2].partition("\n## ")[0]
        assert [each.opts[0] for each in options if f"`{each.opts[0]}" not in told and each.opts[-1] not in told] == []


@pytest.mark.parametrize("made", MAKER.agents(), ids=lambda made: str(made.prog))
def test_the_agents_commands_have_an_example_and_describe_every_option(made: argparse.ArgumentParser) -> None:
    epilog = " ".join((made.epilog or "").split())
    assert epilog.startswith("Example")
    assert f": {made.prog} " in epilog
    assert [action.option_strings for action in made._actions if not action.help] == []


def example_lines() -> list[str]:
    """Every line of the commands' examples that begins with tachograph."""
    lines = []
    for name, command in all_commands().items():
        for line in (command.epilog or "").splitlines():
            words = line.strip()
            if name and words.startswith("tachograph "):
                lines.append(words)
    return lines


def _unknown(line: str) -> list[str]:
    """The options of an example that its command does not have."""
    words = shlex.split(line.split("|")[0].split(">")[0].split(", edit")[0], comments=True)
    commands = all_commands()
    named = next((" ".join(words[1:end]) for end in (3, 2) if " ".join(words[1:end]) in commands), "")
    if not named:
        return [line]
    known = {opt for each in commands[named].params for opt in (*each.opts, *each.secondary_opts)} | {"--help"}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize("line", example_lines())
def test_an_example_uses_a_command_and_options_that_there_are(line: str) -> None:
    assert _unknown(line) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_writes_what_that_shell_reads(shell: str) -> None:
    told = CliRunner().invoke(cli, ["completion", shell])
    assert told.exit_code == 0
    assert f"_TACHOGRAPH_COMPLETE={shell}_complete" in told.stdout


def test_bash_completes_commands_and_options() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tachograph_collector.cli.main import main; main()"],
        env={"_TACHOGRAPH_COMPLETE": "bash_complete", "COMP_WORDS": "tachograph replay --js", "COMP_CWORD": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,--json\n"
