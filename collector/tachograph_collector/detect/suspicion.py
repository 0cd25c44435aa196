"""A node's record over runs: how suspect it is, whether it fails oftener than the others, and how sure that is.

Two different questions. The **score** sums what was held against a node, each mark by its weight, halved for each
half-life that has gone by: it ranks whom to look at first. The **chance** says whether its failures are more than
luck: were all nodes alike, each failure would hit a node in proportion to its hours, so that of ``K`` failures of the
fleet a node with the share ``q`` of all hours would have ``X ~ Binomial(K, q)``, and the chance is ``P(X >= k)`` (the
conditional test of two Poisson rates: Przyborowski and Wilenski, "Homogeneity of results in testing samples from
Poisson series", Biometrika 31, 1940). It assumes that failures come independently of each other; a node that broke and
was put back unrepaired is just what it finds. Who looks at the worst of ``n`` nodes looks at all of them: that any has
such a chance is ``1 - (1 - p)**n`` (Sidak). A node is called a repeat offender only where that is below 5 %.

A worked number: 3 failures in 40 node-days, where 64 other nodes of as many hours had 13. Its share is 40 of 2,600
node-days, so of 16 failures 0.246 would be expected; P(X >= 3) is 0.175 %. That any of the 65 nodes has as many has a
chance of 11 %: suspect, and not sure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from scipy.special import betainc

Kind = Literal["failure", "dead", "xid", "application_xid", "health", "straggler", "episode", "corruption"]
Sure = Literal["sure", "suspect", "not sure", "unknown", "no failure"]

HALF_LIFE_DAYS: Final = 7.0
LEVEL: Final = 0.05
LEAST_FAILURES: Final = 2
"""One failure is none that repeats."""
DAY_US: Final = 86_400_000_000
WEIGHTS: Final[dict[Kind, float]] = {
    "failure": 1.0,
    "dead": 1.0,
    "xid": 1.0,
    "corruption": 0.5,
    "straggler": 0.5,
    "health": 0.5,
    "application_xid": 0.25,
    "episode": 0.1,
}
"""What a mark counts; a warning of ``xid`` or ``health`` counts ``WARNING`` of it."""
WARNING: Final = 0.25
FAILURES: Final = frozenset({"failure", "dead"})


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that is held against a node."""

    node: str
    at_us: int
    kind: Kind
    run: str
    detail: str = ""
    is_warning: bool = False

    @property
    def weight(self) -> float:
        """What it counts on the day."""
        return WEIGHTS[self.kind] * (WARNING if self.is_warning else 1.0)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What is known of a node over runs."""

    node: str
    score: float
    how_sure: Sure
    sentence: str
    num_failures: int
    expected_failures: float | None
    """How many a node of its hours would have, were all nodes alike; None where its hours are not known."""
    chance: float | None
    """That a node of its hours has as many by luck."""
    chance_of_any: float | None
    """That any node of the fleet has such a chance by luck."""
    exposure_us: int | None
    counts: Mapping[Kind, int]
    runs: tuple[str, ...]
    last_us: int | None
    marks: tuple[Mark, ...]


def score_of(marks: Iterable[Mark], now_us: int, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """The weights of marks, each halved for every half-life since; what lies ahead of ``now_us`` counts whole."""
    return math.fsum(one.weight * 2.0 ** (-max(0, now_us - one.at_us) / (half_life_days * DAY_US)) for one in marks)


def chance_of(num_failures: int, share: float, num_all: int) -> float:
    """P(X >= num_failures) for X ~ Binomial(num_all, share): that luck alone gives a node so many of all failures."""
    if num_failures <= 0:
        return 1.0
    if share <= 0.0:
        return 0.0
    return 1.0 if share >= 1.0 else float(betainc(num_failures, num_all - num_failures + 1, share))


def ranked(
    marks: Iterable[Mark],
    exposure_us: Mapping[str, int],
    runs: Mapping[str, Iterable[str]],
    now_us: int,
    half_life_days: float = HALF_LIFE_DAYS,
) -> list[NodeRecord]:
    """The record of every node that is known, the most suspect first.

    ``exposure_us`` is how long each node was in runs; ``runs`` which those were. A node with marks that is in neither
    has a score, and its chance is unknown.
    """
    by_node: dict[str, list[Mark]] = {}
    for one in marks:
        by_node.setdefault(one.node, []).append(one)
    nodes = by_node.keys() | exposure_us.keys() | runs.keys()
    known = {node: exposed for node, exposed in exposure_us.items() if exposed > 0}
    all_us = sum(known.values())
    num_all = sum(one.kind in FAILURES for node, mine in by_node.items() if node in known for one in mine)
    records = []
    for node in nodes:
        mine = sorted(by_node.get(node, []), key=lambda one: (-one.at_us, one.kind, one.run, one.detail))
        num_failures = sum(one.kind in FAILURES for one in mine)
        exposed = known.get(node)
        expected = chance = any_chance = None
        if exposed is not None and len(known) > 1:
            share = exposed / all_us
            expected = num_all * share
            chance = chance_of(num_failures, share, num_all)
            any_chance = -math.expm1(len(known) * math.log1p(-chance)) if chance < 1 else 1.0
        how_sure = _how_sure(num_failures, chance, any_chance)
        counts: dict[Kind, int] = {}
        for one in mine:
            counts[one.kind] = counts.get(one.kind, 0) + 1
        records.append(
            NodeRecord(
                node,
                score_of(mine, now_us, half_life_days),
                how_sure,
                _sentence(how_sure, num_failures, exposed, expected, chance, any_chance, len(known)),
                num_failures,
                expected,
                chance,
                any_chance,
                exposed,
                counts,
                tuple(sorted({*runs.get(node, ()), *(one.run for one in mine)})),
                mine[0].at_us if mine else None,
                tuple(mine),
            )
        )
    return sorted(records, key=lambda one: (-one.score, one.node))


def _how_sure(num_failures: int, chance: float | None, any_chance: float | None) -> Sure:
    if num_failures == 0:
        return "no failure"
    if chance is None or any_chance is None:
        return "unknown"
    if num_failures < LEAST_FAILURES or chance >= LEVEL:
        return "not sure"
    return "sure" if any_chance < LEVEL else "suspect"


def _sentence(
    how_sure: Sure,
    num_failures: int,
    exposed_us: int | None,
    expected: float | None,
    chance: float | None,
    any_chance: float | None,
    num_nodes: int,
) -> str:
    failures = f"{num_failures} failure{'' if num_failures == 1 else 's'}" if num_failures else "no failure"
    if exposed_us is None:
        return f"{failures}; for how long it ran is not known, so whether that is many isn't either"
    days = f"{exposed_us / DAY_US:.3g} node-days"
    if expected is None or chance is None or any_chance is None:
        return f"{failures} in {days}; there is no other node to compare with"
    told = f"{failures} in {days}, where {expected:.2g} would be the fleet's share"
    if not num_failures:
        return told
    told += f": chance {_percent(chance)}"
    if how_sure == "sure":
        return (
            f"{told}, {_percent(any_chance)} that any of {num_nodes} nodes has such: it fails oftener than the others"
        )
    if how_sure == "suspect":
        return f"{told}, but {_percent(any_chance)} that any of {num_nodes} nodes has such: not sure"
    if num_failures < LEAST_FAILURES:
        return f"{told}; one failure says little: not sure"
    return f"{told}: luck may be all"


def _percent(chance: float) -> str:
    if chance < 1e-6:
        return "below 0.0001 %"
    return f"{100 * chance:.2g} %" if chance < 0.1 else f"{100 * chance:.0f} %"
