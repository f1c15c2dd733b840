"""Observations: draw a model at a finite size, and measure what theory predicts of it."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial

import numpy as np

from attnlaw._checks import Floats, Random, choice, count
from attnlaw._dispatch import answers
from attnlaw.models import PooledSequences
from attnlaw.results import Spike, exceeds_edge
from attnlaw.simulation._matrix_free.plan import (
    check_memory,
    choose_method,
    reference_memory,
    trial_memory,
    use_compiled,
)
from attnlaw.simulation._matrix_free.trial import matrix_free_trial, rank_two_trial
from attnlaw.simulation.pooled import PooledSample, class_means, sample_pooled
from attnlaw.simulation.spectrum import (
    bulk_noise,
    covariance,
    eigenvalues,
    leading_eigenpairs,
    population_covariance,
    squared_overlap,
)
from attnlaw.simulation.verbs import simulate, simulate_spectrum
from attnlaw.simulation.vocabulary import vocabulary_trial
from attnlaw.simulation.workers import Progress, run_trials

__all__ = ["simulate_trial", "trial_memory"]

Trial = Callable[[PooledSequences, int, np.random.Generator], Spike]


@answers(simulate)
def simulate_sequences(
    model: PooledSequences,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    method: str = "auto",
    progress: Progress | None = None,
) -> Spike:
    """Draw a model at a finite size, several times, and measure its leading eigenpair.

    Parameters
    ----------
    model : PooledSequences
        What is drawn. The ratios must be single numbers; the signal norm may be an array, whose
        entries share the noise of a trial (so that differences between them are sharp).
    dimension, n_trials, rng, n_jobs, progress
        As in `simulate`.
    method : "auto", "reference", "rank-two" or "matrix-free"
        How it is computed; the law of the answer is the same. "reference" forms every matrix.
        "rank-two" finds the same numbers for all signal norms at once. "matrix-free" forms
        neither table nor covariance, so that memory grows like V and N instead of V·d and N·d;
        it uses different random draws. "auto" takes "reference" where that is quick, else
        "matrix-free".

    Returns
    -------
    Spike
        Every field an array of shape (n_trials, … as the signal norm).

    Notes
    -----
    What the fields measure in one trial (S sample covariance, C the covariance that sequences
    from this very table have, u = μ/‖μ‖):

    - top_eigenvalue, squared_overlap: the leading eigenpair of S, overlap with u
    - population_eigenvalue, population_overlap: that of C, overlap with u
    - sample_overlap: between the leading eigenvectors of S and of C
    - bulk_edge: largest eigenvalue of the same sample with no spike in it, each token
      class-centred (signal and noise); it tends to λ₊
    - mean_eigenvalue: bulk_edge if centred, if the sampling is gaussian, or if the vocabulary is
      infinite. Else S and C have a second spike along the table's mean z̄: of their two leading
      eigenpairs one is taken for the signal and one for the mean, so that the squared overlaps
      with E[x | s=1] − E[x | s=−1] and with z̄ have the largest sum
    - is_detectable: top_eigenvalue > (1 + d^(−2/3)) bulk_edge. A spike too weak to leave the bulk
      still lifts the largest eigenvalue a little, by a share of order 1/d; one that leaves it
      lifts it by a share of order 1. The margin lies between.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=[0.0, 3.0],
    ...     correlation=al.prefix_correlation(4, 2), weights=al.mean_weights(4))
    >>> seen = al.simulate(model, dimension=50, n_trials=3, rng=0)
    >>> seen.squared_overlap.shape
    (3, 2)
    >>> seen.is_detectable.all(axis=0)
    array([False,  True])
    """
    choice("method", method, ("auto", *METHODS))
    n_trials, n_jobs = count("n_trials", n_trials), count("n_jobs", n_jobs)
    d = model.sizes(dimension).dimension
    check_memory(n_jobs * trial_memory(model, d, method), d)
    chosen = choose_method(method, model, d)
    trial = partial(METHODS[chosen], model, d)
    if chosen == "matrix-free":
        trial = partial(matrix_free_trial, model, d, compiled=use_compiled(model, d, n_trials))
    trials = run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress)
    return _gathered(trials, (len(trials), *np.shape(model.signal_norm)))


@answers(simulate_spectrum)
def spectrum_of_sequences(
    model: PooledSequences,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Floats:
    """Draw a model at a finite size, several times, and return all eigenvalues of S.

    Parameters
    ----------
    model, dimension, n_trials, rng, n_jobs, progress
        As in `simulate`, with which the trials of the same `rng` share their draws.

    Returns
    -------
    array of shape (n_trials, … as the signal norm, dimension)
        Eigenvalues in ascending order, the zeros of a singular S among them.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=2.0, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(4, 2), weights=al.mean_weights(4), centred=False)
    >>> values = al.simulation.simulate_spectrum(model, dimension=40, n_trials=2, rng=0)
    >>> (values > 1e-12).sum(axis=-1)      # the rank is N = d/2
    array([20, 20])
    """
    count("n_jobs", n_jobs)
    d = model.sizes(dimension).dimension
    check_memory(n_jobs * reference_memory(model, d), d)
    trial = partial(_spectrum_trial, model, d)
    return np.stack(run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress))


def simulate_trial(model: PooledSequences, dimension: int, rng: np.random.Generator) -> Spike:
    """Measure one draw of the model by forming every matrix; see `simulate` for the fields."""
    if model.tokens_differ:
        return vocabulary_trial(model, dimension, rng)
    sample = sample_pooled(model, dimension, rng)
    bulk = covariance(bulk_noise(model, sample), centred=model.centred)
    edge = float(leading_eigenpairs(bulk)[0][0])
    norms = np.asarray(model.signal_norm)
    spikes = [_measure(model, sample, float(norm), edge) for norm in norms.ravel()]
    return _gathered(spikes, norms.shape)


METHODS: dict[str, Trial] = {
    "reference": simulate_trial,
    "rank-two": rank_two_trial,
    "matrix-free": matrix_free_trial,
}


def _measure(
    model: PooledSequences, sample: PooledSample, signal_norm: float, edge: float
) -> Spike:
    """Measure the leading eigenpairs of S and C at one signal norm."""
    d = sample.noise.shape[1]
    signal = np.eye(d)[0]
    S = covariance(sample.pooled(signal_norm), centred=model.centred)
    C = population_covariance(model, sample.table, signal_norm)
    if model.centred or not sample.tokens.size:
        (top,), (v,) = leading_eigenpairs(S)
        (population,), (c,) = leading_eigenpairs(C)
        mean = edge
    else:
        table_mean, difference = class_means(sample.table)
        spikes = np.stack([signal_norm * signal + difference, table_mean])
        (top, mean), (v, _) = _assigned(S, spikes)
        (population, _), (c, _) = _assigned(C, spikes)
    return Spike(
        top_eigenvalue=top,
        squared_overlap=squared_overlap(v, signal),
        bulk_edge=edge,
        population_eigenvalue=population,
        population_overlap=squared_overlap(c, signal),
        sample_overlap=squared_overlap(v, c),
        mean_eigenvalue=mean,
        is_detectable=exceeds_edge(top, edge, d),
    )


def _assigned(matrix: Floats, spikes: Floats) -> tuple[Floats, Floats]:
    """Return two leading eigenpairs, each beside the spike (rows) to which it belongs."""
    values, vectors = leading_eigenpairs(matrix, 2)
    overlaps = squared_overlap(vectors[:, None], spikes)
    swap = overlaps[0, 1] + overlaps[1, 0] > np.trace(overlaps)
    return (values[::-1], vectors[::-1]) if swap else (values, vectors)


def _gathered(spikes: list[Spike], shape: tuple[int, ...]) -> Spike:
    """Return several observations as one, field by field."""
    columns = {f.name: [getattr(spike, f.name) for spike in spikes] for f in fields(Spike)}
    return Spike(**{name: np.reshape(column, shape) for name, column in columns.items()})


def _spectrum_trial(model: PooledSequences, dimension: int, rng: np.random.Generator) -> Floats:
    """Return the eigenvalues of S in one draw, for every signal norm."""
    sample = sample_pooled(model, dimension, rng)
    norms = np.asarray(model.signal_norm)
    spectra = [
        eigenvalues(covariance(sample.pooled(float(norm)), centred=model.centred))
        for norm in norms.ravel()
    ]
    return np.reshape(spectra, (*norms.shape, dimension))
