"""Trainers' own logs into events: one module a format, all behind ``Adapter``."""
