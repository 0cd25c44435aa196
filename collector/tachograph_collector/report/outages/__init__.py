"""What tables of outages tell of a run, a cluster or a fleet: counts, mean times, time lost; the rest is unknown.

``reading`` gives the rows of a table, one module for each kind makes ``findings`` of them, ``shown`` has those for
the terminal and as JSON.
"""
