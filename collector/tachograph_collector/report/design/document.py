"""The fault-tolerance design document of a plan, in Markdown: what is decided, why, and what would change it."""

from __future__ import annotations

from datetime import date

from tachograph_collector.model.plan.inputs import KNOWN, span
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.design import appendix, block, failures, rollout
from tachograph_collector.report.design.facts import Facts
from tachograph_collector.report.design.markdown import bullets, escaped, section, table
from tachograph_collector.report.text import amount, count, percent


def design_document(facts: Facts, today: date) -> str:
    """The whole document; it ends with a newline."""
    name = escaped(facts.plan.inputs.name) or "the run"
    head = (
        f"# Fault tolerance of {name}: design\n\nDraft of {today.isoformat()}, written by `tachograph doc` from "
        "the plan's numbers."
    )
    sections = [
        section("Summary", summary(facts)),
        section("Context", *_context(facts)),
        section("Goals and non-goals", _goals(facts), _non_goals()),
        section("Requirements", *_requirements(facts)),
        section("Design", *_design(facts)),
        section("Alternatives", *_alternatives(facts)),
        section("Failure modes", failures.modes(facts)),
        section(
            "Rollout and fault injection",
            "### Stages",
            rollout.stages(facts),
            "### Injections",
            rollout.injections(facts),
        ),
        section("Open questions", rollout.questions(facts)),
        section("Appendix: derivation and seeds", *appendix.derivation(facts)),
    ]
    return "\n\n".join([head, *sections, block.written(block.claims(facts))]) + "\n"


def summary(facts: Facts) -> str:
    """Five lines: the decision, what to expect, against today, what next, what is least known."""
    plan, step = facts.plan, facts.step
    hours = plan.inputs.value("run_length") / 3600
    total, kept = plan.inputs.num_gpus * hours, plan.advice.goodput * plan.inputs.num_gpus * hours
    gain = (step.expected.goodput - facts.now.expected.goodput) * 100
    gpu_hours = gain / 100 * total
    price = plan.inputs.value("price") if plan.inputs.has("price") else None
    money = "" if price is None else f", {amount(gpu_hours * price, 0)} in money"
    low, _, high = plan.mtbfs_s
    lines = [
        f"**Decision:** save every {words.interval(plan.advice)}, {words.ADVERB[plan.advice.saves]}.{_warning(facts)}",
        (
            f"**Expect** {percent(plan.advice.goodput)} goodput ({percent(plan.advice.goodput_low)} to "
            f"{percent(plan.advice.goodput_high)} if the job fails every {words.seconds(low)} to "
            f"{words.seconds(high)}): {amount(kept, 0)} of {amount(total, 0)} GPU-hours are kept."
        ),
        (
            f"**Against today** ({facts.today}): "
            f"{words.signed(gain, 1)} points, {words.signed(gpu_hours, 0)} GPU-hours{money}."
        ),
        _next(facts),
        _least_known(facts),
    ]
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _warning(facts: Facts) -> str:
    """What must be said of a decision that the numbers speak against."""
    return f" (Against the numbers: {words.other_way(facts.plan)})" if facts.other_is_better else ""


def _next(facts: Facts) -> str:
    if facts.next is None:
        return "**Next:** no further step of the ladder brings anything."
    points, gpu_hours, _ = words.gained(facts.next)
    return f"**Next:** {facts.next.rung.change} ({points} points, {gpu_hours} GPU-hours)."


def _least_known(facts: Facts) -> str:
    plan = facts.plan
    if not plan.swings:
        return "**Least known:** nothing that moves the goodput."
    swing = plan.swings[0]
    return (
        f"**Matters most:** {words.name_of(swing.name)}, {words.figure(swing.name, plan.inputs.value(swing.name))} "
        f"({plan.inputs.numbers[swing.name].mark}): {words.swing_range(swing)} moves goodput by {swing.points:.1f} "
        "points."
    )


def _context(facts: Facts) -> list[str]:
    plan = facts.plan
    inputs, mtbf_s = plan.inputs, plan.mtbfs_s[1]
    nodes, each = round(inputs.value("nodes")), round(inputs.value("gpus_per_node"))
    node_s = mtbf_s * nodes
    waste = 1 - facts.now.expected.goodput
    return [
        (
            f"The job trains on {count(nodes, 'node')} of {count(each, 'GPU')} for "
            f"{words.figure('run_length', inputs.value('run_length'))}. All of them wait when one fails. A node that "
            f"fails every {words.seconds(node_s)} makes a job that fails every {words.seconds(mtbf_s)}: about "
            f"{facts.num_failures:,.0f} failures in the run."
        ),
        (
            f"A failure costs the way back, {words.seconds(facts.restart_s)}, and the work since the last landed "
            f"checkpoint, {words.seconds(facts.lost_s)} on average with the design below: "
            f"{amount(facts.gpu_hours(facts.failure_s), 0)} GPU-hours. Saves cost too, so there is a best interval "
            "between too often and too seldom."
        ),
        (
            f"Today {facts.today} leaves "
            f"{percent(facts.now.expected.goodput)} goodput; {percent(waste)} of what is paid for is lost."
        ),
    ]


