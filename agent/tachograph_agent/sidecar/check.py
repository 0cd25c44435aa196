"""``tachograph-agent check``: what the agent can see and reach on this node, with advice where it can't."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tachograph_agent.sidecar.batch import Batch
from tachograph_agent.sidecar.config import Config
from tachograph_agent.sidecar.ship import Fate, Shipper
from tachograph_agent.spool.follow import Follower

LARGE_OFFSET_S = 2.0
MOST_PROBLEMS = 10
STATES = {
    "blind": "it could be seen with what deploy/ gives; the rest works without",
    "failed": "mend or remove it; the rest works without",
    "hung": "what it asks hangs; the rest works without",
}

HOW_TO_GET_IN = (
    "give --token-file FILE; on the collector's side, 'tachograph token create NAME --scope ingest' makes a token"
)
WAYS = {
    "is not valid for": "call it by a name that is in its certificate",
    "CERTIFICATE_VERIFY_FAILED": "name its certificate, or the authority's that signed it: --ca-file FILE",
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in the --ca-file",
    "WRONG_VERSION_NUMBER": "it speaks http there, not https: give http:// or its other port",
    "Connection aborted": "if it was set up with TLS, give https://",
    "Connection refused": "is it running, and is that its port?",
    "timed out": "check address, proxy and firewall",
    "answered 404": "no collector is there: give its address alone, without a path",
}
"""What to do where the way to the collector fails so."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``advice`` is what to do; ``is_wrong`` means that the agent can't do its work so."""

    what: str
    found: str
    advice: str = ""
    is_wrong: bool = False


def main(config: Config) -> int:
    """Print what was found; 1 if anything keeps the agent from its work."""
    findings = list(look(config))
    for finding in findings:
        sign = "wrong" if finding.is_wrong else ("note" if finding.advice else "ok")
        sys.stdout.write(f"{sign:<6}{finding.what:<11}{finding.found}\n")
        if finding.advice:
            sys.stdout.write(f"{'':<17}{finding.advice}\n")
    return int(any(finding.is_wrong for finding in findings))


def look(config: Config) -> Iterator[Finding]:
    """Everything that is looked at, in the order in which it matters."""
    yield Finding("node", config.node)
    yield from _spool(config.spool)
    yield _state(config.state_directory)
    yield from _collector(config)
    yield from _health(config)


def _spool(spool: Path) -> Iterator[Finding]:
    if not spool.is_dir():
        yield Finding("spool", f"{spool} is no directory", "create it, writable for those who train", is_wrong=True)
        return
    if not os.access(spool, os.R_OK | os.W_OK | os.X_OK):
        if _is_read_only(spool):
            advice = "mount it writable, or name another: --spool DIR, and TACHOGRAPH_SPOOL for those who train"
            yield Finding("spool", f"{spool} is on a read-only file system", advice, is_wrong=True)
            return
        who = f"{spool} can't be read and written by user {os.getuid()}"
        yield Finding("spool", who, f"let that user's group in: {_sharing(spool)}", is_wrong=True)
        return
    mode = stat.filemode(spool.stat().st_mode)
    follower = Follower(spool, {})
    follower.poll()
    followed = list(follower.followed.values())
    num_alive = sum(follower.is_written(known) for known in followed)
    yield Finding("spool", f"{spool} ({mode}), {len(followed)} files, {num_alive} of them being written")
    for problem in list(follower.problems.values())[:MOST_PROBLEMS]:
        denied = os.strerror(errno.EACCES) in problem
        yield Finding("spool", problem, f"to ship it: {_sharing(spool)}" if denied else "the agent goes on without it")
    if len(follower.problems) > MOST_PROBLEMS:
        yield Finding(
            "spool", f"{len(follower.problems) - MOST_PROBLEMS} more such files", "the agent's log names them"
        )
    locked_out = [known for known in followed if not os.access(known.segment.path.parent, os.W_OK)]
    if locked_out:
        yield Finding(
            "spool",
            f"{len(locked_out)} files can be read and not deleted",
            f"give the spool the agent's group and the set-group-ID bit: {_sharing(spool)}",
            is_wrong=True,
        )
    follower.close()


