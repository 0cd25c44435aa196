"""Plug-ins: found by entry point, loaded in their own time, and alone in failing."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from node_made_up import at_once, run
from tachograph_agent.health.plugins import GROUP, plug_ins
from tachograph_agent.health.runner import Health

PLUG_IN = """
from tachograph_agent.health.finding import Finding

class Fan:
    name = "fan"
    every_s = {every_s}
    timeout_s = 5.0

    def look(self):
        return [Finding("fan", "warning", "fan 3 stands still", 3)]

def broken():
    raise LookupError("no fan here")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "made_up_fans.py").write_text(PLUG_IN.format(every_s=30.0))
    (tmp_path / "made_up_wrong.py").write_text(PLUG_IN.format(every_s="'often'"))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("made_up_fans", "made_up_wrong"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "made_up_fans"


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_a_plug_in_is_a_check_like_ours(module: str) -> None:
    checks = plug_ins([point("fan", f"{module}:Fan")])
    health = Health(checks, at_once)
    ((told,), *later) = run(health, 20)
    assert (told["check"], told["severity"], told["value"]) == ("fan", "warning", 3)
    assert later == [[]] * 19
    assert checks[0].every_s == 30.0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("not_there:Fan", "ModuleNotFoundError"),
        ("made_up_fans:Nothing", "AttributeError"),
        ("made_up_fans:broken", "no fan here"),
        ("made_up_wrong:Fan", "its every_s is 'often'; expected seconds"),
    ],
)
def test_one_that_can_not_be_used_is_told_once_and_stops_no_other(module: str, value: str, words: str) -> None:
    health = Health(plug_ins([point("fan", f"{module}:Fan"), point("broken", value)]), at_once)
    first, *later = run(health, 3, every_s=61.0)
    assert [told["check"] for told in first] == ["broken", "fan"]
    assert words in str(first[0]["detail"])
    assert later == [[], []]
