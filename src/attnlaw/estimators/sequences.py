r"""Token sequences as a linear map: all that learning needs are two products with them.

For T of shape (N, L, d), centred at every position, everything in this package goes through

    project:      v ∈ R^d      ↦  p_il = T_il·v
    backproject:  q ∈ R^(N×L)  ↦  Σ_il q_il T_il

so that nothing of the size of a covariance of positions and dimensions is ever formed. With a
table of embeddings, p_il = (E v)[token(i,l)] costs one product with the tokens that occur and a
look-up, however long the sequences are.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._validation import complain

__all__ = ["EmbeddedSequences", "Sequences", "TokenSequences", "as_sequences"]

Floats = NDArray[Any]  # float32 stays float32
BLOCK_NUMBERS = 2**20  # of embeddings laid out at a time
COPY_BYTES = 2**28  # of embeddings that may be copied


class Sequences:
    """N sequences of L tokens in R^d, some of which may be missing."""

    shape: tuple[int, int, int]  # N, L, d
    mask: NDArray[np.bool_] | None  # (N, L): True where there is a token; None: everywhere

    @property
    def pair_counts(self) -> NDArray[np.float64]:
        """Number of sequences that have a token at both positions, shape (L, L)."""
        N, L, _ = self.shape
        if self.mask is None:
            return np.full((L, L), float(N))
        present = self.mask.astype(np.float32)
        return np.asarray(present.T @ present, dtype=np.float64)

    def project(self, directions: Floats) -> Floats:
        """Return T_il·v for each column v, centred at each position: (d, S) to (S, N, L)."""
        P = self._centre(self._project(directions.astype(self._dtype, copy=False)))
        return np.ascontiguousarray(np.moveaxis(P, 2, 0))

    def backproject(self, coefficients: Floats) -> NDArray[np.float64]:
        """Return Σ_il q_il T_il, T centred at each position: (S, N, L) to (d, S)."""
        Q = np.ascontiguousarray(np.moveaxis(coefficients, 0, 2), dtype=self._dtype)
        return self._backproject(self._centre(Q)).astype(np.float64)

    def means(self) -> NDArray[np.float64]:
        """Mean token at each position, shape (L, d)."""
        total = np.zeros(self.shape[1:])
        for rows in self._blocks():
            total += self.embed(rows).sum(axis=0, dtype=np.float64)
        return np.asarray(total / np.maximum(np.diag(self.pair_counts), 1)[:, None])

    def centred_blocks(self) -> Iterator[Floats]:
        """Yield the sequences a few at a time, centred, zero where there is no token."""
        means = self.means().astype(self._dtype)
        for rows in self._blocks():
            T = self.embed(rows) - means
            if self.mask is not None:
                T *= self.mask[rows][:, :, None]
            yield T

    def total_variance(self) -> float:
        """Trace of the tokens' covariance, averaged over positions."""
        squares = sum(float(np.vdot(T, T).real) for T in self.centred_blocks())
        return squares / max(float(np.trace(self.pair_counts)), 1.0)

    def pool(self, weights: NDArray[np.float64]) -> Floats:
        """Return Σ_l w_il T_il, not centred, for weights of shape (L,) or (N, L): (N, d)."""
        N, _, d = self.shape
        pooled = np.empty((N, d), dtype=self._dtype)
        w = weights.astype(self._dtype)
        for rows in self._blocks():
            each = w if w.ndim == 1 else w[rows][:, None, :]
            pooled[rows] = (each @ self.embed(rows)).reshape(-1, d)
        return pooled

    def some(self, n: int, rng: np.random.Generator) -> "Sequences":
        """Return n of the sequences, drawn at random; all if there are no more."""
        N = self.shape[0]
        return self if n >= N else self.take(np.sort(rng.choice(N, n, replace=False)))

    def take(self, rows: NDArray[np.intp]) -> "Sequences":
        """Return some of the sequences, as a copy."""
        raise NotImplementedError

    def embed(self, rows: slice) -> Floats:
        """Return T for some of the sequences, zero where there is no token: (n, L, d)."""
        raise NotImplementedError

    def _project(self, directions: Floats) -> Floats:
        raise NotImplementedError

    def _backproject(self, coefficients: Floats) -> Floats:
        raise NotImplementedError

    _dtype: np.dtype[Any]

    def _blocks(self) -> Iterator[slice]:
        N, L, d = self.shape
        size = max(1, BLOCK_NUMBERS // (L * d))
        for start in range(0, N, size):
            yield slice(start, min(start + size, N))

    def _centre(self, P: Floats) -> Floats:
        """Subtract the mean over the sequences that have a token; zero where there is none."""
        if self.mask is None:
            P -= P.mean(axis=0)
            return P
        present = self.mask[:, :, None]
        P = np.where(present, P, 0)
        P -= P.sum(axis=0) / np.maximum(self.mask.sum(axis=0), 1)[:, None].astype(P.dtype)
        P *= present
        return P


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
        self._dtype = embeddings.dtype
        self._embeddings = embeddings
        self._index = index
        whole = index is None and mask is None and embeddings.flags.c_contiguous
        self._rows = embeddings.reshape(N * L, d) if whole else None

    def take(self, rows: NDArray[np.intp]) -> "EmbeddedSequences":
        """Return some of the sequences; a copy if they are few."""
        mask = None if self.mask is None else self.mask[rows]
        index = rows if self._index is None else self._index[rows]
        if len(rows) * self._embeddings[0].nbytes <= COPY_BYTES:
            return EmbeddedSequences(self._embeddings[index], mask)
        return EmbeddedSequences(self._embeddings, mask, index)

    def embed(self, rows: slice) -> Floats:
        """Return T for some of the sequences, zero where there is no token: (n, L, d)."""
        T = self._embeddings[rows if self._index is None else self._index[rows]]
        return T if self.mask is None else np.where(self.mask[rows][:, :, None], T, 0)

    def _project(self, directions: Floats) -> Floats:
        N, L, d = self.shape
        if self._rows is not None:
            return (self._rows @ directions).reshape(N, L, -1)
        P = np.empty((N, L, directions.shape[1]), dtype=self._dtype)
        for rows in self._blocks():
            T = self.embed(rows)
            P[rows] = (T.reshape(-1, d) @ directions).reshape(len(T), L, -1)
        return P

    def _backproject(self, coefficients: Floats) -> Floats:
        d, S = self.shape[2], coefficients.shape[2]
        if self._rows is not None:
            return np.asarray((coefficients.reshape(-1, S).T @ self._rows).T)
        total = np.zeros((S, d))
        for rows in self._blocks():
            total += coefficients[rows].reshape(-1, S).T @ self.embed(rows).reshape(-1, d)
        return total.T


class TokenSequences(Sequences):
    """Sequences given as rows of a table, shape (N, L); only the rows that occur are kept."""

    def __init__(
        self, tokens: NDArray[Any], table: Floats, mask: NDArray[np.bool_] | None
    ) -> None:
        from scipy.sparse import csr_array

        if mask is not None:
            tokens = np.where(mask, tokens, tokens[mask][0])  # padding may hold anything
        used, places = np.unique(tokens, return_inverse=True)
        self.shape = (*tokens.shape, table.shape[1])
        self.mask, self._dtype = mask, table.dtype
        self._tokens = places.reshape(tokens.shape)
        self._table = np.ascontiguousarray(table[used])
        n = tokens.size
        self._indicator = csr_array(
            (np.ones(n, dtype=table.dtype), self._tokens.ravel(), np.arange(n + 1)),
            shape=(n, len(used)),
        ).T

    @property
    def tokens(self) -> NDArray[np.intp]:
        """Rows of `table`, (N, L); arbitrary where there is no token."""
        return self._tokens

    @property
    def table(self) -> Floats:
        """Embeddings of the tokens that occur."""
        return self._table

    def take(self, rows: NDArray[np.intp]) -> "TokenSequences":
        """Return some of the sequences, with the tokens that occur in them."""
        mask = None if self.mask is None else self.mask[rows]
        return TokenSequences(self._tokens[rows], self._table, mask)

    def embed(self, rows: slice) -> Floats:
        """Return T for some of the sequences, zero where there is no token: (n, L, d)."""
        T = self._table[self._tokens[rows]]
        return T if self.mask is None else T * self.mask[rows][:, :, None]

    def pool(self, weights: NDArray[np.float64]) -> Floats:
        """Return Σ_l w_il T_il as one product of a sparse matrix with the table."""
        from scipy.sparse import csr_array

        N, L, _ = self.shape
        w = np.broadcast_to(weights.astype(self._dtype), (N, L))
        M = csr_array(
            (w.ravel(), self._tokens.ravel(), np.arange(0, N * L + 1, L)),
            shape=(N, len(self._table)),
        )
        return np.asarray(M @ self._table)

    def _project(self, directions: Floats) -> Floats:
        return np.asarray((self._table @ directions)[self._tokens])

    def _backproject(self, coefficients: Floats) -> Floats:
        per_token = self._indicator @ coefficients.reshape(self._tokens.size, -1)
        return np.asarray(self._table.T @ per_token)


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
        Embeddings; or rows of `table`, negative where there is no token.
    table : array of shape (V, d), optional
        Embeddings of the tokens.
    mask : array of bool and shape (N, length), optional
        True where there is a token.
    lengths : array of int and shape (N,), optional
        The same for sequences padded at the end.
    """
    if isinstance(sequences, Sequences):
        return sequences
    data = np.asarray(sequences)
    wanted = 3 if table is None else 2
    if data.ndim != wanted or 0 in data.shape:
        shape = "(n, length, dimension)" if table is None else "(n, length) beside a table"
        raise complain("sequences", f"a non-empty array of shape {shape}", data)
    N, L = data.shape[:2]
    present = _presence(N, L, mask, lengths)
    if table is None:
        if data.dtype.kind not in "fiu":
            raise complain("sequences", "made of real numbers", data.dtype.name)
        if data.dtype not in (np.float32, np.float64):
            data = data.astype(np.float64)
        result = EmbeddedSequences(data, present)
        if not all(np.isfinite(result.embed(rows)).all() for rows in result._blocks()):
            raise complain("sequences", "finite wherever there is a token", "NaN or infinity")
        return result
    if data.dtype.kind not in "iu":
        raise complain("sequences", "whole numbers beside a table", data.dtype.name)
    if data.min() < 0:
        present = (data >= 0) if present is None else present & (data >= 0)
        if not present.any(axis=1).all():
            row = int(present.any(axis=1).argmin())
            raise complain("sequences", "such that every row has a token", f"none in row {row}")
    E = np.asarray(table)
    if E.ndim != 2 or 0 in E.shape or E.dtype.kind not in "fiu":
        raise complain("table", "a non-empty array of real numbers with 2 axes", E)
    if E.dtype not in (np.float32, np.float64):
        E = E.astype(np.float64)
    largest = int((data if present is None else data[present]).max())
    if largest >= len(E):
        raise complain("sequences", f"rows of the table, at most {len(E) - 1}", largest)
    tokens = TokenSequences(data, E, present)
    if not np.isfinite(tokens._table).all():
        raise complain("table", "finite", E)
    return tokens


def _presence(n: int, length: int, mask: Any, lengths: Any) -> NDArray[np.bool_] | None:
    """Return the mask from whichever of the two was given; None if nothing is missing."""
    if mask is not None and lengths is not None:
        raise complain("lengths", "left out when a mask is given", lengths)
    if lengths is not None:
        lengths = np.asarray(lengths)
        ok = lengths.shape == (n,) and lengths.dtype.kind in "iu"
        if not ok or lengths.min() < 1 or lengths.max() > length:
            raise complain("lengths", f"{n} whole numbers from 1 to {length}", lengths)
        mask = np.arange(length) < lengths[:, None]
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.shape != (n, length) or mask.dtype != np.bool_:
        raise complain("mask", f"an array of bools of shape ({n}, {length})", mask)
    if not mask.any(axis=1).all():
        raise complain(
            "mask", "True somewhere in every row", f"none in row {mask.any(1).argmin()}"
        )
    return None if mask.all() else mask
