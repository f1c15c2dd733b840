"""Attention to a query, drawn token by token and measured by forming every matrix."""

from functools import partial

import numpy as np
from scipy.sparse import csr_array

from attnlaw._checks import Floats, Random, invalid_argument
from attnlaw._machine import require_memory
from attnlaw.models.attention import QueryAttention
from attnlaw.models.base import answers
from attnlaw.results import Alignment
from attnlaw.simulation.pooled import covariance, leading_eigenpairs
from attnlaw.simulation.verbs import Progress, run_trials, simulate

__all__ = ["sample_query_attention", "simulate_query_attention"]

CANDIDATES = 8
"""Leading eigenpairs of which the most aligned with the signal is taken."""


@answers(simulate)
def simulate_query_attention(
    model: QueryAttention,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Alignment:
    """Draw sequences pooled by attention to a query, and measure the signal's eigenpair.

    Parameters
    ----------
    model : QueryAttention
        What is drawn; it knows its dimension.
    dimension : int or None
        The model's, if given.
    n_trials, rng, n_jobs, progress
        As in `simulate`.

    Returns
    -------
    Alignment
        Every field of shape (n_trials,), of the sample covariance without the query's direction,
        centred by the sample mean.
    """
    if dimension not in (None, model.dimension):
        raise invalid_argument("dimension", f"{model.dimension}, the model's", dimension)
    trial = partial(_trial, model)
    trials = run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress)
    values, overlaps = (np.array(x) for x in zip(*trials, strict=True))
    return Alignment(top_eigenvalue=values, squared_overlap=overlaps)


def sample_query_attention(model: QueryAttention, rng: np.random.Generator) -> Floats:
    """Draw a table and sequences from it, and pool them: shape (N, d − 1), or (N, d) if learned.

    Notes
    -----
    Coordinates without that of a given query: the signal first, then what it misses of the
    marker.
    Informative tokens are the first rows of the table, +1 before −1.
    """
    d, V, N = model.sizes
    n_informative, L = model.informative_tokens, model.length
    require_memory(8.0 * (2 * V * d + 5 * N * L), "n_tokens", V, "numbers of a trial")
    require_memory(16.0 * d * d, "dimension", d, "covariances")
    Z, h = (_learned_table if model.query == "learned" else _given_table)(model, rng)
    half = n_informative // 2
    labels = rng.choice(2, size=(N, 1))
    informed = half * labels + rng.integers(half, size=(N, L))
    others = n_informative + rng.integers(V - n_informative, size=(N, L))
    tokens = np.where(rng.random((N, L)) < model.informative_share, informed, others)
    g = model.importance(h)[tokens]
    if model.scoring == "softmax":
        g /= g.sum(axis=1, keepdims=True)
    else:
        g /= L * _mean_importance(model, h)
    starts = np.arange(0, N * L + 1, L)
    return np.asarray(csr_array((g.ravel(), tokens.ravel(), starts), shape=(N, V)) @ Z)


def _given_table(model: QueryAttention, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw a table without the query's coordinate, and the scores."""
    d, V, _ = model.sizes
    n = model.informative_tokens
    Z = rng.standard_normal((V, d - 1))
    h = rng.standard_normal(V)
    h[:n] += model.separation
    Z[: n // 2, 0] += model.signal_norm
    Z[n // 2 : n, 0] -= model.signal_norm
    Z[:n, 1] += model.marker_norm * np.sqrt(1 - model.query_overlap**2)
    return Z, h


def _learned_table(model: QueryAttention, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw a whole table, take its leading eigenvector for the query and project it out."""
    d, V, _ = model.sizes
    n = model.informative_tokens
    E = rng.standard_normal((V, d))
    E[: n // 2, 0] += model.signal_norm
    E[n // 2 : n, 0] -= model.signal_norm
    E[:n, 1] += model.marker_norm
    _, (q,) = leading_eigenpairs(covariance(E, centred=True))
    q = q * (np.sign(q[1]) or 1.0)
    h = E @ q
    others = h[n:]
    return E - np.outer(h, q), (h - others.mean()) / others.std()


def _mean_importance(model: QueryAttention, scores: Floats) -> float:
    """Return Σ p g of this table."""
    g, n, f = model.importance(scores), model.informative_tokens, model.informative_share
    return float(f * g[:n].mean() + (1 - f) * g[n:].mean())


def _trial(model: QueryAttention, rng: np.random.Generator) -> tuple[float, float]:
    X = sample_query_attention(model, rng)
    values, vectors = leading_eigenpairs(covariance(X, centred=True), min(CANDIDATES, X.shape[1]))
    k = int(np.argmax(vectors[:, 0] ** 2))
    return float(values[k]), float(vectors[k, 0] ** 2)
