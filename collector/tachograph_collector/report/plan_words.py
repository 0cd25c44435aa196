"""A plan in sentences: what the terminal, the page and the documents say alike."""

from __future__ import annotations

from typing import Final

from tachograph_collector.model.plan.inputs import BY_NAME, KNOWN, MARKS, Inputs, Number
from tachograph_collector.model.plan.ladder import Step
from tachograph_collector.model.plan.plan import Advice, Plan, Swing
from tachograph_collector.model.plan.quantity import shown
from tachograph_collector.report.text import amount, count, percent

NAMES: Final = {
    "node_mtbf": "node MTBF",
    "job_mtbf": "job MTBF",
    "gpus_per_node": "GPUs per node",
    "warmup": "warm-up",
    "spare_warmup": "warm-up with spares",
    "spare_replace": "replace with spares",
    "peer_reload": "reload from a peer",
    "peer_share": "peer has it",
    "fast_detect": "detect with heartbeats",
    "host_copy": "copy to host, a node",
    "node_write": "write, a node",
    "storage": "write, storage",
    "price": "price of a GPU-hour",
}
ADVERB: Final = {"asynchronous": "asynchronously", "blocking": "blocking"}


def name_of(name: str) -> str:
    """The number's name for people: ``node MTBF``."""
    return NAMES.get(name, name.replace("_", " "))


def figure(name: str, value: float) -> str:
    """One number in its unit."""
    return shown(value, BY_NAME[name].dimension)


def seconds(value: float) -> str:
    """A duration: ``8 min``."""
    return shown(value, "time")


def run_line(plan: Plan) -> str:
    """Which design is planned, in one line."""
    inputs = plan.inputs
    return " · ".join(
        [
            f"{count(round(inputs.value('nodes')), 'node')} of {count(round(inputs.value('gpus_per_node')), 'GPU')}",
            f"the job fails every {seconds(plan.mtbfs_s[1])} ({range_of_mtbf(plan)})",
            f"restart {seconds(plan.costs.restart_s)}",
            f"run of {figure('run_length', inputs.value('run_length'))}",
        ]
    )


def range_of_mtbf(plan: Plan) -> str:
    """``6 h to 50 h``"""
    return f"{seconds(plan.mtbfs_s[0])} to {seconds(plan.mtbfs_s[2])}"


def headline(plan: Plan) -> str:
    """``Save every 8 min (80 steps), asynchronously: expect 94.7 % goodput, 90.2 % to 98.2 % over ...``"""
    advice = plan.advice
    return (
        f"Save every {interval(advice)}, {ADVERB[advice.saves]}: expect {percent(advice.goodput)} goodput, "
        f"{percent(advice.goodput_low)} to {percent(advice.goodput_high)} over the MTBF's range."
    )


def interval(advice: Advice) -> str:
    """``8 min``, with a number of steps where it is known."""
    return seconds(advice.interval_s) + (f" ({count(advice.steps, 'step')})" if advice.steps is not None else "")


def flat_top(advice: Advice) -> str:
    """How little the exact interval matters."""
    low, high = advice.flat_s
    worst = max(0.0, (advice.goodput_best - min(advice.goodput_flat)) * 100)
    within = "0.1 points" if worst < 0.1 else f"{worst:.1f} points"
    return (
        f"The best interval is {seconds(advice.exact_s)}; anything from {seconds(low)} to {seconds(high)} "
        f"is within {within} of it."
    )


def other_way(plan: Plan) -> str:
    """What the other way of saving would give."""
    other = plan.other
    return f"{ADVERB[other.saves].capitalize()}, every {interval(other)}: {percent(other.goodput)}."


def as_now(plan: Plan) -> str | None:
    """What the interval in use gives, and what the change is worth; None where nobody told it."""
    if plan.inputs.numbers["interval_now"].source == "default":
        return None
    now = plan.ladder[0]
    gain = (plan.advice.goodput - now.expected.closed_form) * 100
    first = f"As now ({now.rung.saves}, every {seconds(now.expected.interval_s)}): {percent(now.expected.closed_form)}"
    if abs(gain) < 0.05:
        return f"{first}, as good as it gets."
    return f"{first}; the change is worth {gain:.1f} points."