def _state(directory: Path) -> Finding:
    near = directory
    while not near.exists() and near != near.parent:
        near = near.parent
    if near.is_dir() and os.access(near, os.W_OK | os.X_OK):
        return Finding("state", f"{directory} can be written")
    why = "it is on a read-only file system" if _is_read_only(near) else f"not by user {os.getuid()}"
    return Finding("state", f"{directory} can't be written: {why}", "name another: --state-dir DIR", is_wrong=True)


def _sharing(spool: Path) -> str:
    """What lets an agent of another user read and delete what ranks write from then on."""
    return f"chgrp GROUP {spool} && chmod 3777 {spool}, GROUP being one that the agent's user is in"


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _collector(config: Config) -> Iterator[Finding]:
    if not config.collector:
        yield Finding("collector", "none is named", "give --collector URL, or set TACHOGRAPH_COLLECTOR", is_wrong=True)
        return
    parts = urlsplit(config.collector)
    try:
        socket.getaddrinfo(parts.hostname, parts.port or 80)
    except OSError as error:
        yield Finding(
            "collector",
            f"{parts.hostname} does not resolve: {error}",
            "check the name, and this node's DNS",
            is_wrong=True,
        )
        return
    shipper = Shipper(
        config.collector,
        config.node,
        token=config.token,
        encoding="identity",
        ca_file=config.ca_file,
        version="check",
    )
    # A batch without a line: nothing is stored, and the way, the certificate and the token are tried.
    answer = shipper.send(Batch(f"check-{os.urandom(8).hex()}", (), b""))
    offset_s = shipper.clock_offset_s
    shipper.close()
    if answer.fate is Fate.NOT_ALLOWED:
        yield Finding("collector", f"{config.collector} {answer.detail}", HOW_TO_GET_IN, is_wrong=True)
    elif answer.fate is Fate.LATER:
        yield Finding("collector", f"not reached: {answer.detail}", _way(answer.detail), is_wrong=True)
    else:
        yield Finding("collector", f"{config.collector} answers" + (", with a token" if config.token else ""))
    if offset_s is not None:
        is_large = abs(offset_s) > LARGE_OFFSET_S
        advice = "run chrony or another time service on this node" if is_large else ""
        yield Finding("clock", f"the collector's clock less this node's is {offset_s:+.3f} s", advice)


def _way(detail: str) -> str:
    """What to do about a collector that was not reached."""
    return next((advice for sign, advice in WAYS.items() if sign in detail), "check address, port, proxy and firewall")


def _health(config: Config) -> Iterator[Finding]:
    told = config.health
    if told is None:
        yield Finding("health", "is not looked at (--no-health)")
        return
    from tachograph_agent.health.ours import node_checks
    from tachograph_agent.health.survey import survey

    # What the agent remembers is left alone: the kernel's log is read from its end on.
    with TemporaryDirectory(prefix="tachograph-check-") as nothing:
        seen = survey(node_checks(config.spool, Path(nothing), lambda: None, told.disks, told.kernel_log))
    for each in seen:
        if each.name == "clock":
            continue  # one look at a clock tells nothing; the collector's answer, above, does
        name = each.name.partition(" ")[0]
        if each.state == "absent":
            yield Finding(name, str(each.told[0]["detail"]))
            continue
        if each.state == "ok" and not each.told:
            yield Finding(name, f"looked at{each.name.removeprefix(name)}, nothing found")
        elif not each.told:
            yield Finding(name, "has not come back in time", "see docs/health.md")
        for found in each.told:
            advice = STATES.get(each.state, f"{found['severity']}: the agent tells it to each run that has ranks here")
            yield Finding(name, str(found["detail"]), advice)
