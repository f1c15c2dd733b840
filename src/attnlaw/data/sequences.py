r"""Token sequences as a linear map: all that learning needs are two products with them.

For T of shape (N, L, d), centred at every position, everything in this package goes through

    project:      v ∈ R^d      ↦  p_il = T_il·v
    backproject:  q ∈ R^(N×L)  ↦  Σ_il q_il T_il

so that nothing of the size of a covariance of positions and dimensions is ever formed. With a
table of embeddings, p_il = (E v)[token(i,l)] costs one product with the tokens that occur and a
look-up, however long the sequences are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EmbeddedSequences", "Sequences", "TokenSequences"]

Floats = NDArray[Any]  # float32 stays float32
BLOCK_NUMBERS = 2**20  # of embeddings laid out at a time
N_SPANS = 12  # of sequences of about the same length


class Sequences:
    """N sequences of L tokens in R^d, some of which may be missing."""

    shape: tuple[int, int, int]  # N, L, d
    mask: NDArray[np.bool_] | None  # (N, L): True where there is a token; None: everywhere
    dtype: np.dtype[Any]  # of the embeddings

    @cached_property
    def pair_counts(self) -> NDArray[np.float64]:
        """Number of sequences that have a token at both positions, shape (L, L)."""
        N, L, _ = self.shape
        if self.mask is None:
            return np.full((L, L), float(N))
        present = self.mask.astype(np.float32)
        return np.asarray(present.T @ present, dtype=np.float64)

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """Number of positions up to the last token of each sequence, shape (N,)."""
        N, L, _ = self.shape
        last = 0 if self.mask is None else np.argmax(self.mask[:, ::-1], axis=1)
        return np.full(N, L) - last

    @cached_property
    def spans(self) -> list[tuple[slice, int]]:
        """Runs of sequences, and the positions up to the last token of any of them.

        Products with a matrix of positions need go no further: see `by_length`.
        """
        if self.mask is None:
            return [(slice(0, self.shape[0]), self.shape[1])]
        parts = np.array_split(np.arange(self.shape[0]), N_SPANS)
        runs = (slice(int(part[0]), int(part[-1]) + 1) for part in parts if len(part))
        return [(run, int(self.ends[run].max())) for run in runs]

    def by_length(self) -> "Sequences":
        """Return the sequences in falling order of length, so that `spans` are short."""
        return self if self.mask is None else self.take(np.argsort(-self.ends, kind="stable"))

    def project(self, directions: Floats) -> Floats:
        """Return T_il·v for each column v, centred at each position: (d, S) to (S, N, L)."""
        return self._centre(self._project(directions.astype(self.dtype, copy=False)))

    def backproject(self, coefficients: Floats) -> NDArray[np.float64]:
        """Return Σ_il q_il T_il, T centred at each position: (S, N, L) to (d, S)."""
        Q = self._centre(np.array(coefficients, dtype=self.dtype))
        return self._backproject(Q).astype(np.float64)

    def means(self) -> NDArray[np.float64]:
        """Mean token at each position, shape (L, d)."""
        total = np.zeros(self.shape[1:])
        for rows in self._blocks():
            total += self.embed(rows).sum(axis=0, dtype=np.float64)
        return np.asarray(total / np.maximum(np.diag(self.pair_counts), 1)[:, None])

    def centred_blocks(self) -> Iterator[Floats]:
        """Yield the sequences a few at a time, centred, zero where there is no token.

        They go as far as the longest of the few.
        """
        means = self.means().astype(self.dtype)
        for rows in self._blocks():
            longest = int(self.ends[rows].max())
            T = self.embed(rows)[:, :longest] - means[:longest]
            if self.mask is not None:
                T *= self.mask[rows, :longest, None]
            yield T

    def total_variance(self) -> float:
        """Trace of the tokens' covariance, averaged over positions."""
        squares = sum(float(np.vdot(T, T).real) for T in self.centred_blocks())
        return squares / max(float(np.trace(self.pair_counts)), 1.0)

    def pool(self, weights: NDArray[np.float64]) -> Floats:
        """Return Σ_l w_il T_il, not centred, for weights of shape (L,) or (N, L): (N, d)."""
        N, _, d = self.shape
        pooled = np.empty((N, d), dtype=self.dtype)
        w = weights.astype(self.dtype)
        for rows in self._blocks():
            each = w if w.ndim == 1 else w[rows][:, None, :]
            pooled[rows] = (each @ self.embed(rows)).reshape(-1, d)
        return pooled

    @cached_property
    def maximum(self) -> Floats:
        """Largest value of each coordinate over the tokens of a sequence: (N, d)."""
        largest = np.empty((self.shape[0], self.shape[2]), dtype=self.dtype)
        for rows in self._blocks():
            T = self.embed(rows)  # a copy where there is a mask
            if self.mask is not None:
                T[~self.mask[rows]] = -np.inf
            largest[rows] = T.max(axis=1)
        return largest

    def pool_many(
        self, weights: Sequence[NDArray[np.floating]], run: Callable[..., Iterable[None]] = map
    ) -> NDArray[np.float32]:
        """Return the same for several weights in one pass, in single precision: (K, N, d).

        Weights of shape (N, L) are 0 where there is no token; `run` may be the `map` of an
        executor with several threads.
        """
        N, L, d = self.shape
        pooled = np.empty((len(weights), N, d), dtype=np.float32)
        each = [np.broadcast_to(np.asarray(w, dtype=np.float32), (N, L)) for w in weights]

        def pool(rows: Any) -> None:
            T = self._laid_out(rows).astype(np.float32, copy=False)
            W = np.stack([w[rows, : T.shape[1]] for w in each], axis=1)
            pooled[:, rows] = np.matmul(W, T).swapaxes(0, 1)

        for _ in run(pool, self._pooled_together()):
            pass
        return pooled

    def _pooled_together(self) -> Iterator[Any]:
        """Yield rows that are pooled together."""
        return self._blocks()

    def _laid_out(self, rows: Any) -> Floats:
        """Return their tokens, up to the last that is there; finite where there is none."""
        return self.embed(rows)

    def some(self, n: int, rng: np.random.Generator) -> "Sequences":
        """Return n of the sequences, drawn at random; all if there are no more."""
        N = self.shape[0]
        return self if n >= N else self.take(np.sort(rng.choice(N, n, replace=False)))

    def take(self, rows: NDArray[np.intp], *, once: bool = False) -> "Sequences":
        """Return some of the sequences, as a copy; a cheap one if it is used only `once`.

        Their `maximum` is handed down if it is known.
        """
        part = self._take(rows, once)
        if "maximum" in self.__dict__:
            part.__dict__["maximum"] = self.maximum[rows]
        return part

    def _take(self, rows: NDArray[np.intp], once: bool) -> "Sequences":
        raise NotImplementedError

    def with_mask(self, mask: NDArray[np.bool_]) -> "Sequences":
        """Return the sequences with tokens only where the mask says."""
        raise NotImplementedError

    def cut(self, length: int) -> "Sequences":
        """Return the sequences with so many positions: at the beginning, or at the end.

        Whichever holds more tokens; where that is alike, as without a mask, the beginning.
        """
        L = self.shape[1]
        if length >= L:
            return self
        first, last = slice(0, length), slice(L - length, L)
        if self.mask is None or self.mask[:, first].sum() >= self.mask[:, last].sum():
            return self._positions(first)
        return self._positions(last)

    def _positions(self, positions: slice) -> "Sequences":
        raise NotImplementedError

    def embed(self, rows: slice) -> Floats:
        """Return T for some of the sequences, zero where there is no token: (n, L, d)."""
        raise NotImplementedError

    def _project(self, directions: Floats) -> Floats:
        raise NotImplementedError

    def _backproject(self, coefficients: Floats) -> Floats:
        raise NotImplementedError

    def _blocks(self) -> Iterator[slice]:
        N, L, d = self.shape
        size = max(1, BLOCK_NUMBERS // (L * d))
        for start in range(0, N, size):
            yield slice(start, min(start + size, N))

    def _centre(self, P: Floats) -> Floats:
        """Subtract, in place, the mean over the sequences that have a token; zero elsewhere."""
        if self.mask is None:
            P -= P.mean(axis=1, keepdims=True)
            return P
        present = self._present
        sums = np.einsum("sil,il->sl", P, present)
        P -= (sums / np.maximum(present.sum(axis=0), 1))[:, None, :]
        P *= present
        return P

    @cached_property
    def _present(self) -> Floats:
        return np.asarray(self.mask, dtype=self.dtype)


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
