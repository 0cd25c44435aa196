"""Argument checks that name the argument, its value and what is accepted."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]


class ModelError(ValueError):
    """A number that the model can't take. The message says which, its value and what is accepted."""


def numbers(name: str, value: ArrayLike) -> Floats:
    """``value`` as an array of finite floats; raises ``ModelError`` where it is none."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} is {value!r}; expected a number or an array of numbers") from error
    _refuse(name, array, ~np.isfinite(array), "a finite number")
    return array


def positive(name: str, value: ArrayLike) -> Floats:
    """``value`` as floats above 0."""
    array = numbers(name, value)
    _refuse(name, array, array <= 0, "a number above 0")
    return array


def not_negative(name: str, value: ArrayLike) -> Floats:
    """``value`` as floats of 0 or more."""
    array = numbers(name, value)
    _refuse(name, array, array < 0, "0 or more")
    return array


def fraction(name: str, value: ArrayLike) -> Floats:
    """``value`` as floats from 0 to 1."""
    array = numbers(name, value)
    _refuse(name, array, (array < 0) | (array > 1), "a share from 0 to 1")
    return array


def whole(name: str, value: ArrayLike, least: int) -> Floats:
    """``value`` as whole numbers of ``least`` or more, kept as floats for the arithmetic."""
    array = numbers(name, value)
    _refuse(name, array, (array < least) | (array != np.floor(array)), f"a whole number of at least {least}")
    return array


def sample(name: str, value: ArrayLike) -> Floats:
    """``value`` as one row of at least one float, each 0 or more: durations that were observed."""
    array = not_negative(name, value)
    if array.ndim != 1 or array.size == 0:
        raise ModelError(f"{name} is an array of shape {array.shape}; expected one row of at least one number")
    return array


def at_most(name: str, value: Floats, limit_name: str, limit: Floats) -> None:
    """Refuse ``value`` above ``limit``."""
    value, limit = np.broadcast_arrays(value, limit)
    wrong = value > limit
    if np.any(wrong):
        raise ModelError(
            f"{name} is {float(value[wrong][0]):g}; expected at most {limit_name}, here {float(limit[wrong][0]):g}"
        )


def _refuse(name: str, array: Floats, wrong: NDArray[np.bool_], accepted: str) -> None:
    if np.any(wrong):
        raise ModelError(f"{name} is {_first(array, wrong):g}; expected {accepted}")


def _first(array: Floats, wrong: NDArray[np.bool_]) -> float:
    return float(np.broadcast_to(array, wrong.shape)[wrong][0])
