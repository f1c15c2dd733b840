"""Heads whose queries and keys are random: the law they follow, and how far they stray from it.

A head is compared with random heads of its own size, width and temperature. Temperatures lie on a
fixed grid, so that all heads of a model share what is computed there; between the points of the
grid laws are interpolated.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from math import exp, expm1, log, pi
from typing import NamedTuple

import numpy as np

from attnlaw import theory
from attnlaw._checks import Floats, RegimeWarning
from attnlaw.diagnostics.heads.measures import (
    ScoreStatistics,
    centred_spectrum,
    positional_shares,
    score_spread,
    score_statistics,
)
from attnlaw.models import SelfAttention
from attnlaw.simulation import attention_matrix, sample_queries_and_keys
from attnlaw.theory.attention import score_energy
from attnlaw.theory.attention.quadrature import norm_rule
from attnlaw.theory.attention.regime import LEAST_DIMENSION, normaliser_variance

__all__ = ["Measured", "RandomHeads", "Statistics", "gumbel_p_value", "gumbel_quantile"]

_HIGHEST = 60.0  # beyond, rows are one-hot whatever the temperature
_STEP = log(1.2)  # between inverse temperatures of the grid, in the logarithm
_WARMEST, _COLDEST = round(log(0.02) / _STEP), round(log(_HIGHEST) / _STEP)
_SCORE_DRAWS = 96
_EULER, _GUMBEL_DEVIATION = 0.5772156649015329, pi / 6**0.5


class Statistics(NamedTuple):
    """How far a head is from the law of random ones; all grow with structure."""

    distance: float  # sup |F_seen − F| over singular values
    structure: float  # Σ(σ − σ')²/Σ(σ² + σ'²), σ seen and σ' predicted, both in order
    top: float  # largest squared singular value over the largest predicted
    positional_pattern: float  # largest share at a pattern, over uniform attention's
    scores: float  # as structure, for the singular values of the scores
    max_row_correlation: float  # −log(1 − r), r the largest correlation of two rows of scores


class Measured(NamedTuple):
    """What is measured on a map to be compared with random heads."""

    spectrum: Floats  # squared singular values of the centred map, ascending
    inverse_temperature: float  # β, estimated
    positional_pattern: float
    scores: ScoreStatistics | None

    @staticmethod
    def of(attention: Floats, *, causal: bool) -> "Measured":
        """Measure a map."""
        return Measured(
            centred_spectrum(attention, causal=causal),
            min(score_spread(attention, causal=causal).inverse_temperature, _HIGHEST),
            float(positional_shares(attention, causal=causal)[1].max()),
            score_statistics(attention, causal=causal),
        )


def gumbel_p_value(value: float, mean: float, deviation: float) -> float:
    """Chance of at least `value` under Gumbel's law with this mean and standard deviation.

    Examples
    --------
    >>> round(gumbel_p_value(gumbel_quantile(0.0025, 1.0, 2.0), 1.0, 2.0), 12)
    0.0025
    """
    z = _GUMBEL_DEVIATION * (value - mean) / max(deviation, 1e-12) + _EULER
    return -expm1(-exp(-z)) if z > -5 else 1.0


def gumbel_quantile(p: float, mean: float, deviation: float) -> float:
    """Value that Gumbel's law with this mean and standard deviation exceeds with chance p."""
    return mean + deviation * (-log(-np.log1p(-p)) - _EULER) / _GUMBEL_DEVIATION


