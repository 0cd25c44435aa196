"""Made-up logs of the formats that are tables, and of NeMo, one each as their writers would have written them."""

from __future__ import annotations

LIGHTNING = """\
epoch,epoch_time,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss
0,,,9,,5.5,
0,,0.001,9,,,
0,,,19,,5.1,
0,,,24,,,4.9
0,50.0,,24,5.2,,
1,,,29,,4.5,
1,,,39,,4.1,
1,,,49,,,3.9
1,25.0,,49,4.2,,
"""

KERAS = """\
epoch,accuracy,loss,val_accuracy,val_loss
0,0.11,2.31,0.12,2.28
1,0.17,2.18,0.19,2.11
epoch,accuracy,loss,val_accuracy,val_loss
2,0.21,2.05,0.22,2.01
3,0.25,1.95,0.26,1.92
"""

WORKERS = """\
,worker,gpu,time,batch_time_ms
0,0,25,0,400
1,1,25,0,410
2,2,25,0,390
3,0,25,20,405
4,1,25,20,900
5,2,25,20,395
6,0,25,40,400
7,1,25,40,410
8,2,25,40,390
"""


def nemo2(first: int = 0, last: int = 50, seconds: float = 2.0, loss: float = 9.0) -> str:
    """A line every ten steps, as one start of the trainer prints them."""
    return "".join(
        f"Training epoch 0, iteration {step - first}/999 | lr: 3e-05 | global_batch_size: 256 | global_step: {step} | "
        f"reduced_train_loss: {loss - step / 100:.3f} | train_step_timing in s: {seconds} | "
        f"consumed_samples: {256 * (step + 1)} | val_loss: 8.5\n"
        for step in range(first, last, 10)
    )


NEMO_2 = (
    nemo2(0, 20)
    + "[NeMo I 2030-01-02 03:04:05 callbacks:39] Global Checkpoint Save : Rank: 0 : Iteration: 11 : Start time: "
    "1900000000.000s : Save duration: 5.500s\n" + nemo2(20, 50) + nemo2(11, 42, loss=8.9)
)


def nemo1(first: int = 0, last: int = 20, began_s: int = 30, every_s: int = 3) -> str:
    """A progress bar, drawn twice a step: once with the values of the step before it."""
    drawn = []
    for step in range(first, last):
        for shown in (max(first, step - 1), step):
            seconds = began_s + (step - first) * every_s
            drawn.append(
                f"Epoch 0: :   1%|1         | {step}/999 [{seconds // 60:02d}:{seconds % 60:02d}<1:23:45, v_num=ab-1, "
                f"reduced_train_loss={9.0 - shown / 100:.2f}, global_step={float(shown)}, consumed_samples=3328.0, "
                f"train_step_timing in s={every_s - 0.1:.2f}, val_loss=8.50]"
            )
    return "\r".join(drawn) + "\n"


NEMO_1 = nemo1()
