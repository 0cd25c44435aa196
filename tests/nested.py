"""JSON values within each other, for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def nested(
    leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str], depth: int = 2, max_size: int = 3
) -> st.SearchStrategy[Any]:
    """Leaves, and lists and objects of them, one within another at most ``depth`` deep.

    Built level by level: ``st.recursive`` now and then takes our inner strategy for one that isn't used, and warns.
    """
    values = leaves
    for _ in range(depth):
        values = st.one_of(
            leaves, st.lists(values, max_size=max_size), st.dictionaries(keys, values, max_size=max_size)
        )
    return values
