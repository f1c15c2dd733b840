"""The questions that theory answers, each put to any model by one verb.

What is answered for which model, with which formula, stands beside the formulas of that model:
`pooled`, `classes`, `mixtures`, `multi_head`, `attention`. A model that a verb cannot answer for
gets a TypeError that says so.
"""

from typing import Any, overload

from numpy.typing import ArrayLike

from attnlaw._dispatch import no_answer, verb
from attnlaw.laws import Law
from attnlaw.models import PooledClasses, PooledSequences
from attnlaw.models.base import Answer, Model
from attnlaw.results import Accuracy, ClassAccuracy, Plan, Thresholds, Validity

__all__ = ["law", "plan", "predict", "predict_accuracy", "thresholds", "validity"]


@verb
def predict(model: Model[Answer], **options: Any) -> Answer:
    """Predict what `simulate` observes: outliers, edges and overlaps, or singular values.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture, MultiHeadPooling or SelfAttention
        Numbers of a pooled model may be arrays; the prediction has their broadcast shape.
    **options
        Of `SelfAttention`: ``order``, as in `law`.

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
        Ratios must be single numbers. Of pooled sequences it is the law of the noise bulk, to
        which the signal adds nothing; of attention that of the squared singular values of √n A_⊥.
    **options
        Of `SelfAttention`: ``order``, how much of a finite head is taken into account.

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
    """Return the weakest signals that show: beyond them an eigenvalue leaves the bulk.

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
    """Find the fewest samples, the smallest vocabulary and the weakest signal that do.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or MultiHeadPooling
        What is held fixed; each need is found with all the rest as it stands here.
    squared_overlap : float or array
        Wanted ζ, above 0 and below 1. Broadcasts with the model.

    Returns
    -------
    Plan
        Where a need cannot be met, its ratio is 0 (the signal infinite). Models with several
        outliers have an axis of them at the end. What other weights of tokens or positions would
        bring say `optimal_importance` and `optimal_weights`.

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

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture or MultiHeadPooling
        Its ratios may be arrays.

    Returns
    -------
    Validity
        0 for Gaussian sampling, where the law is exact.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="mean",
    ... )
    >>> round(al.validity(model).effective_length, 12)
    20.0
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