def _goals(facts: Facts) -> str:
    low_s = facts.plan.mtbfs_s[0]
    promise = (
        f"Goodput of at least {percent(facts.goal, 0)} over the run, even if the job fails every "
        f"{words.seconds(low_s)}."
    )
    if not facts.goal:
        promise = f"No goodput is promised: if the job fails every {words.seconds(low_s)}, nothing is kept."
    return "Goals:\n\n" + bullets(
        [
            promise,
            f"No single failure loses more than {words.seconds(facts.most_lost_s)} of work, and nothing the whole run.",
            f"Training goes on {words.seconds(facts.restart_s)} after a failure, without a person awake.",
            "Each of these is measured while the run lasts, from its events, by minute.",
        ]
    )


def _non_goals() -> str:
    return "Non-goals:\n\n" + bullets(
        [
            "Fewer failures: this design lives with them.",
            "Faster steps: goodput is about time kept, not about how fast it is.",
            "Losing nothing at all: that costs more than it saves.",
            "Other jobs on the cluster, its queue, and its scheduler's policy.",
        ]
    )


def _requirements(facts: Facts) -> list[str]:
    inputs = facts.plan.inputs
    rows = []
    for known in KNOWN:
        if not inputs.has(known.name):
            continue
        given = inputs.numbers[known.name]
        low, high = span(known.name, given)
        settled = known.name in rollout.SETTLED or low == high
        reach = "" if settled else f"{words.figure(known.name, low)} to {words.figure(known.name, high)}"
        rows.append(
            [known.section, words.name_of(known.name), words.figure(known.name, given.value), reach, given.mark,
             words.behind(given) or given.source]
        )  # fmt: skip
    marks = [given.mark for given in inputs.numbers.values()]
    counts = ", ".join(f"{marks.count(mark)} {mark}" for mark in ("measured", "spec sheet", "guess"))
    return [
        (
            f"What the design must live with, and how well each number is known ({counts}). Every guess is an open "
            "question."
        ),
        table(["about", "number", "value", "range", "mark", "from"], rows, right=(2,)),
    ]


def _design(facts: Facts) -> list[str]:
    plan = facts.plan
    return [
        "### Saving",
        failures.saving(facts),
        words.flat_top(plan.advice),
        bullets(words.storage(plan)),
        "### The way back",
        failures.path(facts),
        (
            f"On average {words.seconds(facts.failure_s)} from a failure until training is where it was, "
            f"{amount(facts.gpu_hours(facts.failure_s), 0)} GPU-hours. Failures that strike before a full interval has "
            "been banked since the last restart belong to one incident and are counted once when the interval is "
            "judged."
        ),
    ]


def _alternatives(facts: Facts) -> list[str]:
    plan = facts.plan
    money = plan.inputs.has("price")
    head = ["alternative", "every"] + [f"goodput, MTBF {words.seconds(each)}" for each in plan.mtbfs_s]
    head += ["points", "GPU-hours"] + ["money"] * money
    rows = []
    for step in plan.ladder:
        mark = "**" if step is facts.step else ""
        goodputs = [_goodput(cell.goodput, cell.low, cell.high) for cell in step.cells]
        gained = words.gained(step)[: 3 if money else 2]
        rows.append([f"{mark}{step.rung.title}{mark}", words.seconds(step.expected.interval_s), *goodputs, *gained])
    swings = [
        [f"{words.name_of(swing.name)}", words.swing_range(swing), words.goodputs(swing), f"{swing.points:.1f}"]
        for swing in plan.swings
    ]
    spares = words.spares_pay(plan)
    return [
        table(head, rows, right=tuple(range(1, len(head)))),
        words.ladder_note(plan)
        + " The row in bold is what is decided here; the rows below it are what could come next.",
        spares or "",
        f"{words.other_way(plan)} Which number matters, one at a time over its range:" if swings else "",
        table(["number", "range", "goodput", "points"], swings, right=(1, 2, 3)) if swings else "",
    ]


def _goodput(goodput: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return percent(goodput)
    return f"{percent(goodput)} ± {(high - low) * 50:.2f}"
