"""Grafana's annotations: one for each incident, made when it opens, and made a region when it ends.

Each has the tag ``tachograph-incident:<id>``. Where a try may have arrived and its answer was lost, that tag is looked
for before another is made, and after: of two that are there all the same, the older one stays.
"""

from __future__ import annotations

import html
from typing import Any, Final
from urllib.parse import quote, urlencode

from tachograph_collector.report.text import visible
from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.message import details, headline
from tachograph_collector.sinks.telling import NotToldError, Telling
from tachograph_collector.sinks.wire import Wire

ANNOTATIONS: Final = "/api/annotations"
MAX_TAG: Final = 90
"""Grafana keeps 100 characters on each side of the colon."""
_MAY_BE_GONE: Final = frozenset({404, 500})


class Grafana:
    """The annotations of one organisation of a Grafana, or of one of its dashboards."""

    def __init__(self, config: SinkConfig) -> None:
        self._wire = Wire(config)
        self._dashboard_uid = config.dashboard_uid

    def tell(self, telling: Telling) -> str | None:
        """Make the annotation, or bring it up to date; its id."""
        known = telling.remote_id
        if known is None and telling.is_retry:
            known = next(iter(self._found(telling)), None)
        if known is not None:
            self._change(known, telling)
            return known
        made = self._made(telling)
        if not telling.is_retry:
            return made
        first, *others = self._found(telling) or [made]
        for other in others:
            self._wire.request("DELETE", f"{ANNOTATIONS}/{quote(other, safe='')}")
        return first

    def close(self) -> None:
        """Let connections go."""
        self._wire.close()

    def _change(self, known: str, telling: Telling) -> None:
        """Bring it up to date. One that somebody deleted over there stays deleted."""
        try:
            self._wire.request("PATCH", f"{ANNOTATIONS}/{quote(known, safe='')}", body=_changes(telling))
        except NotToldError as error:
            # Versions differ in how they say that it is gone, and a wrong address answers 404, too: so look.
            if error.status not in _MAY_BE_GONE or known in self._found(telling):
                raise

    def _made(self, telling: Telling) -> str:
        body = _changes(telling)
        if self._dashboard_uid is not None:
            body["dashboardUID"] = self._dashboard_uid
        answer = self._wire.request("POST", ANNOTATIONS, body=body).json()
        found = answer.get("id") if isinstance(answer, dict) else None
        if isinstance(found, bool) or not isinstance(found, int | str):
            raise NotToldError("it answers without the id of the annotation; is that a Grafana?", may_have_arrived=True)
        return str(found)

    def _found(self, telling: Telling) -> list[str]:
        """The ids of annotations of this incident, the oldest first."""
        query = urlencode({"tags": incident_tag(telling), "type": "annotation", "limit": 10})
        answer = self._wire.request("GET", f"{ANNOTATIONS}?{query}").json()
        if not isinstance(answer, list):
            raise NotToldError("it answers no list of annotations; is that a Grafana?", is_away=True)
        ids = [each.get("id") for each in answer if isinstance(each, dict) and _is_of(each, telling)]
        return [str(each) for each in sorted(each for each in ids if isinstance(each, int))]


def _is_of(annotation: dict[str, Any], telling: Telling) -> bool:
    tags = annotation.get("tags")
    return isinstance(tags, list) and incident_tag(telling) in tags


def incident_tag(telling: Telling) -> str:
    """What an incident's annotation is found by."""
    return f"tachograph-incident:{telling.stored.incident.incident_id}"


def _changes(telling: Telling) -> dict[str, Any]:
    incident = telling.stored.incident
    begin_ms = incident.opened_us // 1000
    return {
        "time": begin_ms,
        "timeEnd": begin_ms if incident.cleared_us is None else max(begin_ms, incident.cleared_us // 1000),
        "tags": tags(telling),
        "text": text(telling),
    }


def tags(telling: Telling) -> list[str]:
    """What dashboards choose annotations by."""
    incident = telling.stored.incident
    found = ["tachograph", incident_tag(telling), f"run:{visible(incident.run, MAX_TAG)}"]
    found += [f"detector:{incident.detector}", f"severity:{incident.severity}"]
    if incident.node is not None:
        found.append(f"node:{visible(incident.node, MAX_TAG)}")
    for tag, applies in (
        ("consequence", incident.consequence_of is not None),
        ("withdrawn", incident.is_withdrawn),
        ("test", telling.is_test),
        ("rehearsal", telling.stored.origin == "rehearsal"),
    ):
        if applies:
            found.append(tag)
    return found


def text(telling: Telling) -> str:
    """What is read over the mark; Grafana shows it as HTML."""
    lines = [f"<b>{_escaped(headline(telling))}</b>"]
    lines += [f"{name}: {_escaped(words)}" for name, words in details(telling)]
    if telling.url is not None:
        lines.append(f'<a href="{html.escape(telling.url)}">Open the incident</a>')
    return "\n".join(lines)


def _escaped(words: str) -> str:
    return html.escape(words, quote=False)
