"""One pass over a track's records in order: which incarnation, which leg, who owns each stretch (rules 2, 3, 4, 7)."""

from __future__ import annotations

from collections.abc import Callable

from tachograph_agent.events import AttemptStart, Rollback, RunEnd, RunStart

from tachograph_collector.ledger.legs import (
    FAR,
    NO_RANK,
    REOPEN_US,
    STALL_FLOOR_US,
    SURVIVAL_US,
    Leg,
    Piece,
    StepRow,
)
from tachograph_collector.ledger.lifecycle import Other
from tachograph_collector.ledger.owned import (
    close_unit,
    end_open_save,
    finish,
    flush,
    free_before,
    joined,
    move_mark,
    open_unit,
)
from tachograph_collector.ledger.phases import PhaseBook
from tachograph_collector.ledger.saves import Save
from tachograph_collector.ledger.stretch import number, outside


class Fold:
    """Folds step rows and other events into ``legs`` and ``pieces``, which it extends in place."""

    def __init__(
        self,
        steps: list[StepRow],
        legs: list[Leg],
        pieces: list[Piece],
        phases: PhaseBook,
        lead: int | None,
        closed_us: int | None,
        num_set_aside: int,
        opens_between: Callable[[int, int], bool],
        plain: dict[int, tuple[int, int]],
        num_dropped: int,
    ) -> None:
        self.steps = steps
        self.legs = legs
        self.pieces = pieces
        self.phases = phases
        self.lead = lead
        self.closed_us = closed_us
        self.num_set_aside = num_set_aside
        self._opens_between = opens_between
        self._plain = plain
        self._num_dropped = num_dropped
        self._run = (0, 0)
        self._forced = False

    def run(self, first: int, last: int, others: list[Other], *, final: bool) -> None:
        """Fold ``steps[first:last]`` and ``others``; at one time steps come before all others.

        ``final``: nothing follows, what is still open is closed.
        """
        at = first
        for other in others:
            at = self._steps_until(at, last, other[0])
            self._take_other(other, at)
        self._steps_until(at, last, FAR)
        if final and self.legs:
            finish(self.legs[-1], self.pieces, self.phases)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _steps_until(self, at: int, last: int, until_us: int) -> int:
        """Fold records that end at or before ``until_us``; plain ones in a loop that does nothing else."""
        steps = self.steps
        while at < last and steps[at][0] <= until_us:
            leg = self.legs[-1] if self.legs else None
            if leg is not None and leg.stepped and self.closed_us is None and not leg.holes and not self._forced:
                close_unit(leg, self.pieces, self.phases)
                quiet_us = min(until_us, self.phases.next_training(leg.mark_us))
                at = self._plain_steps(leg, at, last, quiet_us)
                if at >= last or steps[at][0] > until_us:
                    return at
            # The first of plain records may need a look, after a save for instance; the rest of them don't.
            self._run = self._plain.get(at + self._num_dropped, self._run)
            self._take_step(steps[at], at)
            at += 1
        return at

    def _plain_steps(self, leg: Leg, at: int, last: int, quiet_us: int) -> int:
        """The common case: the next record in order, timed, without phase, save or stall since the one before."""
        mark, done = leg.mark_us, leg.last_step
        alive = leg.alive_us
        dur, count = leg.one_dur, leg.one_count
        growing = leg.grow_start >= 0 and leg.grow_end == mark
        first = at
        before, after = mark, done
        skipped = self._skip_plain(at, last, mark, done, quiet_us)
        if skipped is not None:
            at, reach = skipped
            if at - 1 > first:
                before, after = self.steps[at - 2][0], self.steps[at - 2][1]
            mark, done, dur, count = self.steps[at - 1]
            alive = max(alive, reach)
        # A million steps go through here: comparisons that another implies are left out, and no function is called.
        for t, step, d, c in self.steps[at:last] if skipped is None else ():
            new = step - done
            if t > quiet_us or d < 0 or new <= 0 or t <= mark:
                break
            if c == 1:
                one, expected = d, (d if new == 1 else d * new)
            else:
                one, expected = d // c, d * new // c
            if t - mark - expected > STALL_FLOOR_US:
                break
            before, after = mark, done
            mark, done, dur, count = t, step, d, c
            reach = t - one - SURVIVAL_US if one < SURVIVAL_US else t - one - one
            if reach > alive:
                alive = reach
            at += 1
        if at == first:
            return at
        if not growing:
            flush(leg, self.pieces)
            if before > leg.mark_us:
                leg.grow_start, leg.grow_after = leg.mark_us, leg.last_step
        if before > leg.mark_us:
            leg.grow_end, leg.grow_step = before, after
        leg.mark_us = leg.last_us = leg.record_us = mark
        leg.last_step = leg.record_step = done
        leg.alive_us = alive
        leg.one_dur, leg.one_count = dur, count
        open_unit(leg, ((before, mark),), after, done, (dur, count), may_stall=True)
        return at

    def _skip_plain(self, at: int, last: int, mark: int, done: int, quiet_us: int) -> tuple[int, int] | None:
        """Past records that are known to hold nothing to look at; gives where they end, and up to when they lived."""
        run = self._run = self._plain.get(at + self._num_dropped, self._run)
        end = run[0] - self._num_dropped
        if end <= at or end > last or self.steps[end - 1][0] > quiet_us:
            return None
        t, step, dur, _ = self.steps[at]
        if step != done + 1 or t <= mark or t - mark - dur > STALL_FLOOR_US:
            return None
        return end, run[1]

    # -- single records ----------------------------------------------------------------------------------------------

    def _take_step(self, row: StepRow, at: int) -> None:
        t, step, dur, count = row
        leg = self.legs[-1] if self.legs else None
        if self.closed_us is not None:
            begin = t - max(dur, 0)
            if begin <= self.closed_us + REOPEN_US:
                self.num_set_aside += 1
                return
            leg = self._open(begin, fixed=False)
        elif leg is None or self._forced:
            leg = self._open(t - max(dur, 0), fixed=False)
        if leg.stepped:
            if step == leg.record_step and dur > 0 and 2 * count * (t - leg.record_us) < dur:
                return
            if step <= leg.record_step:
                leg = self._open(t - (dur // count if dur > 0 else 0), fixed=True)
        # Where no ``dur`` is told, a step took no longer than since the record before it.
        one = (t - leg.record_us) // (step - leg.record_step) if leg.stepped else -1
        if not leg.stepped:
            self._first_record(leg, row, self._next_record(at, step))
        else:
            self._further_record(leg, row)
        leg.record_step, leg.record_us = step, t
        if dur >= 0:
            leg.one_dur, leg.one_count = dur, count
            one = dur // count
        if one >= 0:
            leg.alive_us = max(leg.alive_us, t - one - max(SURVIVAL_US, one))

    def _next_record(self, at: int, step: int) -> StepRow | None:
        """The record after ``at``, if it belongs to the same incarnation."""
        if at + 1 >= len(self.steps):
            return None
        following = self.steps[at + 1]
        if following[1] <= step:
            return None
        if self._opens_between(self.steps[at][0], following[0]):
            return None
        return following

    def _first_record(self, leg: Leg, row: StepRow, following: StepRow | None) -> None:
        """Rule 3: what a leg's first record covers and owns."""
        t, step, dur, count = row
        end_open_save(leg, self.pieces, t - (dur // count if dur > 0 else 0))
        if not leg.fixed:
            leg.begin_us = max(0, min(leg.begin_us, t - max(dur, 0)))
        one, warmup = dur, 0
        each_dur, each_count = dur, count
        if following is not None and following[2] >= 0 and dur >= 0:
            next_dur, next_count = following[2], following[3]
            if next_dur * count < dur * next_count:
                each_dur, each_count = next_dur, next_count
            if leg.rollback_reason is None and dur * next_count > 2 * next_dur * count:
                warmup = dur - next_dur * count // next_count
        free = free_before(leg, self.pieces, t)
        leg.resume = self._resume_step(leg, row, each_dur, each_count, sum(high - low for low, high in free))
        leg.stepped = True
        leg.first_step = step
        beyond = max(0, step - leg.resume - count)
        wanted = [
            ("train", one - warmup),
            ("warmup", warmup),
            ("train", beyond * each_dur // each_count if dur >= 0 else 0),
        ]
        named: list[tuple[int, int, str]] = []
        for name, length in wanted:
            left = length
            while left > 0 and free:
                low, high = free.pop()
                begin = max(low, high - left)
                named.append((begin, high, name))
                left -= high - begin
                if begin > low:
                    free.append((low, begin))
        named.reverse()
        flush(leg, self.pieces)
        warm = [(low, high, name) for low, high, name in named if name == "warmup"]
        self.pieces[leg.first_piece :] = sorted([*self.pieces[leg.first_piece :], *number(warm, leg.resume, step)])
        windows = joined([(low, high) for low, high, name in named if name == "train"])
        leg.work_begin_us = min((low for low, _, _ in named), default=t)
        open_unit(leg, windows, leg.resume, step, (dur, count), may_stall=False)
        leg.last_step = step
        move_mark(leg, t)

    def _resume_step(self, leg: Leg, row: StepRow, each_dur: int, each_count: int, free_us: int) -> int:
        """Rule 3: the step after which the first record works on."""
        _, step, dur, count = row
        if leg.told is not None:
            beyond = step - leg.told - count
            needed = 0 if dur < 0 else (dur + beyond * each_dur // each_count if beyond > 0 else 0)
            if leg.told < step and needed <= free_us:
                return leg.told
            leg.disbelieved = True
        elif leg.saved_first is not None and leg.saved_first < step:
            return leg.saved_first
        return max(0, step - count)

    def _further_record(self, leg: Leg, row: StepRow) -> None:
        t, step, dur, count = row
        end_open_save(leg, self.pieces, t - (dur // count if dur > 0 else 0))
        close_unit(leg, self.pieces, self.phases)
        windows = outside(leg.mark_us, t, leg.holes)
        after = leg.last_step
        leg.last_step = max(leg.last_step, step)
        open_unit(leg, windows, after, leg.last_step, (dur, count), may_stall=dur >= 0)
        move_mark(leg, t)

    # -- everything else ---------------------------------------------------------------------------------------------

    def _take_other(self, other: Other, at: int) -> None:
        t_us, _, event = other
        if isinstance(event, RunEnd):
            self.closed_us = t_us
            return
        if isinstance(event, RunStart):
            if self.closed_us is not None:
                self.closed_us = None
                self._forced = True
            return
        if self.closed_us is not None:
            if t_us <= self.closed_us + REOPEN_US or isinstance(event, Rollback):
                self.num_set_aside += 1
                return
            self._open(t_us, fixed=False)
        if isinstance(event, AttemptStart):
            self._take_start(t_us, event)
        elif isinstance(event, Rollback):
            self._take_rollback(t_us, event)
        else:
            self._take_save(event, at)

    def _open(self, begin_us: int, *, fixed: bool) -> Leg:
        """Open a new incarnation."""
        number_of = self.legs[-1].attempt + 1 if self.legs else 0
        if self.legs:
            finish(self.legs[-1], self.pieces, self.phases)
        begin_us = max(0, begin_us)
        leg = Leg(
            number_of,
            begin_us,
            fixed,
            place=len(self.legs),
            mark_us=begin_us,
            last_us=begin_us,
            first_piece=len(self.pieces),
        )
        self.legs.append(leg)
        self.closed_us = None
        self._forced = False
        return leg

    def _current(self, begin_us: int) -> Leg:
        """The leg that goes on, or a new incarnation where none does."""
        if not self.legs or self._forced:
            return self._open(begin_us, fixed=False)
        return self.legs[-1]

    def _is_leads(self, event: AttemptStart) -> bool:
        return event.rank is None or self.lead is None or event.rank <= self.lead

    def _take_start(self, t_us: int, event: AttemptStart) -> None:
        leg = self._current(t_us)
        stepped = any(other.stepped for other in self.legs if other.attempt == leg.attempt)
        if stepped:
            if not self._is_leads(event):
                return
            leg = self._open(t_us, fixed=False)
        rank = NO_RANK if event.rank is None else event.rank
        if not leg.fixed:
            leg.begin_us = min(leg.begin_us, t_us)
        leg.start_us = t_us if leg.start_us is None else min(leg.start_us, t_us)
        if leg.told_rank is None or rank < leg.told_rank:
            leg.told_rank = rank
            if event.resume_step is not None or leg.told is None:
                leg.told = event.resume_step
            if event.world_size is not None or leg.world_size is None:
                leg.world_size = event.world_size

    def _take_rollback(self, t_us: int, event: Rollback) -> None:
        leg = self._current(t_us)
        end_open_save(leg, self.pieces, t_us)
        finish(leg, self.pieces, self.phases)
        leg.end_us = t_us
        self.legs.append(
            Leg(
                leg.attempt,
                t_us,
                fixed=True,
                place=len(self.legs),
                rollback_reason=event.reason or "rollback",
                told=event.to_step,
                world_size=leg.world_size,
                mark_us=t_us,
                last_us=t_us,
                first_piece=len(self.pieces),
                alive_us=leg.alive_us,
                one_dur=leg.one_dur,
                one_count=leg.one_count,
            )
        )

    def _take_save(self, save: Save, at: int) -> None:
        leg = self._current(save.begin_us)
        begin = save.begin_us
        if not leg.fixed and not leg.stepped:
            leg.begin_us = min(leg.begin_us, begin)
        end_open_save(leg, self.pieces, begin)
        if not leg.stepped:
            leg.saved_first = save.step
        elif save.step >= leg.last_step:
            self._own_until_save(leg, save)
        flush(leg, self.pieces)
        end, name = self._end_of(save, leg, at)
        start = max(begin, *(hole[1] for hole in leg.holes)) if leg.holes else begin
        if end > start:
            self.pieces.append((start, end, name, leg.last_step, leg.last_step, 0, 0))
        if end > leg.mark_us:
            leg.holes = (*leg.holes, (begin, end))
        leg.last_us = max(leg.last_us, begin if end == FAR else end)

    def _end_of(self, save: Save, leg: Leg, at: int) -> tuple[int, str]:
        """Rule 4: where its blocking part ends, and whether it came to anything."""
        name = "aborted" if save.outcome == "failed" else "save"
        if save.end_us is not None and not (save.outcome == "failed" and save.mode == "async"):
            return save.end_us, name
        following = self.steps[at] if at < len(self.steps) else None
        if following is None or following[1] <= leg.record_step or self._opens_between(save.begin_us, following[0]):
            return (FAR, "aborted") if save.end_us is None else (save.end_us, name)
        t, _, dur, count = following
        end = max(save.begin_us, t - (dur // count if dur > 0 else 0))
        return end if save.end_us is None else min(end, save.end_us), name

    def _own_until_save(self, leg: Leg, save: Save) -> None:
        """The time between the last record and this save: that step's, or the steps' that the save proves."""
        windows = outside(leg.mark_us, save.begin_us, leg.holes)
        if save.step > leg.last_step:
            close_unit(leg, self.pieces, self.phases)
            row = (leg.one_dur, leg.one_count)
            open_unit(leg, windows, leg.last_step, save.step, row, may_stall=leg.one_dur >= 0)
            leg.last_step = save.step
        else:
            leg.unit = joined([*leg.unit, *windows])
        move_mark(leg, save.begin_us)
