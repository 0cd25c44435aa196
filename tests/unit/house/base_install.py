"""A ``tachograph`` that runs as a base install would: what only the extras bring can't be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

_RUN_WITHOUT = """
import sys
from importlib.machinery import PathFinder
class WithoutExtras(PathFinder):
    absent = set({absent!r})
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in cls.absent else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
sys.argv = {argv!r}
from tachograph_collector.cli.main import main
sys.exit(main())
"""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def base_distributions() -> set[str]:
    """The distributions that ``pip install tachograph`` brings without extras, their own dependencies included."""
    found, waiting = set(), ["tachograph"]
    while waiting:
        name = _normal(waiting.pop())
        if name in found:
            continue
        found.add(name)
        required = distribution(name).requires or []
        waiting += [re.split(r"[^\w.-]", line)[0] for line in required if ";" not in line]
    return found


def absent_modules() -> list[str]:
    """The import names that a base install does not have and this environment has."""
    base = base_distributions()
    owners = packages_distributions().items()
    return sorted(name for name, owner in owners if not base & {_normal(each) for each in owner})


def tachograph(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``tachograph`` as a base install would."""
    script = _RUN_WITHOUT.format(absent=absent_modules(), argv=["tachograph", *arguments])
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
