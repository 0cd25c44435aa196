"""Generated inputs of the figures: an event log of a million steps, and a Megatron log of a month on 1,024 GPUs.

Everything comes from a seeded generator: the same arguments give the same bytes on every machine.
"""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

START_UNIX_SECONDS = 1_893_456_000  # 1 January 2030, so that nobody takes it for a record of a real run

_RECORD = (
    " [{stamp}] iteration {iteration:8d}/ 2000000 | consumed samples: {samples:12d} |"
    " elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
    " learning rate: {rate:.6E} | global batch size: {batch:5d} | lm loss: {loss:.6E} | loss scale: 1.0 |"
    " grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
_BATCH = 2048
_LINE_BYTES = 366


def event_log(
    path: Path,
    *,
    num_steps: int,
    num_restarts: int,
    save_every: int = 1000,
    seed: int = 7,
    start_unix_s: float = START_UNIX_SECONDS,
) -> int:
    """Write a single-rank run with a failure and a restart every ``num_steps / num_restarts`` steps; gives its size.

    Each failure throws away what was done since the last of the synchronous saves; the steps redone count as steps.
    """
    rng = random.Random(seed)
    noise = [rng.random() for _ in range(4096)]
    t = float(start_unix_s)
    attempt, step, saved = 0, 0, 0
    fails_at = {num_steps * (index + 1) // (num_restarts + 1) for index in range(num_restarts)}
    lines = [
        f'{{"kind":"run.start","t":{t:.6f},"run":"bench","gpus":1024,"world_size":1024}}\n',
        f'{{"kind":"attempt.start","t":{t + 60:.6f},"run":"bench","attempt":0,"resume_step":0}}\n',
    ]
    t += 75.0
    with path.open("w", encoding="utf-8") as file:
        for index in range(num_steps):
            dur = 1.9 + 0.2 * noise[index % 4096]
            t += dur
            step += 1
            loss = 2.0 + 8.0 / (1.0 + step * 0.001) + 0.05 * noise[(index * 7) % 4096]
            lines.append(
                f'{{"kind":"step","t":{t:.6f},"run":"bench","attempt":{attempt},"rank":0,"step":{step},'
                f'"dur":{dur:.6f},"loss":{loss:.6f},"grad_norm":{0.4 + noise[(index * 3) % 4096]:.4f}}}\n'
            )
            if step % save_every == 0:
                where = f'"run":"bench","attempt":{attempt},"rank":0,"step":{step}'
                lines.append(f'{{"kind":"checkpoint.start","t":{t:.6f},{where}}}\n')
                t += 20.0
                lines.append(f'{{"kind":"checkpoint.saved","t":{t:.6f},{where},"dur":20.0}}\n')
                saved = step
            if index + 1 in fails_at:
                lines.append(
                    f'{{"kind":"failure","t":{t + 30:.6f},"run":"bench","attempt":{attempt},"category":"gpu"}}\n'
                )
                t += 300.0
                attempt, step = attempt + 1, saved
                lines.append(
                    f'{{"kind":"attempt.start","t":{t:.6f},"run":"bench","attempt":{attempt},"resume_step":{saved}}}\n'
                )
                t += 45.0
            if len(lines) > 10_000:
                file.writelines(lines)
                lines.clear()
        lines.append(f'{{"kind":"run.end","t":{t:.6f},"run":"bench","status":"completed"}}\n')
        file.writelines(lines)
    return path.stat().st_size


def megatron_log(path: Path, *, megabytes: int, iteration_ms: int = 1880, seed: int = 7) -> int:
    """Write what the last rank's output of a month on 1,024 GPUs looks like, each iteration told; gives its size.

    500 MB are 1.4 million iterations of ``iteration_ms`` in 30 days; a shorter log is the beginning of it. There is a
    save with its two lines every 1,000 iterations, an evaluation every 2,000, a straggler report every 100, other
    ranks' warnings now and then, and a failure of the communication every eight hours, told by the watchdogs of 16
    ranks, with a start after it.
    """
    rng = random.Random(seed)
    noise = [rng.random() for _ in range(4096)]
    num_records = megabytes * 1_000_000 // _LINE_BYTES
    fails_every_s = 8 * 3600
    t = float(START_UNIX_SECONDS)
    fails_at = t + fails_every_s
    iteration, saved = 0, 0
    minute, stamp = -1, ""
    lines = _start(t, 0)
    t += 90.0
    with path.open("w", encoding="utf-8") as file:
        for index in range(num_records):
            dur = iteration_ms / 1000 * (0.95 + 0.1 * noise[index % 4096])
            t += dur
            iteration += 1
            if int(t) // 60 != minute:
                minute = int(t) // 60
                stamp = datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%d %H:%M:")
            lines.append(
                _RECORD.format(
                    stamp=f"{stamp}{t % 60:09.6f}" if t % 60 < 59.9999994 else f"{stamp}59.999999",
                    iteration=iteration,
                    samples=iteration * _BATCH,
                    ms=dur * 1000,
                    tflops=400.0 + 30.0 * noise[(index * 5) % 4096],
                    rate=3e-4 / (1.0 + iteration * 1e-6),
                    batch=_BATCH,
                    loss=1.9 + 8.0 / (1.0 + iteration * 0.001) + 0.05 * noise[(index * 7) % 4096],
                    norm=0.2 + 0.2 * noise[(index * 3) % 4096],
                )
            )
            if iteration % 100 == 0:
                lines.append(
                    f" [{stamp}{t % 60:02.0f}] | MnRtt/Rnk: {dur * 990:.1f}ms/{index % 1024} |"
                    f" MxRtt/Rnk: {dur * 1010:.1f}ms/{index * 7 % 1024} | MnPwr/Rnk: 610.2W/8 |\n"
                )
            if iteration % 777 == 0:
                lines.append(
                    f"[rank{index % 1024}]:W1231 10:10:28.123456 {index % 9000} torch/_dynamo/utils.py:1500]"
                    " a module was compiled again; its cache was full\n"
                )
            if iteration % 2000 == 0:
                lines += _evaluation(iteration)
                t += 12.0
            if iteration % 1000 == 0:
                lines.append(f"saving checkpoint at iteration {iteration:7d} to /ckpt in torch_dist format\n")
                lines.append(
                    f"  successfully saved checkpoint from iteration {iteration:7d} to /ckpt [ t 1/8, p 1/4 ]\n"
                )
                t += 9.0
                saved = iteration
            if t > fails_at:
                fails_at += fails_every_s
                lines += _failure(t)
                t += 330.0
                iteration = saved
                lines += _start(t, saved)
                t += 90.0
            if len(lines) > 10_000:
                file.writelines(lines)
                lines.clear()
        at = datetime.fromtimestamp(t, UTC)
        lines.append(f"[after training is done] datetime: {at:%Y-%m-%d %H:%M:%S} \n")
        file.writelines(lines)
    return path.stat().st_size


def _start(t: float, resume: int) -> list[str]:
    told = [f" successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration {resume}\n"] if resume else []
    begun = datetime.fromtimestamp(t + 80.0, UTC)
    arguments = [f"  argument_{index} {'.' * 40} {index}\n" for index in range(300)]
    return [
        "using world size: 1024, data-parallel size: 32, tensor-model-parallel size: 8, pipeline size: 4\n",
        *arguments,
        *told,
        f"[before the start of training step] datetime: {begun:%Y-%m-%d %H:%M:%S} \n",
    ]


def _evaluation(iteration: int) -> list[str]:
    frame = "-" * 110 + "\n"
    words = f" validation loss at iteration {iteration} | lm loss value: 2.400000E+00 | lm loss PPL: 1.102318E+01 | \n"
    return [frame, words, frame]


def _failure(t: float) -> list[str]:
    at = datetime.fromtimestamp(t + 20.0, UTC)
    return [
        f"[rank{rank}]:[E{at.month}{at:%d %H:%M:%S}.123456789 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught"
        " collective operation timeout: WorkNCCL(SeqNum=44, OpType=ALLREDUCE, NumelIn=5, NumelOut=5,"
        " Timeout(ms)=600000) ran for 600013 milliseconds before timing out.\n"
        for rank in range(0, 1024, 64)
    ]


def in_child(generator: str, path: Path, **arguments: int) -> int:
    """Run a generator in a process of its own, so that the one that measures stays small; gives the file's size."""
    words = ", ".join(f"{name}={value}" for name, value in arguments.items())
    code = f"import inputs, pathlib; inputs.{generator}(pathlib.Path({str(path)!r}), {words})"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True)
    return path.stat().st_size
