"""Krylov spaces in compiled loops: of tables of tokens, and of the papers' idealisation.

In the idealisation pooled noise is √(κ/V) ΓZ, with Γ and the table Z both Gaussian. Golub and
Kahan's reduction of a Gaussian Z, begun at the signal u, ends in independent numbers: Z = U B Qᵀ
with orthonormal U and Q, Qe₁ = u, and B zero but for

    B_ii ~ χ_{V−i+1} ,     B_{i,i+1} ~ χ_{d−i}        (i = 1 … d, as long as i ≤ V)

Γ U is Gaussian again. So in the basis Q the covariance is κ BᵀGᵀGB/(VN), with one Gaussian matrix
G to draw lazily, and the signal is still the first coordinate. Pooling weights change κ and the
gains t only: all of them share one Krylov space, begun at S₀u and at the b of every gain.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences
from attnlaw.simulation._matrix_free.compiled import lanczos
from attnlaw.simulation._matrix_free.compiled.kernels import add_combinations, dots, n_threads
from attnlaw.simulation._matrix_free.compiled.lazy_gaussian import (
    begin_query,
    empty_table,
    end_query,
    transpose_multiply,
)
from attnlaw.simulation._matrix_free.compiled.products import WIDTHS
from attnlaw.simulation._matrix_free.compiled.secular import sweep_eigenpairs
from attnlaw.simulation._matrix_free.gram import CompiledGram
from attnlaw.simulation._matrix_free.krylov import grown, orthonormal_blocks
from attnlaw.simulation._matrix_free.noise import TokenNoise, sample_gains
from attnlaw.simulation._matrix_free.plan import PARTS
from attnlaw.simulation._matrix_free.stream import seeded_state

__all__ = ["GaussianRun", "TokenRun", "bidiagonal_table"]

Vectors = NDArray[np.floating]


class TokenRun:
    """A `KrylovRun` as by `product_run`, with a step that is one compiled call.

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
        Where there is one covariance and nothing but the newest images of the table is needed,
        forget the others, see `LazyGaussian`.
    """

    sweep = staticmethod(sweep_eigenpairs)

    def __init__(
        self,
        noise: TokenNoise,
        dimension: int,
        rng: np.random.Generator,
        *,
        with_spikes: bool = False,
        chained: bool = True,
    ) -> None:
        if not isinstance(noise.covariance.gram, CompiledGram):
            raise TypeError("noise must have compiled products.")
        self._noise, self._gram = noise, noise.covariance.gram
        block = 4 if with_spikes else 2
        self._K = self._covariances(block)
        self._allocate(
            dimension,
            seeded_state(rng),
            block=block,
            # more where moving would take long: memory that is not used costs nothing
            n_steps=64 if self._gram.is_large else 16,
            is_chain=chained and len(noise.matrices) == 1 and not with_spikes,
        )
        V = noise.rows.size
        self.spikes = self.query(noise.directions.T / V) if with_spikes else None  # m and z̄
        self._begin(*self._signal_products())

    def _allocate(
        self,
        dimension: int,
        words: NDArray[np.uint64],
        *,
        block: int,
        n_steps: int,
        is_chain: bool,
    ) -> None:
        """Make room for the table and the Krylov spaces; draw Zu, of the signal's direction."""
        n, V, kind = len(self._noise.matrices), self._noise.rows.size, self._noise.classes.dtype
        room = 3 + n * (2 + block * n_steps)
        self._table = empty_table(
            dimension,
            words,
            n_first=1,
            queried=np.empty((room, V), dtype=kind),
            images=np.empty((2 if is_chain else room, V), dtype=kind),
            is_chain=is_chain,
        )
        self._spaces = lanczos.empty_spaces(n, block, n_steps, room)

    def _signal_products(self) -> tuple[Floats, Floats]:
        """Return S₀u and b of every covariance, (n, 2, coordinates), and their gains a.

        From K Zu and Kc on the vocabulary's side: S₀u = Zᵀ K Zu, b = Zᵀ Kc, a = cᵀKc.
        """
        (n, block, _), classes = self._spaces.newest.shape, self._noise.classes
        K = self._K if block == 2 else lanczos.chosen(self._K, np.arange(n * block) % block < 2)
        vectors = np.tile(np.concatenate([self._table.images[:1], classes.T]), (n, 1))
        table = np.empty((len(classes), K.weights.shape[1]), dtype=vectors.dtype)
        products = np.empty_like(vectors)
        self._multiply(K, vectors, table, np.empty_like(table), products)
        gains = np.einsum("ij,j->i", products[1::2], classes[:, 0], dtype=np.float64)
        return self.query(products).reshape(n, 2, -1), gains

    def _begin(self, rows: Floats, gains: Floats) -> None:
        """Begin the Krylov spaces from S₀u, b and the spikes, without the signal's coordinate."""
        self.gains, self.corners = gains, rows[:, :, 0].copy()
        if self.spikes is None:
            self.start_coordinates = lanczos.begin_lanczos(rows, self._spaces)
            return
        # rounding decides which of these directions are new, so it stays that of every version
        n, _, n_known = rows.shape
        start = np.zeros((n, n_known, 4))
        start[:, :, :2] = np.swapaxes(rows, 1, 2)
        start[:, : self.spikes.shape[1], 2:] = self.spikes.T
        start[:, 0] = 0
        newest, self.start_coordinates = orthonormal_blocks(start, start)
        self._spaces.newest[:, :, :n_known] = np.swapaxes(newest, 1, 2)

    @property
    def n_steps(self) -> int:
        """Number of blocks multiplied so far."""
        return int(self._spaces.counts["steps"])

    @property
    def n_known(self) -> int:
        """Number of directions of the table that have been drawn."""
        return int(self._table.counts["known"])

    @property
    def matrix(self) -> Floats:
        """D in the bases, shape (n_matrices, size, size)."""
        size = self.n_steps * self._spaces.newest.shape[1]
        return self._spaces.matrix[:, :size, :size]

    @property
    def basis(self) -> Floats:
        """The bases, shape (n_matrices, n, size); the signal's coordinate is there and zero."""
        size = self.n_steps * self._spaces.newest.shape[1]
        return np.swapaxes(self._spaces.basis[:, :size, : self.n_known], 1, 2)

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether the space is invariant, for every matrix."""
        return np.asarray(~self._spaces.newest.any(axis=(1, 2)))

    @property
    def images(self) -> Vectors:
        """Z times the directions drawn, in a chain the newest of them: (V, n)."""
        return self._table.images[: self.n_known - int(self._table.counts["forgotten"])].T

    def query(self, vectors: Vectors) -> Floats:
        """Return the coordinates of Zᵀ times every row, drawing what is not yet known."""
        self._make_room(len(vectors))
        both = np.empty((2 * len(vectors), vectors.shape[1]), dtype=self._noise.classes.dtype)
        both[: len(vectors)] = vectors
        return self._transpose_multiply(both)

    def advance(self, n_steps: int) -> None:
        """Take some more steps."""
        n, block = self._spaces.newest.shape[:2]
        self._make_room(n * block * n_steps, n_steps)
        if not self._gram.is_large:
            tokens = self._gram.tokens
            lanczos.advance_tokens(n_steps, tokens, self._K, self._table, self._spaces)
            return
        V, kind = self._gram.n_vocab, self._table.queried.dtype
        images, vectors = (np.empty((k * n * block, V), dtype=kind) for k in (1, 2))
        table = np.empty((V, self._K.weights.shape[1]), dtype=kind)
        out = np.empty_like(table)
        for _ in range(n_steps):
            lanczos.images_of_newest(self._table, self._spaces, images)
            self._multiply(self._K, images, table, out, vectors[: n * block])
            lanczos.advance_lanczos(self._transpose_multiply(vectors), self._spaces)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Continue with some of the matrices only."""
        self.corners, self.gains = self.corners[which], self.gains[which]
        self.start_coordinates = self.start_coordinates[which]
        spaces = self._spaces
        self._spaces = spaces._replace(
            basis=spaces.basis[which], newest=spaces.newest[which], matrix=spaces.matrix[which]
        )
        self._K = lanczos.chosen(self._K, np.repeat(which, spaces.newest.shape[1]))

    def _multiply(
        self,
        K: lanczos.Covariances,
        vectors: Vectors,
        table: Vectors,
        out: Vectors,
        products: Vectors,
    ) -> None:
        """Write K times every row into `products`; `table` and `out` are overwritten."""
        means = lanczos.spread(K, vectors, table)
        self._gram.product(K.weights, K.scaled, table, out)
        lanczos.collect(K, vectors, table, means, out, products)

    def _transpose_multiply(self, vectors: Vectors) -> Floats:
        """Do as the compiled `transpose_multiply`, sharing large products with P among threads."""
        if not self._gram.is_large:
            return np.asarray(transpose_multiply(vectors, self._table))
        V, P = vectors.shape[1], self._table.queried[: self._table.counts["queried"]]
        inside, lengths, R = begin_query(vectors, self._table)
        X = vectors[: len(lengths) + len(R)]
        cuts = [V * k // PARTS for k in range(PARTS + 1)]
        with ThreadPoolExecutor(min(PARTS, n_threads())) as pool:
            shares = sum(pool.map(lambda *cut: dots(X, P, *cut), cuts[:-1], cuts[1:]))
            list(pool.map(lambda *cut: add_combinations(X, -shares, P, *cut), cuts[:-1], cuts[1:]))
        return np.asarray(end_query(vectors, inside, lengths, R, self._table))

    def _covariances(self, block: int) -> lanczos.Covariances:
        """Return K for `block` columns of every covariance."""
        every, mean = self._gram.weights, self._noise.covariance.mean
        chosen = [K for K in self._noise.matrices for _ in range(block)]
        width = next(w for w in WIDTHS if w >= len(chosen))
        weights = np.zeros((len(every), width), dtype=every.dtype)
        pooled = [j for j, K in enumerate(chosen) if K.weights is not None]
        rows = [K.weights for K in chosen if K.weights is not None]
        weights[:, pooled] = every[:, rows]
        mean_of = np.full(len(chosen), -1)
        if mean is not None:
            mean_of[pooled] = rows
        return lanczos.Covariances(
            weights=weights,
            scaled=weights / weights.dtype.type(self._gram.n_samples),
            means=np.ascontiguousarray(np.empty((0, 0), every.dtype) if mean is None else mean.T),
            mean_of=mean_of,
            is_projected=np.array([K.is_projected for K in chosen]),
            within=np.array([K.within for K in chosen]),
            between=np.array([K.between for K in chosen]),
        )

    def _make_room(self, n_vectors: int, n_steps: int = 0) -> None:
        """Move what is known into larger arrays where more would not fit."""
        table, spaces = self._table, self._spaces
        (n, block, room), V = spaces.newest.shape, table.queried.shape[1]
        size, tall = (self.n_steps + n_steps) * block, spaces.basis.shape[1]
        if max(int(table.counts["queried"]), self.n_known) + n_vectors > room:
            room = int(1.5 * room) + n_vectors
            self._table = table._replace(
                queried=grown(table.queried, (room, V)),
                images=table.images if table.is_chain else grown(table.images, (room, V)),
            )
            spaces = spaces._replace(newest=grown(spaces.newest, (n, block, room)))
        if size > tall or room > spaces.basis.shape[2]:
            tall = max(tall, size + size // 2)
            spaces = spaces._replace(
                basis=grown(spaces.basis, (n, tall, room)),
                matrix=grown(spaces.matrix, (n, tall + block, tall + block)),
            )
        self._spaces = spaces


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

    sweep = staticmethod(sweep_eigenpairs)

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
        rows = np.concatenate([self.multiply(np.eye(1, d)), gains])
        corners = rows[:, 0].copy()
        ends = lanczos.begin_lanczos(rows[None], self._spaces)
        # S₀u is κ times the first column, b is √κ t combined from the others
        u, b = np.zeros((2, block, len(weights)))
        u[0], b[1:] = self._kappa, factor * np.sqrt(self._kappa)
        self.corners = np.stack([corners @ u, corners @ b], axis=1)
        self.start_coordinates = np.stack([(ends[0] @ u).T, (ends[0] @ b).T], axis=2)

    @property
    def n_steps(self) -> int:
        """Number of blocks multiplied so far."""
        return int(self._spaces.counts["steps"])

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
