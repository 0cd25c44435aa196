"""The check of the kernel's log: GPU errors, GPUs off the bus, hung tasks, kills for memory, machine checks, links.

Recognised as in a log that ``tachograph replay`` reads (``trainers.kernel``), with severities by ``xids``. A burst of
lines is one finding; the same trouble of the same GPU, process or port is told again when it has been quiet for a while
or goes on for long, then with how many findings were kept back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tachograph_agent.events import Health as HealthEvent
from tachograph_agent.health import kmsg
from tachograph_agent.health.finding import BlindError, Finding
from tachograph_agent.health.kernel_lines import findings_in
from tachograph_agent.health.xids import meaning_of, severity_of, xid_in
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.kernel import KernelWatch
from tachograph_agent.trainers.text import Clock

DEVICE = Path("/dev/kmsg")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MAX_RECORDS = 20_000
"""In one look; what is more waits for the next."""
QUIET_S = {"gpu_lost": 60.0, "hung_task": 3600.0, "oom": 0.0}
QUIET_ELSE_S = 600.0
"""The same trouble within this is one burst, however many looks it is spread over."""
MAX_REMEMBERED = 1000
_CALM = {"info": 0, "warning": 1, "critical": 2}


@dataclass(slots=True)
class _Burst:
    t: float
    severity: str
    num_kept_back: int = 0


class KernelLog:
    """Reads what is new in the kernel's log at each look. Where it begins anew it passes over what is there: it is old.

    How far it has told is kept in ``state_directory`` when it ``settle``s, so that nothing is told again after a
    restart; a machine that was booted since is read from its first message.
    """

    name = "kernel"
    every_s = 2.0
    timeout_s = 10.0

    def __init__(
        self,
        state_directory: Path,
        device: Path = DEVICE,
        boot_id: Path = BOOT_ID,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = state_directory / "kmsg.json"
        self._device = device
        self._boot_id = boot_id
        self._unix_clock = unix_clock
        self._reader: kmsg.Reader | None = None
        self._position: kmsg.Position | None = None
        self._settled: kmsg.Position | None = None
        self._looked_unix_s: float | None = None
        """When everything that there was had been read."""
        self._bursts: dict[tuple[str, ...], _Burst] = {}

    @property
    def sees(self) -> bool:
        """Whether the log can be read."""
        return self._reader is not None

    def look(self) -> Iterable[Finding]:
        """What is new."""
        reader = self._open()
        position = self._position
        assert position is not None
        now_unix_s = self._unix_clock()
        lines: list[tuple[str, float]] = []
        number = position.next_number
        is_first = number < 0
        num_lost = num_read = 0
        try:
            for record in reader.records(None if is_first else MAX_RECORDS):
                num_read += 1
                if record.number < number:
                    continue
                num_lost += record.number - number if number >= 0 else 0
                number = record.number + 1
                if record.is_kernels and not is_first:
                    t = self._when(position.boot_unix_s + record.since_boot_s, now_unix_s)
                    lines += [(line, t) for line in record.text.splitlines()]
        except OSError:
            self._reader = None
            reader.close()
            raise
        self._position = replace(position, next_number=max(number, 0))
        self._looked_unix_s = now_unix_s if num_read < MAX_RECORDS else None
        found = self._new(findings(lines))
        return [*found, _gap(num_lost)] if num_lost else found

    def settle(self) -> None:
        """Keep how far it has told."""
        if self._position is not None and self._position != self._settled:
            kmsg.write_position(self._path, self._position)
            self._settled = self._position

    def _open(self) -> kmsg.Reader:
        if self._reader is not None:
            return self._reader
        try:
            boot_id = self._boot_id.read_text(encoding="ascii").strip()
            descriptor = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise BlindError(
                f"{error.filename}: {error.strerror}; GPU errors in the kernel log are not seen. Give the agent"
                " CAP_SYSLOG and the device"
            ) from error
        self._reader = kmsg.Reader(descriptor)
        # Opened again, it goes on where it was.
        kept = self._position or kmsg.read_position(self._path)
        self._position = kmsg.first_position(kept, boot_id)
        return self._reader

    def _when(self, t: float, now_unix_s: float) -> float:
        """When it was. The log's own clock runs away by minutes over months; what is new came since the last look."""
        earliest = t if self._looked_unix_s is None else self._looked_unix_s
        return round(min(max(t, earliest), now_unix_s), 6)

    def _new(self, found: list[Finding]) -> list[Finding]:
        """Without what belongs to a burst that was told already and is no worse."""
        fresh = []
        for finding in found:
            t = finding.t or 0.0
            key = _trouble(finding)
            quiet_s = QUIET_S.get(finding.check, QUIET_ELSE_S)
            burst = self._bursts.get(key)
            if finding.check == "gpu_lost" and self._is_told_by_xid(finding, t):
                continue
            if burst is not None and abs(t - burst.t) < quiet_s and _CALM[finding.severity] <= _CALM[burst.severity]:
                burst.num_kept_back += 1
                continue
            if burst is not None and burst.num_kept_back:
                finding = replace(finding, extra={**finding.extra, "kept_back": burst.num_kept_back})
            self._bursts.pop(key, None)
            self._bursts[key] = _Burst(t, finding.severity)
            fresh.append(finding)
        while len(self._bursts) > MAX_REMEMBERED:
            del self._bursts[next(iter(self._bursts))]
        return fresh

    def _is_told_by_xid(self, finding: Finding, t: float) -> bool:
        """The driver says it twice, with a number and without."""
        return any(
            key[:2] == ("xid", str(finding.gpu)) and abs(t - burst.t) < QUIET_S["gpu_lost"]
            for key, burst in self._bursts.items()
        )


