"""The commands of ``tachograph`` as click knows them, lazily loaded ones included."""

from __future__ import annotations

import click
from tachograph_collector.cli import main as entry


def _group() -> click.Group:
    groups = [value for value in vars(entry).values() if isinstance(value, click.Group)]
    assert len(groups) == 1, f"tachograph_collector.cli.main holds {len(groups)} click groups; expected the one"
    return groups[0]


def all_commands() -> dict[str, click.Command]:
    """Every command by what one types after ``tachograph``; the group itself under the empty name."""
    group = _group()
    return {"": group} | _below(group, click.Context(group, info_name="tachograph"), "")


def _below(group: click.Group, context: click.Context, prefix: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        full = prefix + name
        assert command is not None, f"'tachograph {full}' is listed and cannot be loaded"
        found[full] = command
        if isinstance(command, click.Group):
            found |= _below(command, click.Context(command, info_name=name, parent=context), f"{full} ")
    return found
