r"""Everything of a draw but its table: matrices and vectors indexed by the vocabulary.

Pooled sequences are X = M (Z + ‖μ‖ c uᵀ). Once the tokens M are drawn, and as long as the
standard Gaussian table Z is not, all covariances of interest have the form

    S(μ) = ZᵀKZ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ ,     b = Zᵀk

with K, k and a known on the vocabulary's side. The classes below draw them, exactly at every
size, for several covariances of one table at once. Where the papers' idealisation makes K itself
Gaussian, or where the vocabulary is infinite, not even K is stored. Derived in
docs/theory/simulation.md, "One draw for all signal norms", and docs/theory/simulation.md, "The
idealised model".
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences, Vocabulary
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.gram import CompiledGram, DrawnTokens, TokenCovariance
from attnlaw.simulation._matrix_free.lazy_gaussian import (
    FullSpace,
    ImplicitBasis,
    LazyGaussian,
    Space,
)
from attnlaw.simulation.pooled import sample_frequent_tokens, token_classes
from attnlaw.simulation.signs import sample_signs

__all__ = [
    "FreshNoise",
    "GaussianNoise",
    "Noise",
    "TokenMatrix",
    "TokenNoise",
    "VocabularyNoise",
    "sample_gains",
]

Vectors = NDArray[np.floating]

BLOCK = 2**18  # sequences whose gains are drawn at a time
SAMPLE, POPULATION, BULK = range(3)  # covariances of tokens that differ


class Noise(Protocol):
    """One draw of everything but the table, for one or several covariances."""

    @property
    def rows(self) -> Space:
        """The vocabulary's side."""

    @property
    def couplings(self) -> Vectors:
        """The k of every covariance, in the columns."""

    @property
    def gains(self) -> Floats:
        """The a of every covariance."""

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times the columns, each with the K of the covariance it belongs to."""


class TokenMatrix(NamedTuple):
    """K = Π Mᵀ(I − 11ᵀ/N)M Π/N + within Π + between · (ccᵀ, 11ᵀ), all terms optional.

    M is the N×V matrix of pooling weights, c = ±1 the classes of the tokens, Π the projector
    that subtracts the mean of each class.
    """

    weights: int | None = None  # of M: which row of the weights; None for no M
    is_projected: bool = False  # whether Π stands on both sides of M
    within: float = 0.0
    between: tuple[float, float] = (0.0, 0.0)


def sample_and_population(model: PooledSequences, n_vocab: int) -> list[TokenMatrix]:
    """Return the covariances of the sample, the population and the bulk.

    Notes
    -----
    docs/theory/pooled-covariance.md, "Derivation", as V×V matrices:

        sample       Mᵀ(I − 11ᵀ/N)M/N            (without 11ᵀ if not centred)
        population   κ Π/V + α ccᵀ/V² + (Σw)² 11ᵀ/V²        (the last only if not centred)
        bulk         the sample's between two Π
    """
    V, mass = n_vocab, 0.0 if model.centred else float(model.weights.sum())
    between = (model.signal_gain / V**2, mass**2 / V**2)
    return [
        TokenMatrix(weights=0),
        TokenMatrix(within=model.noise_gain / V, between=between),
        TokenMatrix(weights=0, is_projected=True),
    ]


class ClassCouplings(ABC):
    """k = Kc and a = cᵀKc of every covariance, by multiplication."""

    classes: Vectors  # c, as a column
    n_covariances: int

    @abstractmethod
    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times the columns, each with the K of the covariance it belongs to."""

    @cached_property
    def couplings(self) -> Vectors:
        """Kc of every covariance, in the columns."""
        n = self.n_covariances
        return self.multiply(np.repeat(self.classes, n, axis=1), range(n))

    @cached_property
    def gains(self) -> Floats:
        """cᵀKc of every covariance."""
        return (self.classes.T @ self.couplings).ravel().astype(np.float64)


