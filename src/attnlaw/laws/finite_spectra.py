"""Finite spectra beside their laws: distance, histogram, fluctuations of the largest value.

Where the density of a bulk ends like a square root, ρ(x) ≈ (1/π) ϖ^{3/2} √(λ₊ − x), the largest
of d eigenvalues of a real symmetric matrix fluctuates as λ₊ + d^{−2/3} ϖ^{−1} X, with X of the
Tracy–Widom law (β = 1) whatever the matrix.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, invalid_argument, real_array
from attnlaw.laws.law import Law

__all__ = [
    "TRACY_WIDOM_MEAN",
    "TRACY_WIDOM_STD",
    "BinnedSpectrum",
    "bin_spectrum",
    "ks_distance",
    "logarithmic_bins",
    "tracy_widom_quantile",
    "tracy_widom_survival",
]

Cdf = Callable[[Floats], Floats]

TRACY_WIDOM_MEAN = -1.2065335745820
TRACY_WIDOM_STD = 1.607781034581**0.5
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
REACH = 16.0  # Ai(16) is 1e-19


def ks_distance(sample: ArrayLike, law: Law) -> float:
    """Return the Kolmogorov–Smirnov distance of a sample to a law.

    Parameters
    ----------
    sample : array
        Eigenvalues, or any numbers; its shape does not matter.
    law : Law
        Values within rounding of one of its atoms count as lying on it, and so does its mass.

    Returns
    -------
    float
        The largest distance over x of F_n(x), the share of the sample up to x, to F(x).

    Notes
    -----
    Eigenvalues are rigid: the distance of the d eigenvalues of one matrix to their limit is of
    order 1/d, not d^(−1/2) as for independent values.

    Examples
    --------
    >>> import attnlaw as al
    >>> law = al.MarchenkoPastur(0.5)
    >>> round(ks_distance(law.quantile([0.25, 0.75]), law), 12)
    0.25
    """
    x = np.sort(real_array("sample", sample).ravel())
    if not x.size:
        raise invalid_argument("sample", "at least one number", sample)
    rounding = 1e-12 * np.maximum(np.abs(law.atom.location), np.abs(x).max())
    for place, width in zip(law.atom.location, rounding, strict=True):
        x[np.abs(x - place) <= width] = place
    values, counts = np.unique(x, return_counts=True)
    upto = np.cumsum(counts) / x.size
    F = law.cdf(values)
    F_before = F.copy()
    for place, width in zip(law.atom.location, rounding, strict=True):  # with what lies that near
        F[values == place] = law.cdf(place + width)
        F_before[values == place] = law.cdf(place - width)
    after, before = np.abs(upto - F), np.abs(upto - counts / x.size - F_before)
    return float(max(after.max(), before.max()))


@dataclass(frozen=True, kw_only=True)
class BinnedSpectrum:
    """A histogram and laws at its resolution, as densities in x or in log x."""

    bins: Floats  # (n + 1,): edges of the bins, increasing
    heights: Floats  # (n,): share of all values in each bin, over its width
    x: Floats  # (m,): points at which the laws are given
    laws: dict[str, Floats] = field(default_factory=dict)  # (m,): mass of a bin around x, over it


def logarithmic_bins(values: ArrayLike, n_bins: int | None = None) -> Floats:
    """Return edges of bins that are even in the logarithm, from below the least positive value.

    Parameters
    ----------
    values : array
        Eigenvalues; those below 1e-9 of the largest count as 0 and are left out.
    n_bins : int, optional
        By default an eighth of their number, at least 20 and at most 70.

    Examples
    --------
    >>> logarithmic_bins([0.0, 1.0, 10.0], n_bins=2).round(3)
    array([ 0.8  ,  3.162, 12.5  ])
    """
    x = real_array("values", values).ravel()
    if not (x > 0).any():
        raise invalid_argument("values", "positive, at least one of them", x)
    x = x[x > 1e-9 * x.max()]
    n = int(np.clip(x.size / 8, 20, 70)) if n_bins is None else n_bins
    return np.geomspace(0.8 * x.min(), 1.25 * x.max(), n + 1)


def bin_spectrum(
    values: ArrayLike,
    bins: Floats | None = None,
    *,
    laws: Mapping[str, Law | Cdf] | None = None,
    logarithmic: bool = True,
    n_points: int = 300,
) -> BinnedSpectrum:
    """Return the histogram of a spectrum, and laws as the masses of its bins.

    Parameters
    ----------
    values : array
        Eigenvalues. Those outside the bins count in the total, as they do in a law's mass.
    bins : array, optional
        Edges, even in x or in log x; by default `logarithmic_bins(values)`.
    laws : dict, optional
        Laws by name, or their cdfs: a function of x allows for any change of variable, such as
        ``lambda s: law.cdf(s**2)`` for singular values.
    logarithmic : bool
        Densities in log x (the default), or in x.
    n_points : int
        Number of points at which the laws are given.

    Returns
    -------
    BinnedSpectrum
        With the law's F, F(x + w/2) − F(x − w/2) over the width w of a bin (in the logarithm,
        F(x e^{w/2}) − F(x e^{−w/2})): atoms and poles of a density are shown as the histogram
        shows them.

    Examples
    --------
    >>> import attnlaw as al
    >>> law = al.MarchenkoPastur(0.5)
    >>> values = law.quantile((np.arange(1000) + 0.5) / 1000)
    >>> binned = bin_spectrum(values, laws={"law": law})
    >>> middle = np.sqrt(binned.bins[1:] * binned.bins[:-1])
    >>> bool(np.abs(np.interp(middle, binned.x, binned.laws["law"]) - binned.heights).max() < 0.06)
    True
    """
    values = real_array("values", values).ravel()
    edges = logarithmic_bins(values) if bins is None else real_array("bins", bins, ndim=1)
    if len(edges) < 2 or not (np.diff(edges) > 0).all() or (logarithmic and edges[0] <= 0):
        kind = "positive and increasing" if logarithmic else "increasing"
        raise invalid_argument("bins", f"at least two numbers, {kind}", edges)
    scale, back = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    counts, _ = np.histogram(values, edges)
    ends = scale(edges)
    place = np.linspace(ends[0], ends[-1], n_points)
    half = (ends[-1] - ends[0]) / (len(ends) - 1) / 2
    low, high = np.asarray(back(place - half)), np.asarray(back(place + half))
    masses: dict[str, Floats] = {}
    for name, law in (laws or {}).items():
        cdf = law.cdf if isinstance(law, Law) else law
        masses[name] = (cdf(high) - cdf(low)) / (2 * half)
    return BinnedSpectrum(
        bins=edges,
        heights=counts / values.size / np.diff(ends),
        x=np.asarray(back(place)),
        laws=masses,
    )


def tracy_widom_survival(x: ArrayLike) -> Any:
    """Probability P(X > x) of the real Tracy–Widom law, accurate far into the right tail.

    Parameters
    ----------
    x : float or array

    Returns
    -------
    float or array
        1 − F₁(x), to about 1e-14 where it is of order 1 and to 1e-9 of itself in the right tail.

    Notes
    -----
    Ferrari and Spohn (2005): F₁(x) = det(1 − B) with the operator B(s, t) = Ai(s + t + x) on
    L²(0, ∞). Gauss–Legendre quadrature turns it into a symmetric matrix (Bornemann 2010), and
    1 − F₁ = −expm1(Σ log1p(−b_i)) over its eigenvalues keeps the relative accuracy of small
    probabilities.

    Examples
    --------
    >>> tracy_widom_survival(np.array([0.9793, 2.0234])).round(5)
    array([0.05, 0.01])
    """
    from scipy.special import airy

    x = real_array("x", x)
    flat = x.ravel()
    result = np.empty(flat.size)
    for start in range(0, flat.size, 256):
        part = np.clip(flat[start : start + 256], -12.0, 200.0)[:, None]  # F₁(−12) is 1e-33
        span = np.maximum(-part, 0) + REACH / np.sqrt(1 + np.maximum(part, 0) / 4)
        nodes, weights = span * (NODES + 1) / 2, span * WEIGHTS / 2
        root, (i, j) = np.sqrt(weights), np.tril_indices(len(NODES))
        B = np.zeros((len(part), len(NODES), len(NODES)))  # the lower half is all that is read
        B[:, i, j] = airy(nodes[:, i] + nodes[:, j] + part)[0] * root[:, i] * root[:, j]
        b = np.minimum(np.linalg.eigvalsh(B), 1.0)
        with np.errstate(divide="ignore"):
            result[start : start + 256] = -np.expm1(np.log1p(-b).sum(axis=1))
    return (np.clip(result, 0.0, 1.0) + 0.0).reshape(x.shape)[()]  # no −0


def tracy_widom_quantile(q: ArrayLike) -> Any:
    """Point below which the real Tracy–Widom law has mass q, for 0 < q < 1.

    Examples
    --------
    >>> round(float(tracy_widom_quantile(0.95)), 4)
    0.9793
    """
    from scipy.optimize import brentq

    q = real_array("q", q)
    if not ((q > 0) & (q < 1)).all():
        raise invalid_argument("q", "between 0 and 1", q if q.ndim else float(q))

    def invert(mass: float) -> float:
        excess = 1 - mass
        return float(brentq(lambda x: tracy_widom_survival(x) - excess, -12.0, 40.0, xtol=1e-12))

    found: NDArray[np.float64] = np.array([invert(float(mass)) for mass in q.ravel()])
    return found.reshape(q.shape)[()]
