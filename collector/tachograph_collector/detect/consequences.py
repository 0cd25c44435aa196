"""Which incident follows from which: who is told of the cause need not be told of what it makes happen.

A rule names what follows, what it may follow from, on which node, and how long after the cause has gone it counts.
Asked of what is opened or renewed, and when a cause is opened of all that was found before it: which of the two comes
first makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tachograph_collector.detect.verdict import Incident, Verdict

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
SLOW_LEEWAY_US: Final = 10 * MINUTE_US
"""A straggler and the slow job that it makes begin together; each knows when to within a few of its windows."""
EXPLAINS: Final = 0.5
"""A straggler that takes this part of what the job has become slower explains it."""


class Rule(Struct, frozen=True):
    """``effect`` follows from an incident of ``cause`` that began before it and was not over for ``after_us``.

    ``early_us``: it may seem to have begun so long before its cause, which is known by another clock; but what was over
    before the cause began does not follow from it.
    """

    effect: str
    cause: str
    after_us: int = 0
    same_node: bool = False
    early_us: int = 0


RULES: Final = (
    Rule("dead_node", "xid", 10 * MINUTE_US, same_node=True, early_us=MINUTE_US),
    Rule("dead_node", "node_health", 10 * MINUTE_US, same_node=True, early_us=MINUTE_US),
    Rule("failure", "dead_node", 10 * MINUTE_US, early_us=MINUTE_US),
    Rule("failure", "xid", 10 * MINUTE_US, same_node=True),
    Rule("failure", "node_health", 10 * MINUTE_US, same_node=True),
    Rule("failure", "hang", 10 * SECOND_US),
    Rule("failure", "nan", 10 * SECOND_US),
    Rule("hang", "dead_node", 10 * MINUTE_US, early_us=MINUTE_US),
    Rule("job_slow", "dead_node", 10 * MINUTE_US, early_us=MINUTE_US),
    Rule("nan", "loss_spike", 10 * MINUTE_US),
    Rule("nan", "grad_norm", 10 * MINUTE_US),
    Rule("loss_spike", "nan", 10 * MINUTE_US),
    Rule("hang", "xid", 10 * MINUTE_US),
    Rule("hang", "node_health", 10 * MINUTE_US, same_node=True),
    Rule("straggler", "xid", 10 * MINUTE_US, same_node=True),
    Rule("straggler", "node_health", 10 * MINUTE_US, same_node=True),
    Rule("straggler_episode", "xid", 10 * MINUTE_US, same_node=True),
    Rule("straggler_episode", "node_health", 10 * MINUTE_US, same_node=True),
    Rule("checkpoint_overdue", "hang"),
    Rule("checkpoint_overdue", "checkpoint_not_landed"),
)
"""The first rule that fits counts."""


def cause_of(effect: Verdict | Incident, incidents: Iterable[Incident]) -> Incident | None:
    """The incident that this one follows from; of several of one rule the one that began last. None if there is none.

    ``incidents`` are the run's that are open, and those that were over not long ago.
    """
    real = [one for one in incidents if not one.is_withdrawn and one.detector != effect.detector]
    if effect.detector == "job_slow":
        found = _newest(one for one in real if _explains(one, effect))
        if found is not None:
            return found
    for rule in RULES:
        if rule.effect == effect.detector:
            found = _newest(one for one in real if _fits(rule, one, effect))
            if found is not None:
                return found
    return None


def _since_us(effect: Verdict | Incident) -> int:
    return effect.since_us if isinstance(effect, Verdict) else effect.opened_us


def _newest(incidents: Iterable[Incident]) -> Incident | None:
    return max(incidents, key=lambda one: (one.opened_us, one.incident_id), default=None)


def _fits(rule: Rule, cause: Incident, effect: Verdict | Incident) -> bool:
    since_us = _since_us(effect)
    was_over_us = effect.cleared_us if isinstance(effect, Incident) else None
    return (
        cause.detector == rule.cause
        and (was_over_us is None or was_over_us > cause.opened_us)
        and cause.opened_us <= since_us + rule.early_us
        and (cause.cleared_us is None or since_us - cause.cleared_us <= rule.after_us)
        and (not rule.same_node or (cause.node is not None and cause.node == effect.node))
    )


def _explains(cause: Incident, effect: Verdict | Incident) -> bool:
    """Whether a slow rank makes the job as slow as it is: it began then too, and takes most of the difference."""
    if cause.detector not in ("straggler", "straggler_group") or cause.cleared_us is not None:
        return False
    impact = cause.evidence.more.get("impact_of_step")
    value, baseline = effect.evidence.value, effect.evidence.baseline
    if not isinstance(impact, float) or not value or not baseline:
        return False
    is_enough = impact >= EXPLAINS * (1 - baseline / value)
    return is_enough and abs(cause.opened_us - _since_us(effect)) <= SLOW_LEEWAY_US
