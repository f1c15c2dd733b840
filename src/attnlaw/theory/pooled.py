"""Pooled sequences: the noise bulk, the spike beside it, and the weakest detectable signal.

Without a signal the sample covariance has the limiting spectrum κ (MP_δ ⊠ MP_γ). Letters:
δ = d/V, γ = d/N, θ the strength of the spike, ρ = (α/κ) θ its ratio to the noise, t = ρ − δ the
parameter in which all formulas are rational, t* the bulk edge's. Derived in docs/theory/bulk.md,
"Edges", and docs/theory/alignment.md, "The spike".
"""

import math
from collections.abc import Iterator
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import LARGEST, Floats, Real, choice, invalid_argument, real, scalar_or_array
from attnlaw.laws import Law, MarchenkoPastur
from attnlaw.laws.outliers import (
    TINY,
    white_edge_parameter,
    white_eigenvalue,
    white_overlap,
    white_population_overlap,
)
from attnlaw.models import MultiHeadPooling, PooledSequences, SequenceMixture
from attnlaw.models.base import answers
from attnlaw.results import Spike, Thresholds
from attnlaw.theory.verbs import law, predict, thresholds, warn_if_far_from_limit
from attnlaw.theory.vocabulary import (
    predict_vocabulary,
    vocabulary_law,
    vocabulary_thresholds,
)

__all__ = [
    "bulk_edge",
    "ceiling",
    "edge_parameter",
    "norm_ceiling",
    "spike_parameter",
    "squared_overlap",
]

BLOCK = 2**14
"""Points of a grid that are evaluated at a time: arrays below 128 KiB, which stay in cache and for
which no allocator asks the system for fresh pages."""


@answers(law)
def law_of_sequences(model: PooledSequences) -> Law:
    """Limiting spectrum of the noise: κ (MP_δ ⊠ MP_γ), or that of a vocabulary.

    Parameters
    ----------
    model : PooledSequences
        Its ratios must be single numbers; its signal plays no part.

    Notes
    -----
    P1 Theorem 1; docs/theory/bulk.md, "Derivation". See `validity` for how close a finite length
    comes to it.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=1.0, sample_ratio=1.0, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(16, prefix=5), weights="mean",
    ... )
    >>> al.law(model)
    0.0625 * (MarchenkoPastur(1) @ MarchenkoPastur(1))
    >>> al.law(model).edges.round(6)      # 27/4 κ
    array([0.      , 0.421875])
    """
    delta, gamma = model.single_ratios("a law is")
    warn_if_far_from_limit(model)
    if model.tokens_differ:
        return vocabulary_law(model, delta, gamma)
    return model.noise_gain * (MarchenkoPastur(delta) @ MarchenkoPastur(gamma))


@answers(predict)
def predict_sequences(model: PooledSequences) -> Spike:
    """Predict the signal's eigenvalue and overlap, and the edge of the bulk.

    Parameters
    ----------
    model : PooledSequences
        Its ratios and signal norm may be arrays; the prediction has their broadcast shape.

    Returns
    -------
    Spike
        Below threshold, what the theorem gives: the edge for eigenvalues, 0 for overlaps.

    Notes
    -----
    P1 Theorems 1–4 and docs/theory/alignment.md, "The spike", with t = ρ − δ:

    - population (t > √δ): ℓ = κ (t+δ)(t+1)/t, ζ_pop = 1 − δ/t²;
    - sample (t > t*): λ = κ (t+1)(t+δ)(t+γ)/t²,
      ζ_samp = 1 − γ(t+1)(t+δ)/((t+γ)(t²−δ)), ζ = ζ_pop ζ_samp.

    ``sampling="gaussian"``: ρ = (α/κ) ‖μ‖², as in P1. ``sampling="token"``: the table's own class
    means move the spike to μ + m with ‖m‖² → δ, so ρ = (α/κ)(‖μ‖² + δ) and overlaps with μ carry
    the factor ‖μ‖²/(‖μ‖² + δ), a ceiling that no amount of data lifts. There `is_detectable`
    says that an eigenvalue leaves the bulk; for a large SNR it does even with ‖μ‖ = 0, along m.

    Tokens that are not centred show a second outlier along the table's mean, with t =
    ((Σw)²/κ − 1) δ; `mean_eigenvalue` is the edge when it is hidden in the bulk.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0, sampling="gaussian",
    ...     correlation=al.prefix_correlation(20, prefix=5),
    ...     weights=al.optimal_weights(al.prefix_correlation(20, prefix=5)),
    ... )
    >>> round(al.predict(model).squared_overlap, 12)
    0.864449483497
    """
    warn_if_far_from_limit(model)
    if model.tokens_differ:
        return predict_vocabulary(model)
    delta, gamma, norm = (
        np.asarray(x) for x in (model.vocab_ratio, model.sample_ratio, model.signal_norm)
    )
    kappa, token = model.noise_gain, model.sampling == "token"
    t_star = white_edge_parameter(delta, gamma)
    edge = kappa * white_eigenvalue(t_star, delta, gamma)

    t = spike_parameter(norm, delta, model.snr, token=token)
    seen = t > t_star
    outlier = kappa * white_eigenvalue(np.maximum(t, t_star), delta, gamma)
    t_population = np.maximum(t, np.sqrt(delta))
    population = kappa * white_eigenvalue(t_population, delta)
    top = ceiling(norm, delta) if token else np.ones(())
    zeta_population = white_population_overlap(t, delta)
    zeta = white_overlap(t, t_star, delta, gamma)
    zeta_sample = zeta / np.where(seen, zeta_population, 1.0)

    mean_eigenvalue = edge
    if token and not model.centred:
        t_mean = (model.weights.sum() ** 2 / kappa - 1) * delta
        mean_eigenvalue = kappa * white_eigenvalue(np.maximum(t_mean, t_star), delta, gamma)

    def full(values: Floats) -> Real:
        return scalar_or_array(np.broadcast_to(values, model.shape))

    detectable = np.broadcast_to(seen, model.shape)
    return Spike(
        top_eigenvalue=full(np.where(seen, outlier, edge)),
        squared_overlap=full(top * zeta),
        bulk_edge=full(edge),
        population_eigenvalue=full(population),
        population_overlap=full(top * zeta_population),
        sample_overlap=full(zeta_sample),
        mean_eigenvalue=full(mean_eigenvalue),
        is_detectable=detectable if model.shape else bool(detectable),
    )


