"""Products with the covariance of pooled tokens; the pooled vectors are never formed."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw._checks import Floats
from attnlaw._extras import MissingExtra
from attnlaw.simulation._matrix_free.gram import (
    CompiledGram,
    PlainGram,
    TokenSource,
    compiled_kernels,
    smallest_kind,
)
from attnlaw.simulation.pooled import sample_tokens
from attnlaw.simulation.signs import coin_groups, sample_signs

__all__ = ["DrawnTokens", "GivenTokens", "TokenCovariance"]

Vectors = NDArray[np.floating]


class TokenCovariance:
    """K = Mᵀ (I − 11ᵀ/N) M / N on the vocabulary's side, for several pooling weights at once.

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
        Use the numba kernels (True), SciPy's sparse products (False), or what is there (None).

    Examples
    --------
    >>> tokens, w = GivenTokens(np.array([[0, 1], [1, 1]])), np.array([[0.5, 0.5]])
    >>> K = TokenCovariance(tokens, 2, w, centred=False, dtype=np.float64)
    >>> K.multiply(np.eye(2), (0, 0))
    array([[0.125, 0.125],
           [0.125, 0.625]])
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
        kernels = None if compiled is False else compiled_kernels()
        if kernels is None and compiled:
            raise MissingExtra("numba", "fast", "A compiled product")
        columns = weights.T.astype(dtype)
        self.dtype = np.dtype(dtype)
        self.gram: PlainGram | CompiledGram
        if kernels is None:
            self.gram = PlainGram(tokens, n_vocab, columns)
        else:
            self.gram = CompiledGram(tokens, n_vocab, columns, kernels)
        self.mean = self.gram.transpose_ones() if centred else None

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times every column.

        Parameters
        ----------
        vectors : array of shape (V, n)
            Columns on the vocabulary's side.
        which : sequence of n ints
            The pooling weights that each column takes: rows of `weights`.
        """
        product = self.gram.multiply(vectors, tuple(which))
        if self.mean is not None:
            along = self.mean.T @ vectors  # (n_weights, n)
            chosen = np.equal.outer(np.arange(len(along)), which)
            product -= self.mean @ np.where(chosen, along, 0).astype(self.dtype)
        return product


class GivenTokens:
    """Sequences of tokens in memory, shape (N, length), as a `TokenSource`."""

    def __init__(self, tokens: NDArray[np.integer]) -> None:
        self.n_samples, self._tokens, self._n_taken = len(tokens), tokens, 0

    def take(self, n: int) -> NDArray[np.integer]:
        """Return the next n sequences."""
        self._n_taken += n
        return self._tokens[self._n_taken - n : self._n_taken]


class DrawnTokens:
    """Sequences of tokens as `sample_signs` and `sample_tokens` draw them, when they are taken.

    Parameters
    ----------
    correlation : array of shape (length, length)
        R.
    n_samples : int
        N.
    n_vocab : int
        V.
    rng : Generator
        Source of randomness; compiled draws begin at a state that it gives.
    """

    def __init__(
        self, correlation: Floats, n_samples: int, n_vocab: int, rng: np.random.Generator
    ) -> None:
        self.n_samples, self._n_vocab = n_samples, n_vocab
        self._correlation, self._rng = correlation, rng
        self._draws, self._coins = compiled_draws(), coin_groups(correlation)
        self._state = None if self._draws is None else self._draws.seeded_state(rng)

    def take(self, n: int) -> NDArray[np.integer]:
        """Draw n sequences: row of the table at every position, (n, length)."""
        draws, coins, half = self._draws, self._coins, self._n_vocab // 2
        if draws is None:
            signs = sample_signs(self._correlation, n, self._rng)
            return sample_tokens(signs, self._n_vocab, self._rng)
        tokens = np.empty((n, len(self._correlation)), dtype=smallest_kind(self._n_vocab))
        if coins is not None and len(coins.leaders) <= 64:
            draws.fill_coin_tokens(self._state, coins.members, coins.polarity, half, tokens)
        else:
            signs = sample_signs(self._correlation, n, self._rng)
            draws.fill_tokens(self._state, signs, half, tokens)
        return tokens


@cache
def compiled_draws() -> ModuleType | None:
    """Return the compiled random draws, or None where numba is not installed."""
    try:
        from attnlaw.simulation._matrix_free import draws
    except ImportError:
        return None
    return draws
