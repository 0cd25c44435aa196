"""What a person reads who is woken by an incident, and how each sink writes it."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
import stored_incidents
from tachograph_collector.detect import Cost
from tachograph_collector.detect.verdict import Incident
from tachograph_collector.sinks import alertmanager, slack, webhook
from tachograph_collector.sinks.message import details, headline
from tachograph_collector.sinks.telling import Telling
from tachograph_collector.store.incident_reader import StoredIncident
from tachograph_collector.store.keys import RunKey

S = 1_000_000


def telling(one: Incident, event: Any = "opened", origin: str = "live", **more: Any) -> Telling:
    stored = StoredIncident(RunKey(1, 1), one, origin, changed_us=7, acknowledged=None, silenced_by=None)
    return Telling(event=event, stored=stored, now_us=2000 * S, public_url="https://tachograph.example", **more)


OPEN = stored_incidents.incident("llama-1", severity="critical", attempt="3")
OVER = stored_incidents.incident("llama-1", cleared_us=1900 * S, outcome="recovered")


def test_a_message_says_what_broke_since_when_what_it_costs_what_to_do_and_where() -> None:
    assert headline(telling(OPEN)) == "CRITICAL llama-1: rank 7 is 20 % slower than the others"
    assert dict(details(telling(OPEN))) == {
        "When": "since 1970-01-01 00:16:40 UTC, 16 min 40 s ago",
        "Cost": "2 min of the whole job, 0.5 GPU-hours and 1.25 in money so far (steps slower by 20 %)",
        "To do": "drain node n3",
        "Where": "run llama-1, node n3, rank 7, attempt 3",
    }
    assert telling(OPEN).url == telling(OPEN).plain["url"]
    assert str(telling(OPEN).url).startswith("https://tachograph.example/")


def test_when_it_is_over_the_message_says_for_how_long_it_was_and_how_it_ended() -> None:
    assert headline(telling(OVER, "cleared")).startswith("OVER llama-1: ")
    when = dict(details(telling(OVER, "cleared")))["When"]
    assert when == "from 1970-01-01 00:16:40 to 1970-01-01 00:31:40 UTC, 15 min; recovered"


@pytest.mark.parametrize("cost", [None, Cost(basis="steps")])
def test_a_cost_that_is_unknown_is_no_zero(cost: Cost | None) -> None:
    assert dict(details(telling(stored_incidents.incident(cost=cost))))["Cost"] == "not known yet"


def test_rehearsals_and_tests_say_that_they_are_none_in_earnest() -> None:
    assert headline(telling(OPEN, origin="rehearsal")).startswith("REHEARSAL CRITICAL ")
    assert headline(telling(OPEN, is_test=True)).startswith("TEST CRITICAL ")


HOSTILE = stored_incidents.incident("<!channel>&\n*x*", summary="<https://evil.example|all is well>\u202e")


def test_no_name_calls_a_channel_or_makes_a_link_in_slack() -> None:
    body = slack.message(telling(HOSTILE))
    texts = [body["text"]] + [block["text"]["text"] for block in body["attachments"][0]["blocks"][:-1]]
    for text in texts:
        assert "<" not in text
        assert ">" not in text
    assert "&lt;!channel&gt;&amp;" in body["text"]
    assert "\n" not in body["text"]
    assert "\u202e" not in body["text"]


def test_what_is_long_fits_into_slack() -> None:
    body = slack.message(telling(stored_incidents.incident("r" * 500, summary="&" * 5000, advice="&" * 5000)))
    assert all(len(block["text"]["text"]) <= 3000 for block in body["attachments"][0]["blocks"])


def test_an_alert_is_known_by_labels_that_stay_and_lapses_if_it_is_not_said_again() -> None:
    (alert,) = alertmanager.alerts(telling(OPEN, told="critical"))
    assert alert["labels"] == {
        "alertname": "TachographStraggler",
        "run": "llama-1",
        "detector": "straggler",
        "severity": "critical",
        "subject": "rank 7",
        "node": "n3",
        "rank": "7",
        "incident": OPEN.incident_id,
        "origin": "live",
    }
    assert (alert["startsAt"], alert["endsAt"]) == ("1970-01-01T00:16:40.000Z", "1970-01-01T00:43:20.000Z")
    assert alert["annotations"]["to_do"] == "drain node n3"
    (over,) = alertmanager.alerts(telling(OVER, "cleared", told="warning"))
    assert over["endsAt"] == "1970-01-01T00:31:40.000Z"


def test_a_graver_alert_ends_the_one_under_the_former_severity() -> None:
    now, before = alertmanager.alerts(telling(OPEN, "updated", told="warning"))
    assert (now["labels"]["severity"], before["labels"]["severity"]) == ("critical", "warning")
    assert before["endsAt"] == "1970-01-01T00:33:20.000Z"


def test_a_webhook_has_the_whole_incident_and_a_key_that_stays_for_the_same_news() -> None:
    body = webhook.message(telling(OPEN))
    assert (body["version"], body["event"], body["is_test"]) == (1, "opened", False)
    assert body["incident"]["incident_id"] == OPEN.incident_id
    assert body["incident"]["cost"]["gpu_hours"] == 0.5
    assert body["incident"]["origin"] == "live"
    assert body["key"] == telling(OPEN, is_retry=True).key != telling(OPEN, "updated").key


def test_a_signature_is_over_the_time_and_the_body() -> None:
    signed = hmac.new(b"key", b"1767225600.{}", hashlib.sha256).hexdigest()
    assert webhook.signature("key", 1_767_225_600, b"{}") == f"t=1767225600,v1={signed}"


def test_what_is_over_costs_no_more_and_what_was_withdrawn_cost_nothing() -> None:
    assert "so far" not in dict(details(telling(OVER, "cleared")))["Cost"]
    over = stored_incidents.incident(cost=None, cleared_us=1900 * S, outcome="recovered")
    assert dict(details(telling(over, "cleared")))["Cost"] == "not known"
    none = stored_incidents.incident(cost=None, cleared_us=1900 * S, outcome="withdrawn: it was alive")
    assert dict(details(telling(none, "cleared")))["Cost"] == "none"
