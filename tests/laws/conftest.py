"""References that share nothing with the library: 40-digit arithmetic, and quadrature."""

import itertools

import mpmath
import numpy as np
import pytest


def exact_product_density(delta, gamma, x, scale=1.0):
    """Density of scale (MP_delta ⊠ MP_gamma) at x: the roots of its cubic, to 40 digits."""
    with mpmath.workdps(60):
        d, g, z, k = (mpmath.mpf(float(v)) for v in (delta, gamma, x, scale))
        cubic = [1, 1 + d + g - z / k, d + g + d * g, d * g]  # (t+1)(t+δ)(t+γ) − (z/κ) t²
        t = max(mpmath.polyroots(cubic, maxsteps=500, extraprec=600), key=mpmath.im)
        return -mpmath.im((1 + 1 / t) / z) / mpmath.pi


def nodes_and_weights(law, n=48, power=4):
    """Gauss–Legendre on panels of equal mass, so that no peak is missed.

    Next to an edge x = edge ± width vᵖ takes the square root, or the singularity of a hard edge,
    out of the integrand.
    """
    g, w = np.polynomial.legendre.leggauss(n)
    v, w = (g + 1) / 2, w / 2
    points, weights = [], []
    for low, high in law.support:
        start, stop = law.cdf(low), law.cdf(high) - sum(law.atom.mass[law.atom.location == high])
        cuts = law.quantile(start + (stop - start) * np.linspace(0, 1, 17)[1:-1])
        cuts = np.unique([low, *cuts, high])
        for a, b in itertools.pairwise(cuts):
            if a == low:
                x, slope = a + (b - a) * v**power, power * v ** (power - 1)
            elif b == high:
                x, slope = b - (b - a) * v**power, power * v ** (power - 1)
            else:
                x, slope = a + (b - a) * v, 1.0
            points.append(x)
            weights.append((b - a) * slope * w)
    return np.concatenate([np.zeros(0), *points]), np.concatenate([np.zeros(0), *weights])


def expectation(law, function, **options):
    """∫ function dν, by quadrature of the density and a sum over the atoms.

    Several functions are given as one that returns them as rows.
    """
    x, w = nodes_and_weights(law, **options)
    location, mass = law.atom
    return function(x) @ (law.density(x) * w) + function(location) @ mass


@pytest.fixture(scope="session")
def product_density():
    return exact_product_density


@pytest.fixture(scope="session")
def expect():
    return expectation
