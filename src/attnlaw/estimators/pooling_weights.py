r"""Pooling weights learned from the sequences alone, without labels; and from labels.

The first are derived in docs/theory/weights-from-data.md, "Different positions share the signal
and nothing else".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, Random, invalid_argument, random_generator, scalar
from attnlaw.data.sequences import Sequences, as_sequences
from attnlaw.estimators.alternation import best_direction
from attnlaw.estimators.gain import (
    copies_apart,
    halves_of,
    judge,
    learn_and_judge,
    mean_interval,
    signal_power,
)
from attnlaw.estimators.pooling import position_weights
from attnlaw.results import Record

__all__ = ["PoolingWeights", "learn_pooling_weights", "normalised", "trained_weights"]

BLOCK_NUMBERS = 2**24  # of projections at a time
TRAINED_ON = 10_000  # sequences from which weights are trained on labels


@dataclass(frozen=True, kw_only=True)
class PoolingWeights(Record):
    """Learned pooling weights, and what they gain over mean pooling on data not used for them.

    Each half of the sequences is judged by weights and a direction learned from the other
    half; `weights` and `direction` themselves come from all sequences.
    """

    weights: Floats  # w (L,): Σ|w| = 1, Σw ≥ 0
    direction: Floats  # u (d,): unit vector along which positions move together
    correlation: Floats  # R̂ (L, L): of the positions' signs; unit diagonal, PSD
    snr: float  # wᵀRw/wᵀw of weights learned from half of the data, on the other half
    mean_snr: float  # of mean pooling on the same sequences, along whichever direction suits it
    snr_gain: float  # their difference, before either is brought within 0 … L
    snr_gain_interval: tuple[float, float]  # at the confidence asked for
    gain_is_supported: bool  # whether that interval lies above 0
    signal_power: float  # of one token along the direction; the unit in which the snr is 1


def learn_pooling_weights(
    sequences: Any,
    *,
    table: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
    signed: bool | str = "auto",
    confidence: float = 0.95,
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
    signed : bool or "auto"
        Whether weights may be negative. "auto" tries both, and takes negative weights when they
        have an SNR higher by 5 % on the sequences held out. (Positions that oppose each other are
        a pattern like any other, but in text it is as a rule grammar: an article is followed by a
        noun. Weights that are not negative look for what positions have in common.)
    confidence : float
        Level of the interval of the gain, between 0 and 1.
    rng : Generator, int or None
        Source of the random starts and the halves.

    Returns
    -------
    PoolingWeights

    Notes
    -----
    Maximises J(w, u) = Σ_{l≠l'} w_l w_l' uᵀ Ĉ_ll' u over unit w and u, where Ĉ_ll' is the
    covariance between the tokens at two different positions (see `attnlaw.estimators.alternation`
    and docs/theory/weights-from-data.md, "What is claimed, and when"). In the pooled sequence
    model E Ĉ_ll' = R_ll' a aᵀ with a = μ + m (docs/theory/pooled-covariance.md, "Derivation"), so
    J = (a·u)² (wᵀRw − wᵀw): its maximiser is the optimal w of P1.

    The gain is evaluated by cross-fitting. With (w, u) from one half, every sequence i of the
    other half gives two numbers

        j_i(w) = Σ_{l≠l'} w_l w_l' p_il p_il' ,   p_il = T_il·u ,

    for the learned and for the uniform w, whose mean difference is (a·u)² times the difference
    of the SNRs, without bias whatever was learned. The unit is the signal's part in a token's
    variance, from the directions u, u' of the two halves, whose errors are independent:
    (a·u)(a·u') = uᵀΣu' − σ² u·u', σ² = tr Σ/d. Where the two directions do not agree there is
    no such part, and the whole variance is the unit: all SNRs are then near 1. Mean pooling is
    judged along the learned direction or along its own, whichever suits it better.

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
        raise invalid_argument(
            "sequences", "at least 8 sequences of at least 2 positions", data.shape
        )
    level = scalar("confidence", confidence, above=0, below=1)
    rng = random_generator(rng)

    if signed not in (True, False, "auto"):
        raise invalid_argument("signed", "True, False or 'auto'", signed)
    groups = copies_apart(data, rng)
    if groups.max() < 7:
        raise invalid_argument(
            "sequences", "at least 8 different sequences", int(groups.max()) + 1
        )
    rows = halves_of(groups, rng)
    halves = [data.take(half) for half in rows]
    mean = [best_direction(half, np.full(L, L**-0.5), rng) for half in halves]
    of_mean = judge(halves, mean)
    mean_power = signal_power(data, mean, of_mean.covariance, rng)
    mean_gains = of_mean.fitted / mean_power.value if mean_power.is_seen else None
    found = learn_and_judge(data, halves, rng, signed=signed)
    power = found.power.value
    learned, uniform = found.held_out.fitted / power, found.held_out.uniform / power
    if mean_gains is not None and mean_gains.mean() > uniform.mean():
        uniform = mean_gains
    judged = groups[np.concatenate(rows[::-1])]  # fits to a half are judged by the other
    low, high = mean_interval(learned - uniform, judged, level)
    return PoolingWeights(
        weights=normalised(found.best.weights),
        direction=found.best.direction,
        correlation=_nearest_correlation(found.held_out.covariance / power),
        snr=float(np.clip(1 + learned.mean(), 0, L)),
        mean_snr=float(np.clip(1 + uniform.mean(), 0, L)),
        snr_gain=float(learned.mean() - uniform.mean()),
        snr_gain_interval=(low, high),
        gain_is_supported=bool(low > 0),
        signal_power=power,
    )


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


def normalised(w: Floats) -> Floats:
    """Scale to Σ|w| = 1 with a sum of at least 0, as mean pooling has it."""
    w = w / np.abs(w).sum()
    total = w.sum()
    if abs(total) < 1e-12:
        total = w[np.argmax(np.abs(w))]
    return np.asarray(w if total > 0 else -w)


def trained_weights(data: Sequences, labels: NDArray[np.integer[Any]]) -> Floats:
    """Return the weights of the positions that tell the classes apart, from labels.

    Parameters
    ----------
    data : Sequences
    labels : array of int and shape (N,)
        Class of each sequence, from 0.

    Returns
    -------
    array of shape (L,)
        Σ|w| = 1.

    Notes
    -----
    One turn of the alternation for P1 App. J's problem min ‖Y − Σ_l w_l T_l B‖² + ridge, from mean
    pooling: with B from one half of the sequences, w is a regression on the L projections T_l B of
    the other half, and the two halves are added up. What chance explains of the differences
    between positions, mean Var(w_l)/Var_l(w), is then taken away (James and Stein), so that
    weights return to the mean where labels say nothing else.
    """
    N, L, _ = data.shape
    rows = np.arange(N)[:: -(-N // TRAINED_ON)]
    Y = np.eye(int(labels.max()) + 1)[labels]
    Y -= Y[rows].mean(axis=0)
    pooled = data.pool(position_weights("mean", L, data.mask))
    S, h = np.zeros((L, L)), np.zeros(L)
    for ours, theirs in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])):
        B = _ridge(pooled[ours], Y[ours])
        theirs = theirs[np.argsort(-data.ends[theirs], kind="stable")]
        half = data.take(theirs, once=True)
        size = max(1, BLOCK_NUMBERS // (len(theirs) * L))
        for start in range(0, B.shape[1], size):
            columns = slice(start, start + size)
            P = half.project(B[:, columns])  # (K, N/2, L)
            h += np.einsum("kil,ik->l", P, Y[theirs, columns].astype(P.dtype))
            for run, end in half.spans:
                flat = P[:, run, :end].reshape(-1, end)
                S[:end, :end] += flat.T @ flat
    n_columns = Y.shape[1]
    ridge = 1e-3 * np.trace(S) / L
    if not ridge > 0:
        return np.full(L, 1 / L)
    inverse = np.linalg.inv(S + ridge * np.eye(L))
    w = inverse @ h
    residual = float(np.sum(Y[rows] ** 2) - 2 * w @ h + w @ S @ w) / (len(rows) * n_columns)
    # One of the columns follows from the others, so they hold a little less than they seem to.
    chance = residual * float(np.mean(np.diag(inverse))) * n_columns / max(n_columns - 1, 1)
    spread = float(np.var(w))
    w = w.mean() + max(0.0, 1 - chance / spread if spread > 0 else 0.0) * (w - w.mean())
    total = float(np.abs(w).sum())
    return np.asarray(w / total) if total > 0 else np.full(L, 1 / L)


def _ridge(X: NDArray[Any], Y: Floats, ridge: float = 0.1) -> Floats:
    """Return coefficients of a ridge regression, λ in units of the mean variance."""
    from scipy.linalg import cho_factor, cho_solve

    n = len(X)
    X = X - X.mean(axis=0)
    S = (X.T @ X).astype(np.float64) / n
    H = (X.T @ (Y - Y.mean(axis=0)).astype(X.dtype)).astype(np.float64) / n
    if not np.trace(S) > 0:
        return np.zeros_like(H)
    S[np.diag_indices_from(S)] += ridge * np.trace(S) / len(S)
    return np.asarray(cho_solve(cho_factor(S, check_finite=False), H, check_finite=False))
