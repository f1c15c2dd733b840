"""Products with the covariance of pooled tokens; the pooled vectors are never formed.

Every product is that of MᵀM/N, M the sparse matrix of pooling weights: by SciPy (`PlainGram`), by
compiled loops (`CompiledGram`), or tile by tile where no cache holds the table (`TiledGram`).

Tokens come from a `TokenSource`, which draws the sequences a part at a time.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from attnlaw._checks import Floats
from attnlaw._machine import MissingExtra
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.stream import Source, Stream
from attnlaw.simulation.signs import sample_signs, sign_groups

__all__ = [
    "CompiledGram",
    "DrawnTokens",
    "PlainGram",
    "TiledGram",
    "TokenCovariance",
    "TokenSource",
    "smallest_kind",
]

Vectors = NDArray[np.floating]


class TokenSource(Protocol):
    """Sequences of tokens, handed out one after the other."""

    n_samples: int  # N

    def take(self, n: int) -> NDArray[np.integer]:
        """Return the next n sequences: row of the table at every position, (n, length)."""


class DrawnTokens:
    """Sequences of tokens, drawn when they are taken: signs by R, then uniformly in their class.

    The law is that of `sample_signs` and `sample_tokens`; this is the one place where the engine
    draws tokens. Compiled or not, the tokens are the same.

    Parameters
    ----------
    correlation : array of shape (length, length)
        R.
    n_samples : int
        N.
    n_vocab : int
        V.
    rng : Generator
        Source of randomness: of the signs, unless they are independent or shared, and of the
        state from which the tokens are drawn.
    compiled : bool
        Draw in a compiled loop.
    """

    def __init__(
        self,
        correlation: Floats,
        n_samples: int,
        n_vocab: int,
        rng: np.random.Generator,
        compiled: bool,
    ) -> None:
        self.n_samples, self._half = n_samples, n_vocab // 2
        self._kind = smallest_kind(n_vocab)
        self._correlation, self._groups, self._rng = correlation, sign_groups(correlation), rng
        self._source: Source
        if compiled:
            from attnlaw.simulation._matrix_free.compiled.kernels import CompiledStream

            self._source = CompiledStream(rng)
        else:
            self._source = Stream(rng)

    def take(self, n: int) -> NDArray[np.integer]:
        """Draw n sequences: row of the table at every position, (n, length)."""
        groups, half = self._groups, self._half
        if groups is not None and len(groups.leaders) <= 64:
            return self._source.sign_tokens(n, groups.members, groups.polarity, half, self._kind)
        signs = sample_signs(self._correlation, n, self._rng)
        return self._source.tokens(signs, half, self._kind)


def smallest_kind(n_vocab: int) -> type[np.unsignedinteger]:
    """Return the shortest kind of number that can number so many tokens."""
    return np.uint16 if n_vocab <= 2**16 else np.uint32


class TokenCovariance:
    """K = Mᵀ (I − 11ᵀ/N) M / N for several pooling weights at once.

    M is the N×V matrix with w_l at (i, token(i,l)): pooled noise with table Z is MZ, and its
    covariance ZᵀKZ. Without centring K = MᵀM/N.

    Parameters
    ----------
    tokens : TokenSource
        Sequences of tokens, all of which are taken.
    n_vocab : int
        V.
    weights : array of shape (n_weights, length)
        Pooling weights; each row has its own K.
    centred : bool
        Subtract the sample mean.
    dtype : float32 or float64
        Precision of the products.
    compiled : bool or None
        Use compiled products (True), SciPy's (False), or compiled ones if numba is installed
        (None).

    Examples
    --------
    Weights that sum to one pool a table of ones to ones, and 1ᵀK1 = 1:

    >>> rng = np.random.default_rng(0)
    >>> tokens, w = DrawnTokens(np.eye(3), 100, 8, rng, compiled=False), np.full((1, 3), 1 / 3)
    >>> K = TokenCovariance(tokens, 8, w, centred=False, dtype=np.float64)
    >>> float(K.multiply(np.ones((8, 1)), (0,)).sum().round(12))
    1.0
    """

    def __init__(
        self,
        tokens: TokenSource,
        n_vocab: int,
        weights: Floats,
        *,
        centred: bool,
        dtype: DTypeLike = np.float32,
        compiled: bool | None = None,
    ) -> None:
        if compiled and not plan.has_numba():
            raise MissingExtra("numba", "fast", "A compiled product")
        columns = weights.T.astype(dtype)
        self.dtype = np.dtype(dtype)
        self.gram: PlainGram | CompiledGram
        if plan.has_numba() if compiled is None else compiled:
            self.gram = CompiledGram(tokens, n_vocab, columns)
        else:
            self.gram = PlainGram(tokens, n_vocab, columns)
        self.mean = self.gram.transpose_ones() if centred else None

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times every column.

        Parameters
        ----------
        vectors : array of shape (V, n)
            Columns indexed by the vocabulary.
        which : sequence of n ints
            The pooling weights that each column takes: rows of `weights`.
        """
        product = self.gram.multiply(vectors, tuple(which))
        if self.mean is not None:
            along = self.mean.T @ vectors  # (n_weights, n)
            chosen = np.equal.outer(np.arange(len(along)), which)
            product -= self.mean @ np.where(chosen, along, 0).astype(self.dtype)
        return product


