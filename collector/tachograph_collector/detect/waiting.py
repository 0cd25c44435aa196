"""Which records of steps wait for the lead's word, although they are due by their own times: a clock may be behind."""

from __future__ import annotations

from typing import Final

import numpy as np

from tachograph_collector.detect.clocks import Clocks
from tachograph_collector.detect.columns import Flags, StepColumns
from tachograph_collector.detect.course import SECOND_US, Course

TAKE_OVER_STEPS: Final = 10
"""A lead that is no more behind than so many steps goes on with the others."""
LEAD_SILENT_US: Final = 60 * SECOND_US
"""Nothing waits for a lead that has been silent for so long."""
HOLD_US: Final = 120 * SECOND_US
"""Records of steps that the lead can't have done for so long wait until it has."""
MAX_HELD: Final = 200_000


def waiting_for_lead(
    clocks: Clocks, course: Course, steps: StepColumns, until_us: int, done_us: int | None
) -> Flags | None:
    """Which of ``steps``, due by ``until_us``, wait until the lead, which goes on, tells the step. None if none do.

    Those of steps that it can't have done yet; and those that would be left out as late, since what follows them was
    judged up to ``done_us``.
    """
    attempt, one_s = course.attempt, course.one_s
    told = None if attempt is None else clocks.newest_step(attempt)
    if attempt not in steps.attempt or told is None or until_us - told[0] > LEAD_SILENT_US:
        return None
    mine = steps.attempt_index == steps.attempt.index(attempt)
    held = np.zeros(len(steps), dtype=np.bool_)
    if one_s is not None:
        ahead = steps.step - told[1]
        held |= (ahead > TAKE_OVER_STEPS) & (ahead * one_s * SECOND_US > HOLD_US) & mine
    if done_us is not None:
        held |= clocks.may_be_behind(str(attempt), steps, mine, done_us)
    return held if 0 < int(held.sum()) <= MAX_HELD else None
