"""The noise behind a spectrum: population variances and row lengths, estimated from a table."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, invalid_argument, real, real_array
from attnlaw.laws.separable import SeparableLaw

__all__ = ["population_spectrum", "rank_groups", "row_scales", "scale_atoms"]


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
        At most so many corrections; they stop as soon as the fit is as good as chance allows.

    Returns
    -------
    array of shape (d,)
        Variances τ, increasing, whose law at this ratio has the given spectrum.

    Notes
    -----
    Derived in docs/theory/tables.md, "Finding the population spectrum".

    The law H ⊠ MP_δ spreads each population eigenvalue over a relative width of about 4√δ. To
    undo that, predicted and seen quantiles are brought together one by one: with F the
    distribution function of the law of the present τ and q_i its quantile at (i−½)/d,

        τ_i ← τ_i λ_i/q_i ,   then sorted and rescaled to keep the trace.

    Inversion is ill-posed, so the corrections stop at the size of chance: when F(λ_i) differs from
    (i−½)/d by less than 1.5/d everywhere, which is about half of what the true H shows.

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
    delta = float(real("ratio", ratio, above=0))
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
    """Return the variance τ of each group whose law has the quantiles seen.

    A step that makes the fit worse is taken back, and the next ones are half as long.
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
        Of the rows, or of others like them.

    Returns
    -------
    array of shape (V,)
        r_v = e_vᵀ (Σ̂+τ̄)⁻¹ e_v, τ̄ the median eigenvalue, divided by its mean, and drawn towards 1
        by the share of its variance that Gaussian rows of equal length would show too.

    Notes
    -----
    The spectral law rests on quadratic forms e_vᵀ A e_v being the same for all rows. Where they
    are not, rows count with their own scale r_v and the law is a `SeparableLaw`. Gaussian rows of
    one length have Var r_v = 2 Σ s_k²/(Σ s_k)² with s_k = λ_k/(λ_k+τ̄), which is chance and not
    length, so r_v − 1 is multiplied by √(1 − chance/observed).
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
