"""``tachograph outages`` as a user types it, and ``tachograph replay`` on what is no log but a table of outages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import outage_samples
import pytest
from click.testing import CliRunner, Result
from tachograph_collector.cli.main import cli


def tachograph(*words: str, **more: str) -> Result:
    return CliRunner().invoke(cli, list(words), prog_name="tachograph", **more)  # type: ignore[arg-type] # input only


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, str]:
    """A file of each kind, by kind."""
    for kind, text in outage_samples.BY_KIND.items():
        (tmp_path / f"{kind}.csv").write_text(text)
    return {kind: str(tmp_path / f"{kind}.csv") for kind in outage_samples.BY_KIND}


@pytest.mark.parametrize("kind", outage_samples.BY_KIND)
def test_replay_and_outages_say_the_same_of_a_table(kind: str, tables: dict[str, str]) -> None:
    own, by_replay = tachograph("outages", tables[kind]), tachograph("replay", tables[kind])
    assert (own.exit_code, by_replay.exit_code) == (0, 0)
    assert own.stdout == by_replay.stdout
    assert "no minute can be booked" in own.stdout


def test_span_and_gpus_make_rates_of_counts(tables: dict[str, str]) -> None:
    told = json.loads(tachograph("outages", "--json", "--span", "10", "--gpus", "100", tables["causes"]).stdout)
    assert told["outages"][0]["figures"]["mtbf_s"] == 72_000.0


def test_standard_input_and_a_compressed_file_are_read(tables: dict[str, str], tmp_path: Path) -> None:
    packed = tmp_path / "told.csv.gz"
    packed.write_bytes(gzip.compress(outage_samples.SACCT.encode()))
    piped = tachograph("outages", "-", input=outage_samples.SACCT)
    assert piped.stdout.replace("stdin", "told") == tachograph("outages", str(packed)).stdout
    assert tachograph("replay", "-", input=outage_samples.SACCT).stdout == piped.stdout
    assert "sacct" in tachograph("outages", tables["sacct"]).stdout


@pytest.mark.parametrize("option", [["--html", "x.html"], ["--strict"], ["--since", "2030-01-01"]])
def test_what_needs_booked_minutes_is_refused_with_what_to_type(option: list[str], tables: dict[str, str]) -> None:
    result = tachograph("replay", tables["incidents"], *option)
    assert result.exit_code == 2
    assert "'tachograph outages " in result.stderr
    assert "Traceback" not in result.output


def test_a_log_is_sent_to_replay_and_nonsense_gets_a_sentence(tmp_path: Path) -> None:
    log = tmp_path / "metrics.csv"
    log.write_text("epoch,step,train_loss\n0,9,2.5\n")
    result = tachograph("outages", str(log))
    assert result.exit_code == 2
    assert "lightning-csv" in result.stderr
    assert "'tachograph replay" in result.stderr
    log.write_text("Dear diary\n")
    assert "not a format I know" in tachograph("outages", str(log)).stderr
    assert "known are sacct, incidents" in tachograph("outages", "--format", "megatron", str(log)).stderr


def test_a_kind_can_be_forced_and_a_table_without_a_row_says_so(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("cause,count\nheat\n")
    result = tachograph("outages", "--format", "causes", str(path))
    assert result.exit_code == 2
    assert "line 2: a row of 1 cells under a header of 2" in result.stderr


def test_formats_lists_the_kinds() -> None:
    listed = tachograph("formats").stdout
    assert all(f"{kind} " in listed for kind in outage_samples.BY_KIND)
