"""A Lightning Trainer with one callback, on a CPU, some seconds.

pip install lightning
mkdir -p /tmp/spool
TACHOGRAPH_SPOOL=/tmp/spool TACHOGRAPH_RUN=lightning python examples/train_lightning.py /tmp/lightning-out
tachograph replay /tmp/spool
"""

from __future__ import annotations

import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tachograph_agent.integrations.lightning import TachographCallback


class Line(lightning.LightningModule):
    """Fits a line."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(8, 1)

    def training_step(self, batch: torch.Tensor, _index: int) -> Any:
        """The loss of a batch."""
        return torch.nn.functional.mse_loss(self.line(batch), batch.sum(dim=1, keepdim=True))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main() -> None:
    """Train on made-up points."""
    loader = torch.utils.data.DataLoader(torch.randn(640, 8), batch_size=32)
    saves = ModelCheckpoint(dirpath=sys.argv[1], every_n_train_steps=10, save_top_k=-1)
    trainer = lightning.Trainer(accelerator="cpu", max_steps=20, logger=False, callbacks=[TachographCallback(), saves])
    trainer.fit(Line(), loader)


if __name__ == "__main__":
    main()
