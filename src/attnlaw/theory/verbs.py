"""The verbs of the theory, each dispatched on the model.

The formulas of each model are in a module of their own: `pooled`, `classes`, `mixtures`,
`multi_head`, `attention`. A verb that does not support a model raises a TypeError. `validity` is
computed here, because all pooled models share one formula.
"""

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import scalar_or_array, warn_regime
from attnlaw.laws import Law
from attnlaw.models import PooledClasses, PooledModel, PooledSequences, SequenceMixture
from attnlaw.models.base import Answer, Model, answers, no_answer, verb
from attnlaw.models.vocabulary import TokenModel
from attnlaw.results import Accuracy, ClassAccuracy, Plan, Thresholds, Validity
from attnlaw.theory.token_noise import mixed_scales

__all__ = [
    "law",
    "plan",
    "predict",
    "predict_accuracy",
    "thresholds",
    "validity",
    "warn_if_far_from_limit",
]

TOLERATED_DEVIATION = 0.001
"""Relative fourth-moment deviation beyond which predictions warn.

Measured at d = 400, ten pairs of ratios from 0.05 to 2 and one to six positions without
correlation, beside the same model with twenty (200 draws each; the table is in
docs/theory/bulk.md, "How far a fixed length is from the limit"): an overlap of 0.5 loses 0.02 to
0.08 with one position at deviations from 0.001 to 0.03, and the edge gains 2 to 9 %; up to 0.001
the loss is at most 0.01, within two standard errors, and the edge gains less than 1 %.
"""


@verb
def predict(model: Model[Answer], **options: Any) -> Answer:
    """Predict what `simulate` observes: outliers, edges and overlaps, or singular values.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture, MultiHeadPooling or SelfAttention
        Numbers of a pooled model may be arrays; the prediction has their broadcast shape.
    **options
        For `SelfAttention`: ``order``, as in `law`.

    Returns
    -------
    Spike, ClassSpikes, Spikes or AttentionSpectrum
        Below threshold, what the theorem gives: the edge for eigenvalues, 0 for overlaps.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="causal",
    ... )
    >>> round(al.predict(model).squared_overlap, 6)
    0.776287
    """
    raise no_answer(predict, model)


@verb
def law(model: object, **options: Any) -> Law:
    """Limiting spectrum of a model without its outliers, as a law object.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or SelfAttention
        Ratios must be single numbers. For pooled sequences it is the law of the noise bulk, which
        the signal does not change; for attention, that of the squared singular values of √n A_⊥.
    **options
        For `SelfAttention`: ``order``, how much of a finite head is taken into account.

    Returns
    -------
    Law
        With density, cdf, quantile, edges and moments.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(16, prefix=5), weights="mean",
    ... )
    >>> al.law(model)
    0.0625 * (MarchenkoPastur(0.5) @ MarchenkoPastur(0.4))
    """
    raise no_answer(law, model)


@verb
def thresholds(model: object) -> Thresholds:
    """Return the weakest detectable signals, beyond which an eigenvalue leaves the bulk.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or MultiHeadPooling
        Its ratios may be arrays; the strength of its signal plays no part.

    Returns
    -------
    Thresholds
        Of the signal norm, or of the signal scale of classes. Models with several outliers have
        an axis of them at the end.

    Examples
    --------
    Infinite vocabulary and no correlation: the BBP threshold γ^{1/4}.

    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.0, sample_ratio=0.0625, signal_norm=1.0,
    ...     correlation=[[1, 0], [0, 1]], weights="mean",
    ... )
    >>> al.thresholds(model).sample_signal
    0.5
    """
    raise no_answer(thresholds, model)


