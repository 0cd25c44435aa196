"""Which Python and which Tachograph run here, and whether the command that a shell finds is this one."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tachograph_collector.doctor.finding import Finding, ok, warn
from tachograph_collector.doctor.place import Place

OLDEST = (3, 11)


def look(place: Place) -> Iterator[Finding]:
    """The version, and another installation that goes before this one."""
    here = f"Tachograph {version('tachograph')} on Python {sys.version.split()[0]} in {sys.prefix}"
    yield ok("python", here)
    found = shutil.which("tachograph-agent", path=place.env.get("PATH"))
    scripts = Path(sysconfig.get_path("scripts"))
    if found is None:
        yield warn(
            "python",
            "no tachograph-agent is on the PATH",
            f"call it as {scripts / 'tachograph-agent'}, or put {scripts} on the PATH: "
            "launchers and systemd find what is there",
        )
    elif Path(found).parent.resolve() != scripts.resolve():
        yield warn(
            "python",
            f"the PATH finds another installation first: {found}",
            f"put {scripts} before it, or remove that one: two versions would write and ship differently",
        )
