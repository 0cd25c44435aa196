"""Routes below a run: its name is one percent-encoded segment of the path, whatever characters it has.

``/v1/runs/team%2Fllama%231/minutes`` is about the run ``team/llama#1``. Servers decode paths before they are routed,
and a ``/`` of a name could then no longer be told from one of the path; so these routes are matched against the path
as it was sent. Names that no path can carry (``..``, which clients resolve, or none at all), and proxies that decode
paths, have another way: ``/v1/runs/-/minutes?run=NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Path, Query
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from tachograph_collector.service.problems import Problem, shown

ELSEWHERE: Final = "-"
"""In the place of a name that is given as ``?run=``."""


class QueryRoute(APIRoute):
    """A route matched against the path as it was sent, that takes no parameter it does not know."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As any route, with the segments of the path still percent-encoded."""
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw:
            scope = {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As any route's, behind a look at the parameters' names: a misspelt one is told, not ignored."""
        handle = super().get_route_handler()
        known = set(_query_names(self.dependant))

        async def handler(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    expected = ", ".join(sorted(known)) or "none"
                    raise Problem(422, "Unknown parameter", f"there is no parameter {shown(name)}; known: {expected}")
            return await handle(request)

        return handler


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (each.alias for each in dependant.query_params)
    for below in dependant.dependencies:
        yield from _query_names(below)


def name_of(
    run: Annotated[
        str,
        Path(
            description="The run's name, percent-encoded as one segment (a `/` in it as `%2F`); "
            "or `-`, and the name in the parameter `run`.",
            examples=["llama/70b"],
        ),
    ],
    elsewhere: Annotated[
        str | None,
        Query(alias="run", description="With `-` in the path: the run's name, for names that a path can't carry."),
    ] = None,
) -> str:
    """The run's name. Raises ``Problem`` 404 for what can't be one."""
    if run == ELSEWHERE and elsewhere is not None:
        return elsewhere
    try:
        name = unquote_to_bytes(run.encode("latin-1")).decode("utf-8")
    except UnicodeError as error:
        raise Problem(404, "No such run", f"no run is named {shown(run)}, which is not UTF-8, encoded") from error
    if elsewhere not in {None, name}:
        both = f"the path names run {shown(name)}, the parameter run {shown(elsewhere)}"
        raise Problem(422, "Two runs", f"{both}; leave one out")
    return name


RunName = Annotated[str, Depends(name_of)]
