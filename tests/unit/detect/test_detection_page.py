"""docs/detection.md tells every threshold with the default that it has."""

from __future__ import annotations

import re
from pathlib import Path

from tachograph_collector.detect import Settings

PAGE = (Path(__file__).parents[3] / "docs" / "detection.md").read_text(encoding="utf-8")


def test_the_table_has_every_threshold_as_it_is_by_default() -> None:
    told = {name: float(value) for name, value in re.findall(r"^\| `(\w+\.\w+)` \| ([\d.e-]+) \|", PAGE, re.MULTILINE)}
    defaults = Settings()
    assert told == {
        f"{table}.{name}": float(getattr(getattr(defaults, table), name))
        for table in defaults.__struct_fields__
        for name in getattr(defaults, table).__struct_fields__
    }
