"""First and second moments of tokens, position by position."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences, TokenSequences

__all__ = ["Basis", "covariance", "independent_noise", "position_means"]

MOST_TOKENS = 100_000  # laid out for a covariance; more would not change it
MOST_WORDS = 20  # rows of a table that enter one, a dimension; the rarer are drawn
BLOCK_NUMBERS = 2**22
MOST_CELLS = 2**24  # pairs of position and word counted at a time


class Basis(NamedTuple):
    """A covariance in its own coordinates."""

    variances: Floats  # (d,), increasing
    vectors: Floats  # (d, d), one in each column

    @staticmethod
    def of(matrix: Floats) -> "Basis":
        """Return the eigenvalues, none below 0, and eigenvectors of a symmetric matrix."""
        values, vectors = np.linalg.eigh(matrix)
        return Basis(np.maximum(values, 0.0), vectors)

    def components(self, vector: Floats) -> Floats:
        """Return the components of a vector in these coordinates."""
        return np.asarray(self.vectors.T @ vector)


def covariance(rows: NDArray[np.float32]) -> Floats:
    """Return the covariance of rows in single precision."""
    X = rows - rows.mean(axis=0)
    return np.asarray((X.T @ X).astype(np.float64) / len(X))


def position_means(data: Sequences) -> Floats:
    """Mean token at each position, shape (L, d); 0 where no sequence has one."""
    N, L, _ = data.shape
    present = np.ones((N, L), dtype=np.float32) if data.mask is None else data.mask
    present = present.astype(np.float32)
    return np.asarray(_sums(data, present) / np.maximum(present.sum(axis=0), 1)[:, None])


def independent_noise(
    data: Sequences, means: Floats, weights: NDArray[np.floating], rng: np.random.Generator
) -> Floats:
    """Covariance that pooled sequences would have if their tokens were independent.

    Parameters
    ----------
    data : Sequences
    means : array of shape (L, d)
        M, about which tokens vary.
    weights : array of shape (L,) or (N, L)
        w.
    rng : Generator
        Draws the sequences that are looked at, when there are many; of words of a table, the rare.

    Returns
    -------
    array of shape (d, d)
        E Σ_l w_l² (T_l−M_l)(T_l−M_l)ᵀ: κΣ in the letters of the theory, without assuming that all
        positions vary alike.

    Notes
    -----
    Words of a table enter with the mass that they have in all sequences. Where many words occur,
    those with a mass m_v below some c enter with probability m_v/c and then with mass c, so that
    about 20 d of them do: no bias, and the frequent ones, which matter, are exact.

    Examples
    --------
    Two uncorrelated positions, averaged:

    >>> from attnlaw.data.sequences import as_sequences
    >>> signs = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    >>> data = as_sequences(signs[:, :, None])
    >>> independent_noise(data, position_means(data), np.full(2, 0.5), np.random.default_rng(0))
    array([[0.5]])
    """
    N, L, d = data.shape
    if not isinstance(data, TokenSequences) and N * L > MOST_TOKENS:
        rows = np.sort(rng.choice(N, max(1, MOST_TOKENS // L), replace=False))
        data, weights = data.take(rows), weights if weights.ndim == 1 else weights[rows]
        N = len(rows)
    squares = np.broadcast_to(weights, (N, L)).astype(np.float32) ** 2
    if data.mask is not None:
        squares *= data.mask
    if isinstance(data, TokenSequences):
        second, sums, masses = _word_moments(data, squares, rng)
    else:
        second = np.zeros((d, d))
        for start in range(0, N, size := max(1, BLOCK_NUMBERS // (L * d))):
            block = slice(start, min(start + size, N))
            T = (data.embed(block) * np.sqrt(squares[block])[:, :, None]).reshape(-1, d)
            second += (T.T @ T).astype(np.float64)
        sums, masses = _sums(data, squares), squares.sum(axis=0, dtype=np.float64)
    cross = sums.T @ means
    return np.asarray(second - cross - cross.T + (means.T * masses) @ means) / N


def _word_moments(
    data: TokenSequences, squares: NDArray[np.float32], rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Σ w² T Tᵀ, Σ_i w_il² T_il and Σ_i w_il², from about 20 words a dimension."""
    L, d = data.shape[1:]
    tokens, positions = data.occurrences
    w2 = (squares.ravel() if data.mask is None else squares[data.mask]).astype(np.float64)
    mass: Floats = np.bincount(tokens, w2, minlength=len(data.table)).astype(np.float64)
    factors = _drawn(mass, max(MOST_WORDS * d, 2000), rng)
    (used,) = np.nonzero(factors)
    E = data.table[used].astype(np.float32, copy=False)
    places = np.zeros(len(mass), dtype=np.intp)
    places[used] = np.arange(len(used))
    w2 *= factors[tokens]
    cells = np.bincount(positions * len(used) + places[tokens], w2, L * len(used)).reshape(L, -1)
    sums, masses = (cells.astype(np.float32) @ E).astype(np.float64), cells.sum(axis=1)
    E *= np.sqrt((mass * factors)[used, None]).astype(np.float32)
    return (E.T @ E).astype(np.float64), sums, masses


def _drawn(mass: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Draw about n words: one over the probability of each that is taken, 0 for the others."""
    if np.count_nonzero(mass) <= n:
        return (mass > 0).astype(np.float64)
    falling = np.sort(mass)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]
    # With the k heaviest taken for sure, c = (mass of the rest)/(places left); the first k for
    # which the next is no heavier than that.
    c = rest[:n] / (n - np.arange(n))
    chances = np.minimum(mass / c[np.argmax(falling[:n] <= c)], 1.0)
    # Every place where the running sum of chances, in random order, passes a whole number: the
    # chances are as wanted, and the mass that is taken is the same whatever is drawn.
    order = rng.permutation(len(mass))
    steps = np.floor(np.cumsum(chances[order]) + rng.random())
    factors = np.zeros(len(mass))
    taken = order[np.diff(steps, prepend=0.0) > 0]
    factors[taken] = 1 / chances[taken]
    return factors


def _sums(data: Sequences, weights: NDArray[np.float32]) -> Floats:
    """Σ_i w_il T_il, shape (L, d); weights are 0 where there is no token."""
    N, L, d = data.shape
    sums = np.zeros((L, d))
    if isinstance(data, TokenSequences):
        V = len(data.table)
        for start in range(0, L, size := max(1, MOST_CELLS // V)):
            some = slice(start, min(start + size, L))
            cells = data.tokens[:, some] + V * np.arange(some.stop - start)
            mass = np.bincount(cells.ravel(), weights[:, some].ravel(), (some.stop - start) * V)
            sums[some] = mass.reshape(-1, V).astype(data.table.dtype) @ data.table
        return sums
    for start in range(0, N, size := max(1, BLOCK_NUMBERS // (L * d))):
        rows = slice(start, min(start + size, N))
        sums += np.einsum("il,ild->ld", weights[rows], data.embed(rows), dtype=np.float64)
    return sums
