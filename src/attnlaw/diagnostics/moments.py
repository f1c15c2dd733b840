"""First and second moments of tokens, position by position."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.estimators.sequences import Sequences, TokenSequences

__all__ = ["Basis", "covariance", "independent_noise", "position_means"]

Floats = NDArray[np.float64]

MOST_TOKENS = 100_000  # laid out for a covariance; more would not change it
MOST_IDS = 400_000  # looked up for one: they are cheaper
BLOCK_NUMBERS = 2**22


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
    data: Sequences, means: Floats, weights: Floats, rng: np.random.Generator
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
        Draws the sequences that are looked at, when there are many.

    Returns
    -------
    array of shape (d, d)
        E Σ_l w_l² (T_l−M_l)(T_l−M_l)ᵀ: κΣ in the letters of the theory, without assuming that all
        positions vary alike.

    Examples
    --------
    Two uncorrelated positions, averaged:

    >>> from attnlaw.estimators.sequences import as_sequences
    >>> signs = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    >>> data = as_sequences(signs[:, :, None])
    >>> independent_noise(data, position_means(data), np.full(2, 0.5), np.random.default_rng(0))
    array([[0.5]])
    """
    N, L, d = data.shape
    most = MOST_IDS if isinstance(data, TokenSequences) else MOST_TOKENS
    if most < N * L:
        rows = np.sort(rng.choice(N, max(1, most // L), replace=False))
        data, weights = data.take(rows), weights if weights.ndim == 1 else weights[rows]
        N = len(rows)
    squares = np.broadcast_to(weights, (N, L)).astype(np.float32) ** 2
    if data.mask is not None:
        squares = squares * data.mask
    if isinstance(data, TokenSequences):
        mass = np.bincount(data.tokens.ravel(), squares.ravel(), minlength=len(data.table))
        (used,) = np.nonzero(mass)
        E = data.table[used] * np.sqrt(mass[used, None]).astype(data.table.dtype)
        E = E.astype(np.float32, copy=False)
        second = (E.T @ E).astype(np.float64)
    else:
        second = np.zeros((d, d))
        for start in range(0, N, size := max(1, BLOCK_NUMBERS // (L * d))):
            block = slice(start, min(start + size, N))
            T = (data.embed(block) * np.sqrt(squares[block])[:, :, None]).reshape(-1, d)
            second += (T.T @ T).astype(np.float64)
    cross = _sums(data, squares).T @ means
    masses = squares.sum(axis=0, dtype=np.float64)
    return np.asarray(second - cross - cross.T + (means.T * masses) @ means) / N


def _sums(data: Sequences, weights: NDArray[np.float32]) -> Floats:
    """Σ_i w_il T_il, shape (L, d); weights are 0 where there is no token."""
    N, L, d = data.shape
    if isinstance(data, TokenSequences):
        V = len(data.table)
        cells = data.tokens + V * np.arange(L)
        mass = np.bincount(cells.ravel(), weights.ravel(), minlength=L * V).reshape(L, V)
        return np.asarray(mass.astype(data.table.dtype) @ data.table, dtype=np.float64)
    sums = np.zeros((L, d))
    for start in range(0, N, size := max(1, BLOCK_NUMBERS // (L * d))):
        rows = slice(start, min(start + size, N))
        sums += np.einsum("il,ild->ld", weights[rows], data.embed(rows), dtype=np.float64)
    return sums
