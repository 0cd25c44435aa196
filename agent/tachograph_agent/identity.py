"""Who is speaking: run, attempt, node and rank of this process, as its launcher told the environment.

Parameters override ``TACHOGRAPH_*`` variables, which override what torchrun, Slurm, MPI and Kubernetes set. The run's
name is never a job id: every requeue would look like a new and perfect run. An attempt's name is the same on all ranks
of one start and another on the next: it is made of what the launcher agreed on at rendezvous.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

JOB_NAMES = ("SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME", "JOB_NAME")
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX")
WORLD_SIZES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
NODES = ("TACHOGRAPH_NODE", "SLURMD_NODENAME", "NODE_NAME")
MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Identity:
    """What every event of this process carries."""

    run: str
    attempt: str
    node: str
    rank: int
    world_size: int | None


def identify(
    env: Mapping[str, str] | None = None,
    *,
    run: str | None = None,
    attempt: int | str | None = None,
    node: str | None = None,
    rank: int | None = None,
) -> Identity:
    """The identity of this process. Never raises: what can't be known falls back to something honest and stable."""
    env = os.environ if env is None else env
    return Identity(
        run=one_line(run or env.get("TACHOGRAPH_RUN") or _run_name(env)),
        attempt=one_line(str(attempt if attempt is not None else env.get("TACHOGRAPH_ATTEMPT") or _attempt_name(env))),
        node=one_line(node or _first(env, NODES) or socket.gethostname()),
        rank=rank if rank is not None else _number(env, RANKS) or 0,
        world_size=_number(env, WORLD_SIZES),
    )


def one_line(name: str) -> str:
    """A name without control characters and of bounded length, fit for a log line; its meaning stays recognisable."""
    clean = "".join(char if char.isprintable() else "?" for char in name.strip())
    return clean[:MAX_NAME_LENGTH] or "unnamed"


def _run_name(env: Mapping[str, str]) -> str:
    """The user and the scheduler's job name; where there is no scheduler, the script's."""
    job = _first(env, JOB_NAMES)
    if job is None:
        job = PurePath(sys.argv[0]).stem if sys.argv and sys.argv[0] else "python"
    return f"{_user(env)}/{job}"


def _user(env: Mapping[str, str]) -> str:
    named = env.get("SLURM_JOB_USER") or env.get("USER")
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no entry and no environment
        return str(os.getuid())


def _attempt_name(env: Mapping[str, str]) -> str:
    """What all ranks of one start share and the next start doesn't.

    The scheduler's job id and restart count change at a requeue, torchelastic's restart count at a restart after a
    failure, and the port that a rendezvous agrees on also when only the membership changed.
    """
    parts: list[str] = []
    if env.get("SLURM_JOB_ID"):
        parts += [env["SLURM_JOB_ID"], env.get("SLURM_RESTART_COUNT", "0")]
    if env.get("JOBSET_RESTART_ATTEMPT"):
        parts.append(env["JOBSET_RESTART_ATTEMPT"])
    run_id = env.get("TORCHELASTIC_RUN_ID")
    if run_id is not None:
        parts += [run_id] if run_id not in ("", "none") else []
        parts.append(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
        parts += [env["MASTER_PORT"]] if env.get("MASTER_PORT") else []
    if parts:
        return ".".join(parts)
    if (_number(env, WORLD_SIZES) or 1) > 1:
        return env.get("MASTER_PORT") or "0"
    # A process alone agrees with itself: each start of it is an attempt.
    return str(int(time.time()))


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((env[name] for name in names if env.get(name)), None)


def _number(env: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = env.get(name, "")
        if value.isascii() and value.isdigit():
            return int(value)
    return None
