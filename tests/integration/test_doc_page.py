"""What ``docs/doc-command.md`` shows is what the command writes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner
from tachograph_collector.cli.main import cli

PAGE = (Path(__file__).parents[2] / "docs" / "doc-command.md").read_text(encoding="utf-8")


def test_the_record_s_thresholds_are_as_the_page_shows_them() -> None:
    (line,) = re.findall(r"^tachograph (doc .* --adr \d+)$", PAGE, re.MULTILINE)
    shown = PAGE.partition("```markdown\n")[2].partition("```")[0]
    told = CliRunner().invoke(cli, [*shlex.split(line), "--runs", "0"], prog_name="tachograph")
    assert told.exit_code == 0, told.output
    assert shown in told.stdout


def test_the_page_names_every_section_of_the_document() -> None:
    told = CliRunner().invoke(cli, ["doc", "--nodes", "128", "--job-mtbf", "12h", "--runs", "0"])
    sections = [title.partition(":")[0] for title in re.findall(r"^## (.+)$", told.stdout, re.MULTILINE)]
    assert re.findall(r"^\| ([A-Z][^|]+?) \|", PAGE, re.MULTILINE)[: len(sections)] == sections
