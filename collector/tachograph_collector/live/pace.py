"""How often and how much: the figures that the folding of runs is paced by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class Pace:
    """All times in microseconds."""

    fold_every_us: int = SECOND
    """A run is folded no more often, however fast its events come."""
    poll_every_us: int = SECOND
    """So often the database is asked for events that other collectors took in, and for runs that nobody folds."""
    renew_every_us: int = 3 * SECOND
    look_every_us: int = 15 * SECOND
    """A running run of which nothing comes is booked so often all the same: a hang must show."""
    judge_every_us: int = 2 * SECOND
    """So often the nodes of a run are judged although nothing has come."""
    settle_us: int = 5 * SECOND
    """Steps that came wait so long to be judged, in case others belong before them."""
    sights_every_us: int = 30 * SECOND
    """How well each detector sees is written so often."""
    thresholds_every_us: int = 2 * SECOND
    """So often the file of thresholds is looked at."""
    rows_a_turn: int = 2_000
    """Stored rows read at one go; a run with more to read lets others have their turn in between."""
    write_at_least_every_us: int = 5 * SECOND
    """A run that is far behind writes what it has by then."""
    details_share: float = 0.02
    """Attempts, restarts and checkpoints are worked out and written so seldom that it takes at most this share of the
    time."""
    details_at_least_every_us: int = 15 * SECOND
    """The first time, when all rows are new, takes longer than any later one."""
    save_every_us: int = 60 * SECOND
    save_share: float = 0.02
    nodes_every_us: int = 10 * SECOND
    """Rows of nodes that are just alive are written no more often."""
    quiet_us: int = 10 * SECOND
    """A finished run is frozen when nothing has come for so long."""
    first_delay_us: int = 5 * SECOND
    """How late agents are taken to tell things until it has been measured."""
    max_delay_us: int = 30 * SECOND
    """Minutes wait no longer for what comes late; it is booked as a revision then."""
    longest_run_us: int = 2 * 366 * DAY
    """A run that would last longer has a broken clock; every minute of it would take memory."""
    abandoned_us: int = 6 * 3600 * SECOND
    max_runs: int = 2_000
    """Runs folded at one time by one collector."""
    retry_first_us: int = 5 * SECOND
    retry_most_us: int = 600 * SECOND
