"""The first adapters' logs, damaged at random: no exception, no event that can't be kept, no run from nothing."""

from __future__ import annotations

import json
import random

import damaged_logs
import megatron_lines_made_up as megatron
import pytest
import samples_b
from adapter_runs import START, steps
from tachograph_agent.events import RunStart, decode, encode
from tachograph_agent.trainers import registry
from tachograph_agent.trainers.base import Context


def mlperf(at_s: float, key: str, value: object = None, **metadata: object) -> str:
    told = {"namespace": "", "time_ms": round((START + at_s) * 1000), "event_type": "POINT_IN_TIME", "key": key}
    return ":::MLLOG " + json.dumps({**told, "value": value, "metadata": {"file": "train.py", **metadata}}) + "\n"


SAMPLES = {
    "torchtitan": samples_b.TORCHTITAN,
    "torchtitan-trace": samples_b.trace(),
    "nanogpt": samples_b.NANOGPT,
    "llmc": samples_b.LLMC,
    "modded-nanogpt": samples_b.MODDED,
    "deepspeed": samples_b.DEEPSPEED,
    "detectron2": samples_b.DETECTRON2,
    "hf-console": samples_b.HF_CONSOLE,
    "hf-state": samples_b.hf_state(),
    "megatron": "\n".join(
        [
            megatron.mark("before the start of training step", 0),
            megatron.record(1, 20.0, ms=15_000.0),
            megatron.record(10, 38.0),
            megatron.SAVING.format(10),
            megatron.SAVED.format(10),
            megatron.record(20, 60.0, loss=None, nans=1),
            megatron.LOADED.format(10),
            megatron.record(20, 200.0),
            megatron.EVALUATED.format(20),
            megatron.mark("after training is done", 230),
        ]
    ),
    "megatron-progress": (
        "2030-01-02 03:00:00\tJob ID: 11\t# GPUs: 64\tStarting job\n"
        "2030-01-02 03:33:20\tJob ID: 11\t# GPUs: 64\tSaved checkpoint\tIteration: 100\tJob throughput: 400.0\n"
        "2030-01-02 04:20:00\tJob ID: 12\t# GPUs: 64\tStarting job\n"
        "2030-01-02 04:50:00\tJob ID: 12\t# GPUs: 64\tSaved checkpoint\tIteration: 300\tJob throughput: 400.0\n"
    ),
    "mlperf": (
        mlperf(0, "init_start")
        + mlperf(10, "global_batch_size", 8)
        + mlperf(100, "run_start")
        + mlperf(112, "tracked_stats", {"train_step_timing": 11.5}, step=800)
        + mlperf(123, "tracked_stats", {"train_step_timing": 11.0}, step=1600)
        + mlperf(134, "eval_start", epoch_num=2400)
        + mlperf(144, "eval_stop", epoch_num=2400)
        + mlperf(200, "run_stop", status="success")
    ),
    "failures": (
        "[rank3]:[E201 10:42:12.500000000 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=812, OpType=ALLGATHER, NumelIn=10, Timeout(ms)=600000) ran for 600025 milliseconds "
        "before timing out.\n"
        "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:\n"
        "  restart_count=1\n  global_world_sizes=[16, 16]\n"
        "[Fri Feb  1 10:50:00 2030] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
    ),
}
LENDERS = list(SAMPLES.values())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_log_gives_events_that_can_be_kept_and_never_far_more_steps_than_lines(name: str) -> None:
    adapter = registry.adapters()[name]
    for text in damaged_logs.damaged(LENDERS, list(SAMPLES).index(name), damaged_logs.NUM_DAMAGED):
        lines = text.replace("\r", "\n").split("\n")
        assert 0.0 <= adapter.sniff(text) <= 1.0
        events = list(adapter.read(lines, Context(run="r7")))
        if name != "hf-state":  # one line may hold the whole JSON
            assert len(steps(events)) <= 2 * len(lines)
        if steps(events):
            assert any(isinstance(event, RunStart) for event in events)
        for event in events:
            assert decode(encode(event)).kind == event.kind


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_and_shuffled_letters_of_it_are_not(name: str) -> None:
    choose = random.Random(7)
    assert registry.recognise(SAMPLES[name].encode()) == name
    for _ in range(5):
        letters = list(SAMPLES[name])
        choose.shuffle(letters)
        assert registry.recognise("".join(letters).encode()) is None
