"""Small JSON bodies that people send: who sends is asked first, then so much is read and no more, then checked."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from tachograph_collector.service.problems import Problem

MAX_BYTES: Final = 64 * 1024

T = TypeVar("T", bound=BaseModel)


async def sent(request: Request, kind: type[T], *, may_be_empty: bool = False) -> T:
    """The request's body. Raises ``Problem`` 413 for one that is too large, 422 for one that isn't ``kind``."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise Problem(413, "Too large", f"more than {MAX_BYTES} bytes are too much to say here; say less")
    if may_be_empty and not body:
        body = b"{}"
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        wrong = [
            {"where": ".".join(["body", *map(str, each["loc"])]), "message": each["msg"]}
            for each in error.errors(include_url=False, include_context=False, include_input=False)[:10]
        ]
        detail = f"{wrong[0]['where']}: {wrong[0]['message']}"
        raise Problem(422, "Invalid value", detail, errors=wrong) from error


def takes(kind: type[BaseModel], example: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The ``openapi_extra=`` of a route that reads such a body with ``sent``."""
    content = {"application/json": {"schema": kind.model_json_schema(), "example": example}}
    return {"requestBody": {"required": required, "content": content}}