class TokenNoise(ClassCouplings):
    """Real tokens: each covariance has the K of a `TokenMatrix`, k = Kc and a = cᵀKc.

    Parameters
    ----------
    model : PooledSequences
        Its correlation and centring; its weights are not used.
    dimension : int
        d.
    rng : Generator
        Source of randomness.
    weights : array of shape (n_weights, length)
        Pooling weights, all for the same tokens.
    matrices : sequence of TokenMatrix
        The covariances.
    dtype : float32 or float64
        Precision of vectors as long as the vocabulary.
    compiled : bool or None
        Draw and multiply in compiled loops; None: if numba is installed.
    """

    def __init__(
        self,
        model: PooledSequences,
        dimension: int,
        rng: np.random.Generator,
        weights: Floats,
        matrices: Sequence[TokenMatrix],
        dtype: DTypeLike = np.float32,
        compiled: bool | None = None,
    ) -> None:
        _, V, N = model.sizes(dimension)
        compiled = plan.has_numba() if compiled is None else compiled
        tokens = DrawnTokens(model.correlation, N, V, rng, compiled)
        self.rows = FullSpace(V, dtype)
        self.matrices, self.n_covariances = list(matrices), len(matrices)
        self.covariance = TokenCovariance(
            tokens, V, weights, centred=model.centred, dtype=dtype, compiled=compiled
        )
        self.classes = token_classes(V)[:, None].astype(dtype)
        self.directions = np.concatenate([self.classes, np.ones_like(self.classes)], axis=1)

    @property
    def is_compiled(self) -> bool:
        """Whether products with the tokens are compiled."""
        return isinstance(self.covariance.gram, CompiledGram)

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times the columns, each with the K of the covariance it belongs to."""
        chosen, kind = [self.matrices[i] for i in which], vectors.dtype
        is_projected = np.array([K.is_projected for K in chosen], dtype=kind)
        within = np.array([K.within for K in chosen], dtype=kind)
        between = np.array([K.between for K in chosen]).T * len(vectors)

        sums = self.directions.T @ vectors / len(vectors)  # along c and 1
        pooled = [j for j, K in enumerate(chosen) if K.weights is not None]
        out = np.zeros_like(vectors)
        if pooled:
            U = vectors - self.directions @ (is_projected * sums)
            weights = [K.weights for K in chosen if K.weights is not None]
            out[:, pooled] = self.covariance.multiply(U[:, pooled], weights)
            left = is_projected * (self.directions.T @ out / len(vectors))
            out -= self.directions @ left
        if within.any():
            out += within * vectors + self.directions @ ((between - within) * sums).astype(kind)
        return out


class FrequentTokens:
    """Sequences of tokens as `sample_signs` and `sample_frequent_tokens` draw them, when taken."""

    def __init__(
        self, model: PooledSequences, words: Vocabulary, n_samples: int, rng: np.random.Generator
    ) -> None:
        self.n_samples = n_samples
        self._correlation, self._words, self._rng = model.correlation, words, rng

    def take(self, n: int) -> NDArray[np.integer]:
        """Draw n sequences: row of the table at every position, (n, length)."""
        signs = sample_signs(self._correlation, n, self._rng)
        return sample_frequent_tokens(signs, self._words, self._rng)


class VocabularyNoise(ClassCouplings):
    """Covariances of the sample, the population and the bulk of tokens that differ.

    With rows Z_v = g_v z_v the pooled noise is M diag(g) Z for a standard Gaussian Z, so every K
    has diag(g) on both sides, and the table is drawn lazily as for tokens that are alike
    (docs/theory/simulation.md, "A table that is never drawn").

    Parameters
    ----------
    model, words, dimension, rng
        What is drawn, at which size, from which randomness.
    dtype : float32 or float64
        Precision of vectors as long as the vocabulary.
    kinds : sequence of SAMPLE, POPULATION and BULK
        The covariances.
    weights : array of shape (len(kinds), length), optional
        Pooling weights of each covariance, all for the same tokens; the model's by default.

    Notes
    -----
    With Π = I − 1pᵀ − c(pc)ᵀ, which subtracts the frequency-weighted mean of each class:

        sample       diag(g) Mᵀ(I − 11ᵀ/N)M diag(g)/N            (without 11ᵀ if not centred)
        population   diag(g) [κ (diag p − ppᵀ − (pc)(pc)ᵀ) + α (pc)(pc)ᵀ + (Σw)² ppᵀ] diag(g)
        bulk         the sample's with Πᵀ and Π around M
    """

    def __init__(
        self,
        model: PooledSequences,
        words: Vocabulary,
        dimension: int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        *,
        kinds: Sequence[int] = (SAMPLE, POPULATION, BULK),
        weights: Floats | None = None,
    ) -> None:
        _, V, N = model.sizes(dimension)
        tokens = FrequentTokens(model, words, N, rng)
        self.rows = FullSpace(V, dtype)
        self._kinds, self.n_covariances = np.asarray(kinds), len(kinds)
        self._weights = range(len(self._kinds)) if weights is not None else [0] * len(self._kinds)
        several = model.weights[None] if weights is None else weights
        self.covariance = TokenCovariance(tokens, V, several, centred=model.centred, dtype=dtype)
        scale = float(words.weights.max())
        self._g = (words.weights / scale)[:, None].astype(dtype)
        self._p = words.frequencies[:, None].astype(dtype)
        self.classes = words.signs[:, None].astype(dtype)
        self.directions = np.concatenate([self.classes, np.ones_like(self.classes)], axis=1)
        self._scale = scale**2
        kappa, mass = model.noise_gain, 0.0 if model.centred else float(model.weights.sum())
        self._within, self._between = kappa, np.array([model.signal_gain, mass**2])

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times the columns, each with the K of the covariance it belongs to."""
        kinds = self._kinds[list(which)]
        inner = self._g * vectors
        out = np.zeros_like(inner)
        means = self.directions.T @ (self._p * inner)  # of the classes: half difference, half sum
        is_projected = (kinds == BULK).astype(inner.dtype)
        pooled = np.flatnonzero(kinds != POPULATION)
        if pooled.size:
            projected = inner - self.directions @ (is_projected * means)
            weights = [self._weights[which[j]] for j in pooled.tolist()]
            product = self.covariance.multiply(projected[:, pooled], weights)
            back = self.directions.T @ product  # Πᵀ = I − p1ᵀ − (pc)cᵀ
            product -= self._p * (self.directions @ (is_projected[pooled] * back))
            out[:, pooled] = product
        exact = np.flatnonzero(kinds == POPULATION)
        if exact.size:
            between = ((self._between - self._within)[:, None] * means[:, exact]).astype(out.dtype)
            out[:, exact] = self._p * (self._within * inner[:, exact] + self.directions @ between)
        return np.asarray(self._scale * self._g * out, dtype=vectors.dtype)


