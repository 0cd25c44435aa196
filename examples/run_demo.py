"""`make demo`: a collector, two nodes and a real training on this machine, with faults put into it while you watch."""

from __future__ import annotations

from demo.main import main

if __name__ == "__main__":
    main()
