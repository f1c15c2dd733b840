"""Which eigenvalues of a sample covariance are more than noise."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import (
    Floats,
    choice,
    count,
    invalid_argument,
    real_array,
    refuse_extremes,
    scalar,
)
from attnlaw.data.user_arrays import converted
from attnlaw.estimators.edge_test import (
    SPACINGS,
    EdgeTest,
    Sizes,
    spacing_edge,
    spacing_p_value,
    tail_gap,
    winsorised,
)
from attnlaw.laws import Law, MarchenkoPastur, ks_distance
from attnlaw.results import Record

__all__ = ["NOISES", "OutlierTest", "n_dominant", "outlier_test"]

NOISES = ("auto", "tokens", "independent", "spectrum", "general", "long-tailed")
EXPONENTS = {"general": (0.5,), "long-tailed": (1.0, 2.0)}  # of λ in the spacings
SHOWN_BEYOND = 4  # p-values reported after the first that is not significant
LOOK_AHEAD = 10  # eigenvalues behind which a close group of outliers may end
CLEAR_OUTLIER = 15.0  # units beyond the edge, left out when the tail of the bulk is looked at
DOMINANT = 0.2  # share of the trace
LEAST_RANK = 4  # eigenvalues from which V and an outlier can be distinguished
LEAST_BULK = 8  # eigenvalues below the one in question from which a tail is estimated
IN_DOUBT, LONG = 1.0, 3.0  # standard deviations of the tail gap at which the null is widened
MOST_DOUBT = 8.0  # beyond it, the comparison with the eigenvalues below decides alone
WIDENING = 2.5  # units of the edge's fluctuations for each of them
LONG_TAIL = (
    "the bulk may have a longer upper tail than tokens alike make, and the edge was widened for "
    "it; if tokens differ in frequency, the frequent ones can be such components: pass "
    "token_frequencies."
)
TOKENS_ALIKE = (
    "they stand out if all tokens are alike, but not from the eigenvalues below them alone; a "
    "token that is more frequent or longer than the rest can be such a component: pass "
    "token_frequencies."
)
TOO_FEW = "fewer than four eigenvalues above 0 cannot tell unknown V from a signal: pass n_tokens."


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
    squared_overlaps: Floats  # predicted, of the sample eigenvector with the spike's direction
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
    score_kurtosis: ArrayLike | None = None,
    in_doubt: ArrayLike | None = None,
) -> OutlierTest:
    r"""Test the leading eigenvalues of a sample covariance against noise.

    Parameters
    ----------
    eigenvalues : array of shape (d,)
        All eigenvalues of S = (1/N) Σ x xᵀ, zeros included, in any order.
    n_samples : int
        N.
    noise : "auto", "tokens", "independent", "spectrum", "general" or "long-tailed"
        The noise model:

        - "tokens": pooled tokens from a table, MP_δ ⊠ MP_γ;
        - "independent": independent rows of white noise, MP_γ;
        - "spectrum": rows whose covariance has the spectrum `noise_spectrum`, H ⊠ MP_γ;
        - "general": any spectrum with a regular edge; each eigenvalue is compared with the
          spacings of those below it;
        - "long-tailed": the same for spectra without a sharp edge, with less power;
        - "auto": as specified by the other arguments; otherwise "tokens" with V from the bulk,
          which includes white noise. The longer the upper tail of the bulk is in comparison with
          that of tokens, the wider the edge, up to "long-tailed"; `notes` says so.
    n_tokens : int, optional
        Number V of tokens in the table. By default it is estimated from the second moment of the
        bulk, m₂/m₁² = 1 + δ + γ, which at δ=.5, γ=.4 finds V to within ±9 tokens; eigenvalues
        beyond the 95 % point of the largest are cut there for that purpose.
    token_frequencies : array of shape (V,), optional
        How often each token occurs, in any units, if frequencies differ.
    noise_spectrum : array, optional
        Eigenvalues of the noise covariance, up to a factor.
    centred : bool
        Whether means were subtracted, which takes one degree of freedom from N and V.
    level : float
        Probability of a single false outlier, between 0 and 1.
    max_signals : int, optional
        Most outliers to look for; half of the smaller size by default.
    score_kurtosis : array, optional
        Of the rows' scores along the leading eigenvectors, E s⁴/(E s²)², large where few rows
        carry the component; its eigenvalue then fluctuates more.
    in_doubt : array of bool, optional
        Leading components whose rows contradict the noise that "auto" assumes, such as a single
        long token: their eigenvalues must also stand out from those below them.

    Returns
    -------
    OutlierTest

    Notes
    -----
    Derived in docs/theory/signal-components.md, "Fluctuations of the edge".

    One eigenvalue after the other is tested until the first that is not significant, the noise
    level κ̂ being taken from the trace of the rest. With the null's edge λ₊ and the unit s of its
    fluctuations (see `attnlaw.estimators.edge_test`), (λ/κ̂ − λ₊)/s has the Tracy–Widom law.

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
    values, N = _falling(eigenvalues), count("n_samples", n_samples, at_least=2)
    level = scalar("level", level, above=0, below=1)
    d, rank = len(values), min(len(values), N - centred)
    most = max(1, (rank - 1) // 2)
    if max_signals is not None:
        most = min(most, count("max_signals", max_signals, at_least=0))
    nulls = _Nulls(values, N, centred, n_tokens, token_frequencies, noise_spectrum)
    kind = nulls.known(choice("noise", noise, NOISES))
    if kind in EXPONENTS:
        if rank < SPACINGS + 2:
            words = f"at least {SPACINGS + 2} that are not zero when noise={kind!r}"
            raise invalid_argument("eigenvalues", words, rank)
        most = min(most, rank - SPACINGS - 1)
    kurtosis, doubtful = np.full(d, 3.0), np.zeros(d, dtype=bool)
    if score_kurtosis is not None:
        kurtosis[: np.size(score_kurtosis)] = score_kurtosis
    if in_doubt is not None:
        doubtful[: np.size(in_doubt)] = in_doubt
    steps: list[_Step] = []
    n_signals = 0
    # one after the other while each is significant, then a few more whose p-values are shown
    for k in range(min(most + 1, rank - 1)):
        if k > n_signals + SHOWN_BEYOND:
            break
        step = nulls.step(kind, k, kurtosis=float(kurtosis[k]), in_doubt=bool(doubtful[k]))
        steps.append(step)
        if n_signals == k < most and step.p_value <= level:
            n_signals += 1
    last = steps[min(n_signals, len(steps) - 1)] if steps else nulls.step(kind, 0)
    notes = []
    if any(step.widened for step in steps[: n_signals + 1]):
        notes.append(LONG_TAIL)
    elif kind == "auto" and rank < LEAST_RANK:
        notes.append(TOO_FEW)
    elif kind == "auto" and n_signals and nulls.spacing_p_value("long-tailed", 0) > level:
        notes.append(TOKENS_ALIKE)
    return OutlierTest(
        eigenvalues=values,
        n_signals=n_signals,
        p_values=np.maximum.accumulate([step.p_value for step in steps]),
        noise=last.noise,
        sample_ratio=d / N,
        notes=tuple(notes),
        **nulls.described(last, n_signals),
    )


def _falling(eigenvalues: ArrayLike) -> Floats:
    """Return checked eigenvalues, the largest first, without rounding errors below 0."""
    values = converted("eigenvalues", eigenvalues)
    values = np.sort(real_array("eigenvalues", values, ndim=1))[::-1]
    if len(values) == 0 or values[0] <= 0 or values[-1] < -1e-6 * values[0]:
        raise invalid_argument("eigenvalues", "not negative, and not all zero", values.tolist())
    refuse_extremes("eigenvalues", values[0])
    return np.maximum(values, 0.0)


def n_dominant(eigenvalues: Floats, n_samples: int) -> int:
    """Return the number of leading eigenvalues that are clear outliers with a fifth of the trace.

    Examples
    --------
    >>> n_dominant(np.append([9.0, 6.0], np.linspace(1.5, 0.5, 30)), 200)
    2
    """
    if min(len(eigenvalues), n_samples) < 4:
        return 0
    n = _Nulls(eigenvalues, n_samples, False, None, None, None).n_clear
    return n if eigenvalues[:n].sum() > DOMINANT * eigenvalues.sum() else 0


class _Step(NamedTuple):
    """One eigenvalue against its null."""

    p_value: float
    noise: str
    widened: float  # units by which the edge was moved outwards; infinite for "long-tailed"


class _Nulls:
    """The nulls available from what is known, for every number of outliers."""

    def __init__(
        self,
        values: Floats,
        n_samples: int,
        centred: bool,
        n_tokens: int | None,
        token_frequencies: ArrayLike | None,
        noise_spectrum: ArrayLike | None,
    ) -> None:
        self.values, self.centred, self.n_rows = values, centred, n_samples
        self.n_samples = n_samples - centred
        self.frequencies: Any = (1.0,)
        self.spectrum: Any = None
        if token_frequencies is not None:
            self.frequencies = _positive("token_frequencies", token_frequencies)
            n_tokens = len(self.frequencies) if n_tokens is None else n_tokens
        if noise_spectrum is not None:
            self.spectrum = _positive("noise_spectrum", noise_spectrum)
        self.n_tokens = None if n_tokens is None else count("n_tokens", n_tokens, at_least=2)

    def known(self, noise: str) -> str:
        """Return the requested null; for "auto", the one that is known, if any.

        "independent" is never chosen: "tokens" contains it as V → ∞, and the difference between
        the two matters at the edge long before it shows in the bulk.
        """
        if noise == "spectrum" and self.spectrum is None:
            raise invalid_argument("noise_spectrum", "given when noise='spectrum'", None)
        if noise != "auto":
            return noise
        if self.spectrum is not None:
            return "spectrum"
        return "auto" if self.n_tokens is None else "tokens"

    def step(self, kind: str, k: int, *, kurtosis: float = 3.0, in_doubt: bool = False) -> _Step:
        """Compare eigenvalue k with noise, the k before it being outliers."""
        if kind in EXPONENTS:
            return _Step(self.spacing_p_value(kind, k), kind, 0.0)
        if kind == "auto" and min(len(self.values), self.n_samples) - k < LEAST_RANK:
            return _Step(1.0, "tokens", 0.0)
        test, level = self.test(kind, k)
        ratio = float(self.values[k]) / level
        if kind != "auto":
            return _Step(test.p_value(ratio, kurtosis=kurtosis), kind, 0.0)
        gap = self.tail_gap(k)
        widened = WIDENING * float(np.clip(-gap - IN_DOUBT, 0, MOST_DOUBT))
        p = test.p_value(ratio, widened=widened, kurtosis=kurtosis)
        if min(len(self.values) - k, self.n_samples) < 2 * SPACINGS:
            return _Step(p, "tokens", widened)
        if (long := gap < -LONG) or in_doubt:
            p = max(p, self.spacing_p_value("long-tailed", k))
        return _Step(p, "long-tailed" if long else "tokens", np.inf if long else widened)

    def spacing_p_value(self, kind: str, k: int) -> float:
        """Compare eigenvalue k with the spacings of those below it; 1 if these are too few.

        A close group of outliers is seen by its last member.
        """
        rank = min(len(self.values), self.n_samples)
        each = [
            max(spacing_p_value(self.values[j : j + SPACINGS + 1], e) for e in EXPONENTS[kind])
            for j in range(k, min(k + LOOK_AHEAD, rank - SPACINGS))
        ]
        return min([1.0, *each[:1], *(LOOK_AHEAD * p for p in each[1:])])

    def test(self, kind: str, n_outliers: int) -> tuple[EdgeTest, float]:
        """Return the test and the noise level of the next eigenvalue after `n_outliers`."""
        values, d = self.values, len(self.values) - n_outliers
        if kind == "independent":
            test = EdgeTest(Sizes(d, self.n_samples))
        elif kind == "spectrum":
            test = EdgeTest(Sizes(d, self.n_samples), spectrum=tuple(self.spectrum))
        elif self.n_tokens and kind != "auto":
            sizes = Sizes(d, self.n_samples, self.n_tokens - self.centred)
            test = EdgeTest(sizes, frequencies=tuple(self.frequencies))
        else:
            test, bulk = winsorised(values[n_outliers:], self.n_samples)
            values = np.concatenate([values[:n_outliers], bulk])
        return test, test.noise_level(values, n_outliers)

    def tail_gap(self, k: int) -> float:
        """Return `edge_test.tail_gap` of the eigenvalues after k, and after clear outliers."""
        n_left_out = max(k, self.n_clear) + 1
        bulk, n_samples = self.values[n_left_out:], self.n_samples - n_left_out
        if min(len(bulk), n_samples) < LEAST_BULK:
            return 0.0
        test, cut = winsorised(bulk, n_samples)
        return tail_gap(cut, test.sizes)

    @cached_property
    def n_clear(self) -> int:
        """Number of leading eigenvalues far beyond the edge that fits those below them."""
        for k in range(min(len(self.values), self.n_samples) // 4):
            test, bulk = winsorised(self.values[k + 1 :], self.n_samples - k - 1)
            if self.values[k] <= bulk.mean() * (test.edge + CLEAR_OUTLIER * test.unit):
                return k
        return 0

    def described(self, step: _Step, n_outliers: int) -> dict[str, Any]:
        """Return the noise and the outliers under the null that was used."""
        if step.noise in EXPONENTS:
            return self._by_bulk(step.noise, n_outliers)
        known = self.n_tokens is not None or step.noise in ("independent", "spectrum")
        test, level = self.test(step.noise if known else "auto", n_outliers)
        values = self.values[:n_outliers]
        outliers = [test.outlier(float(v) / level) for v in values]
        scaled = level * np.array([o[:2] for o in outliers]).reshape(-1, 2)
        slopes = np.array([o.slope for o in outliers])
        return {
            "bulk_edge": level * (test.edge + step.widened * test.unit),
            "noise_level": level,
            "vocab_ratio": len(self.values) / test.sizes.n_tokens,
            "misfit": self._misfit(test, level, step.noise, n_outliers),
            "population_eigenvalues": scaled[:, 0],
            "shrunken_eigenvalues": scaled[:, 1],
            "squared_overlaps": np.array([o.squared_overlap for o in outliers]),
            "spike_ratios": np.array([o.strength for o in outliers]),
            "spike_ratio_errors": slopes * values / level * np.sqrt(2 / self.n_rows),
        }

    def _by_bulk(self, kind: str, n_outliers: int) -> dict[str, Any]:
        """Return the same with the bulk as it is in place of a law."""
        signals, bulk = self.values[:n_outliers], self.values[n_outliers:]
        d, level = len(self.values), float(bulk.mean())
        gamma = d / self.n_rows
        # y = ∫ x ν(dx)/(λ−x) and its derivative, over the bulk
        y = np.array([np.sum(bulk / (v - bulk)) for v in signals]) / d
        slope = -np.array([np.sum(bulk / (v - bulk) ** 2) for v in signals]) / d
        gain = 1 + gamma * y
        population = signals / gain
        derivative = 1 / gain - gamma * signals * slope / gain**2  # dℓ/dλ
        return {
            "bulk_edge": spacing_edge(bulk[: SPACINGS + 1], EXPONENTS[kind][0]),
            "noise_level": level,
            "vocab_ratio": 0.0,
            "misfit": float("nan"),
            "population_eigenvalues": population,
            "shrunken_eigenvalues": signals / gain**2,
            "squared_overlaps": np.clip(1 / (gain * derivative), 0, 1),
            "spike_ratios": population / level - 1,
            "spike_ratio_errors": derivative * signals / level * np.sqrt(2 / self.n_rows),
        }

    def _misfit(self, test: EdgeTest, level: float, kind: str, n_outliers: int) -> float:
        """Return the KS distance between the bulk and its law."""
        if kind == "spectrum" or len(self.frequencies) > 1:
            return float("nan")
        law: Law = MarchenkoPastur(test.sizes.dimension / test.sizes.n_samples)
        if kind == "tokens":
            law = MarchenkoPastur(test.sizes.dimension / test.sizes.n_tokens) @ law
        return ks_distance(self.values[n_outliers:] / level, law)


def _positive(argument: str, value: ArrayLike) -> Floats:
    array = real_array(argument, value, ndim=1)
    if array.size == 0 or array.min() < 0 or array.max() == 0:
        raise invalid_argument(argument, "not negative, and not all zero", array)
    return array
