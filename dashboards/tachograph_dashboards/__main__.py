"""``python -m tachograph_dashboards``: writes the boards as Grafana's JSON, and the rules as Prometheus' YAML."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tachograph_dashboards.generate import FOLDER, write, write_rules


def main(words: list[str] | None = None) -> int:
    """Write boards and rules, or say which are stale; 1 if one is."""
    parser = argparse.ArgumentParser(prog="python -m tachograph_dashboards", description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="where to write them")
    parser.add_argument("--rules-into", type=Path, metavar="FOLDER", help="write the rules, too, and where")
    parser.add_argument("--public-url", metavar="URL", help="the collector's address, for links; else asked of it")
    parser.add_argument(
        "--without-ledger",
        action="store_true",
        help="for a collector on SQLite: ledger panels become links to its page",
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where one is stale")
    told = parser.parse_args(words)
    stale = write(told.into, public_url=told.public_url, with_ledger=not told.without_ledger, check=told.check)
    if told.rules_into is not None:
        stale += write_rules(told.rules_into, check=told.check)
    if told.check and stale:
        sys.stderr.write(f"stale: {', '.join(stale)}; 'make boards' writes them anew\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
