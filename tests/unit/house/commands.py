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
    context = click.Context(group, info_name="tachograph")
    found: dict[str, click.Command] = {"": group}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"'tachograph {name}' is listed and cannot be loaded"
        found[name] = command
    return found
