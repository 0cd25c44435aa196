"""A run's records as tables. The columns have the names that ``replay --json`` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import Row

from tachograph_collector.ledger.books import (
    ACCOUNTS,
    SUB_ACCOUNTS,
    Account,
    AttemptRecord,
    CheckpointRecord,
    Interruption,
    Segment,
)
from tachograph_collector.report.model import cost_us
from tachograph_collector.report.text import MINUTE, seconds
from tachograph_collector.service.formats import Column, Table
from tachograph_collector.store.folded_reader import Minutes, Revision

_TIES: Final[tuple[Account, ...]] = ("lost", "restart", "checkpoint", "kept")
"""Which label a stretch gets that has as much of two accounts: the ledger's order."""


def minutes_table(minutes: Minutes) -> Table:
    """Minutes, or longer stretches: as booked now, and as first booked."""
    amounts, first = minutes.amounts_us, minutes.first_amounts_us
    labels = np.array(ACCOUNTS, dtype=object)
    return [
        Column("start", "time", minutes.start_us),
        *(Column(f"{account}_s", "seconds", amounts[place]) for place, account in enumerate(ACCOUNTS)),
        Column("label", "text", labels[minutes.label].tolist()),
        Column("revision", "int", minutes.revision),
        Column("incomplete", "bool", minutes.incomplete),
        Column("first_booked_at", "time", minutes.first_booked_us),
        *(Column(f"first_{account}_s", "seconds", first[place]) for place, account in enumerate(ACCOUNTS)),
    ]


def coarser(minutes: Minutes, every_us: int) -> Minutes:
    """Minutes summed over stretches of ``every_us``, which are counted from 1970 in UTC.

    The revision is the highest, ``incomplete`` that any is, ``first_booked`` when all of it had been.
    """
    if every_us == MINUTE or not len(minutes):
        return minutes
    starts = minutes.start_us // every_us * every_us
    begins = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    amounts = np.add.reduceat(minutes.amounts_us, begins, axis=1)
    by_tie = np.array([ACCOUNTS.index(account) for account in _TIES])
    return Minutes(
        start_us=starts[begins],
        amounts_us=amounts,
        label=by_tie[amounts[by_tie].argmax(axis=0)],
        revision=np.maximum.reduceat(minutes.revision, begins),
        incomplete=np.logical_or.reduceat(minutes.incomplete, begins),
        first_booked_us=np.maximum.reduceat(minutes.first_booked_us, begins),
        first_amounts_us=np.add.reduceat(minutes.first_amounts_us, begins, axis=1),
    )


def revisions_table(rows: Sequence[Revision]) -> Table:
    """Restatements: what a minute was booked as, and what it is booked as since."""
    return [
        Column("version", "int", [row.version for row in rows]),
        Column("start", "time", [row.start_us for row in rows]),
        Column("revision", "int", [row.revision for row in rows]),
        Column("at", "time", [row.at_us for row in rows]),
        *(Column(f"was_{a}_s", "seconds", [row.was_us[place] for row in rows]) for place, a in enumerate(ACCOUNTS)),
        *(Column(f"{a}_s", "seconds", [row.now_us[place] for row in rows]) for place, a in enumerate(ACCOUNTS)),
    ]


def attempts_table(rows: Sequence[AttemptRecord]) -> Table:
    """Attempts, in order."""
    return [
        Column("index", "int", [row.index for row in rows]),
        Column("name", "text", [row.name for row in rows]),
        Column("start", "time", [row.start_us for row in rows]),
        Column("end", "time", [row.end_us for row in rows]),
        Column("how", "text", [row.how for row in rows]),
        Column("category", "text", [row.category for row in rows]),
        Column("world_size", "int", [row.world_size for row in rows]),
        Column("resume_step", "int", [row.resume_step for row in rows]),
        Column("told_resume_step", "int", [row.told_resume_step for row in rows]),
        Column("first_step", "int", [row.first_step for row in rows]),
        Column("last_step", "int", [row.last_step for row in rows]),
        Column("kept_s", "seconds", [row.kept_us for row in rows]),
        Column("lost_s", "seconds", [row.lost_us for row in rows]),
    ]


