r"""Pooling weights learned from the sequences alone, without labels (theory.md §3.4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._validation import Random, complain, count, random_generator, real
from attnlaw.estimators.alternation import (
    TRACE_NUMBERS,
    Optimum,
    cross_position_covariance,
    hollow,
    maximise,
)
from attnlaw.estimators.sequences import Sequences, as_sequences

__all__ = ["PoolingWeights", "learn_pooling_weights", "least_power", "normalised", "signal_power"]

Floats = NDArray[np.float64]
MOST_GROUPS = 2000  # that the bootstrap draws from
AGREEMENT = 16.0  # d (u·u')² is about 1 for directions that have nothing in common


@dataclass(frozen=True, kw_only=True)
class PoolingWeights:
    """Learned pooling weights, and what they gain over mean pooling on data not used for them.

    Each half of the sequences is judged by weights and a direction learned from the other
    half; `weights` and `direction` themselves come from all sequences.
    """

    weights: Floats  # w (L,): Σ|w| = 1, Σw ≥ 0
    direction: Floats  # u (d,): unit vector along which positions move together
    correlation: Floats  # R̂ (L, L): of the positions' signs; unit diagonal, PSD
    snr: float  # wᵀRw/wᵀw of weights learned from half of the data, on the other half
    mean_snr: float  # of mean pooling, on the same sequences
    snr_gain: float  # their difference, before either is brought within 0 … L
    snr_gain_interval: tuple[float, float]  # bootstrap, at the level asked for
    gain_is_supported: bool  # whether that interval lies above 0
    signal_power: float  # of one token along the direction; the unit in which the snr is 1


def learn_pooling_weights(
    sequences: Any,
    *,
    table: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    rng: Random = 0,
) -> PoolingWeights:
    r"""Learn the pooling weights that keep the most signal, from sequences without labels.

    Parameters
    ----------
    sequences : array of shape (N, length, d), or of int and shape (N, length)
        Embeddings; or rows of `table`, negative where there is no token. float32 is not
        converted.
    table : array of shape (V, d), optional
        Embeddings of the tokens. That takes much less memory and time.
    mask : array of bool and shape (N, length), optional
        True where there is a token.
    lengths : array of int and shape (N,), optional
        The same for sequences padded at the end.
    confidence : float
        Level of the interval of the gain, between 0 and 1.
    n_bootstrap : int
        Number of bootstrap samples for it.
    rng : Generator, int or None
        Source of the random starts, the halves and the bootstrap.

    Returns
    -------
    PoolingWeights

    Notes
    -----
    Maximises J(w, u) = Σ_{l≠l'} w_l w_l' uᵀ Ĉ_ll' u over unit w and u, where Ĉ_ll' is the
    covariance between the tokens at two different positions (see `attnlaw.estimators.alternation`
    and docs/theory/weights-from-data.md). In the pooled sequence model E Ĉ_ll' = R_ll' a aᵀ with
    a = μ + m (theory.md §2.1), so J = (a·u)² (wᵀRw − wᵀw): its maximiser is the optimal w of P1.

    The gain is judged by cross-fitting. With (w, u) from one half, every sequence i of the
    other half gives two numbers

        j_i(w) = Σ_{l≠l'} w_l w_l' p_il p_il' ,   p_il = T_il·u ,

    for the learned and for the uniform w, whose mean difference is (a·u)² times the difference
    of the SNRs, without bias whatever was learned. The unit is the signal's part in a token's
    variance, from the directions u, u' of the two halves, whose errors are independent:
    (a·u)(a·u') = uᵀΣu' − σ² u·u', σ² = tr Σ/d. Where the two directions do not agree there is
    no such part, and the least unit is taken for which I + Γ/θ can be a correlation matrix.

    Examples
    --------
    Two of four positions share a sign, opposite in the second:

    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((400, 4, 10))
    >>> signs = rng.choice([-1.0, 1.0], 400)
    >>> T[:, 0, 0] += signs
    >>> T[:, 1, 0] -= signs
    >>> learned = learn_pooling_weights(T)
    >>> learned.gain_is_supported
    True
    >>> bool(abs(learned.weights[:2].sum()) < 0.1 and abs(learned.weights[2:]).sum() < 0.2)
    True
    """
    data = as_sequences(sequences, table, mask=mask, lengths=lengths)
    N, L, _ = data.shape
    if L < 2 or N < 8:
        raise complain("sequences", "at least 8 sequences of at least 2 positions", data.shape)
    level = float(np.asarray(real("confidence", confidence, above=0, below=1)))
    rng = random_generator(rng)

    best = maximise(data, rng)
    order = rng.permutation(N)
    halves = [data.take(np.sort(rows)) for rows in np.array_split(order, 2)]
    fits = [maximise(half, rng) for half in halves]
    held_out = [_judge(halves[1 - k], fits[k]) for k in range(2)]

    gamma = (held_out[0][0] + held_out[1][0]) / 2
    power = signal_power(data, fits[0], fits[1], rng) or least_power(gamma)
    learned, uniform = (np.concatenate([h[k] for h in held_out]) / power for k in (1, 2))
    gains = _bootstrap_means(learned - uniform, count("n_bootstrap", n_bootstrap), rng)
    low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
    return PoolingWeights(
        weights=normalised(best.weights),
        direction=best.direction,
        correlation=_nearest_correlation(gamma / power),
        snr=float(np.clip(1 + learned.mean(), 0, L)),
        mean_snr=float(np.clip(1 + uniform.mean(), 0, L)),
        snr_gain=float(learned.mean() - uniform.mean()),
        snr_gain_interval=(float(low), float(high)),
        gain_is_supported=bool(low > 0),
        signal_power=power,
    )


def _judge(data: Sequences, fit: Optimum) -> tuple[Floats, Floats, Floats]:
    """Return Γ(u), and j_i for the fitted and for the uniform weights, on fresh sequences."""
    N, L, _ = data.shape
    u = fit.direction[:, None]
    P = data.project(u)[0].astype(np.float64)
    share = N / np.maximum(data.pair_counts, 1)  # 1 where nothing is missing

    def each(w: Floats) -> Floats:
        A = hollow(np.outer(w, w) * share)
        return np.asarray(np.einsum("il,il->i", P @ A, P))

    return cross_position_covariance(data, u)[0], each(fit.weights), each(np.full(L, L**-0.5))


def signal_power(
    data: Sequences, first: Optimum, second: Optimum, rng: np.random.Generator
) -> float:
    """Return |uᵀΣv − σ² u·v|, Σ the tokens' covariance; 0 when u and v do not agree."""
    _, L, d = data.shape
    u, v = first.direction, second.direction
    if (u @ v) ** 2 < AGREEMENT / d:
        return 0.0
    both = data.project(np.stack([u, v], axis=1)).astype(np.float64)
    n_tokens = float(np.trace(data.pair_counts))
    noise = data.some(max(256, TRACE_NUMBERS // (L * d)), rng).total_variance() / d
    return float(abs(np.vdot(both[0], both[1]) / n_tokens - noise * (u @ v)))


def least_power(gamma: Floats) -> float:
    """Return the least signal power θ for which I + Γ/θ can be a correlation matrix."""
    values = np.linalg.eigvalsh(gamma)
    least = max(-values[0], values[-1] / (len(gamma) - 1))
    return float(max(least, np.finfo(float).tiny))


def _nearest_correlation(off_diagonal: Floats) -> Floats:
    """Return I + off_diagonal with negative eigenvalues cut off and a unit diagonal."""
    L = len(off_diagonal)
    values, vectors = np.linalg.eigh(np.eye(L) + off_diagonal)
    R = (vectors * np.maximum(values, 1e-9)) @ vectors.T
    scale = 1 / np.sqrt(np.diag(R))
    R = R * np.outer(scale, scale)
    R = (R + R.T) / 2
    np.fill_diagonal(R, 1.0)
    return np.asarray(R)


def _bootstrap_means(values: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return the means of n samples drawn with replacement."""
    if len(values) > MOST_GROUPS:  # groups of samples are as good as samples, and fewer
        groups = np.array_split(rng.permutation(values), MOST_GROUPS)
        values = np.array([group.mean() for group in groups])
    N = len(values)
    block = max(1, 2**22 // N)
    sizes = [min(block, n - start) for start in range(0, n, block)]
    return np.concatenate([values[rng.integers(N, size=(b, N))].mean(axis=1) for b in sizes])


def normalised(w: Floats) -> Floats:
    """Scale to Σ|w| = 1 with a sum of at least 0, as mean pooling has it."""
    w = w / np.abs(w).sum()
    total = w.sum()
    if abs(total) < 1e-12:
        total = w[np.argmax(np.abs(w))]
    return np.asarray(w if total > 0 else -w)
