"""What an incident or a cause was, from the words that people put into a table: its role and its category."""

from __future__ import annotations

import re
from typing import Final, Literal

from tachograph_agent.events import CATEGORIES

Role = Literal["start", "planned", "failure", "other"]

_NEGATED: Final = re.compile(r"\b(?:no|not|without)\b[^,;.]*", re.IGNORECASE)
_EMERGENCY: Final = re.compile(r"\bemergency|\bun-?(?:planned|scheduled|expected)", re.IGNORECASE)
_PLANNED: Final = re.compile(
    r"\b(?:planned|scheduled|maintenance|upgrade|resiz\w+|operator|manual\w*)\b", re.IGNORECASE
)
_START: Final = re.compile(r"^\W*(?:run |training |job )?(?:launch\w*|start\w*|begin\w*)\b(?! failed)", re.IGNORECASE)
_FAILED: Final = re.compile(
    r"crash|fail|error|\bh[au]ng|deadlock|fault|\bxid|\becc\b|\boom\b|out of memory|kill|dead\b|died|time-?out|outage|"
    r"interrupt|abort|\bdown\b|lost\b|unreachable|off the bus|panic",
    re.IGNORECASE,
)
_OF: Final = tuple(
    (category, re.compile(pattern, re.IGNORECASE))
    for category, pattern in (
        ("sdc", r"silent|\bsdc\b|corrupt"),
        ("collective_timeout", r"\bnccl\b|watchdog|collective"),
        ("gpu_memory", r"\bhbm|\bsram\b|gpu memory|\becc\b|row remap"),
        ("gpu", r"\bgpu|_gpu|\bxid|\bcuda|nvlink|off the bus"),
        ("network", r"network|switch|cable|\bnic\b|infiniband|\bib\b|\blink\b|fabric"),
        ("storage", r"\bssd\b|disk|storage|file ?system|lustre|gpfs|\bnfs\b"),
        ("software", r"software|dependency|\bbug\b|dataloader|python|code|configuration|out of memory|\boom\b"),
        ("host", r"\bhost|\bnode\b|\bcpu\b|power|chassis|memory|maintenance|\bio\b|reboot|server"),
    )
)


def role_of(what: str) -> Role:
    """Whether it began the run, was planned, stopped it, or did neither (a note, a spike that passed)."""
    if _EMERGENCY.search(what):
        return "failure"
    if _PLANNED.search(what):
        return "planned"
    if _START.search(what):
        return "start"
    return "failure" if _FAILED.search(what) else "other"


def category_of(*told: str | None) -> str:
    """The event log's category that the first telling text names; ``unknown`` if none does."""
    for text in told:
        if text is None:
            continue
        text = _NEGATED.sub("", text)
        if text.lower() in CATEGORIES:
            return text.lower()
        for category, pattern in _OF:
            if pattern.search(text):
                return category
    return "unknown"
