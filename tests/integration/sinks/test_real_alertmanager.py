"""Against a real Alertmanager: an alert fires once, grows graver without a second one, and is over when it is over."""

from __future__ import annotations

from pathlib import Path

from alertmanager import Alertmanager
from tachograph_collector.store.database import Database
from told_sinks import World, config


def test_an_alert_fires_is_said_again_grows_graver_and_ends(sqlite_url: str, tmp_path: Path) -> None:
    database = Database(sqlite_url)
    world = World(database)
    with Alertmanager(tmp_path) as real:
        courier = world.courier(told=config("alertmanager", url=real.url), public_url="https://tachograph.example")
        one = world.incident()
        courier.turn()
        world.hours_pass()
        courier.turn()
        (alert,) = real.alerts()
        assert alert["labels"]["alertname"] == "TachographStraggler"
        assert (alert["labels"]["severity"], alert["labels"]["node"]) == ("warning", "n3")
        assert alert["annotations"]["to_do"] == "drain node n3"
        assert alert["generatorURL"].startswith("https://tachograph.example/")
        assert alert["status"]["state"] in {"active", "unprocessed"}
        one = world.change(one, severity="critical")
        courier.turn()
        (alert,) = real.alerts()
        assert alert["labels"]["severity"] == "critical"
        world.clear(one)
        courier.turn()
        assert real.alerts() == []
        assert courier.tally.failed == 0
    database.close()


def test_names_of_any_text_are_labels_that_it_takes(sqlite_url: str, tmp_path: Path) -> None:
    database = Database(sqlite_url)
    world = World(database)
    with Alertmanager(tmp_path) as real:
        courier = world.courier(told=config("alertmanager", url=real.url))
        world.incident('node "ü\\\n\u202e"', node='"ü\\\n\u202e' * 50, ago_s=-3600)  # by a clock that is ahead
        courier.turn()
        assert courier.tally.failed == 0
        assert len(real.alerts()) == 1
    database.close()