@verb
def plan(model: object, squared_overlap: ArrayLike = 0.8) -> Plan:
    """Find the fewest samples, the smallest vocabulary and the weakest signal that suffice.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or MultiHeadPooling
        What is held fixed; each need is found with everything else as given here.
    squared_overlap : float or array
        Wanted ζ, above 0 and below 1. Broadcasts with the model.

    Returns
    -------
    Plan
        Where a need cannot be met, its ratio is 0 (the signal infinite). Models with several
        outliers have an axis of them at the end. For the gain of other weights of tokens or
        positions, see `optimal_importance` and `optimal_weights`.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.05, sample_ratio=2.0, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="causal",
    ... )
    >>> al.plan(model, squared_overlap=0.8).n_samples(dimension=768)
    1428.0
    """
    raise no_answer(plan, model)


@verb
def validity(model: object) -> Validity:
    """Measure how far a model at fixed length is from the limit law of its noise bulk.

    The law MP_δ ⊠ MP_γ treats the V×N matrix of weights as Gaussian. It has only L non-zeros a
    column, and where one position carries all the weight, the bulk departs from the law.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or MultiHeadPooling
        Its ratios may be arrays. For a mixture the mean over kinds is taken, for several heads the
        head that uses the fewest positions.

    Returns
    -------
    Validity
        `fourth_moment_deviation` is 0 for Gaussian sampling, where the law is exact.

    Notes
    -----
    Derived in docs/theory/bulk.md, "How far a fixed length is from the limit".

    The first three moments of the bulk are those of ν = MP_δ ⊠ MP_γ. In the
    fourth moment of the V×V factor (ratio c = V/N) the crossing pairing survives because two
    sequences that share a token share it in all four places; it adds c²/L_eff². The d×d bulk has
    free cumulants δ^{n−1} m_n of that factor, so its own fourth moment exceeds the law's by
    δ³ (γ/δ)²/L_eff², and the figure returned is

        δγ²/(L_eff² m₄),   m₄ = 1 + 6k₂ + 2k₂² + 4k₃ + k₄,
        k₂ = δ+γ,  k₃ = δ²+3δγ+γ²,  k₄ = δ³+6δ²γ+6δγ²+γ³.

    In a mixture of kinds γ^{n−1} is multiplied by s_n = Σ q_g κ_g^n/κ̄^n, the free cumulants of
    the sample's factor, and with a `Vocabulary` δ^{n−1} by the mean of r^n (r = V p g² scaled to
    mean one). With a_n and b_n these products, k₂ = a₂+b₂, k₃ = a₃+3a₂b₂+b₃,
    k₄ = a₄+4a₃b₂+2a₂²b₂+4a₂b₃+2a₂b₂²+b₄; the excess is then δγ²/L_eff² times the mean of (r g²)².

    With L_eff = 1 a token's share of the data is Poisson, not free Poisson: frequent tokens then
    push single eigenvalues beyond the edge.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=1.0, sample_ratio=1.0, signal_norm=1.0,
    ...     correlation=np.eye(4), weights=al.mean_weights(4),
    ... )
    >>> note = al.validity(model)     # m₄ = 55, the Fuss–Catalan number
    >>> note.effective_length, round(note.fourth_moment_deviation * 55 * 16, 12)
    (4.0, 1.0)
    """
    raise no_answer(validity, model)


@overload
def predict_accuracy(
    model: PooledSequences, ridge: ArrayLike | None = None, *, classifier: str = "ridge"
) -> Accuracy: ...


@overload
def predict_accuracy(
    model: PooledClasses, ridge: ArrayLike | None = None, *, classifier: str = "ridge"
) -> ClassAccuracy: ...


@overload
def predict_accuracy(model: object, ridge: ArrayLike | None = None, **options: Any) -> Any: ...


@verb
def predict_accuracy(model: object, ridge: ArrayLike | None = None, **options: Any) -> Any:
    """Predict the test accuracy of a linear classifier of pooled sequences.

    Parameters
    ----------
    model : PooledSequences or PooledClasses
        Its correlation must be made of entries 0 and 1 (−1 as well for `PooledSequences`): groups
        of positions that share one class.
    ridge : float or array
        λ > 0, for classifiers that have one. Broadcasts with the model.
    classifier : str
        "ridge" or "centroid"; "component" of `PooledSequences`, "discriminant" of `PooledClasses`.

    Returns
    -------
    Accuracy or ClassAccuracy
        What `simulate_accuracy` observes.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.0, sample_ratio=0.0, signal_norm=0.5,
    ...     correlation=al.prefix_correlation(4, prefix=4), weights="mean",
    ... )
    >>> round(al.predict_accuracy(model, ridge=1.0).accuracy, 6)     # Φ(1)
    0.841345
    """
    raise no_answer(predict_accuracy, model)


