r"""The Tracy–Widom law of the largest eigenvalue of a real symmetric noise matrix (β = 1).

Where the density of a bulk ends like a square root, ρ(x) ≈ (1/π) ϖ^{3/2} √(λ₊ − x), the largest
of d eigenvalues fluctuates as λ₊ + d^{−2/3} ϖ^{−1} X, with X of this law whatever the matrix.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import invalid_argument, real_array

__all__ = [
    "TRACY_WIDOM_MEAN",
    "TRACY_WIDOM_STD",
    "tracy_widom_quantile",
    "tracy_widom_survival",
]

TRACY_WIDOM_MEAN = -1.2065335745820
TRACY_WIDOM_STD = 1.607781034581**0.5
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
REACH = 16.0  # Ai(16) is 1e-19


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
