"""Checks shared by models, laws and functions; every failure is the same one sentence.

The sentence: ``<argument> must be <condition>, got <value>.``
"""

import inspect
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

Real = float | Floats
"""A number, or an array of numbers that broadcasts."""

Random = np.random.Generator | int | None
"""What the keyword `rng` takes: a generator, a seed, or None for a fresh one."""


DATA_RANGE = {np.dtype(np.float64): (1e-30, 1e30), np.dtype(np.float32): (1e-15, 1e15)}
"""Largest absolute value that data may have: variances, in double also their products, are finite.
"""


class RegimeWarning(UserWarning):
    """A formula is used outside the regime in which it was derived."""


def warn_regime(message: str) -> None:
    """Give a `RegimeWarning` at the line that called the library."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RegimeWarning, stacklevel=level)


def _is_inside(module: str) -> bool:
    """Whether a frame belongs to the library, or to the dispatch of its verbs."""
    return module.partition(".")[0] in ("attnlaw", "functools")


def invalid_argument(argument: str, condition: str, value: object) -> ValueError:
    """Return (not raise) the library's one error sentence; arrays are shown by their shape."""
    shown = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    if "\n" in shown:
        shown = " ".join(shown.split())
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return ValueError(f"{argument} must be {condition}, got {shown}.")


def real_array(argument: str, value: ArrayLike, *, ndim: int | None = None) -> NDArray[np.float64]:
    """Return `value` as a finite float64 array, checked to have `ndim` axes if given."""
    refuse_masked(argument, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise invalid_argument(argument, "an array of real numbers", value) from None
    if array.dtype.kind not in "fiu":
        raise invalid_argument(argument, "made of real numbers", value)
    if ndim is not None and array.ndim != ndim:
        raise invalid_argument(
            argument, f"an array with {ndim} {'axis' if ndim == 1 else 'axes'}", array
        )
    look_at_part(argument, array)
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise invalid_argument(argument, "finite", value)
    return array


def look_at_part(argument: str, array: NDArray[Any]) -> None:
    """Raise for a large array if some of its rows already say that it cannot be used."""
    if (found := unusable_part(array)) is not None:
        raise invalid_argument(argument, "made of finite rows that differ", found)


def unusable_part(array: NDArray[Any]) -> str | None:
    """Return what is wrong with 64 rows of a large array, before all of it is read.

    A hole in a file reads as zeros without end: an array that is mapped from one would be scanned
    for hours.

    Examples
    --------
    >>> unusable_part(np.zeros((2**15, 1024)))
    '64 equal rows among 64 of its 32768'
    """
    if not isinstance(array, np.ndarray) or array.ndim < 2 or array.nbytes < LARGE_BYTES:
        return None
    places = np.unique(np.linspace(0, len(array) - 1, 64).astype(np.int64))
    if len(places) < 64:
        return None
    first = np.asarray(array[places[0]])
    are_equal = True
    for k in places.tolist():
        row = np.asarray(array[k])
        if not np.isfinite(row).all():
            return f"NaN or infinity in row {k}"
        are_equal = are_equal and bool((row == first).all())
    return f"64 equal rows among 64 of its {len(array)}" if are_equal else None


def refuse_extremes(argument: str, largest: Any, *, single: bool = False) -> None:
    """Raise if powers of data leave the floating-point numbers.

    Parameters
    ----------
    argument : str
        Name of the data.
    largest : float32 or float64
        Largest absolute value among them; data that are all zero pass.
    single : bool
        Whether some of the computation is in float32, whatever the data are.
    """
    low, high = DATA_RANGE[np.dtype(np.float32) if single else np.asarray(largest).dtype]
    if largest != 0 and not low <= largest <= high:
        raise invalid_argument(argument, f"of a size between {low:g} and {high:g}", float(largest))


def refuse_masked(argument: str, value: object) -> None:
    """Raise if entries of an array are masked: a conversion would bring back what they hide."""
    if n_masked := _n_masked(value):
        raise invalid_argument(argument, "without masked entries", f"{n_masked} of them")


def _n_masked(value: object) -> int:
    if isinstance(value, np.ma.MaskedArray):
        return int(np.count_nonzero(value.mask))
    return sum(map(_n_masked, value)) if isinstance(value, list | tuple) else 0


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, masked, or what pandas has for them."""
    nothing = type(value).__name__ in ("NoneType", "NAType", "NaTType", "MaskedConstant")
    return nothing or (isinstance(value, float | np.floating) and bool(value != value))


def real(
    argument: str,
    value: ArrayLike,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Real:
    """Return `value` as a float (or a float64 array if it has axes), checked against bounds."""
    bounds = (
        (above, "above", np.greater),
        (at_least, "at least", np.greater_equal),
        (below, "below", np.less),
        (at_most, "at most", np.less_equal),
    )
    array = real_array(argument, value)
    for bound, words, holds in bounds:
        if bound is not None and not np.all(holds(array, bound)):
            raise invalid_argument(argument, f"{words} {bound:g}", value)
    return scalar_or_array(array)


def scalar(argument: str, value: ArrayLike, **bounds: float) -> float:
    """Return `value` as a float, checked to be a single number within the bounds of `real`."""
    number = real(argument, value, **bounds)
    if not isinstance(number, float):
        raise invalid_argument(argument, "a single number", number)
    return number


def scalar_or_array(values: ArrayLike) -> Real:
    """Return `values` as a float if it has no axes, else as a float64 array."""
    array = np.asarray(values, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


LARGEST = 1e100
"""Largest parameter of a model or a law: squares, and products of those, stay finite."""

LARGE_BYTES = 2**28  # from which a part of an array is looked at before all
LARGEST_COUNT = 2**53
"""Whole numbers up to here are floating-point numbers, too."""


def count(
    argument: str, value: Any, *, at_least: int = 1, at_most: int | None = LARGEST_COUNT
) -> int:
    """Return `value` as an int, checked to be a whole number of at least `at_least`."""
    refuse_masked(argument, value)
    try:
        number = int(value)
        whole = not isinstance(value, bool | str) and number == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or number < at_least:
        raise invalid_argument(argument, f"a whole number of at least {at_least}", value)
    if at_most is not None and number > at_most:
        raise invalid_argument(argument, f"at most {at_most}", value)
    return number


def random_generator(value: Random) -> np.random.Generator:
    """Return `rng` as a Generator: itself, seeded by an int, or fresh for None."""
    if value is None or isinstance(value, np.random.Generator):
        return np.random.default_rng(value)
    try:
        return np.random.default_rng(count("rng", value, at_least=0, at_most=None))
    except ValueError:
        raise invalid_argument("rng", "a Generator, a seed of at least 0 or None", value) from None


def choice(argument: str, value: str, options: tuple[str, ...]) -> str:
    """Return `value`, checked to be one of `options`."""
    if value not in options:
        error = invalid_argument(argument, "one of " + ", ".join(map(repr, options)), value)
        raise ValueError(f"{str(error)[:-1]}{nearest(value, options)}.")
    return value


def nearest(value: object, options: Iterable[str]) -> str:
    """Return words that suggest the option which a misspelt one may stand for, if there is one.

    Examples
    --------
    >>> nearest("optmal", ["mean", "optimal"])
    " (did you mean 'optimal'?)"
    """
    near = get_close_matches(value, list(options), n=1) if isinstance(value, str) else []
    return f" (did you mean {near[0]!r}?)" if near else ""


def frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a read-only copy, so that a frozen dataclass really is frozen."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy
