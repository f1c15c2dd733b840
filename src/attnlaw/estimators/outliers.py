r"""Which eigenvalues of a sample covariance are more than noise.

Derived in docs/theory/signal-components.md, "Fluctuations of the edge".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, choice, count, invalid_argument, real, real_array
from attnlaw.estimators.edge_test import (
    SPACINGS,
    EdgeTest,
    Sizes,
    spacing_edge,
    spacing_p_value,
)
from attnlaw.laws import Law, MarchenkoPastur
from attnlaw.results import Record

__all__ = ["NOISES", "OutlierTest", "outlier_test"]

NOISES = ("auto", "tokens", "independent", "spectrum", "general", "long-tailed")
EXPONENTS = {"general": 0.5, "long-tailed": 1.0}  # of λ in the spacings, see `spacing_p_value`
SHOWN_BEYOND = 4  # p-values reported after the first that is not significant
LOOK_AHEAD = 10  # eigenvalues behind which a close group of outliers may end
TRACY_WIDOM_95 = 0.98  # quantile
CLEAR_OUTLIER = 8.0  # units beyond the edge, left out when the bulk is compared with its law
LEAST_GAP, GAP_SLOPE = -0.35, 2.25  # gap −.35 − 2.25 δ of a bulk that tokens are taken to explain
LONG_TAIL = (
    "the bulk has a longer upper tail than equally frequent tokens make, so that each eigenvalue "
    "was compared with those below it; if tokens differ in frequency, the frequent ones can be "
    "such components: pass token_frequencies."
)


@dataclass(frozen=True, kw_only=True)
class OutlierTest(Record):
    """Eigenvalues of a sample covariance, and which of them noise cannot explain.

    Arrays about outliers have one entry for each of the `n_signals` significant ones.
    """

    eigenvalues: Floats  # λ, all of them, falling
    n_signals: int  # leading eigenvalues that are significant
    p_values: Floats  # of the leading eigenvalues, until a few beyond the last significant one
    bulk_edge: float  # λ₊: of the noise, in the units of the eigenvalues
    noise_level: float  # mean eigenvalue of the noise: κσ²
    noise: str  # null that was used, one of `NOISES` but "auto"
    vocab_ratio: float  # δ = d/V: as given, or as the bulk shows it; 0 for independent rows
    sample_ratio: float  # γ = d/N
    misfit: float  # KS distance of the bulk from the null law; NaN where there is no such law
    population_eigenvalues: Floats  # ℓ: where each outlier lies in the population
    shrunken_eigenvalues: Floats  # what the sample eigenvector really holds of the population
    squared_overlaps: (
        Floats  # predicted, of the sample eigenvector with the direction of the spike
    )
    spike_ratios: Floats  # ρ: strength of the spike over the noise level
    spike_ratio_errors: Floats  # standard errors of ρ, from the sampling of N rows
    notes: tuple[str, ...] = ()  # what the answer rests on if the null was chosen from the data


def outlier_test(
    eigenvalues: ArrayLike,
    *,
    n_samples: int,
    noise: str = "auto",
    n_tokens: int | None = None,
    token_frequencies: ArrayLike | None = None,
    noise_spectrum: ArrayLike | None = None,
    centred: bool = True,
    level: float = 0.05,
    max_signals: int | None = None,
) -> OutlierTest:
    r"""Test the leading eigenvalues of a sample covariance against the noise they come from.

    Parameters
    ----------
    eigenvalues : array of shape (d,)
        All eigenvalues of S = (1/N) Σ x xᵀ, zeros included, in any order.
    n_samples : int
        N.
    noise : "auto", "tokens", "independent", "spectrum", "general" or "long-tailed"
        What noise alone would look like:

        - "tokens": pooled tokens from a table, MP_δ ⊠ MP_γ;
        - "independent": independent rows of white noise, MP_γ;
        - "spectrum": rows whose covariance has the spectrum `noise_spectrum`, H ⊠ MP_γ;
        - "general": any spectrum with a regular edge; each eigenvalue is compared with the
          spacings of those below it;
        - "long-tailed": the same for spectra without a sharp edge, with less power;
        - "auto": what the other arguments say; otherwise "tokens" with V from the bulk, which
          includes white noise, unless the upper tail of the bulk is longer than tokens make it:
          then "long-tailed", and `notes` says so.
    n_tokens : int, optional
        Number V of tokens in the table. Left out, it is read off the second moment of the bulk,
        m₂/m₁² = 1 + δ + γ, which at δ=.5, γ=.4 finds V to within ±9 tokens; eigenvalues beyond
        the 95 % point of the largest are cut there for that purpose.
    token_frequencies : array of shape (V,), optional
        How often each token occurs, in any units, if they are not alike.
    noise_spectrum : array, optional
        Eigenvalues of the noise covariance, up to a factor.
    centred : bool
        Whether means were subtracted, which takes one degree of freedom from N and V.
    level : float
        Probability of a single false outlier, between 0 and 1.
    max_signals : int, optional
        Most outliers to look for; half of the smaller size by default.

    Returns
    -------
    OutlierTest

    Notes
    -----
    Derived in docs/theory/signal-components.md, "Fluctuations of the edge".

    One eigenvalue after the other is tested until the first that is not significant, the noise
    level κ̂ being taken from the trace of the rest. With the null's edge λ₊ and the unit s of its
    fluctuations (see `attnlaw.estimators.nulls`), (λ/κ̂ − λ₊)/s has the Tracy–Widom law.

    Examples
    --------
    White noise of 200 samples in 100 dimensions has eigenvalues up to (1+√½)² ≈ 2.9:

    >>> rng = np.random.default_rng(1)
    >>> X = rng.standard_normal((200, 100))
    >>> X[:, 0] *= 3
    >>> found = outlier_test(np.linalg.eigvalsh(X.T @ X / 200), n_samples=200, centred=False)
    >>> found.noise, found.n_signals, round(found.vocab_ratio, 2)
    ('tokens', 1, 0.0)
    """
    values = np.sort(real_array("eigenvalues", eigenvalues, ndim=1))[::-1]
    d, N = len(values), count("n_samples", n_samples, at_least=2)
    if d == 0 or values[0] <= 0 or values[-1] < -1e-6 * values[0]:
        raise invalid_argument("eigenvalues", "not negative, and not all zero", values.tolist())
    values = np.maximum(values, 0.0)
    level = float(np.asarray(real("level", level, above=0, below=1)))
    rank = min(d, N - centred)
    most = max(1, (rank - 1) // 2)
    if max_signals is not None:
        most = min(most, count("max_signals", max_signals, at_least=0))
    null = _Nulls(values, N, centred, n_tokens, token_frequencies, noise_spectrum)
    kind = null.chosen(choice("noise", noise, NOISES))
    if kind in EXPONENTS:
        return _by_spacings(values, N, rank, level, most, kind, chosen=noise == "auto")

    p_values: list[float] = []
    n_signals, running = 0, True
    while len(p_values) <= most and (running or len(p_values) < n_signals + 1 + SHOWN_BEYOND):
        k = len(p_values)
        if k >= rank - 1:
            break
        test, noise_level = null.test(kind, k)
        p = test.p_value(values[k] / noise_level)
        p_values.append(max(p, *p_values[-1:]) if p_values else p)
        running = running and p <= level and k < most
        n_signals += running
    test, noise_level = null.test(kind, n_signals)
    outliers = [test.outlier(float(v) / noise_level) for v in values[:n_signals]]
    scaled = noise_level * np.array([o[:2] for o in outliers]).reshape(-1, 2)
    return OutlierTest(
        eigenvalues=values,
        n_signals=n_signals,
        p_values=np.array(p_values),
        bulk_edge=noise_level * test.edge,
        noise_level=noise_level,
        noise=kind,
        vocab_ratio=d / test.sizes.n_tokens,
        sample_ratio=d / N,
        misfit=null.misfit(kind, n_signals),
        population_eigenvalues=scaled[:, 0],
        shrunken_eigenvalues=scaled[:, 1],
        squared_overlaps=np.array([o.squared_overlap for o in outliers]),
        spike_ratios=np.array([o.strength for o in outliers]),
        spike_ratio_errors=np.array([o.slope for o in outliers])
        * values[:n_signals]
        / noise_level
        * np.sqrt(2 / N),
    )


class _Nulls:
    """The nulls that can be had from what is known, at every number of outliers."""

    def __init__(
        self,
        values: Floats,
        n_samples: int,
        centred: bool,
        n_tokens: int | None,
        token_frequencies: ArrayLike | None,
        noise_spectrum: ArrayLike | None,
    ) -> None:
        self.values, self.centred = values, centred
        self.n_samples = n_samples - centred
        self.frequencies: Any = (1.0,)
        self.spectrum: Any = None
        if token_frequencies is not None:
            self.frequencies = _positive("token_frequencies", token_frequencies)
            if n_tokens is None:
                n_tokens = len(self.frequencies)
        if noise_spectrum is not None:
            self.spectrum = _positive("noise_spectrum", noise_spectrum)
        self.n_tokens = None if n_tokens is None else count("n_tokens", n_tokens, at_least=2)

    def chosen(self, noise: str) -> str:
        """Return the null asked for; for "auto", the narrowest that the bulk does not contradict.

        "independent" is never taken: "tokens" holds it as V → ∞, and the difference between the
        two decides about the edge long before it is seen in the bulk.
        """
        if noise == "spectrum" and self.spectrum is None:
            raise invalid_argument("noise_spectrum", "given when noise='spectrum'", None)
        if noise != "auto":
            return noise
        if self.spectrum is not None:
            return "spectrum"
        if self.n_tokens is not None or min(len(self.values), self.n_samples) < 2 * SPACINGS:
            return "tokens"
        return "tokens" if self._fits_tokens() else "long-tailed"

    def test(self, kind: str, n_outliers: int) -> tuple[EdgeTest, float]:
        """Return the test of the next eigenvalue, and the noise level, after so many outliers."""
        d = len(self.values) - n_outliers
        values = self.values
        if kind == "independent":
            test = EdgeTest(Sizes(d, self.n_samples))
        elif kind == "spectrum":
            test = EdgeTest(Sizes(d, self.n_samples), spectrum=tuple(self.spectrum))
        elif self.n_tokens:
            sizes = Sizes(d, self.n_samples, self.n_tokens - self.centred)
            test = EdgeTest(sizes, frequencies=tuple(self.frequencies))
        else:
            test, bulk = self._winsorised(values[n_outliers:])
            values = np.concatenate([values[:n_outliers], bulk])
        return test, test.noise_level(values, n_outliers)

    def _winsorised(self, bulk: Floats) -> tuple[EdgeTest, Floats]:
        """Return the test with V from the bulk, its leading eigenvalues cut at their expectation.

        A spike of any strength then moves V̂ by no more than an eigenvalue at the edge does.
        """
        movable = max(len(bulk) // 4, 1)
        least = bulk[min(movable, len(bulk) - 1)]
        cut = bulk
        for _ in range(12):
            test = EdgeTest(Sizes(len(bulk), self.n_samples, self._tokens_in(cut)))
            cap = float(cut.mean()) * (test.edge + TRACY_WIDOM_95 * test.unit)
            before, cut = cut, np.minimum(bulk, max(cap, least))
            if abs(before[0] - cut[0]) <= 1e-4 * cut[0]:
                break
        return test, cut

    def _tokens_in(self, bulk: Floats) -> float:
        """Return V from m₂/m₁² = 1 + (d+1)/N + (d+1)/V, exact in the mean for Gaussian noise."""
        d = len(bulk)
        excess = float(np.mean(bulk**2) / np.mean(bulk) ** 2 - 1 - (d + 1) / self.n_samples)
        return (d + 1) / max(excess, 1e-3 * (d + 1) / self.n_samples)

    def _fits_tokens(self) -> bool:
        r"""Return whether the bulk has no longer an upper tail than equally frequent tokens have.

        The statistic is R = d [∫ dF(λ)/(λ+.3) − G(−.3)], between the bulk and the tokens' law of
        the same first two moments, and a longer tail makes it negative. Its mean on tokens is 0
        to 0.5 and its spread about 0.2 + 1.2 δ at any size; a spike takes up to 1 from it.
        """
        from scipy.optimize import brentq

        n_clear, most = 0, len(self.values) // 4
        while n_clear < most:
            rest = self.values[n_clear + 1 :]
            test = EdgeTest(Sizes(len(rest), self.n_samples, self._tokens_in(rest)))
            if self.values[n_clear] <= rest.mean() * (test.edge + CLEAR_OUTLIER * test.unit):
                break
            n_clear += 1
        test, bulk = self._winsorised(self.values[n_clear:])
        d, z = len(bulk), 0.3
        delta, gamma = d / test.sizes.n_tokens, d / self.n_samples

        def transform(nu: float) -> float:
            """ν ∫ MP_δ(dx)/(x+ν)."""
            a = nu + 1 - delta
            return float(-a + np.sqrt(a * a + 4 * delta * nu)) / (2 * delta)

        # MP_δ ⊠ MP_γ at −z is MP_δ at −ν:  z = ν (1 − γ (1 − νg(ν)))
        nu = brentq(lambda q: q * (1 - gamma * (1 - transform(q))) - z, z, z + 3 * gamma + 1)
        gap = d * (np.mean(1 / (bulk / bulk.mean() + z)) - transform(nu) / z)
        return bool(gap >= LEAST_GAP - GAP_SLOPE * delta)

    def misfit(self, kind: str, n_outliers: int) -> float:
        """Return the KS distance between the bulk and its law."""
        if kind == "spectrum" or len(self.frequencies) > 1:
            return float("nan")
        test, level = self.test(kind, n_outliers)
        sizes = test.sizes
        law: Law = MarchenkoPastur(sizes.dimension / sizes.n_samples)
        if kind == "tokens":
            law = MarchenkoPastur(sizes.dimension / sizes.n_tokens) @ law
        bulk = np.sort(self.values[n_outliers:]) / level
        cdf = np.asarray(law.cdf(bulk))
        below = np.arange(len(bulk)) / len(bulk)
        return float(max(np.max(cdf - below), np.max(below + 1 / len(bulk) - cdf)))


def _positive(argument: str, value: ArrayLike) -> Floats:
    array = real_array(argument, value, ndim=1)
    if array.size == 0 or array.min() < 0 or array.max() == 0:
        raise invalid_argument(argument, "not negative, and not all zero", array)
    return array


def _by_spacings(
    values: Floats, N: int, rank: int, level: float, most: int, kind: str, *, chosen: bool
) -> OutlierTest:
    """Compare each eigenvalue with the spacings of those that follow it."""
    d, exponent = len(values), EXPONENTS[kind]
    if rank < SPACINGS + 2:
        words = f"at least {SPACINGS + 2} that are not zero when noise={kind!r}"
        raise invalid_argument("eigenvalues", words, rank)
    most = min(most, rank - SPACINGS - 1)
    last = min(most + SHOWN_BEYOND + LOOK_AHEAD, rank - SPACINGS)
    windows = [values[k : k + SPACINGS + 1] for k in range(last)]
    alone = np.array([spacing_p_value(window, exponent) for window in windows])
    together = np.append(alone, np.ones(LOOK_AHEAD))
    later = [LOOK_AHEAD * together[k + 1 : k + LOOK_AHEAD].min() for k in range(last)]
    each = np.minimum(alone, later)  # a close group of outliers is seen by its last member
    n_signals = int(np.argmax(np.append(each[:most] > level, True)))
    p_values = np.maximum.accumulate(each[: n_signals + 1 + SHOWN_BEYOND])
    bulk, signals = values[n_signals:], values[:n_signals]
    gamma, noise_level = d / N, float(bulk.mean())
    # y = ∫ x ν(dx)/(λ−x) and its derivative, over the bulk as it is
    y = np.array([np.sum(bulk / (v - bulk)) for v in signals]) / d
    slope = -np.array([np.sum(bulk / (v - bulk) ** 2) for v in signals]) / d
    gain = 1 + gamma * y
    population = signals / gain
    derivative = 1 / gain - gamma * signals * slope / gain**2  # dℓ/dλ
    return OutlierTest(
        eigenvalues=values,
        n_signals=n_signals,
        p_values=p_values,
        bulk_edge=spacing_edge(values[n_signals : n_signals + SPACINGS + 1], exponent),
        noise_level=noise_level,
        noise=kind,
        vocab_ratio=0.0,
        sample_ratio=gamma,
        misfit=float("nan"),
        population_eigenvalues=population,
        shrunken_eigenvalues=signals / gain**2,
        squared_overlaps=np.clip(1 / (gain * derivative), 0, 1),
        spike_ratios=population / noise_level - 1,
        spike_ratio_errors=derivative * signals / noise_level * np.sqrt(2 / N),
        notes=(LONG_TAIL,) if chosen else (),
    )
