"""Made-up logs of more trainers and launchers, one of each format, as they would have been written."""

from __future__ import annotations

import json
from typing import Any

MMENGINE = """\
2030/01/02 03:00:00 - mmengine - INFO -
------------------------------------------------------------
System environment:
    sys.platform: linux
2030/01/02 03:00:30 - mmengine - INFO - Checkpoints will be saved to /made/up/work_dirs.
2030/01/02 03:00:50 - mmengine - INFO - Epoch(train)  [1][10/20]  lr: 1.0e-04  eta: 0:01:00  time: 2.0000  data_time: \
0.0100  memory: 1000  loss: 3.5000  grad_norm: 2.0000
2030/01/02 03:01:10 - mmengine - INFO - Epoch(train)  [1][20/20]  lr: 1.0e-04  eta: 0:00:40  time: 2.0000  data_time: \
0.0100  memory: 1000  loss: 3.0000  grad_norm: nan
2030/01/02 03:01:10 - mmengine - INFO - Saving checkpoint at 1 epochs
2030/01/02 03:01:26 - mmengine - INFO - Epoch(val) [1][10/10]    accuracy/top1: 50.0000  data_time: 0.1  time: 1.0000
2030/01/02 03:01:46 - mmengine - INFO - Epoch(train)  [2][10/20]  lr: 1.0e-04  eta: 0:00:20  time: 2.0000  data_time: \
0.0100  memory: 1000  loss: 2.5000  grad_norm: 1.5000
RuntimeError: CUDA error: an illegal memory access was encountered
2030/01/02 03:10:00 - mmengine - INFO -
------------------------------------------------------------
System environment:
2030/01/02 03:10:20 - mmengine - INFO - resumed epoch: 1, iter: 20
2030/01/02 03:10:30 - mmengine - INFO - Checkpoints will be saved to /made/up/work_dirs.
2030/01/02 03:10:52 - mmengine - INFO - Epoch(train)  [2][10/20]  lr: 1.0e-04  eta: 0:00:20  time: 2.1000  data_time: \
0.0100  memory: 1000  loss: 2.4000  grad_norm: 1.5000
"""

MMCV = """\
2029-05-06 07:00:00,100 - mmdet - INFO - Epoch [1][50/100]\tlr: 1.0e-03, eta: 1:00:00, time: 0.500, data_time: 0.050, \
memory: 3000, loss_cls: 0.5, loss: 1.5, grad_norm: 5.0
2029-05-06 07:00:25,100 - mmdet - INFO - Epoch [1][100/100]\tlr: 1.0e-03, eta: 0:59:00, time: 0.500, data_time: 0.050, \
memory: 3000, loss_cls: 0.5, loss: 1.4, grad_norm: 5.0
2029-05-06 07:00:55,100 - mmdet - INFO - Epoch [2][50/100]\tlr: 1.0e-03, eta: 0:58:00, time: 0.600, data_time: 0.050, \
memory: 3000, loss_cls: 0.5, loss: 1.3, grad_norm: 5.0
"""

MMENGINE_SCALARS = "\n".join(
    json.dumps(record)
    for record in (
        {"lr": 0.1, "data_time": 0.01, "loss": 3.5, "grad_norm": 2.0, "time": 0.5, "epoch": 1, "iter": 50, "step": 50},
        {
            "lr": 0.1,
            "data_time": 0.01,
            "loss": 3.0,
            "grad_norm": 2.0,
            "time": 0.5,
            "epoch": 1,
            "iter": 100,
            "step": 100,
        },
        {"accuracy/top1": 50.0, "data_time": 0.1, "time": 0.2, "step": 1},
        {
            "lr": 0.1,
            "data_time": 0.01,
            "loss": 2.5,
            "grad_norm": 2.0,
            "time": 0.6,
            "epoch": 2,
            "iter": 150,
            "step": 150,
        },
    )
)