def restarts_table(numbered: Sequence[tuple[int, Interruption]]) -> Table:
    """Interruptions, in order; the phases as one object in JSON, as a column each elsewhere."""
    rows = [row for _, row in numbered]
    phases = [{name: seconds(us) for name, us in row.phases_us.items()} for row in rows]
    return [
        Column("index", "int", [index for index, _ in numbered]),
        Column("attempt", "int", [row.attempt for row in rows]),
        Column("how", "text", [row.how for row in rows]),
        Column("at", "time", [row.at_us for row in rows]),
        Column("resumed_at", "time", [row.resumed_at_us for row in rows]),
        Column("category", "text", [row.category for row in rows]),
        Column("inferred", "bool", [row.inferred for row in rows]),
        Column("node", "text", [row.node for row in rows]),
        Column("rank", "int", [row.rank for row in rows]),
        Column("detail", "text", [row.detail for row in rows]),
        Column("last_step", "int", [row.last_step for row in rows]),
        Column("resume_step", "int", [row.resume_step for row in rows]),
        Column("cost_s", "seconds", [cost_us(row) for row in rows]),
        Column("lost_s", "seconds", [row.lost_us for row in rows]),
        Column("restart_s", "seconds", [row.restart_us for row in rows]),
        Column("phases", "json", phases, only="json"),
        *(
            Column(f"{sub}_s", "seconds", [row.phases_us.get(sub, 0) for row in rows], only="flat")
            for sub in SUB_ACCOUNTS["restart"]
        ),
    ]


def checkpoints_table(numbered: Sequence[tuple[int, CheckpointRecord]]) -> Table:
    """Saves, in order."""
    rows = [row for _, row in numbered]
    return [
        Column("index", "int", [index for index, _ in numbered]),
        Column("attempt", "int", [row.attempt for row in rows]),
        Column("step", "int", [row.step for row in rows]),
        Column("mode", "text", [row.mode for row in rows]),
        Column("state", "text", [row.state for row in rows]),
        Column("start", "time", [row.start_us for row in rows]),
        Column("end", "time", [row.end_us for row in rows]),
        Column("blocking_s", "seconds", [row.blocking_us for row in rows]),
        Column("landed_at", "time", [row.landed_us for row in rows]),
        Column("persist_s", "seconds", [row.persist_us for row in rows]),
        Column("bytes", "int", [row.bytes for row in rows]),
        Column("tiers", "json", [list(row.tiers) for row in rows], only="json"),
        Column("tiers", "text", [",".join(row.tiers) or None for row in rows], only="flat"),
    ]


def segments_table(rows: Sequence[Segment]) -> Table:
    """The strip of the run, in order of time."""
    return [
        Column("start", "time", [row.start_us for row in rows]),
        Column("end", "time", [row.end_us for row in rows]),
        Column("account", "text", [row.account for row in rows]),
        Column("sub", "text", [row.sub for row in rows]),
        Column("attempt", "int", [row.attempt for row in rows]),
        Column("cause", "text", [row.cause for row in rows]),
        Column("by_attempt", "int", [None if row.by is None else row.by[0] for row in rows]),
        Column("by_rollback", "int", [None if row.by is None else row.by[1] for row in rows]),
    ]


def nodes_table(rows: Sequence[Row[Any]]) -> Table:
    """Nodes, by name."""
    return [
        Column("node", "text", [row.node for row in rows]),
        Column("state", "text", [row.state for row in rows]),
        Column("state_since", "time", [row.state_since_us for row in rows]),
        Column("first_heard_at", "time", [row.first_heard_us for row in rows]),
        Column("last_heard_at", "time", [row.last_heard_us for row in rows]),
        Column("last_heartbeat_at", "time", [row.last_heartbeat_us for row in rows]),
        Column("interval_s", "seconds", [row.interval_us for row in rows]),
        Column("step", "int", [row.step for row in rows]),
        Column("ranks_alive", "int", [row.ranks_alive for row in rows]),
        Column("queue_bytes", "int", [row.queue_bytes for row in rows]),
        Column("dropped", "int", [row.dropped for row in rows]),
        Column("clock_offset_s", "float", [row.clock_offset_s for row in rows]),
        Column("agent_version", "text", [row.agent_version for row in rows]),
        Column("metrics_address", "text", [row.metrics_address for row in rows]),
    ]
