"""Judge published records of real runs: replay each file of a folder and list every incident, with what is expected.

python bench/check_records.py FOLDER     of the records, else that of TACHOGRAPH_RECORDS; none is part of this project

What a record should give is known for some by name, from what its publisher says. Of the others every incident is
listed, to be judged by whoever looks. Exit code 1 where an expectation is not met.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measure import TACHOGRAPH
from tachograph_agent.events import RunStart
from tachograph_agent.trainers.reading import ReadingError, open_log
from tachograph_collector.detect import Detectors
from tachograph_collector.detect.incident_json import incident_object

T0 = 1_700_000_000.0
Found = list[dict[str, Any]]


def worker_times(path: Path) -> Iterator[dict[str, Any]]:
    """A table of each worker's batch times, as an event log of synchronous training; the unit of time is made up."""
    steps: dict[int, dict[int, float]] = {}
    seen: dict[int, int] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            worker = int(row["worker"])
            seen[worker] = step = seen.get(worker, 0) + 1
            steps.setdefault(step, {})[worker] = float(row["batch_time_norm"]) / 100
    t = T0
    for step, times in sorted(steps.items()):
        t += max(times.values())
        for worker, busy_s in sorted(times.items()):
            yield {
                "kind": "step", "t": t + 1e-4 * worker, "run": "r", "attempt": 0, "rank": worker,
                "node": f"w{worker}", "step": step, "dur": max(times.values()), "busy_s": busy_s,
            }  # fmt: skip


def losses_of(column: str) -> Callable[[Path], Iterator[dict[str, Any]]]:
    """A table of training losses by step, without a clock: a step is taken to last a second."""

    def read(path: Path) -> Iterator[dict[str, Any]]:
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                if row.get(column):
                    step = int(float(row["step"]))
                    yield {
                        "kind": "step", "t": T0 + step, "run": "r", "attempt": 0, "rank": 0, "step": step,
                        "loss": float(row[column]),
                    }  # fmt: skip

    return read


TABLES: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "alibaba_pai_job1_worker_times.csv": worker_times,
    "lightning_metrics_attempt1.csv": losses_of("train_loss_step"),
}
"""Records that are no log of a trainer, and how they become one."""


def names(found: Found) -> list[tuple[str, str]]:
    """Who is named, without what was withdrawn."""
    return [(one["detector"], one["subject"]) for one in found if not one["is_withdrawn"]]


EXPECTED: dict[str, tuple[str, Callable[[Found], bool]]] = {
    "alibaba_pai_job1_worker_times.csv": (
        "worker 6, for a while in the middle, and nobody else",
        lambda found: [subject for _, subject in names(found)] == ["rank 6"],
    ),
    "bloom176b_loss_spike.log": (
        "one spike that recovered",
        lambda found: names(found) == [("loss_spike", "run")] and found[0]["outcome"] == "recovered",
    ),
    "hf_grad_norm_nan_lines.log": ("a loss of 0 with NaN norms is NaN", lambda found: names(found) == [("nan", "run")]),
    "mlperf_gpt3_h100_512.txt": ("no straggler and no slow step", lambda found: names(found) == []),
    "mlperf_gpt3_gaudi2_384.txt": ("nothing", lambda found: names(found) == []),
    "torchtitan_async_checkpoint.log": ("nothing: a cut log is no hang", lambda found: names(found) == []),
    "xid13_43_iso_dmesg.log": ("one fault of an application, 17 lines", lambda found: len(found) <= 1),
    "xid79_fallen_off_bus.log": (
        "two lost GPUs: of the hardware, once a node",
        lambda found: {one["detector"] for one in found} == {"xid"} and len(found) <= 2,
    ),
    "deepspeed_reward_model.log": ("20 skipped steps of 1,840 are normal", lambda found: names(found) == []),
}


NUM_FAILURES = {
    "nccl_alltoall_8ranks_glog.log": 1,
    "nccl_reduce_scatter_4ranks.log": 1,
}
"""One collective time-out is one failure, however many ranks report it."""


def without_a_run(path: Path) -> tuple[Found, int] | None:
    """What is said of a log that tells of no step, such as a node's kernel log, and how many failures are in it.

    Such a log doesn't say whose it is; an agent would. It is read as that of a node of a run that had begun before.
    """
    try:
        events = [event for batch in open_log([str(path)]).batches() for event in batch]
    except (ReadingError, OSError):
        return None
    for event in events:
        if event.kind == "health" and event.node is None:
            event.node = "n0"
    detectors = Detectors()
    detectors.add([RunStart(t=min(event.t for event in events) - 7200, run=events[0].run), *events])
    detectors.look()
    found = [incident_object(one) for one in detectors.incidents()]
    return found, sum(event.kind == "failure" for event in events)


def incidents_of(path: Path, scratch: Path) -> tuple[Found | None, str]:
    """What ``tachograph replay --incidents -`` says; None and why, where it reads no run."""
    source = path
    if path.name in TABLES:
        source = scratch / "events.jsonl"
        source.write_text("".join(json.dumps(one) + "\n" for one in TABLES[path.name](path)), encoding="utf-8")
    done = subprocess.run(
        [*TACHOGRAPH, "replay", "--incidents", "-", str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None, done.stderr.strip().partition(": ")[2]
    return [json.loads(line) for line in done.stdout.splitlines()], ""


def main() -> int:
    """Look at each record."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TACHOGRAPH_RECORDS")
    if folder is None or not Path(folder).is_dir():
        print("give the folder of the records, or name it in TACHOGRAPH_RECORDS", file=sys.stderr)
        return 2
    num_bad = num_incidents = 0
    with tempfile.TemporaryDirectory(prefix="tachograph-records-") as scratch:
        for path in sorted(one for one in Path(folder).iterdir() if one.is_file() and one.suffix != ".md"):
            found, why = incidents_of(path, Path(scratch))
            expected = EXPECTED.get(path.name)
            num_failures = None
            if found is None and (other := without_a_run(path)) is not None:
                found, num_failures = other
                print(f"{path.name}: no run, {num_failures} failures; of its nodes:")
            if found is None:
                print(f"{path.name}: not read ({why.rpartition('/')[2][:60]})")
            else:
                num_incidents += len(found)
                print(f"{path.name}: {len(found)} incidents")
                for one in found:
                    ended = one["outcome"] or ("over" if one["cleared_at"] else "open")
                    print(f"    {one['severity']} {one['detector']} of {one['subject']}: {one['summary']} ({ended})")
            if num_failures != NUM_FAILURES.get(path.name, num_failures):
                num_bad += 1
                print(f"    NOT AS EXPECTED: {NUM_FAILURES[path.name]} failures")
            if expected is not None and not (found is not None and expected[1](found)):
                num_bad += 1
                print(f"    NOT AS EXPECTED: {expected[0]}")
    print(f"{num_incidents} incidents in all; {num_bad} records not as expected")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