def _trouble(finding: Finding) -> tuple[str, ...]:
    """What makes two findings one trouble. A link's value counts; all else's names a process or an Xid."""
    which = "" if finding.check == "link" else str(finding.value)
    return finding.check, str(finding.gpu), finding.subject, which


def _gap(num_lost: int) -> Finding:
    detail = f"{num_lost} messages of the kernel were overwritten before they were read: what they told is not known"
    return Finding("kernel", "warning", detail, num_lost, subject="gap", lasts=False)


def findings(lines: Sequence[tuple[str, float]]) -> list[Finding]:
    """What lines of the kernel, (text, Unix seconds) in their order, tell of."""
    if not lines:
        return []
    context = Context(run="")
    watch = KernelWatch(context, Clock(context))
    worst: dict[tuple[str, int], str] = {}
    for line, t in lines:
        watch.feed(line, t)
        if (named := xid_in(line)) is not None:
            severity = severity_of(named[1], line)
            worst[named] = max(severity, worst.get(named, severity), key=_CALM.__getitem__)
    told = [_of_event(event, worst) for event in watch.close(lines[-1][1]) if isinstance(event, HealthEvent)]
    return told + findings_in(lines)


def _of_event(event: HealthEvent, worst: Mapping[tuple[str, int], str]) -> Finding:
    extra: dict[str, Any] = dict(event.unknown_fields) if isinstance(event.unknown_fields, dict) else {}
    severity, value, detail = event.severity or "warning", event.value, event.detail or event.check
    xids = [int(xid) for xid in extra.get("xids", {})]
    if event.check == "xid" and xids:
        graded = {xid: worst.get((str(event.gpu), xid), severity_of(xid)) for xid in xids}
        severity = max(graded.values(), key=_CALM.__getitem__)
        if graded.get(value) != severity:
            # The text is about another of the burst's Xids.
            value = next(xid for xid in xids if graded[xid] == severity)
            detail = f"Xid {value} on {event.gpu}, among {', '.join(map(str, xids))}"
        extra["meaning"] = meaning_of(value)
    return Finding(
        event.check,
        severity,
        detail,
        value,
        event.gpu,
        subject="" if event.gpu else str(extra.get("process", "")),
        t=event.t,
        dur=event.dur,
        lasts=False,
        extra=extra,
    )
