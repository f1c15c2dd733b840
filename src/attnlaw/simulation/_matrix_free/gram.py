"""Products with MᵀM/N, M the sparse matrix of pooling weights, on several roads."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["CompiledGram", "PlainGram", "TiledGram", "TokenSource", "compiled_kernels", "is_tiled"]

Vectors = NDArray[np.floating]

LARGE = 4_000_000  # tokens from which a product is worth several threads
WIDE = 200_000  # rows of a table from which they are met strip by strip, see `tiles`
PARTS = 4  # into which a large product is cut, however many threads: the sums stay the same
SLAB = 2**20  # sequences at most that are tiled together
LONGEST = 2**13  # positions of a sequence that a tile can tell apart


class TokenSource(Protocol):
    """Sequences of tokens, handed out one after the other."""

    n_samples: int  # N

    def take(self, n: int) -> NDArray[np.integer]:
        """Return the next n sequences: row of the table at every position, (n, length)."""


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
    """MᵀM/N by the numba kernels: all columns in lockstep, so each token is read once.

    Parameters
    ----------
    tokens, n_vocab, weights
        As in `PlainGram`.
    kernels : module
        As `compiled_kernels` finds it.

    Attributes
    ----------
    is_large : bool
        Whether products are shared by several threads.
    tokens : array of unsigned int, shape (N, used positions)
        Tokens at the positions that have weight; none where the table is wide.
    weights : array of shape (used positions, n_weights)
        Their weights.
    """

    def __init__(
        self, tokens: TokenSource, n_vocab: int, weights: Vectors, kernels: ModuleType
    ) -> None:
        used = np.flatnonzero(weights.any(axis=1))
        self.n_samples, self.n_vocab, self._kernels = tokens.n_samples, n_vocab, kernels
        self.weights = np.ascontiguousarray(weights[used])
        self.is_large = self.n_samples * len(used) >= LARGE
        self._tiled: TiledGram | None = None
        if is_tiled(self.n_samples, len(used), n_vocab):
            self._tiled = TiledGram(tokens, n_vocab, used)
        sequences = tokens.take(0 if self._tiled else tokens.n_samples)
        if len(used) < sequences.shape[1]:
            sequences = sequences[:, used]
        self.tokens = np.ascontiguousarray(sequences, dtype=smallest_kind(n_vocab))

    def multiply(self, vectors: Vectors, which: tuple[int, ...]) -> Vectors:
        """Return MᵀM/N times every column, with the weights that it takes."""
        weights = self.weights[:, which]
        return self._split_product(weights, weights / self.n_samples, vectors)

    def transpose_ones(self) -> Vectors:
        """Return Mᵀ1/N, a column for each weights."""
        ones = np.ones((self.n_vocab, self.weights.shape[1]), dtype=self.weights.dtype)
        first = np.zeros_like(self.weights)
        first[0] = 1  # pools a table of ones to 1, exactly
        return self._split_product(first, self.weights / self.n_samples, ones)

    def _split_product(self, weights: Vectors, scaled: Vectors, table: Vectors) -> Vectors:
        """Return the product of any number of columns, by the widths that the kernels know."""
        n, widths = table.shape[1], self._kernels.WIDTHS
        products = []
        for start in range(0, n, widths[-1]):
            part = [a[:, start : start + widths[-1]] for a in (weights, scaled, table)]
            width = next(w for w in widths if w >= part[0].shape[1])
            w, v, Z = (_padded(a, width) for a in part)
            products.append(self.product(w, v, Z, np.empty_like(Z)))
        return np.concatenate(products, axis=1)[:, :n]

    def product(self, weights: Vectors, scaled: Vectors, table: Vectors, out: Vectors) -> Vectors:
        """Write what `kernels.add_gram_product` adds into `out`, by threads where it is large."""
        add = self._kernels.add_gram_product
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

        with ThreadPoolExecutor(min(PARTS, self._kernels.n_threads())) as pool:
            out[:] = sum(pool.map(part, np.array_split(self.tokens, PARTS)))
        return out


class TiledGram:
    """MᵀM/N with its tokens in tiles, see `attnlaw.simulation._matrix_free.tiles`.

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
        from attnlaw.simulation._matrix_free import tiles
        from attnlaw.simulation._matrix_free.kernels import n_threads

        self._tiles, self._n_threads, n = tiles, n_threads, tokens.n_samples
        n_slabs = PARTS * -(-n // (PARTS * SLAB))
        self._cuts = [n * k // n_slabs for k in range(n_slabs + 1)]
        self._slabs: list[Any] = []
        heights, at_once = np.diff(self._cuts).tolist(), min(PARTS, n_threads())
        with ThreadPoolExecutor(at_once) as pool:
            for k in range(0, n_slabs, at_once):  # no more of them are held unsorted
                taken = [tokens.take(height) for height in heights[k : k + at_once]]
                self._slabs += pool.map(lambda x: tiles.sorted_slab(x, used, n_vocab), taken)
        self._pooled = np.empty((0, 0))

    def product(self, weights: Vectors, scaled: Vectors, table: Vectors, out: Vectors) -> Vectors:
        """Write what `kernels.add_gram_product` adds into `out`."""
        shape, lanes = (self._cuts[-1], table.shape[1]), (0,) * table.shape[1]
        if self._pooled.shape != shape or self._pooled.dtype != table.dtype:
            self._pooled = np.empty(shape, dtype=table.dtype)
        none = np.zeros((1, shape[1]), dtype=table.dtype)  # at the position beyond the last
        weights, scaled = np.concatenate([weights, none]), np.concatenate([scaled, none])
        parts = [self._pooled[start:stop] for start, stop in pairwise(self._cuts)]
        n_strips = len(self._slabs[0].starts) - 1
        strips = pairwise([n_strips * k // PARTS for k in range(PARTS + 1)])

        def pool_slab(slab: Any, pooled: Vectors) -> None:
            self._tiles.pool_slab(slab, weights, table, pooled, lanes)

        def add_strips(cut: tuple[int, int]) -> None:
            for slab, pooled in zip(self._slabs, parts, strict=True):
                self._tiles.add_strips(slab, *cut, scaled, pooled, out, lanes)

        out[:] = 0
        with ThreadPoolExecutor(min(PARTS, self._n_threads())) as pool:
            for _ in pool.map(pool_slab, self._slabs, parts):
                pass
            for _ in pool.map(add_strips, strips):
                pass
        return out


def is_tiled(n_samples: int, length: int, n_vocab: int) -> bool:
    """Whether so many sequences over such a table are worth tiles."""
    return n_samples * length >= LARGE and n_vocab >= WIDE and length <= LONGEST


@cache
def compiled_kernels() -> ModuleType | None:
    """Return the compiled kernels, or None where numba is not installed."""
    try:
        from attnlaw.simulation._matrix_free import kernels
    except ImportError:
        return None
    return kernels


def smallest_kind(n_vocab: int) -> type[np.unsignedinteger]:
    """Return the shortest kind of number that tells so many tokens apart."""
    return np.uint16 if n_vocab <= 2**16 else np.uint32


def _padded(array: Vectors, width: int) -> Vectors:
    """Return the columns in one block of memory, with zeros up to `width`."""
    if array.shape[1] == width:
        return np.ascontiguousarray(array)
    padded = np.zeros((len(array), width), dtype=array.dtype)
    padded[:, : array.shape[1]] = array
    return padded
