"""Prometheus' Alertmanager, by its API v2: an alert that is said again while it is open, and ended when it is over.

Alerts are known by their labels, so saying one twice is saying it once. One that is not said again lapses after
``LAPSES_AFTER_US``, which is longer than a collector needs to start anew.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from tachograph_collector.report.text import visible
from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.message import details, headline
from tachograph_collector.sinks.telling import Telling
from tachograph_collector.sinks.wire import Wire

LAPSES_AFTER_US: Final = 10 * 60 * 1_000_000
_MAX_LABEL: Final = 200


class Alertmanager:
    """One Alertmanager; of a cluster each member is a sink."""

    def __init__(self, config: SinkConfig) -> None:
        self._wire = Wire(config)

    def tell(self, telling: Telling) -> None:
        """Say the alert, that it is over, or that it is graver than it was."""
        self._wire.request("POST", "/api/v2/alerts", body=alerts(telling))

    def close(self) -> None:
        """Let connections go."""
        self._wire.close()


def alerts(telling: Telling) -> list[dict[str, Any]]:
    """The body: the alert, and the one under its former severity, which is over."""
    incident = telling.stored.incident
    over_us = incident.cleared_us if telling.event == "cleared" else None
    ends_us = telling.now_us + LAPSES_AFTER_US if over_us is None else min(over_us, telling.now_us)
    found = [_alert(telling, incident.severity, max(ends_us, incident.opened_us + 1000))]
    if telling.told in {"info", "warning", "critical"} and telling.told != incident.severity:
        found.append(_alert(telling, telling.told, max(telling.now_us, incident.opened_us + 1000)))
    return found


def _alert(telling: Telling, severity: str, ends_us: int) -> dict[str, Any]:
    incident = telling.stored.incident
    labels = {
        "alertname": alert_name(incident.detector),
        "run": incident.run,
        "detector": incident.detector,
        "severity": severity,
        "subject": incident.subject,
        "node": incident.node,
        "rank": None if incident.rank is None else str(incident.rank),
        "incident": incident.incident_id,
        "origin": telling.stored.origin,
    }
    annotations = {"summary": headline(telling)}
    annotations |= {name.lower().replace(" ", "_"): words for name, words in details(telling)}
    alert: dict[str, Any] = {
        "labels": {name: visible(value, _MAX_LABEL) for name, value in labels.items() if value},
        "annotations": annotations,
        "startsAt": _rfc3339(incident.opened_us),
        "endsAt": _rfc3339(ends_us),
    }
    if telling.url is not None:
        alert["generatorURL"] = telling.url
    return alert


def alert_name(detector: str) -> str:
    """``TachographLossSpike`` for ``loss_spike``."""
    return "Tachograph" + "".join(word.capitalize() for word in detector.split("_"))


def _rfc3339(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
