"""What ``make demo`` runs: makes the cluster, plays the story, shows what the collector made of it, and tidies up."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tachograph_collector.client import Client
from tachograph_collector.client.errors import ClientError

from demo.cluster import LOOK_EVERY_S, RUN, THRESHOLDS, BrokenDemoError, Collector
from demo.interrupt import Interrupt, InterruptedDemoError
from demo.story import Story
from demo.watch import Watch

BOOKED_WITHIN_S = 60.0
INTRODUCTION = """\
The page: {url}/   open it now, it is live

Tachograph watches a training go wrong: a collector, two nodes with an agent each, and eight processes that train a
small network in NumPy, all on this machine. It takes about a minute and a half, and ends by itself.

What is real: processes, training, checkpoints, faults, and every number below, which is the collector's answer.
What is not: the nodes are this one machine, each rank counts as one GPU at 2.5 an hour, and so that ninety seconds are
enough, detectors judge sooner than they would in earnest, by {thresholds}.
"""


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="run_demo.py", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the collector and its page up until Ctrl-C")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="where the report goes (default: demo-out)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it. Exit codes: 0 it went through; 1 it does not work here, and says why; 130, 143 interrupted."""
    asked = options(sys.argv[1:] if arguments is None else arguments)
    interrupt = Interrupt()
    try:
        with tempfile.TemporaryDirectory(prefix="tachograph-demo-", ignore_cleanup_errors=True) as folder:
            demo(Path(folder), asked.out, interrupt, keep=asked.keep)
    except (BrokenDemoError, ClientError, InterruptedDemoError) as error:
        if interrupt.signal is None:
            sys.exit(f"The demo does not work here: {error}")
        # Whatever failed then: a terminal's Ctrl-C also comes to the command that the demo just runs.
        print("\nInterrupted; everything that the demo started has ended.", file=sys.stderr)
        sys.exit(128 + interrupt.signal)


def demo(folder: Path, out: Path, interrupt: Interrupt, *, keep: bool) -> None:
    """The whole demo, with all that it needs in ``folder`` and what stays in ``out``. ``interrupt`` ends it early."""
    began_s = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began_s:4.0f} s  {line}", flush=True)

    collector = Collector(folder, interrupt.check)
    try:
        print(INTRODUCTION.format(url=collector.url, thresholds=_near(THRESHOLDS)), flush=True)
        with Client(collector.url) as client:
            watch = Watch(client, say)
            story = Story(folder, collector.url, watch, say, interrupt.check)
            try:
                story.play()
                _wait_for_books(client, interrupt)
                _sum_up(collector.url, watch, out)
                interrupt.check()
                if keep:
                    print(f"\nThe collector stays up until Ctrl-C: {collector.url}/", flush=True)
                    while interrupt.signal is None:
                        time.sleep(LOOK_EVERY_S)
                    print("\nEnded.", flush=True)
            finally:
                story.stop()
    finally:
        collector.stop()


def _wait_for_books(client: Client, interrupt: Interrupt) -> None:
    """Until what the ranks wrote last is booked."""
    until_s = time.monotonic() + BOOKED_WITHIN_S
    while client.run(RUN).summary().status != "completed":
        interrupt.check()
        if time.monotonic() > until_s:
            raise BrokenDemoError(f"the run was not booked to its end within {BOOKED_WITHIN_S:.0f} s")
        time.sleep(0.2)


def _sum_up(url: str, watch: Watch, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    report = out / "report.html"
    _tachograph(["show", RUN, "--no-judge"], url)
    _tachograph(["incidents"], url)
    _tachograph(["show", RUN, "--html", str(report)], url, is_shown=False)
    print(f"\n{'fault':<22} {'found as':<22} after")
    for fault in watch.faults:
        after = "-" if fault.after_s is None else f"{max(fault.after_s, 1):.0f} s"
        print(f"{fault.what:<22} {fault.by or 'not found in time':<22} {after}")
    print(f"\nThe report, one file that opens offline: {report.resolve()}", flush=True)


def _tachograph(words: Sequence[str], url: str, *, is_shown: bool = True) -> None:
    """Run a command as a reader would type it, and show it with what it says, unless told otherwise."""
    if is_shown:
        print(f"\n$ tachograph {' '.join(words)} --url {url}", flush=True)
    program = str(Path(sys.executable).with_name("tachograph"))
    ended = subprocess.run(
        [program, *words, "--url", url], check=False, stdout=None if is_shown else subprocess.DEVNULL
    )
    if ended.returncode:
        raise BrokenDemoError(f"tachograph {words[0]} ended with {ended.returncode}")


def _near(path: Path) -> Path:
    """The path as seen from here, where it is below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
