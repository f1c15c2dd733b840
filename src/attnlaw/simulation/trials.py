"""Observations: draw a model at a finite size, and measure what theory predicts of it.

`simulate` of pooled sequences by whichever method the plan chooses, their spectra, and
`simulate_alignment`: several weights compared on the same tokens.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Random, choice, count, invalid_argument, real_array, scalar
from attnlaw.models import PooledSequences, SequenceMixture
from attnlaw.models.base import answers
from attnlaw.results import Alignment, Spike, exceeds_edge
from attnlaw.simulation._matrix_free.plan import (
    check_memory,
    choose_method,
    matrix_free_memory,
    reference_memory,
    trial_memory,
    use_compiled,
)
from attnlaw.simulation._matrix_free.trial import (
    alignment_trial,
    matrix_free_trial,
    rank_two_trial,
)
from attnlaw.simulation.pooled import (
    PooledSample,
    bulk_noise,
    class_means,
    covariance,
    eigenvalues,
    leading_eigenpairs,
    n_candidates,
    population_covariance,
    sample_pooled,
    split_vocabulary,
    squared_overlap,
)
from attnlaw.simulation.verbs import Progress, run_trials, simulate, simulate_spectrum

__all__ = ["measured", "simulate_alignment", "simulate_trial", "trial_memory"]

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
    sample = sample_pooled(model, dimension, rng)
    return measured(model, sample, bulk_noise(model, sample))


def measured(
    model: PooledSequences | SequenceMixture, sample: PooledSample, bulk: Floats
) -> Spike:
    """Measure one draw for every signal norm; `bulk` is its noise without class means."""
    edge = float(leading_eigenpairs(covariance(bulk, centred=model.centred))[0][0])
    norms = np.asarray(model.signal_norm)
    spikes = [_measure(model, sample, float(norm), edge) for norm in norms.ravel()]
    return _gathered(spikes, norms.shape)


METHODS: dict[str, Trial] = {
    "reference": simulate_trial,
    "rank-two": rank_two_trial,
    "matrix-free": matrix_free_trial,
}


def _measure(
    model: PooledSequences | SequenceMixture,
    sample: PooledSample,
    signal_norm: float,
    edge: float,
) -> Spike:
    """Measure the signal's eigenpairs of S and C at one signal norm.

    Notes
    -----
    Frequent tokens can have eigenvalues above the signal's: where tokens differ, the one of the
    `n_candidates` leading eigenpairs is taken that overlaps most with the signal.
    """
    d = sample.noise.shape[1]
    signal, mean = np.eye(d)[0], edge
    S = covariance(sample.pooled(signal_norm), centred=model.centred)
    C = population_covariance(model, sample.table, signal_norm)
    has_two_spikes = not model.centred and sample.tokens.size > 0
    if model.vocabulary is not None and model.tokens_differ:
        n = n_candidates(model.vocabulary, d)
        if has_two_spikes:  # the eigenpair of the mean may be the first
            n = max(n, min(2, d))
            values, vectors = leading_eigenpairs(S, n)
            direction = split_vocabulary(sample.table, model.vocabulary).mean
            mean = values[np.argmax(squared_overlap(vectors, direction))]
        top, v = _most_aligned(S, n)
        population, c = _most_aligned(C, n)
    elif has_two_spikes:
        table_mean, difference = class_means(sample.table)
        spikes = np.stack([signal_norm * signal + difference, table_mean])
        (top, mean), (v, _) = _assigned(S, spikes)
        (population, _), (c, _) = _assigned(C, spikes)
    else:
        (top,), (v,) = leading_eigenpairs(S)
        (population,), (c,) = leading_eigenpairs(C)
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


def _most_aligned(matrix: Floats, n_pairs: int) -> tuple[float, Floats]:
    """Return the leading eigenpair that overlaps most with the signal, the first coordinate."""
    values, vectors = leading_eigenpairs(matrix, n_pairs)
    k = int(np.argmax(vectors[:, 0] ** 2))
    return float(values[k]), vectors[k]


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


def simulate_alignment(
    model: PooledSequences,
    dimension: int,
    n_trials: int = 1,
    rng: Random = None,
    *,
    weights: ArrayLike | None = None,
    n_jobs: int = 1,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Alignment:
    """Draw a model at a finite size and measure how well the signal is found, nothing else.

    The quickest way to curves over the signal norm, and the way to sizes that no matrix would
    fit: neither the table nor a covariance is formed, all norms come from one draw, and several
    pooling weights share it, tokens and table, so that differences between them are sharp.

    Parameters
    ----------
    model : PooledSequences
        What is drawn. The ratios must be single numbers; the signal norm may be an array.
    dimension, n_trials, rng, n_jobs, progress
        As in `simulate`.
    weights : array of shape (n_weights, length) or None
        Pooling weights that take the place of the model's, all on the same draws.
    tolerance : float or None
        How much of an eigenvector may be missing when the search for it ends; eigenvalues and
        overlaps err by about as much, at the threshold by up to ten times that. None stands for
        0.01 d^(−1/2), a hundredth of the differences between trials.

    Returns
    -------
    Alignment
        `top_eigenvalue` and `squared_overlap` as of `simulate`, of shape
        (n_trials, … as the signal norm), with the weights as second axis if they are given.

    Notes
    -----
    Derived in docs/theory/simulation.md, "One draw for all signal norms".

    Exact in law: with one draw, S(μ) = ZᵀKZ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ for
    every norm and, with K of its own, for all weights; block Lanczos finds the leading eigenpairs
    and draws of the Gaussian table Z only its products with the vectors it comes to
    (docs/theory/simulation.md, "A table that is never drawn").

    Examples
    --------
    >>> import attnlaw as al
    >>> R = al.prefix_correlation(length=20, prefix=5)
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.4, sample_ratio=0.2, signal_norm=[0.5, 1.0, 2.0],
    ...     correlation=R, weights=al.mean_weights(20))
    >>> both = [al.mean_weights(20), al.optimal_weights(R)]
    >>> seen = al.simulation.simulate_alignment(model, 200, n_trials=5, rng=0, weights=both)
    >>> seen.squared_overlap.shape
    (5, 2, 3)
    >>> mean, best = seen.squared_overlap.mean(axis=0)
    >>> bool((best > mean).all())
    True
    """
    several = model.weights[None] if weights is None else _checked_weights(model, weights)
    d = model.sizes(dimension).dimension
    if tolerance is not None:
        tolerance = scalar("tolerance", tolerance, above=0, below=1)
    n_trials, n_jobs = count("n_trials", n_trials), count("n_jobs", n_jobs)
    n, n_steps = len(several), 10 + 6 * np.log10(d)
    check_memory(n_jobs * matrix_free_memory(model, d, n, n_steps), d)
    compiled = use_compiled(model, d, n_trials * n, 1, n_steps)
    trial = partial(alignment_trial, model, d, several, tolerance, compiled=compiled)
    trials = run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress)
    values, overlaps = (np.stack(x) for x in zip(*trials, strict=True))
    if weights is None:
        values, overlaps = values[:, 0], overlaps[:, 0]
    return Alignment(top_eigenvalue=values, squared_overlap=overlaps)


def _checked_weights(model: PooledSequences, weights: ArrayLike) -> Floats:
    several = real_array("weights", weights, ndim=2)
    if several.shape[1] != model.length or not len(several):
        raise invalid_argument(
            "weights", f"an array of shape (n_weights ≥ 1, {model.length})", several
        )
    if not several.any(axis=1).all():
        raise invalid_argument("weights", "different from zero in every row", several)
    return several
