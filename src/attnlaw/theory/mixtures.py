"""Sequences of several kinds: unequal noise makes the sample weigh them unequally.

Letters: q, α, κ of each kind g; s the parameter of `attnlaw.laws.outliers`, y = 1/t.
"""

from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Real, scalar_or_array
from attnlaw.laws import Law, MarchenkoPastur
from attnlaw.laws.outliers import (
    TINY,
    Poles,
    falling_root,
    white_eigenvalue,
    white_population_overlap,
)
from attnlaw.models import SequenceMixture
from attnlaw.models.base import answers
from attnlaw.results import Plan, Spike, Thresholds
from attnlaw.theory.planning import search_plan, wanted_overlap
from attnlaw.theory.pooled import ceiling, norm_ceiling, spike_parameter
from attnlaw.theory.verbs import law, plan, predict, thresholds, warn_if_far_from_limit
from attnlaw.theory.vocabulary import (
    plan_vocabulary,
    predict_vocabulary,
    vocabulary_law,
    vocabulary_thresholds,
)

__all__: list[str] = []


@answers(law)
def law_of_mixture(model: SequenceMixture) -> Law:
    """Limiting spectrum of the noise: MP_δ ⊠ (⊞_g q_g κ_g MP_{γ/q_g}).

    Examples
    --------
    >>> import attnlaw as al
    >>> mixture = al.SequenceMixture(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=1.0, weights="mean",
    ...     correlations=[np.eye(4), np.eye(8)],
    ... )
    >>> round(al.law(mixture).moment(1), 12)      # κ̄ = (1/4 + 1/8)/2
    0.1875
    """
    delta, gamma = model.single_ratios("a law is")
    warn_if_far_from_limit(model)
    if model.tokens_differ:
        return vocabulary_law(model, delta, gamma)
    gains, kind = np.unique(model.noise_gains.round(12), return_inverse=True)
    shares = np.bincount(kind, model.kind_shares)
    parts = zip(shares * gains, gamma / shares, strict=True)
    laws: list[Law] = [scale * MarchenkoPastur(ratio) for scale, ratio in parts]
    return MarchenkoPastur(delta) @ reduce(Law.__add__, laws)


@answers(predict)
def predict_mixture(model: SequenceMixture) -> Spike:
    """Predict eigenvalue and overlap for sequences of several lengths or correlations.

    Parameters
    ----------
    model : SequenceMixture
        Its ratios and signal norm may be arrays.

    Returns
    -------
    Spike
        As returned by `predict`, for centred sequences.

    Notes
    -----
    The population covariance depends on means only, C = κ̄ Z_⊥ᵀZ_⊥/V + ᾱ (μ+m)(μ+m)ᵀ. In the
    sample a kind with much noise counts for less. In the parameter s > γ max κ_g,

        y(s) = Σ q_g κ_g/(s − γκ_g) ,   x(s) = Σ q_g α_g/(s − γκ_g)
        λ = s (1+y)(1+δy) ,   the edge where it is least;
        outlier where  h(s) = θ x/(1+δy) = 1 ,   ζ = −λ'(s) / (s (1+δy) h'(s))

    with θ as in `predict` and, for tokens, the factor ‖μ‖²/(‖μ‖²+δ). With one κ for all kinds
    x/y = ᾱ/κ and everything is `predict` with the mean correlation: with fixed weights only the
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
    >>> abs(al.predict(mixed).squared_overlap - al.predict(mean).squared_overlap) < 1e-12
    True
    """
    warn_if_far_from_limit(model)
    if model.tokens_differ:
        return predict_vocabulary(model)
    token, shape = model.sampling == "token", model.shape
    delta, gamma, norm = (
        np.broadcast_to(x, shape)
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_norm)
    )
    theta = norm**2 + (delta if token else 0.0)
    noise = Poles.compound_poisson(model.noise_gains, model.kind_shares, gamma)
    edge_offset = noise.edge_offset(1.0, delta)
    edge = noise.eigenvalue(edge_offset, 1.0, delta)
    offset = _spike_offset(model, noise, theta, delta, edge_offset)
    seen = offset > edge_offset

    t0 = spike_parameter(norm, delta, model.snr, token=token)
    zeta_population = white_population_overlap(t0, delta)
    t_population = np.maximum(t0, np.maximum(np.sqrt(delta), TINY))
    zeta = np.where(seen, _spike_overlap(model, noise, theta, delta, offset), 0.0)
    common = np.where(seen, 1 - delta * noise.y(offset) / t_population, 1.0)
    top = ceiling(norm, delta) if token else np.ones(())

    def full(values: Floats) -> Real:
        return scalar_or_array(np.broadcast_to(values, shape))

    return Spike(
        top_eigenvalue=full(noise.eigenvalue(offset, 1.0, delta)),
        squared_overlap=full(top * zeta),
        bulk_edge=full(edge),
        population_eigenvalue=full(model.noise_gain * white_eigenvalue(t_population, delta)),
        population_overlap=full(top * zeta_population),
        sample_overlap=full(zeta * zeta_population / common**2),
        mean_eigenvalue=full(edge),
        is_detectable=np.array(seen) if shape else bool(seen),
    )


