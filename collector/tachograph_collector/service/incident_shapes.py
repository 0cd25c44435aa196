"""What is sent and answered about incidents and silences: checked on the way in, documentation on the way out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tachograph_collector.service.shapes import Shape
from tachograph_collector.service.times import SHAPE

SeverityName = Literal["info", "warning", "critical"]
OriginName = Literal["live", "replay", "rehearsal"]
_NO_NUL = r"^[^\x00]*$"
"""PostgreSQL has no place for a character 0 in a text."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=10_000, pattern=_NO_NUL)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=1_000, pattern=_NO_NUL)]
DetectorName = Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=_NO_NUL)]
Author = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        pattern=_NO_NUL,
        description="Who says so. Where a token is needed, it is the token's name instead.",
    ),
]
OwnId = Annotated[
    str | None,
    Field(
        pattern="^[0-9a-f]{16,32}$",
        description="An id drawn by who sends it: the same sent again, after an answer was lost, is not stored twice.",
    ),
]
Moment = Annotated[
    Annotated[str, Field(max_length=40, json_schema_extra=SHAPE)] | int | float,
    Field(description="Unix seconds, or ISO 8601 (UTC unless it says otherwise).", union_mode="left_to_right"),
]


class Sent(BaseModel):
    """A body that holds these members and no others."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


class SentNote(Sent):
    """Words to an incident."""

    text: Words
    author: Author = None
    id: OwnId = None


class SentAcknowledgement(Sent):
    """That somebody takes care of an incident, or does so no longer."""

    text: Annotated[Words | None, Field(description="Why, or what is going to be done.")] = None
    author: Author = None


class SentSilence(Sent):
    """Of which incidents nobody is to be told, and until when. At least one of the first four has to be given."""

    run: Annotated[Name | None, Field(description="The run's name, as a shell pattern.")] = None
    detector: DetectorName | None = None
    subject: Annotated[Name | None, Field(description="Such as `rank 7`, as a shell pattern.")] = None
    node: Name | None = None
    since: Annotated[Moment | None, Field(alias="from", description="Now, unless given.")] = None
    until: Moment | None = None
    lasts: Annotated[
        str | None,
        Field(
            alias="for",
            max_length=30,
            description="Instead of `until`: how long, such as `2h` or `7d`.",
            json_schema_extra={"pattern": "^[1-9][0-9]{0,2}(min|h|d)$"},
        ),
    ] = None
    why: Words
    author: Author = None
    id: OwnId = None


class Acknowledgement(Shape):
    """Who takes care of an incident, and since when."""

    at: float
    author: str


class NoteShape(Shape):
    """What an operator said of an incident."""

    at: float
    author: str
    what: Literal["acknowledged", "unacknowledged", "annotated"]
    text: str | None


class CostShape(Shape):
    """What an incident has cost until now; null where it isn't known."""

    wall_s: float | None
    gpu_hours: float | None
    money: float | None
    basis: str | None


class Incident(Shape):
    """What was flagged, what it costs, and what operators made of it."""

    incident_id: str
    run: str
    origin: OriginName
    detector: str
    subject: str
    severity: SeverityName
    is_open: bool
    opened_at: float
    found_at: float
    updated_at: float
    cleared_at: float | None
    outcome: str | None
    summary: str
    advice: str | None
    attempt: str | None
    node: str | None
    rank: int | None
    is_replayed: bool
    is_withdrawn: bool
    consequence_of: str | None
    cost: CostShape | None
    evidence: Annotated[
        dict[str, Any], Field(description="value, baseline, threshold, num_samples, unit, and what the detector adds.")
    ]
    acknowledged: Acknowledgement | None
    is_silenced: bool
    url: str | None


class OneIncident(Incident):
    """An incident with everything that was said of it."""

    notes: list[NoteShape]


class Incidents(Shape):
    """Incidents of all runs, what began last first."""

    incidents: list[Incident]
    next: str | None


class RunIncidents(Incidents):
    """Incidents of a run, what began last first."""

    run: str


class SilenceShape(Shape):
    """A silence. What is null fits everything."""

    silence_id: str
    state: Literal["active", "pending", "ended", "expired"]
    run: str | None
    detector: str | None
    subject: str | None
    node: str | None
    since: float = Field(alias="from")
    until: float
    author: str
    why: str
    created_at: float
    ended_at: float | None


class Silences(Shape):
    """Silences, the newest first."""

    silences: list[SilenceShape]
    next: str | None


class Sight(Shape):
    """How well one detector sees a run."""

    detector: str
    state: str
    reason: str
    evaluations: int
    verdicts: int
    at: float


class Sights(Shape):
    """How well each detector sees a run."""

    run: str
    sights: list[Sight]
    next: None
