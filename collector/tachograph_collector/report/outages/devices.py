"""A table of failures of devices, one row each: how often the fleet fails, how bursty, which ones again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tachograph_agent.events import microseconds
from tachograph_agent.trainers.outage_tables import DEVICES, FAILED_AT
from tachograph_agent.trainers.table_rows import TableRow

from tachograph_collector.report.outages.findings import Listing, Options, OutageReport, Value, hours
from tachograph_collector.report.outages.rates import gaps, mtbf_figures
from tachograph_collector.report.outages.reading import Times, column
from tachograph_collector.report.text import count, iso

_MOST_LISTED: Final = 10
_BURSTY_BELOW: Final = 0.9


def add_devices(report: OutageReport, rows: Sequence[TableRow], options: Options) -> None:
    """Events, devices, mean time between failures of the fleet and of one device, and the shape of the gaps."""
    times = Times(options.tz)
    device, failed_at = column(rows, DEVICES) or "device", column(rows, FAILED_AT) or "event_time"
    at = [when.t for row in rows if (when := times.read(row.cells.get(failed_at))) is not None]
    if len(at) < len(rows):
        report.note(f"{count(len(rows) - len(at), 'row')} told no time that could be read, and were left out of gaps.")
    by_device = Counter(row.cells.get(device, "unknown")[:60] for row in rows)
    report.headline = f"{count(len(rows), 'failure')} of {count(len(by_device), 'device')}"
    report.figure("num_failures", "failures", len(rows))
    report.figure("num_devices", "devices that failed", len(by_device))
    if at:
        report.figure("first", "first", _iso(min(at)))
        report.figure("last", "last", _iso(max(at)))
    span_s = max(at) - min(at) if at else None
    report.figure("span_s", "from the first to the last", span_s, hours(span_s), why="no row tells a time")
    mean_s = span_s / (len(at) - 1) if span_s and len(at) > 1 else None
    report.figure(
        "mtbf_s",
        "mean time between failures",
        mean_s,
        None if mean_s is None else f"{hours(mean_s)} (first to last by {count(len(at) - 1, 'gap')})",
        why="less than two failures have a time",
    )
    if options.span_s is not None:
        mtbf_figures(report, len(rows), options.span_s, why="", key="mtbf_span_s")
    _fleet(report, mean_s if options.span_s is None else options.span_s / max(1, len(rows)), options.gpus)
    _shape(report, at)
    again: list[Sequence[Value]] = [(name, num) for name, num in by_device.most_common(_MOST_LISTED) if num > 1]
    report.figure("num_again", "devices that failed more than once", sum(num > 1 for num in by_device.values()))
    if again:
        report.listings.append(Listing("again", "failed more than once", ("device", "num"), again))
    events = Counter(row.cells["event"][:60] for row in rows if "event" in row.cells)
    if len(events) > 1:
        listed: list[Sequence[Value]] = [(name, num) for name, num in events.most_common(_MOST_LISTED)]
        report.listings.append(Listing("events", "by event", ("event", "num"), listed))
    report.notes += times.notes()
    report.figure("outage_s", "time out of service", None, why="the table doesn't tell when a device came back")


def _fleet(report: OutageReport, mean_s: float | None, gpus: int | None) -> None:
    per_device = None if mean_s is None or gpus is None else mean_s * gpus
    report.figure(
        "device_mtbf_s",
        "mean time between failures of one device",
        per_device,
        None if per_device is None else f"{per_device / 3600:,.0f} h ({per_device / 3600 / 8766:,.1f} years)",
        why="needs --gpus NUMBER, how many devices there are" if mean_s is not None else "",
    )


def _shape(report: OutageReport, at: Sequence[float]) -> None:
    found = gaps(at)
    report.figure("num_instants", "distinct instants", len(set(at)))
    if found is None:
        return
    report.figure("gap_mean_s", "gaps between those: mean", found.mean_s, hours(found.mean_s))
    report.figure("gap_median_s", "  median", found.median_s, hours(found.median_s))
    report.figure(
        "gap_variation", "  coefficient of variation", found.variation, f"{found.variation:.2f} (exponential: 1)"
    )
    if found.weibull_shape is None or found.weibull_scale_s is None:
        report.figure("weibull_shape", "  Weibull shape", None, why="too few gaps")
        return
    report.figure("weibull_shape", "  Weibull shape", found.weibull_shape, f"{found.weibull_shape:.3f}")
    report.figure("weibull_scale_s", "  Weibull scale", found.weibull_scale_s, hours(found.weibull_scale_s))
    if found.weibull_shape < _BURSTY_BELOW:
        report.note("Failures come in bursts (Weibull shape under 1): one mean time between failures misleads.")


def _iso(t: float) -> str:
    return iso(microseconds(t))
