"""One attempt name on all ranks of a start, agreed over the process group.

A launcher's environment does not always tell starts apart: torchelastic counts restarts on each node by itself, counts
none where only the membership changed, and may keep its port. The process group is made anew at each start, so what
rank 0 says over it belongs to this start alone.
"""

from __future__ import annotations

import time
from typing import Any

from tachograph_agent.identity import identify
from tachograph_agent.integrations.needs import need


def agreed_attempt() -> str | None:
    """The name, the same on all ranks: rank 0's own and the second of its start.

    A collective: every rank must call it, after ``init_process_group``. None without a process group; the environment
    names the attempt then.
    """
    distributed: Any = need("torch.distributed", "torch")
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    said = [f"{identify().attempt}@{time.time():.0f}" if distributed.get_rank() == 0 else None]
    distributed.broadcast_object_list(said, src=0)
    return said[0]
