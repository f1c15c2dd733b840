"""What can be asked of a simulation, each question put to any model by one verb.

How each model is drawn and measured stands in its own module: `trials`, `classes`, `mixtures`,
`multi_head`, `attention` and `accuracy`. A model that a verb cannot answer for gets a TypeError
that says so.
"""

from typing import Any, TypedDict, Unpack, overload

from attnlaw._checks import Floats, Random
from attnlaw._dispatch import no_answer, verb
from attnlaw.models import PooledClasses, PooledSequences
from attnlaw.models.base import Answer, Model
from attnlaw.results import Accuracy, ClassAccuracy
from attnlaw.simulation.workers import Progress

__all__ = ["simulate", "simulate_accuracy", "simulate_spectrum"]


@verb
def simulate(
    model: Model[Answer],
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
    **options: Any,
) -> Answer:
    """Draw a model at a finite size, several times, and measure what `predict` predicts.

    Parameters
    ----------
    model : PooledSequences, PooledClasses, SequenceMixture, MultiHeadPooling or SelfAttention
        What is drawn. Ratios must be single numbers; the signal norm of `PooledSequences` and
        `SequenceMixture` may be an array, whose entries share the noise of a trial (so that
        differences between them are sharp).
    dimension : int
        d; the ratios give the vocabulary and the number of samples. Not needed for
        `SelfAttention` and models with a `Vocabulary`, which have a size of their own.
    n_trials : int
        Number of independent trials.
    rng : Generator, int or None
        Source of randomness. Trial k has its own stream, the same for any `n_trials` and
        `n_jobs`.
    n_jobs : int
        Number of processes.
    progress : callable or None
        Called with the number of trials done so far.
    **options
        Of `PooledSequences`: ``method``, how it is computed ("auto", "reference", "rank-two" or
        "matrix-free"). Of `SelfAttention`: ``inputs``, X in place of random ones.

    Returns
    -------
    Spike, ClassSpikes, Spikes or AttentionSpectrum
        Every field an array with the trials as first axis.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=[0.0, 3.0],
    ...     correlation=al.prefix_correlation(4, 2), weights="mean",
    ... )
    >>> al.simulate(model, dimension=50, n_trials=3, rng=0).squared_overlap.shape
    (3, 2)
    """
    raise no_answer(simulate, model)


@verb
def simulate_spectrum(
    model: object,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
    **options: Any,
) -> Floats:
    """Draw a model at a finite size, several times, and return all that `law` is the limit of.

    Parameters
    ----------
    model : PooledSequences or SelfAttention
        What is drawn.
    dimension, n_trials, rng, n_jobs, progress
        As in `simulate`.
    **options
        Of `SelfAttention`: ``matrix`` and ``inputs``.

    Returns
    -------
    array of shape (n_trials, …, size)
        Eigenvalues of the sample covariance, or squared singular values of √n A_⊥, ascending.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=50, head_dimension=20, inverse_temperature=1.0)
    >>> al.simulation.simulate_spectrum(head, n_trials=2, rng=0).shape
    (2, 50)
    """
    raise no_answer(simulate_spectrum, model)


class ClassifierOptions(TypedDict, total=False):
    """The options of `simulate_accuracy`, for its overloads."""

    ridge: float | None
    classifier: str
    n_test: int
    n_jobs: int
    progress: Progress | None


@overload
def simulate_accuracy(
    model: PooledSequences,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    **options: Unpack[ClassifierOptions],
) -> Accuracy: ...


@overload
def simulate_accuracy(
    model: PooledClasses,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    **options: Unpack[ClassifierOptions],
) -> ClassAccuracy: ...


@overload
def simulate_accuracy(
    model: object,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    **options: Unpack[ClassifierOptions],
) -> Any: ...


@verb
def simulate_accuracy(
    model: object,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    ridge: float | None = None,
    classifier: str = "ridge",
    n_test: int = 20_000,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Any:
    """Fit a linear classifier to pooled sequences and test it on fresh ones from the same table.

    Parameters
    ----------
    model : PooledSequences or PooledClasses
        What is drawn. Ratios must be single numbers; the signal norm of `PooledSequences` may be
        an array. The label of a sequence is the sign, or the class, at its first position.
    dimension, n_trials, rng, n_jobs, progress
        As in `simulate`.
    ridge : float
        λ > 0 in (1/N)‖y − X b‖² + λ‖b‖², for "ridge" and "discriminant".
    classifier : "ridge", "centroid", "component" or "discriminant"
        As in `predict_accuracy`. Of two classes, b is the minimiser above; Xᵀy/N; or the leading
        unit eigenvector of the sample covariance, with the sign that agrees with more labels of
        the training set.
    n_test : int
        Number of test sequences in each trial.

    Returns
    -------
    Accuracy or ClassAccuracy
        Every field an array with the trials as first axis. Over the test set: accuracy; and for
        two classes mean_squared_error the mean of (y − x·b)², signal_gain the slope A of the
        regression of x·b on the gain w·s (no intercept), noise_variance the mean of
        (x·b − A w·s)².

    Notes
    -----
    Models that are centred are centred by the training mean. The training set of K classes has
    each of them in its exact share (rounded), as a stratified split has; random numbers of each
    class cost another O(K/N) of accuracy.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=5.0,
    ...     correlation=al.prefix_correlation(4, 2), weights=[0.5, 0.5, 0, 0])
    >>> al.simulate_accuracy(model, 50, rng=0, ridge=0.1).accuracy.round(2)
    array([1.])
    """
    raise no_answer(simulate_accuracy, model)
