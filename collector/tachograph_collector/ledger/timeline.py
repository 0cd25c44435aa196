"""The run's time without holes: which account, which sub-account, through whose fault (rules 5, 6, 9)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from tachograph_agent.events import TRAINING_PHASES, microseconds

from tachograph_collector.ledger.books import Segment
from tachograph_collector.ledger.gpus import Allocations
from tachograph_collector.ledger.legs import FAR, SAVES, WORK, Leg, Piece
from tachograph_collector.ledger.outline import Generation, Lineage, Outing, Verdict, cause_of
from tachograph_collector.ledger.phases import Interval, PhaseBook
from tachograph_collector.ledger.stretch import stall_us
from tachograph_collector.ledger.track import Track


class Timeline:
    """Resolves one generation's time from ``since_us`` on into segments."""

    def __init__(self, generation: Generation, verdict: Verdict, phases: PhaseBook, allocations: Allocations) -> None:
        self._generation = generation
        self._phases = phases
        self._allocations = allocations
        self._lineages: dict[int, list[Lineage]] = {}
        for lineage in verdict.lineages:
            self._lineages.setdefault(lineage.outing, []).append(lineage)

    def segments(self, since_us: int) -> Iterator[Segment]:
        """All segments that end after ``since_us``, in order, the first cut there."""
        for segment in self._all(since_us):
            if segment.end_us > since_us:
                yield segment if segment.start_us >= since_us else _clip(segment, since_us)

    def _all(self, since_us: int) -> Iterator[Segment]:
        outings = self._generation.outings
        at = 0
        for number, span in enumerate(self._generation.spans):
            if span.end_us <= since_us:
                while at < len(outings) and outings[at].span == number:
                    at += 1
                continue
            position = span.start_us
            before: Outing | None = None
            while at < len(outings) and outings[at].span == number:
                outing = outings[at]
                if outing.end_us > since_us:
                    yield from self._before(at, before, position, outing)
                    yield from self._outing(at, max(position, outing.begin_us), since_us)
                position = max(position, outing.end_us)
                before = outing
                at += 1
            if position < span.end_us:
                yield from self._restart(position, span.end_us, self._after_last(before, span.status), at - 1)

    def _after_last(self, last: Outing | None, status: str) -> str:
        if last is None:
            return "startup"
        if status == "running":
            return {"failure": "replace", "planned": "planned"}.get(last.how, "other")
        return "shutdown"

    def _before(self, index: int, before: Outing | None, position: int, outing: Outing) -> Iterator[Segment]:
        """From the end of the attempt before to this one's start."""
        if outing.begin_us > position:
            how = before.how if before is not None else "startup"
            sub = {"failure": "replace", "planned": "planned", "startup": "startup"}.get(how, "other")
            yield from self._restart(position, outing.begin_us, sub, index - 1 if before else index)

    def _outing(self, index: int, position: int, since_us: int) -> Iterator[Segment]:
        outing = self._generation.outings[index]
        waiting = "startup" if index == 0 or self._generation.outings[index - 1].span != outing.span else "reload"
        start_us = outing.start_us
        pieces = outing.track.pieces
        lineages = self._lineages[index]
        for place, lineage in enumerate(lineages):
            leg = lineage.leg
            last_leg = place + 1 == len(lineages)
            end_us = outing.end_us if last_leg else min(lineages[place + 1].leg.begin_us, outing.end_us)
            low = leg.first_piece
            high = outing.last_piece if last_leg else lineages[place + 1].leg.first_piece
            if end_us <= since_us:
                position = max(position, end_us)
                continue
            # Pieces are in time order and disjoint: those that end before ``since_us`` need no look. The tail is
            # looked at whole, since what was in flight comes first in it.
            known_us = min(since_us, leg.mark_us)
            first = max(low, bisect_left(pieces, known_us, low, high, key=_piece_start) - 1)
            if first > low:
                position = max(position, pieces[first][0])
            tail: list[tuple[int, int]] = []
            late: list[Segment] = []
            for piece in pieces[first:high]:
                start, end = max(piece[0], position), min(piece[1], end_us)
                if start > end_us:
                    break
                if start > position:
                    before = min(start, leg.mark_us) if leg.stepped else start
                    yield from self._gap(position, before, start_us, waiting, index)
                    position = max(position, before)
                    if start > position:
                        tail.append((position, start))
                    position = start
                if end > start:
                    segments = self._piece(piece, start, end, lineage, outing, index)
                    if tail:
                        # A save in the tail: what was in flight, and when, is only known at the tail's end.
                        late.extend(segments)
                    else:
                        yield from segments
                    position = end
            before = min(end_us, leg.mark_us) if leg.stepped else end_us
            yield from self._gap(position, before, start_us, waiting, index)
            position = max(position, before)
            if position < end_us:
                tail.append((position, end_us))
                position = end_us
            if leg.stepped:
                rest = self._tail(tail, lineage, outing, index, last_leg=last_leg)
                yield from sorted([*late, *rest], key=_segment_start)
            waiting, start_us = "reload", None

    def _gap(self, low: int, high: int, start_us: int | None, waiting: str, index: int) -> Iterator[Segment]:
        """Time of an attempt before its first work."""
        if start_us is not None and low < start_us < high and waiting == "reload":
            yield from self._restart(low, start_us, "replace", index)
            low = start_us
        yield from self._restart(low, high, waiting, index)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _piece(
        self, piece: Piece, start: int, end: int, lineage: Lineage, outing: Outing, index: int
    ) -> Iterator[Segment]:
        name = piece[2]
        if name in SAVES:
            if piece[1] == FAR and outing.how == "running":
                name = "save"  # it may still be saved
            yield Segment(start, end, "checkpoint", name, index)
        elif name not in WORK:
            yield from self._restart(start, end, name, index)
        else:
            yield from self._work(piece, start, end, lineage, outing, index)

    def _work(
        self, piece: Piece, start: int, end: int, lineage: Lineage, outing: Outing, index: int
    ) -> Iterator[Segment]:
        """A piece of work: kept up to the last limit, lost beyond each to what set it."""
        name, after, step = piece[2], piece[3], piece[4]
        loss = lineage.losses
        while loss is not None and loss.limit >= step:
            loss = loss.lower
        # From the end back: what lies beyond each limit was lost to it, as far down as the next.
        parts: list[Segment] = []
        until = end
        while loss is not None and until > start:
            cut = min(max(cut_us(outing.track, piece, loss.limit), start), until) if loss.limit > after else start
            if cut < until:
                parts.append(Segment(cut, until, "lost", "rollback", index, loss.cause, loss.by))
            until, loss = cut, loss.lower
        if start < until:
            parts.append(Segment(start, until, "kept", name, index))
        yield from reversed(parts)

    # -- tails -------------------------------------------------------------------------------------------------------

    def _tail(
        self, windows: list[tuple[int, int]], lineage: Lineage, outing: Outing, index: int, *, last_leg: bool
    ) -> Iterator[Segment]:
        """The time after the last step or save of a leg (rule 6)."""
        leg = lineage.leg
        how = outing.how if last_leg else "rollback"
        if how == "running":
            yield from self._running_tail(windows, lineage, index)
            return
        missing = outing.missing if last_leg else 0
        one = leg.one_us
        keep = missing * one
        planned = how in ("planned", "completed")
        flying = 0 if planned else one
        why = cause_of(outing) if last_leg else self._reason(lineage, index)
        by = (index, lineage.number)
        for start, end, name in self._spans(windows):
            if name is not None and name not in TRAINING_PHASES:
                yield from self._restart(start, end, "other", index)
            elif name is not None:
                if planned or keep > 0:
                    step = leg.last_step
                    phase: Piece = (start, end, name, step - 1, step, 0, end - start)
                    yield from self._work(phase, start, end, lineage, outing, index)
                else:
                    yield Segment(start, end, "lost", "in_flight", index, why, by)
            else:
                part = min(keep, end - start)
                if part:
                    done = missing * one - keep
                    proven_piece: Piece = (
                        start, start + part, "train", leg.last_step, leg.last_step + missing, done, missing * one,
                    )  # fmt: skip
                    yield from self._work(proven_piece, start, start + part, lineage, outing, index)
                    keep -= part
                    start += part
                part = min(flying, end - start)
                if part:
                    yield Segment(start, start + part, "lost", "in_flight", index, why, by)
                    flying -= part
                    start += part
                if start < end:
                    yield from self._rest(start, end, how, outing, index)

    def _rest(self, low: int, high: int, how: str, outing: Outing, index: int) -> Iterator[Segment]:
        """What of a tail is no work."""
        at_us = microseconds(outing.cause.t) if outing.cause is not None else high
        if how == "failure" and low < at_us < high:
            yield from self._restart(low, at_us, "detect", index)
            low = at_us
        after = index + 1 < len(self._generation.outings)
        sub = {
            "failure": "detect" if low < at_us else "replace",
            "rollback": "detect",
            "planned": "planned" if after else "shutdown",
            "unexplained": "other",
        }.get(how, "shutdown")
        yield from self._restart(low, high, sub, index)

    def _reason(self, lineage: Lineage, index: int) -> str:
        legs = self._generation.outings[index].legs
        return legs[lineage.number + 1].rollback_reason or "rollback"

    def _running_tail(self, windows: list[tuple[int, int]], lineage: Lineage, index: int) -> Iterator[Segment]:
        leg = lineage.leg
        spans = self._spans(windows, open_phases=True)
        whole = sum(high - low for low, high in windows)
        evaluation = sum(end - start for start, end, name in spans if name == "eval")
        stalled = stall_us(whole, evaluation, leg.one_dur, 1, leg.one_count) if leg.one_dur > 0 else 0
        keep = leg.one_us if stalled else whole
        for start, end, name in spans:
            if name == "eval":
                yield Segment(start, end, "kept", "eval", index)
                continue
            part = min(keep, end - start)
            if part:
                yield Segment(start, start + part, "kept", "data_wait" if name == "data_wait" else "train", index)
                keep -= part
            if start + part < end:
                yield from self._restart(start + part, end, "stall", index)

    def _spans(self, windows: list[tuple[int, int]], *, open_phases: bool = False) -> list[tuple[int, int, str | None]]:
        """The windows cut by the phases in them; None where there is none."""
        return [span for low, high in windows for span in self._spans_in(low, high, open_phases=open_phases)]

    def _spans_in(self, low: int, high: int, *, open_phases: bool) -> list[tuple[int, int, str | None]]:
        phases = [*self._phases.training_in(low, high)]
        if open_phases:
            for name in ("eval", "data_wait"):
                since = self._phases.open_since(low, name)
                if since is not None and since < high and not any(p.end_us > since for p in phases):
                    phases.append(Interval(since, high, name))
                    break
        else:
            covered = phases
            for phase in self._phases.restart_in(low, high):
                if not any(p.start_us < phase.end_us and p.end_us > phase.start_us for p in covered):
                    phases = [*phases, phase]
        spans: list[tuple[int, int, str | None]] = []
        at = low
        for phase in sorted(phases):
            if phase.start_us > at:
                spans.append((at, phase.start_us, None))
            spans.append((max(at, phase.start_us), phase.end_us, phase.name))
            at = phase.end_us
        if at < high:
            spans.append((at, high, None))
        return spans

    # -- restart time ------------------------------------------------------------------------------------------------

    def _restart(self, low: int, high: int, sub: str, index: int) -> Iterator[Segment]:
        """Restart time: queued without an allocation, else by the declared phases, else what it is by its place."""
        if low >= high:
            return
        attempt = max(index, 0)
        edges = [low, *(self._allocations.changes(low, high) if self._allocations.known else ()), high]
        for start, end in pairwise(edges):
            if start >= end:
                continue
            if self._allocations.known and self._allocations.held(start) == 0:
                yield Segment(start, end, "restart", "queued", attempt)
                continue
            at = start
            for phase in self._phases.restart_in(start, end):
                if phase.start_us > at:
                    yield Segment(at, phase.start_us, "restart", sub, attempt)
                name = "warmup" if phase.name == "compile" else phase.name
                yield Segment(phase.start_us, phase.end_us, "restart", name, attempt)
                at = phase.end_us
            if at < end:
                yield Segment(at, end, "restart", sub, attempt)


def beyond_step(leg: Leg, pieces: list[Piece], high: int, step: int) -> int:
    """Where in ``pieces`` the leg's work beyond ``step`` begins; ``high``, where the leg's pieces end, if it has none.

    Saves and stalls carry the steps around them, so that steps never fall within a leg.
    """
    return bisect_left(pieces, step + 1, leg.first_piece, high, key=_piece_step)


def cut_us(track: Track, piece: Piece, step: int) -> int:
    """When ``step`` was done in ``piece``; its start if that was before it."""
    start, end, _, after, last, before, whole = piece
    if step <= after:
        return start
    if whole == 0:
        return track.cut_us(piece, step)
    early = whole * (step - after) // (last - after)
    return start + min(max(early - before, 0), end - start)


def _piece_start(piece: Piece) -> int:
    return piece[0]


def _segment_start(segment: Segment) -> int:
    return segment.start_us


def _piece_step(piece: Piece) -> int:
    return piece[4]


def _clip(segment: Segment, since_us: int) -> Segment:
    return Segment(since_us, *msgspec.structs.astuple(segment)[1:])
