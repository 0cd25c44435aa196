"""The ``TACHOGRAPH_*`` variables: misspelt ones, those that contradict each other, and values that can't be meant."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.doctor.place import Place
from tachograph_collector.report.text import visible

PREFIX: Final = "TACHOGRAPH_"
# fmt: off
KNOWN: Final = frozenset({
    "SPOOL", "COLLECTOR", "TOKEN", "TOKEN_FILE", "CA_FILE", "NODE", "STATE_DIR", "RUN", "ATTEMPT", "URL", "DEBUG",
    "CONFIG", "GRAFANA_TOKEN", "HOOK_SECONDS",
    "ADDRESS", "PORT", "BIND", "JOBS", "PROOF", "CHAOS", "EXAMPLES",
})
COLLECTORS: Final = frozenset({
    "HOST", "PORT", "DATABASE_URL", "REPLICA", "INSECURE", "PUBLIC_URL", "ALLOWED_HOSTS", "TLS_CERT", "TLS_KEY",
    "OTLP_ENDPOINT", "GRAFANA_URL", "GRAFANA_TOKEN_FILE", "GRAFANA_DASHBOARD_UID", "NOTIFY_REHEARSALS",
    "METRICS_REHEARSALS", "MAX_BODY", "MAX_EVENTS", "MAX_WAITING", "BODY_TIMEOUT", "MAX_CONNECTIONS",
    "MAX_NEW_RUNS", "STOP_TIMEOUT", "KEEP_STEPS", "KEEP_HEARTBEATS", "KEEP_EVENTS", "KEEP_BATCHES", "KEEP_REJECTED",
    "THRESHOLDS", "LOG_FORMAT", "LOG_LEVEL",
})
# fmt: on
"""What agents, recorders, commands, hooks of schedulers and Compose read; and the collector's options, which a base
install can't import. A test holds them to be the same."""
_SECRET: Final = frozenset({"TOKEN", "GRAFANA_TOKEN", "DATABASE_URL"})


def look(place: Place) -> Iterator[Finding]:
    """Each variable that is set."""
    told = {name: value for name, value in sorted(place.env.items()) if name.startswith(PREFIX)}
    if not told:
        yield ok("variables", "no TACHOGRAPH_ variable is set: defaults hold")
        return
    faults = [*_strangers(told), *_contradictions(told), *_values(told, place.env)]
    yield ok("variables", ", ".join(_shown(name, value) for name, value in told.items()))
    yield from faults


def _shown(name: str, value: str) -> str:
    return f"{name}=…" if name.removeprefix(PREFIX) in _SECRET else f"{name}={visible(value, 80)}"


def known_names() -> set[str]:
    """Every name that something of ours reads."""
    return {PREFIX + name for name in KNOWN | COLLECTORS}


def _strangers(told: dict[str, str]) -> Iterator[Finding]:
    known = known_names()
    for name in told:
        # Kubernetes sets these in every pod beside a Service that is named tachograph.
        if name in known or "_PORT_" in name or "_SERVICE_" in name:
            continue
        near = get_close_matches(name, known, 1, 0.75)
        yield warn(
            "variables", f"nothing reads {name}", f"did you mean {near[0]}?" if near else "unset it, or rename it"
        )


def _contradictions(told: dict[str, str]) -> Iterator[Finding]:
    if told.get("TACHOGRAPH_TOKEN") and told.get("TACHOGRAPH_TOKEN_FILE"):
        yield warn(
            "variables",
            "both TACHOGRAPH_TOKEN and TACHOGRAPH_TOKEN_FILE are set: agents take the file, commands the token",
            "unset one; the file is safer, as others on the node can't read it",
        )
    agents, peoples = told.get("TACHOGRAPH_COLLECTOR"), told.get("TACHOGRAPH_URL")
    if agents and peoples and agents.rstrip("/") != peoples.rstrip("/"):
        yield warn(
            "variables",
            "TACHOGRAPH_COLLECTOR (agents) and TACHOGRAPH_URL (commands) name two collectors",
            "fine behind two doors of one collector; else unset TACHOGRAPH_URL, and commands ask where agents send",
        )


def _values(told: Mapping[str, str], env: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("TACHOGRAPH_COLLECTOR", "TACHOGRAPH_URL"):
        if name in told and not is_address(told[name]):
            yield fail("variables", f"{name}={visible(told[name], 80)} is no address", "https://HOST:8420, say")
    for name, what in (("TACHOGRAPH_TOKEN_FILE", "a token"), ("TACHOGRAPH_CA_FILE", "certificates in PEM")):
        value = told.get(name)
        if not value:
            continue
        if not (Path(value).is_file() and os.access(value, os.R_OK)):
            yield fail(
                "variables",
                f"{name}={visible(value, 80)}: user {os.getuid()} can read no such file",
                f"name a file with {what} that this user can read",
            )
        elif name.endswith("TOKEN_FILE") and Path(value).stat().st_mode & stat.S_IROTH:
            yield warn("variables", f"every user here can read the token in {value}", f"chmod o-r {value}")
    run, job = told.get("TACHOGRAPH_RUN", ""), env.get("SLURM_JOB_ID", "")
    if job and job in run:
        yield warn(
            "variables",
            f"TACHOGRAPH_RUN={visible(run, 80)} holds the job's number",
            "leave it out: every requeue would be a new run, and none would show what a failure cost",
        )


def is_address(told: str) -> bool:
    """Whether that is an address of a collector."""
    try:
        parts = urlsplit(told.strip())
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
