"""Tachograph's collector: the pure ledger at the bottom, the commands and the service on top."""
