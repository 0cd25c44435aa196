"""Made-up logs, one of each format, as their trainers would have written them."""

from __future__ import annotations

import json
from typing import Any

TORCHTITAN = """\
[rank0]:[titan] 2030-01-02 03:00:00,000 - root - INFO - Starting job: a made-up one
[rank0]:[titan] 2030-01-02 03:00:20,000 - root - INFO - Training starts at step 1.
[rank0]:[titan] 2030-01-02 03:01:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 10.5000  \
\x1b[35mgrad_norm:  3.1000  \x1b[33mmemory: 41.20GiB(52.10%)  \x1b[34mtps: 123  \x1b[36mmfu: N/A\x1b[39m
[rank1]:[titan] 2030-01-02 03:01:00,010 - root - INFO - step:  1  loss: 10.5000  grad_norm:  3.1000  tps: 123
[rank0]:[titan] 2030-01-02 03:01:10,000 - root - INFO - step: 10  loss:  9.5000  grad_norm:  2.1000  tps: 8,123
[rank1]:[titan] 2030-01-02 03:01:10,010 - root - INFO - step: 10  loss:  9.5000  grad_norm:  2.1000  tps: 8,120
[rank0]:[titan] 2030-01-02 03:01:10,000 - root - INFO - Saving the checkpoint.
[rank0]:[titan] 2030-01-02 03:01:15,000 - root - INFO - Finished saving the checkpoint in 5.00 seconds.
[rank0]:[titan] 2030-01-02 03:01:20,000 - root - INFO - validate step: 10  loss:  9.4000  tps: 9,123
[rank0]:[titan] 2030-01-02 03:01:30,000 - root - INFO - step: 20  loss:  8.5000  grad_norm:  2.1000  tps: 8,123
[rank0]: Traceback (most recent call last):
[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered
[rank0]:[titan] 2030-01-02 03:02:00,000 - root - INFO - Starting job: a made-up one
[rank0]:[titan] 2030-01-02 03:02:10,000 - root - INFO - Loading the checkpoint from out/checkpoint/step-10.
[rank0]:[titan] 2030-01-02 03:02:15,000 - root - INFO - Finished loading the checkpoint in 5.00 seconds.
[rank0]:[titan] 2030-01-02 03:02:20,000 - root - INFO - Training starts at step 11.
[rank0]:[titan] 2030-01-02 03:02:32,000 - root - INFO - step: 20  loss:  8.5100  grad_norm:  nan  tps: 8,123
[rank0]:[titan] 2030-01-02 03:02:35,000 - root - INFO - Saving the checkpoint.
[rank0]:[titan] 2030-01-02 03:02:35,000 - root - INFO - Saving a full checkpoint at last step, step 25.
[rank0]:[titan] 2030-01-02 03:02:39,000 - root - INFO - Last step checkpoint completed in 4.00s
[rank0]:[titan] 2030-01-02 03:02:41,000 - root - INFO - Training completed
"""

NANOGPT = """\
tokens per iteration will be: 1,000
step 0: train loss 10.9000, val loss 10.8000
iter 0: loss 10.9500, time 30000.00ms, mfu -100.00%
iter 10: loss 9.1000, time 250.00ms, mfu 31.20%
iter 20: loss 8.1000, time 250.00ms, mfu 31.20%
step 30: train loss 8.0000, val loss 8.1000
saving checkpoint to out
iter 30: loss 7.9000, time 5250.00ms, mfu 31.20%
iter 40: loss 7.5000, time 250.00ms, mfu 31.20%
Resuming training from out
step 30: train loss 8.0000, val loss 8.1000
iter 30: loss 7.9000, time 9000.00ms, mfu -100.00%
iter 40: loss 7.4000, time 260.00ms, mfu 31.20%
"""

LLMC = """\
step    1/4 | loss 11.0093 (+nanz)| norm 15.3600 (+nanz)| lr 8.57e-07 | 1500.00 ms | 50.0% bf16 MFU | 424318 tok/s
step    2/4 | loss 10.1000 (+0.10z)| norm 9.3600 (-0.20z)| lr 1.71e-06 | 512.50 ms | 51.0% bf16 MFU | 425318 tok/s
val loss 10.050000
Writing checkpoint at step 2
Writing model to out/model_00000002.bin
step    3/4 | loss 9.1000 (+0.10z)| norm 8.3600 (-0.20z)| lr 2.57e-06 | 512.50 ms | 51.0% bf16 MFU | 425318 tok/s
step    4/4 | loss 8.1000 (+0.10z)| norm nan (-0.20z)| lr 3.43e-06 | 512.50 ms | 51.0% bf16 MFU | 425318 tok/s
"""

