"""The design document of a plan, the record of its one decision, and whether a run still agrees with them."""
