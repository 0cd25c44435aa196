"""What is wrong with a run, who it is and what it costs: events and a given time in, incidents out. Pure."""

from tachograph_collector.detect.board import Sight
from tachograph_collector.detect.detectors import Detectors, StateError
from tachograph_collector.detect.settings import Settings, SettingsError, settings_from
from tachograph_collector.detect.verdict import Change, Cost, Evidence, Incident, Severity

__all__ = [
    "Change",
    "Cost",
    "Detectors",
    "Evidence",
    "Incident",
    "Settings",
    "SettingsError",
    "Severity",
    "Sight",
    "StateError",
    "settings_from",
]
