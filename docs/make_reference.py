"""Writes docs/reference.md from the commands themselves: ``make reference``. A test fails where it is stale."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from tachograph_agent.sidecar import exec as wrapper
from tachograph_agent.sidecar import notice_command
from tachograph_agent.sidecar.main import parser as agents_parser
from tachograph_collector.cli.errors import EXIT_CODES, EXIT_CODES_HELP
from tachograph_collector.cli.main import cli
from tachograph_collector.cli.remote import HELP as REMOTE_HELP

PAGE: Final = Path(__file__).with_name("reference.md")
HEAD: Final = """# Every command and option

Made from the code by `make reference`; `--help` says the same. [The glossary](glossary.md) has the words,
[replay.md](replay.md), [agent.md](agent.md), [collector.md](collector.md) and [client.md](client.md) say more.
"""
_HELP_OPTIONS: Final = {"help", "version"}


def page() -> str:
    """The whole page."""
    parts = [HEAD, *_exit_codes(), *_environment()]
    for words, command in commands(cli, click.Context(cli, info_name="tachograph")):
        parts += _click(words, command)
    for made in agents():
        parts += _argparse(made)
    return "\n".join(parts).rstrip("\n") + "\n"


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Context]]:
    """Every command by what one types, groups before what is in them."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        below = click.Context(command, info_name=name, parent=context)
        yield below.command_path, below
        if isinstance(command, click.Group):
            yield from commands(command, below)


def agents() -> list[argparse.ArgumentParser]:
    """The parsers of ``tachograph-agent`` and its commands."""
    return [agents_parser("run"), agents_parser("check"), wrapper.parser(), notice_command.parser()]


def _exit_codes() -> list[str]:
    rows = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    return ["## Exit codes", "", "| code | of `tachograph` |", "| --- | --- |", *rows, ""]


def _environment() -> list[str]:
    told = " ".join(REMOTE_HELP.split())
    return ["## Which collector", "", f"Commands that ask a collector have the same three options. {told}", ""]


def _click(words: str, context: click.Context) -> list[str]:
    command = context.command
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    parts = [f"## {words}", "", "```text", usage, "```", "", *_prose(command.help or "")]
    rows = [
        param.get_help_record(context)
        for param in command.params
        if isinstance(param, click.Option) and param.name not in _HELP_OPTIONS
    ]
    parts += _table((record[0], record[1]) for record in rows if record is not None)
    return parts + _epilog(command.epilog or "")


def _argparse(made: argparse.ArgumentParser) -> list[str]:
    usage = [line.strip() for line in made.format_usage().removeprefix("usage: ").splitlines()]
    parts = [f"## {made.prog}", "", "```text", *usage, "```", "", *_prose(made.description or "")]
    rows = []
    for action in made._actions:  # noqa: SLF001 - argparse has no public list of them
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:  # noqa: SLF001 - no public name
            continue
        words = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
        takes = action.option_strings and action.nargs != 0 and value
        rows.append((f"{words} {value}" if takes else words, (action.help or "").replace("%%", "%")))
    parts += _table(rows)
    return parts + _prose(made.epilog or "")


def _prose(text: str) -> list[str]:
    """Paragraphs of a help text, each on one line of its own."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\b\n", "")))
    return [line for each in paragraphs if each.strip() for line in (_escaped(" ".join(each.split())), "")]


def _table(rows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> list[str]:
    lines = [f"| `{_cell(option)}` | {_cell(_escaped(' '.join(told.split())))} |" for option, told in rows]
    return ["| option | |", "| --- | --- |", *lines, ""] if lines else []


def _epilog(epilog: str) -> list[str]:
    """Its examples as a block, the rest as paragraphs; what holds for all commands is told once, above."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", epilog.replace("\b\n", "").strip("\n")):
        words = " ".join(block.split())
        if not words or words in {" ".join(EXIT_CODES_HELP.split()), " ".join(REMOTE_HELP.split())}:
            continue
        first, _, rest = block.partition("\n")
        if first.strip() in {"Example:", "Examples:"} and rest:
            parts += ["```text", *(line.strip() for line in rest.splitlines()), "```", ""]
        else:
            parts += [_escaped(words), ""]
    return parts


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>\[\]])", r"\\\1", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"{PAGE} written\n")