@answers(validity)
def validity_of_pooled(model: PooledModel[Any]) -> Validity:
    """Measure the deviation of a pooled model by the formula in the notes of `validity`."""
    delta, gamma = np.asarray(model.vocab_ratio), np.asarray(model.sample_ratio)
    length = model.effective_length
    tokens, sequences = _token_spread(model), _sequence_spread(model)
    a2, a3, a4 = (delta**k * s for k, s in enumerate(tokens.moments, 1))
    b2, b3, b4 = (gamma**k * s for k, s in enumerate(sequences, 1))
    k2 = a2 + b2
    k3 = a3 + 3 * a2 * b2 + b3
    k4 = a4 + 4 * a3 * b2 + 2 * a2**2 * b2 + 4 * a2 * b3 + 2 * a2 * b2**2 + b4
    m4 = 1 + 6 * k2 + 2 * k2**2 + 4 * k3 + k4
    excess = tokens.crossing * delta * gamma**2 / length**2
    if model.sampling != "token":
        excess = np.zeros_like(k2)
    return Validity(effective_length=length, fourth_moment_deviation=scalar_or_array(excess / m4))


class _TokenSpread(NamedTuple):
    moments: tuple[float, float, float]  # mean of r^n over tokens, r of mean one, n = 2, 3, 4
    crossing: float  # mean of (r g²)² over tokens, r and g² of mean one


def _token_spread(model: PooledModel[Any]) -> _TokenSpread:
    """Return how much tokens differ in the pooled noise: r = V p g²."""
    words = model.vocabulary if isinstance(model, TokenModel) else None
    if words is None or words.is_uniform:
        return _TokenSpread((1.0, 1.0, 1.0), 1.0)
    square = words.weights**2 / float(words.frequencies @ words.weights**2)
    r = words.n_tokens * words.frequencies * square
    two, three, four = (float(np.mean(r**n)) for n in (2, 3, 4))
    return _TokenSpread((two, three, four), float(np.mean((r * square) ** 2)))


def _sequence_spread(model: PooledModel[Any]) -> tuple[float, float, float]:
    """Return the moments n = 2, 3, 4 of the noise of sequences, which is one on average."""
    words = model.vocabulary if isinstance(model, TokenModel) else None
    if isinstance(model, TokenModel) and words is not None and not words.is_uniform:
        scales = mixed_scales(model.kinds, words.frequencies, words.weights)
        ratios, shares = scales.atoms, scales.masses
    elif isinstance(model, SequenceMixture):
        ratios, shares = model.noise_gains / model.noise_gain, model.kind_shares
    else:
        return 1.0, 1.0, 1.0
    two, three, four = (float(shares @ ratios**n) for n in (2, 3, 4))
    return two, three, four


def _and_tokens(model: PooledModel[Any]) -> str:
    alike = not isinstance(model, TokenModel) or not model.tokens_differ
    return "" if alike else " and favour some tokens"


def warn_if_far_from_limit(model: PooledModel[Any]) -> None:
    """Warn when the deviation exceeds the tolerance."""
    note = validity(model)
    deviation = float(np.max(note.fourth_moment_deviation, initial=0.0))
    if deviation > TOLERATED_DEVIATION:
        warn_regime(
            f"the weights use only {note.effective_length:.3g} positions{_and_tokens(model)}: the "
            f"bulk's fourth moment exceeds the limit law's by {deviation:.2%}, and single tokens "
            "can push eigenvalues beyond the edge."
        )
