"""``/v1/runs/{run}/steps``: how fast each rank went, over any stretch of time, in as many points as a screen has."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.report.text import seconds_or_none
from tachograph_collector.service import examples
from tachograph_collector.service import row_shapes as shapes
from tachograph_collector.service.asking import Reader, asked, table_answer
from tachograph_collector.service.described import answers
from tachograph_collector.service.downsample import METRICS, Buckets
from tachograph_collector.service.formats import AskedFormat
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_names import QueryRoute, RunName
from tachograph_collector.service.times import AskedWindow
from tachograph_collector.store.folded_reader import read_books
from tachograph_collector.store.step_reader import StepsAsked, generation_window, step_pieces, steps_there

router = APIRouter(prefix="/v1/runs/{run}", tags=["rows"], route_class=QueryRoute)

MetricName = Literal["step_s", "busy_s", "wait_s", "loss", "grad_norm", "tokens"]
MAX_RECORDS: Final = 20_000_000
"""One answer reads no more than this, some seconds of work."""
MAX_RANKS: Final = 64
MAX_ROWS: Final = 128_000
"""Of all series together: what is kept of them while steps are read takes 30 MB then."""
MAX_NODES: Final = 1_000


@router.get("/steps", summary="Its steps, thinned out", responses=answers(shapes.Steps, examples.STEPS))
def steps(
    request: Request,
    run: RunName,
    access: Reader,
    form: AskedFormat,
    window: AskedWindow,
    rank: Annotated[
        list[Annotated[int, Query(ge=0, lt=2**31)]] | None,
        Query(description="One series for this rank; may be repeated. Without it one series of all ranks together."),
    ] = None,
    node: Annotated[list[str] | None, Query(description="Only steps of this node; may be repeated.")] = None,
    attempt: Annotated[str | None, Query(description="Only steps of the attempt of this name.")] = None,
    metric: Annotated[list[MetricName] | None, Query(description="Only this metric; may be repeated.")] = None,
    points: Annotated[int, Query(ge=1, le=10_000, description="At most this many rows a series.")] = 2_000,
) -> Response:
    """The smallest, mean and greatest of each metric in stretches of equal length, those without a step left out.

    Metrics are those of one step: `step_s`, `busy_s` and `wait_s` in seconds, `tokens`; and `loss` and `grad_norm`.
    """
    if rank is not None and len(set(rank)) > MAX_RANKS:
        raise Problem(422, "Too many ranks", f"{len(set(rank))} ranks are asked for; at most {MAX_RANKS} at once")
    if node is not None and len(node) > MAX_NODES:
        raise Problem(422, "Too many nodes", f"{len(node)} nodes are asked for; at most {MAX_NODES} at once")
    if any("\0" in text for text in (*(node or ()), attempt or "")):
        raise Problem(422, "Invalid name", "a node or attempt has a character 0, which no name has")
    with asked(request, access) as ask:
        key = ask.key(run)
        since_us, until_us = window.since_us, window.until_us
        stored = read_books(ask.connection, ask.tenant_id, run)
        if stored is not None:
            begins_us, ends_us = generation_window(ask.connection, key, stored.key.generation)
            since_us = max((at for at in (since_us, begins_us) if at is not None), default=None)
            until_us = min((at for at in (until_us, ends_us) if at is not None), default=None)
        which = StepsAsked(key, since_us, until_us, node, attempt)
        there = steps_there(ask.connection, which)
        if there.num_records > MAX_RECORDS:
            raise Problem(
                422,
                "Too many steps",
                f"run {shown(run)} has {there.num_records:,} step records there, and one answer reads at most "
                f"{MAX_RECORDS:,}; narrow it by since and until, by node or by attempt",
            )
        first_us = max(there.first_us or 0, since_us if since_us is not None else there.first_us or 0)
        last_us = (there.last_us or 0) + 1
        end_us = max(first_us + 1, last_us if until_us is None else min(last_us, until_us))
        points = min(points, MAX_ROWS // len(set(rank)) if rank else MAX_ROWS)
        buckets = Buckets(
            first_us, end_us, min(points, end_us - first_us), rank, list(dict.fromkeys(metric or METRICS))
        )
        buckets.add_all(step_pieces(ask.connection, which))
    head = {
        "run": run,
        "since": seconds_or_none(None if there.first_us is None else first_us),
        "until": seconds_or_none(None if there.first_us is None else end_us),
        "records": buckets.num_records,
    }
    return table_answer(request, form, head, "steps", buckets.table())
