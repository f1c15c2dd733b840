"""Arrays as users have them: in memory, memory maps, Dask arrays, tensors; or a sentence."""

from typing import Any

import numpy as np

from attnlaw._checks import invalid_argument

__all__ = ["array", "converted", "is_by_position"]


def array(argument: str, value: Any, ndim: tuple[int, ...], kinds: str) -> Any:
    """Return `value` as it is if it is an array (a memory map, a Dask array), checked."""
    found = converted(argument, value)
    if found.dtype.kind not in kinds:
        words = {
            "fiu": "made of real numbers",
            "iu": "made of whole numbers",
            "b": "made of bools",
        }
        raise invalid_argument(argument, words[kinds], found.dtype.name)
    if found.ndim not in ndim or 0 in found.shape:
        axes = " or ".join(map(str, ndim))
        raise invalid_argument(argument, f"an array with {axes} axes, none of them empty", found)
    return found


def converted(argument: str, value: Any) -> Any:
    """Return `value` as it is if it is an array of NumPy's kind, else as an array in memory."""
    if isinstance(value, np.ma.MaskedArray):
        raise invalid_argument(argument, "an array without a mask of its own", value)
    if hasattr(getattr(value, "dtype", None), "kind"):
        return getattr(value, "data", value) if hasattr(value, "dims") else value  # of xarray
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        what = "an array (pad sequences of unequal length and give their lengths)"
        raise invalid_argument(argument, what, f"a {type(value).__name__} that is none") from None


def is_by_position(embeddings: Any) -> bool:
    """Return whether sequences vary fastest where the embeddings lie (Fortran order)."""
    strides = np.abs(getattr(embeddings, "strides", (1,)))
    return len(strides) == 3 and strides[0] < strides[1:].min()
