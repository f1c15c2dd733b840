"""Draws from a vocabulary without their table: importance scales what multiplies the table.

With rows Z_v = g_v z_v the pooled noise is M diag(g) Z for a standard Gaussian Z, so every K of
`noise` has diag(g) on both sides and the table is drawn lazily, as for tokens that are
alike (docs/theory/simulation.md, "A table that is never drawn").
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw._checks import Floats, invalid_argument
from attnlaw.models import PooledSequences, Vocabulary
from attnlaw.results import Spike
from attnlaw.simulation._matrix_free.gram import TokenCovariance
from attnlaw.simulation._matrix_free.krylov import KrylovRun, find_spikes
from attnlaw.simulation._matrix_free.lazy_gaussian import FullSpace, LazyGaussian
from attnlaw.simulation._matrix_free.noise import ClassCouplings
from attnlaw.simulation._matrix_free.trial import (
    measured_spike,
    most_aligned,
    product_run,
    sweep_norms,
)
from attnlaw.simulation.pooled import sample_frequent_tokens
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.vocabulary import n_candidates

__all__ = ["FrequentTokens", "VocabularyNoise", "begin_vocabulary", "vocabulary_matrix_free_trial"]

Vectors = NDArray[np.floating]

SAMPLE, POPULATION, BULK = range(3)


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


def vocabulary_matrix_free_trial(
    model: PooledSequences,
    dimension: int,
    rng: np.random.Generator,
    *,
    dtype: DTypeLike = np.float32,
    tolerance: float | None = None,
) -> Spike:
    """Measure one draw of a model with a vocabulary; the law is that of the direct simulation.

    Parameters
    ----------
    model, dimension, rng, dtype, tolerance
        As in `matrix_free_trial`.

    Notes
    -----
    Of the `n_candidates` leading eigenpairs the most aligned with the signal is taken. Where
    tokens stand out these crowd at the edge of the bulk, and Lanczos takes more steps.
    """
    words = model.vocabulary
    if words is None or model.sampling != "token" or not model.centred:
        raise invalid_argument(
            "method", "'reference' for a vocabulary without tokens or centring", "matrix-free"
        )
    noise = VocabularyNoise(model, words, dimension, rng, dtype)
    run = product_run(noise, LazyGaussian(noise.rows, dimension, rng), None)
    tolerance = 0.0025 / dimension if tolerance is None else tolerance
    n = n_candidates(words, dimension)
    found = find_spikes(run, sweep_norms(model), tolerance=tolerance, n_pairs=n)
    pairs = dict(zip(("sample", "population", "bulk"), found, strict=True))
    for name in ("sample", "population"):
        pairs[name] = most_aligned(pairs[name])
    return measured_spike(model, dimension, pairs)


def begin_vocabulary(
    model: PooledSequences, dimension: int, weights: Floats, rng: np.random.Generator
) -> KrylovRun:
    """Begin the Krylov spaces of several pooling weights for tokens that differ."""
    words = model.vocabulary
    if words is None or model.sampling != "token" or not model.centred:
        given = f"sampling={model.sampling!r}, centred={model.centred}"
        raise invalid_argument("model", "of centred tokens when it has a vocabulary", given)
    kinds = [SAMPLE] * len(weights)
    noise = VocabularyNoise(model, words, dimension, rng, kinds=kinds, weights=weights)
    return product_run(noise, LazyGaussian(noise.rows, dimension, rng), None)
