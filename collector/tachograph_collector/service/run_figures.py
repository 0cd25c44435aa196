"""The figures of one live run that metrics show, read from the folded tables: few, whatever the number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, and_, case, func, or_, select

from tachograph_collector.ledger.books import ACCOUNTS, Account, Books
from tachograph_collector.service.incident_figures import Flagged
from tachograph_collector.store.folded import Booked, booked_so_far
from tachograph_collector.store.folded_reader import FoldedKey
from tachograph_collector.store.incident_tables import incidents
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.packing import step_columns
from tachograph_collector.store.schema import books, leases, minutes, nodes, runs, samples

HOUR_US: Final = 3_600_000_000
WINDOWS_US: Final = {"1h": HOUR_US, "24h": 24 * HOUR_US}
SHOWN_AFTER_END_US: Final = HOUR_US // 4
"""A finished run's series stay so long after its end, so that its last values are scraped."""
NUM_STRAGGLERS: Final = 5
NEWEST_STEPS: Final = 5
"""So many of a rank's newest steps make its median."""
MAX_PIECES: Final = 20_000
PIECES_AT_ONCE: Final = 32
"""Opened in about 1 ms (10 steps each), which is what a request that comes meanwhile waits."""
LOOK_BACK_US: Final = 10 * 60_000_000
"""Steps are looked for so far back from the newest one."""

Ints = np.typing.NDArray[np.int64]
Floats = np.typing.NDArray[np.float64]

_BOOKS: Final = msgspec.json.Decoder(Books)


class Window(NamedTuple):
    """What was booked in the newest stretch of a run, by whole minutes."""

    wall_us: int
    kept_us: int

    def goodput(self) -> float | None:
        """Kept over wall-clock; None where nothing is booked."""
        return self.kept_us / self.wall_us if self.wall_us else None

    def goodput_low(self, at_risk_us: int | None) -> float | None:
        """The same if everything at risk were lost now; None where saves are unseen."""
        if not self.wall_us or at_risk_us is None:
            return None
        return max(0, self.kept_us - at_risk_us) / self.wall_us


class Straggler(NamedTuple):
    """A rank that takes long, and its median time per step outside of waiting for others."""

    rank: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class Busy:
    """How long ranks work in a step: the slowest, worst first, and the median rank."""

    slowest: Sequence[Straggler] = ()
    median_s: float | None = None


