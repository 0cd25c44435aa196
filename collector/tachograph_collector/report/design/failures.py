"""What happens when something breaks: the failure path step by step, and every failure mode with its cost."""

from __future__ import annotations

from collections.abc import Iterator

from tachograph_collector.model.corruption import chance_without_clean
from tachograph_collector.model.theory import asynchronous_goodput
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.design.facts import Facts
from tachograph_collector.report.design.markdown import table
from tachograph_collector.report.text import amount, percent

_OUTAGE_S = 6 * 3600.0
_CORRUPTION_S = 6 * 3600.0


def path(facts: Facts) -> str:
    """The way back from a failure, step by step with durations, as designed and with all measures of the ladder."""
    rung = facts.rung
    best = next((step.rung for step in facts.plan.ladder if step.rung.key == "spares"), rung)
    steps = [
        ("detect", "the failure is noticed: an error ends the job, or the collective times out",
         rung.detect_s, best.detect_s),
        ("replace", "the scheduler drains the node, finds another and starts the job again",
         rung.replace_s, best.replace_s),
        ("reload", "every rank reads the newest checkpoint that has landed", rung.reload_s, best.peer_reload_s),
        ("warm-up", "compilation and caches, until a step takes its usual time", rung.warmup_s, best.warmup_s),
    ]  # fmt: skip
    rows, at_s = [["0 s", "failure", "a rank dies or hangs; all others wait for it", "", ""]], 0.0
    for name, what, lasts_s, best_s in steps:
        rows.append([words.seconds(at_s), name, what, words.seconds(lasts_s), words.seconds(best_s)])
        at_s += lasts_s
    lost = f"the work since the last landed checkpoint, {words.seconds(facts.most_lost_s)} at most"
    rows.append([words.seconds(at_s), "redo", lost, words.seconds(facts.lost_s), ""])
    rows.append([words.seconds(at_s + facts.lost_s), "where it was", "", "", ""])
    return table(["at", "step", "what happens", "lasts", "with all measures"], rows, right=(0, 3, 4))


def saving(facts: Facts) -> str:
    """How a save goes, in sentences."""
    rung, advice = facts.rung, facts.plan.advice
    if rung.saves == "blocking":
        return (
            f"Every {words.interval(advice)} of training the job stops for {words.seconds(rung.cost_s)} and writes its "
            "whole state to storage. The save has landed when the last rank is done, and not before."
        )
    return (
        f"Every {words.interval(advice)} of training the job stops for {words.seconds(rung.cost_s)} while each node "
        "copies its state into its own memory (the snapshot). Then training goes on, and the copy is written to "
        f"storage in the background (the persist, {words.seconds(rung.persist_s)}). The save has landed when the "
        "last rank's part is in storage and its coordinator has committed it; until then a failure falls back to the "
        "one before."
    )


def modes(facts: Facts) -> str:
    """Every part that can fail: what happens, how it is noticed, what it costs."""
    head = ["what fails", "what happens", "how it is noticed", "what it costs"]
    return table(head, [list(row) for row in _modes(facts)])


def _modes(facts: Facts) -> Iterator[tuple[str, str, str, str]]:
    plan, rung = facts.plan, facts.rung
    inputs, mtbf_s, interval_s = plan.inputs, plan.mtbfs_s[1], plan.advice.interval_s

    def cost(seconds: float) -> str:
        return f"{words.seconds(seconds)}, {amount(facts.gpu_hours(seconds), 0)} GPU-hours"

    yield (
        "GPU, node or link, with an error",
        "the job ends and takes the path above",
        "exit code, Xid, NCCL error",
        f"{cost(facts.failure_s)} each on average; {facts.num_failures:,.0f} expected in the run",
    )
    yield (
        "a rank hangs, no error",
        "all ranks wait, GPUs look busy",
        f"step counter stands still; here after {words.seconds(rung.detect_s)}",
        f"as above; each hour unnoticed is {amount(facts.gpu_hours(3600), 0)} GPU-hours more",
    )
    if rung.saves == "asynchronous":
        yield (
            "a node, while a save persists",
            "that save never lands; the run falls back to the one before",
            "a `checkpoint.start` without `checkpoint.persisted`",
            f"{cost(facts.restart_s + facts.most_lost_s)} at worst; in the average already",
        )
        slow = float(asynchronous_goodput(interval_s, rung.cost_s, 2 * interval_s, facts.restart_s, mtbf_s))
        yield (
            "storage gets slow",
            f"a persist outlasts the interval of {words.seconds(interval_s)}; saves wait for one another",
            "persist times; an alarm of its own",
            f"at twice the interval goodput is {percent(slow)}",
        )
    outage_s = _OUTAGE_S**2 / (2 * mtbf_s)
    yield (
        "storage is away",
        "saves fail; training must go on and try again, work at risk grows",
        "`checkpoint.failed`, no landing for two intervals",
        f"for 6 h: nothing, or up to 6 h of work if the job fails then; {words.seconds(outage_s)} expected",
    )
    yield (
        "the newest checkpoint can't be read",
        "reload fails; the one before must still be there",
        "reload fails twice at the same step",
        f"{cost(interval_s + rung.cost_s + facts.restart_s)} more. Latest-only retention: the whole run",
    )
    keep_every_s = inputs.value("keep_every")
    sdc_s = _CORRUPTION_S + keep_every_s / 2 + facts.restart_s
    none = float(chance_without_clean(_CORRUPTION_S, interval_s, rung.cost_s))
    recent = float(
        chance_without_clean(_CORRUPTION_S, interval_s, rung.cost_s, max(1, round(inputs.value("keep_last"))))
    )
    yield (
        "silent corruption",
        "checkpoints after it are bad; go back to a clean one",
        "loss or gradient norm; replayed steps that differ",
        (
            f"noticed after 6 h: {cost(sdc_s)}. Without a clean checkpoint in {percent(none, 0)} of cases if only the "
            f"latest is kept, {percent(recent, 0)} with the last {inputs.value('keep_last'):,.0f}; the ladder of one "
            f"per {words.seconds(keep_every_s)} reaches back {words.seconds(inputs.value('keep_for'))}"
        ),
    )
    yield (
        "the same node again",
        "it fails, comes back, and fails before the next save",
        "two failures with one node within one interval",
        f"{cost(facts.restart_s)} each time, and no work kept; a second strike takes the node out",
    )
    if inputs.has("spares") and inputs.value("spares"):
        yield (
            "all spares in use",
            "the job waits for a repaired node",
            "no idle spare at the start of a replacement",
            (
                f"replace takes {words.figure('replace', inputs.value('replace'))} instead of "
                f"{words.figure('spare_replace', inputs.value('spare_replace'))}"
            ),
        )
    yield (
        "maintenance, preemption with a notice",
        "save, stop, start elsewhere",
        "announced",
        f"{cost(rung.cost_s + facts.restart_s - rung.detect_s)} at most, no work lost",
    )
    yield (
        "telemetry",
        "nothing happens to the training; events wait in the node's spool",
        "a `gap` event says how many were dropped, if any",
        "no GPU time",
    )
