"""Products with the covariance of pooled tokens; the pooled vectors are never formed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from attnlaw.simulation.sequences import sample_tokens
from attnlaw.simulation.signs import coin_groups, sample_signs

__all__ = ["TokenCovariance", "compiled_kernels", "draw_tokens"]

Floats = NDArray[np.float64]
Vectors = NDArray[np.floating]

LARGE = 4_000_000  # tokens from which a product is worth several threads
PARTS = 4  # into which it is then cut, however many threads: the sums stay the same


class TokenCovariance:
    """K = Mᵀ (I − 11ᵀ/N) M / N on the vocabulary's side, for several pooling weights at once.

    M is the N×V matrix with w_l at (i, token(i,l)): pooled noise with table Z is MZ, and its
    covariance ZᵀKZ. Without centring K = MᵀM/N.

    Parameters
    ----------
    tokens : array of int, shape (N, length)
        Row of the table at every position.
    n_vocab : int
        V.
    weights : array of shape (n_weights, length)
        Pooling weights; each row has its own K.
    centred : bool
        Subtract the sample mean.
    dtype : float32 or float64
        Precision of the products.
    compiled : bool or None
        Use the numba kernels (True), SciPy's sparse products (False), or what is there (None).

    Examples
    --------
    >>> w = np.array([[0.5, 0.5]])
    >>> K = TokenCovariance(np.array([[0, 1], [1, 1]]), 2, w, centred=False, dtype=np.float64)
    >>> K.multiply(np.eye(2), (0, 0))
    array([[0.125, 0.125],
           [0.125, 0.625]])
    """

    def __init__(
        self,
        tokens: NDArray[np.integer],
        n_vocab: int,
        weights: Floats,
        *,
        centred: bool,
        dtype: DTypeLike = np.float32,
        compiled: bool | None = None,
    ) -> None:
        used = weights.any(axis=0)
        self.tokens = np.ascontiguousarray(
            tokens if used.all() else tokens[:, used], dtype=_smallest_kind(n_vocab)
        )
        self.weights = np.ascontiguousarray(weights[:, used].T, dtype=dtype)
        self.n_vocab, self.dtype = n_vocab, np.dtype(dtype)
        kernels = None if compiled is False else compiled_kernels()
        if kernels is None and compiled:
            raise ImportError("compiled products need numba: pip install 'attnlaw[fast]'.")
        self._gram: _Gram = _PlainGram(self) if kernels is None else _CompiledGram(self, kernels)
        self.mean = self._gram.transpose_ones() if centred else None

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times every column.

        Parameters
        ----------
        vectors : array of shape (V, n)
            Columns on the vocabulary's side.
        which : sequence of n ints
            The pooling weights that each column takes: rows of `weights`.
        """
        product = self._gram.multiply(vectors, tuple(which))
        if self.mean is not None:
            along = self.mean.T @ vectors  # (n_weights, n)
            chosen = np.equal.outer(np.arange(len(along)), which)
            product -= self.mean @ np.where(chosen, along, 0).astype(self.dtype)
        return product


def draw_tokens(
    correlation: Floats, n_samples: int, n_vocab: int, rng: np.random.Generator
) -> NDArray[np.integer]:
    """Draw sequences of tokens as `sample_signs` and `sample_tokens` do, compiled where possible.

    Returns
    -------
    array of int, shape (n_samples, length)
    """
    draws = compiled_draws()
    if draws is None:
        return sample_tokens(sample_signs(correlation, n_samples, rng), n_vocab, rng)
    half, state = n_vocab // 2, draws.seeded_state(rng)
    tokens = np.empty((n_samples, len(correlation)), dtype=_smallest_kind(n_vocab))
    coins = coin_groups(correlation)
    if coins is not None and len(coins.leaders) <= 64:
        draws.fill_coin_tokens(state, coins.members, coins.polarity, half, tokens)
    else:
        draws.fill_tokens(state, sample_signs(correlation, n_samples, rng), half, tokens)
    return tokens