FAIRSEQ = """\
2030-01-02 03:00:00 | INFO | fairseq_cli.train | Namespace(arch='made_up')
2030-01-02 03:00:05 | INFO | fairseq.trainer | No existing checkpoint found out/checkpoint_last.pt
2030-01-02 03:00:10 | INFO | fairseq.trainer | begin training epoch 1
2030-01-02 03:00:16 | INFO | train_inner | epoch 001:      1 / 9 loss=9.5, ppl=700, wps=0, ups=0, wpb=2048, \
bsz=16, num_updates=1, lr=1e-06, gnorm=3.1, train_wall=5, wall=16
2030-01-02 03:00:16 | INFO | train_inner | epoch 001:      2 / 9 loss=9.4, ppl=690, wps=9000, ups=4, wpb=2048, \
bsz=16, num_updates=2, lr=2e-06, gnorm=3.0, train_wall=0, wall=16
2030-01-02 03:00:16 | INFO | train_inner | epoch 001:      3 / 9 loss=9.3, ppl=680, wps=9000, ups=4, wpb=2048, \
bsz=16, num_updates=3, lr=3e-06, gnorm=2.9, train_wall=0, wall=16
2030-01-02 03:00:20 | INFO | fairseq_cli.train | begin validation on "valid" subset
2030-01-02 03:00:26 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.2 | ppl 670 | num_updates 3
2030-01-02 03:00:26 | INFO | fairseq.checkpoint_utils | Preparing to save checkpoint for epoch 1 @ 3 updates
2030-01-02 03:00:30 | INFO | fairseq.checkpoint_utils | Saved checkpoint out/checkpoint1.pt (epoch 1 @ 3 updates, \
score 9.2) (writing took 3.5 seconds)
2030-01-02 03:00:30 | INFO | fairseq.trainer | begin training epoch 2
2030-01-02 03:00:31 | INFO | train_inner | {"epoch": 2, "update": 1.1, "loss": "9.1", "ups": "2", "num_updates": "5", \
"gnorm": "2.8", "wall": "31"}
2030-01-02 03:00:40 | INFO | fairseq_cli.train | done training in 30.0 seconds
2030-01-02 03:0"""


def llamafactory(*records: tuple[int, str, dict[str, Any]]) -> str:
    return "\n".join(
        json.dumps({"current_steps": step, "total_steps": 100, "lr": 1e-5, "elapsed_time": elapsed, **more})
        for step, elapsed, more in records
    )


LLAMAFACTORY = llamafactory(
    (10, "0:00:20", {"loss": 2.5, "total_tokens": 1000}),
    (20, "0:00:40", {"loss": 2.4, "total_tokens": 2000}),
    (20, "0:00:50", {"eval_loss": 2.3}),
    (30, "0:01:10", {"loss": 2.2, "total_tokens": 3000}),
    (40, "0:00:20", {"loss": 2.1, "total_tokens": 4000, "throughput": 99999.0}),
    (50, "0:00:40", {"loss": 2.0, "total_tokens": 5000}),
)

OLMO = """\
2030-01-02 03:00:00.000\tnode-1:0\tolmo_core.train.trainer:737\tINFO\tTraining for 5,000 steps
2030-01-02 03:00:10.000\tnode-1:0\tolmo_core.train.callbacks.console_logger:71\tINFO\t[step=1/5000,epoch=1,eta=2 hours]
    optim/total grad norm=3.500
    train/CE loss=10.50
    throughput/device/TPS=1,234
2030-01-02 03:00:12.000\tnode-1:0\tolmo_core.train.callbacks.console_logger:71\tINFO\t[step=2/5000,epoch=1,eta=2 hours]
    optim/total grad norm=3.400
    train/CE loss=10.40
2030-01-02 03:00:12.500\tnode-1:0\tolmo_core.train.trainer:1177\tINFO\tSaving checkpoint for step 2 to 'out/step2'...
2030-01-02 03:00:20.500\tnode-1:0\tolmo_core.train.trainer:1197\tINFO\tCheckpoint saved
2030-01-02 03:00:22.500\tnode-1:0\tolmo_core.train.callbacks.console_logger:71\tINFO\t[step=3/5000,epoch=1,eta=2 hours]
    train/CE loss=10.30
2030-01-02 03:00:23.000\tnode-1:0\tolmo_core.train.trainer:1215\tINFO\tSaving checkpoint for step 3 to 'out/step3' \
asynchronously...
2030-01-02 03:00:24.500\tnode-1:0\tolmo_core.train.callbacks.console_logger:71\tINFO\t[step=4/5000,epoch=1,eta=2 hours]
    train/CE loss=10.20
2030-01-02 03:00:30.000\tnode-1:0\tolmo_core.train.trainer:1238\tINFO\tCheckpoint for step 3 saved successfully
2030-01-02 03:00:31.000\tnode-1:0\tolmo_core.train.trainer:1106\tINFO\tLoading checkpoint from 'out/step3'...
2030-01-02 03:00:40.000\tnode-1:0\tolmo_core.train.trainer:737\tINFO\tTraining for 5,000 steps
2030-01-02 03:00:43.000\tnode-1:0\tolmo_core.train.callbacks.console_logger:71\tINFO\t[step=4/5000,epoch=1,eta=2 hours]
    train/CE loss=10.21
2030-01-02 03:00:50.000\tnode-1:0\tolmo_core.train.trainer:782\tINFO\tTraining complete
"""

