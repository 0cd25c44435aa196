"""``tachograph-agent``: follow the spool, ship it, and say what a process can't say itself.

Nothing is imported before it is known to be needed: ``--help``, ``exec`` and ``notice`` start at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tachograph_agent.sidecar.config import Config
    from tachograph_agent.sidecar.parsing import Parser

COMMANDS = ("run", "check")
EXAMPLES = {
    "run": "Example: tachograph-agent --collector https://collector.example:8420 --token-file /etc/tachograph/token"
    "\n\nOther commands, each with its --help: 'check' says what the agent can see and reach here, with advice; "
    "'exec -- COMMAND' runs a training command and records how it ends; 'notice KIND' puts one event into the spool.",
    "check": "Example: tachograph-agent check --collector https://collector.example:8420"
    "\n\nExits with 1 if something keeps the agent from its work. 'tachograph doctor' looks at more.",
}
USAGES = {
    "run": "tachograph-agent [options]\n"
    "       tachograph-agent check [options]\n"
    "       tachograph-agent exec [options] -- COMMAND [ARGUMENT ...]\n"
    "       tachograph-agent notice KIND [options]",
    "check": "tachograph-agent check [options]",
}
OWN_OPTIONS = {"exec": "tachograph_agent.sidecar.exec", "notice": "tachograph_agent.sidecar.notice_command"}
"""Commands that are no agent: they have options of their own, and are imported when they are asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status: 0 done, 1 found wanting, 2 told wrongly or already running."""
    told = list(sys.argv[1:] if arguments is None else arguments)
    if told and told[0] in OWN_OPTIONS:
        return int(import_module(OWN_OPTIONS[told[0]]).main(told[1:]))
    command = told.pop(0) if told and not told[0].startswith("-") else "run"
    if command not in COMMANDS:
        from tachograph_agent.sidecar.parsing import did_you_mean

        known = sorted([*COMMANDS, *OWN_OPTIONS])
        sys.stderr.write(
            f"tachograph-agent: there is no command {command!r}{did_you_mean(command, known)} "
            f"(commands are {', '.join(known)}; more: tachograph-agent --help)\n"
        )
        return 2
    config = _config(command, told)
    if isinstance(config, int):
        return config
    if command == "check":
        from tachograph_agent.sidecar import check

        return check.main(config)
    from tachograph_agent.sidecar import agent

    return agent.run(config)


def parser(command: str) -> Parser:
    """The parser of ``run`` and ``check``."""
    from tachograph_agent.sidecar.config import add_options
    from tachograph_agent.sidecar.parsing import Parser, Version

    made = Parser(
        prog="tachograph-agent" if command == "run" else f"tachograph-agent {command}",
        usage=USAGES[command],
        description="Ship what the training processes of this node record to a collector."
        if command == "run"
        else "Say what the agent can see and reach on this node, with advice.",
        epilog=EXAMPLES[command],
    )
    made.add_argument("--version", action=Version)
    add_options(made)
    return made


def _config(command: str, told: list[str]) -> Config | int:
    from tachograph_agent.sidecar.config import ConfigError, parse

    try:
        config = parse(told, parser(command))
    except ConfigError as error:
        sys.stderr.write(f"tachograph-agent: {error}\n")
        return 2
    if command == "run" and not config.collector:
        sys.stderr.write("tachograph-agent: no collector is named: give --collector URL, or set TACHOGRAPH_COLLECTOR\n")
        return 2
    return config


if __name__ == "__main__":
    sys.exit(main())
