"""What ranks tell of one step of a made-up run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tachograph_agent.events import KnownEvent, Step

from tachograph_collector.synthetic.cluster import Cluster


class StepRecords:
    """Makes the records of a step."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tells = range(cluster.num_ranks) if cluster.ranks_tell == "all" else range(1)
        self._stages = [cluster.stage(rank) if cluster.num_stages > 1 else None for rank in range(cluster.num_ranks)]

    def of(
        self,
        step: int,
        attempt: int,
        nodes: Sequence[str],
        own: list[float],
        dur_s: float,
        t: float,
        told_losses: tuple[float | None, float | None],
        left_out: int | None = None,
    ) -> Iterator[tuple[int, list[KnownEvent]]]:
        """Its records, node by node, each with the node's place.

        ``own``: each rank's own work (s). ``told_losses``: loss and norm of the gradient, which rank 0 tells.
        ``left_out``: a rank that tells nothing.
        """
        cluster = self._cluster
        run, stages = cluster.run, self._stages
        busy, wait = cluster.tells == "busy", cluster.tells == "wait"
        per = cluster.ranks_per_node
        for first in range(0, len(self._tells), per):
            slot = first // per
            node = nodes[slot]
            told: list[KnownEvent] = [
                Step(
                    t=t,
                    run=run,
                    attempt=attempt,
                    node=node,
                    rank=rank,
                    dur=dur_s,
                    step=step,
                    busy_s=own[rank] if busy else None,
                    sections={"wait": max(dur_s - own[rank], 0.0)} if wait else None,
                    stage=stages[rank],
                )
                for rank in range(first, min(first + per, len(self._tells)))
                if rank != left_out
            ]
            if first == 0 and told and left_out != 0:
                lead = told[0]
                assert isinstance(lead, Step)
                lead.loss, lead.grad_norm = told_losses
            yield slot, told