@dataclass(frozen=True, kw_only=True)
class RandomHeads:
    """Random heads of one size: n tokens, width d_k, with a causal mask or without.

    Examples
    --------
    >>> heads = RandomHeads(n_tokens=40, head_dimension=32, causal=False)
    >>> heads.follows_theory(0.5), heads.follows_theory(3.0)
    (True, False)
    """

    n_tokens: int  # n
    head_dimension: int  # d_k
    causal: bool

    def follows_theory(self, beta: float) -> bool:
        """Whether theory has a law for them: no mask, a width of 10, and a normaliser that holds.

        That is where `law` gives no `RegimeWarning`; elsewhere the law is the mean of
        simulated heads.
        """
        if self.causal or self.head_dimension < LEAST_DIMENSION:
            return False
        return normaliser_variance(self._model(beta)) <= 0.1

    def predicted(self, beta: float, *, theory: bool | None = None) -> Floats:
        """Singular values of a head by the law at the quantiles (k − ½)/n, ascending.

        By theory, or as the mean of simulated heads, whatever `follows_theory` says by default.
        """
        theory = self.follows_theory(beta) if theory is None else theory
        at = _theory_at if theory else _mean_at
        values = sum(weight * at(self, k) for k, weight in _stencil(beta))
        values = np.maximum.accumulate(np.maximum(values, 0.0))
        return np.asarray(values * _scale(beta, self.n_tokens))

    def compare(
        self, head: Measured, *, theory: bool | None = None, law: Floats | None = None
    ) -> Statistics:
        """Measure how far a head is from the law at its inverse temperature, or from `law`."""
        n = self.n_tokens
        if law is None:
            law = self.predicted(head.inverse_temperature, theory=theory)
        seen = np.sqrt(head.spectrum)
        F = np.interp(seen, law, (np.arange(n) + 0.5) / n, left=0.0, right=1.0)
        steps = np.arange(n + 1) / n
        return Statistics(
            distance=float(max(np.abs(steps[1:] - F).max(), np.abs(steps[:-1] - F).max())),
            structure=_difference(seen, law),
            top=float(head.spectrum[-1]) / max(float(law[-1]) ** 2, 1e-300),
            positional_pattern=head.positional_pattern,
            **_compare_scores(self, head.scores),
        )

    def p_values(self, seen: Statistics, beta: float) -> Statistics:
        """Chance that a random head goes as far, for each statistic by itself.

        Notes
        -----
        Logarithms of the statistics of simulated heads, each compared with the law at *its own*
        estimated β as the head in question was, give a mean and a standard deviation. Gumbel's
        law with these has a heavier tail than any of the four: p-values err upwards.
        """
        logs = np.log(np.maximum(seen, 1e-300))  # nothing seen is nothing unusual
        pairs = zip(logs, *self._moments(beta), strict=True)
        found = Statistics(*(gumbel_p_value(x, mean, sd) for x, mean, sd in pairs))
        top = seen.top * float(self.predicted(beta)[-1]) ** 2
        return found._replace(top=min(1.0, found.top + self.entry_chance(top, beta)))

    def limits(self, p: float, beta: float) -> Statistics:
        """Value of each statistic that random heads exceed with chance p."""
        pairs = zip(*self._moments(beta), strict=True)
        found = Statistics(*(exp(gumbel_quantile(p, mean, sd)) for mean, sd in pairs))
        edge = float(self.predicted(beta)[-1]) ** 2
        ratios = np.geomspace(found.top, 1e3 * found.top, 60)
        rare = [ratio for ratio in ratios if self.entry_chance(ratio * edge, beta) <= p]
        return found._replace(top=float(rare[0]) if rare else float(ratios[-1]))

    def entry_chance(self, top: float, beta: float) -> float:
        """Chance that a single entry of a random head makes a squared singular value of `top`.

        Notes
        -----
        Among a few dozen simulated heads such an entry may never occur. An entry e = f/√n over
        noise of energy θ₁ makes x = (e² + θ₁)²/e²; f = e^{βrt−β²r²/2} − 1 with r the norm of a
        query over √d_k and t Gaussian, n² times. Without a mask only, and below saturation.
        """
        n, theta = self.n_tokens, score_energy(min(beta, 5.0))
        if self.causal or beta > 3 or self.head_dimension < 3:
            return 0.0
        if top <= 4 * theta:
            return 1.0
        from scipy.special import ndtr

        square = 0.5 * (top - 2 * theta + ((top - 2 * theta) ** 2 - 4 * theta**2) ** 0.5)
        r, weights = _query_norms(self.head_dimension, n)
        z = (log(1 + (n * square) ** 0.5) + 0.5 * (beta * r) ** 2) / (beta * r)
        return float(-np.expm1(-(n**2) * float(weights @ ndtr(-z))))

    def _moments(self, beta: float) -> tuple[Floats, Floats]:
        theory, low = self.follows_theory(beta), _below(beta)
        t = float(np.clip(log(max(beta, 1e-9)) / _STEP - low, 0.0, 1.0))
        a, b = _moments_at(self, low, theory), _moments_at(self, low + 1, theory)
        return (1 - t) * a[0] + t * b[0], (1 - t) * a[1] + t * b[1]

    def _model(self, beta: float) -> SelfAttention:
        return SelfAttention(
            n_tokens=self.n_tokens, head_dimension=self.head_dimension, inverse_temperature=beta
        )


_query_norms = lru_cache(maxsize=64)(lambda d, n: norm_rule(d, 12, n))


def _n_draws(n_tokens: int) -> int:
    """Return how many random heads are simulated at each temperature of the grid."""
    return 48 if n_tokens <= 256 else 32 if n_tokens <= 512 else 24


def _scale(beta: float, n: int) -> float:
    """Typical singular value, √(e^{β²} − 1) but below √n: what is interpolated varies little."""
    energy = score_energy(min(beta, 20.0))
    return float((energy / (1 + energy / n)) ** 0.5)


def _below(beta: float) -> int:
    """Last point of the grid at or below β, with one above it."""
    return int(np.clip(np.floor(log(max(beta, 1e-9)) / _STEP), _WARMEST, _COLDEST - 1))


def _stencil(beta: float) -> list[tuple[int, float]]:
    """Four points of the grid around β with Lagrange's weights; beyond its ends, the last."""
    x = float(np.clip(log(max(beta, 1e-9)) / _STEP, _WARMEST, _COLDEST))
    first = min(max(_below(beta) - 1, _WARMEST), _COLDEST - 3)
    points = range(first, first + 4)
    return [(k, float(np.prod([(x - m) / (k - m) for m in points if m != k]))) for k in points]


