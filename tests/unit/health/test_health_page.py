"""The page on health says what the code does: its plug-in runs, its numbers are ours."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from node_made_up import at_once
from tachograph_agent.health.ours import node_checks
from tachograph_agent.health.plugins import GROUP, plug_ins
from tachograph_agent.health.runner import Health
from tachograph_agent.health.xids import APPLICATION, BY_THE_LINE, HARDWARE, WATCH

PAGE = (Path(__file__).parents[3] / "docs" / "health.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def test_the_plug_in_on_the_page_is_found_and_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (name, value) = re.findall(rf'\[project\.entry-points\."{GROUP}"\]\n(\w+) = "([\w:]+)"', PAGE)[0]
    fans = tmp_path / "hwmon0"
    (tmp_path / "our_fans.py").write_text(source.replace("/sys/class/hwmon/hwmon0", str(fans)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_fans", raising=False)
    health = Health(plug_ins([EntryPoint(name, value, GROUP)]), at_once)
    (absent,) = health.run_due(0.0)
    assert absent["detail"] == f"absent: no fans in {fans}"
    fans.mkdir()
    (fans / "fan1_input").write_text("2400\n")
    (fans / "fan2_input").write_text("0\n")
    (found,) = health.run_due(60.0)
    assert (found["severity"], found["subject"], found["value"]) == ("critical", "fan2_input", 0)


@pytest.mark.parametrize(
    ("name", "numbers"), [("hardware", HARDWARE), ("application", APPLICATION), ("to be watched", WATCH)]
)
def test_the_catalogue_on_the_page_is_the_codes(name: str, numbers: frozenset[int]) -> None:
    (row,) = [row for row in ROWS if row[0] == name]
    assert row[1].split() == [str(number) for number in sorted(numbers)]


def test_the_links_xids_on_the_page_are_the_codes() -> None:
    (row,) = [row for row in ROWS if row[0] == "links"]
    first, begin, end = (int(number) for number in re.findall(r"\d+", row[1]))
    assert {first, *range(begin, end + 1)} == BY_THE_LINE


def test_the_intervals_on_the_page_are_the_checks(tmp_path: Path) -> None:
    shown = {row[0].strip("`"): row[1] for row in ROWS if re.fullmatch(r"\d+ s", row[1])}
    for check in node_checks(tmp_path, tmp_path, lambda: None):
        name = {"kernel": "xid"}.get(check.name, check.name.partition(" ")[0])
        assert shown[name] == f"{check.every_s:g} s"
