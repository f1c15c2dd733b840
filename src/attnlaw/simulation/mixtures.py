"""Sequences of several kinds, drawn from one table and measured without closed forms."""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats, Random, random_generator
from attnlaw.models import SequenceMixture, Vocabulary
from attnlaw.results import Spike, exceeds_edge
from attnlaw.simulation.pooled import (
    PooledSample,
    class_means,
    covariance,
    leading_eigenpairs,
    pool,
    sample_frequent_tokens,
    sample_tokens,
    split_classes,
    split_vocabulary,
    squared_overlap,
)
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.trials import measured
from attnlaw.simulation.verbs import repeats, simulate

__all__ = ["MixtureSample", "sample_mixture"]


class MixtureSample(NamedTuple):
    """One draw at a finite size: X = noise + ‖μ‖ gains e₁ᵀ."""

    gains: Floats  # w_g·s (N,)
    noise: Floats  # X₀ (N, d)
    bulk: Floats  # (N, d): the same with class-centred tokens
    within: Floats  # (V, d): the table without its class means; the table itself if idealised
    difference: Floats  # m (d,): half the difference of the class means; 0 if idealised


def sample_mixture(model: SequenceMixture, dimension: int, rng: Random = None) -> MixtureSample:
    """Draw a table, the kind of every sequence, its signs and tokens, and pool.

    Notes
    -----
    Kind by kind as in `sample_pooled`: X₀ = M Z for tokens, √κ_g g Z/√V idealised, √κ_g g with
    an infinite vocabulary.
    """
    rng = random_generator(rng)
    d, V, N = model.sizes(dimension)
    Z = rng.standard_normal((V, d))
    kind = rng.choice(len(model.weights), size=N, p=model.kind_shares)
    gains, noise = np.empty(N), np.empty((N, d))
    token = model.sampling == "token" and V > 0
    for g, (w, R) in enumerate(zip(model.weights, model.correlations, strict=True)):
        rows = kind == g
        signs = sample_signs(R, int(rows.sum()), rng)
        gains[rows] = signs @ w
        if token:
            noise[rows] = pool(Z, sample_tokens(signs, V, rng), w)
        elif V > 0:
            noise[rows] = np.sqrt(w @ w / V) * (rng.standard_normal((len(signs), V)) @ Z)
        else:
            noise[rows] = np.sqrt(w @ w) * rng.standard_normal((len(signs), d))
    if not token:
        return MixtureSample(gains, noise, noise, Z, np.zeros(d))
    mean, difference = class_means(Z)
    bulk = noise - model.weights[0].sum() * mean - np.outer(gains, difference)
    return MixtureSample(gains, noise, bulk, split_classes(Z).within, difference)


def _vocabulary_trial(
    model: SequenceMixture, words: Vocabulary, dimension: int, rng: np.random.Generator
) -> Spike:
    """Draw sequences of several kinds from tokens that differ, and measure as `simulate` does."""
    d, V, N = model.sizes(dimension)
    p, g = words.frequencies, words.weights
    Z = g[:, None] * rng.standard_normal((V, d))
    within = split_vocabulary(Z, words).within
    kind = rng.choice(len(model.weights), size=N, p=model.kind_shares)
    gains, noise, bulk = np.empty(N), np.empty((N, d)), np.empty((N, d))
    for k, (w, R) in enumerate(zip(model.weights, model.correlations, strict=True)):
        rows = kind == k
        signs = sample_signs(R, int(rows.sum()), rng)
        if model.sampling == "token":
            tokens = sample_frequent_tokens(signs, words, rng)
            gains[rows] = pool(g * words.signs, tokens, w)
            noise[rows], bulk[rows] = pool(Z, tokens, w), pool(within, tokens, w)
        else:
            gains[rows] = float(p @ g) * (signs @ w)
            noise[rows] = rng.standard_normal((len(signs), V)) @ (np.sqrt(w @ w * p)[:, None] * Z)
            bulk[rows] = noise[rows]
    is_token = model.sampling == "token"
    sample = PooledSample(
        signs=np.empty((0, 0), dtype=np.int8),
        gains=gains,
        noise=noise,
        table=Z,
        tokens=np.empty((N, 1) if is_token else (0, 0), dtype=np.int32),
    )
    return measured(model, sample, bulk)


def _memory(model: SequenceMixture, dimension: int) -> float:
    d, V, N = model.sizes(dimension)
    longest = max(map(len, model.weights))
    gaussians = N * V if model.sampling == "gaussian" else 0
    return 8 * (2 * V * d + 4 * N * d + 4 * d**2 + 3 * N * longest + gaussians)


@repeats(simulate, _memory)
def mixture_trial(model: SequenceMixture, dimension: int, rng: np.random.Generator) -> Spike:
    """Draw sequences of several kinds and measure their leading eigenpair at every signal norm.

    The fields are those of `PooledSequences`, for centred sequences; every matrix is formed.

    Examples
    --------
    >>> import attnlaw as al
    >>> mixture = al.SequenceMixture(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=[0.0, 4.0],
    ...     correlations=[al.prefix_correlation(n, prefix=2) for n in (2, 6)],
    ...     weights=[al.mean_weights(n) for n in (2, 6)])
    >>> al.simulate(mixture, dimension=50, n_trials=3, rng=0).is_detectable.all(axis=0)
    array([False,  True])
    """
    if model.vocabulary is not None and model.tokens_differ:
        return _vocabulary_trial(model, model.vocabulary, dimension, rng)
    drawn = sample_mixture(model, dimension, rng)
    V, signal = len(drawn.within), np.eye(dimension)[0]
    edge = float(leading_eigenpairs(covariance(drawn.bulk, centred=True))[0][0])
    noise = drawn.within.T @ drawn.within / V if V else np.eye(dimension)
    norms = np.asarray(model.signal_norm)
    rows = []
    for norm in norms.ravel():
        X = drawn.noise.copy()
        X[:, 0] += norm * drawn.gains
        spike = norm * signal + drawn.difference
        C = model.noise_gain * noise + model.signal_gain * np.outer(spike, spike)
        (top,), (v,) = leading_eigenpairs(covariance(X, centred=True))
        (population,), (c,) = leading_eigenpairs(C)
        overlaps = [squared_overlap(*pair) for pair in ((v, signal), (c, signal), (v, c))]
        rows.append([top, population, *map(float, overlaps)])
    table = np.array(rows).T.reshape(5, *norms.shape)
    edges = np.full(norms.shape, edge)
    return Spike(
        top_eigenvalue=table[0],
        squared_overlap=table[2],
        bulk_edge=edges,
        population_eigenvalue=table[1],
        population_overlap=table[3],
        sample_overlap=table[4],
        mean_eigenvalue=edges,
        is_detectable=exceeds_edge(table[0], edge, dimension),
    )
