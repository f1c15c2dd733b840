"""What can be asked of a simulation, each question put to any model by one verb.

How each model is drawn and measured stands in its own module: `trials`, `classes`, `mixtures`,
`multi_head`, `attention` and `accuracy`. A model that a verb cannot answer for gets a TypeError
that says so. All answers are independent trials, which `run_trials` runs on one process or
several; `repeats` makes an answer of a single trial.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack, get_type_hints, overload

import numpy as np

from attnlaw._checks import Floats, Random, count, random_generator
from attnlaw._machine import one_blas_thread, require_memory
from attnlaw.models import PooledClasses, PooledSequences
from attnlaw.models.base import Answer, Model, answers, no_answer, verb
from attnlaw.results import Accuracy, ClassAccuracy

__all__ = [
    "Progress",
    "repeats",
    "run_trials",
    "simulate",
    "simulate_accuracy",
    "simulate_spectrum",
    "stacked",
]

Result = TypeVar("Result")
Trial = TypeVar("Trial", bound=Callable[..., Any])
Progress = Callable[[int], None]
"""Called with the number of trials done so far, after each of them."""


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
        `n_jobs`. See the Notes for its digits.
    n_jobs : int
        Number of processes.
    progress : callable or None
        Called with the number of trials done so far.
    **options
        Of `PooledSequences`: ``method``, how it is computed ("auto", "reference", "rank-two" or
        "matrix-free").

    Returns
    -------
    Spike, ClassSpikes, Spikes or AttentionSpectrum
        Every field an array with the trials as first axis.

    Notes
    -----
    The matrix-free method draws the table along the vectors of Lanczos, to which rounding errors
    matter more from step to step. Compiled or not, and on another machine, it draws the same
    random numbers and has the same law, and most trials agree to 1e-4; but single ones near the
    threshold may differ as those of two seeds do. ``method="reference"`` gives a seed the same
    digits everywhere, and `simulation.prefer_compiled` on one machine.

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
        Of `SelfAttention`: ``matrix``, which of the matrices that the theory compares.

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


def run_trials(
    trial: Callable[[np.random.Generator], Result],
    n_trials: int,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a function once for each trial, every trial with its own stream of random numbers.

    Parameters
    ----------
    trial : callable
        Takes a Generator; it must be picklable when there are several workers.
    n_trials : int
        Number of trials.
    rng : Generator, int or None
        Trial k has the k-th child of this generator's seed sequence, so it draws the same
        numbers however many trials and workers there are.
    n_jobs : int
        Number of processes; with 1 the trials run here. BLAS has one thread in each: for many
        small matrices that is much the fastest, and the numbers do not depend on its threads.
    progress : callable or None
        Called with the number of trials done, in this process.

    Examples
    --------
    >>> run_trials(lambda rng: int(rng.integers(100)), 3, rng=0)
    [80, 66, 65]
    >>> run_trials(lambda rng: int(rng.integers(100)), 2, rng=0)
    [80, 66]
    """
    n_trials, n_jobs = count("n_trials", n_trials), count("n_jobs", n_jobs)
    streams = random_generator(rng).spawn(n_trials)
    results: list[Result] = []
    for result in _run(trial, streams, min(n_jobs, n_trials)):
        results.append(result)
        if progress is not None:
            progress(len(results))
    return results


def repeats(
    question: Callable[..., Any], memory: Callable[[Any, int], float]
) -> Callable[[Trial], Trial]:
    """Return a decorator: repetitions of a trial answer a verb for the trial's model.

    Parameters
    ----------
    question : verb
        `simulate`, or another one with its arguments.
    memory : callable
        Takes a model and a dimension, and returns the bytes that one trial holds at its peak:
        what does not fit is refused before any work.

    Notes
    -----
    A trial takes a model, a dimension and a Generator, and returns a dataclass. The answer has the
    arguments of `simulate` and returns that dataclass, every field with the trials as first axis.
    """

    def decorate(trial: Trial) -> Trial:
        def answer(
            model: Any,
            dimension: int | None = None,
            n_trials: int = 1,
            rng: Random = None,
            **workers: Any,
        ) -> Any:
            for name in workers.keys() - {"n_jobs", "progress"}:
                kind = type(model).__name__
                raise TypeError(f"{question.__name__} has no option {name!r} for {kind}.")
            d = model.sizes(dimension).dimension
            n_jobs = count("n_jobs", workers.get("n_jobs", 1))
            require_memory(n_jobs * memory(model, d), "dimension", d, "matrices")
            return stacked(run_trials(partial(trial, model, d), n_trials, rng, **workers))

        answer.__annotations__["model"] = next(iter(get_type_hints(trial).values()))
        answers(question)(answer)
        return trial

    return decorate


def stacked(trials: list[Result]) -> Result:
    """Return results of one dataclass as one, every field with the trials as first axis."""
    names = vars(trials[0])
    return type(trials[0])(**{n: np.stack([vars(trial)[n] for trial in trials]) for n in names})


def _run(
    trial: Callable[[np.random.Generator], Result],
    streams: Iterable[np.random.Generator],
    n_jobs: int,
) -> Iterator[Result]:
    if n_jobs == 1:
        with one_blas_thread():
            yield from map(trial, streams)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1):
        yield from Parallel(return_as="generator")(map(delayed(trial), streams))
