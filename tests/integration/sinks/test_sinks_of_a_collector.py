"""A collector as a process with sinks: told once though it is killed while it tells; and the commands beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promtool
from click.testing import CliRunner
from collector_process import Starts
from sink_server import Behaviour, Grafana, Server
from sqlalchemy import update
from tachograph_collector.cli.main import cli
from tachograph_collector.sinks.telling import NotToldError
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_tables import deliveries
from told_sinks import Ear, World


def settings(tmp_path: Path, grafana: Grafana, server: Server) -> Path:
    (tmp_path / "token").write_text(grafana.token)
    file = tmp_path / "collector.toml"
    file.write_text(
        f'public_url = "https://tachograph.example"\n'
        f'[[sinks]]\nname = "boards"\nkind = "grafana"\nurl = "{grafana.url}"\ntoken_file = "{tmp_path / "token"}"\n'
        f'[[sinks]]\nname = "oncall"\nkind = "slack"\nurl = "{server.url}/services/hunter2"\n'
    )
    return file


def test_a_collector_killed_while_it_tells_is_followed_by_one_that_makes_no_second_annotation(
    start_collector: Starts, database_url: str, tmp_path: Path
) -> None:
    with Grafana() as grafana, Server() as server, Server() as idle:
        file = settings(tmp_path, grafana, idle)
        first = start_collector(database_url, ["--config", str(file)])
        opened = Database(database_url)
        world = World(opened)
        grafana.then(Behaviour(holds=True))
        world.incident()
        assert grafana.arrived.acquire(timeout=60)  # it is made, and the answer is on its way
        first.kill()
        grafana.release()
        with opened.write() as connection:
            connection.execute(update(deliveries).values(claimed_until_us=0, next_try_us=0))
        second = start_collector(database_url, ["--config", str(file)])
        assert grafana.arrived.acquire(timeout=60)
        assert grafana.arrived.acquire(timeout=60)
        assert [came.method for came in grafana.came] == ["POST", "GET", "PATCH"]
        assert len(grafana.annotations) == 1
        second.stop()
        opened.close()
        said = "\n".join(first.said + second.said)
        assert "hunter2" not in said
        assert grafana.token not in said
        assert server.came == []


def test_metrics_tell_of_each_sink(start_collector: Starts, tmp_path: Path) -> None:
    with Grafana() as grafana, Server() as server:
        collector = start_collector(options=["--config", str(settings(tmp_path, grafana, server))])
        text = collector.request("GET", "/metrics").body
        assert promtool.complaints(text) == ""
        assert promtool.value(text, "tachograph_collector_deliveries_total", sink="boards", result="sent") == 0
        assert promtool.value(text, "tachograph_collector_dead_deliveries", sink="oncall") == 0


def test_a_sink_can_be_tried_without_a_collector(tmp_path: Path) -> None:
    with Grafana() as grafana, Server() as server:
        file = str(settings(tmp_path, grafana, server))
        listed = CliRunner().invoke(cli, ["sinks", "list", "--config", file])
        assert listed.exit_code == 0
        assert "boards" in listed.output
        assert "hunter2" not in listed.output
        tried = CliRunner().invoke(cli, ["sinks", "test", "boards", "--config", file])
        assert tried.exit_code == 0, tried.output
        (only,) = grafana.annotations.values()
        assert only["timeEnd"] > only["time"]
        assert "TEST OVER tachograph-test" in only["text"]
        server.then(Behaviour(status=404, body=b"no_service"))
        refused = CliRunner().invoke(cli, ["sinks", "test", "oncall", "--config", file])
        assert refused.exit_code == 2
        assert "it answers 404: no_service; is the url right?" in refused.output
        assert "hunter2" not in refused.output
        unknown = CliRunner().invoke(cli, ["sinks", "test", "pager", "--config", file])
        assert (unknown.exit_code, "boards, oncall" in unknown.output) == (2, True)


def test_what_was_given_up_is_listed_and_tried_again_by_command(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    world = World(database)
    ear = Ear(fails=[NotToldError("it answers 400: no", is_final=True)])
    courier = world.courier(ear)
    one = world.incident()
    courier.turn()
    options = ["--database-url", sqlite_url]
    listed = CliRunner().invoke(cli, ["deliveries", "--dead", "--json", *options])
    (row,) = [json.loads(line) for line in listed.output.splitlines()]
    assert (row["incident_id"], row["sink"], row["error"]) == (one.incident_id, "own", "it answers 400: no")
    heading, what, *under = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["deliveries", *options]).output.splitlines()
    assert re.split(r"  +", heading)[:3] == ["incident", "state", "told"]
    assert what.split() == [one.incident_id[:12], "dead", "-", "1", "-", "own"]
    assert [line.strip() for line in under] == [f"warning llama-1: {one.summary}", "it answers 400: no"]
    wrong = CliRunner().invoke(cli, ["deliveries", "--retry", "zz", *options])
    assert (wrong.exit_code, "'zz'" in wrong.output) == (2, True)
    again = CliRunner().invoke(cli, ["deliveries", "--retry", one.incident_id[:8], *options])
    assert again.exit_code == 0, again.output
    courier.turn()
    assert ear.events == ["opened"]
    ear.fails.append(NotToldError("it answers 400: no", is_final=True))
    world.clear(one)
    courier.turn()
    everything = CliRunner().invoke(cli, ["deliveries", "--retry", "all", *options])
    assert "1 is tried again" in everything.output
    courier.turn()
    assert ear.events == ["opened", "cleared"]
    none = CliRunner().invoke(cli, ["deliveries", "--dead", *options])
    assert (none.exit_code, "nothing was given up" in none.output) == (0, True)
    database.close()
