"""The thresholds of every detector, with their defaults; docs/detection.md has the table.

Frozen records, so that they can't change while something is judged. ``settings_from`` takes what a TOML file says, a
table a detector; it refuses names that it doesn't know and says which it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

_Above0 = Annotated[float, Meta(gt=0)]
_Whole = Annotated[int, Meta(ge=1)]


GREATEST: Final = 1e9
"""Of any threshold: as seconds, thirty years."""


class SettingsError(ValueError):
    """Thresholds that can't be: the message says which, where, and what is accepted."""


class Common(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for all detectors."""

    settle_s: Annotated[float, Meta(ge=0)] = 5.0
    """Events are judged in order of time, so long after the newest may still come; what comes later is late."""
    warmup_steps: Annotated[int, Meta(ge=0)] = 5
    warmup_s: Annotated[float, Meta(ge=0)] = 60.0
    """The first steps of an attempt, and what is younger than this, are compared with nothing."""
    group_share: Annotated[float, Meta(gt=0, le=1)] = 0.3
    """More of a group at once than this is one incident of the group."""
    behind_s: _Above0 = 10.0
    """After nobody looked for so long, silence counts only from then."""
    update_s: _Above0 = 60.0
    """New evidence of an open incident is told this often at most."""


class Straggler(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rank that holds the others up."""

    window_steps: Annotated[int, Meta(ge=2, le=1000)] = 20
    window_s: Annotated[float, Meta(ge=0)] = 60.0
    """A window is so many steps or so long, whichever is longer; a new one is judged every ``window_steps``."""
    ratio: Annotated[float, Meta(gt=1)] = 1.10
    deviations: _Above0 = 4.0
    floor: Annotated[float, Meta(ge=0)] = 0.005
    """A robust deviation is no less than this part of the median."""
    raise_k: _Whole = 3
    raise_n: _Whole = 5
    long_windows: Annotated[int, Meta(ge=4, le=100)] = 8
    """So many windows are put together, in which noise that wanders has settled."""
    long_deviations: _Above0 = 5.0
    clear_ratio: Annotated[float, Meta(gt=1)] = 1.05
    clear_windows: _Whole = 5
    critical_ratio: Annotated[float, Meta(gt=1)] = 1.25
    critical_impact: _Above0 = 0.10
    least_impact: Annotated[float, Meta(ge=0)] = 0.03
    """Where it costs less of the step than this, nothing is said."""
    least_group: Annotated[int, Meta(ge=2)] = 4
    """Groups of fewer ranks are compared with their own past only."""
    alone_ratio: Annotated[float, Meta(gt=1)] = 1.2
    """Flagged from so many times a rank's own past, where there are too few others."""
    alone_windows: _Whole = 10
    """Windows of its past before it is compared with it."""
    episode_ratio: Annotated[float, Meta(gt=1)] = 1.5
    episode_k: _Whole = 5
    episode_n: _Whole = 8
    rotating_ranks: Annotated[int, Meta(ge=2)] = 4
    """So many different ranks, none of them often enough to be raised, are one rotating culprit."""


class LossSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Loss spikes, NaN, and gradient norms."""

    baseline_points: Annotated[int, Meta(ge=8)] = 128
    few_points: Annotated[int, Meta(ge=4)] = 16
    """With a baseline of fewer points only ``critical_ratio`` is judged, against their lower quartile."""
    warn_deviations: _Above0 = 8.0
    warn_relative: _Above0 = 0.20
    lone_points: Annotated[float, Meta(ge=1)] = 75_000.0
    """A lone point is no spike if by the run's own tail noise gives one so far out oftener than once in so many."""
    again_deviations: _Above0 = 6.0
    again_relative: Annotated[float, Meta(ge=0)] = 0.05
    again_k: _Whole = 2
    again_n: _Whole = 3
    critical_ratio: Annotated[float, Meta(gt=1)] = 2.0
    critical_points: _Whole = 20
    diverged_points: _Whole = 200
    settled_points: _Whole = 500
    clear_deviations: _Above0 = 4.0
    clear_steps: _Whole = 5
    """It is over when the loss is back for two records at least, and so many steps after the last high one."""
    floor: _Above0 = 0.002
    """A robust deviation of the logarithm is no less than this."""
    identical_points: Annotated[int, Meta(ge=2)] = 5
    missing_points: Annotated[int, Meta(ge=2)] = 5
    skipped_k: _Whole = 3
    skipped_n: _Whole = 20
    norm_ratio: Annotated[float, Meta(gt=1)] = 100.0
    norm_vanished: _Above0 = 1e-6
    go_back_steps: Annotated[int, Meta(ge=0)] = 100
    """A checkpoint to go back to lies at least so many steps before the spike."""


class Hang(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nobody makes a step."""

    least_s: _Above0 = 60.0
    p95_times: _Above0 = 10.0
    longest_times: _Above0 = 5.0
    recent_steps: _Whole = 500
    first_step_s: _Above0 = 1800.0
    startup_s: _Above0 = 1200.0
    save_s: _Above0 = 600.0
    save_times: _Above0 = 5.0
    eval_s: _Above0 = 600.0
    eval_times: _Above0 = 5.0


class JobSlow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All ranks together have become slower."""

    ratio: Annotated[float, Meta(gt=1)] = 1.10
    clear_ratio: Annotated[float, Meta(gt=1)] = 1.05
    minutes: _Whole = 3
    least_steps: _Whole = 8
    """Steps within those minutes; where steps are so long that there are fewer, the minutes are as much longer."""
    best_minutes: _Whole = 30
    least_minutes: _Whole = 10
    """Minutes of an attempt before there is anything to compare with."""
    cusum_slack: _Above0 = 0.05
    cusum_limit: _Above0 = 0.12


class PeriodicSlow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A slow step every so many steps."""

    ratio: Annotated[float, Meta(gt=1)] = 1.5
    """A step is slow at so many times the usual."""
    times: Annotated[int, Meta(ge=4)] = 8
    """So many slow steps before anything is said."""
    regular: Annotated[float, Meta(gt=0.5, le=1)] = 0.85
    """So many of their gaps are the period, or twice it."""
    least_period: Annotated[int, Meta(ge=2)] = 3
    least_share: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    """Of the time, that they cost."""
    warn_share: Annotated[float, Meta(gt=0, lt=1)] = 0.05


class Checkpoints(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Saves that don't come, don't land, or take too long."""

    overdue_times: Annotated[float, Meta(gt=1)] = 2.0
    overdue_least_s: _Above0 = 1800.0
    slow_times: Annotated[float, Meta(gt=1)] = 3.0
    slow_last: _Whole = 10
    slow_least: _Whole = 3
    """Saves to compare with before one is called slow."""
    unfinished_s: _Above0 = 1800.0


class Restarts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attempts that follow each other and get nowhere."""

    attempts: Annotated[int, Meta(ge=2)] = 5
    within_s: _Above0 = 1800.0
    without_progress: Annotated[int, Meta(ge=2)] = 3
    suspect_attempts: Annotated[int, Meta(ge=2, le=15)] = 3
    """A node of each of so many attempts in a row …"""
    short_s: _Above0 = 600.0
    """… none of which lasted so long is a suspect, where other nodes changed."""


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far back a clean restore can reach."""

    detection_delay_s: _Above0 = 6 * 3600.0


class Goodput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time that was not kept, and that the run's failures don't explain."""

    look_every_s: _Above0 = 300.0
    """The books are looked at so often."""
    look_growth: Annotated[float, Meta(ge=1)] = 1.1
    """The alarm is tested when the run has become so many times as long as at the last test."""
    num_looks: _Whole = 10
    """The alarm's level, 1 %, is divided by this, since the same run is tested again and again."""
    clear_s: _Above0 = 86_400.0
    clear_share: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    """It is over when in the last ``clear_s`` less than this part was lost of what was lost before."""


class Interval(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An interval between saves that is far from the best."""

    least_points: _Above0 = 1.0
    """Points of goodput that the best interval brings."""
    clear_points: _Above0 = 0.5
    looks: _Whole = 2
    """So many tests in a row must say so."""


class RestartPhase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A phase that restarts mostly consist of."""

    least_restarts: _Whole = 3
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    clear_share: Annotated[float, Meta(gt=0, le=1)] = 0.4
    least_points: _Above0 = 1.0
    """Points of goodput that halving it brings."""


class NodeHealth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What agents find wrong with their nodes: Xids and everything else."""

    wait_s: Annotated[float, Meta(ge=0)] = 60.0
    """A warning is said so long after it came, so that many nodes with the same are one incident."""
    quiet_s: _Above0 = 7200.0
    """What nobody has told for so long is over."""
    hold_s: Annotated[float, Meta(ge=0)] = 600.0
    """What comes again within this is the same incident."""
    near_s: _Above0 = 600.0
    """Findings of several nodes, or a failure, within this belong together."""
    again_s: _Above0 = 86_400.0
    """An application's Xid in two attempts within this is the GPU's."""
    follows_s: Annotated[float, Meta(ge=0)] = 60.0
    """An application's Xid so soon after the run failed follows from that."""
    early_s: Annotated[float, Meta(ge=0)] = 60.0
    """What the kernel had said longer than this before the run began is old."""
    clock_warning_s: _Above0 = 2.0
    clock_critical_s: _Above0 = 30.0


class Corruption(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Silent corruption, which is suspected and never declared."""

    exact_difference: _Above0 = 1e-6
    """In a run declared deterministic, a loss may differ so much when its step is done again."""
    spread_times: Annotated[float, Meta(gt=1)] = 10.0
    """Else so many times as much as losses of this run usually do."""
    spread_least: Annotated[int, Meta(ge=4)] = 20
    """Steps done again before it is known what is usual."""
    checksum_wait_s: Annotated[float, Meta(ge=0)] = 60.0
    """Checksums of a step are compared so long after the first of them came."""
    norm_ratio: Annotated[float, Meta(gt=1)] = 3.0
    """A rank's gradient norm is out of line at so many times, or one part in so many, of what it usually is ..."""
    norm_deviations: _Above0 = 8.0
    """... if that is also so many robust deviations."""
    norm_times: _Whole = 3
    """Out of line so often ..."""
    norm_within_s: _Above0 = 86_400.0
    """... within this is suspect."""
    after_xid_s: _Above0 = 600.0
    """A critical spike within this after an Xid of the GPU's memory is suspect."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All thresholds, a table each."""

    common: Common = field(default_factory=Common)
    straggler: Straggler = field(default_factory=Straggler)
    loss: LossSettings = field(default_factory=LossSettings)
    hang: Hang = field(default_factory=Hang)
    job_slow: JobSlow = field(default_factory=JobSlow)
    periodic_slow: PeriodicSlow = field(default_factory=PeriodicSlow)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    restarts: Restarts = field(default_factory=Restarts)
    retention: Retention = field(default_factory=Retention)
    goodput: Goodput = field(default_factory=Goodput)
    interval: Interval = field(default_factory=Interval)
    restart_phase: RestartPhase = field(default_factory=RestartPhase)
    node_health: NodeHealth = field(default_factory=NodeHealth)
    corruption: Corruption = field(default_factory=Corruption)


def settings_from(document: Mapping[str, Any]) -> Settings:
    """The settings that a TOML document asks for; what it leaves out stays as it is by default.

    Raises ``SettingsError`` for a name that nothing has and for a value that can't be.
    """
    try:
        settings = msgspec.convert(document, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsError(f"thresholds: {_wrong(document, str(error))}") from error
    _check_sizes(settings)
    straggler, loss = settings.straggler, settings.loss
    for name, k, n in (
        ("straggler.raise", straggler.raise_k, straggler.raise_n),
        ("straggler.episode", straggler.episode_k, straggler.episode_n),
        ("loss.again", loss.again_k, loss.again_n),
        ("loss.skipped", loss.skipped_k, loss.skipped_n),
    ):
        if k > n:
            raise SettingsError(
                f"thresholds: {name}_k is {k} and {name}_n is {n}; expected k of n, k no greater than n"
            )
    if straggler.clear_ratio > straggler.ratio:
        raise SettingsError(
            f"thresholds: straggler.clear_ratio is {straggler.clear_ratio} and straggler.ratio {straggler.ratio}; "
            "an incident is cleared below a lower threshold than it is raised at"
        )
    return settings


def _check_sizes(settings: Settings) -> None:
    """Refuse what is beyond any measure: times are computed with thresholds, and no time is infinite."""
    for table in Settings.__struct_fields__:
        group = getattr(settings, table)
        for name in group.__struct_fields__:
            value = getattr(group, name)
            if not value <= GREATEST:
                raise SettingsError(
                    f"thresholds: {table}.{name} is {value:g}; expected {GREATEST:g} at most, which is as good as never"
                )


def _wrong(document: Mapping[str, Any], said: str) -> str:
    """What is wrong with the document, where, and what could have been meant; ``said`` is the reader's own sentence."""
    defaults = Settings()
    for table, values in document.items():
        if table not in Settings.__struct_fields__:
            return f"there is no table {table!r}; {_near(table, Settings.__struct_fields__)}"
        names = getattr(defaults, table).__struct_fields__
        for name in values if isinstance(values, Mapping) else ():
            if name not in names:
                return f"{table} has no threshold {name!r}; {_near(name, names)}"
    what, _, path = said.partition(" - at `$.")
    value: Any = document
    for name in path.rstrip("`").split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    what = what.replace("`", "").partition(", got")[0].replace("Expected float", "Expected a number")
    what = what.replace("Expected int", "Expected a whole number").replace("Expected object", "Expected a table")
    where = path.rstrip("`")
    return f"{where} is {value!r:.60}; {what[:1].lower()}{what[1:]}" if where else said


def _near(name: str, known: Sequence[str]) -> str:
    found = get_close_matches(name, known, 1)
    return f"did you mean {found[0]}?" if found else f"there are {', '.join(known)}"
