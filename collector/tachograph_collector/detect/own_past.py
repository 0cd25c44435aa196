"""Ranks with too few others to compare with, against their own past in the attempt.

Less certain than a comparison with others: longer sequences make a rank slow that is not to blame. So it takes more, is
never critical, and where several are slow at once none of them is named: the job is slow.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tachograph_collector.detect.columns import Array, Flags, Floats
from tachograph_collector.detect.settings import Straggler

MAX_PAST: Final = 30
"""Windows that a rank's past is made of: the last in which it wasn't slow."""
MAD_TO_DEVIATION: Final = 1.4826


class OwnPast(Struct, frozen=True):
    """What the comparison of one window came to, a row a rank. NaN and False where it has too short a past."""

    baseline: Floats
    over: Flags
    calm: Flags


def compared(past: Array, value: Floats, least: float, settings: Straggler) -> OwnPast:
    """Hold each rank's median of this window against the windows before, ``past`` (windows by ranks).

    ``least`` is the excess in seconds below which nothing is worth saying.
    """
    num = np.count_nonzero(~np.isnan(past), axis=0)
    known = num >= settings.alone_windows
    baseline = np.full(len(value), np.nan)
    spread = np.full(len(value), np.nan)
    if known.any():
        mine = past[:, known]
        baseline[known] = np.nanmedian(mine, axis=0)
        spread[known] = MAD_TO_DEVIATION * np.nanmedian(np.abs(mine - baseline[known]), axis=0)
    with np.errstate(invalid="ignore"):
        room = settings.deviations * np.maximum(spread, settings.floor * baseline)
        limit = np.maximum(settings.alone_ratio * baseline, baseline + room)
        over = (value >= limit) & (value - baseline >= least)
        calm = value < settings.clear_ratio * baseline
    return OwnPast(baseline, over, calm)


def learnt(past: Array, value: Floats, result: OwnPast) -> Array:
    """The past with this window; of ranks that were slow in it nothing is learnt."""
    return np.concatenate([past, np.where(result.over, np.nan, value)[None, :]])[-MAX_PAST:]


def named(result: OwnPast, group_share: float) -> Flags:
    """Which ranks may be named: none where more than one, and more than this share, are slow at once."""
    num_known = int(np.count_nonzero(~np.isnan(result.baseline)))
    too_many = int(result.over.sum()) > max(1.0, group_share * num_known)
    return np.zeros_like(result.over) if too_many else result.over
