"""Sequences of tokens, drawn a part at a time: the sampler of the matrix-free engine."""

from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation.pooled import sample_tokens
from attnlaw.simulation.signs import sample_signs, sign_groups

__all__ = ["DrawnTokens", "GivenTokens", "TokenSource", "smallest_kind"]


class TokenSource(Protocol):
    """Sequences of tokens, handed out one after the other."""

    n_samples: int  # N

    def take(self, n: int) -> NDArray[np.integer]:
        """Return the next n sequences: row of the table at every position, (n, length)."""


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
    compiled : bool or None
        Draw in a compiled loop; None: if numba is installed.
    """

    def __init__(
        self,
        correlation: Floats,
        n_samples: int,
        n_vocab: int,
        rng: np.random.Generator,
        compiled: bool | None = None,
    ) -> None:
        self.n_samples, self._n_vocab = n_samples, n_vocab
        self._correlation, self._rng = correlation, rng
        self._groups, self._words = sign_groups(correlation), None
        self._draws: ModuleType | None = None
        if plan.has_numba() if compiled is None else compiled:
            from attnlaw.simulation._matrix_free.compiled import draws

            self._draws, self._words = draws, seeded_state(rng)

    def take(self, n: int) -> NDArray[np.integer]:
        """Draw n sequences: row of the table at every position, (n, length)."""
        draws, groups, half = self._draws, self._groups, self._n_vocab // 2
        if draws is None:
            signs = sample_signs(self._correlation, n, self._rng)
            return sample_tokens(signs, self._n_vocab, self._rng)
        tokens = np.empty((n, len(self._correlation)), dtype=smallest_kind(self._n_vocab))
        if groups is not None and len(groups.leaders) <= 64:
            draws.fill_sign_tokens(self._words, groups.members, groups.polarity, half, tokens)
        else:
            signs = sample_signs(self._correlation, n, self._rng)
            draws.fill_tokens(self._words, signs, half, tokens)
        return tokens


def smallest_kind(n_vocab: int) -> type[np.unsignedinteger]:
    """Return the shortest kind of number that tells so many tokens apart."""
    return np.uint16 if n_vocab <= 2**16 else np.uint32
