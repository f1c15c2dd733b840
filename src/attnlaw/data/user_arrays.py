r"""Users' arrays, sequences, masks and lengths, and the weights they leave: one rule for each.

- Every sequence has at least one token. A sequence of length 0, a row of the mask without True
  and a row of negative tokens have no pooled vector, and are rejected by their row.
- A mask is an array of bools, or of zeros and ones, True where there is a token; lengths are whole
  numbers from 1 to L for sequences padded at the end. One of them may be given, not both.
- Weights of positions that hold no token are dropped and the others rescaled to the same Σ|w|,
  so that the mean of the positions becomes the mean of the tokens.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    invalid_argument,
    is_missing,
    look_at_part,
    real_array,
    refuse_extremes,
    refuse_masked,
)
from attnlaw.data.sequences import EmbeddedSequences, Sequences, TokenSequences

__all__ = [
    "Pooling",
    "array",
    "as_sequences",
    "check_every_row_has_a_token",
    "converted",
    "is_by_position",
    "labels_array",
    "padded",
    "presence",
    "remaining_weights",
]

COMPILED_NUMBERS = 2**31  # pooled, from which on it pays to load numba and compile a loop

KINDS = {
    "fiu": "made of real numbers",
    "iu": "made of whole numbers",
    "biu": "made of bools, or of zeros and ones",
}


def array(argument: str, value: Any, ndim: tuple[int, ...], kinds: str) -> Any:
    """Return `value` as it is if it is an array (a memory map, a Dask array), checked."""
    found = converted(argument, value)
    if found.dtype.kind not in kinds:
        raise invalid_argument(argument, KINDS[kinds], found.dtype.name)
    if found.ndim not in ndim or 0 in found.shape:
        axes = " or ".join(map(str, ndim))
        raise invalid_argument(argument, f"an array with {axes} axes, none of them empty", found)
    return found


def converted(argument: str, value: Any) -> Any:
    """Return `value` as it is if it is an array of NumPy's kind, else as an array in memory."""
    if isinstance(value, np.ma.MaskedArray | list | tuple):
        refuse_masked(argument, value)
    if isinstance(value, np.ma.MaskedArray):
        return value.data
    if hasattr(value, "nnz") and hasattr(value, "toarray"):
        raise invalid_argument(argument, "a dense array", f"a sparse one of shape {value.shape}")
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # of torch
        tensor = value.detach().cpu()
        return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    in_memory = hasattr(value, "iloc") or isinstance(value, np.matrix)  # of pandas
    if isinstance(getattr(value, "dtype", None), np.dtype) and not in_memory:
        return getattr(value, "data", value) if hasattr(value, "dims") else value  # of xarray
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        what = "an array (pad sequences of unequal length and give their lengths)"
        raise invalid_argument(argument, what, f"a {type(value).__name__} that is none") from None


