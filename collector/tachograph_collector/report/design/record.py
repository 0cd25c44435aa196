"""The record of the one decision that a plan makes: context, decision, what was turned down, when to look again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from tachograph_collector.report import plan_words as words
from tachograph_collector.report.design import block
from tachograph_collector.report.design.facts import Facts
from tachograph_collector.report.design.markdown import bullets, escaped, section
from tachograph_collector.report.text import count, percent

_NEVER_S: Final = 100 * 365 * 86_400.0
"""An MTBF beyond this is nothing to look out for."""


def decision_record(facts: Facts, number: int, today: date) -> str:
    """The record with its number; it ends with a newline."""
    plan = facts.plan
    advice, mtbf_s = plan.advice, plan.mtbfs_s[1]
    title = f"# {number}. Save every {words.seconds(advice.interval_s)}, {words.ADVERB[advice.saves]}"
    name = f" {escaped(plan.inputs.name)}" if plan.inputs.name else ""
    context = (
        f"{count(round(plan.inputs.value('nodes')), 'node')} train{name}; the job fails every {words.seconds(mtbf_s)} "
        f"({plan.costs.mtbf.mark}), a {facts.save_word} stops it for {words.seconds(facts.rung.cost_s)}, and a restart "
        f"takes {words.seconds(facts.restart_s)}. Saving seldom loses work, saving often loses time."
    )
    decision = (
        f"Save every {words.interval(advice)}, {words.ADVERB[advice.saves]}. Expected goodput is "
        f"{percent(advice.goodput)}, {percent(advice.goodput_low)} to {percent(advice.goodput_high)} over the MTBF's "
        f"range. {words.flat_top(advice)}"
    )
    return (
        "\n\n".join(
            [
                title,
                f"Proposed, {today.isoformat()}.",
                section("Context", context),
                section("Decision", decision),
                section("Turned down", bullets(_turned_down(facts))),
                section("What we give up", bullets(_given_up(facts))),
                section("Revisit if", bullets(revisit(facts))),
                block.written(block.claims(facts)),
            ]
        )
        + "\n"
    )


def _turned_down(facts: Facts) -> Iterator[str]:
    plan = facts.plan
    now, other = facts.now.expected, plan.other
    yield f"As now, {facts.today}: {percent(now.goodput)}."
    yield f"{words.ADVERB[other.saves].capitalize()}, every {words.interval(other)}: {percent(other.goodput)}."
    yield f"Half the interval: {percent(plan.advice.goodput_flat[0])}; double: {percent(plan.advice.goodput_flat[1])}."


def _given_up(facts: Facts) -> Iterator[str]:
    yield f"Up to {words.seconds(facts.most_lost_s)} of work at each failure, {words.seconds(facts.lost_s)} on average."
    if facts.rung.saves == "asynchronous":
        yield "Memory on each node for one copy of its state, and bandwidth while it is written."
        yield "Simplicity: a save has landed only when every rank's part has, and that must be tested."
    else:
        yield f"{words.seconds(facts.rung.cost_s)} of training at every save."


def revisit(facts: Facts) -> Iterator[str]:
    """The computed thresholds, one sentence each, the numbers of today beside them."""
    limits, mtbf_s, rung = facts.limits, facts.plan.mtbfs_s[1], facts.rung
    leaves = (
        f"{words.seconds(facts.plan.advice.interval_s)} leaves the flat top, from half to double of the best interval"
    )
    beyond = _beyond(limits.mtbf_s, "under", "above")
    if beyond:
        yield f"the job's MTBF is {beyond} (now {words.seconds(mtbf_s)}): {leaves}."
    beyond = _beyond(limits.cost_s, "less than", "more than")
    if beyond:
        yield f"a {facts.save_word} stops training for {beyond} (now {words.seconds(rung.cost_s)}): {leaves}."
    if limits.persist_s is not None:
        yield (
            f"a persist takes more than {words.seconds(limits.persist_s)} (now {words.seconds(rung.persist_s)}): "
            "it does not fit into the interval, and saves wait for one another."
        )
    yield from _other_way(facts)
    yield from _restart(facts)


def _beyond(limits: tuple[float | None, float | None], under: str, above: str) -> str:
    """``under 9.9 h or above 6.6 d``, of which either may be missing."""
    low, high = limits
    parts = [] if low is None else [f"{under} {words.seconds(low)}"]
    if high is not None and high < _NEVER_S:
        parts.append(f"{above} {words.seconds(high)}")
    return " or ".join(parts)


def _other_way(facts: Facts) -> Iterator[str]:
    limit, persist_s = facts.limits.other_persist_s, facts.plan.costs.persist.value
    if limit is None:
        return
    now = f"(now {words.seconds(persist_s)})"
    if facts.rung.saves == "blocking":
        if persist_s < limit:
            yield (
                "asynchronous saves become possible: they are better as long as a persist takes less than "
                f"{words.seconds(limit)} {now}."
            )
        else:
            yield f"a persist takes less than {words.seconds(limit)} {now}: asynchronous saves are better then."
    elif persist_s < limit:
        yield f"a persist takes more than {words.seconds(limit)} {now}: blocking saves are better then."
    else:
        yield (
            "this is not yet done: blocking saves are better until a persist takes less than "
            f"{words.seconds(limit)} {now}."
        )


def _restart(facts: Facts) -> Iterator[str]:
    limits, restart_s = facts.limits, facts.restart_s
    now = words.seconds(restart_s)
    if restart_s > limits.restart_s:
        yield (
            f"a restart takes less than {words.seconds(limits.restart_s)} (now {now}). Until then restarts cost more "
            "than saves and lost work together, and a better interval is not where the time is."
        )
    else:
        yield (
            f"a restart takes more than {words.seconds(limits.restart_s)} (now {now}): restarts cost more than saves "
            "and lost work together then, and no interval helps against them."
        )
    if limits.goal_restart_s is not None and facts.goal > 0:
        yield (
            f"a restart takes more than {words.seconds(limits.goal_restart_s)} (now {now}): goodput falls under "
            f"{percent(facts.goal, 0)} at an MTBF of {words.seconds(facts.plan.mtbfs_s[1])}."
        )
