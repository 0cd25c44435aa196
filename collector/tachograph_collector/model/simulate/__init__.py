"""Simulated runs: many at once for their goodput, or one with its event log. Start reading at ``design``."""

from tachograph_collector.model.simulate.design import Corruption, Design, Elastic, Failures, Retention, Spares
from tachograph_collector.model.simulate.outcome import Outcome
from tachograph_collector.model.simulate.run import simulate
from tachograph_collector.model.simulate.trace import Accounts, simulate_log

__all__ = [
    "Accounts",
    "Corruption",
    "Design",
    "Elastic",
    "Failures",
    "Outcome",
    "Retention",
    "Spares",
    "simulate",
    "simulate_log",
]
