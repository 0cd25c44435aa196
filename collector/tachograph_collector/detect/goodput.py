"""What the run's books say: goodput that failures don't explain, an interval off the best, a restart's longest part.

The judge (model/judge.py) holds the books against the checkpoint model; here is decided what of that opens an incident
and when it is over. Each look tests the same run again, so that the alarm is tested only when the run has grown by a
part, at a level that is divided by how many such looks there will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from tachograph_collector.detect.board import SECOND_US, Board
from tachograph_collector.detect.course import Course
from tachograph_collector.detect.settings import Goodput, Interval, RestartPhase
from tachograph_collector.detect.verdict import Evidence, Verdict
from tachograph_collector.ledger.books import Books, Details
from tachograph_collector.model.words import span

if TYPE_CHECKING:
    from tachograph_collector.model.conditional import Conditional
    from tachograph_collector.model.findings import Finding
    from tachograph_collector.model.judge import Judgement

UNEXPLAINED: Final = "unexplained_loss"
INTERVAL: Final = "interval"
RESTART_PHASE: Final = "restart_phase"
MAX_LOOKS: Final = 500
SURE: Final = 4
"""It is judged to be over after so long that what was lost before would be so many deviations of chance."""
_OF_INTERVAL: Final = frozenset({"interval", "persist", "undivided"})


class Look(Struct, frozen=True):
    """What one look at the books found missing."""

    at_us: int
    exposure_s: float
    missing_s: float
    """Not kept, and not explained by failures; what an incident that is over has told is not in it."""
    deviation_s: float


class GoodputState(Struct):
    """What is saved."""

    start_us: int | None = None
    """Of the books that are looked at: other ones are another run's."""
    looked_us: int | None = None
    tested_s: float = 0.0
    """The exposure at the last test."""
    told_s: float = 0.0
    """Missing time that an incident which is over has told."""
    told_us: int | None = None
    raised_share: float = 0.0
    looks: list[Look] = field(default_factory=list)
    num_off: int = 0
    """Tests in a row by which another interval pays."""


