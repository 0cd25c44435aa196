"""What a run is known by inside the collector."""

from __future__ import annotations

from typing import NamedTuple


class RunKey(NamedTuple):
    """A run of a tenant: the first two columns of every table that belongs to a run."""

    tenant_id: int
    run_id: int