def _difference(seen: Floats, law: Floats) -> float:
    """Σ(σ − σ')²/Σ(σ² + σ'²): 0 for the same numbers, 1 for nothing in common."""
    return float(np.sum((seen - law) ** 2) / max(float(seen @ seen + law @ law), 1e-300))


def _random_head(heads: RandomHeads, beta: float, rng: np.random.Generator) -> Floats:
    Q, K = sample_queries_and_keys(heads._model(beta), rng)
    scores = Q @ K.T / heads.head_dimension**0.5
    return attention_matrix(scores, beta, causal=heads.causal)


def _generator(heads: RandomHeads, place: int) -> np.random.Generator:
    return np.random.default_rng([heads.n_tokens, heads.head_dimension, heads.causal, place])


@lru_cache(maxsize=1024)
def _draws_at(heads: RandomHeads, k: int) -> tuple[Measured, ...]:
    """Random heads at one point of the grid."""
    beta, rng = exp(k * _STEP), _generator(heads, k - _WARMEST + 1)
    measured = []
    for _ in range(_n_draws(heads.n_tokens)):
        A = _random_head(heads, beta, rng)
        spread = score_spread(A, causal=heads.causal).inverse_temperature
        pattern = float(positional_shares(A, causal=heads.causal)[1].max())
        spectrum = centred_spectrum(A, causal=heads.causal)
        measured.append(Measured(spectrum, min(spread, _HIGHEST), pattern, None))
    return tuple(measured)


@lru_cache(maxsize=64)
def _scores_of(heads: RandomHeads) -> tuple[Floats, Floats, Floats]:
    """Singular values of random scores, and moments of the two statistics of scores."""
    rng = _generator(heads, 0)
    drawn = [
        score_statistics(_random_head(heads, 1.0, rng), causal=heads.causal)
        for _ in range(_SCORE_DRAWS if heads.n_tokens <= 512 else _SCORE_DRAWS // 2)
    ]
    seen = [draw for draw in drawn if draw is not None]
    law = np.mean([draw.singular_values for draw in seen], axis=0)
    others = [law + (law - draw.singular_values) / (len(seen) - 1) for draw in seen]
    logs = np.log(
        [
            [_difference(draw.singular_values, other), draw.max_row_correlation]
            for draw, other in zip(seen, others, strict=True)
        ]
    )
    return law, logs.mean(axis=0), _deviation(logs)


def _compare_scores(heads: RandomHeads, seen: ScoreStatistics | None) -> dict[str, float]:
    if seen is None:
        return {"scores": 0.0, "max_row_correlation": 0.0}
    return {
        "scores": _difference(seen.singular_values, _scores_of(heads)[0]),
        "max_row_correlation": seen.max_row_correlation,
    }


@lru_cache(maxsize=1024)
def _mean_at(heads: RandomHeads, k: int) -> Floats:
    drawn = [np.sqrt(head.spectrum) for head in _draws_at(heads, k)]
    return np.asarray(np.mean(drawn, axis=0) / _scale(exp(k * _STEP), heads.n_tokens))


@lru_cache(maxsize=1024)
def _theory_at(heads: RandomHeads, k: int) -> Floats:
    n, beta = heads.n_tokens, exp(k * _STEP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)  # just beyond the regime, to interpolate
        law = theory.law(heads._model(beta))
    values = law.quantile((np.arange(n) + 0.5) / n)
    return np.asarray(np.sqrt(np.maximum(values, 0.0)) / _scale(beta, n))


@lru_cache(maxsize=1024)
def _moments_at(heads: RandomHeads, k: int, theory: bool) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the logarithms of `Statistics`."""
    drawn = _draws_at(heads, k)
    seen = [
        heads.compare(head, theory=theory, law=None if theory else _law_without(heads, k, head))[
            :4
        ]
        for head in drawn
    ]
    logs = np.log(np.maximum(seen, 1e-300))
    _, means, deviations = _scores_of(heads)
    return (
        np.concatenate([logs.mean(axis=0), means]),
        np.concatenate([_deviation(logs), deviations]),
    )


def _law_without(heads: RandomHeads, k: int, head: Measured) -> Floats:
    """Law by simulation without one of its heads, as a head that is none of them would see it."""
    beta, n = head.inverse_temperature, heads.n_tokens
    weight = dict(_stencil(beta)).get(k, 0.0) * _scale(beta, n) / (_n_draws(n) - 1)
    own = np.sqrt(head.spectrum) / _scale(exp(k * _STEP), n)
    law = heads.predicted(beta, theory=False) + weight * (_mean_at(heads, k) - own)
    return np.asarray(np.maximum.accumulate(np.maximum(law, 0.0)))


def _deviation(logs: Floats) -> Floats:
    """Return the standard deviation over draws, with room for its own error when they are few.

    By 1 + 3/B for B draws, about the ratio of Student's to Gauss's quantile at the levels of use.
    """
    return np.asarray(logs.std(axis=0, ddof=1) * (1 + 3 / len(logs)))
