r"""Pooling weights learned from the sequences alone, and evaluated on held-out sequences.

They are derived in docs/theory/weights-from-data.md, "Different positions share the signal and
nothing else". Cross-fitting evaluates them on sequences that were not used to learn them: with
weights w and a direction u from one half of the sequences, each sequence of the other half gives
j_i = Σ_{l≠l'} w_l w_l' p_il p_il' with p_il = T_il·u. Given the first half these are independent
numbers with mean (a·u)² (wᵀRw − wᵀw), whatever w and u are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, Random, invalid_argument, random_generator, scalar
from attnlaw.data.sequences import Sequences
from attnlaw.data.user_arrays import as_sequences
from attnlaw.estimators.alternation import (
    TRACE_NUMBERS,
    Optimum,
    Search,
    best_direction,
    cross_position_covariance,
    hollow,
)
from attnlaw.estimators.rows import copy_groups
from attnlaw.results import Record

__all__ = [
    "HeldOutScores",
    "LearnedWeights",
    "PoolingWeights",
    "Power",
    "copies_apart",
    "evaluate",
    "halves_of",
    "learn_and_evaluate",
    "learn_pooling_weights",
    "mean_interval",
    "normalised",
    "signal_power",
]


@dataclass(frozen=True, kw_only=True)
class PoolingWeights(Record):
    """Learned pooling weights, and their gain over mean pooling on held-out data.

    Each half of the sequences is evaluated by weights and a direction learned from the other
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
        Embeddings of the tokens. Token ids and a table take much less memory and time.
    mask : array of bool and shape (N, length), optional
        True where there is a token.
    lengths : array of int and shape (N,), optional
        The same for sequences padded at the end.
    signed : bool or "auto"
        Whether weights may be negative. "auto" tries both, and takes signed weights when their SNR
        on the held-out sequences is higher by 5 %. (Opposite signs at two positions are a pattern
        like any other, but in text usually reflect grammar: an article is followed by a noun.
        Non-negative weights find what positions have in common.)
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
    (a·u)(a·u') = uᵀΣu' − σ² u·u', σ² = tr Σ/d. Where the two directions do not agree, the unit is
    the whole variance, and all SNRs are near 1. Mean pooling is evaluated along the learned
    direction or along its own, whichever gives it the larger SNR.

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
    of_mean = evaluate(halves, mean)
    mean_power = signal_power(data, mean, of_mean.covariance, rng)
    mean_gains = of_mean.fitted / mean_power.value if mean_power.is_seen else None
    found = learn_and_evaluate(data, halves, rng, signed=signed)
    power = found.power.value
    learned, uniform = found.held_out.fitted / power, found.held_out.uniform / power
    if mean_gains is not None and mean_gains.mean() > uniform.mean():
        uniform = mean_gains
    held_out_groups = groups[np.concatenate(rows[::-1])]  # a fit is evaluated on the other half
    low, high = mean_interval(learned - uniform, held_out_groups, level)
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


SIGNS_MUST_GAIN = 1.05  # factor of the SNR for which negative weights are accepted
HALVES_IN_COMMON = 0.2  # correlation of what two halves say that learn from each other
AGREEMENT = 16.0  # d (u·u')² is about 1 for directions that have nothing in common


class HeldOutScores(NamedTuple):
    """Scores of weights and directions from each half on the other half."""

    covariance: Floats  # Γ (L, L): mean of the two hollow matrices
    fitted: Floats  # j_i (N,) of the fitted weights
    uniform: Floats  # j_i (N,) of uniform weights along the same directions


def evaluate(halves: list[Sequences], fits: list[Optimum]) -> HeldOutScores:
    """Evaluate the fit to each half by the other half."""
    parts = [_evaluate_half(halves[1 - k], fits[k]) for k in (0, 1)]
    return HeldOutScores(
        (parts[0].covariance + parts[1].covariance) / 2,
        np.concatenate([part.fitted for part in parts]),
        np.concatenate([part.uniform for part in parts]),
    )


def _evaluate_half(data: Sequences, fit: Optimum) -> HeldOutScores:
    N, L, _ = data.shape
    u = fit.direction[:, None]
    P = data.project(u)[0].astype(np.float64)
    share = N / np.maximum(data.pair_counts, 1)  # 1 where nothing is missing

    def each(w: Floats) -> Floats:
        A = hollow(np.outer(w, w) * share)
        return np.asarray(np.einsum("il,il->i", P @ A, P))

    gamma = cross_position_covariance(data, u)[0]
    return HeldOutScores(gamma, each(fit.weights), each(np.full(L, L**-0.5)))


class Power(NamedTuple):
    """The signal's part in the variance of a token along a direction."""

    value: float
    is_seen: bool  # whether the directions of the two halves agree


def signal_power(
    data: Sequences, fits: list[Optimum], covariance: Floats, rng: np.random.Generator
) -> Power:
    """Return the signal's part in the variance of a token, the unit in which its SNR is 1.

    (a·u)(a·u') = uᵀΣu' − σ² u·u' with the tokens' covariance Σ and σ² = tr Σ/d, for directions
    from two halves, whose errors are independent. At least half of the value that makes I +
    Γ/power a correlation matrix; the whole variance when the directions do not agree, so that
    without evidence the SNR is near 1.
    """
    _, L, d = data.shape
    U = np.stack([fit.direction for fit in fits], axis=1)
    P = data.project(U).astype(np.float64)
    products = np.einsum("kil,mil->km", P, P) / float(np.trace(data.pair_counts))
    cosine = float(U[:, 0] @ U[:, 1])
    whole = max(float(np.trace(products)) / 2, np.finfo(float).tiny)
    if cosine**2 < min(AGREEMENT / d, 0.5):
        return Power(whole, False)
    noise = data.some(max(256, TRACE_NUMBERS // (L * d)), rng).total_variance() / d
    power = float(np.sign(cosine) * (products[0, 1] - noise * cosine))
    values = np.linalg.eigvalsh(covariance)
    least = max(-values[0], values[-1] / (L - 1), np.finfo(float).tiny) / 2
    return Power(float(np.clip(power, min(least, whole), whole)), True)


class LearnedWeights(NamedTuple):
    """Weights learned from all sequences, and scores of the fit to each half on the other half."""

    best: Optimum  # from all sequences
    fits: list[Optimum]  # from each half
    held_out: HeldOutScores
    power: Power

    @property
    def snr(self) -> float:
        """SNR of the fitted weights on sequences held out."""
        return 1 + float(self.held_out.fitted.mean()) / self.power.value


def learn_and_evaluate(
    data: Sequences,
    halves: list[Sequences],
    rng: np.random.Generator,
    *,
    signed: bool | str = "auto",
    run: Callable[..., Iterable[Any]] = map,
) -> LearnedWeights:
    """Learn weights and a direction from all sequences, and evaluate them by their two halves.

    With "auto", weights may be negative if that gives an SNR higher by 5 % on what is held out.
    `run` may be the `map` of an executor with several threads.
    """
    if signed not in (True, False, "auto"):
        raise invalid_argument("signed", "True, False or 'auto'", signed)
    tried = (False, True) if signed == "auto" else (bool(signed),)
    searches = list(run(Search, (data, *halves), rng.spawn(3)))
    optima = list(run(_maximise, searches * len(tried), np.repeat(tried, 3).tolist()))
    found = []
    for best, *fits in (optima[k : k + 3] for k in range(0, len(optima), 3)):
        held_out = evaluate(halves, fits)
        power = signal_power(data, fits, held_out.covariance, rng)
        found.append(LearnedWeights(best, fits, held_out, power))
    if signed != "auto":
        return found[0]
    plain, with_signs = found
    return with_signs if with_signs.snr > SIGNS_MUST_GAIN * plain.snr else plain


def _maximise(search: Search, signed: bool) -> Optimum:
    return search.maximise(signed=signed)


def copies_apart(data: Sequences, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the number of the group of copies that each sequence belongs to.

    Sequences are copies if they are so after pooling with random weights.
    """
    return copy_groups(data.pool(rng.standard_normal(data.shape[1])))


def halves_of(
    groups: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of two halves of about the same size that have no group in common."""
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]  # large groups first
    half_of = np.empty(len(sizes), dtype=np.intp)
    filled = np.zeros(2)
    for group in order:
        half = int(np.argmin(filled)) if filled[0] != filled[1] else int(rng.integers(2))
        half_of[group] = half
        filled[half] += sizes[group]
    return np.flatnonzero(half_of[groups] == 0), np.flatnonzero(half_of[groups] == 1)


def mean_interval(
    values: Floats, groups: NDArray[np.intp], confidence: float
) -> tuple[float, float]:
    """Return a confidence interval of the mean of cross-fitted values, in groups of copies.

    mean ± t √(1 + ρ) s, with s the standard error between groups, ρ = 0.2 for the dependence of
    the two halves (each half is the other's training set), and t Student's quantile with the
    degrees of freedom of one half. Bootstrap intervals of so few and so skewed values are too
    narrow.

    Examples
    --------
    Copies do not count:

    >>> x = np.array([1.0, 2.0, 4.0, 5.0, 3.0, 6.0])
    >>> once = mean_interval(x, np.arange(6), 0.95)
    >>> np.allclose(mean_interval(np.repeat(x, 3), np.repeat(np.arange(6), 3), 0.95), once)
    True
    """
    from scipy.special import stdtrit

    sizes = np.bincount(groups)
    sizes, kept = sizes[sizes > 0], np.unique(groups, return_inverse=True)[1]
    G, mean = len(sizes), float(values.mean())
    deviations = np.bincount(kept, weights=values - mean)
    error = np.sqrt(np.sum(deviations**2) * G / max(G - 1, 1)) / len(values)
    quantile = stdtrit(max(G // 2 - 1, 1), (1 + confidence) / 2)
    reach = float(quantile * np.sqrt(1 + HALVES_IN_COMMON) * error)
    return mean - reach, mean + reach
