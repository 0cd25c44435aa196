"""One rehearsal from its start to its outcome: plays the runs and looks for incidents until all is told or late."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from tachograph_collector.client import AwayError, Client, ClientError
from tachograph_collector.client.client import is_unbooked
from tachograph_collector.client.errors import UnknownRunError
from tachograph_collector.rehearse.outcome import Line, Seen, false_alarms, found_by, line_of, seen_of
from tachograph_collector.rehearse.player import ORIGIN, Played, Player
from tachograph_collector.rehearse.scenario import Scenario

LOOK_EVERY_S: Final = 1.0
AWAY_S: Final = 60.0
"""A collector may be away for so long."""
LATE_S: Final = 3.0
"""Played so late, a rehearsal says that times are not to be trusted."""


class RehearsalError(Exception):
    """The rehearsal can't be trusted or can't go on; the sentence says why."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of everything."""

    lines: list[Line]
    took_s: float
    late_s: float
    num_sent: int
    origins: list[str]
    """What the collector has the runs as; all ``rehearsal`` if nobody is paged."""

    @property
    def is_good(self) -> bool:
        """Whether everything was found, and nothing else was said."""
        return all(line.is_good for line in self.lines)


class _Watched:
    """One run and what was seen of it."""

    def __init__(self, scenario: Scenario) -> None:
        self.name = scenario.name
        self._scenario = scenario
        self.seen: dict[str, Seen] = {}

    def look(self, client: Client) -> list[Seen]:
        """What is new."""
        try:
            found = list(client.run(self.name).incidents())
        except UnknownRunError:
            return []
        except ClientError as error:
            if is_unbooked(error):
                return []
            raise
        now_s = time.time()
        new = [seen_of(incident, now_s) for incident in found if incident.incident_id not in self.seen]
        self.seen.update((it.incident, it) for it in new)
        return new

    @property
    def expects(self) -> bool:
        """Whether there is anything to be found, or to be looked for."""
        return bool(self._scenario.expects)

    def is_settled(self, now_s: float) -> bool:
        """Whether nothing more is waited for."""
        return all(
            now_s >= expected.ends_s
            or (bool(expected.label.detectors) and found_by(expected.label, self.seen.values()) is not None)
            for expected in self._scenario.expects
        )

    def lines(self, now_s: float) -> list[Line]:
        """What became of each fault, and what no fault explains."""
        seen = list(self.seen.values())
        labels = [expected.label for expected in self._scenario.expects]
        told = [line_of(self.name, label, seen, within_s, now_s) for label, within_s in self._scenario.expects]
        alarms = false_alarms(self.name, labels, seen, self._scenario.known)
        if not labels and not alarms:
            told = [Line(run=self.name, fault="none", subject=None, at_s=now_s, verdict="quiet")]
        return told + alarms


def rehearse(
    client: Client,
    scenarios: Sequence[Scenario],
    say: Callable[[str], None],
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Play them all and look until everything is found or late. Raises ``ClientError`` and ``RehearsalError``.

    However it ends, the runs are told to be over.
    """
    watched = [_Watched(scenario) for scenario in scenarios]
    player = Player(client, [Played(scenario.name, scenario.play()) for scenario in scenarios])
    began_s = time.time()
    away_since_s: float | None = None
    player.start()
    try:
        while True:
            wait(LOOK_EVERY_S)
            if player.failure is not None:
                raise player.failure
            try:
                for it in watched:
                    for new in it.look(client):
                        say(f"{new.seen_s - began_s:4.0f} s  {it.name}: {new.severity}: {new.summary}")
                away_since_s = None
            except AwayError:  # it may be starting anew, which is what is rehearsed then
                away_since_s = time.time() if away_since_s is None else away_since_s
                if time.time() - away_since_s > AWAY_S:
                    raise
                continue
            now_s = time.time()
            # With nothing to be found, all of it is played and watched.
            if all(it.is_settled(now_s) for it in watched) and (player.is_done or any(it.expects for it in watched)):
                break
        origins = sorted({client.run(it.name).place().origin for it in watched})
    finally:
        player.close()
    if player.num_rejected:
        raise RehearsalError(
            f"{client.url} refused {player.num_rejected} of the rehearsal's events: {'; '.join(player.reasons)}"
        )
    if origins != [ORIGIN]:
        raise RehearsalError(
            f"{client.url} has these runs as {', '.join(origins)}, not as a rehearsal: whoever is paged was; "
            "it is a collector of another version, or the runs were there before"
        )
    now_s = time.time()
    return Outcome(
        lines=[line for it in watched for line in it.lines(now_s)],
        took_s=now_s - began_s,
        late_s=player.late_s if player.late_s > LATE_S else 0.0,
        num_sent=player.num_sent,
        origins=origins,
    )
