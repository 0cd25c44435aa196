"""Write a new revision from how the store's tables differ from what the revisions make so far: read it, then mend it.

python migrations/new_revision.py "Add the colour of a run"
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tachograph_collector.store.database import Database
from tachograph_collector.store.upgrade import new_revision, upgrade


def main(message: str) -> None:
    """Make a database at the newest revision, compare, write the module, and say where it is."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'now.sqlite3'}")
        upgrade(database)
        sys.stdout.write(f"{new_revision(database, message)}\n")
        database.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python migrations/new_revision.py MESSAGE")
    main(sys.argv[1])
