"""Only what weights are compared by, for several of them on the same tokens."""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Random, count, invalid_argument, real, real_array
from attnlaw.models import PooledSequences
from attnlaw.results import Alignment
from attnlaw.simulation._matrix_free.plan import check_memory, matrix_free_memory, use_compiled
from attnlaw.simulation._matrix_free.trial import alignment_trial
from attnlaw.simulation.workers import Progress, run_trials

__all__ = ["simulate_alignment"]


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
        tolerance = float(real("tolerance", tolerance, above=0, below=1))
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
