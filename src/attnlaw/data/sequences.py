"""What users give as sequences: embeddings, or tokens with their table."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import invalid_argument, look_at_part, refuse_extremes
from attnlaw.data.masks import check_every_row_has_a_token, converted, presence
from attnlaw.data.sequence_map import BLOCK_NUMBERS, Floats, Sequences

__all__ = ["EmbeddedSequences", "Sequences", "TokenSequences", "as_sequences", "padded"]

COPY_BYTES = 2**28  # of embeddings that may be copied
NEARLY_ALL = 0.8  # of a table in use: the rest is not worth a copy


class EmbeddedSequences(Sequences):
    """Sequences given as an array of shape (N, L, d), in memory or a memory map.

    The array is never copied as a whole: parts of it beyond 256 MiB are kept as an index.
    """

    def __init__(
        self,
        embeddings: Floats,
        mask: NDArray[np.bool_] | None,
        index: NDArray[np.intp] | None = None,
    ) -> None:
        N, L, d = embeddings.shape
        self.shape = (N if index is None else len(index), L, d)
        self.mask = mask
        self.dtype = embeddings.dtype
        self._embeddings = embeddings
        self._index = index
        whole = index is None and mask is None and embeddings.flags.c_contiguous
        self._rows = embeddings.reshape(N * L, d) if whole else None

    def _take(self, rows: NDArray[np.intp], once: bool) -> "EmbeddedSequences":
        """Return some of the sequences; a copy if they are few."""
        del once
        mask = None if self.mask is None else self.mask[rows]
        index = rows if self._index is None else self._index[rows]
        if len(rows) * self._embeddings[0].nbytes <= COPY_BYTES:
            return EmbeddedSequences(self._embeddings[index], mask)
        return EmbeddedSequences(self._embeddings, mask, index)

    def _positions(self, positions: slice) -> "EmbeddedSequences":
        mask = None if self.mask is None else self.mask[:, positions]
        return EmbeddedSequences(self._embeddings[:, positions], mask, self._index)

    def with_mask(self, mask: NDArray[np.bool_]) -> "EmbeddedSequences":
        """Return the sequences with tokens only where the mask says."""
        return EmbeddedSequences(self._embeddings, mask, self._index)

    def embed(self, rows: slice) -> Floats:
        """Return T for some of the sequences, zero where there is no token: (n, L, d)."""
        T = self._embeddings[rows if self._index is None else self._index[rows]]
        return T if self.mask is None else np.where(self.mask[rows][:, :, None], T, 0)

    def _project(self, directions: Floats) -> Floats:
        N, L, d = self.shape
        if self._rows is not None:
            return np.asarray(directions.T @ self._rows.T).reshape(-1, N, L)
        P = np.empty((directions.shape[1], N, L), dtype=self.dtype)
        for rows in self._blocks():
            T = self.embed(rows)
            P[:, rows] = (directions.T @ T.reshape(-1, d).T).reshape(-1, len(T), L)
        return P

    def _backproject(self, coefficients: Floats) -> Floats:
        d, S = self.shape[2], len(coefficients)
        if self._rows is not None:
            return np.asarray((coefficients.reshape(S, -1) @ self._rows).T)
        total = np.zeros((S, d))
        for rows in self._blocks():
            total += coefficients[:, rows].reshape(S, -1) @ self.embed(rows).reshape(-1, d)
        return total.T


class TokenSequences(Sequences):
    """Sequences given as rows of a table, shape (N, L); rows that do not occur are left out."""

    def __init__(
        self,
        tokens: NDArray[Any],
        table: Floats,
        mask: NDArray[np.bool_] | None,
        *,
        kept_from: float = 1.0,  # share of the table in use, from which all of it is kept
    ) -> None:
        if mask is not None:
            tokens = np.where(mask, tokens, tokens[mask][0])  # padding may hold anything
        if kept_from > 0:
            occurs = np.zeros(len(table), dtype=bool)
            occurs[tokens] = True
            (used,) = np.nonzero(occurs)
            if len(used) < kept_from * len(table):
                places = np.empty(len(table), dtype=np.intp)
                places[used] = np.arange(len(used))
                tokens, table = places[tokens], table[used]
        self.shape = (*tokens.shape, table.shape[1])
        self.mask, self.dtype = mask, table.dtype
        self._tokens = tokens.astype(np.intp, copy=False)
        self._table = np.ascontiguousarray(table)

    @cached_property
    def _indicator(self) -> Any:
        from scipy.sparse import csr_array

        n = self._tokens.size
        kind = np.int32 if n < 2**31 else np.int64
        ones, ends = np.ones(n, dtype=self.dtype), np.arange(n + 1, dtype=kind)
        each = self._tokens.ravel().astype(kind)
        return csr_array((ones, each, ends), shape=(n, len(self._table))).T

    @property
    def tokens(self) -> NDArray[np.intp]:
        """Rows of `table`, (N, L); arbitrary where there is no token."""
        return self._tokens

    @cached_property
    def occurrences(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row of `table` and position of every token that is there."""
        if self.mask is None:
            return self._tokens.ravel(), np.tile(np.arange(self.shape[1]), self.shape[0])
        return self._tokens[self.mask], np.nonzero(self.mask)[1]

    @property
    def table(self) -> Floats:
        """Embeddings of the tokens, of hardly more than occur."""
        return self._table

    def _take(self, rows: NDArray[np.intp], once: bool) -> "TokenSequences":
        """Return some of the sequences, with the tokens that occur in them."""
        mask = None if self.mask is None else self.mask[rows]
        kept_from = 0.0 if once else NEARLY_ALL
        return TokenSequences(self._tokens[rows], self._table, mask, kept_from=kept_from)

    def _positions(self, positions: slice) -> "TokenSequences":
        mask = None if self.mask is None else self.mask[:, positions]
        return TokenSequences(self._tokens[:, positions], self._table, mask)

    def with_mask(self, mask: NDArray[np.bool_]) -> "TokenSequences":
        """Return the sequences with tokens only where the mask says."""
        return TokenSequences(self._tokens, self._table, mask, kept_from=0.0)

    def embed(self, rows: slice) -> Floats:
        """Return T for some of the sequences, zero where there is no token: (n, L, d)."""
        T = np.take(self._table, self._tokens[rows], axis=0)
        if self.mask is not None:
            T *= self.mask[rows][:, :, None]
        return T

    def pool(self, weights: NDArray[np.float64]) -> Floats:
        """Return Σ_l w_il T_il as one product of a sparse matrix with the table."""
        from scipy.sparse import csr_array

        N, L, _ = self.shape
        w = np.broadcast_to(weights.astype(self.dtype), (N, L))
        M = csr_array(
            (w.ravel(), self._tokens.ravel(), np.arange(0, N * L + 1, L)),
            shape=(N, len(self._table)),
        )
        return np.asarray(M @ self._table)

    def _pooled_together(self) -> Iterator[NDArray[np.intp]]:
        """Yield rows that are pooled together: those of about the same length."""
        d = self.shape[2]
        rows = np.argsort(-self.ends, kind="stable")
        while len(rows):
            size = max(1, BLOCK_NUMBERS // (int(self.ends[rows[0]]) * d))
            yield rows[:size]
            rows = rows[size:]

    def _laid_out(self, rows: NDArray[np.intp]) -> Floats:
        longest = int(self.ends[rows[0]])
        return np.take(self._table, self._tokens[rows, :longest], axis=0)

    def _project(self, directions: Floats) -> Floats:
        values = np.ascontiguousarray((self._table @ directions).T)
        return np.take(values, self._tokens, axis=1)

    def _backproject(self, coefficients: Floats) -> Floats:
        columns = np.ascontiguousarray(coefficients.reshape(len(coefficients), -1).T)
        return np.asarray(self._table.T @ (self._indicator @ columns))


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
    present = presence(data.shape[:2], mask, lengths)
    return _embedded(data, present) if table is None else _of_tokens(data, table, present)


def _embedded(data: Any, present: NDArray[np.bool_] | None) -> EmbeddedSequences:
    if present is None:  # padding may hold anything
        look_at_part("sequences", data)
    if data.dtype.kind not in "fiu":
        raise invalid_argument("sequences", "made of real numbers", data.dtype.name)
    sequences = EmbeddedSequences(_floating(data), present)
    largest = np.max([np.abs(sequences.embed(rows)).max() for rows in sequences._blocks()])
    if not np.isfinite(largest):
        raise invalid_argument("sequences", "finite wherever there is a token", "NaN or infinity")
    refuse_extremes("sequences", largest, single=True)
    return sequences


def _of_tokens(data: Any, table: Any, present: NDArray[np.bool_] | None) -> TokenSequences:
    if data.dtype.kind not in "iu":
        raise invalid_argument("sequences", "whole numbers beside a table", data.dtype.name)
    if data.min() < 0:
        present = (data >= 0) if present is None else present & (data >= 0)
        check_every_row_has_a_token("sequences", present)
    E = converted("table", table)
    if E.ndim != 2 or 0 in E.shape or E.dtype.kind not in "fiu":
        raise invalid_argument("table", "a non-empty array of real numbers with 2 axes", E)
    look_at_part("table", E)
    last = int((data if present is None else data[present]).max())
    if last >= len(E):
        raise invalid_argument("sequences", f"rows of the table, at most {len(E) - 1}", last)
    sequences = TokenSequences(data, _floating(E), present)
    largest = np.abs(sequences._table).max()
    if not np.isfinite(largest):
        raise invalid_argument("table", "finite", E)
    refuse_extremes("table", largest, single=True)
    return sequences


def _floating(numbers: NDArray[Any]) -> Floats:
    is_single_or_double = numbers.dtype in (np.float32, np.float64)
    return numbers if is_single_or_double else numbers.astype(np.float64)


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
