"""What a client says of incidents is what was meant, once, however often it is sent."""

from __future__ import annotations

import json

import pytest
from stand_in import Says, StandIn
from tachograph_collector.client import Client, ProblemError
from tachograph_collector.client.address import address
from tachograph_collector.client.transport import Transport, patience
from tachograph_collector.service.incident_examples import INCIDENT, INCIDENTS, ONE_INCIDENT, SIGHTS, SILENCE, SILENCES

BUSY = Says(503, {"title": "busy", "status": 503, "detail": "busy"}, {"Retry-After": "0"})


def test_what_a_collector_tells_of_incidents_comes_out_as_records() -> None:
    with StandIn(lambda _: Says(body=INCIDENTS)) as stand_in:
        client = Client(transport=Transport(address(stand_in.url, ""), retries=patience(2)))
        (found,) = client.incidents("llama*", severity=["warning", "critical"], is_open=True, since=5.0)
        assert (found.incident_id, found.evidence) == (INCIDENT["incident_id"], INCIDENT["evidence"])
        assert found.cost is not None
        assert found.cost.gpu_hours == INCIDENT["cost"]["gpu_hours"]
        asked = stand_in.asked[0].path
        assert asked == ("/v1/incidents?run=llama%2A&severity=warning&severity=critical&open=true&since=5.000000")
        frame = client.incidents().frame()
        assert str(frame["opened_at"].dtype) == "datetime64[us, UTC]"


def test_sights_and_silences_come_out_as_records() -> None:
    with StandIn(lambda asked: Says(body=SIGHTS if "sights" in asked.path else SILENCES)) as stand_in:
        client = Client(transport=Transport(address(stand_in.url, ""), retries=patience(2)))
        assert client.run("llama/70b").sights()[0].evaluations == SIGHTS["sights"][0]["evaluations"]
        (silence,) = client.silences(is_over=False)
        assert (silence.since, silence.why) == (SILENCE["from"], SILENCE["why"])
        assert stand_in.asked[-1].path == "/v1/silences?over=false"


def test_a_note_whose_answer_was_lost_is_sent_again_under_the_same_id() -> None:
    says = [BUSY, Says(body=ONE_INCIDENT)]
    with StandIn(lambda _: says.pop(0)) as stand_in:
        client = Client(transport=Transport(address(stand_in.url, ""), retries=patience(2)))
        noted = client.annotate("4f1c2d0b", "the fan\udcff", author="ada")
        first, second = (json.loads(asked.body) for asked in stand_in.asked)
        assert first == second
        assert (first["text"], first["author"], len(first["id"])) == ("the fan\\udcff", "ada", 32)
        assert noted.notes[0].author == "on call"


def test_an_id_leads_nowhere_else() -> None:
    answer = Says(404, {"title": "No such incident", "status": 404, "detail": "there is no incident"})
    with StandIn(lambda _: answer) as stand_in:
        client = Client(transport=Transport(address(stand_in.url, ""), retries=patience(2)))
        for odd in ("../runs", "", "..", "a/b?c#d"):
            with pytest.raises(ProblemError, match="no incident"):
                client.incident(odd)
            path = stand_in.asked[-1].path
            assert path.startswith("/v1/incidents/")
            assert path.count("/") == 3


def test_a_silence_is_made_and_ended() -> None:
    with StandIn(lambda asked: Says(201 if asked.method == "POST" else 200, SILENCE)) as stand_in:
        client = Client(transport=Transport(address(stand_in.url, ""), retries=patience(2)))
        client.silence(why="maintenance", node="n3", lasts="2h", since=5)
        body = json.loads(stand_in.asked[-1].body)
        assert {name: body[name] for name in body if name != "id"} == {
            "node": "n3",
            "from": "5.000000",
            "for": "2h",
            "why": "maintenance",
        }
        client.end_silence("8c2b1a09")
        assert (stand_in.asked[-1].method, stand_in.asked[-1].path) == ("DELETE", "/v1/silences/8c2b1a09")
