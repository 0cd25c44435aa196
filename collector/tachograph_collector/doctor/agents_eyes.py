"""One look through a check of the agent's, as a finding of the doctor's."""

from __future__ import annotations

from collections.abc import Iterator

from tachograph_agent.health.finding import Check
from tachograph_agent.health.survey import survey

from tachograph_collector.doctor.finding import Finding, fail, ok, warn


def through(check: Check, name: str, nothing_found: str) -> Iterator[Finding]:
    """What that check of the agent's sees here; at most 25 s."""
    for seen in survey([check]):
        if seen.state == "absent":
            told = str(seen.told[0]["detail"]) if seen.told else "nothing here to look at"
            yield ok(name, told.removeprefix("absent: "))
        elif seen.state in {"blind", "failed", "hung"}:
            told = str(seen.told[0]["detail"]) if seen.told else f"the check {seen.state}"
            yield warn(
                name,
                told.removeprefix(f"{seen.state}: "),
                "docs/health.md says what helps; all else works without",
            )
        elif seen.state == "new" and not seen.told:
            yield warn(name, "did not answer in time", "see docs/health.md; all else works without")
        elif not seen.told:
            yield ok(name, nothing_found)
        else:
            for each in seen.told:
                told_as = fail if each.get("severity") == "critical" else warn
                yield told_as(name, str(each["detail"]), "the agent would tell that to each run that has ranks here")
