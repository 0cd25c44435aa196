"""How well the detectors find what is wrong: the labelled set of ``tests/labelled``, scored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from figure import Figure, Row, Setting
from tachograph_collector.detect.scoring import Tally, added

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from labelled import losses, sets
from labelled.scenario import Scored, scored

QUIET_STEPS = 10_000
PER_STEPS = 50_000


def measure(setting: Setting) -> Figure:
    """Score all scenarios, or one of each name."""
    result = scored(sets.part() if setting.quick else sets.whole())
    for line in result.wrong:
        print(f"  {line}", file=sys.stderr)
    return Figure(
        "Detection",
        f"{result.num} labelled scenarios, seeded, {result.num_healthy} of them with nothing wrong "
        "(`tests/labelled`, described in [Detectors](detection.md#what-was-measured)). A delay counts from when it "
        "began until it was found, with the 5 s that live events are left to settle; steps are those that ended "
        "meanwhile. False is what nothing was wrong with, what had been said before, and what was withdrawn later.",
        [*targets(result), *(_row(name, tally) for name, tally in sorted(result.board.tallies.items()))],
        "See the known limits in [Detectors](detection.md#what-was-measured).",
    )


def targets(result: Scored) -> Iterable[Row]:
    """What is promised, against what was measured."""

    def of(*names: str, families: tuple[str, ...] = ()) -> Tally:
        return added(
            tally
            for (name, family), tally in result.by_name.items()
            if name in names and (not families or family in families)
        )

    dies = of("node dies", "node dies after a restart")
    late_s = dies.delay_s(0.95)
    yield _promise(
        f"{dies.num_expected} dead nodes: named within, 95th percentile",
        f"{late_s:.1f} s, {dies.num_hits} named" if late_s is not None else "none named",
        "≤ 35 s",
        late_s is not None and late_s <= 35 and dies.num_hits == dies.num_expected,
    )
    calm = of("pauses of 20 s", "partitions of 10 s", "collector restarts")
    yield _promise(
        "pauses of 20 s, partitions of 10 s, collector restarts", f"{calm.num_false} false", "0", not calm.num_false
    )
    for share, most in (("20 %", 100), ("12 %", 400)):
        yield _straggler(share, most, of(f"straggler {share}", families=("dense", "pipeline")))
    false = of("healthy 256 ranks").num_false
    yield _promise("256 ranks at 5 % autocorrelated imbalance", f"{false} named", "0", false == 0)
    for family in losses.FAMILIES:
        spikes = of("spike +0.6", families=(family,))
        recall = spikes.recall or 0.0
        yield _promise(f"loss spikes of +0.6, {family} noise: recall", f"{recall:.2f}", "≥ 0.95", recall >= 0.95)
        quiet = of("quiet loss, 10,000 steps", families=(family,))
        num = sum(one.name == "quiet loss, 10,000 steps" and one.family == family for one in losses.scenarios())
        rate = quiet.num_false / (num * QUIET_STEPS) * PER_STEPS
        said = f"{quiet.num_false} in {num * QUIET_STEPS:,} steps"
        yield _promise(f"false spikes, {family} noise", said, "≤ 1 in 50,000", rate <= 1)
    nan = added(tally for (name, _), tally in result.by_name.items() if "NaN" in name or name.startswith("loss "))
    yield _promise("NaN and Inf, open and hidden", f"{nan.num_hits} of {nan.num_expected}", "all", _all(nan))
    second = of("two spikes")
    yield _promise(
        "a second spike soon after a first", f"{second.num_hits} of {second.num_expected}", "all", _all(second)
    )


def _all(tally: Tally) -> bool:
    return tally.num_hits == tally.num_expected > 0


def _promise(what: str, measured: str, target: str, is_met: bool) -> Row:
    return Row(what, measured, target, is_met)


def _straggler(share: str, most: int, tally: Tally) -> Row:
    longest = tally.delay_steps(1.0)
    said = f"{tally.num_hits} of {tally.num_expected}, median {tally.delay_steps(0.5)}, longest {longest} steps"
    is_met = _all(tally) and longest is not None and longest <= most
    return Row(f"a straggler of {share} at 2 % noise", said, f"≤ {most} steps", is_met)


def _number(value: float | None, shape: Callable[[float], str]) -> str:
    return "" if value is None else shape(value)


def cells(tally: Tally) -> list[str]:
    """Labels, found, false, precision, recall, then median and 95th percentile in seconds and in steps."""
    return [
        str(tally.num_expected),
        str(tally.num_hits),
        str(tally.num_false),
        _number(tally.precision, "{:.2f}".format),
        _number(tally.recall, "{:.2f}".format),
        *(_number(tally.delay_s(one), "{:.0f}".format) for one in (0.5, 0.95)),
        *(_number(tally.delay_steps(one), "{:.0f}".format) for one in (0.5, 0.95)),
    ]


def _row(name: str, tally: Tally) -> Row:
    num, found, false, precision, recall, median_s, late_s, median_steps, late_steps = cells(tally)
    said = f"{found} of {num} found, {false} false: recall {recall or 'unknown'}, precision {precision or 'unknown'}"
    if median_s:
        said += f"; after {median_s} s, 95th percentile {late_s} s"
    if median_steps:
        said += f" ({median_steps} and {late_steps} steps)"
    return Row(f"`{name}`", said)


def table(result: Scored) -> str:
    """The table of docs/detection.md."""
    head = "| detector | labels | found | false | precision | recall | median s | p95 s | median steps | p95 steps |"
    lines = [head, "| --- |" + " ---: |" * 9]
    lines += [f"| `{name}` | " + " | ".join(cells(one)) + " |" for name, one in sorted(result.board.tallies.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    # python bench/figure_detection.py [OFFSET]: the table; with an offset of the same scenarios from other seeds
    offset = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    outcome = scored([replace(one, seed=one.seed + offset) for one in sets.whole()])
    print(table(outcome), *outcome.wrong, sep="\n")
