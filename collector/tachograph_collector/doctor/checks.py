"""All checks, in the order in which their findings are read; a check that fails itself is a finding, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tachograph_collector.doctor import (
    clock,
    disk,
    extras,
    gpus,
    kernel_log,
    lag,
    launcher,
    offset,
    python,
    reach,
    schema,
    spool,
    tls,
    token,
    variables,
    version,
)
from tachograph_collector.doctor.asked import Asked, ask
from tachograph_collector.doctor.finding import Finding, warn
from tachograph_collector.doctor.place import Place
from tachograph_collector.report.text import visible

_T = TypeVar("_T")

HERE: Final[tuple[Callable[[Place], Iterable[Finding]], ...]] = (
    python.look,
    extras.look,
    variables.look,
    launcher.look,
    spool.look,
    disk.look,
    clock.look,
    kernel_log.look,
    gpus.look,
)
"""Of this machine and this environment."""
THERE: Final[tuple[Callable[[Asked], Iterable[Finding]], ...]] = (
    reach.look,
    tls.look,
    token.look,
    version.look,
    schema.look,
    lag.look,
    offset.look,
)
"""Of the collector, from one round of questions."""


def look_here(place: Place) -> Iterator[Finding]:
    """What is found on the machine and in the environment."""
    yield from _each(HERE, place)


def look_there(place: Place) -> Iterator[Finding]:
    """What is found of the collector."""
    yield from _each(THERE, ask(place))


def _each(looks: Iterable[Callable[[_T], Iterable[Finding]]], at: _T) -> Iterator[Finding]:
    for look in looks:
        try:
            yield from list(look(at))
        except Exception as error:  # noqa: BLE001 - one check's defect must not hide what the others see
            name = look.__module__.rpartition(".")[2]
            told = visible(f"{type(error).__name__}: {error}", 200)
            yield warn(name, f"the check itself failed ({told})", "please report it; the others are not touched by it")
