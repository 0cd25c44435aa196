"""Examples of answers about nodes over runs, for the OpenAPI."""

from __future__ import annotations

from typing import Any, Final

_LINE: Final[dict[str, Any]] = {
    "node": "node-05",
    "score": 2.41,
    "how_sure": "suspect",
    "sentence": "3 failures in 40 node-days, where 0.25 would be the fleet's share: chance 0.18 %, but 11 % that "
    "any of 65 nodes has such: not sure",
    "failures": 3,
    "expected_failures": 0.246,
    "chance": 0.00175,
    "chance_of_any": 0.108,
    "exposure_s": 3456000.0,
    "xids": 1,
    "application_xids": 0,
    "health": 0,
    "straggler": 1,
    "episodes": 0,
    "corruption": 0,
    "runs": 2,
    "last_at": 1772400000.0,
}
_WINDOW: Final[dict[str, Any]] = {
    "since": 1764547200.0,
    "until": 1772323200.0,
    "as_of": 1772323200.0,
    "origins": ["live"],
    "half_life_days": 7.0,
    "xids_cut": False,
}
NODES: Final[dict[str, Any]] = {**_WINDOW, "nodes": [_LINE], "next": None}
NODE: Final[dict[str, Any]] = {
    **_LINE,
    **_WINDOW,
    "rank": 1,
    "num_nodes": 65,
    "marks": [
        {
            "at": 1772400000.0,
            "kind": "failure",
            "run": "llama/70b",
            "weight": 1.0,
            "detail": "gpu: Xid 79 on 0000:3b:00",
        }
    ],
    "num_marks": 5,
    "stays": [
        {
            "run": "llama/70b",
            "origin": "live",
            "first_heard_at": 1770000000.0,
            "last_heard_at": 1772323200.0,
            "state": "alive",
        }
    ],
}
