"""How many rank-steps a second one collector takes over HTTP and makes durable in PostgreSQL."""

from __future__ import annotations

import collected
from figure import Figure, Row, Setting

LEAST_PER_S = 150_000
STEPS_PER_RANK = 64
NUM_CONNECTIONS = 128


def measure(setting: Setting) -> Figure:
    """A backlog as fast as it goes."""
    num_batches = 400 if setting.quick else 4000
    best, cores, taken = 0.0, {}, ""
    folded_s = 0.0
    for _ in range(1 if setting.quick else 3):
        with collected.running(setting.scratch, "postgresql") as running:
            with collected.load(running, kind="backlog", run="bench/warm", num_batches=20, num_connections=4) as child:
                collected.outcome(child)  # to warm up
            running.wait_folded("bench/warm")
            with collected.load(
                running,
                kind="backlog",
                run="bench/backlog",
                num_batches=num_batches,
                steps_per_rank=STEPS_PER_RANK,
                num_connections=NUM_CONNECTIONS,
            ) as child:
                before = running.cpu_s()
                told = collected.outcome(child)
                after = running.cpu_s()
            rate = told["num_steps"] / told["took_s"]
            if rate > best:
                best = rate
                cores = {who: (after[who] - before[who]) / told["took_s"] for who in after}
                cores["the load generator"] = told["cpu_s"] / told["took_s"]
                taken = f"answered {told['statuses']}, half of the batches within {told['median_s']:.2f} s"
                folded_s = running.wait_folded("bench/backlog")
    whose = ", ".join(f"{each:.2f} cores {who}" for who, each in cores.items())
    size = STEPS_PER_RANK * 8
    return Figure(
        "A backlog over HTTP into PostgreSQL",
        f"{num_batches} batches of {size} rank-steps (8 ranks of a node, gzip, made before), {NUM_CONNECTIONS} "
        "connections, each with one batch on its way, into PostgreSQL with `fsync=on` and `synchronous_commit=on`, "
        "all on the same machine, the ledger kept meanwhile. A rank-step counts when its batch was answered, which is "
        "after the commit. From the first request to the last answer; the best of three runs.",
        [
            Row(
                "rank-steps a second",
                f"{best:,.0f} ({whose}; {taken})",
                f"≥ {LEAST_PER_S:,}",
                best >= LEAST_PER_S,
            ),
            Row("for scale: the books hold all of it", f"{folded_s:.1f} s after the last answer"),
        ],
        "One Python process decodes, stores and folds: the interpreter's one core is the bound.",
    )
