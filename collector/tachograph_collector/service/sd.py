"""``GET /v1/sd``: the agents' own metrics, as Prometheus' HTTP service discovery takes them.

An agent says in its heartbeats where its metrics are, unless only its own node reaches them. One target an address,
with the node and the runs that it is heard of in; who was silent for ``SHOWN_FOR_US`` is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, and_, select
from starlette.requests import Request

from tachograph_collector.service.access import Access, require
from tachograph_collector.service.described import problem
from tachograph_collector.service.state import service_of
from tachograph_collector.store.schema import nodes, runs

SHOWN_FOR_US: Final = 10 * 60_000_000
MAX_ROWS: Final = 200_000
MAX_RUNS: Final = 20
"""Runs named in a target's label; who needs all of them asks for the nodes of a run."""

router = APIRouter(tags=["metrics"])

# What a heartbeat says goes into Prometheus' configuration: nothing but a host and a port.
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})")


class Targets(BaseModel):
    """One agent's metrics."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "targets": ["10.0.4.21:9464"],
                "labels": {"__meta_tachograph_node": "n021", "__meta_tachograph_runs": ",llama-70b,"},
            }
        }
    )

    targets: list[str] = Field(description="HOST:PORT, one.")
    labels: dict[str, str] = Field(description="For relabelling: the node, and its runs between commas.")


@router.get(
    "/v1/sd", summary="Agents, for Prometheus", responses={status: problem(status) for status in (401, 403, 503)}
)
def discover(request: Request, access: Annotated[Access, Depends(require("read"))]) -> list[Targets]:
    """The agents' own metrics, for `http_sd_configs`."""
    database = service_of(request).database
    with database.read() as connection:
        return targets(connection, access.tenant_id, database.now_us(connection))


def targets(connection: Connection, tenant_id: int, now_us: int) -> list[Targets]:
    """One a node and address, in order, of those that were heard of lately."""
    query = (
        select(nodes.c.metrics_address, nodes.c.node, runs.c.name)
        .join(runs, and_(runs.c.tenant_id == nodes.c.tenant_id, runs.c.run_id == nodes.c.run_id))
        .where(
            nodes.c.tenant_id == tenant_id,
            nodes.c.metrics_address.is_not(None),
            nodes.c.last_heard_us > now_us - SHOWN_FOR_US,
            runs.c.origin == "live",
        )
        .order_by(nodes.c.last_heard_us.desc())
        .limit(MAX_ROWS)
    )
    node_of: dict[str, str] = {}
    runs_of: dict[str, list[str]] = defaultdict(list)
    for address, node, run in connection.execute(query):
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[1]) < 65_536:
            continue
        node_of.setdefault(address, node)  # of two nodes that claim one address, the one heard last
        if len(runs_of[address]) < MAX_RUNS:
            runs_of[address].append(run)
    return [
        Targets(
            targets=[address],
            labels={
                "__meta_tachograph_node": node_of[address],
                # As Prometheus' own discoveries write lists, so that a pattern can ask for ",name,".
                "__meta_tachograph_runs": f",{','.join(sorted(set(runs_of[address])))},",
            },
        )
        for address in sorted(node_of)
    ]
