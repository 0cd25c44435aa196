"""How bad an Xid is: the driver's numbers for GPU errors, and what a finding about each is worth.

Source: NVIDIA, "XID Errors" (GPU Deployment and Management Documentation), whose catalogue says for each number what
went wrong and what to do; sorted here by whether the node has to be drained. Hardware is critical at once. Application
errors are a process's own doing unless one GPU shows them in several jobs, which the collector sees, not the node.
74 (NVLink) and 144 to 150 (NVLink and fabric on newer GPUs) are critical only where the line says fatal. 63 and 92 are
to be watched: rows remapped in time, and a high rate of corrected errors.
"""

from __future__ import annotations

import re
from typing import Final

HARDWARE: Final = frozenset({46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158})
APPLICATION: Final = frozenset({8, 11, 13, 31, 32, 39, 40, 41, 43, 45, 69, 94})
BY_THE_LINE: Final = frozenset({74, *range(144, 151)})
WATCH: Final = frozenset({63, 92})

_FATAL: Final = re.compile(r"(?<!non)(?<!non[- ])\bfatal\b", re.IGNORECASE)
_LINE: Final = re.compile(r"Xid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,4})\b")


def severity_of(xid: int, line: str = "") -> str:
    """``critical`` or ``warning``; an Xid of no known class is a warning."""
    if xid in HARDWARE or (xid in BY_THE_LINE and _FATAL.search(line) is not None):
        return "critical"
    return "warning"


def meaning_of(xid: int) -> str:
    """``hardware``, ``application``, ``watch``, ``link`` or ``unknown``."""
    for name, numbers in (("hardware", HARDWARE), ("application", APPLICATION), ("watch", WATCH)):
        if xid in numbers:
            return name
    return "link" if xid in BY_THE_LINE else "unknown"


def xid_in(line: str) -> tuple[str, int] | None:
    """The GPU (PCI address without function, lower case) and the number that a kernel line names; None if none."""
    found = _LINE.search(line)
    return None if found is None else (found[1].lower().partition(".")[0], int(found[2]))
