"""Whether NVML answers, and what it has to say of the GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tachograph_agent.health.nvml import Nvml

from tachograph_collector.doctor.agents_eyes import through
from tachograph_collector.doctor.finding import Finding
from tachograph_collector.doctor.place import Place


def look(place: Place) -> Iterator[Finding]:  # noqa: ARG001 - every check takes the place
    """Missing GPUs, ECC errors, heat; or that there is no driver, or no library that this container has."""
    with TemporaryDirectory(prefix="tachograph-doctor-") as nothing:
        yield from through(Nvml(Path(nothing)), "GPUs", "NVML answers, and has nothing to complain of")
