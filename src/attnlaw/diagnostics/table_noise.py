"""The noise behind a table's spectrum, estimated from its rows and checked on held-out rows."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    Floats,
    Random,
    count,
    invalid_argument,
    random_generator,
    real_array,
    scalar,
)
from attnlaw.data.covariance import PooledCovariance, pooled_covariance
from attnlaw.data.user_arrays import array
from attnlaw.laws.separable import SeparableLaw

__all__ = [
    "SubsetCheck",
    "check_subsets",
    "distance_tolerance",
    "population_spectrum",
    "rank_groups",
    "row_scales",
    "scale_atoms",
]

Rows = NDArray[np.floating]

N_SCALED = 8192  # rows from which the spread of lengths is taken


def population_spectrum(
    eigenvalues: ArrayLike, ratio: float, *, rows: ArrayLike = (1.0,), n_iterations: int = 30
) -> Floats:
    """Eigenvalues of the population covariance, given those of the sample.

    Parameters
    ----------
    eigenvalues : array of shape (d,)
        Of the centred sample covariance of V rows, at least 0.
    ratio : float
        δ = d/V.
    rows : array
        Atoms of the row scales, when rows differ in length (see `row_scales`).
    n_iterations : int
        Largest number of corrections; they stop as soon as the fit is as good as chance allows.

    Returns
    -------
    array of shape (d,)
        Variances τ, increasing, whose law at this ratio has the given spectrum.

    Notes
    -----
    Derived in docs/theory/tables.md, "Finding the population spectrum".

    The law H ⊠ MP_δ spreads each population eigenvalue over a relative width of about 4√δ. To
    undo that, predicted and observed quantiles are matched one by one: with F the distribution
    function of the law of the present τ and q_i its quantile at (i−½)/d,

        τ_i ← τ_i λ_i/q_i ,   then sorted and rescaled to keep the trace.

    Inversion is ill-posed, so the corrections stop at the level of chance: when F(λ_i) differs
    from (i−½)/d by less than 1.5/d everywhere, which is about half of what the true H shows.

    Examples
    --------
    A sample that follows the law of two variances gives them back:

    >>> law = SeparableLaw([1.0, 3.0], ratio=0.05)
    >>> x = np.linspace(0.4, 5, 4001)
    >>> seen = np.interp((np.arange(100) + 0.5) / 100, law.cdf(x), x)
    >>> seen[[10, 40, 60, 90]].round(2), population_spectrum(seen, 0.05)[[10, 40, 60, 90]].round(2)
    (array([0.82, 1.12, 2.59, 3.52]), array([0.94, 1.05, 2.86, 3.16]))
    """
    seen = np.sort(real_array("eigenvalues", eigenvalues, ndim=1))
    delta = scalar("ratio", ratio, above=0)
    if seen.size == 0 or seen[-1] <= 0 or seen[0] < -1e-8 * seen[-1]:
        raise invalid_argument("eigenvalues", "at least 0 and not all 0", seen)
    d = len(seen)
    positive = seen > 1e-12 * seen[-1]
    groups = rank_groups(np.flatnonzero(positive))
    masses = np.array([len(group) / d for group in groups])
    if delta >= 1:  # fewer rows than columns: what is 0 in the sample is merely unseen
        masses /= masses.sum()
    quantiles = _Quantiles(
        values=np.array([seen[group].mean() for group in groups]),
        levels=np.array([group.mean() + 0.5 for group in groups]) / d,
        masses=masses,
    )
    tau = _matched_variances(
        quantiles, delta, rows, mean=float(seen.mean()), chance=1.5 / d, n_steps=n_iterations
    )
    if delta >= 1:
        levels = np.cumsum(masses) - masses / 2
        return np.asarray(np.interp((np.arange(d) + 0.5) / d, levels, tau))
    ranks = [group.mean() for group in groups]
    shift = np.interp(np.arange(d), ranks, tau / quantiles.values)
    return np.asarray(np.sort(np.where(positive, seen * shift, 0.0)))


class _Quantiles(NamedTuple):
    """Positive eigenvalues of the sample, in groups of neighbouring ranks."""

    values: Floats  # λ, mean of each group
    levels: Floats  # p = (i−½)/d at which they are quantiles
    masses: Floats  # share of the eigenvalues in each group


def _matched_variances(
    seen: _Quantiles, ratio: float, rows: ArrayLike, *, mean: float, chance: float, n_steps: int
) -> Floats:
    """Return the variance τ of each group whose law has the observed quantiles.

    A step that makes the fit worse is undone, and the next ones are half as long.
    """
    x, p, masses = seen
    widest = 2 * np.sqrt(ratio)
    # Where the law reaches further than the sample, its outer quantiles lie beyond x.
    beyond = np.linspace(0.02, 1, 12) * 2 * widest
    knots = np.concatenate([x[0] * np.exp(-beyond[::-1]), x, x[-1] * np.exp(beyond)])
    inside = slice(len(beyond), -len(beyond))

    tau = x * (mean / (masses @ x))
    weights = np.append(masses, max(0.0, 1 - masses.sum()))  # of τ and of constant columns
    law = SeparableLaw(np.append(tau, 0.0), column_weights=weights, ratio=ratio, rows=rows)
    F = law.cdf(knots)
    misfit, speed = float(np.abs(F[inside] - p).max()), 1.0
    for _ in range(n_steps):
        if misfit < chance or speed < 0.1:
            break
        predicted = np.exp(np.interp(p, np.maximum.accumulate(F), np.log(knots)))
        step = np.clip(np.log(x / predicted), -widest, widest)  # quantiles jump across gaps
        trial = np.sort(tau * np.exp(speed * step))
        trial *= mean / (masses @ trial)
        law_trial = law.with_columns(np.append(trial, 0.0))
        F_trial = law_trial.cdf(knots)
        misfit_trial = float(np.abs(F_trial[inside] - p).max())
        if misfit_trial < misfit:
            tau, law, F, misfit = trial, law_trial, F_trial, misfit_trial
        else:
            speed /= 2
    return np.asarray(tau)


def rank_groups(
    indices: NDArray[np.intp], n_groups: int = 480, n_single: int = 32
) -> list[NDArray[np.intp]]:
    """Part ranks into runs, the highest alone, so that large spectra cost no more than small.

    Examples
    --------
    >>> [list(map(int, group)) for group in rank_groups(np.arange(7), n_groups=2, n_single=1)]
    [[0, 1, 2], [3, 4, 5], [6]]
    """
    if len(indices) <= n_groups + n_single:
        return [indices[i : i + 1] for i in range(len(indices))]
    top = [indices[i : i + 1] for i in range(len(indices) - n_single, len(indices))]
    return [*np.array_split(indices[:-n_single], n_groups), *top]


def row_scales(rows: NDArray[np.floating], covariance: Floats) -> Floats:
    """Relative squared lengths of the rows of a centred table, in the metric that the law sees.

    Parameters
    ----------
    rows : array of shape (V, d)
        Centred.
    covariance : array of shape (d, d)
        Covariance of these rows, or of similar ones.

    Returns
    -------
    array of shape (V,)
        r_v = e_vᵀ (Σ̂+τ̄)⁻¹ e_v, τ̄ the median eigenvalue, divided by its mean, and shrunk towards
        1 by the share of its variance that Gaussian rows of equal length would have, too.

    Notes
    -----
    The spectral law rests on quadratic forms e_vᵀ A e_v being the same for all rows. Where they
    are not, rows count with their own scale r_v and the law is a `SeparableLaw`. Gaussian rows of
    one length have Var r_v = 2 Σ s_k²/(Σ s_k)² with s_k = λ_k/(λ_k+τ̄), which is due to chance, so
    r_v − 1 is multiplied by √(1 − chance/observed).
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    ridge = max(float(np.median(values)), 1e-3 * float(values.mean()))
    whitening = (vectors / np.sqrt(values + ridge)).astype(rows.dtype)
    r = np.empty(len(rows))
    for start in range(0, len(rows), 4096):
        block = rows[start : start + 4096] @ whitening
        r[start : start + 4096] = np.einsum("ij,ij->i", block, block)
    r /= r.mean()
    shares = values / (values + ridge)
    chance = 2 * float(np.sum(shares**2) / np.sum(shares) ** 2)
    spread = float(r.var())
    shrinkage = np.sqrt(max(0.0, 1 - chance / spread)) if spread > 0 else 0.0
    return np.asarray(np.maximum(1 + shrinkage * (r - 1), 1e-3))


