"""What a collector does about Python's garbage collector, which holds up every thread while it looks around."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tachograph_collector.service import serve


@pytest.fixture
def restored_gc() -> Iterator[None]:
    """The garbage collector as it was: what was set apart would be kept from it in all later tests."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("restored_gc")
def test_a_full_collection_does_not_look_through_the_program() -> None:
    """Scrapes of more than a hundred milliseconds were such collections."""
    serve._set_apart_what_stays()

    watched = {id(each) for each in gc.get_objects()}
    assert id(vars(serve)) not in watched
    assert len(watched) < gc.get_freeze_count() / 10


@pytest.mark.usefixtures("restored_gc")
def test_full_collections_are_rare_and_still_come() -> None:
    """Cycles that live long are freed some day, so that memory stays bounded."""
    serve._set_apart_what_stays()

    young, middle, old = gc.get_threshold()
    assert 1_000_000 <= young * middle * old <= 10_000_000
    assert gc.isenabled()
