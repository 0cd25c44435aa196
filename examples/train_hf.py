"""A Hugging Face Trainer with one callback; a tiny model made on the spot, on a CPU, some seconds.

pip install 'transformers[torch]'
mkdir -p /tmp/spool
TACHOGRAPH_SPOOL=/tmp/spool TACHOGRAPH_RUN=hf python examples/train_hf.py /tmp/hf-out
tachograph replay /tmp/spool
"""

from __future__ import annotations

import sys

import torch
from tachograph_agent.integrations.huggingface import TachographCallback
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def main() -> None:
    """Train on made-up tokens."""
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    texts = [torch.randint(0, 32, (16,)) for _ in range(64)]
    rows = [{"input_ids": text, "labels": text} for text in texts]
    arguments = TrainingArguments(
        output_dir=sys.argv[1],
        max_steps=20,
        per_device_train_batch_size=4,
        save_steps=10,
        eval_strategy="steps",
        eval_steps=10,
        report_to=[],
        use_cpu=True,
    )
    callbacks = [TachographCallback()]
    Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:8], callbacks=callbacks).train()


if __name__ == "__main__":
    main()
