"""All labelled scenarios, and a part of them that takes seconds."""

from __future__ import annotations

from labelled import fleet, losses, saves, sickness, stalls, stragglers
from labelled.scenario import Scenario


def whole() -> list[Scenario]:
    """All of them, a minute or so of processor time; a third has nothing wrong."""
    return [one for kind in (stragglers, losses, saves, stalls, sickness, fleet) for one in kind.scenarios()]


def part() -> list[Scenario]:
    """One of each name; which family it is of goes round."""
    by_name: dict[str, list[Scenario]] = {}
    for one in whole():
        by_name.setdefault(one.name, []).append(one)
    return [group[7 * place % len(group)] for place, group in enumerate(by_name.values())]