class PlainGram:
    """MᵀM/N by SciPy's sparse products.

    Parameters
    ----------
    tokens : TokenSource
        Sequences of tokens.
    n_vocab : int
        V.
    weights : array of shape (length, n_weights)
        Pooling weights; each column has its own M.
    """

    def __init__(self, tokens: TokenSource, n_vocab: int, weights: Vectors) -> None:
        used = np.flatnonzero(weights.any(axis=1))
        sequences, weights = tokens.take(tokens.n_samples)[:, used], weights[used]
        n, length = sequences.shape
        starts, columns = np.arange(0, n * length + 1, length), sequences.ravel().astype(np.int32)
        self._matrices = [
            csr_array((np.tile(w, n), columns, starts), shape=(n, n_vocab)) for w in weights.T
        ]

    def multiply(self, vectors: Vectors, which: tuple[int, ...]) -> Vectors:
        """Return MᵀM/N times every column, with the weights that it takes."""
        out = np.empty_like(vectors)
        for j in set(which):
            M, columns = self._matrices[j], np.equal(which, j)
            out[:, columns] = M.T @ (M @ vectors[:, columns]) / M.shape[0]
        return out

    def transpose_ones(self) -> Vectors:
        """Return Mᵀ1/N, a column for each weights."""
        return np.stack([M.sum(axis=0) / M.shape[0] for M in self._matrices], axis=1)


class CompiledGram:
    """MᵀM/N by the numba kernels: all columns at once, so each token is read once.

    Parameters
    ----------
    tokens, n_vocab, weights
        As in `PlainGram`.

    Attributes
    ----------
    is_large : bool
        Whether products are shared by several threads.
    tokens : array of unsigned int, shape (N, used positions)
        Tokens at the positions that have weight; none where they are in tiles.
    weights : array of shape (used positions, n_weights)
        Their weights.
    """

    def __init__(self, tokens: TokenSource, n_vocab: int, weights: Vectors) -> None:
        from attnlaw.simulation._matrix_free.compiled import kernels, products

        used = np.flatnonzero(weights.any(axis=1))
        self.n_samples, self.n_vocab = tokens.n_samples, n_vocab
        self._products, self._n_threads = products, kernels.n_threads
        self.weights = np.ascontiguousarray(weights[used])
        self._count = self.weights.dtype.type(self.n_samples)  # so that quotients keep the dtype
        self.is_large = plan.is_large(self.n_samples, len(used))
        self._tiled: TiledGram | None = None
        if plan.is_tiled(self.n_samples, len(used), n_vocab):
            self._tiled = TiledGram(tokens, n_vocab, used)
        sequences = tokens.take(0 if self._tiled else tokens.n_samples)
        if len(used) < sequences.shape[1]:
            sequences = sequences[:, used]
        self.tokens = np.ascontiguousarray(sequences, dtype=smallest_kind(n_vocab))

    def multiply(self, vectors: Vectors, which: tuple[int, ...]) -> Vectors:
        """Return MᵀM/N times every column, with the weights that it takes."""
        weights = self.weights[:, which]
        return self._split_product(weights, weights / self._count, vectors)

    def transpose_ones(self) -> Vectors:
        """Return Mᵀ1/N, a column for each weights."""
        ones = np.ones((self.n_vocab, self.weights.shape[1]), dtype=self.weights.dtype)
        first = np.zeros_like(self.weights)
        first[0] = 1  # pools a table of ones to 1, exactly
        return self._split_product(first, self.weights / self._count, ones)

    def _split_product(self, weights: Vectors, scaled: Vectors, table: Vectors) -> Vectors:
        """Return the product of any number of columns, by the widths that the kernels have."""
        n, widths = table.shape[1], self._products.WIDTHS
        products = []
        for start in range(0, n, widths[-1]):
            part = [a[:, start : start + widths[-1]] for a in (weights, scaled, table)]
            width = next(w for w in widths if w >= part[0].shape[1])
            w, v, Z = (_padded(a, width) for a in part)
            products.append(self.product(w, v, Z, np.empty_like(Z)))
        return np.concatenate(products, axis=1)[:, :n]

    def product(self, weights: Vectors, scaled: Vectors, table: Vectors, out: Vectors) -> Vectors:
        """Write what `add_gram_product` adds into `out`, by threads where it is large."""
        add = self._products.add_gram_product
        if self._tiled is not None:
            return self._tiled.product(weights, scaled, table, out)
        if not self.is_large:
            out[:] = 0
            add(self.tokens, weights, scaled, table, out)
            return out

        def part(tokens: NDArray[np.unsignedinteger]) -> Vectors:
            product = np.zeros_like(table)
            add(tokens, weights, scaled, table, product)
            return product

        with ThreadPoolExecutor(min(plan.PARTS, self._n_threads())) as pool:
            out[:] = sum(pool.map(part, np.array_split(self.tokens, plan.PARTS)))
        return out


