"""Made-up training runs with faults in them: seeded, and what should be found of each is known.

``Run(cluster, faults, seed)`` tells its events as a real cluster's agents would, with when each happened and when it
reaches a collector, and ``labels`` says what is wrong in it. No clock and no I/O.
"""

from tachograph_collector.synthetic.cluster import (
    Cluster,
    Evals,
    Loss,
    Noise,
    Restarts,
    Saves,
    SyntheticError,
)
from tachograph_collector.synthetic.faults import (
    CheckpointNeverLands,
    ClockJump,
    CollectorPause,
    Crash,
    Fault,
    FrozenRank,
    HiddenNan,
    HiddenStraggler,
    LossSpike,
    NodeDeath,
    NodePause,
    Partition,
    PeriodicSlow,
    SlowJob,
    SlowSave,
    Straggler,
    Xid,
)
from tachograph_collector.synthetic.labels import Label
from tachograph_collector.synthetic.recording import Recording
from tachograph_collector.synthetic.run import Run
from tachograph_collector.synthetic.telling import Delivery

__all__ = [
    "CheckpointNeverLands",
    "ClockJump",
    "Cluster",
    "CollectorPause",
    "Crash",
    "Delivery",
    "Evals",
    "Fault",
    "FrozenRank",
    "HiddenNan",
    "HiddenStraggler",
    "Label",
    "Loss",
    "LossSpike",
    "NodeDeath",
    "NodePause",
    "Noise",
    "Partition",
    "PeriodicSlow",
    "Recording",
    "Restarts",
    "Run",
    "Saves",
    "SlowJob",
    "SlowSave",
    "Straggler",
    "SyntheticError",
    "Xid",
]
