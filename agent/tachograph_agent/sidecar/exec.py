"""``tachograph-agent exec -- COMMAND``: run a training command, and say how it ended where it can't say so itself.

Exit code, signal and OOM kill become a ``failure`` of the run; a clean exit is none. A signal to stop is forwarded, and
told at once as a planned ``attempt.end``: how the command then ends is no failure. Its exit status is ours. What can't
be recorded never keeps the command from running.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from tachograph_agent.identity import JOB_NAMES, RANKS, identify
from tachograph_agent.sidecar.oomkills import OomKills
from tachograph_agent.sidecar.parsing import Parser
from tachograph_agent.spool.layout import SPOOL_VARIABLE
from tachograph_agent.spool.notes import write_notes

FORWARDED = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU}
)
STOP_SIGNALS = "TERM,INT,HUP,QUIT,USR1,XCPU"
"""USR1 is what Slurm's ``--signal`` commonly sends ahead of a time limit; USR2 is left to mean something else."""
NOTICE_S = 900.0
"""A notice covers what ends within this; the ledger's rule."""
SENT_BY_KERNEL = 0x80
"""``si_code`` of a signal that a terminal sent: to the whole foreground group, so the command has it already."""
NOT_FOUND, NOT_RUNNABLE, TOLD_WRONGLY = 127, 126, 2

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended. ``returncode`` is negative for a signal; ``noticed_s`` ago it was told to stop."""

    returncode: int
    num_oom_kills: int = 0
    noticed_s: float | None = None

    @property
    def status(self) -> int:
        """The exit status to end with: the command's own, 128 and the number of a signal, as shells do."""
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    def failure(self) -> dict[str, Any] | None:
        """The fields of the ``failure`` that this is; None if it is none."""
        if self.returncode == 0 or (self.noticed_s is not None and self.noticed_s <= NOTICE_S):
            return None
        if self.returncode < 0:
            how: dict[str, Any] = {"signal": signal_name(-self.returncode)}
            words = f"ended by {how['signal']}"
        else:
            how = {"exit_code": self.returncode}
            words = f"ended with exit code {self.returncode}"
        category = "software" if -self.returncode in (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE) else "unknown"
        if self.num_oom_kills:
            category = "host"
            how["oom_kills"] = self.num_oom_kills
            words = f"out of host memory: the kernel killed {self.num_oom_kills} of its processes; {words}"
        return {"category": category, "detail": f"the command {words}", **how}


def main(arguments: Sequence[str]) -> int:
    """Run the command behind ``--``; gives its exit status."""
    try:
        options, command = _parse(arguments)
        stops = _stop_signals(options.stop_signals)
    except ValueError as error:
        sys.stderr.write(f"tachograph-agent exec: {error}\n")
        return TOLD_WRONGLY
    environment = dict(os.environ)
    fields = _prepare(options, command, environment)
    named = environment.get(SPOOL_VARIABLE, "").strip()
    is_off = environment.get("TACHOGRAPH", "").strip().lower() in ("off", "0", "false", "no")
    return run(command, environment, _teller(Path(named) if named and not is_off else None, fields), stops)


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    tell: Tell,
    stops: frozenset[signal.Signals],
    oom_kills: OomKills | None = None,
) -> int:
    """Run a command to its end, forwarding signals, and ``tell`` what is to be told; gives the exit status."""
    kills = oom_kills or OomKills.of_this_process()
    watched = FORWARDED | {signal.SIGCHLD}
    # Blocked, and waited for one by one: none is lost between the start of the command and the first look.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        try:
            child = subprocess.Popen(  # noqa: S603 - running what the user typed is what this is for
                list(command),
                env=dict(environment),
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509 - no threads here
            )
        except OSError as error:
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
            sys.stderr.write(f"tachograph-agent exec: {command[0]!r} can't be run: {error.strerror}\n")
            tell({"kind": "failure", "category": "software", "detail": f"{command[0]} can't be run: {error.strerror}"})
            return status
        ending = _wait(child, watched, tell, stops, kills)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    failure = ending.failure()
    if failure is not None:
        tell({"kind": "failure", **failure})
    return ending.status


