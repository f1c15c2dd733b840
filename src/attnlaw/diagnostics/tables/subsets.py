"""The held-out check: predict the spectrum of a few rows from all the others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator
from attnlaw.data.covariance import PooledCovariance, pooled_covariance
from attnlaw.diagnostics.tables.noise import population_spectrum, row_scales, scale_atoms
from attnlaw.laws.separable import SeparableLaw

__all__ = ["SubsetCheck", "check_subsets", "distance_tolerance"]

Rows = NDArray[np.floating]

N_SCALED = 8192  # rows from which the spread of lengths is taken


@dataclass(frozen=True, kw_only=True)
class SubsetCheck:
    """The spectrum of small subsets of rows beside what the other rows predict."""

    n_rows: int  # V' of a subset
    n_subsets: int
    ratio: float  # δ' = d/V'
    eigenvalues: Floats  # seen in the subsets, (n_subsets, d)
    population: Floats  # τ, estimated from the other rows
    scales: Floats  # atoms of the row scales, estimated from the other rows
    distance: float  # sup |F_seen − F|, F of the law with row lengths
    silverstein_distance: float  # the same for the law that takes all rows as equally long
    tolerance: float  # exceeded by 1 in 100 tables that follow the law exactly
    passes: bool  # distance ≤ tolerance


def check_subsets(
    rows: Rows,
    whole: PooledCovariance | None = None,
    *,
    n_subsets: int = 4,
    rng: Random = 0,
) -> SubsetCheck:
    """Predict the spectrum of random subsets of V' = 2d rows from the rows left out of them.

    Parameters
    ----------
    rows : array of shape (V, d)
        The table.
    whole : PooledCovariance, optional
        Its covariance, if known already.
    n_subsets : int
        Disjoint subsets, fewer when the table is too small for them.
    rng : Generator, int or None
        Draws the subsets.

    Returns
    -------
    SubsetCheck
        The distance between seen and predicted spectrum, and what chance would allow.

    Notes
    -----
    Derived in docs/theory/tables.md, "A check that can fail".

    The other rows give the population spectrum τ and the row scales r; the law of
    both at δ' = d/V' ≫ δ is far from what the table itself shows, so the comparison can fail.
    It does when the quadratic forms on which the law rests do not concentrate: rows of unequal
    length make Silverstein's law fail, clusters and heavy coordinates make both fail.
    """
    V, d = rows.shape
    if max(2 * d, 40) > V:
        raise invalid_argument("rows", "at least twice as many as columns, and 40", rows)
    n_rows = min(2 * d, V // 2)
    n = min(count("n_subsets", n_subsets), max(1, V // (4 * n_rows)))
    order = random_generator(rng).permutation(V)
    rest = pooled_covariance(rows, dtype=np.float32) if whole is None else whole
    seen = []
    for part in np.split(order[: n * n_rows], n):
        subset = pooled_covariance(rows[np.sort(part)], dtype=np.float32)
        seen.append(np.linalg.eigvalsh(subset.covariance) * n_rows / (n_rows - 1))
        rest = _without(rest, subset)
    n_rest = rest.n_samples
    sample = np.asarray(rows[np.sort(order[n * n_rows :][:N_SCALED])], dtype=np.float32)
    scales = scale_atoms(row_scales(sample - rest.mean.astype(np.float32), rest.covariance))
    eigenvalues = np.linalg.eigvalsh(rest.covariance) * n_rest / (n_rest - 1)
    population = population_spectrum(eigenvalues, d / (n_rest - 1), rows=scales)
    ratio = d / (n_rows - 1)
    distances = [
        _distance(SeparableLaw(population, ratio=ratio, rows=r), np.stack(seen))
        for r in (scales, (1.0,))
    ]
    tolerance = distance_tolerance(d, n)
    return SubsetCheck(
        n_rows=n_rows,
        n_subsets=n,
        ratio=d / n_rows,
        eigenvalues=np.stack(seen),
        population=population,
        scales=scales,
        distance=distances[0],
        silverstein_distance=distances[1],
        tolerance=tolerance,
        passes=distances[0] <= tolerance,
    )


def distance_tolerance(dimension: int, n_subsets: int) -> float:
    """Distance that a table which follows the law exactly exceeds about once in a hundred.

    Notes
    -----
    (2.5 + 0.3 log d)/(d √n). Eigenvalues repel each other, so distances shrink like 1/d and not
    like 1/√d; the numbers were calibrated by running the whole check on Gaussian tables, d from
    64 to 400, V from 4d to 40d, over flat, uniform, geometric and two-valued spectra: its 99 %
    quantile was 3.1 to 4.0 for d·distance at n = 1 and 1.7 to 2.1 at n = 4.

    Examples
    --------
    >>> round(distance_tolerance(576, 4), 4)
    0.0038
    """
    d, n = count("dimension", dimension), count("n_subsets", n_subsets)
    return float((2.5 + 0.3 * np.log(d)) / (d * np.sqrt(n)))


def _without(whole: PooledCovariance, part: PooledCovariance) -> PooledCovariance:
    """Covariance of the rows of `whole` that are not in `part`."""
    n, k = whole.n_samples, part.n_samples
    mean = (n * whole.mean - k * part.mean) / (n - k)
    step = part.mean - mean
    scatter = n * whole.covariance - k * part.covariance - (k * (n - k) / n) * np.outer(step, step)
    return PooledCovariance(mean=mean, covariance=scatter / (n - k), n_samples=n - k)


def _distance(law: SeparableLaw, eigenvalues: Floats) -> float:
    """Largest difference between the mean distribution function of the subsets and the law's."""
    x = np.sort(eigenvalues.ravel())
    x = np.maximum(x, 1e-9 * x[-1])
    n = len(x)
    ranks = np.arange(n)
    knots = x[np.unique(np.linspace(0, n - 1, 400).round().astype(int))]  # F is smooth
    F = np.interp(x, knots, law.cdf(knots))
    return float(max(np.abs(F - ranks / n).max(), np.abs(F - (ranks + 1) / n).max()))