MODDED = """\
import os
print0(f"step:{step}/{args.num_iterations} train_loss:{loss:.4f} train_time:{t:.0f}ms step_avg:{a:.2f}ms")
step:0/12 val_loss:10.8000 train_time:0ms step_avg:nanms
step:1/12 train_loss:10.8000 train_time:20000ms step_avg:nanms
step:2/12 train_loss:9.9000 train_time:20100ms step_avg:nanms
step:3/12 train_loss:9.1000 train_time:20200ms step_avg:nanms
step:4/12 train_loss:8.9000 train_time:150ms step_avg:nanms
step:5/12 train_loss:8.8000 train_time:300ms step_avg:150.00ms
step:6/12 val_loss:8.7500 train_time:310ms step_avg:155.00ms
step:6/12 train_loss:8.7000 train_time:460ms step_avg:153.33ms
step:12/12 train_loss:8.1000 train_time:1360ms step_avg:151.11ms
step:12/12 val_loss:8.0500 train_time:1400ms step_avg:155.56ms
"""

DEEPSPEED = """\
[2030-01-02 03:00:00,000] [INFO] [comm.py:637:init_distributed] cdb=None
[2030-01-02 03:00:30,500] [INFO] [fused_optimizer.py:362:_update_scale]
Grad overflow on iteration 0
Grad overflow on iteration 0
[2030-01-02 03:00:30,501] [INFO] [logging.py:96:log_dist] [Rank 0] Overflow detected. Skipping step. Attempted loss \
scale: 65536, reducing to 32768.0
[2030-01-02 03:00:40,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, lr=[1e-05], mom=[(0.9, 0.95)]
[2030-01-02 03:00:40,010] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, \
RunningAvgSamplesPerSec=217.5, CurrSamplesPerSec=211.2, MemAllocated=4.34GB, MaxMemAllocated=12.81GB
[2030-01-02 03:00:50,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=1, lr=[1e-05], mom=[(0.9, 0.95)]
[2030-01-02 03:00:50,000] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving out/global_step20/mp_rank_00.pt...
[2030-01-02 03:00:53,000] [INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved out/global_step20/mp_rank_00.pt.
[2030-01-02 03:00:53,000] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step20 is ready now!
[2030-01-02 03:01:03,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=2, lr=[1e-05], mom=[(0.9, 0.95)]
[2030-01-02 03:01:05,000] [ERROR] [launch.py:325:sigkill_handler] ['python'] exits with return code = -9
[2030-01-02 03:01:30,000] [INFO] [comm.py:637:init_distributed] cdb=None
[2030-01-02 03:02:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=1, lr=[1e-05], mom=[(0.9, 0.95)]
[2030-01-02 03:02:10,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=40, skipped=1, lr=[1e-05], mom=[(0.9, 0.95)]
[2030-01-02 03:02:15,000] [INFO] [launch.py:460:main] Process 4242 exits successfully.
[2030-01-02 03:02:16,000] [INFO] [launch.py:460:main] Process 4243 exits successfully.
"""

DETECTRON2 = """\
[03/04 10:00:00] detectron2 INFO: Command line arguments: Namespace(resume=False)
[03/04 10:00:20] d2.engine.train_loop INFO: Starting training from iteration 0
[03/04 10:00:30] d2.utils.events INFO:  eta: 0:00:20  iter: 19  total_loss: 7.5  time: 0.4500  last_time: 0.44  lr: 1e-5
[03/04 10:00:39] d2.utils.events INFO:  eta: 0:00:10  iter: 39  total_loss: 6.5  time: 0.4500  last_time: 0.44  lr: 1e-5
[03/04 10:00:48] fvcore.common.checkpoint INFO: Saving checkpoint to ./out/model_final.pth
[03/04 10:00:48] d2.utils.events INFO:  eta: 0:00:00  iter: 59  total_loss: 5.5  time: 0.4500  last_time: 0.44  lr: 1e-5
[03/04 10:00:49] d2.engine.hooks INFO: Total training time: 0:00:28 (0:00:00 on hooks)
[03/04 10:00:50] d2.evaluation.evaluator INFO: Start inference on 6 batches
[03/04 10:00:54] d2.evaluation.coco_evaluation INFO: Evaluation results for bbox:
[03/04 10:05:00] detectron2 INFO: Command line arguments: Namespace(resume=False)
[03/04 10:05:20] d2.engine.train_loop INFO: Starting training from iteration 0
[03/04 10:05:30] d2.utils.events INFO:  eta: 0:00:20  iter: 19  total_loss: 8.5  time: 0.4500  last_time: 0.44  lr: 1e-5
[03/04 10:05:35] d2.utils.events INFO:  eta: 0:00:20  iter: 29  total_loss: 8.1  time: 0.4500  last_time: 0.44  lr: 1e-5
[03/04 10:05:35] d2.engine.hooks INFO: Total training time: 0:00:15 (0:00:00 on hooks)
[03/04 10:06:00] detectron2 INFO: Command line arguments: Namespace(resume=False)
[03/04 10:06:20] d2.engine.train_loop INFO: Starting training from iteration 0
[03/04 10:06:30] d2.utils.events INFO:  eta: 0:00:20  iter: 19  total_loss: 8.4  time: 0.4500  last_time: 0.44  lr: 1e-5
[03/04 10:06:30] fvcore.common.checkpoint INFO: Saving checkpoint to ./out/model_0000019.pth
[03/04 10:06:42] d2.utils.events INFO:  eta: 0:00:10  iter: 39  total_loss: 7.4  time: 0.4500  last_time: 0.44  lr: 1e-5
"""

