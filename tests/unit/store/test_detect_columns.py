"""A stored piece gives detectors what its steps would give them, to the bit."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from tachograph_agent.events import Step
from tachograph_collector.detect.columns import ARRAYS, columns_of
from tachograph_collector.store.detect_columns import detect_columns
from tachograph_collector.store.packing import pack_steps, unpack_steps

FLOATS = (None, None, 0.0, -0.0, 1.5, 2.25, 1e300, -3.0, math.nan, math.inf, -math.inf)
SECTIONS = (
    None,
    {},
    {"wait": 0.25},
    {"forward": 1.0, "data": 0.1, "wait": math.nan},
    {"backward": 1e308, "data": 1e308},
)


def odd(seed: int, num: int) -> list[Step]:
    """Steps of which each field is the same in all, or another in each, or often not told."""
    dice = random.Random(seed)

    def choice(*values):
        fixed = dice.choice(values)
        mixed = dice.random() < 0.6
        return lambda: dice.choice(values) if mixed else fixed

    attempt, node = choice(None, 0, "x", 7), choice(None, "a", "b\u00e9")
    rank, stage = choice(None, 0, 1, 2, 2**63 - 1), choice(None, 0, 3, -7, 2**70)
    count, dur = choice(1, 1, 10, 2**63 - 1), choice(*FLOATS[2:], None, 1.25, 366 * 86_400.0)
    loss, norm, busy = choice(*FLOATS), choice(*FLOATS), choice(*FLOATS)
    sections = choice(*SECTIONS)
    return [
        Step(
            t=1.76e9 + place * 1.25 + dice.choice((0, 1e-6)), run="r", attempt=attempt(), node=node(), rank=rank(),
            step=place, count=count(), dur=dur(), loss=loss(), grad_norm=norm(), busy_s=busy(), stage=stage(),
            sections=sections(),
        )
        for place in range(num)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_columns_of_a_piece_are_those_of_its_steps(seed: int) -> None:
    data = pack_steps(odd(seed, 3 if seed % 3 == 0 else 80))
    ours, theirs = detect_columns(data), columns_of(unpack_steps(data))
    assert (ours.attempt, ours.nodes, ours.stages) == (theirs.attempt, theirs.nodes, theirs.stages)
    for name in ARRAYS:
        mine, expected = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == expected.dtype, name
        np.testing.assert_array_equal(mine, expected, err_msg=name)
