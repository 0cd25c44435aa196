"""``tachograph incidents``, ``incident`` and ``silence`` against a real collector, as an operator types them."""

from __future__ import annotations

import json
import re

import pytest
import stored_runs
from click.testing import CliRunner, Result
from collector_process import CollectorProcess, Starts
from sqlalchemy import insert
from stored_incidents import SECOND, incident, put
from tachograph_agent.events import RunEnd, RunStart, Step
from tachograph_collector.cli.main import cli
from tachograph_collector.detect.verdict import Incident
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import leases

HOSTILE = "node \x1b[31m<b>"
SLOW = incident(
    "lab",
    "straggler",
    "rank 7",
    incident_id="aaaa1111",
    summary=f"rank 7 of {HOSTILE} is slow",
    opened_us=1000 * SECOND,
)
HUNG = incident(
    "lab", "hang", "run", incident_id="bbbb2222", severity="critical", summary="the job hangs", node=None, rank=None,
    opened_us=900 * SECOND, consequence_of="aaaa1111",
)  # fmt: skip
OVER = incident(
    "lab", "nan", "run", incident_id="cccc3333", severity="critical", summary="the loss is NaN",
    opened_us=2000 * SECOND, cleared_us=2060 * SECOND, outcome="rolled back", cost=None,
)  # fmt: skip


@pytest.fixture
def url(start_collector: Starts, sqlite_url: str) -> str:
    """A collector with a run that is booked, two open incidents and one that is over."""
    return collector_with(start_collector, sqlite_url, SLOW, HUNG, OVER)


START = 1_772_323_200.0


def collector_with(start_collector: Starts, sqlite_url: str, *found: Incident, is_run_over: bool = False) -> str:
    """A collector's address with half an hour of a run, and these incidents of it."""
    start = START
    events = [RunStart(t=start, run="lab", world_size=4)]
    steps = [Step(t=start + 60 * n, run="lab", attempt=0, node="n3", rank=7, step=n, dur=60.0) for n in range(1, 31)]
    last = [RunEnd(t=start + 1801, run="lab")] if is_run_over else []
    database = Database(sqlite_url)
    stored_runs.store(database, [*events, *steps, *last], run_id=7)
    with database.write() as connection:
        for one in found:
            put(connection, RunKey(1, 7), one)
        # Another collector folds the run, so that this one's detectors leave it as it is.
        held = {"holder": "another", "fence": 1, "until_us": 9 * 10**15, "folded_seq": 10, "folded_until_us": 0}
        connection.execute(insert(leases).values(tenant_id=1, run_id=7, **held))
    database.close()
    collector: CollectorProcess = start_collector(sqlite_url)
    return collector.url


def typed(url: str, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, [*words, "--url", url], prog_name="tachograph")
    assert done.exit_code == code, done.output
    assert "\x1b" not in done.output
    return done


