"""``tachograph``: the group of commands. A command's module is imported when that command is called, not before."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from tachograph_collector.cli import errors

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "replay": ("tachograph_collector.cli.replay:replay", "Say where the time of a recorded run went."),
    "outages": (
        "tachograph_collector.cli.outages:outages",
        "Say what a table of outages tells: how often, what, how long; the rest stays unknown.",
    ),
    "tune": (
        "tachograph_collector.cli.tune:tune",
        "Show what a recorded run's detectors say under other thresholds, beside what they say now.",
    ),
    "diff": ("tachograph_collector.cli.diff:diff", "Show two runs side by side."),
    "plan": (
        "tachograph_collector.cli.plan:plan",
        "Say how often to save, what goodput to expect, and what each step of engineering would buy.",
    ),
    "doc": ("tachograph_collector.cli.doc:doc", "Write the fault-tolerance design document of a plan, in Markdown."),
    "collector": (
        "tachograph_collector.cli.collector:collector",
        "Take what agents send, keep it durably, book every minute of each run, and serve the books.",
    ),
    "token": ("tachograph_collector.cli.token:token", "Make, list and revoke the tokens that a collector asks for."),
    "db": (
        "tachograph_collector.cli.db:db",
        "Upgrade, check and prune a collector's database, book a run anew, or let Grafana read it.",
    ),
    "sinks": (
        "tachograph_collector.cli.sinks:sinks",
        "List where a collector's incidents go, and try whether a sink takes one.",
    ),
    "deliveries": (
        "tachograph_collector.cli.deliveries:deliveries",
        "List what sinks were told of incidents, what they are still to be told, and what was given up.",
    ),
    "ls": ("tachograph_collector.cli.ls:ls", "List the runs of a collector."),
    "show": ("tachograph_collector.cli.show:show", "Say where the time of a collector's run went."),
    "fleet": (
        "tachograph_collector.cli.fleet:fleet",
        "Say what all runs of a collector came to, in GPU-hours and money.",
    ),
    "nodes": ("tachograph_collector.cli.nodes:nodes", "Rank nodes by what is held against them over runs."),
    "watch": ("tachograph_collector.cli.watch:watch", "Watch a run of a collector until it ends."),
    "incidents": ("tachograph_collector.cli.incidents:incidents", "List what a collector flagged."),
    "incident": (
        "tachograph_collector.cli.incident:incident",
        "Look at one incident of a collector, say that somebody is on it, or add a note.",
    ),
    "silence": (
        "tachograph_collector.cli.silence:silence",
        "Say of which incidents nobody is to be told for a while, list that, and take it back.",
    ),
    "export": ("tachograph_collector.cli.export:export", "Write a run of a collector to a file."),
    "rehearse": (
        "tachograph_collector.cli.rehearse:rehearse",
        "Play faults into a live collector and say what it detected, how soon, and what it did not.",
    ),
    "doctor": (
        "tachograph_collector.cli.doctor:doctor",
        "Say what is missing or misconfigured on this machine, in this environment, at a collector.",
    ),
    "completion": (
        "tachograph_collector.cli.completion:completion",
        "Write what makes a shell complete commands and options.",
    ),
    "formats": ("tachograph_collector.cli.formats:formats", "List the log formats that can be read."),
}
"""By name: where the command is, and what its first line of help says (so that --help imports none of them)."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, and turns every failure into a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order in which the table has them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        try:
            command = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if (error.name or "tachograph").startswith("tachograph"):
                raise  # a defect of ours, no package that an extra brings
            raise errors.extra_missing(f"tachograph {cmd_name}") from error
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; of a word that names none, what may have been meant."""
        word = args[0]
        if not word.startswith("-") and word not in COMMANDS:
            near = get_close_matches(word, COMMANDS, 1, 0.6)
            meant = f"'tachograph {near[0]}'" if near else ""
            if os.path.exists(word):  # noqa: PTH110 - pathlib is not imported for this
                meant = f"'tachograph replay {word}'"
            hint = f"Did you mean {meant}?" if meant else "'tachograph --help' lists them."
            raise click.UsageError(f"No such command {word!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """The table of commands, from the names alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise errors.ReaderGoneError from error

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run a command line and exit with its code."""
        extra["standalone_mode"] = False
        sys.exit(errors.guarded(lambda: click.Group.main(self, args, prog_name, **extra)))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExample:\n  tachograph replay run.jsonl\n\n{errors.EXIT_CODES_HELP}",
)
@click.version_option(package_name="tachograph", message="tachograph %(version)s")
def cli() -> None:
    """Where the time of a training run went, minute by minute: kept, checkpoint, lost or restart."""


def main() -> None:
    """The ``tachograph`` program. Where standard output is closed, what would go there goes nowhere."""
    if sys.stdout is None:  # the standard library's word for a descriptor that is closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - open until the end
    cli.main(prog_name="tachograph")
