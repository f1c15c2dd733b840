r"""Cross-fitting: how good weights are on sequences that were not used to learn them.

With weights w and a direction u from one half of the sequences, each sequence of the other half
gives j_i = Σ_{l≠l'} w_l w_l' p_il p_il' with p_il = T_il·u. Given the first half these are
independent numbers with mean (a·u)² (wᵀRw − wᵀw), whatever w and u are.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, invalid_argument
from attnlaw.data.sequences import Sequences
from attnlaw.estimators.alternation import (
    TRACE_NUMBERS,
    Optimum,
    Search,
    cross_position_covariance,
    hollow,
)
from attnlaw.estimators.rows import copy_groups

__all__ = [
    "HeldOut",
    "Judged",
    "Power",
    "copies_apart",
    "halves_of",
    "judge",
    "learn_and_judge",
    "mean_interval",
    "signal_power",
]

SIGNS_MUST_GAIN = 1.05  # factor of the SNR for which negative weights are accepted
HALVES_IN_COMMON = 0.2  # correlation of what two halves say that learn from each other
AGREEMENT = 16.0  # d (u·u')² is about 1 for directions that have nothing in common


class HeldOut(NamedTuple):
    """What weights and directions from each half show on the other half."""

    covariance: Floats  # Γ (L, L): mean of the two hollow matrices
    fitted: Floats  # j_i (N,) of the fitted weights
    uniform: Floats  # j_i (N,) of uniform weights along the same directions


def judge(halves: list[Sequences], fits: list[Optimum]) -> HeldOut:
    """Judge the fit to each half by the other half."""
    parts = [_judge_half(halves[1 - k], fits[k]) for k in (0, 1)]
    return HeldOut(
        (parts[0].covariance + parts[1].covariance) / 2,
        np.concatenate([part.fitted for part in parts]),
        np.concatenate([part.uniform for part in parts]),
    )


def _judge_half(data: Sequences, fit: Optimum) -> HeldOut:
    N, L, _ = data.shape
    u = fit.direction[:, None]
    P = data.project(u)[0].astype(np.float64)
    share = N / np.maximum(data.pair_counts, 1)  # 1 where nothing is missing

    def each(w: Floats) -> Floats:
        A = hollow(np.outer(w, w) * share)
        return np.asarray(np.einsum("il,il->i", P @ A, P))

    gamma = cross_position_covariance(data, u)[0]
    return HeldOut(gamma, each(fit.weights), each(np.full(L, L**-0.5)))


class Power(NamedTuple):
    """The signal's part in the variance of a token along a direction."""

    value: float
    is_seen: bool  # whether the directions of the two halves agree


def signal_power(
    data: Sequences, fits: list[Optimum], covariance: Floats, rng: np.random.Generator
) -> Power:
    """Return the signal's part in the variance of a token, the unit in which its SNR is 1.

    (a·u)(a·u') = uᵀΣu' − σ² u·u' with the tokens' covariance Σ and σ² = tr Σ/d, for directions
    from two halves, whose errors are independent. At least half of what makes I + Γ/power a
    correlation matrix; and the whole variance when the directions do not agree, so that what
    rests on nothing has an SNR near 1.
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


class Judged(NamedTuple):
    """Weights learned from all sequences, and what fits to each half show on the other half."""

    best: Optimum  # from all sequences
    fits: list[Optimum]  # from each half
    held_out: HeldOut
    power: Power

    @property
    def snr(self) -> float:
        """SNR of the fitted weights on sequences held out."""
        return 1 + float(self.held_out.fitted.mean()) / self.power.value


def learn_and_judge(
    data: Sequences,
    halves: list[Sequences],
    rng: np.random.Generator,
    *,
    signed: bool | str = "auto",
    run: Callable[..., Iterable[Any]] = map,
) -> Judged:
    """Learn weights and a direction from all sequences, and judge them by their two halves.

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
        held_out = judge(halves, fits)
        power = signal_power(data, fits, held_out.covariance, rng)
        found.append(Judged(best, fits, held_out, power))
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

    mean ± t √(1 + ρ) s, with s the standard error between groups, ρ = 0.2 for what the two halves
    have in common (each half is the other's training set), and t Student's quantile with the
    degrees of freedom of one half. A bootstrap of so few and so skewed values is too narrow.

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
