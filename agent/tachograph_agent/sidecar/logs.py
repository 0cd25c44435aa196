"""Trainers' own logs, followed as they grow: the adapters of ``trainers/`` turn them into events, with no code change.

An adapter reads a log as one stream from its beginning and keeps what it has seen. So after a restart the agent reads
the file from its start again and keeps silent up to the place that it had come to: what comes then is what would have
come. The place is written down after its events are in the spool; an agent that dies in between writes the same events
again, which are known as the same. Where the beginning is lost (the log was rotated away, or cut), attempts go on being
counted from where they were.

What an adapter tells only at a log's end is not told, since a log that is followed has none: above all a ``run.start``
that knows whether saves can be seen at all. A replay of the log tells it. A log without a clock is dated by when it was
written: the last event of each look then.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tachograph_agent.events import AnyEvent, encode
from tachograph_agent.sidecar.config import LogOptions
from tachograph_agent.trainers import eventlog, registry
from tachograph_agent.trainers.base import Adapter, Context
from tachograph_agent.trainers.files import HEAD_BYTES
from tachograph_agent.trainers.logtail import LogTail, Place
from tachograph_agent.trainers.zones import local_zone

POLL_S = 0.25
MOST_HELD = 512
MOST_UNDATED = 50_000
"""Events of a log without a clock are held until all that is there was read: only the last one's time is known."""
WEAK = "failures"
"""A format that a few lines of any log may look like: it is believed only when there is enough to judge."""
AHEAD_S = 120.0
NO_CLOCK = "The log has no clock"
log = logging.getLogger("tachograph.agent")


@dataclass(slots=True)
class _Mark:
    """How far a log was read and told."""

    place: Place
    format: str
    attempt: int | None = None
    """The last attempt told."""
    last_unix_s: float = 0.0


