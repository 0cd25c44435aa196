"""Series of live runs for Prometheus: what a scrape sees of the figures that were prepared.

Gauges follow the books and may go either way, since booked minutes are restated. Counters can't go back, so they are
made of sums that only grow: minutes as they were first booked, and on a counter of its own what was found to be lost
later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS
from tachograph_collector.service.incident_metrics import incident_families
from tachograph_collector.service.run_figures import RunFigures, first_booked, shares

MAX_CAUSES: Final = 10
NODE_STATES: Final = ("alive", "suspect", "dead", "lost", "gone")
BOUNDS: Final = ("expected", "lower", "upper")
Sample = tuple[tuple[str, ...], float | None]


class RunMetrics(Collector):
    """All series of these runs; each run has the same few, whatever its size."""

    def __init__(self, runs: Sequence[RunFigures]) -> None:
        self._runs = runs

    def collect(self) -> Iterator[Metric]:
        """All families. What is not live says so in a label more, so that no rule takes it for a real run."""
        others = {figures.books.run: figures.origin for figures in self._runs if figures.origin != "live"}
        for family in self._families():
            for sample in family.samples if others else ():
                if sample.labels["run"] in others:
                    sample.labels["origin"] = others[sample.labels["run"]]
            yield family

    def _families(self) -> Iterator[Metric]:
        yield from self._standing()
        yield from self._model()
        yield from self._cluster()
        yield from incident_families(self._runs)
        yield from self._counters()

    def _gauge(
        self, name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[RunFigures, Sample]]
    ) -> Metric:
        family = GaugeMetricFamily(f"tachograph_run_{name}", text, labels=["run", *labels])
        for figures, (values, number) in samples:
            if number is not None and not math.isnan(number):
                family.add_metric([figures.books.run, *values], number)
        return family

    def _one(self, name: str, text: str, values: Iterable[tuple[RunFigures, float | None]]) -> Metric:
        return self._gauge(name, text, [], ((figures, ((), value)) for figures, value in values))

    def _standing(self) -> Iterator[Metric]:
        runs = self._runs
        yield self._gauge(
            "info", "1 for each run, with its status.", ["status"], ((r, ((r.books.status,), 1)) for r in runs)
        )
        yield self._gauge(
            "goodput_ratio",
            "Kept time over wall-clock time; lower if all that is at risk were lost now. By window: total, 1h, 24h.",
            ["window", "bound"],
            ((r, (labels, value)) for r in runs for labels, value in shares(r).items()),
        )
        yield self._gauge(
            "account_seconds",
            "Wall-clock time of the run by account, as it is booked now.",
            ["account"],
            ((r, ((name,), r.books.accounts_us[name] / 1e6)) for r in runs for name in ACCOUNTS),
        )
        yield self._gauge(
            "sub_account_seconds",
            "The same by what the time went into.",
            ["account", "sub"],
            (
                (r, ((name, sub), r.books.subs_us.get(f"{name}/{sub}", 0) / 1e6))
                for r in runs
                for name, subs in SUB_ACCOUNTS.items()
                for sub in subs
            ),
        )
        yield self._gauge(
            "lost_by_cause_seconds",
            f"Lost time by cause, the {MAX_CAUSES} largest and the others together.",
            ["cause"],
            ((r, ((cause,), us / 1e6)) for r in runs for cause, us in _causes(r.books.lost_by_cause_us)),
        )
        yield self._one("wall_seconds", "The run's wall-clock time.", ((r, r.books.wall_us / 1e6) for r in runs))
        yield self._one(
            "at_risk_seconds",
            "Kept time that a failure now would lose: work since the last checkpoint that landed.",
            ((r, None if r.books.at_risk_us is None else r.books.at_risk_us / 1e6) for r in runs),
        )
        yield self._gauge(
            "gpu_seconds",
            "GPU time by account; idle is held and outside of the run's world.",
            ["account"],
            (
                (r, ((name,), getattr(r.books.gpu, name) / 1e6))
                for r in runs
                if r.books.gpu is not None
                for name in (*ACCOUNTS, "idle")
            ),
        )
        yield self._one(
            "last_step", "The last step that the run has done, as it stands now.", ((r, r.books.steps) for r in runs)
        )
        yield self._one(
            "attempts", "How often the run's processes were started.", ((r, r.books.num_attempts) for r in runs)
        )
        yield self._gauge(
            "interruptions",
            "Ends of training by how; one that was inferred may be taken back.",
            ["how"],
            ((r, ((how,), number)) for r in runs for how, number in _interruptions(r)),
        )
        yield self._one(
            "booked_until_timestamp_seconds",
            "Minutes that end before this are booked.",
            ((r, r.booked_until_us / 1e6) for r in runs),
        )
        yield self._one(
            "last_event_timestamp_seconds",
            "When something last came from the run.",
            ((r, r.last_received_us / 1e6) for r in runs),
        )
        yield self._one(
            "delay_seconds",
            "How late its newest events came.",
            ((r, None if r.delay_us is None else r.delay_us / 1e6) for r in runs),
        )

    def _model(self) -> Iterator[Metric]:
        runs = self._runs
        yield self._one(
            "checkpoint_interval_seconds",
            "Time between saves, as measured.",
            ((r, r.forecast.interval_s) for r in runs),
        )
        for name, text, which in (
            ("checkpoint_interval_optimum_seconds", "The interval that the model finds best.", "best_s"),
            ("mtbf_seconds", "Mean time between failures of the whole run.", "mtbf_s"),
        ):
            yield self._gauge(
                name,
                text,
                ["bound"],
                (
                    (r, ((bound,), number))
                    for r in runs
                    for bound, number in zip(BOUNDS, getattr(r.forecast, which) or (), strict=False)
                ),
            )
        yield self._gauge(
            "predicted_goodput_ratio",
            "Goodput that the model predicts, at the interval in use and at the best one.",
            ["interval", "bound"],
            (
                (r, ((interval, bound), number))
                for r in runs
                for interval, told in (("in_use", r.forecast.in_use_goodput), ("optimum", r.forecast.best_goodput))
                for bound, number in zip(BOUNDS, told or (), strict=False)
            ),
        )

    def _cluster(self) -> Iterator[Metric]:
        runs = self._runs
        yield self._one("world_size", "Ranks of the current attempt.", ((r, r.books.world_size) for r in runs))
        yield self._gauge(
            "nodes",
            "Nodes by what is heard of their agents.",
            ["state"],
            ((r, ((state,), r.nodes.get(state, 0))) for r in runs if r.nodes for state in NODE_STATES),
        )
        yield self._gauge(
            "incidents",
            "What is flagged now, by severity.",
            ["severity"],
            ((r, ((name,), number)) for r in runs for name, number in sorted(r.open_incidents.items())[:10]),
        )
        slow = [(r, str(place), one) for r in runs for place, one in enumerate(r.busy.slowest, start=1)]
        yield self._gauge(
            "straggler_rank",
            "The rank that takes longest in its newest steps, by position; its value is the rank.",
            ["position"],
            ((r, ((place,), one.rank)) for r, place, one in slow),
        )
        yield self._gauge(
            "straggler_busy_seconds",
            "Median time that the rank at that position works in a step, without its waiting.",
            ["position"],
            ((r, ((place,), one.busy_s)) for r, place, one in slow),
        )
        yield from (
            self._one(name, text, ((r, getattr(r.newest, which)) for r in runs))
            for name, text, which in (
                ("loss", "Loss, as the newest step tells it.", "loss"),
                ("grad_norm", "Gradient norm, as the newest step tells it.", "grad_norm"),
                ("step_seconds", "Median time of its newest steps.", "step_s"),
                ("tokens_per_second", "Tokens a second in its newest steps, of all ranks that tell.", "tokens_per_s"),
            )
        )
        yield self._one("rank_busy_seconds", "The same of the median rank.", ((r, r.busy.median_s) for r in runs))

    def _counters(self) -> Iterator[Metric]:
        booked = CounterMetricFamily(
            "tachograph_run_booked_seconds",
            "Time by account as minutes were first booked; what was found to be lost later is not taken off.",
            labels=["run", "account"],
        )
        lost = CounterMetricFamily(
            "tachograph_run_lost_work_seconds", "Time that turned out to be lost, at once or later.", labels=["run"]
        )
        minutes = CounterMetricFamily("tachograph_run_bookings", "Minutes booked.", labels=["run"])
        restated = CounterMetricFamily(
            "tachograph_run_restatements", "Times that a booked minute was booked differently.", labels=["run"]
        )
        for figures in self._runs:
            run = figures.books.run
            first_us = first_booked(figures)
            for account, us in first_us.items():
                booked.add_metric([run, account], us / 1e6)
            lost.add_metric([run], (first_us["lost"] + figures.booked.lost_later_us) / 1e6)
            minutes.add_metric([run], figures.booked.num_new)
            restated.add_metric([run], figures.booked.num_revised)
        yield from (booked, lost, minutes, restated)


def _causes(by_cause_us: dict[str, int]) -> list[tuple[str, int]]:
    ordered = sorted(by_cause_us.items(), key=lambda pair: (-pair[1], pair[0]))
    shown, rest = ordered[:MAX_CAUSES], ordered[MAX_CAUSES:]
    if not rest:
        return shown
    named = dict(shown)
    named["other"] = named.get("other", 0) + sum(us for _, us in rest)
    return list(named.items())


def _interruptions(figures: RunFigures) -> list[tuple[str, int]]:
    books = figures.books
    return [
        ("failure", books.num_failures),
        ("planned", books.num_planned_stops),
        ("unexplained", books.num_unexplained_stops),
        ("rollback", books.num_rollbacks),
    ]