class TiledGram:
    """MᵀM/N with its tokens in tiles, see `compiled.products`.

    Parameters
    ----------
    tokens : TokenSource
        Sequences of tokens.
    n_vocab : int
        V.
    used : array of int, shape (length,)
        The positions that have weight.
    """

    def __init__(self, tokens: TokenSource, n_vocab: int, used: NDArray[np.int_]) -> None:
        from attnlaw.simulation._matrix_free.compiled import products
        from attnlaw.simulation._matrix_free.compiled.kernels import n_threads

        self._products, self._n_threads, n = products, n_threads, tokens.n_samples
        n_slabs = plan.PARTS * -(-n // (plan.PARTS * plan.SLAB))
        self._cuts = [n * k // n_slabs for k in range(n_slabs + 1)]
        self._slabs: list[Any] = []
        heights, at_once = np.diff(self._cuts).tolist(), min(plan.PARTS, n_threads())
        with ThreadPoolExecutor(at_once) as pool:
            for k in range(0, n_slabs, at_once):  # no more of them are held unsorted
                taken = [tokens.take(height) for height in heights[k : k + at_once]]
                self._slabs += pool.map(lambda x: products.sorted_slab(x, used, n_vocab), taken)
        self._pooled = np.empty((0, 0))

    def product(self, weights: Vectors, scaled: Vectors, table: Vectors, out: Vectors) -> Vectors:
        """Write what `add_gram_product` adds into `out`."""
        shape, lanes = (self._cuts[-1], table.shape[1]), (0,) * table.shape[1]
        if self._pooled.shape != shape or self._pooled.dtype != table.dtype:
            self._pooled = np.empty(shape, dtype=table.dtype)
        none = np.zeros((1, shape[1]), dtype=table.dtype)  # at the position beyond the last
        weights, scaled = np.concatenate([weights, none]), np.concatenate([scaled, none])
        parts = [self._pooled[start:stop] for start, stop in pairwise(self._cuts)]
        n_strips = len(self._slabs[0].starts) - 1
        strips = pairwise([n_strips * k // plan.PARTS for k in range(plan.PARTS + 1)])

        def pool_slab(slab: Any, pooled: Vectors) -> None:
            self._products.pool_slab(slab, weights, table, pooled, lanes)

        def add_strips(cut: tuple[int, int]) -> None:
            for slab, pooled in zip(self._slabs, parts, strict=True):
                self._products.add_strips(slab, *cut, scaled, pooled, out, lanes)

        out[:] = 0
        with ThreadPoolExecutor(min(plan.PARTS, self._n_threads())) as pool:
            for _ in pool.map(pool_slab, self._slabs, parts):
                pass
            for _ in pool.map(add_strips, strips):
                pass
        return out


def _padded(array: Vectors, width: int) -> Vectors:
    """Return the columns in one block of memory, with zeros up to `width`."""
    if array.shape[1] == width:
        return np.ascontiguousarray(array)
    padded = np.zeros((len(array), width), dtype=array.dtype)
    padded[:, : array.shape[1]] = array
    return padded