class LogFollower:
    """Follows one log in a thread of its own, from ``start`` to ``stop``; ``keep`` takes the lines of its events."""

    def __init__(
        self,
        options: LogOptions,
        state_directory: Path,
        keep: Callable[[bytes], bool],
        *,
        poll_s: float = POLL_S,
        unix_clock: Callable[[], float] = time.time,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._options = options
        self._state = state_directory / "logs" / f"{sha256(os.fsencode(options.path)).hexdigest()[:16]}.json"
        self._keep = keep
        self._poll_s = poll_s
        self._unix_clock = unix_clock
        self._tail = LogTail(options.path)
        self._mark: _Mark | None = None
        self._context = Context(run=options.run)
        self._held: list[AnyEvent] = []
        self._format = ""
        self._head = b""
        self._is_silent = False
        self._attempt_base = 0
        self._attempt: int | None = None
        """The adapter's own count, as last seen."""
        self._last_unix_s = 0.0
        self._num_notes = 0
        self._said: set[str] = set()
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._thread = threading.Thread(target=self.run, name=f"log {options.path.name}", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Stop where it stands; the next agent goes on from there."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def run(self) -> None:
        """Follow until told to stop: what the thread does. Raises nothing."""
        try:
            adapter = self._begin()
            if adapter is not None:
                self._follow(adapter)
        except Exception as error:  # a defect of one reader must not end the agent
            log.error(  # noqa: TRY400 - the sentence names the place; the trace goes to debug
                "%s is not followed any more: its reader (%s) failed near byte %d (%s: %s); a defect, please report it",
                self._options.path,
                self._format or "none yet",
                self._tail.offset,
                type(error).__name__,
                str(error)[:200],
            )
            log.debug("the reader's failure", exc_info=True)
        finally:
            self._tail.close()

    # -- where it begins ---------------------------------------------------------------------------------------------

    def _begin(self) -> Adapter | None:
        """Wait until the log is there and its format known; None if it is none to follow, or we are to stop."""
        self._mark = _load(self._state)
        if self._mark is not None and self._tail.open(self._mark.place):
            self._format = self._options.format or self._mark.format
        else:
            if self._mark is not None:
                self._lost(self._mark)
            while not self._recognise():
                if self._wait(self._poll_s):
                    return None
        if self._format == eventlog.NAME or self._format in registry.NOT_FOLLOWED:
            why = registry.NOT_FOLLOWED.get(self._format, "an event log already")
            log.error("%s is not followed: it is %s (format %s)", self._options.path, why, self._format)
            return None
        if self._options.pattern is not None:
            from tachograph_agent.trainers.pattern import PatternLog
            from tachograph_agent.trainers.pattern_file import load

            return PatternLog(load(self._options.pattern))
        return registry.adapters()[self._format]

    def _lost(self, mark: _Mark) -> None:
        """The file that was read is gone: what came in it meanwhile is not known, and another is begun."""
        log.warning(
            "%s was replaced or cut while no agent looked; what was added to it in between is lost", self._options.path
        )
        self._attempt_base = 0 if mark.attempt is None else mark.attempt + 1
        self._last_unix_s = mark.last_unix_s
        self._mark = None

    def _recognise(self) -> bool:
        # Opened anew each time: another file may have taken its name.
        if not self._tail.open():
            self._say_once("missing", "%s %s; it is waited for", self._options.path, _why_not(self._options.path))
            return False
        if self._options.format is not None:
            self._format = self._options.format
            return True
        head = self._tail.head(HEAD_BYTES)
        if head == self._head:
            return False
        self._head = head
        found = registry.recognise(head)
        is_enough = len(head) >= HEAD_BYTES
        if found is not None and (found != WEAK or is_enough):
            self._format = found
            log.info("%s is followed as %s, for the run %s", self._options.path, found, self._options.run)
            return True
        if is_enough:
            self._say_once(
                "format",
                "%s is in no format I know; name it with --log-adapter (known are %s)",
                self._options.path,
                ", ".join(registry.adapters()),
            )
        return False

    # -- what it tells -----------------------------------------------------------------------------------------------

    def _follow(self, adapter: Adapter) -> None:
        # A trainer writes the local time of its node.
        self._context = Context(run=self._options.run, file=str(self._options.path), tz=local_zone())
        self._is_silent = self._mark is not None
        for event in adapter.read(self._lines(), self._context):
            if self._stop.is_set():
                return  # what it tells of the end: there is none
            attempt = event.attempt
            self._attempt = attempt if isinstance(attempt, int) else self._attempt
            if not self._is_silent:
                self._held.append(event)

    def _lines(self) -> Iterator[str]:
        """The log's lines for the adapter. When it asks for more, it has told all that it can of those before."""
        if self._mark is not None:
            up_to = self._mark.place.offset
            while self._tail.offset < up_to and not self._stop.is_set():
                lines = self._tail.next_lines(up_to)
                if not lines and self._tail.offset < up_to and self._wait(self._poll_s):
                    return
                yield from lines
            self._go_on(self._mark)
        while not self._stop.is_set():
            lines = self._tail.next_lines()
            for line in lines:
                yield line
                if len(self._held) >= (MOST_HELD if self._context.has_clock else MOST_UNDATED):
                    self._write()
            if not lines or self._context.has_clock:
                self._flush()
            if not lines and self._wait(self._poll_s):
                return

    def _go_on(self, mark: _Mark) -> None:
        """All that was told is read again: from here on events are new."""
        self._is_silent = False
        self._last_unix_s = mark.last_unix_s
        if mark.attempt is not None:
            self._attempt_base = mark.attempt - self._attempt if self._attempt is not None else mark.attempt + 1

    def _flush(self) -> None:
        """Write what is held, and then down how far that was."""
        self._write()
        if self._stop.is_set() and self._held:
            return
        place = self._tail.place() if self._tail.is_open else None
        if place is None or (self._mark is not None and self._mark.place == place):
            return
        told = None if self._attempt is None else self._attempt + self._attempt_base
        self._mark = _Mark(place, self._format, told, self._last_unix_s)
        try:
            _save(self._state, self._mark)
        except OSError as error:
            self._say_once("state", "%s can't be written (%s); events may be told again", self._state, error)

    def _write(self) -> None:
        """Put what is held into the spool; while that takes nothing, the log waits."""
        self._say_notes()
        if not self._held:
            return
        self._date()
        lines = b"".join(encode(event) + b"\n" for event in self._held)
        while not self._keep(lines):
            self._say_once("spool", "the spool takes no events of %s; it is tried again", self._options.path)
            if self._wait(1.0):
                return
        self._held.clear()

    def _date(self) -> None:
        """Settle names and times of what is held."""
        shift_s = 0.0 if self._context.has_clock else self._tail.written_unix_s - self._held[-1].t
        for event in self._held:
            event.run = event.run or self._options.run
            if isinstance(event.attempt, int):
                event.attempt += self._attempt_base
            if not self._context.has_clock:
                event.t = max(event.t + shift_s, self._last_unix_s)
            self._last_unix_s = max(self._last_unix_s, event.t)
        if self._context.has_clock and self._held[-1].t > self._unix_clock() + AHEAD_S:
            self._say_once(
                "zone",
                "the times in %s lie ahead of this node's clock: they are taken as local time; start the agent with "
                "the trainer's time zone in TZ",
                self._options.path,
            )

    def _say_notes(self) -> None:
        notes = self._context.notes
        for note in notes[self._num_notes :]:
            if note.startswith(NO_CLOCK):  # in a replay its timeline starts at 0; here it is dated by its writing
                note = "the log has no clock: its events are dated by when they were written"
            log.info("%s: %s", self._options.path, note)
        self._num_notes = len(notes)
        if self._context.skipped_lines or self._tail.num_too_long:
            skip = self._context.skips[0].reason if self._context.skips else "too long"
            self._say_once(
                "skipped", "%s has lines that can't be read (%s); they are left out", self._options.path, skip
            )

    def _say_once(self, key: str, message: str, *arguments: object) -> None:
        if key not in self._said:
            self._said.add(key)
            log.warning(message, *arguments)


def _load(path: Path) -> _Mark | None:
    try:
        raw: dict[str, Any] = json.loads(path.read_bytes())
        return _Mark(Place(**raw.pop("place")), **raw)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s can't be read (%s); the log is told again from its start", path, error)
        return None


def _save(path: Path, mark: _Mark) -> None:
    path.parent.mkdir(mode=0o750, exist_ok=True)
    beside = path.with_suffix(".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o640), "w", encoding="utf-8") as file:
        json.dump(asdict(mark), file)
    beside.replace(path)


def _why_not(path: Path) -> str:
    """Why a log can't be opened, for whoever named it."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return f"is in a directory that user {os.getuid()} can't enter"
    except OSError:
        return "is not there yet"
    if stat.S_ISDIR(mode):
        return "is a directory; name the log in it"
    return f"can't be read by user {os.getuid()}" if stat.S_ISREG(mode) else "is no plain file"
