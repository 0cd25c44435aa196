"""Numbers that no trainer means, in every place of every log: no reader raises, and what it gives can be stored."""

from __future__ import annotations

import random
import re

import pytest
import samples_b
from tachograph_agent.events import decode, encode
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.base import Context

MISPRINTS = (
    "nan", "inf", "-inf", "-1", "0", "", "1,000", "0x10", "1e400", "1e-400", "-0.0", "9223372036854775808",
    "253402300799", "18446744073709551616", "7" * 5000, "0." + "3" * 5000, "\u0663", "1.2.3", "1900000000000000000",
)  # fmt: skip
LOGS = {
    **{name.lower(): text for name, text in vars(samples_b).items() if name.isupper() and isinstance(text, str)},
    "mlperf": "\n".join(
        f':::MLLOG {{"time_ms": {1_900_000_000_000 + 1000 * n}, "key": "{key}", "value": {value}, "metadata": {{}}}}'
        for n, (key, value) in enumerate(
            [("init_start", "null"), ("init_stop", "null"), ("run_start", "null"), ("global_batch_size", "8")]
            + [("tracked_stats", '{"train_step_timing": 1.0}'), ("eval_start", "null"), ("eval_stop", "null")] * 3
            + [("run_stop", "null")]
        )
    ),
    "detectron2": "\n".join(
        f"[01/02 03:04:{n:02d}] d2.utils.events INFO:  eta: 0:00:09  iter: {20 * n - 1}  total_loss: 2.5  time: 0.05"
        for n in range(1, 9)
    ),
    "megatron": "\n".join(
        f" [2030-01-02 03:04:{n:02d}.678901] iteration {10 * n:8d}/    5000 | consumed samples: {1280 * n:12d} | "
        f"elapsed time per iteration (ms): 100.5 | global batch size: 128 | lm loss: 2.345678E+00 | grad norm: 0.512 |"
        for n in range(1, 9)
    ),
    "watchdog": (
        "[E ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600013 milliseconds before timing out."
    ),
}


def test_the_logs_here_are_of_every_kind() -> None:
    assert {"torchtitan", "nanogpt", "llmc", "modded", "deepspeed", "hf_console"} <= LOGS.keys()


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_misprinted_number_never_makes_a_reader_raise_or_give_what_can_not_be_stored(name: str) -> None:
    chance = random.Random(name)
    text = LOGS[name]
    places = list(re.finditer(r"-?\d[\d.,]*", text))
    for _ in range(120):
        damaged = text
        for place in sorted(chance.sample(places, min(3, len(places))), key=lambda found: -found.start()):
            damaged = damaged[: place.start()] + chance.choice(MISPRINTS) + damaged[place.end() :]
        for adapter in registry.adapters().values():
            adapter.sniff(damaged)
            for event in adapter.read(damaged.split("\n"), Context(run="r")):
                assert decode(encode(event)).kind == event.kind