@dataclass(frozen=True, slots=True)
class Newest:
    """What the newest steps tell of training; None where they don't."""

    loss: float | None = None
    grad_norm: float | None = None
    step_s: float | None = None
    tokens_per_s: float | None = None
    """Of all ranks that tell their tokens."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the model says of the checkpoint interval; each (expected, low, high), None where it can't tell."""

    interval_s: float | None = None
    mtbf_s: tuple[float, float, float] | None = None
    best_s: tuple[float, float, float] | None = None
    in_use_goodput: tuple[float, float, float] | None = None
    best_goodput: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One run as metrics show it."""

    key: FoldedKey
    books: Books
    version: int
    windows: Mapping[str, Window]
    booked: Booked
    """Sums that only grow."""
    booked_until_us: int = 0
    last_received_us: int = 0
    delay_us: int | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    """By state."""
    open_incidents: Mapping[str, int] = field(default_factory=dict)
    """By severity."""
    flagged: Flagged = field(default_factory=Flagged)
    """Of the newest generation of a run; others have none."""
    busy: Busy = field(default_factory=Busy)
    newest: Newest = field(default_factory=Newest)
    forecast: Forecast = field(default_factory=Forecast)
    origin: str = "live"


class Held(NamedTuple):
    """A run that this collector folds, without what costs more to read."""

    key: FoldedKey
    version: int
    fence: int
    folded_until_us: int
    last_received_us: int
    delay_us: int | None
    origin: str


def held_runs(
    connection: Connection,
    holder: str,
    now_us: int,
    limit: int,
    remembered: Mapping[RunKey, int],
    origins: Sequence[str] = ("live",),
) -> list[Held]:
    """Runs whose lease ``holder`` has: those under way and those that ended a short while ago, newest first.

    ``remembered`` runs, which it had with that fence and has let go, are among them until somebody takes them: a run
    of which nothing comes for a while is let go. Only those of ``origins``.
    """
    b, lease, run = books.c, leases.c, runs.c
    holds = and_(lease.holder == holder, lease.until_us > now_us)
    if remembered:
        holds = or_(holds, and_(lease.holder.is_(None), run.run_id.in_([each.run_id for each in remembered])))
    query = (
        select(
            b.tenant_id,
            b.run_id,
            b.generation,
            b.version,
            lease.holder,
            lease.fence,
            lease.folded_until_us,
            run.last_received_us,
            run.delay_us,
            b.origin,
        )
        .select_from(
            leases.join(books, and_(b.tenant_id == lease.tenant_id, b.run_id == lease.run_id)).join(
                runs, and_(run.tenant_id == lease.tenant_id, run.run_id == lease.run_id)
            )
        )
        .where(
            holds,
            b.origin.in_(origins),
            or_(b.status == "running", b.end_us > now_us - SHOWN_AFTER_END_US),
        )
        .order_by(run.last_received_us.desc(), b.run_id, b.generation)
        .limit(limit)
    )
    found = []
    for row in connection.execute(query):
        key = RunKey(row.tenant_id, row.run_id)
        if row.holder is None and remembered.get(key) != row.fence:
            continue  # somebody had it since, and may remember it, too
        found.append(
            Held(
                FoldedKey(key, row.generation),
                row.version,
                row.fence,
                row.folded_until_us,
                row.last_received_us,
                row.delay_us,
                row.origin,
            )
        )
    return found


def read_figures(connection: Connection, held: Held) -> RunFigures | None:
    """The run's figures but for what takes a model; None if its books are gone."""
    found = connection.execute(select(books.c.data).where(*_of(books, held.key))).first()
    if found is None:
        return None
    figures = RunFigures(
        key=held.key,
        books=_BOOKS.decode(found.data),
        version=held.version,
        windows=_windows(connection, held.key),
        booked=booked_so_far(connection, held.key.run, held.key.generation),
        origin=held.origin,
    )
    return refreshed(connection, figures, held)


def refreshed(connection: Connection, figures: RunFigures, held: Held) -> RunFigures:
    """The same with what may change while the books stand: what was heard last, nodes, incidents."""
    run = held.key.run
    return replace(
        figures,
        booked_until_us=held.folded_until_us,
        last_received_us=held.last_received_us,
        delay_us=held.delay_us,
        nodes=_counted(connection, run, nodes, nodes.c.state),
        open_incidents=_counted(connection, run, incidents, incidents.c.severity, incidents.c.cleared_us.is_(None)),
    )


def _of(table: Any, key: FoldedKey) -> tuple[Any, ...]:
    c = table.c
    return (c.tenant_id == key.run.tenant_id, c.run_id == key.run.run_id, c.generation == key.generation)


def _windows(connection: Connection, key: FoldedKey) -> dict[str, Window]:
    """Sums over the newest booked minutes, the last of them at the end of each window."""
    c = minutes.c
    newest_us = connection.execute(select(func.max(c.start_us)).where(*_of(minutes, key))).scalar()
    if newest_us is None:
        return {}
    wall = c.kept_us + c.checkpoint_us + c.lost_us + c.restart_us
    sums = []
    for width_us in WINDOWS_US.values():
        inside = c.start_us > newest_us - width_us
        sums += [func.sum(case((inside, amount), else_=0)) for amount in (wall, c.kept_us)]
    longest_us = max(WINDOWS_US.values())
    row = connection.execute(select(*sums).where(*_of(minutes, key), c.start_us > newest_us - longest_us)).one()
    return {
        name: Window(int(row[2 * place] or 0), int(row[2 * place + 1] or 0)) for place, name in enumerate(WINDOWS_US)
    }


def _counted(connection: Connection, run: RunKey, table: Any, column: Any, *conditions: Any) -> dict[str, int]:
    query = (
        select(column, func.count())
        .where(table.c.tenant_id == run.tenant_id, table.c.run_id == run.run_id, *conditions)
        .group_by(column)
    )
    return {name: int(number) for name, number in connection.execute(query)}


