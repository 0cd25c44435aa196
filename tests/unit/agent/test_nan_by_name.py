"""What went wrong in training is told by name on its way: a NaN that became null would be nobody's."""

from __future__ import annotations

import math

import pytest
from tachograph_agent.events import Health, Step, decode, encode


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 0.25, None])
def test_a_step_keeps_its_loss_and_gradient_norm_through_a_log(number):
    told = Step(t=1.5, run="größer", step=3, loss=number, grad_norm=number)
    told.unknown_fields = {"lr": 0.1}
    read = decode(encode(told))
    assert isinstance(read, Step)
    assert repr((read.loss, read.grad_norm)) == repr((number, number))
    assert (read.run, read.unknown_fields) == ("größer", {"lr": 0.1})
    assert encode(read) == encode(told)


def test_elsewhere_what_json_has_no_word_for_is_null():
    assert b'"value":null' in encode(Health(t=1.0, run="r", check="x", value=math.nan)) or b"value" not in encode(
        Health(t=1.0, run="r", check="x", value=math.nan)
    )