@answers(thresholds)
def thresholds_of_sequences(model: PooledSequences) -> Thresholds:
    """Return the signal norms beyond which an eigenvalue leaves the bulk.

    Parameters
    ----------
    model : PooledSequences
        Its ratios may be arrays; its signal norm plays no part.

    Returns
    -------
    Thresholds
        Of the shape to which the two ratios broadcast.

    Notes
    -----
    Derived in docs/theory/thresholds.md, "Statement".

    ‖μ‖² is (κ/α)(δ + √δ) in the population and (κ/α)(δ + t*) in the sample. With tokens the
    sampling noise of the class means adds ‖m‖² → δ to the signal, which is subtracted, and the
    norm is clipped at 0: a threshold of 0 means that an outlier appears even without a signal.

    Examples
    --------
    Infinite vocabulary and no correlation: the BBP threshold γ^{1/4}.

    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.0, sample_ratio=0.0625, signal_norm=1.0,
    ...     correlation=np.eye(4), weights=al.mean_weights(4),
    ... )
    >>> al.thresholds(model)
    Thresholds(population_signal=0, sample_signal=0.5)
    """
    delta, gamma = np.broadcast_arrays(model.vocab_ratio, model.sample_ratio)
    if model.tokens_differ:
        population, sample = map(scalar_or_array, vocabulary_thresholds(model))
        return Thresholds(population_signal=population, sample_signal=sample)
    snr = model.snr
    mean_noise = delta if model.sampling == "token" else np.zeros_like(delta)

    def critical_norm(t: Floats) -> Real:
        if snr == 0:
            return scalar_or_array(np.full(t.shape, np.inf))
        return scalar_or_array(np.sqrt(np.maximum((t + delta) / snr - mean_noise, 0.0)))

    return Thresholds(
        population_signal=critical_norm(np.sqrt(delta)),
        sample_signal=critical_norm(white_edge_parameter(delta, gamma)),
    )


def edge_parameter(vocab_ratio: ArrayLike, sample_ratio: ArrayLike) -> Real:
    """Return the parameter t* of the bulk's right edge: a spike is seen when its t exceeds it.

    Parameters
    ----------
    vocab_ratio, sample_ratio : float or array
        δ = d/V ≥ 0 and γ = d/N ≥ 0; they broadcast.

    Returns
    -------
    float or array
        The unique positive root t* of t³ − (δ + γ + δγ) t − 2δγ = 0 (0 when both ratios are).

    Notes
    -----
    From z'(t) = 0, solved in closed form (docs/theory/bulk.md, "Edges").

    Examples
    --------
    With infinitely many tokens it is the BBP threshold √γ; equal unit ratios give 2:

    >>> edge_parameter(0.0, 0.25), edge_parameter(1.0, 1.0)
    (0.5, 2.0)
    """
    delta = np.asarray(real("vocab_ratio", vocab_ratio, at_least=0, at_most=LARGEST))
    gamma = np.asarray(real("sample_ratio", sample_ratio, at_least=0, at_most=LARGEST))
    return scalar_or_array(white_edge_parameter(delta, gamma))