class GoodputDetector:
    """Takes the books of the run now and then."""

    def __init__(
        self,
        settings: Goodput,
        interval: Interval,
        restart_phase: RestartPhase,
        board: Board,
        course: Course,
        state: GoodputState,
    ) -> None:
        self._settings = settings
        self._interval = interval
        self._restart_phase = restart_phase
        self._board = board
        self._course = course
        self.state = state

    def is_due(self, now_us: int) -> bool:
        """Whether the books are worth another look at ``now_us``."""
        looked_us = self.state.looked_us
        return looked_us is None or now_us - looked_us >= self._settings.look_every_s * SECOND_US

    def judge(self, books: Books, details: Details, now_us: int, *, is_final: bool) -> None:
        """Look at the books as of ``now_us``. ``is_final``: they are read once, at the end of a recording."""
        from tachograph_collector.model.judge import judge  # scipy is loaded only where somebody keeps books

        state = self.state
        if state.start_us != books.start_us:
            for name in (UNEXPLAINED, INTERVAL, RESTART_PHASE):
                self._board.clear_all(min(now_us, books.start_us), name, "run ended")
            state = self.state = GoodputState(start_us=books.start_us)
        state.looked_us = now_us
        num_looks = 1 if is_final else self._settings.num_looks
        told = judge(
            books,
            details,
            price_per_gpu_hour=self._course.price_per_gpu_hour,
            num_looks=num_looks,
            with_band=False,
        )
        if told is None or told.conditional is None:
            why = "no books yet" if told is None else told.sentence
            for name in (UNEXPLAINED, INTERVAL):
                self._board.sight(name, "eligible", why)
        if told is None:
            return
        is_test = is_final or told.facts.exposure_s >= self._settings.look_growth * state.tested_s
        if is_test:
            state.tested_s = told.facts.exposure_s
        if told.conditional is not None:
            self._unexplained(told, told.conditional, now_us, is_test=is_test)
            self._off(told, now_us, is_test=is_test, is_final=is_final)
        self._phase(told, now_us)
        if is_final and books.status != "running":
            for name in (UNEXPLAINED, INTERVAL, RESTART_PHASE):
                self._board.clear_all(now_us, name, "run ended")

    # -- goodput that failures don't explain -------------------------------------------------------------------------

    def _unexplained(self, told: Judgement, check: Conditional, now_us: int, *, is_test: bool) -> None:
        state, limit = self.state, check.limit
        self._board.evaluated(UNEXPLAINED)
        missing_s = check.missing_s - state.told_s
        look = Look(now_us, check.exposure_s, missing_s, check.deviation * check.exposure_s)
        state.looks.append(look)
        del state.looks[:-MAX_LOOKS]
        if not self._board.open(UNEXPLAINED):
            if is_test and missing_s > limit * look.deviation_s:
                state.raised_share = missing_s / max(check.exposure_s - self._quiet_s(), 1.0)
                self._say_unexplained(told, check, look, limit, self._since_us(look))
            return
        if self._has_stopped(look):
            self._board.clear(now_us, UNEXPLAINED, "run", "nothing more was lost")
            state.told_s, state.told_us, state.looks = check.missing_s, now_us, []
            return
        self._say_unexplained(told, check, look, limit, now_us)

    def _quiet_s(self) -> float:
        """Exposure at the last look before anything was missing."""
        quiet = [one.exposure_s for one in self.state.looks if one.missing_s <= one.deviation_s]
        return quiet[-1] if quiet else 0.0

    def _since_us(self, look: Look) -> int:
        """Where it began: after the last look at which no more than chance was missing; else the window's beginning."""
        quiet = [one.at_us for one in self.state.looks if one.missing_s <= one.deviation_s]
        if quiet:
            return quiet[-1]
        start_us = self.state.start_us if self.state.told_us is None else self.state.told_us
        return look.at_us if start_us is None else start_us

    def _has_stopped(self, look: Look) -> bool:
        """Whether of late far less was lost than when it was raised, over so long that chance can't make it so."""
        share = min(self.state.raised_share, look.missing_s / max(look.exposure_s - self._quiet_s(), 1.0))
        if share <= 0:
            return True
        long_s = max(self._settings.clear_s, SURE * look.deviation_s / share)
        before = [one for one in self.state.looks if look.exposure_s - one.exposure_s >= long_s]
        if not before:
            return False
        lately = (look.missing_s - before[-1].missing_s) / (look.exposure_s - before[-1].exposure_s)
        return lately < self._settings.clear_share * share

    def _say_unexplained(self, told: Judgement, check: Conditional, look: Look, limit: float, since_us: int) -> None:
        finding = next((one for one in told.findings if one.kind == "hidden_loss"), None)
        missing_points = 100 * look.missing_s / told.facts.wall_s
        summary = (
            finding.sentence
            if finding is not None and not self.state.told_s
            else f"{missing_points:.1f} points of goodput are missing that the run's failures don't explain"
        )
        self._board.say(
            look.at_us,
            Verdict(
                detector=UNEXPLAINED,
                subject="run",
                severity="warning",
                since_us=since_us,
                summary=summary.rstrip("."),
                evidence=Evidence(
                    value=check.observed,
                    baseline=check.expected,
                    threshold=check.expected - limit * check.deviation,
                    num_samples=check.num_failures,
                    unit="share",
                    more={
                        "missing_s": look.missing_s,
                        "missing_points": missing_points,
                        "deviations": look.missing_s / look.deviation_s,
                        **{f"{part}_s": seconds for part, seconds in told.facts.parts_s.items()},
                    },
                ),
                advice="look where the time goes: the run's accounts, and how long its saves and stalls take",
                cost=self._course.cost(look.missing_s, "time that was not kept and that no failure explains"),
            ),
        )

    # -- the interval ------------------------------------------------------------------------------------------------

    def _off(self, told: Judgement, now_us: int, *, is_test: bool, is_final: bool) -> None:
        state, settings, advice = self.state, self._interval, told.advice
        if advice is None:
            return
        self._board.evaluated(INTERVAL)
        finding = next((one for one in told.findings if one.kind in _OF_INTERVAL), None)
        pays = finding is not None and finding.level != "fine"
        points = (finding.points or 0.0) if finding is not None and pays else 0.0
        if self._board.open(INTERVAL):
            if points < settings.clear_points:
                state.num_off = 0
                self._board.clear(now_us, INTERVAL, "run", "the interval fits")
            elif finding is not None:
                self._say_off(told, finding, points, now_us)
            return
        if not is_test:
            return
        state.num_off = state.num_off + 1 if points >= settings.least_points else 0
        if finding is not None and (state.num_off >= settings.looks or (is_final and state.num_off)):
            self._say_off(told, finding, points, now_us)

    def _say_off(self, told: Judgement, finding: Finding, points: float, now_us: int) -> None:
        advice, start_us = told.advice, self.state.start_us
        assert advice is not None  # who calls this has looked
        in_use_s, best_s = advice.in_use.tau_s, advice.best.tau_s
        hours = self._course.gpu_hours(points / 100 * 86_400)
        brings = f"{points:.1f} points of goodput" + ("" if hours is None else f", {hours:.1f} GPU-hours a day")
        self._board.say(
            now_us,
            Verdict(
                detector=INTERVAL,
                subject="run",
                severity="warning",
                since_us=now_us if start_us is None else start_us,
                summary=finding.sentence.rstrip("."),
                evidence=Evidence(
                    value=in_use_s,
                    baseline=best_s,
                    threshold=self._interval.least_points,
                    num_samples=told.measured.incident_mtbf.num_failures,
                    unit="s",
                    more={
                        "kind": finding.kind,
                        "gain_points": points,
                        "gain_gpu_hours_a_day": hours,
                        "goodput_in_use": advice.in_use.goodput,
                        "goodput_at_best": advice.best.goodput,
                        "best_low_s": min(advice.best_range_s),
                        "best_high_s": max(advice.best_range_s),
                    },
                ),
                advice=f"save every {span(best_s)} instead of every {span(in_use_s)}: that brings {brings}",
                cost=self._course.cost(
                    points / 100 * told.facts.exposure_s, "what the best interval would have kept, by the model"
                ),
            ),
        )

    # -- the way back ------------------------------------------------------------------------------------------------

    def _phase(self, told: Judgement, now_us: int) -> None:
        settings, measured = self._restart_phase, told.measured
        num, whole_s = measured.restart.num, measured.restart.mean_s
        named = {part: seconds for part, seconds in measured.restart_parts.items() if part != "other"}
        if num < settings.least_restarts or not whole_s or not named:
            why = "no phases of restarts are told" if num and not named else f"fewer than {settings.least_restarts} yet"
            self._board.sight(RESTART_PHASE, "blind" if num and not named else "eligible", why)
            return
        self._board.evaluated(RESTART_PHASE)
        part, part_s = max(named.items(), key=lambda pair: pair[1])
        share = part_s / whole_s
        points = 100 * num * part_s / 2 / told.facts.exposure_s
        for one in self._board.open(RESTART_PHASE):
            if one.subject != f"phase {part}" or share < settings.clear_share or points < settings.least_points / 2:
                self._board.clear(now_us, RESTART_PHASE, one.subject, "it dominates no longer")
        is_open = bool(self._board.open(RESTART_PHASE))
        if not is_open and (share < settings.share or points < settings.least_points):
            return
        start_us = self.state.start_us
        hours = self._course.gpu_hours(points / 100 * 86_400)
        brings = f"{points:.1f} points of goodput" + ("" if hours is None else f", {hours:.1f} GPU-hours a day")
        self._board.say(
            now_us,
            Verdict(
                detector=RESTART_PHASE,
                subject=f"phase {part}",
                severity="info",
                since_us=now_us if start_us is None else start_us,
                summary=f"{part} takes {span(part_s)} of the {span(whole_s)} of a restart, over {num} restarts",
                evidence=Evidence(
                    value=part_s,
                    baseline=whole_s,
                    threshold=settings.share * whole_s,
                    num_samples=num,
                    unit="s",
                    more={
                        "share": share,
                        "halving_points": points,
                        **{f"{name}_s": seconds for name, seconds in measured.restart_parts.items()},
                    },
                ),
                advice=f"shorten {part} first: half of it brings {brings}",
                cost=self._course.cost(num * part_s, f"{part}, in all restarts"),
            ),
        )