HF_CONSOLE = """\
  1%|          | 10/1000 [00:05<08:15,  2.00it/s]
{'loss': 2.3100, 'grad_norm': 0.9, 'learning_rate': 1e-05, 'epoch': 0.12}
  2%|2 | 20/1000 [00:10<08:10,  2.00it/s]{'loss': '0.0', 'grad_norm': 'nan', 'learning_rate': 1e-05, 'epoch': 0.12}
{'eval_loss': 2.2, 'eval_runtime': 8.0, 'eval_samples_per_second': 10.1, 'epoch': 0.12}
{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.12} \n"""


def hf_state(**more: Any) -> str:
    history = [
        {"epoch": 0, "eval_a_loss": 9.1, "eval_a_runtime": 4.0, "step": 0},
        {"epoch": 0.1, "grad_norm": 1.1, "learning_rate": 1e-05, "loss": 2.31, "step": 100},
        {"epoch": 0.1, "eval_a_loss": 2.2, "eval_a_runtime": 8.0, "step": 100},
        {"epoch": 0.1, "eval_b_loss": 2.3, "eval_b_runtime": 6.0, "step": 100},
        {"epoch": 0.2, "grad_norm": float("nan"), "learning_rate": 1e-05, "loss": 2.21, "step": 200},
    ]
    state: dict[str, Any] = {"epoch": 0.2, "global_step": 200, "log_history": history, "max_steps": 400}
    state.update(more)
    return json.dumps(state, indent=2)


def trace(rank: int = 0, first: int = 41, loaded: int = 40, unit: float = 1000.0) -> str:
    """Two steps of one rank, the second with a save of 3 s and an evaluation of 2 s in its span."""
    out: list[dict[str, Any]] = []
    now = [1_900_000_000.0 + rank * 0.001]

    def say(name: str, step: int | None, took_s: float | None = None, tags: tuple[str, ...] = (), **more: Any) -> None:
        record: dict[str, Any] = {"rank": rank, "source": "training", "host_name": f"node-{rank}"}
        if step is not None:
            record |= {"step": step, "relative_step": step - loaded}
        if tags:
            record["step_tags"] = list(tags)
        record |= {"time_us": round(now[0] * 1e6), "log_type": "event", "log_type_name": name, "seq_id": len(out)}
        if took_s is not None:
            record["value"] = took_s * unit
        out.append(record | more)

    def span(name: str, step: int | None, dur_s: float, tags: tuple[str, ...] = ()) -> None:
        say(f"{name}_start", step)
        now[0] += dur_s
        say(f"{name}_end", step, dur_s, tags)

    say("training_start", None)
    span("checkpoint_load", None, 10.0)
    for step in (first, first + 1):
        began = now[0]
        say("step_start", step)
        span("fetching_batch", step, 0.1)
        span("fetching_batch", step, 0.1)
        span("fwd_bwd", step, 0.6)
        span("optim", step, 0.2)
        say("metric_value", step, event_name="train.loss", value=2.5)
        if step == first:
            span("checkpoint_save", step, 0.0001)
        else:
            span("checkpoint_save", step, 3.0, ("checkpoint_save",))
            span("eval", step, 2.0, ("checkpoint_save", "eval"))
        say("step_end", step, now[0] - began)
    return "".join(json.dumps(record) + "\n" for record in out)
