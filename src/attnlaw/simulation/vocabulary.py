"""Tokens that differ in frequency and importance: measured by forming every matrix."""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences, SequenceMixture, Vocabulary
from attnlaw.results import Spike, exceeds_edge
from attnlaw.simulation.pooled import (
    PooledSample,
    covariance,
    leading_eigenpairs,
    pool,
    sample_pooled,
    squared_overlap,
)

__all__ = [
    "CANDIDATES",
    "ClassSplit",
    "measure_vocabulary",
    "n_candidates",
    "split_vocabulary",
    "vocabulary_trial",
]

Pooled = PooledSequences | SequenceMixture

CANDIDATES = 16
"""Leading eigenpairs among which the signal's is looked for where tokens have their own."""


def n_candidates(vocabulary: Vocabulary, dimension: int) -> int:
    """Return how many leading eigenpairs are looked at: one where no token stands out.

    Tokens can stand out when the largest of their variances p g² differ by half.
    """
    rows = np.sort(vocabulary.frequencies * vocabulary.weights**2)[::-1]
    stands_out = rows[0] > 1.5 * rows[min(CANDIDATES, len(rows)) - 1]
    return min(CANDIDATES if stands_out else 1, dimension)


class ClassSplit(NamedTuple):
    """Rows of a table around the mean of their class, as text with these frequencies sees it."""

    within: Floats  # (V, d)
    mean: Floats  # (d,): half the sum of the class means
    difference: Floats  # (d,): half their difference


def split_vocabulary(rows: Floats, vocabulary: Vocabulary) -> ClassSplit:
    """Split rows of a table into the frequency-weighted means of the classes and the rest."""
    p, c = vocabulary.frequencies, vocabulary.signs
    mean, difference = p @ rows, (p * c) @ rows
    return ClassSplit(rows - mean - np.outer(c, difference), mean, difference)


def vocabulary_trial(model: PooledSequences, dimension: int, rng: np.random.Generator) -> Spike:
    """Measure one draw of a model with a vocabulary, for every signal norm.

    Notes
    -----
    The fields are those of `simulate`. Frequent tokens can have eigenvalues above the signal's,
    so of the `n_candidates` leading eigenpairs of S, and of C, the one is taken that overlaps
    most with the signal. No limit is taken in C: with rows E_v = g_v (c_v μ + z_v), class means
    M₀ ± M₁ under the frequencies p and E_⊥ the rows around them,

        C = κ E_⊥ᵀ diag(p) E_⊥ + α M₁M₁ᵀ + (Σw)² M₀M₀ᵀ      (last term if not centred).
    """
    words = model.vocabulary
    assert words is not None  # the caller has looked
    sample = sample_pooled(model, dimension, rng)
    bulk = sample.noise
    if sample.tokens.size:
        bulk = pool(split_vocabulary(sample.table, words).within, sample.tokens, model.weights)
    return measure_vocabulary(model, words, sample, bulk)


def measure_vocabulary(
    model: Pooled, words: Vocabulary, sample: PooledSample, bulk: Floats
) -> Spike:
    """Measure one draw for every signal norm; `bulk` is it without class means."""
    edge = float(leading_eigenpairs(covariance(bulk, centred=model.centred))[0][0])
    norms = np.asarray(model.signal_norm)
    spikes = [_measure(model, words, sample, float(norm), edge) for norm in norms.ravel()]
    names = vars(spikes[0])
    return Spike(**{n: np.reshape([getattr(s, n) for s in spikes], norms.shape) for n in names})


def _population(
    model: Pooled, words: Vocabulary, sample: PooledSample, signal_norm: float
) -> Floats:
    """Return the covariance that pooled sequences from this very table have."""
    p, g, kappa, alpha = words.frequencies, words.weights, model.noise_gain, model.signal_gain
    d = sample.table.shape[1]
    if model.sampling == "gaussian":
        C = kappa * (sample.table.T * p) @ sample.table
        C[0, 0] += alpha * (signal_norm * float(p @ g)) ** 2
        return np.asarray(C)
    rows = sample.table.copy()
    rows[:, 0] += signal_norm * g * words.signs
    within, mean, difference = split_vocabulary(rows, words)
    C = kappa * (within.T * p) @ within + alpha * np.outer(difference, difference)
    if isinstance(model, PooledSequences) and not model.centred:
        C += float(model.weights.sum()) ** 2 * np.outer(mean, mean)
    assert C.shape == (d, d)
    return np.asarray(C)


def _measure(
    model: Pooled,
    words: Vocabulary,
    sample: PooledSample,
    signal_norm: float,
    edge: float,
) -> Spike:
    """Measure the signal's eigenpairs of S and C at one signal norm."""
    d = sample.table.shape[1]
    S = covariance(sample.pooled(signal_norm), centred=model.centred)
    C = _population(model, words, sample, signal_norm)
    n = n_candidates(words, d)
    top, v = _most_aligned(S, n)
    population, c = _most_aligned(C, n)
    mean = edge
    if not model.centred and sample.tokens.size:  # its eigenpair may be the first
        n = max(n, min(2, d))
        top, v = _most_aligned(S, n)
        population, c = _most_aligned(C, n)
        direction = split_vocabulary(sample.table, words).mean
        values, vectors = leading_eigenpairs(S, n)
        mean = float(values[np.argmax(squared_overlap(vectors, direction))])
    return Spike(
        top_eigenvalue=top,
        squared_overlap=float(v[0] ** 2),
        bulk_edge=edge,
        population_eigenvalue=population,
        population_overlap=float(c[0] ** 2),
        sample_overlap=float(squared_overlap(v, c)),
        mean_eigenvalue=mean,
        is_detectable=exceeds_edge(top, edge, d),
    )


def _most_aligned(matrix: Floats, n_pairs: int) -> tuple[float, Floats]:
    """Return the leading eigenpair that overlaps most with the signal, the first coordinate."""
    values, vectors = leading_eigenpairs(matrix, n_pairs)
    k = int(np.argmax(vectors[:, 0] ** 2))
    return float(values[k]), vectors[k]
