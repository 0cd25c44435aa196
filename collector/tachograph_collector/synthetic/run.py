"""A made-up run as a collector gets to see it: what nodes tell, by their own clocks, and when it arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tachograph_agent.events import KnownEvent

from tachograph_collector.synthetic import faults as kinds
from tachograph_collector.synthetic.cluster import Cluster
from tachograph_collector.synthetic.course import Course
from tachograph_collector.synthetic.labels import Label
from tachograph_collector.synthetic.telling import Delivery, Tells, by_arrival, told_by


class Run:
    """One made-up run. ``seed`` makes it: the same cluster, faults and seed give the same events.

    ``until_s`` ends it so long after its start, whatever is going on. Raises ``SyntheticError`` for what can't be.
    """

    def __init__(
        self, cluster: Cluster, faults: Sequence[kinds.Fault] = (), *, seed: int = 1, until_s: float | None = None
    ) -> None:
        cluster.check()
        for fault in faults:
            kinds.check(fault, cluster)
        self.cluster = cluster
        self.faults = tuple(faults)
        self._seed = seed
        self._until_s = until_s
        self._labels: list[Label] | None = None

    @property
    def labels(self) -> list[Label]:
        """What is wrong in it. Where they were not read yet, the events are made for it."""
        if self._labels is None:
            for _ in self.told():
                pass
        assert self._labels is not None
        return self._labels

    def events(self) -> list[KnownEvent]:
        """Every event, in the order in which they happened."""
        return [event for delivery in self.told() for event in delivery.events]

    def arriving(self) -> Iterator[Delivery]:
        """The deliveries in the order in which they arrive; what never does is left out."""
        return by_arrival(self.told())

    def told(self) -> Iterator[Delivery]:
        """The deliveries in the order in which they happened; ``arrives_s`` is infinite for what never arrives."""
        cluster = self.cluster
        course = Course(cluster, self.faults, self._seed, self._until_s)
        tells = Tells(
            run=cluster.run,
            start_us=round(cluster.start_unix_seconds * 1e6),
            heartbeat_s=cluster.heartbeat_s,
            latency_s=cluster.latency_s,
            ranks_per_node=cluster.ranks_per_node,
        )
        self._labels = yield from told_by(course, tells, self.faults, self._seed)
