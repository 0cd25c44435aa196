"""What the OpenAPI document says of ``POST /v1/events``, written by hand since its route is a plain one."""

from __future__ import annotations

from typing import Any, Final

from tachograph_collector.service.body import ENCODINGS
from tachograph_collector.service.decode import ORIGINS
from tachograph_collector.service.problems import MEDIA_TYPE


def _lines(example: str, description: str) -> dict[str, Any]:
    return {"schema": {"type": "string", "description": description}, "example": example}


_PROBLEMS: Final = {
    400: "The batch's name, the origin or the encoded body can't be used.",
    401: "A token is needed, or this one is not known.",
    403: "The token may not do this, or may not write to any of the runs in it.",
    408: "The body was not here in time.",
    409: "Events of a replay or rehearsal, and the run is live.",
    413: "Too large, too many lines or too many new runs: send it in smaller batches.",
    415: "Not JSON lines, or an encoding that is not known.",
    422: "The database refuses the batch for what is in it.",
    429: "Too many new runs within a minute; `Retry-After` says when to come again.",
    503: "It can't be stored now; `Retry-After` says when to come again.",
}
_STORED: Final = {"accepted": 41, "rejected": 1, "reasons": ["line 7: step: 't' is -1"], "duplicate": False}
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["accepted", "rejected", "reasons", "duplicate"],
    "properties": {
        "accepted": {"type": "integer", "minimum": 0, "description": "Events that are stored for good."},
        "rejected": {"type": "integer", "minimum": 0, "description": "Lines that were refused."},
        "reasons": {"type": "array", "items": {"type": "string"}, "description": "Of the first of these."},
        "duplicate": {"type": "boolean", "description": "The batch was stored before, and counts once."},
    },
}


def _header(name: str, about: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": about,
        "schema": schema or {"type": "string"},
    }


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Stored for good, but for the lines that were refused.",
        "content": {"application/json": {"schema": _ANSWER, "example": _STORED}},
        "headers": {
            "Tachograph-Time": {
                "description": "Unix seconds in the middle of the exchange.",
                "schema": {"type": "string"},
            }
        },
    },
    **{
        status: {"description": about, "content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}
        for status, about in _PROBLEMS.items()
    },
}

REQUEST: Final[dict[str, Any]] = {
    "parameters": [
        _header(
            "Tachograph-Batch",
            "The batch's name: one that is known is not stored again. Without it, its content is its name.",
            {"type": "string", "pattern": "^[!-~]{1,200}$"},
        ),
        _header("Tachograph-Agent", "Who sends it, such as `node-017/0.1.0`."),
        _header("Tachograph-Origin", "What the events are.", {"type": "string", "enum": list(ORIGINS)}),
        _header("Content-Encoding", "How it is packed.", {"type": "string", "enum": list(ENCODINGS)}),
    ],
    "requestBody": {
        "required": False,
        "content": {
            "application/x-ndjson": _lines(
                '{"kind": "step", "t": 1760000120.25, "run": "atlas-7b", "attempt": 0, "rank": 0, "step": 5}\n',
                "One event a line, as docs/event-log.md describes them.",
            )
        },
    },
}
