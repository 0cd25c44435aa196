"""Follow-up failures join the incident before them, and advice goes by incidents."""

from __future__ import annotations

import numpy as np
import pytest
from tachograph_collector.model.advice import predicted_goodput
from tachograph_collector.model.incidents import Incident, Stop, incidents
from tachograph_collector.model.theory import optimum


def test_a_failure_before_a_full_interval_was_banked_joins_the_incident_before_it() -> None:
    stops = [Stop(100, 115), Stop(130, 145), Stop(145 + 38.27, 200), Stop(200 + 38.29, 260)]
    assert [len(one.stops) for one in incidents(stops, 38.28)] == [3, 1]


def test_a_failure_during_the_restart_joins_whatever_the_interval() -> None:
    stops = [Stop(100, 130), Stop(110, 130), Stop(131, 140)]
    assert [len(one.stops) for one in incidents(stops, None)] == [2, 1]
    assert [len(one.stops) for one in incidents([Stop(100, None), Stop(500, 510)], None)] == [2]


def test_an_incident_lasts_from_its_first_failure_until_training_went_on_after_the_last() -> None:
    assert Incident((Stop(100, 115), Stop(130, 145))).down_s == 45
    assert Incident((Stop(100, 115), Stop(130, None))).down_s is None


def clustered(num: int) -> list[Stop]:
    """Restarts of 15, and after each failure another within 20 min with probability 0.3; otherwise M = 720."""
    rng = np.random.default_rng(41)
    at, found = 0.0, []
    while len(found) < num:
        follows = found and rng.random() < 0.3
        at += rng.uniform(0, 20) if follows else rng.exponential(720.0)
        found.append(at)
    return [
        Stop(struck, max(struck + 15.0, 0) if later > struck + 15 else None)
        for struck, later in zip(found, [*found[1:], np.inf], strict=True)
    ]


def test_clusters_pull_the_raw_mean_down_but_neither_the_incidents_nor_the_best_interval() -> None:
    """The specification's clusters: raw mean 507 min, best tau unchanged, G 92.3; fed with 507 a model says 91.1."""
    stops = clustered(20_000)
    whole = stops[-1].struck_s
    assert whole / len(stops) == pytest.approx(507, rel=0.02)
    tau = float(optimum(1, 720))
    grouped = incidents(stops, tau + 1)
    mtbf = whole / len(grouped)
    assert mtbf == pytest.approx(720, rel=0.08)
    down = [one.down_s for one in grouped if one.down_s is not None]
    assert optimum(1, mtbf) == pytest.approx(tau, rel=0.04)
    assert 100 * predicted_goodput(tau, 1.0, down, mtbf) == pytest.approx(92.3, abs=0.15)
    assert 100 * predicted_goodput(optimum(1, 507), 1.0, [15.0], 507) == pytest.approx(91.1, abs=0.05)
