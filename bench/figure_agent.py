"""The agent: processor and memory beside eight ranks, and how fast it ships a backlog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from figure import Figure, Row, Setting
from measure import environment
from tachograph_agent import Recorder

MOST_CORE = 0.015
MOST_BYTES = 60e6
LEAST_EVENTS_PER_S = 100_000
NUM_RANKS = 8
STEPS_PER_S = 10
START_S = 5.0
COLLECTOR = Path(__file__).parent / "quick_collector.py"

RANK = """
import sys, time
from tachograph_agent import Recorder
recorder = Recorder(run="bench/run", attempt=1, rank=int(sys.argv[1]))
for number in range(1, 10**9):
    recorder.step_done(number, loss=2.5)
    time.sleep(0.1)
"""


def measure(setting: Setting) -> Figure:
    """Steady load, then a backlog, against a collector that answers at once."""
    with subprocess.Popen([sys.executable, str(COLLECTOR)], stdout=subprocess.PIPE, text=True) as collector:
        try:
            assert collector.stdout is not None
            url = f"http://127.0.0.1:{int(collector.stdout.readline())}"
            core, resident_bytes, seconds = _beside_ranks(setting, url, 10.0 if setting.quick else 60.0)
            number = 100_000 if setting.quick else 1_000_000
            rate, size = _backlog(setting, url, number)
        finally:
            collector.kill()
    return Figure(
        "Agent",
        f"`tachograph-agent` beside {NUM_RANKS} processes with {STEPS_PER_S} steps a second each, metrics served: "
        f"processor time over {seconds:.0f} s, begun {START_S:.0f} s after its start, and the most resident memory, as "
        f"the kernel counts them. Then a spool of {number} step events ({size / number:.0f} bytes each), from the "
        "agent's start until the spool is confirmed and deleted, against a collector in another process.",
        [
            Row("processor", f"{core * 100:.2f} % of a core", f"< {MOST_CORE * 100:g} %", core < MOST_CORE),
            Row(
                "resident memory",
                f"{resident_bytes / 1e6:.0f} MB",
                f"< {MOST_BYTES / 1e6:.0f} MB",
                resident_bytes < MOST_BYTES,
            ),
            Row("backlog", f"{rate:,.0f} events/s", f"≥ {LEAST_EVENTS_PER_S:,}", rate >= LEAST_EVENTS_PER_S),
        ],
        "One batch is on its way at a time, written down with a sync before it is sent.",
    )


def _agent(setting: Setting, spool: Path, url: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "import sys; from tachograph_agent.sidecar.main import main; sys.exit(main())"]
    return subprocess.Popen(
        [*command, "--spool", str(spool), "--collector", url, *options],
        env=environment(setting.scratch),
        stderr=subprocess.DEVNULL,
    )


def _beside_ranks(setting: Setting, url: str, seconds: float) -> tuple[float, int, float]:
    spool = setting.scratch / "steady"
    spool.mkdir()
    child_environment = {**environment(setting.scratch), "TACHOGRAPH_SPOOL": str(spool)}
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(n)], env=child_environment) for n in range(NUM_RANKS)]
    agent = _agent(setting, spool, url, "--metrics", "127.0.0.1:0")
    time.sleep(START_S)
    begin_s = time.monotonic()
    before_s, _ = _used(agent.pid)
    time.sleep(seconds)
    took_s = time.monotonic() - begin_s
    after_s, resident_bytes = _used(agent.pid)
    cpu_s = after_s - before_s
    for child in [*ranks, agent]:
        child.send_signal(signal.SIGKILL)
        child.wait()
    return cpu_s / took_s, resident_bytes, took_s


def _used(pid: int) -> tuple[float, int]:
    """Processor seconds, and resident bytes at their most, of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in status if line.startswith("VmHWM")]
    return cpu_s, int(peak) * 1024


def _backlog(setting: Setting, url: str, number: int) -> tuple[float, int]:
    spool = setting.scratch / "backlog"
    spool.mkdir()
    recorder = Recorder(run="bench/run", attempt=1, node="node-0001", rank=0, spool=spool)
    for step in range(1, number + 1):
        recorder.step_done(step, dur_s=0.25 + step % 7 * 0.001, loss=2 + step % 13 * 0.01)
    recorder.close()
    size = sum(path.stat().st_size for path in spool.glob("u*/*/*.jsonl"))
    begin_s = time.monotonic()
    agent = _agent(setting, spool, url, "--metrics", "off")
    while any(spool.glob("u*/*/*.jsonl")):
        if agent.poll() is not None:
            raise subprocess.CalledProcessError(agent.returncode, "tachograph-agent")
        time.sleep(0.02)
    took_s = time.monotonic() - begin_s
    agent.kill()
    agent.wait()
    return number / took_s, size