def test_an_operator_works_through_what_was_flagged(url: str) -> None:
    lines = typed(url, "incidents").stdout.splitlines()
    assert [re.split(r"\s{2,}", line)[0] for line in lines] == ["id", "bbbb2222", "aaaa1111", "cccc3333"]
    assert "over after 1 min" in lines[3]
    assert [line.split()[0] for line in typed(url, "incidents", "--open", "l*").stdout.splitlines()[1:]] == [
        "bbbb2222",
        "aaaa1111",
    ]
    assert "no incident that fits" in typed(url, "incidents", "other*").stdout
    assert "knows no run 'labs'" in typed(url, "incidents", "labs", code=2).output
    assert "'12' is no ID of an incident" in typed(url, "incident", "show", "12", code=2).output
    assert "'zz' is no ID of a silence" in typed(url, "silence", "end", "zz", code=2).output
    assert "and more" in typed(url, "incidents", "--limit", "1").stdout
    told = json.loads(typed(url, "incidents", "--detector", "nan", "--detector", "hang", "--json").stdout)
    assert [one["incident_id"] for one in told["incidents"]] == ["bbbb2222", "cccc3333"]

    said = typed(url, "incident", "show", "aaaa").stdout
    for words in (
        "straggler: rank 7 of run lab", "what to do: drain node n3", "2 min, 0.5 GPU-hours, 1.25 of money",
        "still open", "first step: 3", "id aaaa1111",
    ):  # fmt: skip
        assert words in said
    assert "follows from: aaaa1111" in typed(url, "incident", "show", "bbbb2222").stdout
    assert "cost: unknown" in typed(url, "incident", "show", "cccc").stdout

    done = typed(url, "incident", "ack", "aaaa", "--note", "I drain it", "--author", "ada")
    assert "ada is on it" in done.stdout
    typed(url, "incident", "note", "aaaa", "a fan\nhad failed", "--author", "bob")
    notes = json.loads(typed(url, "incident", "show", "aaaa", "--json").stdout)["notes"]
    assert [(note["author"], note["what"], note["text"]) for note in notes] == [
        ("ada", "acknowledged", "I drain it"),
        ("bob", "annotated", "a fan\nhad failed"),
    ]
    assert "ada is on it" in typed(url, "incidents").stdout
    assert "is on it" not in typed(url, "incident", "unack", "aaaa").stdout

    made = typed(url, "silence", "add", "--node", "n3", "--for", "2h", "--why", "fans", "--author", "ada")
    silence_id = made.stdout.strip()
    assert "silenced" in typed(url, "incident", "show", "aaaa").stdout
    (listed,) = typed(url, "silence", "ls").stdout.splitlines()[1:]
    assert "node n3" in listed
    assert "ended" in typed(url, "silence", "end", silence_id[:8]).stdout
    assert "no silence that holds" in typed(url, "silence", "ls").stdout
    assert len(json.loads(typed(url, "silence", "ls", "--all", "--json").stdout)["silences"]) == 1


def test_a_runs_report_and_the_list_of_runs_say_what_is_open(url: str) -> None:
    words = " ".join(typed(url, "show", "lab").stdout.split())
    assert "2 incidents" in words
    assert words.index("critical: the job hangs (still open)") < words.index("warning: rank 7")
    assert "the loss is NaN" not in words
    head, line = typed(url, "ls").stdout.splitlines()
    assert "incidents" in head
    assert re.split(r"\s{2,}", line.strip())[5] == "2"


def test_the_report_of_a_run_that_is_over_has_all_that_was_flagged(start_collector: Starts, sqlite_url: str) -> None:
    url = collector_with(start_collector, sqlite_url, OVER, is_run_over=True)
    words = " ".join(typed(url, "show", "lab").stdout.split())
    assert "completed" in words
    assert "the loss is NaN" in words


def test_what_is_mistyped_is_a_sentence(url: str) -> None:
    assert "no incident 'dddd'" in typed(url, "incident", "show", "dddd", code=2).stderr
    assert "no silence 'dddd'" in typed(url, "silence", "end", "dddd", code=2).stderr
    assert "--for" in typed(url, "silence", "add", "--node", "n3", "--why", "a", code=2).stderr
    assert "--run '*'" in typed(url, "silence", "add", "--for", "2h", "--why", "a", code=2).stderr
    assert "soon" in typed(url, "silence", "add", "--node", "n", "--for", "soon", "--why", "a", code=2).stderr
    assert "says nothing" in typed(url, "incident", "note", "aaaa", " ", code=2).stderr


@pytest.mark.parametrize("words", [("incidents",), ("incident", "ack", "aaaa"), ("silence", "ls")])
def test_where_no_collector_answers_the_code_says_so(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    from tachograph_collector.client import transport

    monkeypatch.setattr(transport, "NUM_RETRIES", 0)
    monkeypatch.setattr(transport.patience, "__defaults__", (0, 0))
    assert "no collector answers" in typed("http://127.0.0.1:9", *words, code=69).stderr
