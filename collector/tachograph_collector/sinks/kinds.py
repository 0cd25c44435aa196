"""Which class tells which kind of sink, and what each kind is to be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tachograph_collector.sinks.alertmanager import Alertmanager
from tachograph_collector.sinks.config import Kind, SinkConfig
from tachograph_collector.sinks.grafana import Grafana
from tachograph_collector.sinks.slack import Slack
from tachograph_collector.sinks.telling import Sink
from tachograph_collector.sinks.webhook import Webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What a kind of sink is told."""

    tells_consequences: bool = False
    """Also of incidents that follow from another one, which is told."""
    tells_each_change: bool = False
    """Else only a change of severity, and the end."""
    tells_what_is_over: bool = True
    """Also what was over before it could be told, if that is not long ago."""
    tells_what_is_long_over: bool = False
    again_every_us: int | None = None
    """Said again while it is open."""


MANNERS: Final[dict[Kind, Manner]] = {
    "grafana": Manner(tells_consequences=True, tells_what_is_long_over=True),
    "webhook": Manner(tells_each_change=True),
    "slack": Manner(),
    "alertmanager": Manner(tells_what_is_over=False, again_every_us=60_000_000),
}


def sink_for(config: SinkConfig) -> Sink:
    """The sink; nothing is connected yet."""
    makers: dict[Kind, type[Grafana] | type[Webhook] | type[Slack] | type[Alertmanager]] = {
        "grafana": Grafana,
        "webhook": Webhook,
        "slack": Slack,
        "alertmanager": Alertmanager,
    }
    return makers[config.kind](config)