class GaussianNoise:
    """The papers' idealisation: pooled noise √(κ/V) ΓZ with a Gaussian Γ of N rows.

    Γ is drawn lazily, like the table, so nothing here is as long as V or N. Centring removes the
    direction of 1 from the N rows, which leaves N − 1 of them.

    Parameters
    ----------
    model, dimension, rng, weights
        As in `TokenNoise`; several weights share Γ and the signs.
    with_population : bool
        Add the population's covariance, of the model's own weights, after those of the samples.

    Notes
    -----
        sample       K = (κ/V) ΓᵀΓ/N    k = √(κ/V) Γᵀt/N    a = tᵀt/N ,     t = w·s
        population   K = (κ/V) I        k = 0               a = α
    """

    def __init__(
        self,
        model: PooledSequences,
        dimension: int,
        rng: np.random.Generator,
        weights: Floats,
        with_population: bool = False,
    ) -> None:
        _, V, N = model.sizes(dimension)
        factor = sample_gains(model, weights, N, rng)
        rows = ImplicitBasis(V)
        self.rows: Space = rows
        self._gamma = LazyGaussian(rows, N - model.centred, rng, n_first=len(factor))  # Γᵀ
        self._scales = np.sum(weights**2, axis=1) / (V * N)  # κ/(VN)
        self.couplings = self._gamma.multiply(factor) * np.sqrt(self._scales / N)
        self.gains = np.sum(factor**2, axis=0) / N
        if with_population:
            self.couplings = np.pad(self.couplings, ((0, 0), (0, 1)))
            self.gains = np.append(self.gains, model.signal_gain)
        self._within = model.noise_gain / V

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times the columns, each with the K of the covariance it belongs to."""
        out = self._within * vectors
        pooled = [j for j, i in enumerate(which) if i < len(self._scales)]
        if pooled:
            scales = self._scales[[which[j] for j in pooled]]
            product = self._gamma.multiply(self._gamma.transpose_multiply(vectors[:, pooled]))
            out = np.pad(out, ((0, len(product) - len(out)), (0, 0)))
            out[:, pooled] = scales * product
        return out


class FreshNoise:
    """An infinite vocabulary: every pooled vector has noise of its own, √κ times N × d Gaussians.

    The N sequences take the vocabulary's place; one of the N dimensions goes with centring.

    Parameters
    ----------
    model, dimension, rng, weights
        As in `TokenNoise`; several weights share the Gaussians and the signs.

    Notes
    -----
    K = κ I/N, k = √κ t/N, a = tᵀt/N with t = w·s. The population is κ I + α μμᵀ, without a table.
    """

    def __init__(
        self, model: PooledSequences, dimension: int, rng: np.random.Generator, weights: Floats
    ) -> None:
        N = model.sizes(dimension).n_samples
        factor = sample_gains(model, weights, N, rng)
        rows = ImplicitBasis(N - model.centred)
        self.rows: Space = rows
        self._scales = np.sum(weights**2, axis=1) / N
        self.couplings = rows.directions(len(factor)) @ factor * np.sqrt(self._scales / N)
        self.gains = np.sum(factor**2, axis=0) / N

    def multiply(self, vectors: Vectors, which: Sequence[int]) -> Vectors:
        """Return K times the columns, each with the K of the covariance it belongs to."""
        return np.asarray(self._scales[list(which)] * vectors)


def sample_gains(
    model: PooledSequences, weights: Floats, n: int, rng: np.random.Generator
) -> Floats:
    """Draw the gains t = w·s of n sequences for all weights, centred if the model is.

    Returns
    -------
    array of shape (rank, n_weights)
        The columns t in an orthonormal basis of their span: all that spectra depend on.
    """
    total, gram = np.zeros(len(weights)), np.zeros((len(weights),) * 2)
    for start in range(0, n, BLOCK):
        t = sample_signs(model.correlation, min(BLOCK, n - start), rng) @ weights.T
        total, gram = total + t.sum(axis=0), gram + t.T @ t
    if model.centred:
        gram -= np.outer(total, total) / n
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)
