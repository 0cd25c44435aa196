"""What was booked of each stretch of a run: of each minute, or of each second where the run has few minutes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tachograph_collector.ledger.books import ACCOUNTS, Details
from tachograph_collector.report.text import MINUTE, SECOND

FEW_MINUTES: Final = 10


def booked(details: Details) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], int]:
    """Where each stretch starts, what of it each account has (columns as ``ACCOUNTS``), and how long it is; in µs."""
    minutes, segments = details.minutes, details.segments
    if len(minutes) >= FEW_MINUTES or not segments:
        told = [[getattr(minute, f"{account}_us") for account in ACCOUNTS] for minute in minutes]
        starts = np.array([minute.start_us for minute in minutes], dtype=np.int64)
        return starts, np.array(told, dtype=np.float64).reshape(-1, len(ACCOUNTS)), MINUTE
    starts = np.unique(
        np.concatenate([np.arange(one.start_us // SECOND, -(-one.end_us // SECOND)) for one in segments]) * SECOND
    )
    shares = np.zeros((len(starts), len(ACCOUNTS)))
    for one in segments:
        within = np.minimum(one.end_us, starts + SECOND) - np.maximum(one.start_us, starts)
        shares[:, ACCOUNTS.index(one.account)] += np.maximum(within, 0)
    return starts, shares, SECOND
