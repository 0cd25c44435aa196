"""Runs for hypothesis: a list of acts that it can shrink, and how the run tells of itself."""

from __future__ import annotations

from hypothesis import strategies as st
from tachograph_agent.events import AnyEvent

from ledger_oracle.generate import CATEGORIES, ENDINGS, LONG_PAUSE_MS, REASONS, Act, Style, Truth, simulate


def ms(low: int, high: int) -> st.SearchStrategy[int]:
    """Milliseconds, in quarters of a second."""
    return st.integers(low, high).map(lambda n: n * 250)


categories = st.sampled_from(CATEGORIES)
in_flight = ms(0, 12)
depth = st.integers(0, 2)

hidden = st.fixed_dictionaries({"hidden": st.integers(0, 3)})
acts: st.SearchStrategy[Act] = st.one_of(
    st.tuples(st.just("train"), st.integers(1, 8), hidden),
    st.tuples(st.just("save"), ms(1, 80), st.fixed_dictionaries({"failed": st.booleans()})),
    st.tuples(st.just("save"), ms(1, 8), st.fixed_dictionaries({"lands_after_ms": ms(1, 200)})),
    st.tuples(st.just("fail"), categories, in_flight, ms(0, 400), ms(4, 400), ms(4, 200), depth, st.just({})),
    st.tuples(st.just("roll_back"), st.sampled_from(REASONS), in_flight, ms(1, 200), depth, st.just({})),
    st.tuples(
        st.just("pause"),
        st.one_of(ms(1, 80), ms(0, 400).map(lambda n: LONG_PAUSE_MS + n)),
        st.fixed_dictionaries({"declared": st.booleans()}),
    ),
    st.tuples(st.just("evaluate"), ms(1, 400), st.just({})),
    st.tuples(st.just("stop"), ms(0, 40), ms(1, 80), ms(4, 400), ms(4, 200), st.just({})),
    st.tuples(st.just("vanish"), ms(4, 400), ms(4, 200), st.just({})),
    st.tuples(st.just("crash_in_start_up"), categories, ms(4, 200), ms(4, 200), st.just({})),
    st.tuples(st.just("fail_in_process"), categories, in_flight, ms(40, 200), st.just({})),
    st.tuples(st.just("fail_without_numbers"), categories, in_flight, ms(40, 200), ms(4, 200), st.just({})),
    st.tuples(st.just("cancel"), in_flight, ms(500, 4000), ms(4, 200), st.just({})),
)


@st.composite
def styles(draw: st.DrawFn, ranks: tuple[int, ...] = (1, 2, 4)) -> Style:
    """How a run tells of itself. A sparse record needs the step that was restored, or nobody can know."""
    every = draw(st.sampled_from([1, 3]))
    return Style(
        pace_ms=draw(st.sampled_from([500, 2000, 6000])),
        ranks=draw(st.sampled_from(ranks)),
        skew_ms=draw(st.sampled_from([0, 3, 40])),
        every=every,
        tell_resume=every > 1 or draw(st.booleans()),
        gpus=draw(st.sampled_from([None, 8])),
    )


long_acts: st.SearchStrategy[Act] = st.one_of(st.tuples(st.just("train"), st.integers(20, 60), hidden), acts)
"""So many steps that a ledger with little memory has to let go of some."""


@st.composite
def runs(
    draw: st.DrawFn, ranks: tuple[int, ...] = (1, 2, 4), acts: st.SearchStrategy[Act] = acts
) -> tuple[list[AnyEvent], Truth]:
    """The log and the truth of a run."""
    played = draw(st.lists(acts, max_size=10))
    return simulate(played, draw(st.sampled_from(ENDINGS)), draw(styles(ranks)))
