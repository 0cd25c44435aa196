"""A plain PyTorch loop with one line around its loader; runs on a CPU in a few seconds.

    pip install 'tachograph[torch]'
    mkdir -p /tmp/spool
    TACHOGRAPH_SPOOL=/tmp/spool TACHOGRAPH_RUN=plain python examples/train_plain.py /tmp/plain.pt
    tachograph replay /tmp/spool

Run it again and it goes on from its checkpoint: a second attempt of the same run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tachograph_agent import Recorder
from tachograph_agent.integrations.loop import timed

STEPS, SAVE_EVERY = 60, 20


def save(path: Path, state: dict[str, object]) -> None:
    """Write beside the target, then rename: a save that is cut short leaves the one before it."""
    beside = path.with_suffix(".new")
    torch.save(state, beside)
    beside.replace(path)


def main() -> None:
    """Fit a line to points."""
    path = Path(sys.argv[1])
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    resume_step = 0
    if path.exists():
        state = torch.load(path)
        model.load_state_dict(state["model"])
        resume_step = state["step"]

    inputs = torch.randn(4096, 8)
    targets = inputs.sum(dim=1, keepdim=True)
    points = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(points, batch_size=32, shuffle=True)

    recorder = Recorder(resume_step=resume_step)
    last_step = resume_step + STEPS
    for step, (batch, wanted) in timed(loader, recorder, first_step=resume_step + 1, last_step=last_step):
        loss = torch.nn.functional.mse_loss(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step.loss = loss
        if step.number % SAVE_EVERY == 0:
            step.done()
            with recorder.checkpoint(step.number):
                save(path, {"model": model.state_dict(), "step": step.number})
    print(f"step {last_step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
