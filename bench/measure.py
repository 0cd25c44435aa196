"""Measuring commands: processor time, wall-clock time and peak memory of child processes, in interleaved rounds.

Ratios within one run are what counts: A B A B ..., so that a machine that slows down slows both. Noise only ever adds
time, so figures are judged by the least of each; the medians stand beside them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
TACHOGRAPH = [sys.executable, "-c", "from tachograph_collector.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a command took, in seconds."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Costs:
    """What several runs of a command took."""

    runs: Sequence[Cost]

    @property
    def cpu_s(self) -> float:
        """The least processor time, user and system."""
        return min(run.cpu_s for run in self.runs)

    @property
    def median_cpu_s(self) -> float:
        """The median processor time."""
        return median(run.cpu_s for run in self.runs)

    @property
    def wall_s(self) -> float:
        """The least time by the clock on the wall."""
        return min(run.wall_s for run in self.runs)

    @property
    def median_wall_s(self) -> float:
        """The median time by the clock on the wall."""
        return median(run.wall_s for run in self.runs)


def environment(scratch: Path) -> dict[str, str]:
    """The children's environment: compiled modules are kept, as after any installation, and output is buffered."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPYCACHEPREFIX": str(scratch / "pycache")}


def run(command: Sequence[str], scratch: Path) -> Cost:
    """Run a command to its end; raises ``CalledProcessError`` if it fails: a wrong answer is quick."""
    with (scratch / "stderr").open("wb") as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment(scratch))
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, stderr=(scratch / "stderr").read_text())
    return Cost(usage.ru_utime + usage.ru_stime, wall_s)


def interleaved(commands: Mapping[str, Sequence[str]], rounds: int, scratch: Path) -> dict[str, Costs]:
    """Each command once to warm up, then all of them in turn, ``rounds`` times."""
    for command in commands.values():
        run(command, scratch)
    runs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(run(command, scratch))
    return {name: Costs(costs) for name, costs in runs.items()}


def peak_bytes(arguments: Sequence[str], scratch: Path) -> int:
    """Peak resident memory of ``tachograph`` with these arguments; without any, of an interpreter that does nothing.

    The child tells it itself: what the kernel tells a parent includes the parent's own size before the exec.
    """
    child = subprocess.run(
        [sys.executable, str(HERE / "peak.py"), *arguments],
        env=environment(scratch),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
        text=True,
    )
    return int(child.stderr.split()[-1])


def machine() -> str:
    """One line that says on what it was measured."""
    name = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = found[0] if found else name
    version = ".".join(map(str, sys.version_info[:3]))
    load = f"; load average at the start {os.getloadavg()[0]:.1f}"
    return f"{sys.platform}, {os.cpu_count()} cores of {name}, Python {version}{load}"


def timed(work: Callable[[], object]) -> float:
    """Seconds that a call took in this process."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