COMPOSER = "".join(
    f"[epoch=1][batch={batch}/100]:\n"
    f"\t Train time/epoch: 0\n"
    f"\t Train time/batch: {batch - 1}\n"
    f"\t Train loss/train/total: {10 - batch / 10:.4f}\n"
    f"\t Train throughput/batches_per_sec: 0.2500\n"
    f"\t Train time/train: {batch / 900:.6f}\n"
    f"\t Train time/val: {0.0 if batch < 3 else 0.01:.4f}\n"
    for batch in (1, 2, 3, 4)
)

RETURNN = """\
RETURNN starting up, version 1.0
Starting training at epoch 1, global train step 0
ep 1 train, step 0, ctc 3.5, loss 7.5, num_seqs 10, mem_usage:cuda 5.0GB, 2.500 sec/step, elapsed 0:00:02, \
exp. remaining 0:01:00, complete 3.10%
ep 1 train, step 1, ctc 3.4, loss 7.4, num_seqs 10, mem_usage:cuda 5.0GB, 0.500 sec/step, elapsed 0:00:03, \
exp. remaining 0:01:00, complete 6.10%
Save model under out/epoch.001
ep 1 dev eval, step 0, ctc 3.3, loss 7.2, num_seqs 10, 1.000 sec/step, elapsed 0:00:01, exp. remaining 0:00:01
ep 1 dev eval, step 1, ctc 3.3, loss 7.2, num_seqs 10, 1.000 sec/step, elapsed 0:00:02, exp. remaining 0:00:00
ep 2 train, step 0, ctc 3.3, loss 7.3, num_seqs 10, mem_usage:cuda 5.0GB, 0.500 sec/step, elapsed 0:00:00, \
exp. remaining 0:01:00, complete 3.10%
ep 2 train, step 1, ctc 3.2, loss nan, num_seqs 10, mem_usage:cuda 5.0GB, 0.500 sec/step, elapsed 0:00:01, \
exp. remaining 0:01:00, complete 6.10%
Finished training at epoch 2, global train step 4
"""


def span(kind: str, name: str, number: str, start_ms: int | None, stop_ms: int | None = None, **attributes: Any) -> str:
    record: dict[str, Any] = {"type": kind, "id": number, "name": name, "attributes": attributes, "count": 1, "pid": 7}
    for key, at_ms in (("start_event", start_ms), ("stop_event", stop_ms)):
        if at_ms is not None:
            record[key] = {"name": key, "attributes": {"timestamp_msec": at_ms}}
    return json.dumps(record, separators=(",", ":"))


def told(name: str, at_ms: int, kind: str = "event", **attributes: Any) -> str:
    event = {"name": name, "attributes": {"timestamp_msec": at_ms, **attributes}}
    return json.dumps({"type": kind, "span_id": "s2", "event": event, "count": 1, "pid": 7}, separators=(",", ":"))


BEGIN_MS = 1_900_000_000_000
ONE_LOGGER = "\n".join(
    [
        span("start", "application", "s1", BEGIN_MS),
        span("complete", "checkpoint_load", "s3", BEGIN_MS + 5000, BEGIN_MS + 15_000),
        span(
            "start", "training_loop", "s2", BEGIN_MS + 20_000, train_iterations_start=100, train_iterations_target=120
        ),
        told("training_metrics_update", BEGIN_MS + 45_000, current_iteration=110, total_iteration_time_sec=20.0),
        span("complete", "checkpoint_save_sync", "s4", BEGIN_MS + 45_000, BEGIN_MS + 49_000, current_iteration=110),
        span("complete", "validation_loop", "s5", BEGIN_MS + 49_000, BEGIN_MS + 55_000),
        told(
            "training_metrics_update",
            BEGIN_MS + 75_000,
            current_iteration=120,
            total_iteration_time_sec=40.0,
            latest_loss=2.5,
        ),
        span("stop", "training_loop", "s2", None, BEGIN_MS + 76_000),
        span("stop", "application", "s1", None, BEGIN_MS + 77_000),
    ]
)


def elastic(state: str, rank: int | None, run_s: int, restarts: int, source: str = "WORKER", **more: Any) -> str:
    inner = json.dumps({"group_world_size": 1, "role_world_size": [8]})
    metadata = {"run_id": "j", "global_rank": rank, "hostname": "node-1", "state": state, "total_run_time": run_s}
    metadata |= {"agent_restarts": restarts, "metadata": inner, **more}
    name = f"torchelastic.{source.lower()}.status.{state}"
    return json.dumps({"name": name, "source": source, "timestamp": 0, "metadata": metadata})


