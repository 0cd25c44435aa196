"""How the design is brought in, how it is proved by breaking it on purpose, and what remains to be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tachograph_collector.model.plan.inputs import BY_NAME, Number, span
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.design.facts import Facts
from tachograph_collector.report.design.markdown import bullets, table
from tachograph_collector.report.text import percent

SETTLED: Final = frozenset(
    {"nodes", "gpus_per_node", "run_length", "keep_last", "keep_every", "keep_for", "spares", "price"}
)
"""Numbers that somebody decides; nobody measures them, and they have no range."""
_HOW_TO_KNOW: Final = {
    "node_mtbf": "count unplanned stops on these machines over a month; 10 of them give it within a factor of two",
    "job_mtbf": "count unplanned stops of jobs of this size; 10 of them give it within a factor of two",
    "checkpoint_size": "save once and add up the files",
    "node_write": "write a shard of the real size from one node",
    "storage": "write shards from all nodes at once, while others use the storage",
    "host_copy": "time the copy of one node's state",
    "blocking_save": "time 20 saves of the real job; the mean counts, not the best",
    "snapshot": "time 20 snapshots of the real job",
    "persist": "time 20 persists of the real job, while it trains",
    "interval_now": "ask who set it, and why",
    "detect": "stop one rank (the injections above) and look when somebody knew",
    "replace": "drain a node in working hours, and once at night",
    "reload": "restart a job at full size from storage that has no cache of it",
    "warmup": "time from the first step until steps take their usual time",
    "fast_detect": "stop one rank with heartbeats on",
    "spare_replace": "use a spare in the injections above",
    "spare_warmup": "use a spare in the injections above",
    "peer_reload": "time a reload from the peers' memory",
    "peer_share": "count, of the last failures, those that took both a node and its peer",
}
"""How a guess becomes a measurement."""


def stages(facts: Facts) -> str:
    """From nothing to the whole design, each stage with what lets it pass."""
    plan, rung = facts.plan, facts.rung
    rows = [
        ["1", "record", "the run as it is, for a week, with `tachograph replay`",
         "stops counted, saves timed; this document made anew with `--from-run`"],
        ["2", "save", f"saves every {words.interval(plan.advice)} on a tenth of the nodes",
         f"a save blocks at most {words.seconds(rung.cost_s * 1.5)}"
         + (f" and lands within {words.seconds(rung.persist_s * 1.5)}" if rung.persist_s else "")
         + "; losses after a restart are those of a run without one"],
        ["3", "break", "the injections below, at that size", "every line of the table passes"],
        ["4", "all nodes", "one day at full size, then one injection of each kind",
         "`tachograph replay` finds the day's goodput explained by its failures; it is no day to judge a goodput by"],
        ["5", "run", f"watch; judge after ten failures, about {words.seconds(10 * plan.mtbfs_s[1])}",
         f"goodput is {percent(facts.goal, 0)} or more, and `tachograph doc --check` lists nothing"],
    ]  # fmt: skip
    back = (
        f"**The way back**: save as before ({facts.today}); no checkpoint changes its format. Go back if a save makes "
        "training diverge, or if storage does not take the traffic."
    )
    return table(["", "stage", "what", "passes if"], rows) + "\n\n" + back


def injections(facts: Facts) -> str:
    """What to break, what must happen, and which number it measures."""
    rung = facts.rung
    back = f"trains again within {words.seconds(facts.restart_s * 1.25)}"
    rows = [
        ["kill one rank", f"{back}, at most {words.seconds(facts.most_lost_s)} of work lost", "restart, all parts"],
        ["stop a rank without killing it (SIGSTOP)", f"noticed within {words.seconds(rung.detect_s * 1.25)}", "detect"],
        ["power off a node", f"replaced within {words.seconds(rung.replace_s * 1.25)}", "replace"],
    ]
    if rung.saves == "asynchronous":
        rows.append(["kill a node while its save persists", "resumes from the save before; nobody reads a torn one",
                     "what a failure loses at worst"])  # fmt: skip
    rows += [
        ["make storage unreachable for two intervals", "training goes on, an alarm rings, saves resume by themselves",
         "work at risk"],
        ["damage the newest checkpoint", "is refused; the one before is loaded", "reload with one fall-back"],
        ["fill the storage's quota", "saves fail loudly; retention still deletes", "free space that an alarm needs"],
        ["kill the same node twice within an interval", "it is taken out", "incidents against failures"],
    ]  # fmt: skip
    if facts.plan.inputs.has("spares") and facts.plan.inputs.value("spares"):
        rows.append(["use up all spares", "the job waits and says for what", "replace without a spare"])
    return table(["break", "must happen", "measures"], rows)


def questions(facts: Facts) -> str:
    """Every guess as a question, the one that matters most first; then what looks odd."""
    plan = facts.plan
    points = {swing.name: swing.points for swing in plan.swings}
    guesses = [(name, given) for name, given in plan.inputs.numbers.items() if given.mark == "guess"]
    guesses.sort(key=lambda pair: -points.get(pair[0], 0.0))
    numbered = [f"{number}. {text}" for number, text in enumerate(_asked(guesses, points), 1)]
    odd = bullets(question.sentence for question in plan.questions)
    listed = "\n".join(numbered) or "None: every number was measured or stands on a spec sheet."
    return listed + (f"\n\nWhat looks odd in the numbers:\n\n{odd}" if odd else "")


def _asked(guesses: list[tuple[str, Number]], points: dict[str, float]) -> Iterator[str]:
    for name, given in guesses:
        if name in SETTLED:
            named = f"{words.name_of(name)}, {words.figure(name, given.value)}"
            yield f"**Is it settled: {named}?** {BY_NAME[name].about} Nobody has said where it comes from."
            continue
        low, high = span(name, given)
        reach = "" if low == high else f" It may be {words.figure(name, low)} to {words.figure(name, high)}"
        moved = points.get(name)
        matters = ""
        if moved is not None and reach:
            matters = f", which moves goodput by {moved:.1f} points."
        elif reach:
            matters = "; goodput hardly depends on it."
        how = _HOW_TO_KNOW.get(name)
        yield (
            f"**{_capital(words.name_of(name))}: {words.figure(name, given.value)}?** "
            f"{BY_NAME[name].about}{reach}{matters}" + (f" To know: {how}." if how else "")
        )


def _capital(name: str) -> str:
    """The first letter as a capital, the others as they are: ``Job MTBF``."""
    return name[0].upper() + name[1:]
