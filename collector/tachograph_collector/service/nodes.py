"""``/v1/nodes``: each node's record over runs, the most suspect first, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.detect.suspicion import DAY_US, HALF_LIFE_DAYS, Kind, NodeRecord, ranked
from tachograph_collector.report.text import seconds
from tachograph_collector.service import node_examples as examples
from tachograph_collector.service import node_shapes as shapes
from tachograph_collector.service.asking import Reader, asked, json_answer, table_answer
from tachograph_collector.service.described import answers, problem
from tachograph_collector.service.formats import AskedFormat, Column, Table
from tachograph_collector.service.incident_shapes import OriginName
from tachograph_collector.service.node_shapes import HowSure
from tachograph_collector.service.paging import AskedPage, next_page
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.run_names import ELSEWHERE, QueryRoute
from tachograph_collector.service.state import service_of
from tachograph_collector.service.times import AskedWindow
from tachograph_collector.store.node_records import Records, read_records

router = APIRouter(prefix="/v1", tags=["nodes"], route_class=QueryRoute)

WINDOW_DAYS: Final = 90
"""How far back a record goes unless ``since`` says otherwise."""
MAX_A_PAGE: Final = 10_000
MAX_MARKS: Final = 1_000
_SCORE: Final = 1e9

HalfLife = Annotated[
    float,
    Query(description="After so many days a mark counts half.", gt=0, le=3650, allow_inf_nan=False, examples=[7]),
]
Origins = Annotated[list[OriginName] | None, Query(description="Only runs of this origin; may be repeated.")]
Sures = Annotated[list[HowSure] | None, Query(description="Only nodes of which it is so sure; may be repeated.")]
NamePattern = Annotated[
    str | None,
    Query(description="Only nodes of this name; `*` and `?` stand for any characters and any one.", max_length=1_000),
]


def node_of(
    node: Annotated[
        str,
        Path(
            description="The node's name, percent-encoded as one segment; or `-`, and the name as `?node=`.",
            examples=["node-05"],
        ),
    ],
    elsewhere: Annotated[
        str | None,
        Query(alias="node", description="With `-` in the path: the node's name.", max_length=1_000),
    ] = None,
) -> str:
    """The node's name. Raises ``Problem`` 404 for what can't be one."""
    if node == ELSEWHERE and elsewhere is not None:
        return elsewhere
    try:
        name = unquote_to_bytes(node.encode("latin-1")).decode("utf-8")
    except UnicodeError as error:
        raise Problem(404, "No such node", f"no node is named {shown(node)}, which is not UTF-8, encoded") from error
    if elsewhere not in {None, name}:
        both = f"the path names node {shown(name)}, the parameter node {shown(elsewhere)}"
        raise Problem(422, "Two nodes", f"{both}; leave one out")
    return name


@dataclass(frozen=True, slots=True)
class _Question:
    since_us: int | None
    until_us: int | None
    origins: list[str]
    half_life_days: float


@dataclass(frozen=True, slots=True)
class _Found:
    records: list[NodeRecord]
    stored: Records
    head: dict[str, Any]
    as_of_us: int


def _question(window: AskedWindow, origin: Origins = None, half_life_days: HalfLife = HALF_LIFE_DAYS) -> _Question:
    return _Question(window.since_us, window.until_us, list(dict.fromkeys(origin or ["live"])), half_life_days)


Question = Annotated[_Question, Depends(_question)]


def _find(request: Request, access: Reader, question: _Question, as_of_us: int | None = None) -> _Found:
    """The records as of now, or as of the page before."""
    with asked(request, access) as ask:
        now_us = service_of(request).database.now_us(ask.connection)
        now_us = now_us if as_of_us is None else max(0, min(as_of_us, now_us))
        until_us = now_us + 1 if question.until_us is None else question.until_us
        since_us = until_us - WINDOW_DAYS * DAY_US if question.since_us is None else question.since_us
        stored = read_records(ask.connection, ask.tenant_id, question.origins, since_us, until_us)
    at_us = min(now_us, until_us)
    records = ranked(
        stored.marks, stored.exposure_us(since_us, until_us), stored.runs(), at_us, question.half_life_days
    )
    head = {
        "since": seconds(since_us),
        "until": seconds(until_us),
        "as_of": seconds(at_us),
        "origins": question.origins,
        "half_life_days": question.half_life_days,
        "xids_cut": stored.is_cut,
    }
    return _Found(records, stored, head, now_us)


@router.get("/nodes", summary="Nodes over runs", responses=answers(shapes.NodeList, examples.NODES, of_run=False))
def list_nodes(
    request: Request,
    access: Reader,
    form: AskedFormat,
    page: AskedPage,
    question: Question,
    name: NamePattern = None,
    how_sure: Sures = None,
) -> Response:
    """What is held against each node in the last 90 days, the most suspect first, and whether it may be luck.

    `how_sure` is `sure` where luck is ruled out though the worst of many nodes is looked at, `suspect` where it is not.
    At most 10,000 a page.
    """
    after = page.after(int, int, str)
    found = _find(request, access, question, None if after is None else after[0])
    limit = min(page.limit, MAX_A_PAGE)
    rows = [
        one
        for one in found.records
        if (name is None or fnmatchcase(one.node, name.replace("[", "[[]")))
        and (how_sure is None or one.how_sure in how_sure)
        and (after is None or (-_place(one), one.node) > (-after[1], after[2]))
    ]
    rows.sort(key=lambda one: (-_place(one), one.node))
    more, rows = len(rows) > limit, rows[:limit]
    next_url = next_page(request, (found.as_of_us, _place(rows[-1]), rows[-1].node)) if more else None
    return table_answer(request, form, found.head, "nodes", _table(rows), next_url)


@router.get(
    "/nodes/{node}",
    summary="One node's record",
    responses={
        **answers(shapes.NodeAnswer, examples.NODE, as_table=False, of_run=False),
        404: problem(
            404,
            example={
                "type": "about:blank",
                "title": "No such node",
                "status": 404,
                "detail": "no run of these origins had node 'n9' in this time; /v1/nodes lists those there are",
            },
        ),
    },
)
def one_node(request: Request, access: Reader, question: Question, node: Annotated[str, Depends(node_of)]) -> Response:
    """Its failures, Xids and the times that it was named, the latest first; where it was; and how sure that is."""
    found = _find(request, access, question)
    place = next((place for place, one in enumerate(found.records) if one.node == node), None)
    if place is None:
        raise Problem(
            404,
            "No such node",
            f"no run of these origins had node {shown(node)} in this time; /v1/nodes lists those there are",
        )
    one = found.records[place]
    told = {
        **_line(one),
        **found.head,
        "rank": place + 1,
        "num_nodes": len(found.records),
        "marks": [
            {
                "at": seconds(mark.at_us),
                "kind": mark.kind,
                "run": mark.run,
                "weight": mark.weight,
                "detail": mark.detail,
            }
            for mark in one.marks[:MAX_MARKS]
        ],
        "num_marks": len(one.marks),
        "stays": [
            {
                "run": stay.run,
                "origin": stay.origin,
                "first_heard_at": seconds(stay.first_heard_us),
                "last_heard_at": seconds(stay.last_heard_us),
                "state": stay.state,
            }
            for stay in found.stored.stays
            if stay.node == node
        ],
    }
    return json_answer(request, msgspec.json.encode(told))


def _place(one: NodeRecord) -> int:
    return round(one.score * _SCORE)


_COUNTS: Final[tuple[tuple[str, Kind], ...]] = (
    ("xids", "xid"),
    ("application_xids", "application_xid"),
    ("health", "health"),
    ("straggler", "straggler"),
    ("episodes", "episode"),
    ("corruption", "corruption"),
)


def _table(rows: list[NodeRecord]) -> Table:
    return [
        Column("node", "text", [one.node for one in rows]),
        Column("score", "float", [one.score for one in rows]),
        Column("how_sure", "text", [one.how_sure for one in rows]),
        Column("sentence", "text", [one.sentence for one in rows]),
        Column("failures", "int", [one.num_failures for one in rows]),
        Column("expected_failures", "float", [one.expected_failures for one in rows]),
        Column("chance", "float", [one.chance for one in rows]),
        Column("chance_of_any", "float", [one.chance_of_any for one in rows]),
        Column("exposure_s", "seconds", [one.exposure_us for one in rows]),
        *(Column(name, "int", [one.counts.get(kind, 0) for one in rows]) for name, kind in _COUNTS),
        Column("runs", "int", [len(one.runs) for one in rows]),
        Column("last_at", "time", [one.last_us for one in rows]),
    ]


def _line(one: NodeRecord) -> dict[str, Any]:
    return {
        "node": one.node,
        "score": one.score,
        "how_sure": one.how_sure,
        "sentence": one.sentence,
        "failures": one.num_failures,
        "expected_failures": one.expected_failures,
        "chance": one.chance,
        "chance_of_any": one.chance_of_any,
        "exposure_s": None if one.exposure_us is None else seconds(one.exposure_us),
        **{name: one.counts.get(kind, 0) for name, kind in _COUNTS},
        "runs": len(one.runs),
        "last_at": None if one.last_us is None else seconds(one.last_us),
    }
