"""The softmax kernel on spheres: exact coefficients in spherical harmonics.

For unit vectors u, v in R^d and any κ,

    e^{κ u·v} = Σ_k b_k(κ) N_k P_k(u·v) ,     N_k P_k(u·v) = Σ_m Y_km(u) Y_km(v) ,

with N_k the number of harmonics of degree k, P_k the Gegenbauer polynomial with P_k(1) = 1 and
b_k(κ) = Γ(d/2) (κ/2)^{1−d/2} I_{d/2−1+k}(κ). A query of norm r√d and a key of norm s√d have the
score r s √d u·v, so the kernel of a head has κ = β r s √d.
"""

from math import comb

import numpy as np
from scipy.special import gammaln

from attnlaw._checks import Floats

__all__ = ["harmonic_coefficient", "harmonic_dimension", "zonal_polynomials"]


def harmonic_dimension(dimension: int, degree: int) -> int:
    """Count the independent spherical harmonics of degree k in R^d, N_k.

    Notes
    -----
    N_k = C(d+k−1, k) − C(d+k−3, k−2), of which C(d+k−1, k) alone is the dimension of all
    polynomials of degree k: the rest are ‖·‖² times lower harmonics
    (docs/theory/realistic-heads.md, "Step 1: harmonics instead of powers").

    Examples
    --------
    >>> [harmonic_dimension(3, k) for k in range(4)]
    [1, 3, 5, 7]
    """
    d, k = dimension, degree
    return comb(d + k - 1, k) - (comb(d + k - 3, k - 2) if k >= 2 else 0)


def harmonic_coefficient(degree: int, kappa: Floats, dimension: int) -> Floats:
    """Coefficient b_k(κ) of e^{κ u·v}, by the power series of the Bessel function.

    Notes
    -----
    b_k(κ) = (κ/2)^k Γ(d/2)/Γ(d/2+k) Σ_j (κ²/4)^j / (j! (d/2+k)_j): all terms are positive, so
    that nothing cancels, and for κ² = O(d) a few dozen of them are enough in any dimension.

    Examples
    --------
    In three dimensions b_0(κ) = sinh(κ)/κ:

    >>> kappa = np.array([0.5, 2.0])
    >>> np.allclose(harmonic_coefficient(0, kappa, 3), np.sinh(kappa) / kappa, rtol=1e-15)
    True
    """
    k, half = degree, dimension / 2
    x = np.asarray(kappa, dtype=float) ** 2 / 4
    term = np.ones_like(x)
    total = np.ones_like(x)
    j = 0
    while (term > 1e-17 * total).any():
        j += 1
        term = term * (x / (j * (half + k + j - 1)))
        total = total + term
    with np.errstate(divide="ignore"):
        power = np.exp(k * np.log(np.asarray(kappa) / 2) + gammaln(half) - gammaln(half + k))
    return np.asarray(np.where(k == 0, 1.0, power) * total)


def zonal_polynomials(max_degree: int, dimension: int, u: Floats) -> list[Floats]:
    """Gegenbauer polynomials P_0 … P_K in u, with P_k(1) = 1.

    Examples
    --------
    In three dimensions they are Legendre's:

    >>> [float(p) for p in zonal_polynomials(2, 3, np.array(0.5))]
    [1.0, 0.5, -0.125]
    """
    d = dimension
    polynomials = [np.ones_like(u), np.asarray(u, dtype=float)]
    for k in range(1, max_degree):
        previous, last = polynomials[-2:]
        polynomials.append(((2 * k + d - 2) * u * last - k * previous) / (k + d - 2))
    return polynomials[: max_degree + 1]
