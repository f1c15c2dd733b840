"""Sequences of several kinds, drawn from one table and measured without closed forms."""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats, Random, random_generator
from attnlaw.models import SequenceMixture
from attnlaw.results import Spike
from attnlaw.simulation.pooled import (
    PooledSample,
    pool,
    sample_frequent_tokens,
    sample_tokens,
    split_classes,
    split_vocabulary,
)
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.trials import measured
from attnlaw.simulation.verbs import repeats, simulate

__all__ = ["MixtureSample", "sample_mixture"]


class MixtureSample(NamedTuple):
    """One draw at a finite size; signs and tokens, of unequal length, are not kept."""

    drawn: PooledSample
    bulk: Floats  # (N, d): the noise of class-centred tokens


def sample_mixture(model: SequenceMixture, dimension: int, rng: Random = None) -> MixtureSample:
    """Draw a table, the kind of every sequence, its signs and tokens, and pool.

    Notes
    -----
    Kind by kind as in `sample_pooled`: X₀ = M Z for tokens, √κ_g g diag(√p) Z idealised, √κ_g g
    with an infinite vocabulary.
    """
    rng = random_generator(rng)
    d, V, N = model.sizes(dimension)
    words = model.vocabulary if model.tokens_differ else None
    is_token = model.sampling == "token" and V > 0
    Z = rng.standard_normal((V, d))
    within, scale, gain = Z, np.sqrt(np.full((V, 1), 1 / max(V, 1))), 1.0
    if words is not None:
        Z *= words.weights[:, None]
        scale, gain = np.sqrt(words.frequencies)[:, None], float(words.frequencies @ words.weights)
    if is_token:
        within = (split_classes(Z) if words is None else split_vocabulary(Z, words)).within
    kind = rng.choice(len(model.weights), size=N, p=model.kind_shares)
    gains, noise, bulk = np.empty(N), np.empty((N, d)), np.empty((N, d))
    for k, (w, R) in enumerate(zip(model.weights, model.correlations, strict=True)):
        rows = kind == k
        signs = sample_signs(R, int(rows.sum()), rng)
        if not is_token:
            gaussians = np.sqrt(w @ w) * rng.standard_normal((len(signs), V or d))
            gains[rows] = gain * (signs @ w)
            noise[rows] = bulk[rows] = gaussians @ (scale * Z) if V else gaussians
            continue
        if words is None:
            tokens = sample_tokens(signs, V, rng)
            gains[rows] = signs @ w
        else:
            tokens = sample_frequent_tokens(signs, words, rng)
            gains[rows] = pool(words.weights * words.signs, tokens, w)
        noise[rows], bulk[rows] = pool(Z, tokens, w), pool(within, tokens, w)
    nothing = np.empty((0, 0))
    drawn = PooledSample(
        signs=nothing.astype(np.int8),
        gains=gains,
        noise=noise,
        table=Z,
        tokens=nothing.astype(np.int32),
    )
    return MixtureSample(drawn, bulk)


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
    return measured(model, *sample_mixture(model, dimension, rng))
