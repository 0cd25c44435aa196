"""Every adapter that is written is known, and none is sure of what is another's or nobody's."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import pytest
import tachograph_agent.trainers as room
from tachograph_agent.trainers import registry


def test_every_adapter_that_is_written_is_registered_under_its_name() -> None:
    written = set()
    for module in pkgutil.iter_modules(room.__path__):
        loaded = import_module(f"{room.__name__}.{module.name}")
        written |= {
            f"{module.name}:{name}"
            for name, cls in vars(loaded).items()
            if inspect.isclass(cls)
            and cls.__module__ == loaded.__name__
            and {"sniff", "read", "title"} <= set(vars(cls))
        }
    assert written == set(registry.ADAPTERS)
    assert len(registry.adapters()) == len(registry.ADAPTERS)


def test_every_format_has_one_line_that_says_what_it_is() -> None:
    for name, title in registry.formats().items():
        assert name == name.lower().strip()
        assert title.strip()
        assert "\n" not in title


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"Dear diary,\ntoday I trained a model. The loss: it fell.\n",
        b"a,b,c\n1,2,3\n",
        b'{"name": "llama", "layers": 32}\n',
        b"import torch\n\nfor step in range(10):\n    loss.backward()\n",
        b"2026-01-01 00:00:00 INFO server started on port 8080\n",
        bytes(range(256)),
        b"\x00" * 1000,
    ],
)
def test_what_is_no_log_of_training_is_recognised_by_nobody(head: bytes) -> None:
    assert registry.recognise(head) is None


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'{"kind": "step", "t": 1, "step": 1}\n', "events"),
        (b"\xef\xbb\xbf" + b'{"kind": "step", "t": 1, "step": 1}\r\n', "events"),
        (b"iter 120: loss 3.2100, time 251.30ms, mfu 31.20%\n" * 5, "nanogpt"),
        (b"\xff\xfe broken \xff\n" + b"iter 120: loss 3.2100, time 251.30ms, mfu 31.20%\n" * 5, "nanogpt"),
        (b"\riter 120: loss 3.2100, time 251.30ms, mfu 31.20%" * 5, "nanogpt"),
    ],
)
def test_a_format_is_recognised_by_itself(head: bytes, name: str) -> None:
    assert registry.recognise(head) == name
