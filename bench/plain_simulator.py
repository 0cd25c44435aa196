"""The simulators' model as a plain loop over failures: what the vectorised ones are compared with, in speed and result.

Written by itself, from the model's description, as one would write it who has no NumPy: whole microseconds, one pass.
It knows what the ladder needs and what decides between designs: blocking and asynchronous saves, both ways of
overrunning an interval, spares with repair, peers with and without the newest snapshot, Weibull gaps and clusters. It
knows neither elastic runs nor corruption.
"""

from __future__ import annotations

import random

from tachograph_collector.model.simulate import Design, Failures


def simulate(design: Design, failures: Failures, *, duration_s: float, num_runs: int, seed: int) -> list[list[int]]:
    """Kept, checkpoint, lost and restart of each run in microseconds."""
    draw = random.Random(seed)
    return [_one(design, failures, round(duration_s * 1e6), draw) for _ in range(num_runs)]


def _one(design: Design, failures: Failures, duration: int, draw: random.Random) -> list[int]:
    interval = round(design.interval_s * 1e6)
    steps = -(-interval // round(design.step_s * 1e6))
    one = round(interval / steps)
    training, blocking, persist = steps * one, round(design.blocking_s * 1e6), round((design.persist_s or 0.0) * 1e6)
    # In rounds after the first a save may still be under way when the next is due.
    further_training, further_blocking = training, blocking
    if persist > training and design.overrun == "skip":
        further_training = -(-persist // training) * training
    elif persist > training:
        further_blocking = blocking + persist - training
    first, further = training + blocking, further_training + further_blocking
    detect, warmup = round(design.detect_s * 1e6), round(design.warmup_s * 1e6)
    replace, reload = round(design.replace_s * 1e6), round(design.reload_s * 1e6)
    peer_reload = reload if design.peer_reload_s is None else round(design.peer_reload_s * 1e6)
    share, newest = design.peer_share, design.peer_holds_newest
    spares = [0] * (design.spares.count if design.spares else 0)
    swap = round(design.spares.swap_s * 1e6) if design.spares else 0
    repair = round(design.spares.repair_s * 1e6) if design.spares else 0
    rate, scale, shape = 1 / failures.scale_s, failures.scale_s, failures.shape
    near, within = failures.cluster_probability, failures.cluster_within_s

    kept = checkpoint = lost = restart = 0
    now = back = 0
    while now < duration:
        if near and draw.random() < near:
            gap_s = draw.random() * within
        elif shape == 1:
            gap_s = draw.expovariate(rate)
        else:
            gap_s = draw.weibullvariate(scale, shape)
        strikes = now + max(1, round(gap_s * 1e6))
        until = min(strikes, duration)
        by_peer = bool(share) and draw.random() < share

        length = until - now - back
        if length < one:
            restart += until - now
        else:
            restart += back
            saves, still, work = 0, 0, 0
            into, whole, pause = length, training, blocking
            if length >= first:
                rounds, into = divmod(length - first, further)
                saves, whole, pause = 1 + rounds, further_training, further_blocking
                still, work = blocking + rounds * pause, training + rounds * whole
            still += max(0, into - whole)
            checkpoint += still
            done = length - still
            if strikes < duration:
                banked = work
                if persist and not (by_peer and newest):
                    landed = length - persist
                    banked = training + (landed - first) // further * whole if saves and landed >= first else 0
                kept += banked
                lost += done - banked
            else:
                kept += done - done % one
                restart += done % one

        now = until
        back = detect + warmup + (peer_reload if by_peer else reload)
        for place, free in enumerate(spares):
            if free <= now + detect:
                spares[place] = now + detect + repair
                back += swap
                break
        else:
            back += replace
    return [kept, checkpoint, lost, restart]
