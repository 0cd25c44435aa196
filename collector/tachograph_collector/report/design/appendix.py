"""The derivation of a document's numbers, formulas with the numbers put in, and the seeds that repeat them."""

from __future__ import annotations

from math import sqrt

from tachograph_collector.model.theory import daly
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.design.facts import Facts
from tachograph_collector.report.design.markdown import table
from tachograph_collector.report.text import percent


def derivation(facts: Facts) -> list[str]:
    """Each number of the summary from the numbers of the requirements."""
    plan, rung, inputs = facts.plan, facts.rung, facts.plan.inputs
    cost, persist, restart, mtbf = (
        each / 60 for each in (rung.cost_s, rung.persist_s, facts.restart_s, plan.mtbfs_s[1])
    )
    tau, exact = plan.advice.interval_s / 60, plan.advice.exact_s / 60
    lines = [
        "Times in minutes: C what a save blocks, p its persist, R the restart, M the job's MTBF, tau the interval."
    ]
    lines.append(_mtbf(facts, mtbf))
    parts = " + ".join(f"{inputs.value(name) / 60:.4g}" for name in ("detect", "replace", "reload", "warmup"))
    lines.append(f"**R** = detect + replace + reload + warm-up = {parts} = {restart:.4g}.")
    lines.append(_cost(facts))
    best = (
        f"**Best interval** tau\\* = M (1 + W0(−exp(−1 − C/M))) with M = {mtbf:.4g}, C = {cost:.4g}: {exact:.4g} "
        f"(Lambert's W; Young: sqrt(2 C M) = {sqrt(2 * cost * mtbf):.4g}; Daly, eq. 37: {float(daly(cost, mtbf)):.4g})."
    )
    if rung.persist_s and plan.advice.exact_s <= rung.persist_s * 1.0001:
        best = (
            f"**Best interval**: the persist's length, {persist:.4g}: a shorter interval makes saves wait for one "
            "another."
        )
    lines.append(best + f" Rounded to tau = {tau:.4g}.")
    fallback = f"R + p = {restart + persist:.4g}" if rung.persist_s else f"R = {restart:.4g}"
    lines.append(
        f"**Goodput** G = tau / (exp((R{' + p' if rung.persist_s else ''})/M) M (exp((tau + C)/M) − 1)) with "
        f"{fallback} = **{percent(plan.advice.goodput, 2)}**. At tau\\* it is {percent(plan.advice.goodput_best, 2)}. "
        "Failures are memoryless and may strike in training, saves and restarts alike (Daly 2006)."
    )
    lines.append(
        f"**A failure loses** M − w/(exp(w/M) − 1){' + p' if rung.persist_s else ''} with w = tau + C: "
        f"{words.seconds(facts.lost_s)} on average."
    )
    return [*lines, *_seeds(facts)]


def _mtbf(facts: Facts, mtbf: float) -> str:
    inputs = facts.plan.inputs
    nodes = inputs.value("nodes")
    if inputs.has("node_mtbf"):
        node = inputs.value("node_mtbf")
        return (
            f"**M** = a node's MTBF / nodes = {words.seconds(node)} / {nodes:,.0f} = "
            f"{words.seconds(node / nodes)} = {mtbf:.5g}."
        )
    return (
        f"**M** = {words.seconds(mtbf * 60)} = {mtbf:.5g}, told for the whole job; for each of {nodes:,.0f} nodes "
        f"that is {words.seconds(mtbf * 60 * nodes)}."
    )


def _cost(facts: Facts) -> str:
    plan, inputs = facts.plan, facts.plan.inputs
    costs = plan.costs
    pieces = []
    for name, number in (("snapshot", costs.snapshot), ("persist", costs.persist), ("blocking save", costs.blocking)):
        source = (
            f"from {' and '.join(words.name_of(each) for each in number.derived_from)}"
            if number.derived_from
            else "as told"
        )
        pieces.append(f"{name} {words.seconds(number.value)} ({source}, {number.mark})")
    size = (
        f" of {words.figure('checkpoint_size', inputs.value('checkpoint_size'))}"
        if inputs.has("checkpoint_size")
        else ""
    )
    return f"**C and p**, one save{size}: {'; '.join(pieces)}."


def _seeds(facts: Facts) -> list[str]:
    plan = facts.plan
    if not plan.num_runs:
        return ["The alternatives are in closed form; nothing was simulated."]
    rows = [
        [step.rung.title, words.seconds(cell.mtbf_s), words.seconds(cell.interval_s), percent(cell.goodput, 2),
         percent(cell.closed_form, 2), "closed form" if cell.seed is None else str(cell.seed)]
        for step in plan.ladder
        for cell in step.cells
    ]  # fmt: skip
    return [
        (
            f"The alternatives were simulated, {plan.num_runs:,} runs of "
            f"{words.figure('run_length', plan.inputs.value('run_length'))} for each number; `--seed {plan.seed} "
            f"--runs {plan.num_runs}` repeats them. The closed form stands beside each."
        ),
        table(["alternative", "MTBF", "interval", "simulated", "closed form", "seed"], rows, right=(1, 2, 3, 4, 5)),
    ]
