"""What the collector answers about nodes over runs, as typed records."""

from __future__ import annotations

from msgspec import Struct, field

from tachograph_collector.client.records import UnixSeconds


class NodeRecord(Struct, frozen=True, kw_only=True):
    """What is held against a node over runs, and how sure that is."""

    node: str
    score: float
    """Marks by their weight, each halved for every half-life since."""
    how_sure: str
    """``sure``, ``suspect``, ``not sure``, ``unknown`` or ``no failure``."""
    sentence: str = ""
    failures: int = 0
    expected_failures: float | None = None
    """Those that it would have, were all nodes alike."""
    chance: float | None = None
    """That a node of its hours has as many by luck."""
    chance_of_any: float | None = None
    """That any node of the fleet has such a chance by luck."""
    exposure_s: float | None = None
    """How long it was in runs."""
    xids: int = 0
    application_xids: int = 0
    health: int = 0
    straggler: int = 0
    episodes: int = 0
    corruption: int = 0
    runs: int = 0
    last_at: UnixSeconds | None = None


class NodeMark(Struct, frozen=True, kw_only=True):
    """One thing that is held against a node."""

    at: UnixSeconds
    kind: str
    run: str
    weight: float = 0.0
    detail: str = ""


class NodeStay(Struct, frozen=True, kw_only=True):
    """A run that a node was in."""

    run: str
    origin: str = "live"
    first_heard_at: UnixSeconds
    last_heard_at: UnixSeconds
    state: str = ""


class NodeDetail(NodeRecord, frozen=True, kw_only=True):
    """One node's record, with what it is made of."""

    rank: int
    """Its place among the most suspect, from 1."""
    num_nodes: int
    since: UnixSeconds | None = None
    until: UnixSeconds | None = None
    half_life_days: float | None = None
    marks: list[NodeMark] = field(default_factory=list)
    """The latest first."""
    num_marks: int = 0
    stays: list[NodeStay] = field(default_factory=list)
