"""The checkpoint model: theory, simulation, and whether a run's goodput is what its failures explain. Pure."""
