"""What the OpenAPI says of a query route: its answer with an example, its other forms, and its problems."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from tachograph_collector.service.formats import MEDIA_TYPES
from tachograph_collector.service.problems import MEDIA_TYPE
from tachograph_collector.service.shapes import ProblemShape

Responses = dict[int | str, dict[str, Any]]

_EXAMPLES: Final = {
    401: ("Unauthorized", "a token is needed here; send it as Authorization: Bearer TOKEN"),
    403: ("Not allowed", "this token may ingest; read is needed here"),
    404: ("No such run", "there is no run 'llama/70b'; /v1/runs lists those there are"),
    406: ("Not acceptable", "Accept: 'text/html' leaves none of application/json, text/csv; accept one of them"),
    422: ("Invalid time", "since='tomorrow' is no time; give Unix seconds such as 1772323200, or ISO 8601"),
    429: ("Too Many Requests", "too many requests at once; try again after the seconds in Retry-After"),
    503: ("Service Unavailable", "the database does not answer"),
}


def answers(
    model: type[BaseModel], example: dict[str, Any], *, as_table: bool = True, of_run: bool = True
) -> Responses:
    """The ``responses=`` of a route that answers ``model``, ``as_table`` also in the other forms."""
    content: dict[str, Any] = {"application/json": {"example": example}}
    if as_table:
        for form, media_type in MEDIA_TYPES.items():
            if form == "csv":
                content[media_type] = {"schema": {"type": "string"}}
            elif form != "json":
                content[media_type] = {"schema": {"type": "string", "format": "binary"}}
    problems = [401, 403, 422, 429, 503, *([404] if of_run else []), *([406] if as_table else [])]
    return {
        200: {"model": model, "content": content},
        304: {"description": "What the client has (If-None-Match) still stands."},
        **{status: problem(status) for status in sorted(problems)},
    }


def problem(
    status: int, model: type[BaseModel] = ProblemShape, example: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One problem, with its example."""
    if example is None:
        title, detail = _EXAMPLES[status]
        example = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"description": example["title"], "content": {MEDIA_TYPE: {"schema": schema, "example": example}}}