class _PlainGram:
    """MᵀM/N by SciPy's sparse products."""

    def __init__(self, K: TokenCovariance) -> None:
        (n, length), V = K.tokens.shape, K.n_vocab
        starts, columns = np.arange(0, n * length + 1, length), K.tokens.ravel().astype(np.int32)
        self._matrices = [
            csr_array((np.tile(w, n), columns, starts), shape=(n, V)) for w in K.weights.T
        ]

    def multiply(self, vectors: Vectors, which: tuple[int, ...]) -> Vectors:
        out = np.empty_like(vectors)
        for j in set(which):
            M, columns = self._matrices[j], np.equal(which, j)
            out[:, columns] = M.T @ (M @ vectors[:, columns]) / M.shape[0]
        return out

    def transpose_ones(self) -> Vectors:
        """Return Mᵀ1/N, a column for each weights."""
        return np.stack([M.sum(axis=0) / M.shape[0] for M in self._matrices], axis=1)


class _CompiledGram:
    """MᵀM/N by the numba kernels: all columns in lockstep, so each token is read once."""

    def __init__(self, K: TokenCovariance, kernels: ModuleType) -> None:
        self._K, self._kernels = K, kernels

    def multiply(self, vectors: Vectors, which: tuple[int, ...]) -> Vectors:
        weights = self._K.weights[:, which]
        return self._product(vectors, weights, weights / len(self._K.tokens))

    def transpose_ones(self) -> Vectors:
        """Return Mᵀ1/N, a column for each weights."""
        K = self._K
        ones = np.ones((K.n_vocab, K.weights.shape[1]), dtype=K.dtype)
        first = np.zeros_like(K.weights)
        first[0] = 1  # pools a table of ones to 1, exactly
        return self._product(ones, first, K.weights / len(K.tokens))

    def _product(self, vectors: Vectors, weights: Vectors, scaled: Vectors) -> Vectors:
        n, widest = vectors.shape[1], self._kernels.WIDTHS[-1]
        if n > widest:
            parts = [slice(start, start + widest) for start in range(0, n, widest)]
            products = [
                self._product(*(a[:, p] for a in (vectors, weights, scaled))) for p in parts
            ]
            return np.concatenate(products, axis=1)
        width = next(w for w in self._kernels.WIDTHS if w >= n)
        return self._lockstep(*(_padded(a, width) for a in (weights, scaled, vectors)))[:, :n]

    def _lockstep(self, weights: Vectors, scaled: Vectors, table: Vectors) -> Vectors:
        tokens, add = self._K.tokens, self._kernels.add_gram_product

        def part(rows: NDArray[Any]) -> Vectors:
            out = np.zeros_like(table)
            add(rows, weights, scaled, table, out)
            return out

        if tokens.size < LARGE:
            return part(tokens)
        with ThreadPoolExecutor(min(PARTS, self._kernels.n_threads())) as pool:
            return np.asarray(sum(pool.map(part, np.array_split(tokens, PARTS))))


_Gram = _PlainGram | _CompiledGram


@cache
def compiled_draws() -> ModuleType | None:
    """Return the compiled random draws, or None where numba is not installed."""
    try:
        from attnlaw.simulation import draws
    except ImportError:
        return None
    return draws


@cache
def compiled_kernels() -> ModuleType | None:
    """Return the compiled kernels, or None where numba is not installed."""
    try:
        from attnlaw.simulation import kernels
    except ImportError:
        return None
    return kernels


def _smallest_kind(n_vocab: int) -> type[np.unsignedinteger]:
    return np.uint16 if n_vocab <= 2**16 else np.uint32


def _padded(array: Vectors, width: int) -> Vectors:
    """Return the columns in one block of memory, with zeros up to `width`."""
    if array.shape[1] == width:
        return np.ascontiguousarray(array)
    padded = np.zeros((len(array), width), dtype=array.dtype)
    padded[:, : array.shape[1]] = array
    return padded
