"""Eigenvalues that stand off a bulk of unknown shape.

`attnlaw.estimators.edge_spacing` asks the same, one eigenvalue after the other, of the twelve
below it. This test takes the last wide gap among the first fifty, so that a group of outliers
that thins out into the bulk is seen as a whole: in SmolLM2's table it counts 5 where the
sequential test stops at 0 (2 and 2 in wordllama's, none in MiniLM's).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._validation import complain, real, real_array

__all__ = ["Outliers", "find_outliers", "gap_p_value"]

N_GAPS = 10  # gaps below that set the scale
MAX_OUTLIERS = 50  # positions at which a gap is looked for

# P(largest of the first 50 scaled gaps ≥ r) at a regular edge: the very first gap has Tracy and
# Widom's tail, those inside the bulk have Wigner's. Fitted to 8,000 draws of the edge of the
# Gaussian orthogonal ensemble; tests/diagnostics/test_outliers.py draws it again.
_FIRST = (0.207, 0.3844)
_INNER = (1.611, 0.2806)


class Outliers(NamedTuple):
    """Which of the largest eigenvalues stand off the rest, and how surely."""

    n_outliers: int
    p_values: NDArray[np.float64]  # of each outlier, largest first


def gap_p_value(scaled_gap: ArrayLike) -> NDArray[np.float64]:
    """Chance of so wide a gap among the first 50 below a regular edge.

    Parameters
    ----------
    scaled_gap : array
        r = log(λ_k/λ_{k+1}) divided by the mean of the next ten such gaps.

    Notes
    -----
    A bulk whose density ends like a square root has, at its edge, the same fluctuations
    whatever its shape (the Airy process of Tracy and Widom), so a ratio of gaps needs neither
    the edge nor its scale; this is Onatski's (2009) idea. The law of the largest ratio was
    simulated: P = exp(0.207 − 0.3844 r^(3/2)) + exp(1.611 − 0.2806 r²), at most 1.

    Examples
    --------
    >>> gap_p_value([2.0, 4.48, 5.5, 13.0]).round(4)
    array([1.    , 0.0501, 0.0097, 0.    ])
    """
    r = np.maximum(real_array("scaled_gap", scaled_gap), 0.0)
    first, inner = _FIRST[0] - _FIRST[1] * r**1.5, _INNER[0] - _INNER[1] * r**2
    return np.asarray(np.minimum(1.0, np.exp(first) + np.exp(inner)))


def find_outliers(eigenvalues: ArrayLike, *, level: float = 0.01) -> Outliers:
    """Count the eigenvalues above the bulk, when nothing is known of the bulk's shape.

    Parameters
    ----------
    eigenvalues : array of shape (d,)
        Of a covariance matrix, in any order; at least 24 of them positive.
    level : float
        Chance of finding outliers in a bulk that has none.

    Returns
    -------
    Outliers
        Their number k is the last place where the scaled gap is significant; the p-value of the
        j-th is that of its own distance log(λ_j/λ_{k+1}) to the bulk in units of the bulk's gaps.

    Notes
    -----
    Derived in docs/theory/tables.md, "Outliers without knowing the noise".

    A close pair of outliers does not hide, since the last significant gap decides. Gaps are taken
    between logarithms, whose spacing at the edge is even at small sizes: at level .05 and d = 100
    to 300, δ = .1 to 2, 0 to 4.5 % of pure bulks show an outlier (with plain differences up to
    28 %). The null hypothesis is a bulk with a regular edge: a spectrum that thins out like an
    exponential has none, and its largest eigenvalues may count as outliers.

    Examples
    --------
    >>> bulk = (1 + np.linspace(-0.9, 0.9, 200)) ** 2
    >>> find_outliers(bulk).n_outliers, find_outliers([*bulk, 6.0, 6.1]).n_outliers
    (0, 2)
    """
    values = np.sort(real_array("eigenvalues", eigenvalues, ndim=1))[::-1]
    alpha = float(real("level", level, above=0, below=1))
    values = values[values > 1e-12 * max(values.max(initial=0.0), 0.0)]
    if len(values) < 2 * N_GAPS + 4:
        raise complain("eigenvalues", f"at least {2 * N_GAPS + 4} positive numbers", values)
    n = min(MAX_OUTLIERS, max(2, len(values) // 6))
    values = np.log(values)
    gaps = values[:-1] - values[1:]
    scale = np.convolve(gaps[1:], np.full(N_GAPS, 1 / N_GAPS), "valid")[:n]
    scale = np.maximum(scale, 1e-9)  # below is rounding
    significant = np.flatnonzero(gap_p_value(gaps[:n] / scale) < alpha)
    if len(significant) == 0:
        return Outliers(0, np.empty(0))
    k = int(significant[-1]) + 1
    return Outliers(k, gap_p_value((values[:k] - values[k]) / scale[k - 1]))
