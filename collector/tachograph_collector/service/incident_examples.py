"""The OpenAPI's examples of incidents and silences. The tests hold each to its shape."""

from __future__ import annotations

from typing import Any, Final

INCIDENT: Final[dict[str, Any]] = {
    "incident_id": "4f1c2d0b7a9e8d6c5b4a39281706f5e4d3c2b1a0",
    "run": "llama/70b",
    "origin": "live",
    "detector": "straggler",
    "subject": "rank 3371",
    "severity": "warning",
    "is_open": True,
    "opened_at": 1772350000.0,
    "found_at": 1772350180.0,
    "updated_at": 1772350900.0,
    "cleared_at": None,
    "outcome": None,
    "summary": "rank 3371 works 1.4 times as long as its peers",
    "advice": "drain node-0421",
    "attempt": "2",
    "node": "node-0421",
    "rank": 3371,
    "is_replayed": False,
    "is_withdrawn": False,
    "consequence_of": None,
    "cost": {"wall_s": 257.0, "gpu_hours": 1169.6, "money": 2924.0, "basis": "steps slower by 40 %"},
    "evidence": {
        "value": 1.4,
        "baseline": 1.0,
        "threshold": 1.1,
        "num_samples": 200,
        "unit": "of the median",
        "first_step": 8123,
    },
    "acknowledged": {"at": 1772350950.0, "author": "on call"},
    "is_silenced": False,
    "url": "https://tachograph.example/#/incidents/4f1c2d0b7a9e8d6c5b4a39281706f5e4d3c2b1a0",
}
ONE_INCIDENT: Final[dict[str, Any]] = {
    **INCIDENT,
    "notes": [{"at": 1772350950.0, "author": "on call", "what": "acknowledged", "text": "I drain the node"}],
}
INCIDENTS: Final[dict[str, Any]] = {"incidents": [INCIDENT], "next": None}
RUN_INCIDENTS: Final[dict[str, Any]] = {"run": "llama/70b", **INCIDENTS}

SENT_NOTE: Final[dict[str, Any]] = {"text": "the node is drained; a fan had failed"}
SENT_ACKNOWLEDGEMENT: Final[dict[str, Any]] = {"text": "I drain the node"}
SENT_SILENCE: Final[dict[str, Any]] = {"node": "node-0421", "for": "2h", "why": "its fans are being replaced"}

SILENCE: Final[dict[str, Any]] = {
    "silence_id": "8c2b1a09f7e6d5c4",
    "state": "active",
    "run": None,
    "detector": None,
    "subject": None,
    "node": "node-0421",
    "from": 1772351000.0,
    "until": 1772358200.0,
    "author": "on call",
    "why": "its fans are being replaced",
    "created_at": 1772351000.0,
    "ended_at": None,
}
SILENCES: Final[dict[str, Any]] = {"silences": [SILENCE], "next": None}

SIGHTS: Final[dict[str, Any]] = {
    "run": "llama/70b",
    "sights": [
        {
            "detector": "loss_spike",
            "state": "armed",
            "reason": "has the steps that it needs",
            "evaluations": 8123,
            "verdicts": 1,
            "at": 1772350900.0,
        }
    ],
    "next": None,
}
