"""What of a DDP step is waiting: from the last gradients given away to the end of the last all-reduce."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tachograph_agent.integrations import ddp


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the monotonic clock, in seconds."""
    now = [0.0]
    monkeypatch.setattr(ddp.time, "monotonic_ns", lambda: round(now[0] * 1e9))

    def set_to(seconds: float) -> None:
        now[0] = seconds

    return set_to


def backward(waits: ddp.CpuWaits, at: Callable[[float], None], *moments: tuple[float, str, bool, bool]) -> None:
    """Buckets given (``give``) and reduced (``done``): at when, and whether it is the first and the last."""
    for seconds, what, is_first, is_last in moments:
        at(seconds)
        if what == "give":
            waits.handed(is_first=is_first, is_last=is_last)
        else:
            waits.done(is_last=is_last)


def test_an_all_reduce_that_goes_on_beside_computing_is_no_waiting(at: Callable[[float], None]) -> None:
    waits = ddp.CpuWaits()
    backward(
        waits,
        at,
        (1.0, "give", True, False),
        (1.5, "done", True, False),
        (2.0, "give", False, True),
        (2.25, "done", False, True),
    )
    assert waits.take_s() == pytest.approx(0.25)
    assert waits.take_s() == 0.0


def test_buckets_reduced_out_of_order_are_waited_for_to_the_last(at: Callable[[float], None]) -> None:
    waits = ddp.CpuWaits()
    backward(
        waits,
        at,
        (1.0, "give", True, False),
        (1.1, "give", False, True),
        (1.2, "done", False, True),
        (1.6, "done", True, False),
    )
    assert waits.take_s() == pytest.approx(0.5)


def test_the_waits_of_several_backward_passes_in_a_step_add_up(at: Callable[[float], None]) -> None:
    waits = ddp.CpuWaits()
    for start_s in (1.0, 5.0):
        backward(waits, at, (start_s, "give", True, True), (start_s + 0.5, "done", True, True))
    assert waits.take_s() == pytest.approx(1.0)
