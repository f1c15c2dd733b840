"""Several heads side by side, drawn token by token and measured without closed forms."""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats, Random, invalid_argument, random_generator
from attnlaw.models import MultiHeadPooling
from attnlaw.results import Spikes, exceeds_edge
from attnlaw.simulation.pooled import (
    covariance,
    leading_eigenpairs,
    pool,
    sample_tokens,
    split_classes,
    squared_overlap,
)
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.verbs import repeats, simulate

__all__ = ["HeadSample", "sample_heads"]


class HeadSample(NamedTuple):
    """One draw at a finite size; the d dimensions of a head after those of the one before."""

    pooled: Floats  # X (N, Hd), not centred
    bulk: Floats  # (N, Hd): the same without class means, signal or noise
    covariance: Floats  # C (Hd, Hd): of sequences from this table, centred


def sample_heads(model: MultiHeadPooling, dimension: int, rng: Random = None) -> HeadSample:
    """Draw a table, sequences from it, and pool them with every head.

    Notes
    -----
    Derived in docs/theory/several-heads.md, "The spectrum of the concatenation".

    Token: C = K ⊗ Z_⊥ᵀZ_⊥/V + A ⊗ (μ+m)(μ+m)ᵀ. Idealised: every position has a
    Gaussian vector ξ_l = g_l Z/√V of its own, x_h = Σ_l w_hl (s_l μ + ξ_l), and C has Z in place
    of Z_⊥ and no m; with an infinite vocabulary ξ_l = g_l.
    """
    rng = random_generator(rng)
    d, V, N = model.sizes(dimension)
    W, mu = model.weights, float(np.asarray(model.signal_norm)) * np.eye(d)[0]
    Z = rng.standard_normal((V, d))
    signs = sample_signs(model.correlation, N, rng)
    if V and model.sampling == "token":
        within, _, difference = split_classes(Z)
        mu = mu + difference
        tokens = sample_tokens(signs, V, rng)
        bulk = np.concatenate([pool(within, tokens, w) for w in W], axis=1)
        noise = within.T @ within / V
    else:
        noise = Z.T @ Z / V if V else np.eye(d)
        left, sizes, _ = np.linalg.svd(W, full_matrices=False)  # Σ_l w_hl g_l has covariance WWᵀ
        mixed = np.tensordot(left * sizes, rng.standard_normal((len(sizes), N, V or d)), axes=1)
        bulk = np.concatenate(list(mixed @ Z / np.sqrt(V) if V else mixed), axis=1)
    gains = signs @ W.T  # (N, H)
    X = bulk + (gains[:, :, None] * mu).reshape(N, -1)
    C = np.kron(model.noise_gains, noise) + np.kron(model.signal_gains, np.outer(mu, mu))
    return HeadSample(X, bulk, C)


def _memory(model: MultiHeadPooling, dimension: int) -> float:
    d, V, N = model.sizes(dimension)
    D = model.n_heads * d
    gaussians = 2 * N * V * model.n_heads if model.sampling == "gaussian" else 0
    return 8 * (2 * V * d + 4 * N * D + 6 * D**2 + gaussians)


@repeats(simulate, _memory)
def heads_trial(model: MultiHeadPooling, dimension: int, rng: np.random.Generator) -> Spikes:
    """Draw concatenated heads, each of `dimension` d, and measure their H leading eigenpairs.

    Overlaps are the squared length of an eigenvector's part along μ, summed over heads; every
    matrix is formed.

    Examples
    --------
    >>> import attnlaw as al
    >>> heads = al.MultiHeadPooling(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=3.0, weights=np.eye(2),
    ...     correlation=al.prefix_correlation(2, prefix=2))
    >>> al.simulate(heads, dimension=30, n_trials=3, rng=0).squared_overlaps.shape
    (3, 2)
    """
    if np.ndim(model.signal_norm):
        words = "a single number when heads are drawn"
        raise invalid_argument("signal_norm", words, np.asarray(model.signal_norm))
    drawn = sample_heads(model, dimension, rng)
    H = model.n_heads
    edge = leading_eigenpairs(covariance(drawn.bulk, centred=True))[0][0]
    values, v = leading_eigenpairs(covariance(drawn.pooled, centred=True), H)
    population, c = leading_eigenpairs(drawn.covariance, H)
    along = np.arange(H) * dimension  # the coordinate of μ in every head
    return Spikes(
        top_eigenvalues=values,
        squared_overlaps=np.sum(v[:, along] ** 2, axis=1),
        bulk_edge=edge,
        population_eigenvalues=population,
        population_overlaps=np.sum(c[:, along] ** 2, axis=1),
        sample_overlaps=squared_overlap(v, c),
        is_detectable=exceeds_edge(values, edge, H * dimension),
    )
