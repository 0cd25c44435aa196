"""The worked example of ``docs/ledger.md`` is booked as the page says."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import tree
from base_install import tachograph

PAGE = (tree.REPOSITORY / "docs" / "ledger.md").read_text().partition("## A worked example")[2].partition("\n## ")[0]
_ROW = re.compile(r"^\| (\d+) – (\d+) \| .* \| (\w+) \| (\w+) \| [\d, ]+ \|$", re.MULTILINE)


def test_the_worked_example_is_booked_as_its_table_says(tmp_path: Path) -> None:
    log = PAGE.partition("```json\n")[2].partition("```")[0]
    (tmp_path / "worked.jsonl").write_text(log)
    rows = [(int(start), int(end), account, sub) for start, end, account, sub in _ROW.findall(PAGE)]
    assert [end for _, end, _, _ in rows[:-1]] == [start for start, _, _, _ in rows[1:]]
    subs: Counter[str] = Counter()
    for start, end, account, sub in rows:
        subs[f"{account}/{sub}"] += end - start
    done = tachograph("replay", "worked.jsonl", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    for account in ("kept", "checkpoint", "lost", "restart"):
        expected = sum(seconds for name, seconds in subs.items() if name.startswith(account))
        assert run[f"{account}_s"] == expected, account
    booked = {name: seconds for name, seconds in run["details"]["sub_accounts"].items() if seconds}
    assert booked == subs
    assert run["minutes"] == {"kept": 2, "checkpoint": 0, "lost": 2, "restart": 3}
    assert f"goodput {100 * run['goodput']:.1f} %" in PAGE
