"""The examples of the OpenAPI. The tests hold each to its shape."""

from __future__ import annotations

from typing import Any, Final

_AMOUNTS: Final = {"kept_s": 51.5, "checkpoint_s": 8.5, "lost_s": 0.0, "restart_s": 0.0}

LINE: Final[dict[str, Any]] = {
    "run": "llama/70b",
    "start": 1772323200.0,
    "end": 1772409600.0,
    "status": "running",
    "wall_s": 86400.0,
    "kept_s": 77760.0,
    "checkpoint_s": 2592.0,
    "lost_s": 3240.0,
    "restart_s": 2808.0,
    "at_risk_s": 312.5,
    "goodput": 0.9,
    "goodput_low": 0.896383,
    "attempts": 3,
    "failures": 2,
    "planned_stops": 0,
    "unexplained_stops": 0,
    "steps": 19440,
    "minutes": {"kept": 1308, "checkpoint": 24, "lost": 56, "restart": 52},
}

RUN_LIST: Final[dict[str, Any]] = {
    "runs": [
        {
            **LINE,
            "origin": "live",
            "world_size": 16384,
            "as_of": 1772409600.0,
            "last_heard": 1772409598.2,
            "version": 8123,
            "revision": 1,
            "open_incidents": 1,
        },
    ],
    "next": None,
}

_ATTEMPT: Final = {
    "index": 0,
    "name": "0",
    "start": 1772323200.0,
    "end": 1772351000.25,
    "how": "failure",
    "category": "gpu",
    "world_size": 16384,
    "resume_step": 0,
    "told_resume_step": 0,
    "first_step": 1,
    "last_step": 6500,
    "kept_s": 25200.0,
    "lost_s": 1620.0,
}

_STOP: Final = {
    "attempt": 0,
    "how": "failure",
    "at": 1772351000.25,
    "resumed_at": 1772352404.25,
    "category": "gpu",
    "inferred": False,
    "node": "node-0421",
    "rank": 3371,
    "detail": "Xid 79: the GPU has fallen off the bus",
    "last_step": 6500,
    "resume_step": 6100,
    "cost_s": 3024.0,
    "lost_s": 1620.0,
    "restart_s": 1404.0,
    "phases": {"detect": 604.0, "replace": 300.0, "reload": 320.0, "warmup": 180.0},
}

_SAVE: Final = {
    "attempt": 0,
    "step": 500,
    "mode": "async",
    "state": "landed",
    "start": 1772325200.0,
    "end": 1772325208.5,
    "blocking_s": 8.5,
    "landed_at": 1772325290.0,
    "persist_s": 90.0,
    "bytes": 1099511627776,
    "tiers": ["local", "storage"],
}

_MODEL: Final[dict[str, Any]] = {
    "sentence": "Goodput is what this rate of failures explains.",
    "level": "fine",
    "findings": [
        {
            "kind": "fine",
            "level": "fine",
            "sentence": "Goodput is what this rate of failures explains.",
            "points": None,
            "gpu_hours_per_day": None,
            "money_per_day": None,
        }
    ],
    "measured": {"interval_s": 2000.0, "num_intervals": 41, "cost_s": 8.5, "num_costs": 43, "num_failures": 2},
    "goodput": {"observed": 0.9, "explained": 0.905, "explained_deviation": 0.008, "z": -0.6, "alarm": False},
    "best": None,
    "rate": None,
    "memorylessness": {"exponential_p": None, "clusters_p": None, "trend_p": None, "num_short_gaps": 0},
    "waste": [{"cause": "gpu", "lost_s": 3240.0, "other_s": 2808.0}, {"cause": "saving", "lost_s": 0, "other_s": 2592}],
}

SUMMARY: Final[dict[str, Any]] = {
    **LINE,
    "skipped_lines": 0,
    "model": None,
    "details": {
        "verdict": "90.0 % of 1 d was kept so far; 54 min lost to 2 failures, 47 min restarting, 43 min saving.",
        "format": None,
        "clock": "wall",
        "origin": "live",
        "window": None,
        "spans": [{"start": 1772323200.0, "end": 1772409600.0, "status": "running"}],
        "labels": {"team": "pretraining"},
        "world_size": 16384,
        "rollbacks": 0,
        "checkpoints_seen": True,
        "planned_mtbf_s": 43200.0,
        "planned_interval_s": 2000.0,
        "gpu_hours": {
            "kept": 353894.4,
            "checkpoint": 11796.48,
            "lost": 14745.6,
            "restart": 12779.52,
            "idle": 0.0,
            "held": 393216.0,
        },
        "gpu_goodput": 0.9,
        "price_per_gpu_hour": None,
        "money": None,
        "sub_accounts": {"kept/train": 77760.0, "checkpoint/save": 2592.0, "lost/rollback": 3240.0},
        "lost_by_cause": {"gpu": 3240.0},
        "incomplete_minutes": 0,
        "attempts_detail": [_ATTEMPT],
        "interruptions": [_STOP],
        "checkpoints_detail": [_SAVE],
        "anomalies": [],
        "notes": [],
        "skips": [],
    },
    "stored": {
        "as_of": 1772409600.0,
        "version": 8123,
        "folded_seq": 412904,
        "revision": 1,
        "frozen_at": None,
        "digest": None,
    },
}

_HEAD: Final[dict[str, Any]] = {"run": "llama/70b", "version": 8123, "next": None}

MODEL_ANSWER: Final[dict[str, Any]] = {"run": "llama/70b", "version": 8123, "model": _MODEL}

