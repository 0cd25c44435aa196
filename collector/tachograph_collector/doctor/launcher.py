"""Who a rank that starts here would be: run, attempt, node and rank, as the launcher tells them to the recorder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tachograph_agent.identity import JOB_NAMES, RANKS, identify

from tachograph_collector.doctor.finding import Finding, ok, warn
from tachograph_collector.doctor.place import Place
from tachograph_collector.report.text import visible

_BY: Final = (
    ("TORCHELASTIC_RUN_ID", "torchrun"),
    ("SLURM_JOB_ID", "Slurm"),
    ("OMPI_COMM_WORLD_RANK", "Open MPI"),
    ("KUBERNETES_SERVICE_HOST", "Kubernetes"),
    ("PBS_JOBID", "PBS"),
    ("LSB_JOBID", "LSF"),
)
_NO_NAMES: Final = frozenset({"wrap", "bash", "sh", "interactive", "sbatch", "run", "job", "STDIN"})
"""Names that schedulers give to jobs whose users gave none."""


def launchers(env: Mapping[str, str]) -> list[str]:
    """Who started this process, as far as the environment tells; the nearest first."""
    return [name for variable, name in _BY if env.get(variable)]


def look(place: Place) -> Iterator[Finding]:
    """What a rank would write into each of its events, and where that would be misread."""
    env = place.env
    started_by = launchers(env)
    who = identify(env, rank=None)
    job = next((env[name] for name in JOB_NAMES if env.get(name)), None)
    run = env.get("TACHOGRAPH_RUN") or job
    told = f"under {' in '.join(started_by)}: " if started_by else "no launcher: "
    named = visible(who.run, 80) if run else f"{visible(who.run.rpartition('/')[0], 60)}/SCRIPT"
    of = "" if who.world_size is None else f" of {who.world_size}"
    yield ok("launcher", f"{told}a rank here is run {named}, node {visible(who.node, 60)}, rank {who.rank}{of}")
    if started_by and not env.get("TACHOGRAPH_RUN") and (job is None or job in _NO_NAMES):
        yield warn(
            "launcher",
            f"the run's name comes from {'the job' if job else 'the script'} ({visible(job or 'SCRIPT', 40)}): "
            "all that start so are one run",
            "set TACHOGRAPH_RUN (or the job's name), the same after every requeue",
        )
    if "Kubernetes" in started_by and not (env.get("TACHOGRAPH_NODE") or env.get("NODE_NAME")):
        yield warn(
            "launcher",
            f"the node's name is the pod's ({visible(who.node, 60)}): a replaced pod looks like another node",
            "set NODE_NAME from spec.nodeName, as in deploy/kubernetes",
        )
    if (who.world_size or 1) > 1 and not any(env.get(name, "").isdigit() for name in RANKS):
        yield warn(
            "launcher",
            f"the world has {who.world_size} ranks, and nothing tells which one this is: all would be rank 0",
            f"set RANK, or pass rank= to Recorder; looked for: {', '.join(RANKS)}",
        )
