"""What lines of the kernel's log say besides GPUs and stuck processes: killed for memory, machine checks, links."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tachograph_agent.health.finding import Finding

_OOM: Final = re.compile(
    r"(?P<group>Memory cgroup out of memory|Out of memory)[:,]"
    r".*?Kill(?:ed)? process (?P<pid>\d{1,9}) \((?P<name>[^)]*)\)"
)
_MACHINE: Final = re.compile(r"\[Hardware Error\]|\bMachine check|\bEDAC \S+: \d+ [CU]E\b", re.IGNORECASE)
_CORRECTED: Final = re.compile(r"\bcorrected\b|EDAC \S+: \d+ CE\b|event severity: corrected", re.IGNORECASE)
_CERTAIN: Final = re.compile(
    r"\buncorrect|\bfatal\b|\bpanic|EDAC \S+: \d+ UE\b|Machine check events? logged: .*UC", re.IGNORECASE
)
_NO_ERROR: Final = re.compile(r"Machine check polling|Machine check exceptions? (?:en|dis)abled", re.IGNORECASE)
_LINK: Final = re.compile(r"(?:\b(?P<port>Port: \d+) )?\b(?:NIC )?(?<!SATA )Link (?:is )?down\b", re.IGNORECASE)
"""A port that lost its link; a disk's connector without a disk says so at each boot, and is none."""


@dataclass(slots=True)
class _Seen:
    t: float
    count: int
    text: str
    severity: str = "warning"


def findings_in(lines: Iterable[tuple[str, float]]) -> list[Finding]:
    """One finding for each process killed, for all machine-check lines together, and for each link that went down.

    ``lines`` are (text, Unix seconds). Each finding says in ``count`` how many lines it stands for.
    """
    found: list[Finding] = []
    machine: _Seen | None = None
    links: dict[str, _Seen] = {}
    for line, t in lines:
        if (killed := _OOM.search(line)) is not None:
            where = "its control group" if killed["group"].startswith("Memory") else "the node"
            detail = f"the kernel killed {killed['name']} ({killed['pid']}): {where} was out of memory"
            found.append(
                Finding("oom", "warning", detail, int(killed["pid"]), subject=killed["name"], t=t, lasts=False)
            )
        elif _MACHINE.search(line) is not None and _NO_ERROR.search(line) is None:
            severity = "critical" if _CERTAIN.search(line) and not _CORRECTED.search(line) else "warning"
            if machine is None:
                machine = _Seen(t, 0, line, severity)
            machine.count += 1
            if severity == "critical" and machine.severity != severity:
                machine.severity, machine.text = severity, line
        elif (link := _LINK.search(line)) is not None:
            seen = links.setdefault(_link_name(line, link), _Seen(t, 0, line))
            seen.count += 1
    if machine is not None:
        found.append(
            Finding(
                "machine_check",
                machine.severity,
                f"machine check: {machine.text.strip()}",
                t=machine.t,
                lasts=False,
                extra={"count": machine.count},
            )
        )
    for name, seen in links.items():
        found.append(
            Finding(
                "link",
                "warning",
                f"link of {name} went down: {seen.text.strip()}",
                seen.count,
                subject=name,
                t=seen.t,
                lasts=False,
                extra={"count": seen.count},
            )
        )
    return found


def _link_name(line: str, link: re.Match[str]) -> str:
    """The interface that a link line is about, else its PCI address, else the words before it."""
    before = line[: link.start()]
    interface = re.search(r"\b((?:en|eth|ib|bond)[a-z]*\d\w*)\b", before)
    if interface is not None:
        return interface[1]
    address = re.search(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d\b", before)
    name = address[0] if address is not None else before.strip(" :")[:60] or "a port"
    return f"{name} {link['port']}" if link["port"] else name
