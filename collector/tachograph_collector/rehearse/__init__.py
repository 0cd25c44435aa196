"""Rehearsals: made-up or recorded runs with faults in them, played into a live collector, and what it found of them."""
