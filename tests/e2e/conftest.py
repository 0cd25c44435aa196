"""Fixtures for tests of the whole; those of the page are in page_world.py."""

from page_world import browser, world

__all__ = ["browser", "world"]
