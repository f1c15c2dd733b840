"""Krylov spaces of tables of tokens that are small enough for compiled loops."""

import numpy as np
from numpy.typing import NDArray

from attnlaw.simulation import lockstep
from attnlaw.simulation.draws import fill_normal, seeded_state
from attnlaw.simulation.kernels import WIDTHS
from attnlaw.simulation.lanczos import grown, orthonormal_blocks
from attnlaw.simulation.noise import TokenNoise

__all__ = ["TokenRun"]

Floats = NDArray[np.float64]
Vectors = NDArray[np.floating]


class TokenRun:
    """A `KrylovRun` as by `revealed_run`, with a step that is one compiled call.

    Parameters
    ----------
    noise : TokenNoise
        Everything but the table; its covariances times the start vectors must not exceed 16.
    dimension : int
        d.
    rng : Generator
        Source of randomness.
    with_spikes : bool
        Start also from the class difference and the mean of the table, kept as `spikes`.
    n_steps : int
        For how many steps to make room at first.
    """

    def __init__(
        self,
        noise: TokenNoise,
        dimension: int,
        rng: np.random.Generator,
        *,
        with_spikes: bool = False,
        n_steps: int = 16,
    ) -> None:
        self._noise, self._d, self._words = noise, dimension, seeded_state(rng)
        self.solve = lockstep.roots
        mean = noise.covariance.mean
        self._means = None if mean is None else np.ascontiguousarray(mean.T)
        self._which = list(range(len(noise.matrices)))
        n, block, V = len(self._which), 2 + 2 * with_spikes, noise.rows.size
        room = 3 + n * (2 + block * n_steps)
        self._state = lockstep.State(
            counts=np.array([0, 1, 0]),
            asked=np.empty((room, V), dtype=noise.classes.dtype),
            images=np.empty((room, V), dtype=noise.classes.dtype),
            basis=np.zeros((n, block * n_steps, room)),
            newest=np.zeros((n, block, room)),
            matrix=np.zeros((n, block * (n_steps + 1), block * (n_steps + 1))),
            lost=np.zeros(2),
        )
        fill_normal(self._words, self._state.images[:1])
        self.spikes = self.ask(noise.directions.T / V) if with_spikes else None  # m and z̄

        u_and_c = np.concatenate([self._state.images[:1], noise.classes.T])
        K = self._covariances(2)
        products = lockstep.multiply(K, np.tile(u_and_c, (n, 1)))
        self.gains = (products[1::2] @ noise.classes[:, 0]).astype(np.float64)
        rows = self.ask(products)
        columns = np.zeros((n, rows.shape[1], block))
        columns[:, :, :2] = np.swapaxes(rows.reshape(n, 2, -1), 1, 2)
        self.corners = columns[:, 0, :2].copy()
        if self.spikes is not None:
            columns[:, : self.spikes.shape[1], 2:] = self.spikes.T
        columns[:, 0] = 0
        newest, self.start_coordinates = orthonormal_blocks(columns, columns)
        self._state.newest[:, :, : newest.shape[1]] = np.swapaxes(newest, 1, 2)
        self._K = self._covariances(block)

    @property
    def n_steps(self) -> int:
        """Number of blocks multiplied so far."""
        return int(self._state.counts[2])

    @property
    def n_known(self) -> int:
        """Number of directions of the table that have been revealed."""
        return int(self._state.counts[1])

    @property
    def matrix(self) -> Floats:
        """D in the bases, shape (n_matrices, size, size)."""
        size = self.n_steps * self._state.newest.shape[1]
        return self._state.matrix[:, :size, :size]

    @property
    def basis(self) -> Floats:
        """The bases, shape (n_matrices, n, size); the signal's coordinate is there and zero."""
        size = self.n_steps * self._state.newest.shape[1]
        return np.swapaxes(self._state.basis[:, :size, : self.n_known], 1, 2)

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether the space is invariant, for every matrix."""
        return np.asarray(~self._state.newest.any(axis=(1, 2)))

    @property
    def images(self) -> Vectors:
        """What is known of the table: Z times the directions revealed, (V, n_known)."""
        return self._state.images[: self.n_known].T

    def ask(self, vectors: Vectors) -> Floats:
        """Return the coordinates of Zᵀ times every row, drawing what is not yet known."""
        self._make_room(len(vectors))
        vectors = np.array(vectors, dtype=self._noise.classes.dtype, order="C")
        rows = lockstep.transpose_multiply(self._words, self._d, vectors, self._state)
        return np.asarray(rows)

    def advance(self, n_steps: int) -> None:
        """Take some more steps."""
        n, block = self._state.newest.shape[:2]
        self._make_room(n * block * n_steps, n_steps)
        lockstep.advance(self._words, n_steps, self._d, self._K, self._state)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Go on with some of the matrices only."""
        self._which = [name for name, kept in zip(self._which, which, strict=True) if kept]
        self.corners, self.gains = self.corners[which], self.gains[which]
        self.start_coordinates = self.start_coordinates[which]
        state = self._state
        self._state = state._replace(
            basis=state.basis[which], newest=state.newest[which], matrix=state.matrix[which]
        )
        self._K = self._covariances(state.newest.shape[1])

    def _covariances(self, block: int) -> lockstep.Covariances:
        """Return K for `block` columns of every covariance still sought."""
        covariance = self._noise.covariance
        chosen = [self._noise.matrices[i] for i in np.repeat(self._which, block)]
        width = next(w for w in WIDTHS if w >= len(chosen))
        weights = np.zeros((len(covariance.weights), width), dtype=covariance.dtype)
        pooled = [j for j, K in enumerate(chosen) if K.weights is not None]
        rows = [K.weights for K in chosen if K.weights is not None]
        weights[:, pooled] = covariance.weights[:, rows]
        mean_of = np.full(len(chosen), -1)
        if self._means is not None:
            mean_of[pooled] = rows
        return lockstep.Covariances(
            tokens=covariance.tokens,
            weights=weights,
            scaled=weights / weights.dtype.type(len(covariance.tokens)),
            means=np.empty((0, 0), dtype=covariance.dtype) if self._means is None else self._means,
            mean_of=mean_of,
            is_stripped=np.array([K.is_stripped for K in chosen]),
            within=np.array([K.within for K in chosen]),
            between=np.array([K.between for K in chosen]),
        )

    def _make_room(self, n_vectors: int, n_steps: int = 0) -> None:
        """Move what is known into larger arrays where more would not fit."""
        state = self._state
        n, block, room = state.newest.shape
        size, tall = (self.n_steps + n_steps) * block, state.basis.shape[1]
        if max(int(state.counts[0]), self.n_known) + n_vectors > room:
            room = int(1.5 * room) + n_vectors
            asked, images = (grown(a, (room, a.shape[1])) for a in (state.asked, state.images))
            newest = grown(state.newest, (n, block, room))
            state = state._replace(asked=asked, images=images, newest=newest)
        if size > tall or room > state.basis.shape[2]:
            tall = max(tall, size + size // 2)
            basis = grown(state.basis, (n, tall, room))
            matrix = grown(state.matrix, (n, tall + block, tall + block))
            state = state._replace(basis=basis, matrix=matrix)
        self._state = state
