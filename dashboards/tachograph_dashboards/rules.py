"""Recording rules and alerts for Prometheus: what is worth waking somebody for, with the numbers and where to read on.

Most alerts stand on incidents, which the detectors find with more knowledge than a query has; the others watch the tool
itself. Links are made of the collector's public URL, which it tells in ``tachograph_collector_info``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["critical", "warning", "info"]

_URL: Final = (
    '{{ with query "max by (public_url) (last_over_time(tachograph_collector_info[1d]))" }}'
    '{{ with first . }}{{ label "public_url" . }}{{ end }}{{ end }}'
)
_RUN_URL: Final = _URL + r'/#/runs/{{ $labels.run | urlquery | reReplaceAll "\\+" "%20" }}'
_GOODPUT: Final = (
    '{{ with printf "run:tachograph_goodput_ratio:1h{run=%q}" $labels.run | query }}{{ with first . }}'
    " Goodput of its last hour: {{ . | value | humanizePercentage }}.{{ end }}{{ end }}"
)
_LIVE: Final = 'origin=""'
_WHO: Final = (
    '{{ if ne $labels.subject "run" }} {{ $labels.subject }}{{ end }}'
    "{{ if and $labels.node (ne $labels.node $labels.subject) }} on {{ $labels.node }}{{ end }}"
)


@dataclass(frozen=True)
class Recording:
    """A series that is computed at each evaluation."""

    record: str
    expr: str


@dataclass(frozen=True)
class Alert:
    """What is told when its expression holds for so long."""

    name: str
    expr: str
    summary: str
    description: str
    severity: Severity | None = None
    """None: that of the incident, which the series carries."""
    hold: str = "0m"
    about: Literal["run", "tool"] = "run"

    @property
    def labels(self) -> dict[str, str]:
        """What Alertmanager routes by."""
        return {"severity": self.severity or "{{ $labels.severity }}", "about": self.about}

    @property
    def annotations(self) -> dict[str, str]:
        """What people read."""
        told = {"summary": self.summary, "description": self.description, "runbook_url": f"{_URL}/runbooks/{self.name}"}
        if self.about == "run":
            told["page_url"] = _RUN_URL
        return told


def _by_run(name: str, *conditions: str) -> str:
    """The same whichever collector shows the run; rehearsals that have series are left out."""
    return f"max by (run) ({name}{{{', '.join([*conditions, _LIVE])}}})"


RECORDINGS: Final = (
    Recording("tachograph:goodput_target:ratio", "vector(0.9)"),
    Recording("run:tachograph_running:max", _by_run("tachograph_run_info", 'status="running"')),
    Recording(
        "run:tachograph_goodput_ratio:1h", _by_run("tachograph_run_goodput_ratio", 'window="1h"', 'bound="upper"')
    ),
    Recording(
        "run:tachograph_goodput_ratio:24h", _by_run("tachograph_run_goodput_ratio", 'window="24h"', 'bound="upper"')
    ),
    Recording("run:tachograph_last_step:max", _by_run("tachograph_run_last_step")),
    Recording("run:tachograph_at_risk_seconds:max", _by_run("tachograph_run_at_risk_seconds")),
    Recording("run:tachograph_checkpoint_interval_seconds:max", _by_run("tachograph_run_checkpoint_interval_seconds")),
    Recording("run:tachograph_booked_until_seconds:max", _by_run("tachograph_run_booked_until_timestamp_seconds")),
    Recording("run:tachograph_last_event_seconds:max", _by_run("tachograph_run_last_event_timestamp_seconds")),
    Recording(
        "run:tachograph_incident_open_seconds:max",
        "time() - min by (run, detector, severity, subject, node) "
        f"(tachograph_incident_open_since_timestamp_seconds{{{_LIVE}}})",
    ),
    Recording("run:tachograph_detector_blind:max", f"max by (run, detector) (tachograph_detector_blind{{{_LIVE}}})"),
    Recording(
        "node:tachograph_agent_events_dropped:increase15m",
        "sum by (node, class) (increase(tachograph_agent_events_dropped_total[15m]))",
    ),
)
"""The first is the goodput that was promised: change it to yours. Of rehearsals that have series nobody is told."""


def _flagged(pattern: str) -> str:
    return f'run:tachograph_incident_open_seconds:max{{detector=~"{pattern}"}} > 0'


_OPEN_FOR: Final = " It has been open for {{ $value | humanizeDuration }}."

RUN_ALERTS: Final = (
    Alert(
        "TachographRunStalled",
        'run:tachograph_incident_open_seconds:max{detector="hang"} > 0 or (changes(run:tachograph_last_step:max[20m]) '
        "== 0 and run:tachograph_last_step:max offset 20m and run:tachograph_running:max == 1)",
        "{{ $labels.run }} makes no step",
        "{{ if $labels.detector }}No rank of {{ $labels.run }} has made a step for {{ $value | humanizeDuration }}"
        f"{_WHO}.{{{{ else }}}}The last step of {{{{ $labels.run }}}} has stood still for 20 minutes.{{{{ end }}}}"
        + _GOODPUT,
        "critical",
    ),
    Alert(
        "TachographRunDown",
        'run:tachograph_incident_open_seconds:max{detector="failure", severity="critical"} > 900',
        "{{ $labels.run }} failed and does not come back",
        f"{{{{ $labels.run }}}} has been down for {{{{ $value | humanizeDuration }}}}{_WHO}: no step was done since."
        + _GOODPUT,
        "critical",
    ),
    Alert(
        "TachographGoodputBelowTarget",
        "run:tachograph_goodput_ratio:1h < on () group_left () tachograph:goodput_target:ratio "
        "and run:tachograph_goodput_ratio:24h < on () group_left () tachograph:goodput_target:ratio",
        "{{ $labels.run }} keeps less of its time than was promised",
        "{{ $labels.run }} kept {{ $value | humanizePercentage }} of its last hour"
        '{{ with printf "run:tachograph_goodput_ratio:24h{run=%q}" $labels.run | query }}{{ with first . }} and '
        "{{ . | value | humanizePercentage }} of its last 24 hours{{ end }}{{ end }}"
        '{{ with query "tachograph:goodput_target:ratio" }}{{ with first . }}; the target is '
        "{{ . | value | humanizePercentage }}{{ end }}{{ end }}.",
        "warning",
        hold="15m",
    ),
    Alert(
        "TachographGoodputUnexplained",
        _flagged("unexplained_loss"),
        "{{ $labels.run }} loses more than its failures explain",
        "The checkpoint model can't explain the goodput of {{ $labels.run }} by the failures that happened: something "
        "else costs time." + _OPEN_FOR + _GOODPUT,
        "warning",
    ),
    Alert(
        "TachographRestartLoop",
        _flagged("restart_loop"),
        "{{ $labels.run }} starts again and again",
        f"{{{{ $labels.run }}}} restarts without getting further:{_WHO}." + _OPEN_FOR + _GOODPUT,
        "critical",
    ),
    Alert(
        "TachographCheckpointOverdue",
        'run:tachograph_incident_open_seconds:max{detector="checkpoint_overdue"} > 0 or '
        "(run:tachograph_at_risk_seconds:max > 3 * run:tachograph_checkpoint_interval_seconds:max "
        "and run:tachograph_at_risk_seconds:max > 1800)",
        "No checkpoint of {{ $labels.run }} lands",
        "{{ $labels.run }} has "
        '{{ with printf "run:tachograph_at_risk_seconds:max{run=%q}" $labels.run | query }}{{ with first . }}'
        "{{ . | value | humanizeDuration }}{{ end }}{{ else }}an unknown amount{{ end }} of work at risk: that is what "
        "a failure now would lose.",
        "critical",
    ),
    Alert(
        "TachographIntervalOffOptimum",
        _flagged("interval"),
        "{{ $labels.run }} saves too often or too seldom",
        "Another checkpoint interval would keep at least a point more of the time of {{ $labels.run }}, whatever its "
        "MTBF within what is known of it."
        '{{ with printf "run:tachograph_checkpoint_interval_seconds:max{run=%q}" $labels.run | query }}'
        "{{ with first . }} In use: {{ . | value | humanizeDuration }}.{{ end }}{{ end }}"
        '{{ with printf "max(tachograph_run_checkpoint_interval_optimum_seconds{run=%q,bound=\\"expected\\"})" '
        "$labels.run | query }}{{ with first . }} Best: {{ . | value | humanizeDuration }}.{{ end }}{{ end }}",
        "info",
        hold="30m",
    ),
    Alert(
        "TachographStraggler",
        _flagged("straggler|straggler_group"),
        f"A straggler slows {{{{ $labels.run }}}}:{_WHO}",
        f"All ranks of {{{{ $labels.run }}}} wait for{_WHO} in each step." + _OPEN_FOR + _GOODPUT,
        hold="5m",
    ),
    Alert(
        "TachographLossSpike",
        _flagged("loss_spike"),
        "The loss of {{ $labels.run }} spikes",
        "The loss of {{ $labels.run }} is far above its baseline."
        + _OPEN_FOR
        + " Most spikes recover by themselves; the incident names the checkpoint to go back to.",
        hold="2m",
    ),
    Alert(
        "TachographNaN",
        _flagged("nan"),
        "{{ $labels.run }} trains on NaN",
        "The loss of {{ $labels.run }} is no number." + _OPEN_FOR + " All time since is wasted.",
        "critical",
    ),
    Alert(
        "TachographNodeSilent",
        _flagged("dead_node|silence.*"),
        "A node of {{ $labels.run }} is silent:{{ if $labels.node }} {{ $labels.node }}{{ end }}",
        f"Nothing is heard of{_WHO}, which belongs to {{{{ $labels.run }}}}, and has been silent for "
        "{{ $value | humanizeDuration }}." + _GOODPUT,
    ),
    Alert(
        "TachographNodeSick",
        _flagged("xid|node_health"),
        "A node of {{ $labels.run }} is sick:{{ if $labels.node }} {{ $labels.node }}{{ end }}",
        "The agent of {{ $labels.node }} finds something wrong ({{ $labels.detector }}); {{ $labels.run }} "
        "runs there." + _OPEN_FOR,
        hold="1m",
    ),
    Alert(
        "TachographSilentCorruption",
        _flagged("silent_corruption"),
        "{{ $labels.run }} may be computing wrong results",
        f"A sign of silent corruption in {{{{ $labels.run }}}}:{_WHO}. It is suspected, not proved." + _OPEN_FOR,
    ),
    Alert(
        "TachographRetentionTooShort",
        _flagged("retention"),
        "{{ $labels.run }} keeps its checkpoints too short",
        "A clean restore of {{ $labels.run }} reaches back less far than it may take until corruption is noticed."
        + _OPEN_FOR,
        "warning",
        hold="15m",
    ),
)

TOOL_ALERTS: Final = (
    Alert(
        "TachographCollectorDown",
        "(up == 0 and on (job, instance) last_over_time(tachograph_collector_info[1d])) "
        "or absent(tachograph_collector_info)",
        "{{ if $labels.instance }}The collector at {{ $labels.instance }} does not answer{{ else }}No collector "
        "answers{{ end }}",
        "{{ if $labels.instance }}Prometheus can't scrape {{ $labels.instance }}.{{ else }}Prometheus sees no "
        "collector at all.{{ end }} Agents keep events in their spools meanwhile, so nothing is lost yet; no board is "
        "current and nobody is told of incidents.",
        "critical",
        hold="2m",
        about="tool",
    ),
    Alert(
        "TachographIngestRefused",
        'label_replace(sum(rate(tachograph_collector_events_total{result="rejected"}[10m])) / '
        'sum(rate(tachograph_collector_events_total[10m])) > 0.01, "what", "events rejected", "", "") '
        "or label_replace(sum by (reason) (rate(tachograph_collector_refused_requests_total[10m])) > 0.1, "
        '"what", "requests refused", "", "") '
        "or label_replace(max by (instance) (tachograph_collector_waiting_bytes / "
        'tachograph_collector_waiting_limit_bytes) > 0.9, "what", "memory full", "", "")',
        "Collectors refuse what agents send ({{ $labels.what }})",
        '{{ if eq $labels.what "events rejected" }}{{ $value | humanizePercentage }} of the lines that come are no '
        'events; GET /v1/rejected says why.{{ else if eq $labels.what "requests refused" }}'
        "{{ $value | humanize }} requests a second have no good token ({{ $labels.reason }}).{{ else }}"
        "{{ $labels.instance }} holds {{ $value | humanizePercentage }} of the memory that it may for what isn't "
        "stored yet: agents are told to wait.{{ end }}",
        "warning",
        hold="10m",
        about="tool",
    ),
    Alert(
        "TachographAgentsDropping",
        "node:tachograph_agent_events_dropped:increase15m > 0",
        "The agent of {{ $labels.node }} drops events",
        "The agent of {{ $labels.node }} gave up {{ $value | humanize }} events of class {{ $labels.class }} in 15 "
        "minutes: its spool is full. The books of its runs have gaps.",
        "warning",
        about="tool",
    ),
    Alert(
        "TachographWatermarkStale",
        "label_replace(time() - run:tachograph_booked_until_seconds:max > 600 and on (run) (time() - "
        'run:tachograph_last_event_seconds:max < 120) and on (run) run:tachograph_running:max == 1, "what", "run", '
        '"", "") or label_replace(max(tachograph_collector_ledger_lag_seconds) > 120, "what", "ledger", "", "")',
        "Minutes are booked late",
        '{{ if eq $labels.what "run" }}Events of {{ $labels.run }} come, and its newest booked minute ended '
        "{{ $value | humanizeDuration }} ago.{{ else }}The oldest event that isn't booked waits for "
        "{{ $value | humanizeDuration }}.{{ end }} Boards and detectors are that far behind.",
        "warning",
        hold="5m",
        about="tool",
    ),
    Alert(
        "TachographDetectorBlind",
        'run:tachograph_detector_blind:max{detector=~"hang|checkpoint_overdue|straggler|dead_node"} == 1',
        "{{ $labels.detector }} can't see {{ $labels.run }}",
        "The detector {{ $labels.detector }} is blind for {{ $labels.run }}: the run doesn't tell what it needs. What "
        "it would flag goes unnoticed.",
        "info",
        hold="1h",
        about="tool",
    ),
    Alert(
        "TachographNobodyTold",
        "max by (sink) (tachograph_collector_delivery_age_seconds) > 60 or max by (sink) "
        "(tachograph_collector_dead_deliveries) > 0",
        "The sink {{ $labels.sink }} is not told of incidents",
        "News of incidents waits for {{ $labels.sink }}, or was given up ({{ $value | humanize }}); "
        "'tachograph deliveries' lists it with the error.",
        "warning",
        hold="5m",
        about="tool",
    ),
)

ALERTS: Final = RUN_ALERTS + TOOL_ALERTS


def files() -> dict[str, str]:
    """The rule files by name, as YAML that Prometheus and the Prometheus operator read."""
    return {
        "recording.yml": _group("tachograph-recording", [_recording(each) for each in RECORDINGS]),
        "runs.yml": _group("tachograph-runs", [_alert(each) for each in RUN_ALERTS]),
        "tachograph.yml": _group("tachograph-itself", [_alert(each) for each in TOOL_ALERTS]),
    }


def _group(name: str, rules: list[str]) -> str:
    head = "# Generated by 'make boards' from dashboards/tachograph_dashboards/rules.py: change it there.\n"
    return f"{head}groups:\n  - name: {name}\n    rules:\n" + "".join(rules)


def _recording(told: Recording) -> str:
    return f"      - record: {told.record}\n" + _field("expr", told.expr)


def _alert(told: Alert) -> str:
    text = f"      - alert: {told.name}\n" + _field("expr", told.expr)
    if told.hold != "0m":
        text += f"        for: {told.hold}\n"
    for name, fields in (("labels", told.labels), ("annotations", told.annotations)):
        text += f"        {name}:\n" + "".join(_field(key, value, 10) for key, value in fields.items())
    return text


def _field(key: str, value: str, indent: int = 8) -> str:
    """A word as it is; a text as a folded block, which needs no quotes."""
    if value.isalpha():
        return f"{' ' * indent}{key}: {value}\n"
    return f"{' ' * indent}{key}: >-\n{' ' * (indent + 2)}{value}\n"
