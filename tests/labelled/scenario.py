"""One labelled run: what the detectors are given, and what they ought to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from tachograph_agent.events import AnyEvent
from tachograph_collector.detect import Detectors, Incident, Settings
from tachograph_collector.detect.columns import StepColumns
from tachograph_collector.detect.scoring import Expected, Scoreboard, Tally, added, score

RUN = "r"
T0 = 1_760_000_000.0
SECOND_US = 1_000_000
AT_ONCE = ("dead_node",)
"""Judged by arrival: nothing is waited for."""


@dataclass(frozen=True)
class Told:
    """What the detectors are given of a run, what is wrong with it, and when its steps ended."""

    expected: Sequence[Expected] = ()
    columns: Sequence[StepColumns] = ()
    events: Sequence[AnyEvent] = ()
    incidents: Sequence[Incident] | None = None
    """What was said already, where other things than ``Detectors`` judge it."""

    def step_ends_us(self) -> np.ndarray:
        """When the first rank's steps ended."""
        ends = [one.t_us[one.rank == one.rank.min()] for one in self.columns if len(one)]
        return np.sort(np.concatenate(ends)) if ends else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Scenario:
    """``make`` with ``seed`` makes the run; the same seed, the same run."""

    name: str
    family: str
    """The noise: ``dense``, ``pipeline``, ``moe``, ``gaussian``, ``student``, ``fleet`` ..."""
    seed: int
    make: Callable[[int], Told] = field(repr=False)


@dataclass
class Scored:
    """Scores of many scenarios, and where they went wrong."""

    board: Scoreboard
    num: int = 0
    num_healthy: int = 0
    by_name: dict[tuple[str, str], Tally] = field(default_factory=dict)
    """All detectors together, by a scenario's name and family."""
    wrong: list[str] = field(default_factory=list)
    """A line for each miss and false alarm."""


def incidents_of(told: Told, settings: Settings | None = None) -> Sequence[Incident]:
    """What is said of a finished run."""
    if told.incidents is not None:
        return told.incidents
    detectors = Detectors(settings)
    if told.events:
        detectors.add(told.events)
    for columns in told.columns:
        detectors.add_steps(RUN, columns)
    detectors.look()
    return detectors.incidents()


def scored(scenarios: Sequence[Scenario], settings: Settings | None = None) -> Scored:
    """Make, judge and score scenarios, one after the other."""
    settings = settings or Settings()
    result = Scored(Scoreboard(settings.common.settle_s, AT_ONCE))
    for scenario in scenarios:
        told = scenario.make(scenario.seed)
        one = score(incidents_of(told, settings), told.expected)
        result.num += 1
        result.num_healthy += not told.expected
        alone = Scoreboard(settings.common.settle_s, AT_ONCE)
        for board in (result.board, alone):
            board.add(one, told.step_ends_us())
        key = (scenario.name, scenario.family)
        result.by_name[key] = added([result.by_name.get(key, Tally()), *alone.tallies.values()])
        where = f"{scenario.name} ({scenario.family}, seed {scenario.seed})"
        result.wrong += [
            f"{where}: missed {label.detectors[0]} of {label.subjects or 'the run'}" for label in one.missed
        ]
        result.wrong += [f"{where}: false {each.detector} of {each.subject}: {each.summary}" for each in one.false]
        result.wrong += [f"{where}: again {each.detector} of {each.subject}: {each.summary}" for each in one.again]
    return result
