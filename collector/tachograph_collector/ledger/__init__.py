"""Which account each moment belongs to: events in, accounts out, no clock and no I/O."""

from tachograph_collector.ledger.books import (
    ACCOUNTS,
    SUB_ACCOUNTS,
    Anomaly,
    AttemptRecord,
    Books,
    Changes,
    CheckpointRecord,
    Details,
    GpuHours,
    Interruption,
    Minute,
    Restated,
    RunSpan,
    Segment,
)
from tachograph_collector.ledger.ledger import Ledger
from tachograph_collector.ledger.source import StepSource
from tachograph_collector.ledger.state import StateError

__all__ = [
    "ACCOUNTS",
    "SUB_ACCOUNTS",
    "Anomaly",
    "AttemptRecord",
    "Books",
    "Changes",
    "CheckpointRecord",
    "Details",
    "GpuHours",
    "Interruption",
    "Ledger",
    "Minute",
    "Restated",
    "RunSpan",
    "Segment",
    "StateError",
    "StepSource",
]
