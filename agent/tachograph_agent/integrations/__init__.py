"""Ties to trainers: one module for each framework, importing it only when the module itself is imported.

Nothing here is needed to record: a script may call ``Recorder`` by itself. See ``docs/integrations.md``.
"""
