"""Krylov spaces of tables of tokens, in compiled loops."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free import compiled_lanczos as lockstep
from attnlaw.simulation._matrix_free.draws import fill_normal, seeded_state
from attnlaw.simulation._matrix_free.gram import PARTS, CompiledGram
from attnlaw.simulation._matrix_free.kernels import WIDTHS, n_threads
from attnlaw.simulation._matrix_free.lanczos import grown, orthonormal_blocks
from attnlaw.simulation._matrix_free.noise import TokenNoise
from attnlaw.simulation._matrix_free.rows import add_combinations, dots

__all__ = ["TokenRun"]

Vectors = NDArray[np.floating]


class TokenRun:
    """A `KrylovRun` as by `revealed_run`, with a step that is one compiled call.

    Where there are many tokens, a step is a few calls that several threads share.

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
    chained : bool
        Where one covariance is sought and nothing but the newest images of the table is needed,
        forget the others, see `RevealedMatrix`.
    n_steps : int
        For how many steps to make room at first; for more where moving would take long, as
        memory that is not used costs nothing.
    """

    def __init__(
        self,
        noise: TokenNoise,
        dimension: int,
        rng: np.random.Generator,
        *,
        with_spikes: bool = False,
        chained: bool = True,
        n_steps: int = 16,
    ) -> None:
        if not isinstance(noise.covariance.gram, CompiledGram):
            raise TypeError("noise must have compiled products.")
        self._noise, self._gram = noise, noise.covariance.gram
        self._d, self._words = dimension, seeded_state(rng)
        self.solve = lockstep.roots
        mean = noise.covariance.mean
        self._means = None if mean is None else np.ascontiguousarray(mean.T)
        self._which = list(range(len(noise.matrices)))
        n, block, V = len(self._which), 2 + 2 * with_spikes, noise.rows.size
        is_chain = chained and n == 1 and not with_spikes
        n_steps *= 4 if self._gram.is_large else 1
        room = 3 + n * (2 + block * n_steps)
        self._state = lockstep.State(
            counts=np.array([0, 1, 0, 0]),
            asked=np.empty((room, V), dtype=noise.classes.dtype),
            images=np.empty((2 if is_chain else room, V), dtype=noise.classes.dtype),
            basis=np.zeros((n, block * n_steps, room)),
            newest=np.zeros((n, block, room)),
            matrix=np.zeros((n, block * (n_steps + 1), block * (n_steps + 1))),
            lost=np.zeros(2),
            is_chain=is_chain,
        )
        fill_normal(self._words, self._state.images[:1])
        self.spikes = self.ask(noise.directions.T / V) if with_spikes else None  # m and z̄

        u_and_c = np.concatenate([self._state.images[:1], noise.classes.T])
        K = self._covariances(2)
        table = np.empty((V, K.weights.shape[1]), dtype=u_and_c.dtype)
        products = np.empty((2 * n, V), dtype=u_and_c.dtype)
        self._multiply(K, np.tile(u_and_c, (n, 1)), table, np.empty_like(table), products)
        classes = noise.classes[:, 0]
        self.gains = np.einsum("ij,j->i", products[1::2], classes, dtype=np.float64)
        rows = self.ask(products)
        columns = np.zeros((n, rows.shape[1], block))
        columns[:, :, :2] = np.swapaxes(rows.reshape(n, 2, -1), 1, 2)
        self.corners = columns[:, 0, :2].copy()
        if self.spikes is not None:
            columns[:, : self.spikes.shape[1], 2:] = self.spikes.T
        columns[:, 0] = 0
        newest, self.start_coordinates = orthonormal_blocks(columns, columns)
        self._state.newest[:, :, : newest.shape[1]] = np.swapaxes(newest, 1, 2)
        self._K = K if block == 2 else self._covariances(block)

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
        """Z times the directions revealed, in a chain the newest of them: (V, n)."""
        return self._state.images[: self.n_known - int(self._state.counts[3])].T

    def ask(self, vectors: Vectors) -> Floats:
        """Return the coordinates of Zᵀ times every row, drawing what is not yet known."""
        self._make_room(len(vectors))
        both = np.empty((2 * len(vectors), vectors.shape[1]), dtype=self._noise.classes.dtype)
        both[: len(vectors)] = vectors
        return self._transpose_multiply(both)

    def advance(self, n_steps: int) -> None:
        """Take some more steps."""
        n, block = self._state.newest.shape[:2]
        self._make_room(n * block * n_steps, n_steps)
        if not self._gram.is_large:
            tokens = self._gram.tokens
            lockstep.advance(self._words, n_steps, self._d, tokens, self._K, self._state)
            return
        images, vectors = (
            np.empty((k * n * block, self._gram.n_vocab), dtype=self._state.asked.dtype)
            for k in (1, 2)
        )
        table = np.empty((self._gram.n_vocab, self._K.weights.shape[1]), dtype=images.dtype)
        out = np.empty_like(table)
        for _ in range(n_steps):
            lockstep.reveal(self._state, images)
            self._multiply(self._K, images, table, out, vectors[: n * block])
            lockstep.advance_lanczos(self._transpose_multiply(vectors), self._state)

    def _multiply(
        self,
        K: lockstep.Covariances,
        vectors: Vectors,
        table: Vectors,
        out: Vectors,
        products: Vectors,
    ) -> None:
        """Write K times every row into `products`; `table` and `out` are overwritten."""
        means = lockstep.spread(K, vectors, table)
        self._gram.product(K.weights, K.scaled, table, out)
        lockstep.collect(K, vectors, table, means, out, products)

    def _transpose_multiply(self, vectors: Vectors) -> Floats:
        """Do as `lockstep.transpose_multiply`, sharing large work with P among threads."""
        state, V = self._state, vectors.shape[1]
        if not self._gram.is_large:
            rows = lockstep.transpose_multiply(self._words, self._d, vectors, state)
            return np.asarray(rows)
        inside, lengths, R = lockstep.begin_question(self._words, self._d, vectors, state)
        X, P = vectors[: len(lengths) + len(R)], state.asked[: state.counts[0]]
        cuts = [V * k // PARTS for k in range(PARTS + 1)]
        with ThreadPoolExecutor(min(PARTS, n_threads())) as pool:
            shares = sum(pool.map(lambda *cut: dots(X, P, *cut), cuts[:-1], cuts[1:]))
            list(pool.map(lambda *cut: add_combinations(X, -shares, P, *cut), cuts[:-1], cuts[1:]))
        return np.asarray(lockstep.end_question(vectors, inside, lengths, R, state))

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
        every = self._gram.weights
        chosen = [self._noise.matrices[i] for i in np.repeat(self._which, block)]
        width = next(w for w in WIDTHS if w >= len(chosen))
        weights = np.zeros((len(every), width), dtype=every.dtype)
        pooled = [j for j, K in enumerate(chosen) if K.weights is not None]
        rows = [K.weights for K in chosen if K.weights is not None]
        weights[:, pooled] = every[:, rows]
        mean_of = np.full(len(chosen), -1)
        if self._means is not None:
            mean_of[pooled] = rows
        return lockstep.Covariances(
            weights=weights,
            scaled=weights / weights.dtype.type(self._gram.n_samples),
            means=np.empty((0, 0), dtype=every.dtype) if self._means is None else self._means,
            mean_of=mean_of,
            is_stripped=np.array([K.is_stripped for K in chosen]),
            within=np.array([K.within for K in chosen]),
            between=np.array([K.between for K in chosen]),
        )

    def _make_room(self, n_vectors: int, n_steps: int = 0) -> None:
        """Move what is known into larger arrays where more would not fit."""
        state = self._state
        (n, block, room), V = state.newest.shape, state.asked.shape[1]
        size, tall = (self.n_steps + n_steps) * block, state.basis.shape[1]
        if max(int(state.counts[0]), self.n_known) + n_vectors > room:
            room = int(1.5 * room) + n_vectors
            asked, newest = grown(state.asked, (room, V)), grown(state.newest, (n, block, room))
            images = state.images if state.is_chain else grown(state.images, (room, V))
            state = state._replace(asked=asked, images=images, newest=newest)
        if size > tall or room > state.basis.shape[2]:
            tall = max(tall, size + size // 2)
            basis = grown(state.basis, (n, tall, room))
            matrix = grown(state.matrix, (n, tall + block, tall + block))
            state = state._replace(basis=basis, matrix=matrix)
        self._state = state
