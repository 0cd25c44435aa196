"""Text that is no Unicode, in a line with a bare NaN, which Python's own reader of JSON lets through."""

from __future__ import annotations

import pytest
from tachograph_agent.events import EventError, decode


@pytest.mark.parametrize("kind", ["step", "failure", "of.another.kind"])
@pytest.mark.parametrize("field", ["t", "rank"])
def test_half_a_surrogate_pair_where_a_number_belongs_is_told_as_any_wrong_value(kind: str, field: str) -> None:
    line = f'{{"kind":"{kind}","t":5,"run":"r","step":1,"loss":NaN,"{field}":"\\ud800"}}'
    with pytest.raises(EventError):
        decode(line)