GATE: Final[dict[str, Any]] = {
    "run": "llama/70b",
    "pass": True,
    "goodput": 0.9,
    "min_goodput": 0.85,
    "run_status": "completed",
    "since": None,
    "until": None,
    "as_of": 1772409600.0,
    "version": 8123,
    "sentence": "goodput is 90.00 %, at least the 85.00 % asked for",
}
GATE_CLOSED: Final[dict[str, Any]] = {
    **GATE,
    "pass": False,
    "min_goodput": 0.95,
    "sentence": "goodput is 90.00 %, below the 95.00 % asked for",
    "type": "about:blank",
    "title": "Below the goodput asked for",
    "status": 409,
    "detail": "run 'llama/70b': goodput is 90.00 %, below the 95.00 % asked for",
}
MINUTES: Final[dict[str, Any]] = {
    **_HEAD,
    "every_s": 60.0,
    "minutes": [
        {
            "start": 1772323200.0,
            **_AMOUNTS,
            "label": "kept",
            "revision": 1,
            "incomplete": False,
            "first_booked_at": 1772323263.1,
            **{f"first_{name}": value for name, value in _AMOUNTS.items()},
        }
    ],
}
REVISIONS: Final[dict[str, Any]] = {
    **_HEAD,
    "revisions": [
        {
            "version": 8123,
            "start": 1772350980.0,
            "revision": 2,
            "at": 1772352410.0,
            **{f"was_{name}": value for name, value in _AMOUNTS.items()},
            **_AMOUNTS,
            "kept_s": 0.0,
            "lost_s": 51.5,
        }
    ],
}
ATTEMPTS: Final[dict[str, Any]] = {**_HEAD, "attempts": [_ATTEMPT]}
RESTARTS: Final[dict[str, Any]] = {**_HEAD, "restarts": [{"index": 0, **_STOP}]}
CHECKPOINTS: Final[dict[str, Any]] = {**_HEAD, "checkpoints": [{"index": 0, **_SAVE}]}
SEGMENTS: Final[dict[str, Any]] = {
    **_HEAD,
    "segments": [
        {
            "start": 1772323200.0,
            "end": 1772323380.0,
            "account": "restart",
            "sub": "startup",
            "attempt": 0,
            "cause": None,
            "by_attempt": None,
            "by_rollback": None,
        }
    ],
}
NODES: Final[dict[str, Any]] = {
    "run": "llama/70b",
    "nodes": [
        {
            "node": "node-0421",
            "state": "alive",
            "state_since": 1772323200.0,
            "first_heard_at": 1772323200.0,
            "last_heard_at": 1772409598.2,
            "last_heartbeat_at": 1772409598.0,
            "interval_s": 5.0,
            "step": 19440,
            "ranks_alive": 8,
            "queue_bytes": 0,
            "dropped": 0,
            "clock_offset_s": 0.0004,
            "agent_version": "0.1.0",
            "metrics_address": "10.0.4.21:8421",
        }
    ],
    "next": None,
}
STEPS: Final[dict[str, Any]] = {
    "run": "llama/70b",
    "since": 1772323200.0,
    "until": 1772409600.0,
    "records": 19440,
    "steps": [
        {
            "rank": 3371,
            "start": 1772323200.0,
            "end": 1772323243.2,
            "first_step": 1,
            "last_step": 10,
            "records": 10,
            "steps": 10,
            "step_s_min": 3.98,
            "step_s_mean": 4.01,
            "step_s_max": 4.2,
            "loss_min": 10.9,
            "loss_mean": 11.1,
            "loss_max": 11.4,
        }
    ],
    "next": None,
}
_GPU: Final = {"kept": 9000.0, "checkpoint": 300.0, "lost": 400.0, "restart": 300.0, "idle": 0.0, "held": 10000.0}
FLEET: Final[dict[str, Any]] = {
    "since": 1772323200.0,
    "until": 1772409600.0,
    "origins": ["live"],
    "runs": 2,
    "wall_s": 172800.0,
    "accounts_s": {"kept": 155520.0, "checkpoint": 5184.0, "lost": 6912.0, "restart": 5184.0},
    "gpu_hours": _GPU,
    "gpu_goodput": 0.9,
    "money": {name: value * 2.5 for name, value in _GPU.items()},
    "causes": [
        {"account": "lost", "sub": "rollback", "cause": "gpu", "wall_s": 6912.0, "gpu_hours": 400.0, "money": 1000.0}
    ],
    "runs_without_gpus": 0,
    "runs_without_price": 0,
    "unknown_runs": [],
    "next": None,
}

PLAN: Final[dict[str, Any]] = {
    "checkpoint_s": 60.0,
    "restart_s": 1800.0,
    "mtbf_s": 43200.0,
    "persist_s": 0.0,
    "at": {
        "interval_s": 10800.0,
        "goodput": 0.839,
        "shares": {"kept": 0.839, "checkpoint": 0.0047, "lost": 0.1155, "restart": 0.0408},
        "year_h": {"kept": 7354.8, "checkpoint": 40.9, "lost": 1012.6, "restart": 357.7},
    },
    "best": {
        "interval_s": 2237.0,
        "goodput": 0.9095,
        "shares": {"kept": 0.9095, "checkpoint": 0.0244, "lost": 0.0253, "restart": 0.0408},
        "year_h": {"kept": 7972.9, "checkpoint": 213.8, "lost": 221.6, "restart": 357.7},
    },
    "flat_top_s": [1118.5, 4474.0],
    "young_s": 2276.8,
    "daly_s": 2237.0,
    "curve": {"interval_s": [1118.5, 2237.0, 4474.0], "goodput": [0.898, 0.9095, 0.8977]},
}