def bulk_edge(
    vocab_ratio: ArrayLike, sample_ratio: ArrayLike, noise_gain: ArrayLike = 1.0
) -> Real:
    """Right edge of the noise bulk: no eigenvalue beyond it without a signal.

    Parameters
    ----------
    vocab_ratio, sample_ratio : float or array
        δ = d/V ≥ 0 and γ = d/N ≥ 0.
    noise_gain : float or array
        κ = wᵀw > 0.

    Returns
    -------
    float or array
        λ₊ = κ (t*+1)(t*+δ)(t*+γ)/t*² with t* from `edge_parameter`.

    Notes
    -----
    P1 Proposition 1; docs/theory/bulk.md, "Edges".

    Examples
    --------
    Infinite vocabulary: the Marchenko–Pastur edge (1+√γ)². Equal unit ratios: 27/4.

    >>> bulk_edge(0.0, 0.25), bulk_edge(1.0, 1.0)
    (2.25, 6.75)
    """
    delta = np.asarray(real("vocab_ratio", vocab_ratio, at_least=0, at_most=LARGEST))
    gamma = np.asarray(real("sample_ratio", sample_ratio, at_least=0, at_most=LARGEST))
    kappa = real("noise_gain", noise_gain, above=0)
    t_star = white_edge_parameter(delta, gamma)
    return scalar_or_array(kappa * white_eigenvalue(t_star, delta, gamma))


def squared_overlap(
    *,
    signal_norm: ArrayLike,
    vocab_ratio: ArrayLike,
    sample_ratio: ArrayLike,
    snr: ArrayLike,
    sampling: str = "token",
) -> Real:
    """Squared overlap of the leading eigenvector with the signal, elementwise over arrays.

    Parameters
    ----------
    signal_norm : float or array
        ‖μ‖ ≥ 0.
    vocab_ratio, sample_ratio : float or array
        δ = d/V ≥ 0 and γ = d/N ≥ 0.
    snr : float or array
        Effective signal-to-noise ratio α/κ = wᵀRw/wᵀw ≥ 0 of the pooling weights.
    sampling : "token" or "gaussian"
        See `PooledSequences`.

    Returns
    -------
    float or array
        ζ = (t³ − (δ+γ+δγ)t − 2δγ)/(t²(t+γ)) where t > t*, else 0; for tokens times
        ‖μ‖²/(‖μ‖²+δ). Shape: that to which the arguments broadcast.

    Notes
    -----
    Derived in docs/theory/alignment.md, "The spike". The coded form keeps its relative accuracy
    down to the threshold.

    Examples
    --------
    One call for a heat map:

    >>> grid = squared_overlap(
    ...     signal_norm=np.linspace(0, 2, 5), vocab_ratio=np.array([[0.1], [0.5]]),
    ...     sample_ratio=0.4, snr=5.0,
    ... )
    >>> grid.round(3)
    array([[0.   , 0.451, 0.83 , 0.922, 0.956],
           [0.   , 0.262, 0.616, 0.789, 0.871]])
    """
    norm = np.asarray(real("signal_norm", signal_norm, at_least=0, at_most=LARGEST))
    delta = np.asarray(real("vocab_ratio", vocab_ratio, at_least=0, at_most=LARGEST))
    gamma = np.asarray(real("sample_ratio", sample_ratio, at_least=0, at_most=LARGEST))
    ratio = np.asarray(real("snr", snr, at_least=0, at_most=LARGEST))
    token = choice("sampling", sampling, ("token", "gaussian")) == "token"
    shapes = [x.shape for x in (norm, delta, gamma, ratio)]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise invalid_argument("the arguments", "broadcastable", shapes) from None
    zeta = np.empty(shape)
    for part in _blocks(shape):
        m, d, g, r = (_block(x, part, shape) for x in (norm, delta, gamma, ratio))
        t = spike_parameter(m, d, r, token=token)
        zeta[part] = white_overlap(t, white_edge_parameter(d, g), d, g)
        if token:
            zeta[part] *= ceiling(m, d)
    return scalar_or_array(zeta)


def _blocks(shape: tuple[int, ...]) -> Iterator[slice | EllipsisType]:
    """Cut a large grid along its first axis, so that intermediate arrays stay in cache."""
    if not shape or math.prod(shape) <= BLOCK:
        yield ...
        return
    rows = max(1, BLOCK // math.prod(shape[1:]))
    for start in range(0, shape[0], rows):
        yield slice(start, start + rows)


def _block(x: Floats, part: slice | EllipsisType, shape: tuple[int, ...]) -> Floats:
    """Return the block of an array that broadcasts to `shape`."""
    return x[part] if x.ndim == len(shape) and x.ndim and len(x) > 1 else x


def spike_parameter(norm: Floats, delta: Floats, snr: ArrayLike, *, token: bool) -> Floats:
    """Return t = ρ − δ; with tokens snr (‖μ‖²+δ) − δ, written so that nothing cancels."""
    snr = np.asarray(snr)
    return np.asarray(snr * norm**2 + ((snr - 1) * delta if token else -delta))


def ceiling(norm: Floats, delta: Floats) -> Floats:
    """Return ‖μ‖²/(‖μ‖²+δ), and 0 where there is no signal."""
    return np.asarray(norm**2 / np.maximum(norm**2 + delta, TINY))


def norm_ceiling(model: SequenceMixture | MultiHeadPooling) -> Floats:
    """Return the ceiling of a model's plan, with an axis for the outliers: 1 if idealised."""
    if model.sampling != "token":
        return np.ones(1)
    norm, delta = np.broadcast_arrays(model.signal_norm, model.vocab_ratio)
    return ceiling(norm, delta)[..., None]