def scale_atoms(scales: ArrayLike, n_atoms: int = 24) -> Floats:
    """Condense row scales to a few atoms of equal mass, the means between quantiles.

    Examples
    --------
    >>> scale_atoms([1.0, 3.0, 1.0, 3.0], n_atoms=2)
    array([0.5, 1.5])
    """
    r = np.sort(real_array("scales", scales, ndim=1))
    n = min(n_atoms, len(r))
    edges = np.linspace(0, len(r), n + 1).round().astype(int)
    atoms = np.array([r[a:b].mean() for a, b in pairwise(edges)])
    return np.asarray(atoms / atoms.mean())


@dataclass(frozen=True, kw_only=True)
class SubsetCheck:
    """The spectrum of small subsets of rows, observed and predicted from the other rows."""

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
        Number of disjoint subsets, fewer when the table is too small.
    rng : Generator, int or None
        Draws the subsets.

    Returns
    -------
    SubsetCheck
        The distance between observed and predicted spectrum, and its tolerance by chance.

    Notes
    -----
    Derived in docs/theory/tables.md, "The held-out check".

    The other rows give the population spectrum τ and the row scales r; the law of
    both at δ' = d/V' ≫ δ is far from what the table itself shows, so the comparison can fail.
    It does when the quadratic forms on which the law rests do not concentrate: rows of unequal
    length make Silverstein's law fail, clusters and heavy coordinates make both fail.
    """
    rows = array("rows", rows, (2,), "fiu")
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
