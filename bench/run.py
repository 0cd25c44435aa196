"""Measure the figures of ``docs/benchmarks.md`` and write that page. ``make bench`` runs it.

python bench/run.py                           all figures, some minutes; writes docs/benchmarks.md
python bench/run.py --quick                   smaller inputs, about a minute; only prints
python bench/run.py --only megatron --out -   one figure
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import figure_agent
import figure_detection
import figure_detectors
import figure_event_log
import figure_ingest
import figure_judge
import figure_live
import figure_megatron
import figure_one_more_step
import figure_page
import figure_queries
import figure_recorder
import figure_simulators
import figure_startup
import measure
import report
from figure import Setting

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
FIGURES = {
    "event-log": figure_event_log.measure,
    "one-more-step": figure_one_more_step.measure,
    "megatron": figure_megatron.measure,
    "detection": figure_detection.measure,
    "detectors": figure_detectors.measure,
    "judge": figure_judge.measure,
    "simulators": figure_simulators.measure,
    "recorder": figure_recorder.measure,
    "agent": figure_agent.measure,
    "live": figure_live.measure,
    "ingest": figure_ingest.measure,
    "queries": figure_queries.measure,
    "page": figure_page.measure,
    "startup": figure_startup.measure,
}


def main() -> int:
    """Measure what was asked for, print it, and write the page if it is whole."""
    parser = argparse.ArgumentParser(description="Measure the figures of docs/benchmarks.md.")
    parser.add_argument("--quick", action="store_true", help="smaller inputs and fewer rounds; only prints")
    parser.add_argument("--only", choices=FIGURES, action="append", help="only this figure; may be given again")
    parser.add_argument("--out", metavar="FILE", help=f"write the page here, '-' only prints (default: {PAGE.name})")
    told = parser.parse_args()
    names = told.only or list(FIGURES)
    whole = not told.quick and not told.only
    out = told.out or (str(PAGE) if whole else "-")
    machine = measure.machine()
    figures = []
    with tempfile.TemporaryDirectory(prefix="tachograph-bench-") as folder:
        setting = Setting(Path(folder), quick=told.quick)
        for name in names:
            print(f"measuring {name} ...", file=sys.stderr)
            try:
                figures.append(FIGURES[name](setting))
            except subprocess.CalledProcessError as error:
                print(f"{name}: {error}\n{error.stderr}", file=sys.stderr)
                return 1
    text = report.page(figures, machine, setting.rounds, quick=told.quick)
    if out == "-":
        print(text)
    else:
        Path(out).write_text(text, encoding="utf-8")
        print(f"written: {out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