def _wait(
    child: subprocess.Popen[bytes],
    watched: frozenset[signal.Signals],
    tell: Tell,
    stops: frozenset[signal.Signals],
    kills: OomKills,
) -> Ending:
    noticed_at_s: float | None = None
    while (returncode := _reap(child)) is None:
        info = signal.sigwaitinfo(watched)
        number = signal.Signals(info.si_signo)
        if number is signal.SIGCHLD:
            continue
        if info.si_code != SENT_BY_KERNEL:
            child.send_signal(number)
        if number in stops:
            if noticed_at_s is None:
                tell({"kind": "attempt.end", "planned": True, "reason": f"told to stop by {number.name}"})
            noticed_at_s = time.monotonic()
    noticed_s = None if noticed_at_s is None else time.monotonic() - noticed_at_s
    return Ending(returncode, kills.since(), noticed_s)


def _reap(child: subprocess.Popen[bytes]) -> int | None:
    """Take every child that has ended (as the first process of a container we inherit orphans); ours tells its end."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return child.returncode
        if pid == 0:
            return child.returncode
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)


def parser() -> argparse.ArgumentParser:
    """The parser of what stands before ``--``."""
    made = Parser(
        prog="tachograph-agent exec",
        usage="tachograph-agent exec [options] -- COMMAND [ARGUMENT ...]",
        description="Run a training command and record how it ends: exit code, signal, OOM kill, or a planned stop.",
        epilog="Example: tachograph-agent exec --run llama-70b -- torchrun train.py",
    )
    made.add_argument("--run", metavar="NAME", help="the run's name; set for the command as TACHOGRAPH_RUN")
    made.add_argument(
        "--attempt",
        metavar="NAME",
        help="the attempt's name, set as TACHOGRAPH_ATTEMPT; leave it out where a launcher restarts workers by itself",
    )
    made.add_argument("--node", metavar="NAME", help="this node's name; set as TACHOGRAPH_NODE")
    made.add_argument("--spool", metavar="DIR", help="where to record; set as TACHOGRAPH_SPOOL")
    made.add_argument(
        "--stop-signals",
        metavar="NAMES",
        default=STOP_SIGNALS,
        help=f"signals that mean a planned stop; all are forwarded (default: {STOP_SIGNALS})",
    )
    return made


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    told = list(arguments)
    at = told.index("--") if "--" in told else len(told)
    options, rest = parser().parse_known_args(told[:at])
    if at == len(told) and rest and not rest[0].startswith("-"):
        raise ValueError(f"write -- before the command: tachograph-agent exec [options] -- {' '.join(rest)}")
    options = parser().parse_args(told[:at])
    command = told[at + 1 :]
    if not command:
        raise ValueError("no command is given; write: tachograph-agent exec [options] -- torchrun train.py")
    return options, command


def _stop_signals(names: str) -> frozenset[signal.Signals]:
    known = {number.name.removeprefix("SIG"): number for number in FORWARDED}
    wanted = [name.strip().upper().removeprefix("SIG") for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ValueError(f"--stop-signals: {name!r} is none of {', '.join(sorted(known))}")
    return frozenset(known[name] for name in wanted)


def _prepare(options: argparse.Namespace, command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    """Put into the environment what the command's ranks and our own events then agree on; gives our fields.

    No attempt is put there unless it is told: a launcher that restarts workers makes several in one command. An event
    without one belongs to the attempt that runs at its time.
    """
    told = {
        "TACHOGRAPH_RUN": options.run,
        "TACHOGRAPH_ATTEMPT": options.attempt,
        "TACHOGRAPH_NODE": options.node,
        SPOOL_VARIABLE: options.spool,
    }
    environment.update({name: value for name, value in told.items() if value})
    if not environment.get("TACHOGRAPH_RUN"):
        environment["TACHOGRAPH_RUN"] = run_name(command, environment)
    me = identify(environment)
    has_rank = any(environment.get(name) for name in RANKS)
    return {
        "run": me.run,
        "attempt": environment.get("TACHOGRAPH_ATTEMPT") or None,
        "node": me.node,
        "rank": me.rank if has_rank else None,
    }


def run_name(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The name that the ranks would give the run themselves: the scheduler's job name, else their script's."""
    if any(environment.get(name) for name in JOB_NAMES):
        return identify(environment).run
    script = next((word for word in command if word.endswith(".py")), command[0])
    user = identify({**environment, "JOB_NAME": "x"}).run.rpartition("/")[0]
    return f"{user}/{PurePath(script).stem}"


def _teller(spool: Path | None, fields: Mapping[str, Any]) -> Tell:
    def tell(event: dict[str, Any]) -> None:
        if spool is None:
            return
        try:
            write_notes(spool, {"kind": event["kind"], **fields, **event, "t": round(time.time(), 6)})
        except OSError as error:
            sys.stderr.write(f"tachograph-agent exec: {event['kind']} is not recorded: {error}\n")

    return tell


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 60`` where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
