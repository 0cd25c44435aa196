"""A second, independent reading of the ledger's rules: slow, simple, for tests only. See ``oracle.py``."""