def labels_array(argument: str, labels: Any, n: int) -> NDArray[np.generic]:
    """Return n labels as an array of numbers or words; those of pandas may be categories.

    Examples
    --------
    >>> labels_array("labels", ["a", None], 2)
    Traceback (most recent call last):
    ValueError: labels must be given for every sequence, got 'none in row 1'.
    """
    given = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
    if isinstance(given, list | tuple) or getattr(given, "dtype", None) == np.dtype(object):
        each = given if isinstance(given, list | tuple) else given.ravel()  # NaN is no word yet
        missing = [row for row, label in enumerate(each) if is_missing(label)]
        if missing:
            raise invalid_argument(
                argument, "given for every sequence", f"none in row {missing[0]}"
            )
    y = np.asarray(converted(argument, given))
    if y.dtype.kind == "O":
        kinds = {type(label) for label in y.ravel().tolist()}
        if kinds <= {str} or kinds <= {bool, int, float}:
            y = np.array(y.tolist())
    if y.dtype.kind == "T":  # words of NumPy 2
        y = y.astype(str)
    if y.shape != (n,) or y.dtype.kind not in "biufUS":
        raise invalid_argument(argument, f"{n} numbers or words, one a sequence", y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise invalid_argument(argument, "finite", y)
    return y


def as_sequences(
    sequences: Any,
    table: ArrayLike | None = None,
    *,
    mask: Any = None,
    lengths: Any = None,
) -> Sequences:
    """Return what a user gave as sequences: embeddings, or tokens with their table.

    Parameters
    ----------
    sequences : array of shape (N, length, d), or of int and shape (N, length)
        Embeddings; or rows of `table`, negative where there is no token. A list or a pandas
        Series of N arrays of unequal length is padded; torch tensors are taken, too.
    table : array of shape (V, d), optional
        Embeddings of the tokens.
    mask : array of bool or int and shape (N, length), optional
        True or 1 where there is a token.
    lengths : array of int and shape (N,), optional
        The same for sequences padded at the end.
    """
    if isinstance(sequences, Sequences):
        return sequences
    data, own = padded(sequences)
    if own is not None:
        if mask is not None or lengths is not None:
            raise invalid_argument(
                "mask and lengths", "left out for sequences of unequal length", "one of them"
            )
        mask = own
    wanted = 3 if table is None else 2
    if data.ndim != wanted or 0 in data.shape:
        shape = "(n, length, dimension)" if table is None else "(n, length) beside a table"
        raise invalid_argument("sequences", f"a non-empty array of shape {shape}", data)
    N, L = data.shape[:2]
    present = presence((N, L), mask, lengths)
    if table is None:
        if present is None:  # padding may hold anything
            look_at_part("sequences", data)
        if data.dtype.kind not in "fiu":
            raise invalid_argument("sequences", "made of real numbers", data.dtype.name)
        if data.dtype not in (np.float32, np.float64):
            data = data.astype(np.float64)
        result = EmbeddedSequences(data, present)
        largest = np.max([np.abs(result.embed(rows)).max() for rows in result._blocks()])
        if not np.isfinite(largest):
            raise invalid_argument(
                "sequences", "finite wherever there is a token", "NaN or infinity"
            )
        refuse_extremes("sequences", largest, single=True)
        return result
    if data.dtype.kind not in "iu":
        raise invalid_argument("sequences", "whole numbers beside a table", data.dtype.name)
    if data.min() < 0:
        present = (data >= 0) if present is None else present & (data >= 0)
        check_every_row_has_a_token("sequences", present)
    E = converted("table", table)
    if E.ndim != 2 or 0 in E.shape or E.dtype.kind not in "fiu":
        raise invalid_argument("table", "a non-empty array of real numbers with 2 axes", E)
    look_at_part("table", E)
    if E.dtype not in (np.float32, np.float64):
        E = E.astype(np.float64)
    last = int((data if present is None else data[present]).max())
    if last >= len(E):
        raise invalid_argument("sequences", f"rows of the table, at most {len(E) - 1}", last)
    tokens = TokenSequences(data, E, present)
    largest = np.abs(tokens._table).max()
    if not np.isfinite(largest):
        raise invalid_argument("table", "finite", E)
    refuse_extremes("table", largest, single=True)
    return tokens


def padded(sequences: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return sequences as one array; if their lengths differ, padded, and where tokens are.

    Examples
    --------
    >>> padded([[3, 4], [5]])
    (array([[3, 4],
           [5, 0]]), array([[ True,  True],
           [ True, False]]))
    """
    dtype = getattr(sequences, "dtype", None)
    if dtype is not None and getattr(dtype, "kind", "f") != "O":
        return converted("sequences", sequences), None
    try:
        if isinstance(sequences, str | bytes):
            raise TypeError
        parts = [converted("sequences", part) for part in sequences]
    except TypeError:
        raise invalid_argument("sequences", "an array, or a list of arrays", sequences) from None
    lengths = np.array([len(part) if part.ndim else 0 for part in parts])
    shapes = {part.shape[1:] for part in parts}
    if len(parts) == 0 or lengths.min() == 0 or len(shapes) > 1:
        found = f"{len(parts)} of {len(shapes)} kinds, the shortest of {min(lengths, default=0)}"
        raise invalid_argument("sequences", "arrays of one kind, none of them empty", found)
    if lengths.min() == lengths.max():
        return np.stack(parts), None
    kind = np.result_type(*parts)
    whole = np.zeros((len(parts), int(lengths.max()), *parts[0].shape[1:]), dtype=kind)
    for row, part in zip(whole, parts, strict=True):
        row[: len(part)] = part
    return whole, np.arange(whole.shape[1]) < lengths[:, None]


def is_by_position(embeddings: Any) -> bool:
    """Return whether sequences vary fastest where the embeddings lie (Fortran order)."""
    strides = np.abs(getattr(embeddings, "strides", (1,)))
    return len(strides) == 3 and strides[0] < strides[1:].min()


def presence(shape: tuple[int, int], mask: Any, lengths: Any) -> NDArray[np.bool_] | None:
    """Return the mask from whichever of the two was given; None if no token is missing.

    Examples
    --------
    >>> presence((2, 3), None, [3, 1])
    array([[ True,  True,  True],
           [ True, False, False]])
    >>> presence((2, 3), None, [3, 0])
    Traceback (most recent call last):
    ValueError: lengths must be whole numbers from 1 to 3, got '0 in row 1'.
    """
    mask, lengths = _checked(shape, mask, lengths)
    if lengths is not None:
        mask = np.arange(shape[1]) < np.asarray(lengths)[:, None]
    if mask is None:
        return None
    mask = np.asarray(mask)
    check_every_row_has_a_token("mask", mask)
    return None if mask.all() else mask


def check_every_row_has_a_token(argument: str, present: NDArray[np.bool_], first: int = 0) -> None:
    """Raise when some sequence has no token; `first` is the place of the first of the rows."""
    has_token = present.any(axis=1)
    if not has_token.all():
        row = first + int(has_token.argmin())
        raise invalid_argument(argument, "such that every row has a token", f"none in row {row}")


def remaining_weights(
    weights: NDArray[np.float64], present: NDArray[np.bool_], first: int = 0
) -> NDArray[np.float64]:
    """Return the weights w of positions that hold a token, rescaled to the same Σ|w|: (N, L).

    Parameters
    ----------
    weights : array of shape (L,) or (N, L)
        Of the positions.
    present : array of bool of shape (N, L)
        True where there is a token.
    first : int
        Place of the first row, for messages.

    Examples
    --------
    >>> remaining_weights(np.array([0.5, 0.5]), np.array([[True, True], [False, True]]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    kept = weights * present
    left = np.abs(kept).sum(axis=1, keepdims=True)
    if not left.all():
        check_every_row_has_a_token("mask", present, first)
        row = first + int(left.argmin())
        raise invalid_argument(
            "weights", "different from zero at some token of every row", f"none in row {row}"
        )
    return np.asarray(kept * (np.abs(weights).sum(axis=-1, keepdims=True) / left))


class Pooling:
    """Weights of the positions of each sequence, after the mask has been taken into account.

    Mask and weights may be memory maps; their rows are read and checked when they are needed.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        weights: Any = None,
        mask: Any = None,
        lengths: Any = None,
        first: int = 0,
    ) -> None:
        N, L = self.shape = shape
        self.first = first  # place of the first of these sequences in the corpus, for messages
        w = np.full(L, 1 / L) if weights is None else converted("weights", weights)
        w = real_array("weights", w) if w.ndim == 1 else array("weights", w, (2,), "fiu")
        if w.shape not in ((L,), (N, L)):
            raise invalid_argument("weights", f"of shape ({L},) or ({N}, {L})", w)
        self.weights = w
        self.mask, self.lengths = _checked(shape, mask, lengths)

    @property
    def is_padded(self) -> bool:
        """Whether some positions hold no token, and so may hold anything."""
        return self.mask is not None or self.lengths is not None

    def part(self, rows: slice) -> tuple[Any, Any, Any]:
        """Weights, mask and lengths of some of the sequences, as the constructor takes them."""
        return (
            self.weights if self.weights.ndim == 1 else self.weights[rows],
            None if self.mask is None else self.mask[rows],
            None if self.lengths is None else self.lengths[rows],
        )

    def rows(self, rows: slice) -> NDArray[np.float64]:
        """Weights of some of the sequences, an array of shape (n, length)."""
        n, L = rows.stop - rows.start, self.shape[1]
        w = np.asarray(self.weights if self.weights.ndim == 1 else self.weights[rows], np.float64)
        if self.mask is not None:
            present = np.asarray(self.mask[rows])
        elif self.lengths is not None:
            present = np.arange(L) < np.asarray(self.lengths[rows])[:, None]
        else:
            return np.broadcast_to(w, (n, L))
        return remaining_weights(w, present, self.first + rows.start)

    def of_embeddings(self, block: NDArray[Any], rows: slice) -> NDArray[np.float64]:
        """Pool a block of embeddings of shape (n, length, dimension)."""
        w = self.rows(rows)
        X = _weighted_sum(w, block)
        if self.is_padded and not np.isfinite(X).all():  # padding may hold anything: 0 · NaN
            X = _weighted_sum(w, block, skip_zeros=True)
        return X

    def of_tokens(
        self, block: NDArray[Any], table: Any, rows: slice, dtype: np.dtype[Any]
    ) -> NDArray[Any]:
        """Pool a block of token ids of shape (n, length) through their table."""
        from attnlaw.data.pooled_tokens import pool_with_weights

        w = self.rows(rows).astype(dtype)
        V = len(table)
        ids = np.where(w != 0, block, 0) if self.is_padded else block
        if ids.min() < 0 or ids.max() >= V:
            outside = int(ids.min() if ids.min() < 0 else ids.max())
            raise invalid_argument("tokens", f"rows of the table, from 0 to {V - 1}", outside)
        is_ready = isinstance(table, np.ndarray) and table.dtype == dtype
        if not is_ready or not table.flags.c_contiguous:
            used, ids = np.unique(ids, return_inverse=True)
            table = np.asarray(table[used], dtype=dtype)
        is_large = math.prod(self.shape) * table.shape[1] > COMPILED_NUMBERS
        return pool_with_weights(ids, w, table, compiled=is_large)


def _weighted_sum(
    w: NDArray[np.float64], block: Any, *, skip_zeros: bool = False
) -> NDArray[np.float64]:
    """Pool a block of shape (n, length, dimension) as it lies in memory: Σ_l w_nl block_nl."""
    if is_by_position(block):
        X = np.zeros((block.shape[0], block.shape[2]), order="F")
        for w_l, e_l in zip(w.T[..., None], np.moveaxis(block, 1, 0), strict=True):
            X += w_l * (np.where(w_l, e_l, 0) if skip_zeros else e_l)
        return X
    if skip_zeros:
        block = np.where(w[..., None], block, 0)
    return np.asarray(np.einsum("nl,nld->nd", w, block))


def _checked(shape: tuple[int, int], mask: Any, lengths: Any) -> tuple[Any, Any]:
    """Return mask and lengths as arrays, of which one may be given; large ones are not read."""
    N, L = shape
    if mask is not None and lengths is not None:
        raise invalid_argument("lengths", "left out when a mask is given", lengths)
    if mask is not None:
        mask = array("mask", mask, (2,), "biu")
        if mask.shape != (N, L):
            raise invalid_argument("mask", f"of shape ({N}, {L})", mask)
        if mask.dtype.kind != "b":
            if ((mask != 0) & (mask != 1)).any():
                raise invalid_argument("mask", "made of bools, or of zeros and ones", mask)
            mask = mask != 0
    if lengths is not None:
        lengths = array("lengths", lengths, (1,), "iu")
        if lengths.shape != (N,):
            raise invalid_argument("lengths", f"of shape ({N},)", lengths)
        wrong = np.asarray((lengths < 1) | (lengths > L))
        if wrong.any():
            row = int(wrong.argmax())
            raise invalid_argument(
                "lengths", f"whole numbers from 1 to {L}", f"{int(lengths[row])} in row {row}"
            )
    return mask, lengths
