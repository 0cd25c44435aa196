"""``tachograph rehearse``: faults played into a live collector, and what it found of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli import detecting
from tachograph_collector.cli.errors import (
    EXIT_CODES_HELP,
    GATE_FAILED,
    BadInputError,
    DefectError,
    ExtraMissingError,
    extra_missing,
)
from tachograph_collector.cli.remote import told
from tachograph_collector.report.text import visible

if TYPE_CHECKING:
    from tachograph_agent.events import AnyEvent

    from tachograph_collector.client import Client
    from tachograph_collector.rehearse.scenario import Scenario

_NEEDED: Final = ("fastapi", "uvicorn", "sqlalchemy", "numpy")
ALL: Final = "all"
AGAIN_AFTER_S: Final = 5.0
"""A rehearsal that goes on forever outlives a collector that is away."""

_EPILOG = f"""\b
Examples:
  tachograph rehearse
  tachograph rehearse --fault node-death@30s:node=n2 --fault loss-spike@90s:height=2
  tachograph rehearse --url https://tachograph.example --token-file token --json
  tachograph rehearse --log run.jsonl --speed 30
  tachograph rehearse --list

Exit code 1 says that something was not detected, or that something was said that nothing explains.

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--fault",
    "faults",
    metavar="FAULT",
    multiple=True,
    help="NAME[@TIME][:KEY=VALUE,...], may be repeated: all in one run. Without it, or as 'all': the drill.",
)
@click.option("--list", "as_list", is_flag=True, help="List the faults and what each takes, and end.")
@click.option("--log", metavar="FILE", help="Play this recorded run, not a made-up one.")
@click.option("--speed", type=click.FloatRange(0.01, 10_000), default=1.0, help="With --log: so many times as fast.")
@click.option("--format", "format_name", metavar="NAME", help="With --log: read it as this format.")
@click.option("--run", "run_name", metavar="NAME", help="Name of the run, or what the drill's names begin with.")
@click.option("--nodes", "num_nodes", type=click.IntRange(1, 1024), default=4, help="Nodes of a run. Without it: 4.")
@click.option("--ranks", type=click.IntRange(1, 64), default=2, help="Ranks of a node. Without it: 2.")
@click.option("--step", "step_s", type=click.FloatRange(0.05, 600), default=0.5, help="Seconds of a step, 0.5.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, help="Another seed makes other noise.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@click.option("--keep", is_flag=True, help="Without --url: leave the collector running when all is told, until Ctrl-C.")
@click.option(
    "--forever", is_flag=True, help="One run after the other until Ctrl-C; without --fault, each with a tour of faults."
)
@click.option("--thresholds", metavar="FILE", help="Without --url: TOML file with thresholds for the collector.")
@click.option(
    "--url", metavar="URL", help="The collector. Without it one is started, on a database that is thrown away."
)
@click.option("--token-file", metavar="FILE", help="A file with the token; without it TACHOGRAPH_TOKEN.")
@click.option("--ca-file", metavar="FILE", help="Certificates to trust, in PEM.")
def rehearse(
    faults: tuple[str, ...],
    as_list: bool,
    log: str | None,
    speed: float,
    format_name: str | None,
    run_name: str | None,
    num_nodes: int,
    ranks: int,
    step_s: float,
    seed: int,
    as_json: bool,
    keep: bool,
    forever: bool,
    thresholds: str | None,
    url: str | None,
    token_file: str | None,
    ca_file: str | None,
) -> int:
    """Play faults into a live collector and say what it detected, how soon, and what it did not.

    Made-up runs are sent as agents would send them, in real time: detectors wait as long as they would for a real run.
    They are marked as rehearsals, so they count in no total and page nobody. Without --fault every fault is played,
    each in a run of its own, all at once; that takes about three minutes.
    """
    if any(find_spec(package) is None for package in _NEEDED):
        raise extra_missing("tachograph rehearse")
    if as_list:
        click.echo(_faults_listed(), nl=False)
        return 0
    if keep and url is not None:
        raise BadInputError("--keep is for the collector that is started here; leave it out with --url")

    if thresholds is not None:
        if url is not None:
            raise BadInputError("--thresholds is for the collector that is started here; leave it out with --url")
        detecting.read_thresholds(thresholds)
    options = [] if thresholds is None else ["--thresholds", thresholds]

    from tachograph_collector.client import AwayError
    from tachograph_collector.rehearse.own_collector import OwnCollector, OwnCollectorError
    from tachograph_collector.rehearse.rehearsal import RehearsalError
    from tachograph_collector.rehearse.rehearsal import rehearse as play
    from tachograph_collector.rehearse.words import as_json as in_json
    from tachograph_collector.rehearse.words import table

    if log is None and (speed != 1.0 or format_name is not None):
        raise BadInputError("--speed and --format are for a recorded run; give --log FILE, or --step for faster steps")
    read = None if log is None else _read(log, format_name)
    made = _Made(faults, num_nodes, ranks, step_s, read, speed, is_tour=forever)
    prefix = run_name or f"rehearsal-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}"
    began_s = time.monotonic()
    planned = made.scenarios(prefix, seed)  # what can't be is refused before anything is started
    for note in (note for scenario in planned for note in scenario.notes):
        _say(note)
    made = replace(made, ahead_s=time.monotonic() - began_s)
    with ExitStack() as stack, _ended_by_sigterm(), told():
        try:
            if url is None:
                where = stack.enter_context(OwnCollector(options)).url
                click.echo(f"started a collector of its own at {where}", err=True)
            else:
                where = url
            client = stack.enter_context(_client(where, None if url is None else token_file, ca_file, own=url is None))
            if not forever:
                client.runs(limit=1)  # sending is patient with a collector that is away; here it is said at once
            again = 0
            while True:
                name = prefix if not again else f"{prefix}-{again + 1}"
                try:
                    outcome = play(client, made.scenarios(name, seed + again), _say)
                except AwayError as error:
                    if not forever:
                        raise
                    _say(f"{error}; trying again")
                    time.sleep(AGAIN_AFTER_S)
                else:
                    click.echo(in_json(outcome) if as_json else table(outcome), nl=False)
                    sys.stdout.flush()
                    if not forever:
                        break
                again += 1
            if keep:
                click.echo(f"the collector stays at {where} until Ctrl-C", err=True)
                _wait_for_the_end()
        except (OwnCollectorError, RehearsalError) as error:
            raise BadInputError(str(error)) from error
    return 0 if outcome.is_good else GATE_FAILED


@dataclass(frozen=True)
class _Made:
    """What is played, as the command line asks for it."""

    faults: tuple[str, ...]
    num_nodes: int
    ranks: int
    step_s: float
    log: Sequence[AnyEvent] | None
    speed: float
    is_tour: bool = False
    ahead_s: float = 0.0
    """How long it takes to make them: they begin when that is done."""

    def scenarios(self, name: str, seed: int) -> list[Scenario]:
        """The runs, beginning now. Raises ``BadInputError`` for what can't be."""
        from tachograph_collector.rehearse import scenario
        from tachograph_collector.rehearse.spelling import SpellingError, fault_from
        from tachograph_collector.synthetic import Recording, SyntheticError

        now_s = time.time() + self.ahead_s
        cluster = scenario.cluster_for(
            name, now_s, num_nodes=self.num_nodes, ranks_per_node=self.ranks, step_s=self.step_s
        )
        words = [] if self.faults == (ALL,) else list(self.faults)
        if self.is_tour and not self.faults and self.log is None:
            words = list(scenario.TOUR)
        if ALL in words:
            raise BadInputError("--fault all is the whole drill; leave out the others, or leave out 'all'")
        try:
            read = [fault_from(word, scenario.WARM_S) for word in words]
            if self.log is not None:
                recording = Recording(self.log, read, run=name, start_unix_seconds=now_s, speed=self.speed, seed=seed)
                return [scenario.recorded(recording)]
            if not read:
                return scenario.drill(cluster, seed)
            if any(fault.name == "collector-pause" for fault in read):
                raise BadInputError(
                    "--fault collector-pause: a collector can't be made to pause from outside; restart it while a "
                    "rehearsal without it runs"
                )
            return scenario.one(read, cluster, seed)
        except SpellingError as error:
            raise BadInputError(f"--{error}") from error
        except SyntheticError as error:
            raise BadInputError(f"{'--log' if self.log is not None and not read else '--fault'}: {error}") from error


def _read(log: str, format_name: str | None) -> list[AnyEvent]:
    """The events of the one run that the log holds."""
    from tachograph_agent.trainers.containment import AdapterError
    from tachograph_agent.trainers.files import MissingExtraError, ReadingError
    from tachograph_agent.trainers.reading import open_log

    try:
        events = [event for batch in open_log([log], format=format_name).batches() for event in batch]
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except AdapterError as error:
        raise DefectError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    runs = list(dict.fromkeys(event.run for event in events))
    if len(runs) > 1:
        named = ", ".join(visible(name, 40) for name in runs[:5])
        raise BadInputError(f"--log {log}: there are {len(runs)} runs in it ({named}); give a log of one")
    return events


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


def _client(url: str, token_file: str | None, ca_file: str | None, *, own: bool) -> Client:
    from tachograph_collector.client import Client

    return Client(url, token="") if own else Client(url, token_file=token_file, ca_file=ca_file)


def _faults_listed() -> str:
    from tachograph_collector.rehearse.words import faults_listed

    return faults_listed()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, so that what was started is ended too."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait_for_the_end() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return
