"""Every command explains itself: a sentence, an example, described options, a mention in the docs."""

from __future__ import annotations

import click
import pytest
import tree
from commands import all_commands


def shortcomings(name: str, command: click.Command, docs: str) -> list[str]:
    """What a command leaves unsaid, one sentence each."""
    found = []
    text = "\n".join(filter(None, [command.help, command.epilog]))
    if not (command.help or "").strip():
        found.append(f"tachograph {name}: no help text")
    if f"tachograph {name}" not in text:
        found.append(f"tachograph {name}: its help shows no example")
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    found += [f"tachograph {name}: {option.opts[0]} is not described" for option in options if not option.help]
    if f"tachograph {name}" not in docs:
        found.append(f"tachograph {name}: no page mentions it")
    return found


def test_every_command_has_help_with_an_example_and_a_page() -> None:
    docs = "\n".join(page.read_text() for page in tree.pages())
    commands = {name: command for name, command in all_commands().items() if name and not command.hidden}
    assert "replay" in commands
    assert [line for name, command in commands.items() for line in shortcomings(name, command, docs)] == []


def test_a_command_that_explains_itself_has_no_shortcomings() -> None:
    option = click.Option(["--json"], help="Machine-readable.")
    command = click.Command("weigh", help="Weigh a log.\n\nExample: tachograph weigh LOG", params=[option])
    assert shortcomings("weigh", command, "Type `tachograph weigh LOG`.") == []


@pytest.mark.parametrize(
    ("command", "docs", "expected"),
    [
        (click.Command("weigh", epilog="tachograph weigh LOG"), "tachograph weigh", "no help text"),
        (click.Command("weigh", help="Weigh a log."), "tachograph weigh", "shows no example"),
        (click.Command("weigh", help="Weigh: tachograph weigh LOG"), "", "no page mentions it"),
        (
            click.Command("weigh", help="Weigh: tachograph weigh LOG", params=[click.Option(["--raw"])]),
            "tachograph weigh",
            "--raw is not described",
        ),
    ],
)
def test_what_a_command_leaves_unsaid_is_named(command: click.Command, docs: str, expected: str) -> None:
    assert [line.removeprefix("tachograph weigh: ") for line in shortcomings("weigh", command, docs)] in (
        [expected],
        [f"its help {expected}"],
    )
