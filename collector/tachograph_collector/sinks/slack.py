"""Slack's incoming webhooks, and what understands them (Mattermost, Discord's ``/slack`` …): one message for each news.

Slack knows no repetition: where its answer is lost, a message may come twice.
"""

from __future__ import annotations

from typing import Any, Final

from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.message import details, headline
from tachograph_collector.sinks.telling import Telling
from tachograph_collector.sinks.wire import Wire

_COLOURS: Final = {"critical": "#c0392b", "warning": "#e0a100", "info": "#3b78b5"}
_OVER: Final = "#3a9d5d"
_MAX_FIELD: Final = 2900
"""Slack takes 3,000 characters a text."""


class Slack:
    """A channel."""

    def __init__(self, config: SinkConfig) -> None:
        self._wire = Wire(config)

    def tell(self, telling: Telling) -> None:
        """Post a message."""
        self._wire.request("POST", body=message(telling))

    def close(self) -> None:
        """Let connections go."""
        self._wire.close()


def message(telling: Telling) -> dict[str, Any]:
    """The body: the headline as what notifications show, the rest beneath it beside a colour."""
    head = escaped(headline(telling))
    lines = [f"*{name}*  {escaped(words)}" for name, words in details(telling)]
    blocks: list[dict[str, Any]] = [_section(f"*{head}*"), _section("\n".join(lines))]
    if telling.url is not None:
        blocks.append(_section(f"<{escaped(telling.url)}|Open the incident>"))
    colour = _OVER if telling.event == "cleared" else _COLOURS[telling.stored.incident.severity]
    return {"text": head, "attachments": [{"color": colour, "fallback": head, "blocks": blocks}]}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_MAX_FIELD]}}


def escaped(text: str) -> str:
    """Slack's three characters that mean something, so that no name of a run can call a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
