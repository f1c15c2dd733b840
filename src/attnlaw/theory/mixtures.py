"""Sequences of several kinds: unequal noise makes the sample weigh them unequally.

Letters: q, α, κ of each kind g; s the parameter; t = s/φ(s) that of `spikes`.
"""

from collections.abc import Callable

import numpy as np

from attnlaw._checks import Floats, Real, scalar_or_array
from attnlaw.models import SequenceMixture
from attnlaw.results import Spike
from attnlaw.theory.bulk import TINY
from attnlaw.theory.noise_spectrum import falling_root
from attnlaw.theory.spikes import ceiling, population_overlap, spike_parameter
from attnlaw.theory.validity import warn_if_far_from_limit

__all__ = ["predict_mixture"]


def predict_mixture(model: SequenceMixture) -> Spike:
    """Predict eigenvalue and overlap for sequences of several lengths or correlations.

    Parameters
    ----------
    model : SequenceMixture
        Its ratios and signal norm may be arrays.

    Returns
    -------
    Spike
        As of `predict`, for centred sequences.

    Notes
    -----
    The population knows only means, C = κ̄ Z_⊥ᵀZ_⊥/V + ᾱ (μ+m)(μ+m)ᵀ. In the sample a kind with
    much noise counts for less. In the parameter s > γ max κ_g,

        φ(s) = Σ q_g κ_g/(1 − γκ_g/s) ,   ψ(s) = Σ q_g α_g/(1 − γκ_g/s) ,   t = s/φ
        λ = s (t+1)(t+δ)/t² ,   the edge where it is least;
        outlier where  h(s) = θ ψ/(φ (t+δ)) = 1 ,   ζ = −λ'(s) / (φ (t+δ) h'(s))

    with θ as in `predict` and, for tokens, the factor ‖μ‖²/(‖μ‖²+δ). With one κ for all kinds
    ψ/φ = ᾱ/κ and everything is `predict` with the mean correlation: with fixed weights only the
    mean of R matters (docs/theory/mixtures.md, "Derivation"). The overlap with the population's
    eigenvector, whose parameter is t₀ = (ᾱ/κ̄) θ − δ, is ζ (1 − δ/t₀²)/(1 − δ/(t t₀))².

    Examples
    --------
    Two correlations under the same weights are their mean:

    >>> import attnlaw as al
    >>> both = [al.prefix_correlation(20, prefix=2), al.prefix_correlation(20, prefix=10)]
    >>> common = dict(vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0)
    >>> w = al.mean_weights(20)
    >>> mixed = al.SequenceMixture(correlations=both, weights=w, **common)
    >>> mean = al.PooledSequences(correlation=sum(both) / 2, weights=w, **common)
    >>> abs(predict_mixture(mixed).squared_overlap - al.predict(mean).squared_overlap) < 1e-12
    True
    """
    warn_if_far_from_limit(model)
    kinds = _Kinds(model)
    token, shape = model.sampling == "token", model.shape
    delta, gamma, norm = (
        np.broadcast_to(x, shape)
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_norm)
    )
    theta = norm**2 + (delta if token else 0.0)
    low, reach = kinds.bracket(delta, gamma, theta)

    def over(function: Callable[..., tuple[Floats, Floats]]) -> Callable[[Floats], Floats]:
        return lambda gap: -function(gap, delta, gamma)[1]

    edge_gap = falling_root(over(kinds.eigenvalue), low, reach)
    edge = kinds.eigenvalue(edge_gap, delta, gamma)[0]
    seen = theta * kinds.response(edge_gap, delta, gamma)[0] > 1
    gap = falling_root(
        lambda g: theta * kinds.response(g, delta, gamma)[0] - 1, edge_gap, 2 * reach + edge_gap
    )
    gap = np.where(seen, gap, edge_gap)
    value, slope = kinds.eigenvalue(gap, delta, gamma)
    _, falling = kinds.response(gap, delta, gamma)
    t, phi = kinds.parameter(gap, gamma)
    weight = np.where(seen, -slope / (phi * (t + delta)) / np.minimum(falling, -TINY), 0.0)
    zeta = np.where(theta > 0, weight / np.where(theta > 0, theta, 1.0), 0.0)

    t0 = spike_parameter(norm, delta, model.snr, token=token)
    zeta_population = population_overlap(t0, delta)
    t_population = np.maximum(t0, np.maximum(np.sqrt(delta), TINY))
    top = ceiling(norm, delta) if token else np.ones(())
    common = np.where(seen, 1 - delta / np.maximum(t * t_population, TINY), 1.0)

    def full(values: Floats) -> Real:
        return scalar_or_array(np.broadcast_to(values, shape))

    return Spike(
        top_eigenvalue=full(np.where(seen, value, edge)),
        squared_overlap=full(top * zeta),
        bulk_edge=full(edge),
        population_eigenvalue=full(
            model.noise_gain * (t_population + 1) * (1 + delta / t_population)
        ),
        population_overlap=full(top * zeta_population),
        sample_overlap=full(zeta * zeta_population / common**2),
        mean_eigenvalue=full(edge),
        is_detectable=np.array(seen) if shape else bool(seen),
    )


class _Kinds:
    """The sums over kinds, as functions of the gap s − γ max κ."""

    def __init__(self, model: SequenceMixture) -> None:
        self.q, self.alpha, self.kappa = (
            model.kind_shares,
            model.signal_gains,
            model.noise_gains,
        )
        self.top = float(self.kappa.max())

    def bracket(self, delta: Floats, gamma: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return gaps below the edge and beyond both edge and spike.

        Where s ≥ 2γ max κ, φ ≤ 2κ̄, so that t ≥ s/2κ̄; the edge has t ≤ 1 + δ + γ max κ/κ̄ and
        the spike t ≤ θ max α/κ.
        """
        mean = float(self.q @ self.kappa)
        t = 2 * (1 + delta + gamma * self.top / mean) + theta * float(
            (self.alpha / self.kappa).max()
        )
        return np.full_like(t, 1e-25 * self.top), 2 * gamma * self.top + 2 * mean * t

    def _sums(self, gap: Floats, gamma: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return Σ q v/(1 − γκ/s) and its derivative in s."""
        s = gap + gamma * self.top
        distance = gap[..., None] + gamma[..., None] * (self.top - self.kappa)  # s − γκ
        total = s * ((1 / distance) @ (self.q * values))
        slope = -gamma * ((1 / distance**2) @ (self.q * values * self.kappa))
        return np.asarray(total), np.asarray(slope)

    def parameter(self, gap: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return t and φ."""
        phi, _ = self._sums(gap, gamma, self.kappa)
        return np.asarray((gap + gamma * self.top) / phi), phi

    def eigenvalue(self, gap: Floats, delta: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return λ = s (t+1)(t+δ)/t² and its derivative."""
        phi, phi_slope = self._sums(gap, gamma, self.kappa)
        s = gap + gamma * self.top
        t, t1 = s / phi, 1 / phi - s * phi_slope / phi**2
        value = s * (t + 1) * (t + delta) / t**2
        return value, value * (1 / s + t1 * (1 / (t + 1) + 1 / (t + delta) - 2 / t))

    def response(self, gap: Floats, delta: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return h/θ = ψ/(φ (t+δ)) and its derivative; φt = s."""
        psi, slope = self._sums(gap, gamma, self.alpha)
        phi, phi_slope = self._sums(gap, gamma, self.kappa)
        below = gap + gamma * self.top + delta * phi  # φ (t+δ)
        return psi / below, slope / below - psi * (1 + delta * phi_slope) / below**2
