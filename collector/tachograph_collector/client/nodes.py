"""What a client asks about nodes over runs. ``Client`` has all of it."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Struct

from tachograph_collector.client.incidents import Names
from tachograph_collector.client.node_records import NodeDetail, NodeRecord
from tachograph_collector.client.records import Records
from tachograph_collector.client.transport import Parameters
from tachograph_collector.client.values import When, time_of

T = TypeVar("T", bound=Struct)


class NodeCalls:
    """The part of ``Client`` that is about nodes over runs."""

    def _pages(
        self, kind: type[T], path: str, name: str, parameters: Parameters, limit: int | None = None
    ) -> Records[T]:
        raise NotImplementedError

    def ask(self, kind: Any, path: str, parameters: Parameters | None = None) -> Any:
        """One answer as ``kind``."""
        raise NotImplementedError

    def nodes(
        self,
        name: str | None = None,
        *,
        how_sure: Names = None,
        since: When = None,
        until: When = None,
        origin: Names = None,
        half_life_days: float | None = None,
        limit: int | None = None,
    ) -> Records[NodeRecord]:
        """What is held against each node over runs, the most suspect first; of the last 90 days without ``since``.

        ``how_sure`` takes those that are ``sure``, ``suspect`` ...; ``half_life_days`` (7) is when a mark counts half.
        """
        asked = _asked(since, until, origin, half_life_days)
        return self._pages(NodeRecord, "/v1/nodes", "nodes", {**asked, "name": name, "how_sure": how_sure}, limit)

    def node(
        self,
        name: str,
        *,
        since: When = None,
        until: When = None,
        origin: Names = None,
        half_life_days: float | None = None,
    ) -> NodeDetail:
        """One node's record over runs: what is held against it, where it was, and how sure that is."""
        path, named = _path(name)
        asked = _asked(since, until, origin, half_life_days)
        detail: NodeDetail = self.ask(NodeDetail, path, {**asked, **named})
        return detail


def _path(node: str) -> tuple[str, dict[str, str]]:
    """The path of a node's record; a name that no path can carry is told beside it, as of a run."""
    if node in {"", ".", "..", "-"}:
        return "/v1/nodes/-", {"node": node}
    return f"/v1/nodes/{quote(node, safe='', errors='surrogatepass')}", {}


def _asked(since: When, until: When, origin: Names, half_life_days: float | None) -> dict[str, Any]:
    days = None if half_life_days is None else f"{half_life_days:.6g}"
    return {"since": time_of(since), "until": time_of(until), "origin": origin, "half_life_days": days}
