"""No adapter of these claims another's log, nor one of a format that isn't known."""

from __future__ import annotations

import adapter_runs
import pytest
import samples_b
from tachograph_agent.trainers.base import Adapter
from tachograph_agent.trainers.deepspeed import DeepSpeed
from tachograph_agent.trainers.detectron2 import Detectron2
from tachograph_agent.trainers.hf_console import HFConsole
from tachograph_agent.trainers.hf_state import HFTrainerState
from tachograph_agent.trainers.llmc import LLMC
from tachograph_agent.trainers.modded_nanogpt import ModdedNanoGPT
from tachograph_agent.trainers.nanogpt import NanoGPT
from tachograph_agent.trainers.torchtitan import Torchtitan
from tachograph_agent.trainers.torchtitan_trace import TorchtitanTrace

SAMPLES: list[tuple[Adapter, str]] = [
    (Torchtitan(), samples_b.TORCHTITAN),
    (TorchtitanTrace(), samples_b.trace()),
    (NanoGPT(), samples_b.NANOGPT),
    (LLMC(), samples_b.LLMC),
    (ModdedNanoGPT(), samples_b.MODDED),
    (DeepSpeed(), samples_b.DEEPSPEED),
    (Detectron2(), samples_b.DETECTRON2),
    (HFConsole(), samples_b.HF_CONSOLE),
    (HFTrainerState(), samples_b.hf_state()),
]
OTHERS = {
    "megatron": " [2030-01-02 03:04:05.678901] iteration      120/    5000 | consumed samples:    15360 | elapsed time "
    "per iteration (ms): 812.5 | learning rate: 3.0E-04 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 |",
    "mlperf": ':::MLLOG {"time_ms": 1900000000000, "event_type": "INTERVAL_START", "key": "run_start", '
    '"value": null, "metadata": {"step": 0}}',
    "fairseq": "2030-01-02 03:04:05 | INFO | train_inner | epoch 001:    100 / 9999 loss=10.1, ppl=1100, wps=9000, "
    "num_updates=100, lr=1e-05, gnorm=1.1, train_wall=50, wall=60",
    "mmengine": "2030/01/02 03:04:05 - mmengine - INFO - Epoch(train)  [1][50/99]  lr: 1e-3  eta: 0:10:00  time: 0.5  "
    "data_time: 0.01  memory: 1000  loss: 1.1  grad_norm: nan",
    "lightning csv": "epoch,step,train_loss,val_loss\n0,49,2.31,\n0,49,,2.28",
    "nemo": "Training epoch 0, iteration 12/999 | lr: 3e-05 | global_step: 12 | reduced_train_loss: 9.12 | "
    "train_step_timing in s: 3.21 | consumed_samples: 3328",
    "llamafactory": '{"current_steps": 10, "total_steps": 99, "loss": 1.2, "lr": 1e-05, "epoch": 0.1, "elapsed_time": '
    '"0:00:10"}',
    "event log": '{"kind": "step", "t": 1900000000.0, "step": 5, "dur": 1.0, "loss": 2.0, "run": "r7"}',
    "horovod": "[1,0]<stdout>:step: 10 loss: 2.5 took 1.2[1,1]<stdout>:step: 10 loss: 2.5 took 1.2",
}


@pytest.mark.parametrize("adapter", [adapter for adapter, _ in SAMPLES], ids=lambda adapter: adapter.name)
def test_an_adapter_is_sure_of_its_own_log_and_leaves_all_others(adapter: Adapter) -> None:
    for owner, sample in SAMPLES:
        score = adapter.sniff(sample)
        assert (score >= 0.9) if owner is adapter else (score == 0.0), (owner.name, score)
    assert {name: adapter.sniff(sample) for name, sample in OTHERS.items()} == dict.fromkeys(OTHERS, 0.0)


def test_names_and_titles_are_unlike() -> None:
    assert len({adapter.name for adapter, _ in SAMPLES}) == len(SAMPLES)
    assert all(adapter.title for adapter, _ in SAMPLES)


@pytest.mark.parametrize("adapter", [adapter for adapter, _ in SAMPLES], ids=lambda adapter: adapter.name)
def test_reading_anothers_log_by_force_gives_no_step_and_no_exception(adapter: Adapter) -> None:
    for owner, sample in SAMPLES:
        if owner is not adapter:
            events, _ = adapter_runs.read(adapter, sample)
            assert adapter_runs.steps(events) == []


def test_a_duration_that_cannot_be_is_unknown_and_said() -> None:
    events, context = adapter_runs.read(
        NanoGPT(), "iter 0: loss 9.1, time 9.00ms, mfu 3%\niter 5: loss 9.1, time 999999999999.00ms, mfu 3%\n"
    )
    assert [step.dur for step in adapter_runs.steps(events)] == [0.009, None]
    assert any("can't be right" in note for note in context.notes)
