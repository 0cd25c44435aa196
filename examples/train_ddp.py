"""DistributedDataParallel with one call after wrapping; two ranks on a CPU, some seconds.

    pip install 'tachograph[torch]'
    mkdir -p /tmp/spool
    export TACHOGRAPH_SPOOL=/tmp/spool TACHOGRAPH_RUN=ddp
    torchrun --nproc-per-node 2 examples/train_ddp.py /tmp/ddp-checkpoints
    tachograph replay /tmp/spool

Each rank's steps carry ``busy_s``, its own work before it waits for the others. Saves go on in the background, and have
landed when their future is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from tachograph_agent.integrations import dcp, ddp
from torch.nn.parallel import DistributedDataParallel

STEPS, SAVE_EVERY = 40, 20


def main() -> None:
    """Fit a small network to points."""
    directory = Path(sys.argv[1])
    dist.init_process_group("gloo")
    save_group = dist.new_group(backend="gloo")  # a background save must not mix with training's own collectives
    torch.manual_seed(dist.get_rank())
    network = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    watch = ddp.watch(model, optimizer, resume_step=0)
    saving = None
    for step in range(1, STEPS + 1):
        batch = torch.randn(32, 8)
        loss = torch.nn.functional.mse_loss(model(batch), batch.sum(dim=1, keepdim=True))
        watch.loss = loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % SAVE_EVERY == 0:
            state = {"model": network.state_dict()}
            where = {"checkpoint_id": directory / f"step-{step}", "process_group": save_group}
            saving = dcp.async_save(watch.recorder, step, state, after=saving, **where)
    if saving is not None:
        saving.result()
    if dist.get_rank() == 0:
        watch.recorder.run_end("completed")
        print(f"step {STEPS}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
