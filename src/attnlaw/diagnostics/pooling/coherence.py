"""How much signal each pooling keeps, judged without labels on sequences held out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.poolings import pooling_weights
from attnlaw.diagnostics.pooling.threads import Run
from attnlaw.estimators.gain import learn_and_judge
from attnlaw.estimators.pooling_weights import normalised
from attnlaw.laws.outliers import Poles

__all__ = ["Coherence", "Spiked", "measure_coherence"]


@dataclass(frozen=True, kw_only=True)
class Coherence:
    """What positions have in common, and how much of it each pooling keeps."""

    direction: Floats  # u (d,): along which positions move together most
    weights: Floats  # w (L,): learned from all sequences, Σ|w| = 1
    power: float  # of one token's signal along u
    correlation: Floats  # Γ/power (L, L): between positions along u, held out, hollow
    snr: dict[str, float]  # α/κ of each pooling
    snr_error: dict[str, float]  # its standard error
    gain: dict[str, float]  # over the mean
    gain_error: dict[str, float]


def measure_coherence(
    data: Sequences,
    choices: Mapping[str, str | Floats],
    rng: np.random.Generator,
    run: Run = map,
) -> Coherence:
    """Learn weights and direction from halves of the sequences, and judge each on the other.

    Parameters
    ----------
    data : Sequences
    choices : dict
        Poolings to judge beside the learned one, as `pooling_weights` takes them; "mean" is among
        them.
    rng : Generator
    run : callable
        `map`, or that of an executor with several threads.

    Notes
    -----
    Derived in docs/theory/weights-from-data.md, "What is claimed, and when".

    Along a direction u learned elsewhere, sequence i gives

        j_i(w) = (Σ_l w_l p_il)² − Σ_l w_l² p_il² ,   p_il = T_il·u centred at each position,

    whose mean is Σ_{l≠l'} w_l w_l' Γ_ll': what positions have in common, without the noise that
    they have not. In units of the signal power θ of a token, SNR = 1 + mean j/(θ κ). Errors are
    those of the means over sequences.
    """
    N, L, _ = data.shape
    halves = [data.take(np.sort(rows)) for rows in np.array_split(rng.permutation(N), 2)]
    learned = learn_and_judge(data, halves, rng, run=run)
    best, fits, power = learned.best, learned.fits, learned.power.value
    gamma = np.zeros((L, L))
    kept: dict[str, list[Floats]] = {name: [] for name in (*choices, "learned")}
    for half, fit in ((halves[1], fits[0]), (halves[0], fits[1])):
        P = half.project(fit.direction[:, None])[0].astype(np.float64)
        gamma += P.T @ P / np.maximum(half.pair_counts, 1) / 2
        for name, parts in kept.items():
            choice = fit.weights if name == "learned" else choices[name]
            W = pooling_weights(choice, L, half.mask)
            j = np.sum(W * P, axis=1) ** 2 - np.sum(W**2 * P**2, axis=1)
            parts.append(j / np.mean(np.broadcast_to(np.sum(W**2, axis=-1), len(P))))
    np.fill_diagonal(gamma, 0.0)
    each = {name: 1 + np.concatenate(parts) / power for name, parts in kept.items()}
    gains = {name: values - each["mean"] for name, values in each.items()}
    return Coherence(
        direction=best.direction,
        weights=normalised(best.weights),
        power=power,
        correlation=gamma / power,
        snr={name: float(np.clip(values.mean(), 0, L)) for name, values in each.items()},
        snr_error=_errors(each),
        gain={name: float(values.mean()) for name, values in gains.items()},
        gain_error=_errors(gains),
    )


def _errors(values: Mapping[str, Floats]) -> dict[str, float]:
    return {name: float(v.std(ddof=1) / np.sqrt(len(v))) for name, v in values.items()}


@dataclass(frozen=True, kw_only=True)
class Spiked:
    """A covariance Σ with more signal in it, C = Σ + s u uᵀ, ready for any strength s and N."""

    variances: Floats  # t_j: eigenvalues of Σ, increasing
    shares: Floats  # c_j: squared components of u along its eigenvectors

    def squared_overlap(self, strength: float, n_samples: float) -> float:
        """Squared overlap of the leading sample eigenvector with u; 0 below threshold.

        Notes
        -----
        The leading population eigenvalue ℓ solves 1 = s Σ c/(ℓ−t): above all t for s > 0, between
        the two largest for s < 0. With D_k = Σ c/(ℓ−t)^k the population overlap is D₁²/D₂. The
        sample eigenvalue is ψ(ℓ) = ℓ (1 + (1/N) Σ t/(ℓ−t)) over all t but the largest, which has
        become ℓ, if ψ'(ℓ) > 0; the sample overlap is ℓψ'/ψ (Bai and Yao 2012;
        docs/theory/laws.md, "Silverstein's law and its outliers").

        Examples
        --------
        White noise, infinitely many samples: the signal itself.

        >>> spiked = Spiked(variances=np.ones(50), shares=np.full(50, 0.02))
        >>> round(spiked.squared_overlap(1.0, np.inf), 12)
        1.0
        """
        from scipy.optimize import brentq

        t, c = self.variances, self.shares
        top, second = float(t[-1]), float(t[-2])
        if strength == 0 or c[-1] > 1 - 1e-12:
            ell, population = top + strength, float(c[-1])
        else:

            def excess(ell: float) -> float:
                return float(strength * np.sum(c / (ell - t)) - 1)

            tiny = 1e-10 * (top + abs(strength))
            above, below = (top, top + strength + 2 * tiny) if strength > 0 else (second, top)
            low, high = above + tiny, below - tiny
            if low >= high or excess(low) * excess(high) > 0:
                return 0.0  # the signal does not reach past the noise
            ell = float(brentq(excess, low, high))
            population = float(np.sum(c / (ell - t)) ** 2 / np.sum(c / (ell - t) ** 2))
        if ell <= second:
            return 0.0
        others = Poles(t[:-1], t[:-1] / n_samples)
        sample = ell * float(others.log_slope(np.asarray(ell - second), 1.0))
        return population * max(0.0, sample)