def storage(plan: Plan) -> list[str]:
    """What the saves do to the storage, in sentences."""
    traffic, inputs = plan.traffic, plan.inputs
    kept = (
        f"Retention (the last {inputs.value('keep_last'):,.0f}, and one per {seconds(inputs.value('keep_every'))} "
        f"for {seconds(inputs.value('keep_for'))}) holds up to {count(traffic.retained, 'checkpoint')}"
    )
    saves = f"{traffic.saves_per_day:,.0f} saves a day"
    if (
        traffic.average_bytes_per_s is None
        or traffic.burst_bytes_per_s is None
        or traffic.burst_per_node_bytes_per_s is None
        or traffic.bytes_per_day is None
        or traffic.retained_bytes is None
    ):
        sentences = [f"{saves}; their bytes are unknown without checkpoint_size.", f"{kept}."]
    else:
        sentences = [
            (
                f"{saves} of {figure('checkpoint_size', inputs.value('checkpoint_size'))}: "
                f"{shown(traffic.average_bytes_per_s, 'rate')} on average, {shown(traffic.burst_bytes_per_s, 'rate')} "
                f"while one is written ({shown(traffic.burst_per_node_bytes_per_s, 'rate')} a node), "
                f"{shown(traffic.bytes_per_day, 'bytes')} a day."
            ),
            f"{kept}: {shown(traffic.retained_bytes, 'bytes')}.",
        ]
    if inputs.saves == "asynchronous":
        fits = "it fits" if traffic.fits else "it does not fit: saves wait for one another"
        sentences.append(
            f"A persist takes {seconds(plan.costs.persist.value)}, {percent(traffic.persist_share, 0)} of the "
            f"interval: {fits}."
        )
    return sentences


def by_mark(inputs: Inputs) -> list[tuple[str, list[tuple[str, Number]]]]:
    """The numbers that were used: what was decided, then the rest by their marks, the firmest first."""
    groups: dict[str, list[tuple[str, Number]]] = {name: [] for name in ("decided", *MARKS)}
    for known in KNOWN:
        if inputs.has(known.name):
            given = inputs.numbers[known.name]
            decided = known.decided and given.mark == "guess"
            groups["decided" if decided else given.mark].append((known.name, given))
    return list(groups.items())


def behind(given: Number) -> str:
    """Where a number comes from: ``default``, ``from 12 samples``; empty where somebody gave it."""
    if given.samples is not None:
        return f"from {count(given.samples, 'sample')}"
    return "default" if given.source == "default" else ""


def swing_range(swing: Swing) -> str:
    """``6 h to 50 h``"""
    return f"{figure(swing.name, swing.low)} to {figure(swing.name, swing.high)}"


def goodputs(swing: Swing) -> str:
    """``90.2 to 98.2 %``, the worse end first."""
    low, high = sorted((swing.goodput_low, swing.goodput_high))
    return f"{low * 100:.1f} to {percent(high)}"


def gained(step: Step) -> tuple[str, str, str]:
    """(points, GPU-hours, money) against the row before, with their signs; empty where there is nothing to say."""
    return signed(step.points, 1), signed(step.gpu_hours, 0), signed(step.money, 0)


def signed(value: float | None, digits: int) -> str:
    """The amount with its sign; empty for None."""
    if value is None:
        return ""
    return ("+" if value >= 0 else "−") + amount(abs(value), digits)


def ladder_note(plan: Plan) -> str:
    """How the ladder's numbers were made, seeds included."""
    hours = f"over {figure('run_length', plan.inputs.value('run_length'))}"
    what = "Points, GPU-hours and money" if plan.inputs.has("price") else "Points and GPU-hours"
    what += f" against the row before, {hours}"
    at = f"at the expected MTBF of {seconds(plan.mtbfs_s[1])}"
    if not plan.num_runs:
        return f"{what}, {at}; in closed form."
    return f"{what}, {at}; {plan.num_runs:,} simulated runs a number, seed {plan.seed}."


def spares_pay(plan: Plan) -> str | None:
    """Whether the spares bring more than they are paid, in a sentence; None without spares."""
    charged = next((step for step in plan.ladder if step.rung.key == "charged"), None)
    spared = next(step for step in plan.ladder if step.rung.key == "spares")
    if charged is None or charged.gpu_hours is None or spared.gpu_hours is None:
        return None
    number = count(round(plan.inputs.value("spares")), "spare")
    cost, gain = -charged.gpu_hours, spared.gpu_hours
    verdict = "they pay" if gain > cost else "they do not pay by themselves"
    return (
        f"{number} held for the run cost {amount(cost, 0)} GPU-hours, and with peer memory they bring "
        f"{amount(gain, 0)}: {verdict}."
    )
