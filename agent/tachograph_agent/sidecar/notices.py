"""Notices in files: a scheduler or a cluster says, in a file, that this node's runs are about to be stopped.

A file's content that is new is a notice, dated when the file was written: a planned ``attempt.end`` for each run that
has ranks here. Content that was told stays told over the agent's restarts; an empty or missing file says nothing.

A file may hold a line of text, which is the reason; one JSON object with ``reason`` and, for one run only, ``run``; or
what a Kubernetes downward-API file has (lines ``key="value"``), of which only a key that names a disruption counts.
(Pod conditions are not in the downward API: something must copy ``DisruptionTarget`` into an annotation.)
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tachograph_agent.identity import one_line
from tachograph_agent.sidecar.liveness import LiveRun
from tachograph_agent.sidecar.own_events import OwnEvents

MAX_BYTES = 64 * 1024
STALE_S = 900.0
"""A file that was written longer ago is left over from another job; the ledger wouldn't heed it either."""
_METADATA = re.compile(r'^(?P<key>[\w./-]+)="(?P<value>(?:[^"\\]|\\.)*)"$')
_DISRUPTION = re.compile(r"disruption|tachograph[\w.-]*/notice", re.IGNORECASE)
_NO = frozenset({"", "false", "no", "none", "0"})
log = logging.getLogger("tachograph.agent")


@dataclass(frozen=True, slots=True)
class Notice:
    """What a file says. ``run`` is the only run meant; None means every run with ranks on the node."""

    reason: str
    run: str | None = None


def notice_of(text: str) -> Notice | None:
    """What the content of a notice file says; None if nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    if text.lstrip().startswith("{"):
        return _of_object(text)
    pairs = [match for line in lines if (match := _METADATA.fullmatch(line))]
    if len(pairs) == len(lines):
        for pair in pairs:
            value = pair["value"].replace('\\"', '"')
            if _DISRUPTION.search(pair["key"]) and value.lower() not in _NO:
                return Notice(one_line(f"disruption: {value}"))
        return None
    return Notice(one_line(lines[0]))


def _of_object(text: str) -> Notice | None:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None  # being written: it is looked at again when it changes
    if not isinstance(raw, dict):
        return None
    run = raw.get("run")
    return Notice(one_line(str(raw.get("reason") or "a notice")), str(run) if run else None)


class NoticeFiles:
    """Watches notice files. ``watch`` is given a turn at each look at the spool, and looks once a second."""

    def __init__(
        self,
        files: Sequence[Path],
        state_directory: Path,
        own: OwnEvents,
        live_runs: Callable[[], Iterable[LiveRun]],
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = list(files)
        self._own = own
        self._live_runs = live_runs
        self._unix_clock = unix_clock
        self._state = state_directory / "notices.json"
        self._told = _load(self._state)
        self._next_s = 0.0

    def watch(self, now_s: float) -> None:
        """Tell what is new."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + 1.0
        for path in self._files:
            self._look(path)

    def _look(self, path: Path) -> None:
        read = _read(path)
        if read is None:
            return
        content, written_unix_s = read
        mark = hashlib.sha256(content + b"\0%d" % int(written_unix_s * 1000)).hexdigest()[:16]
        if self._told.get(str(path)) == mark:
            return
        notice = notice_of(content.decode("utf-8", errors="replace"))
        if notice is not None and self._unix_clock() - written_unix_s <= STALE_S:
            self._tell(path, notice, min(written_unix_s, self._unix_clock()))
        # Put down after it was told: should we die in between it is told again, and is the same event by its time.
        self._told[str(path)] = mark
        self._save()

    def _tell(self, path: Path, notice: Notice, t: float) -> None:
        meant = [live for live in self._live_runs() if notice.run in (None, live.run)]
        log.info("a notice in %s: %s; %d runs here are told to stop", path, notice.reason, len(meant))
        for live in meant:
            self._own.write("attempt.end", t=t, run=live.run, attempt=live.attempt, planned=True, reason=notice.reason)

    def _save(self) -> None:
        beside = self._state.with_suffix(".new")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(beside, flags, 0o640), "w", encoding="utf-8") as file:
                json.dump(self._told, file)
            beside.replace(self._state)
        except OSError as error:
            log.warning("%s can't be written (%s); a notice may be told again after a restart", self._state, error)


def _load(path: Path) -> dict[str, str]:
    try:
        raw = json.loads(path.read_bytes())
        return {str(name): str(mark) for name, mark in raw.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _read(path: Path) -> tuple[bytes, float] | None:
    """Content and time of writing of a plain file; None if there is none that can be read, or it changes just now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return None
        content = os.pread(descriptor, MAX_BYTES, 0)
        # Where it is just being written, the time of one notice and the words of another would be a third.
        return (content, before.st_mtime) if os.fstat(descriptor).st_mtime_ns == before.st_mtime_ns else None
    except OSError:
        return None
    finally:
        os.close(descriptor)