@answers(thresholds)
def thresholds_of_mixture(model: SequenceMixture) -> Thresholds:
    """Return the signal norms beyond which an eigenvalue leaves the bulk.

    Notes
    -----
    With s at the edge, θ = (1+δy)/x (see `predict_mixture`) in the sample and, since the
    population depends on means only, θ = (κ̄/ᾱ)(δ + √δ) there; ‖μ‖² is θ, less δ for tokens and at
    least 0.

    Examples
    --------
    Sequences of unequal length hide the signal longer than one κ for all would:

    >>> import attnlaw as al
    >>> mixture = al.SequenceMixture(
    ...     vocab_ratio=0.5, sample_ratio=2.0, signal_norm=1.0, weights="mean",
    ...     correlations=[al.prefix_correlation(n, prefix=5) for n in (5, 40)],
    ... )
    >>> round(al.thresholds(mixture).sample_signal, 3)
    0.403
    """
    delta, gamma = np.broadcast_arrays(model.vocab_ratio, model.sample_ratio)
    if model.tokens_differ:
        critical = map(scalar_or_array, vocabulary_thresholds(model))
        return Thresholds(population_signal=next(critical), sample_signal=next(critical))
    noise = Poles.compound_poisson(model.noise_gains, model.kind_shares, gamma)
    edge_offset = noise.edge_offset(1.0, delta)
    response, _ = _response(model, noise, delta, edge_offset)
    mean_noise = delta if model.sampling == "token" else np.zeros_like(delta)

    def critical_norm(theta: Floats) -> Real:
        return scalar_or_array(np.sqrt(np.maximum(theta - mean_noise, 0.0)))

    with np.errstate(divide="ignore"):
        population = (delta + np.sqrt(delta)) / np.asarray(model.snr)
        sample = 1 / response
    if model.signal_gain == 0:
        population = sample = np.full(delta.shape, np.inf)
    return Thresholds(
        population_signal=critical_norm(population), sample_signal=critical_norm(sample)
    )


@answers(plan)
def plan_of_mixture(model: SequenceMixture, squared_overlap: ArrayLike = 0.8) -> Plan:
    """Find by search what a wanted overlap requires, see `search_plan`."""
    if model.tokens_differ:
        return plan_vocabulary(model, wanted_overlap(model, squared_overlap)[0])
    return search_plan(model, squared_overlap, norm_ceiling(model))


def _response(
    model: SequenceMixture, noise: Poles, delta: Floats, offset: Floats
) -> tuple[Floats, Floats]:
    """Return h/θ = x/(1+δy) and its derivative in s."""
    residues = model.kind_shares * model.signal_gains
    x, lift = noise.sum(offset, residues), 1 + delta * noise.y(offset)
    x_slope, lift_slope = -noise.sum(offset, residues, power=2), delta * noise.y_slope(offset)
    return x / lift, (x_slope - x * lift_slope / lift) / lift


def _spike_offset(
    model: SequenceMixture, noise: Poles, theta: Floats, delta: Floats, edge_offset: Floats
) -> Floats:
    """Return the offset of s from its pole where h(s) = 1; the edge's if the spike is lost.

    Since h ≤ θᾱ/g at the offset g, that of the spike is at most θᾱ.
    """

    def excess(offset: Floats) -> Floats:
        return theta * _response(model, noise, delta, offset)[0] - 1

    high = edge_offset + theta * float(model.kind_shares @ model.signal_gains)
    found = falling_root(excess, edge_offset, high)
    return np.where(excess(edge_offset) > 0, found, edge_offset)


def _spike_overlap(
    model: SequenceMixture, noise: Poles, theta: Floats, delta: Floats, offset: Floats
) -> Floats:
    """Return ζ = −λ'(s) / (s (1+δy) h'(s)), the overlap with the direction μ + m."""
    slope = (1 + noise.y(offset)) * noise.log_slope(offset, 1.0, delta)  # λ'/(s (1+δy))
    _, falling = _response(model, noise, delta, offset)
    return slope / np.maximum(-falling * theta, TINY)