TORCHELASTIC_EVENTS = "\n".join(
    [
        elastic(
            "FAILED", 3, 130, 0, raw_error=json.dumps({"message": {"message": "RuntimeError: CUDA out of memory"}})
        ),
        elastic("FAILED", 5, 131, 0, exit_code=-6),
        elastic("SUCCEEDED", 0, 900, 1),
        elastic("SUCCEEDED", None, 901, 1, source="AGENT"),
    ]
)


def cycle(number: int, start: str, end: str, generation: int = 1) -> str:
    return json.dumps(
        {
            "job_id": "4711",
            "attempt_index": 0,
            "cycle_number": number,
            "cycle_start_time": start,
            "cycle_end_time": end,
            "cycle_log_file": "",
            "active_nodes": "node[1-2]",
            "standby_nodes": "node3",
            "active_ranks": "0-15",
            "generation": generation,
        },
        indent=2,
    )


NVRX = "\n".join(
    [
        cycle(1, "2030-01-02T04:00:00+00:00", ""),
        cycle(0, "2030-01-02T03:00:00+00:00", "", generation=0),
        cycle(0, "2030-01-02T03:00:00+00:00", "2030-01-02T03:58:00+00:00"),
    ]
)

VIEWER = (
    "W0102 03:04:05.678901 77 made_up.py:1] Detected out of order event.step likely caused by a TensorFlow restart. "
    "Purging 5 expired tensor events from Tensorboard display between the previous step: 200 (timestamp: 1900003600.5) "
    "and current step: 100 (timestamp: 1900000000.25).\n"
)
HOROVOD = (
    "[1,2]<stdout>:[[1,3]<stdout>:[2030-01-02 03:04:05.678901: T horovod/common/made_up.cc:1] a response\n"
    "[1,1]<stdout>:[[1,1]<stdout>:2030-01-02 03:04:06. 12345: T horovod/common/made_up.cc:2] [1]: an allreduce\n"
)
GLUED = (
    "[1,0]<stdout>:step: 10 loss: 2.5 took 1.5[1,1]<stdout>:step: 10 loss: 2.5 took 1.5\n"
    "[1,0]<stdout>:step: 20 loss: 2.4 took 1.5[1,1]<stdout>:step: 20 loss: 2.4 took 1.5\n"
    "[1,1]<stdout>:step: 30 loss: 2.3 took 1.5[1,0]<stdout>:step: 30 loss: 2.3 took 1.5\n"
)
FOLDING = """\
23:50:00:WU00:FS00:0x22:Completed 1000 out of 9000 steps (11%)
23:55:00:WU00:FS00:0x22:Completed 2000 out of 9000 steps (22%)
23:58:00:WARNING:WU00:FS00:Detected clock skew (2 mins 30 secs), adjusting time estimates
00:02:30:WU00:FS00:0x22:Completed 3000 out of 9000 steps (33%)
"""
ITERATIONS = """\
2030-01-02 03:00:30,000: Iteration took 30.000 s.
2030-01-02 03:01:00,500: Iteration took 30.400 s.
2030-01-02 03:02:30,000: Iteration took 89.400 s.
2030-01-03 13:00:40,000: Iteration took 40.000 s.
"""
KEY_VALUE = """\
2030-01-02 03:00:00 | global_step=100/900 | train_loss=2.5 | grad_norm=1.5 | lr=1e-4
2030-01-02 03:00:10 | global_step=110/900 | train_loss=2.4 | grad_norm=nan | lr=1e-4
2030-01-02 03:00:12 | global_step=110/900 | val_loss=2.6
2030-01-02 03:00:20 | global_step=120/900 | train_loss=2.3 | grad_norm=1.4 | lr=1e-4
"""

SAMPLES = {
    "mmengine": MMENGINE,
    "mmengine-scalars": MMENGINE_SCALARS,
    "fairseq": FAIRSEQ,
    "llamafactory": LLAMAFACTORY,
    "olmo": OLMO,
    "composer": COMPOSER,
    "returnn": RETURNN,
    "one-logger": ONE_LOGGER,
    "torchelastic-events": TORCHELASTIC_EVENTS,
    "nvrx-cycles": NVRX,
    "tensorboard-viewer": VIEWER,
    "horovod": HOROVOD,
    "folding": FOLDING,
    "iterations": ITERATIONS,
    "key-value": KEY_VALUE,
}
