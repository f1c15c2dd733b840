r"""Krylov spaces of the papers' idealisation, in compiled loops.

Pooled noise is √(κ/V) ΓZ, with Γ and the table Z both Gaussian. Golub and Kahan's reduction of a
Gaussian Z, begun at the signal u, ends in independent numbers: Z = U B Qᵀ with orthonormal U and
Q, Qe₁ = u, and B zero but for

    B_ii ~ χ_{V−i+1} ,     B_{i,i+1} ~ χ_{d−i}        (i = 1 … d, as long as i ≤ V)

Γ U is Gaussian again. So in the basis Q the covariance is κ BᵀGᵀGB/(VN), with one Gaussian matrix
G to draw lazily, and the signal is still the first coordinate. Pooling weights change κ and the
gains t only: all of them share one Krylov space, begun at S₀u and at the b of every gain.
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences
from attnlaw.simulation._matrix_free.compiled import lanczos
from attnlaw.simulation._matrix_free.compiled.lazy_gaussian import empty_table
from attnlaw.simulation._matrix_free.krylov import grown, orthonormal_blocks
from attnlaw.simulation._matrix_free.noise import sample_gains
from attnlaw.simulation._matrix_free.stream import seeded_state

__all__ = ["GaussianRun", "bidiagonal_table"]


def bidiagonal_table(n_vocab: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Draw B of a Gaussian table: its diagonal and the entries above it, shape (2, d).

    Examples
    --------
    >>> bidiagonal_table(1, 3, np.random.default_rng(0)).round(2)
    array([[0.93, 0.  , 0.  ],
           [0.2 , 0.  , 0.  ]])
    """
    i = np.arange(dimension)
    freedom = np.stack([n_vocab - i, dimension - 1 - i])
    freedom[:, n_vocab:] = 0
    squares = np.zeros(freedom.shape)
    squares[freedom > 0] = rng.chisquare(freedom[freedom > 0])
    return np.sqrt(squares)


class GaussianRun:
    """A `KrylovRun` of the idealised covariances of several pooling weights.

    Parameters
    ----------
    model, dimension, rng, weights
        As in `GaussianNoise`.
    n_steps : int
        For how many steps to make room at first.
    """

    solve = staticmethod(lanczos.roots)

    def __init__(
        self,
        model: PooledSequences,
        dimension: int,
        rng: np.random.Generator,
        weights: Floats,
        *,
        n_steps: int = 24,
    ) -> None:
        d, V, N = model.sizes(dimension)
        factor = sample_gains(model, weights, N, rng) / np.sqrt(N)
        rank, block = len(factor), 1 + len(factor)
        self.gains, self._kappa = np.sum(factor**2, axis=0), np.sum(weights**2, axis=1)
        self._B = bidiagonal_table(V, d, rng) / np.sqrt(V * N)
        self._table = empty_table(
            N - model.centred,  # rows of G: centring takes one
            seeded_state(rng),
            n_first=rank,
            queried=np.empty((1 + block * n_steps, d)),
            images=np.empty((1 + rank + block * n_steps, d)),
        )
        self._spaces = lanczos.empty_spaces(1, block, n_steps, d)
        gains = lanczos.multiply_transposed(self._B, self._table.images[:rank])
        columns = np.concatenate([self.multiply(np.eye(1, d)), gains]).T[None]
        corners = columns[0, 0].copy()
        columns[:, 0] = 0
        newest, ends = orthonormal_blocks(columns, columns)
        self._spaces.newest[:] = np.swapaxes(newest, 1, 2)
        # S₀u is κ times the first column, b is √κ t combined from the others
        u, b = np.zeros((2, block, len(weights)))
        u[0], b[1:] = self._kappa, factor * np.sqrt(self._kappa)
        self.corners = np.stack([corners @ u, corners @ b], axis=1)
        self.start_coordinates = np.stack([(ends[0] @ u).T, (ends[0] @ b).T], axis=2)

    @property
    def n_steps(self) -> int:
        """Number of blocks multiplied so far."""
        return int(self._spaces.counts.steps)

    @property
    def matrix(self) -> Floats:
        """D in the basis, shape (n_weights, size, size)."""
        size = self.n_steps * self._spaces.newest.shape[1]
        return np.asarray(self._kappa[:, None, None] * self._spaces.matrix[:, :size, :size])

    @property
    def basis(self) -> Floats:
        """The basis, one for all, shape (n_weights, d, size)."""
        size = self.n_steps * self._spaces.newest.shape[1]
        Y = np.swapaxes(self._spaces.basis[:, :size], 1, 2)
        return np.broadcast_to(Y, (len(self._kappa), *Y.shape[1:]))

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether the space is invariant."""
        return np.full(len(self._kappa), not self._spaces.newest.any())

    def multiply(self, vectors: Floats) -> Floats:
        """Return BᵀGᵀGB times every row, drawing what is not yet known of G."""
        product = lanczos.bidiagonal_covariance_product(self._B, vectors, self._table)
        return np.asarray(product)

    def advance(self, n_steps: int) -> None:
        """Take some more steps."""
        self._make_room(n_steps)
        lanczos.advance_bidiagonal(n_steps, self._B, self._table, self._spaces)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Continue with some of the weights only."""
        self._kappa, self.gains = self._kappa[which], self.gains[which]
        self.corners, self.start_coordinates = self.corners[which], self.start_coordinates[which]

    def _make_room(self, n_steps: int) -> None:
        """Move what is known into larger arrays where more would not fit."""
        table, spaces, block = self._table, self._spaces, self._spaces.newest.shape[1]
        if (self.n_steps + n_steps) * block > spaces.basis.shape[1]:
            tall = 2 * (self.n_steps + n_steps) * block
            extra, d = tall - spaces.basis.shape[1], spaces.basis.shape[2]
            self._table = table._replace(
                queried=grown(table.queried, (len(table.queried) + extra, d)),
                images=grown(table.images, (len(table.images) + extra, d)),
            )
            self._spaces = spaces._replace(
                basis=grown(spaces.basis, (1, tall, d)),
                matrix=grown(spaces.matrix, (1, tall + block, tall + block)),
            )