def read_newest(connection: Connection, run: RunKey, pause: Callable[[], object] = lambda: None) -> tuple[Busy, Newest]:
    """How long each rank worked in its newest steps (nothing where they don't tell), and what else they tell.

    ``pause`` is called now and then, for who must let other threads have their turn: of thousands of nodes it reads
    thousands of pieces.
    """
    c = samples.c
    mine = (c.tenant_id == run.tenant_id, c.run_id == run.run_id, c.kind == "step")
    newest_us = connection.execute(select(func.max(c.end_us)).where(*mine)).scalar()
    if newest_us is None:
        return Busy(), Newest()
    query = (
        select(c.data)
        .where(*mine, c.end_us > newest_us - LOOK_BACK_US, c.max_step > _newest_step(connection, mine) - NEWEST_STEPS)
        .order_by(c.end_us.desc())
        .limit(MAX_PIECES)
    )
    pieces = []
    for place, data in enumerate(connection.execute(query).scalars(), start=1):
        pieces.append(step_columns(data))
        if place % PIECES_AT_ONCE == 0:
            pause()
    if not pieces:
        return Busy(), Newest()
    rank, step, count, busy_s, dur_s, loss, grad_norm, tokens = (
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("rank", "step", "count", "busy_s", "dur_s", "loss", "grad_norm", "tokens")
    )
    late = step > step.max() - NEWEST_STEPS
    told = np.isfinite(busy_s) & (busy_s >= 0) & (rank >= 0) & late
    count = np.maximum(count, 1)
    newest = newest_of(step[late], (dur_s / count)[late], loss[late], grad_norm[late], (tokens / count)[late])
    return busy_of(rank[told], busy_s[told]), newest


def newest_of(step: Ints, step_s: Floats, loss: Floats, grad_norm: Floats, tokens: Floats) -> Newest:
    """What records tell, one entry a step and rank, NaN where nobody said; loss and norm of the last that does."""
    taken_s = _median(step_s)
    return Newest(_last(step, loss), _last(step, grad_norm), taken_s, _speed(step, tokens, taken_s))


def _median(values: Floats) -> float | None:
    told = values[np.isfinite(values)]
    return float(np.median(told)) if told.size else None


def _last(step: Ints, values: Floats) -> float | None:
    told = np.isfinite(values)
    return _median(values[told & (step == step[told].max())]) if told.any() else None


def _speed(step: Ints, tokens: Floats, step_s: float | None) -> float | None:
    """Tokens a second: those of a step, all ranks together, by the time that a step takes."""
    told = np.isfinite(tokens)
    if not told.any() or not step_s:
        return None
    _, which = np.unique(step[told], return_inverse=True)
    return float(np.median(np.bincount(which, weights=tokens[told]))) / step_s


def _newest_step(connection: Connection, mine: Sequence[Any]) -> int:
    """The last step of the piece that came last: after a rollback it is below steps of before."""
    c = samples.c
    query = select(c.max_step).where(*mine, c.max_step.is_not(None)).order_by(c.seq.desc()).limit(1)
    return int(connection.execute(query).scalar() or 0)


def busy_of(rank: np.typing.NDArray[Any], busy_s: np.typing.NDArray[Any]) -> Busy:
    """The slowest ranks by their median, from one entry a step and rank; equal ones by rank."""
    if not rank.size:
        return Busy()
    order = np.lexsort((busy_s, rank))
    rank, busy_s = rank[order], busy_s[order]
    ranks, first, num = np.unique(rank, return_index=True, return_counts=True)
    medians = (busy_s[first + (num - 1) // 2] + busy_s[first + num // 2]) / 2
    worst = np.lexsort((ranks, -medians))[:NUM_STRAGGLERS]
    return Busy([Straggler(int(ranks[at]), float(medians[at])) for at in worst], float(np.median(medians)))


def shares(figures: RunFigures) -> dict[tuple[str, str], float]:
    """Goodput by (window, bound); what can't be told is left out."""
    stands = {"total": Window(figures.books.wall_us, figures.books.accounts_us["kept"]), **figures.windows}
    told = {}
    for name, window in stands.items():
        for bound, value in (("upper", window.goodput()), ("lower", window.goodput_low(figures.books.at_risk_us))):
            if value is not None:
                told[name, bound] = value
    return told


def first_booked(figures: RunFigures) -> dict[Account, int]:
    """Time by account as minutes were first booked."""
    return dict(zip(ACCOUNTS, figures.booked.first_us, strict=True))
