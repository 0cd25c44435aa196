"""The labelled set: made-up runs, seeded, of which is known what is wrong with each and from when.

``sets.py`` names all of them; ``make bench`` scores the whole, ``test_labelled_runs.py`` a part. docs/detection.md has
the table.
"""
