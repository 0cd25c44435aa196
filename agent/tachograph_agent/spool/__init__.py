"""The spool: a directory in which each rank keeps one growing file of events until the collector has confirmed it.

``TACHOGRAPH_SPOOL`` names it. Below it lie per-user directories, below these one a run and attempt, in them a file a
rank and segment::

    SPOOL/u1000/3f9a0c1d2b4e5f60/rank-00003.000001.jsonl

The directory of a run and attempt is named by a hash, since their names may hold anything; every line in the files
carries the names themselves. A rank holds a POSIX record lock on the segment that it writes: the lock goes when its
process does, whatever ends it, and no forked child inherits it. Segments are only ever appended to.
"""
