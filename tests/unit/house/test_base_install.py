"""Without any extra, the commands start and replay a log; what needs an extra says which line to type.

The libraries of the extras are installed where tests run, so each command runs in a process of its own that refuses to
import them, as if they were not there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
import tree

RECORDED = str(tree.REPOSITORY / "examples" / "recorded_run.jsonl")

_RUN_WITHOUT = """
import sys
class Absent:
    names = set({absent!r})
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
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


def test_the_extras_are_what_is_taken_away() -> None:
    absent = set(absent_modules())
    assert {"numpy", "pandas", "scipy", "matplotlib", "pyarrow", "jinja2", "zstandard"} <= absent
    assert absent & {"msgspec", "click", "rich", "urllib3", "prometheus_client", "tachograph_agent"} == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["replay", "--help"], ["formats"]])
def test_commands_that_need_no_extra_run_without(arguments: list[str], tmp_path: Path) -> None:
    done = tachograph(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_the_recorded_run_is_replayed_without_any_extra(tmp_path: Path) -> None:
    done = tachograph("replay", RECORDED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "atlas-7b-pretrain" in done.stdout


def test_the_recorded_run_is_booked_to_the_second_without_any_extra(tmp_path: Path) -> None:
    done = tachograph("replay", RECORDED, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    events = [json.loads(line) for line in Path(RECORDED).read_text().splitlines()]
    wall_s = events[-2]["t"] - events[0]["t"]  # the allocation is given back after the run's end
    assert (run["status"], run["steps"], run["attempts"], run["failures"]) == ("completed", 12_400, 6, 4)
    assert run["planned_stops"] == 1
    accounts = [run["kept_s"], run["checkpoint_s"], run["lost_s"], run["restart_s"]]
    assert sum(accounts) == pytest.approx(wall_s, abs=1e-5)
    assert min(accounts) > 0


@pytest.mark.parametrize("option", [["--html", "report.html"], ["--minutes", "minutes.parquet"]])
def test_a_flag_whose_extra_is_missing_names_the_line_to_type(option: list[str], tmp_path: Path) -> None:
    done = tachograph("replay", RECORDED, *option, cwd=tmp_path)
    assert done.returncode != 0
    assert "pip install 'tachograph[collector]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
