"""What answers about nodes over runs look like, for the OpenAPI."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tachograph_collector.service.shapes import Shape

HowSure = Literal["sure", "suspect", "not sure", "unknown", "no failure"]
KindName = Literal["failure", "dead", "xid", "application_xid", "health", "straggler", "episode", "corruption"]


class NodeLine(Shape):
    """What is held against one node, and how sure that is."""

    node: str
    score: float = Field(description="Marks by their weight, each halved for every half-life since.")
    how_sure: HowSure
    sentence: str
    failures: int = Field(description="Failures that this node was the first to have.")
    expected_failures: float | None = Field(description="Those that it would have, were all nodes alike.")
    chance: float | None = Field(description="That a node of its hours has as many by luck.")
    chance_of_any: float | None = Field(description="That any node of the fleet has such a chance by luck.")
    exposure_s: float | None = Field(description="How long it was in runs.")
    xids: int
    application_xids: int
    health: int
    straggler: int
    episodes: int
    corruption: int
    runs: int
    last_at: float | None


class NodeList(Shape):
    """The nodes, the most suspect first."""

    since: float
    until: float
    as_of: float
    origins: list[str]
    half_life_days: float
    xids_cut: bool = Field(description="There were more Xids than are looked at.")
    nodes: list[NodeLine]
    next: str | None


class NodeMark(Shape):
    """One thing that is held against a node."""

    at: float
    kind: KindName
    run: str
    weight: float
    detail: str


class NodeStay(Shape):
    """A run that it was in."""

    run: str
    origin: str
    first_heard_at: float
    last_heard_at: float
    state: str


class NodeAnswer(NodeLine):
    """One node's record over runs."""

    rank: int = Field(description="Its place in the list, from 1.")
    num_nodes: int
    since: float
    until: float
    as_of: float
    origins: list[str]
    half_life_days: float
    xids_cut: bool
    marks: list[NodeMark] = Field(description="The latest first, 1,000 at most.")
    num_marks: int
    stays: list[NodeStay]
