"""Which account each moment belongs to: events in, accounts out, no clock and no I/O."""
