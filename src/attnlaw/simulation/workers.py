"""Independent trials on one process or several; the answer is the same."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar, get_type_hints

import numpy as np

from attnlaw._checks import Random, count, random_generator
from attnlaw._dispatch import answers
from attnlaw._machine import one_blas_thread, require_memory

__all__ = ["Progress", "repeats", "run_trials", "stacked"]

Result = TypeVar("Result")
Trial = TypeVar("Trial", bound=Callable[..., Any])
Progress = Callable[[int], None]
"""Called with the number of trials done so far, after each of them."""


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
