"""What a scrape says of incidents: what is open, counters that never fall, how well detectors see; in few series."""

from __future__ import annotations

import promtool
import pytest
import stored_incidents
from live_runs import Folding, put, run_with_a_failure
from sqlalchemy import delete, insert, select, update
from tachograph_collector.service.figures import Figures
from tachograph_collector.service.incident_figures import MAX_OPEN
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_tables import incidents, sights
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import runs


@pytest.fixture
def figures(database: Database) -> Figures:
    """Over one run that is folded, and of which nothing is flagged or seen yet."""
    folding = Folding(database)
    put(database, run_with_a_failure())
    folding.fold()
    with database.write() as connection:
        connection.execute(delete(incidents))
        connection.execute(delete(sights))
    return Figures(database, folding.keeper.holder)


def shown(figures: Figures) -> bytes:
    figures.look()
    text = figures.texts_now()[1]
    assert promtool.complaints(text) == ""
    return text


def flag(database: Database, subject: str = "rank 7", **more: object) -> str:
    with database.write() as connection:
        run_id = connection.execute(select(runs.c.run_id)).scalar_one()
        one = stored_incidents.incident("llama-1", subject=subject, **more)
        return stored_incidents.put(connection, RunKey(1, run_id), one).incident_id


def straggler(text: bytes, name: str, **labels: str) -> float | None:
    return promtool.value(text, f"tachograph_{name}", run="llama-1", detector="straggler", **labels)


def test_an_incident_is_open_from_when_it_began_until_it_is_over(database: Database, figures: Figures) -> None:
    which = flag(database)
    text = shown(figures)
    assert straggler(text, "incidents_open", severity="warning") == 1
    since = "incident_open_since_timestamp_seconds"
    assert straggler(text, since, severity="warning", subject="rank 7", node="n3") == 1000.0
    with database.write() as connection:
        connection.execute(update(incidents).where(incidents.c.incident_id == which).values(cleared_us=2_000_000_000))
    text = shown(figures)
    assert straggler(text, "incidents_open", severity="warning") == 0
    assert straggler(text, "incidents_opened_total", severity="warning") == 1
    assert straggler(text, since, severity="warning", subject="rank 7", node="n3") is None


def test_no_counter_falls_when_an_incident_grows_graver(database: Database, figures: Figures) -> None:
    which = flag(database)
    before = shown(figures)
    with database.write() as connection:
        connection.execute(update(incidents).where(incidents.c.incident_id == which).values(severity="critical"))
    after = shown(figures)
    for severity, was, then in (("info", 1, 1), ("warning", 1, 1), ("critical", None, 1)):
        assert straggler(before, "incidents_opened_total", severity=severity) == was
        assert straggler(after, "incidents_opened_total", severity=severity) == then


def test_a_detector_at_work_has_its_series_before_it_flags_anything(database: Database, figures: Figures) -> None:
    with database.write() as connection:
        run_id = connection.execute(select(runs.c.run_id)).scalar_one()
        common = {"tenant_id": 1, "run_id": run_id, "reason": "", "num_evaluations": 9, "num_verdicts": 2, "at_us": 5}
        rows = [{"detector": "straggler", "state": "armed"}, {"detector": "nan", "state": "blind"}]
        connection.execute(insert(sights), [common | row for row in rows])
    text = shown(figures)
    assert straggler(text, "incidents_open", severity="critical") == 0
    assert straggler(text, "incidents_opened_total", severity="critical") == 0
    assert (straggler(text, "detector_armed"), straggler(text, "detector_blind")) == (1, 0)
    assert promtool.value(text, "tachograph_detector_armed", run="llama-1", detector="nan") == 0
    assert promtool.value(text, "tachograph_detector_blind", run="llama-1", detector="nan") == 1
    assert (straggler(text, "detector_evaluations_total"), straggler(text, "detector_verdicts_total")) == (9, 2)


def test_many_open_incidents_of_any_name_make_few_series(database: Database, figures: Figures) -> None:
    for number in range(60):
        flag(database, f'"{number}\\\n\u202e')
    flag(database, "rank 1", severity="critical", opened_us=5_000_000_000)
    text = shown(figures)
    began = [dict(labels) for name, labels in promtool.samples(text) if name.endswith("open_since_timestamp_seconds")]
    assert len(began) == MAX_OPEN
    assert "rank 1" in {labels["subject"] for labels in began}
    assert straggler(text, "incidents_open", severity="warning") == 60
