"""Sequences of tokens, drawn a part at a time: the sampler of the matrix-free engine."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free.stream import Source, Stream
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
            from attnlaw.simulation._matrix_free.compiled.draws import CompiledStream

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
    """Return the shortest kind of number that tells so many tokens apart."""
    return np.uint16 if n_vocab <= 2**16 else np.uint32
