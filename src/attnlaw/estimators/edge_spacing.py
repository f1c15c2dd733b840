r"""The largest eigenvalue against those below it, whatever the law of the noise.

Where the density of a bulk ends like a square root, its largest eigenvalues are λ₊ + s A_k with
the same random A₁ > A₂ > … (Airy points, β = 1) for every law; only λ₊ and s differ. A statistic
that no shift and no scale can change is therefore the same for every law (Onatski 2009). Here

    T = (x₁ − Σ_k c_k x_{k+1}) / Σ_k e_k x_{k+1} ,   k = 1 … 12,

with fixed c and e: the first sum is the best linear prediction of A₁ that is right for every
shift, scale and quadratic bend, the second the best estimate of s. For x one may take any smooth
function of λ; −1/√λ bends least in the bulks that occur. False alarms at a nominal 5 % were 2 to
7 % for MP_γ, MP_δ ⊠ MP_γ and a uniform noise spectrum, and 9 to 11 % for an exponential one, which
has no edge (benchmarks/edge_calibration.py).
"""

import numpy as np

from attnlaw._checks import Floats

__all__ = ["SPACINGS", "spacing_edge", "spacing_p_value"]

SPACINGS = 12
"""Eigenvalues below the one in question that are used."""

# From 20,000 draws of the tridiagonal GOE (n = 3000), of which the 13 largest eigenvalues are
# Airy points: their means and covariance give c (exact for 1, a, a²) and e (exact for 1, a).
# fmt: off
PREDICTION = np.array([  # c: Σc = 1
    1.2865, 0.2860, 0.0834, -0.0631, -0.1003, -0.2289,
    -0.1856, -0.2465, -0.2211, -0.1818, -0.0340, 0.6054,
])
UNIT = np.array([  # e: Σe = 0
    0.03727, 0.02049, 0.01969, 0.01191, 0.01221, 0.00386,
    0.00751, 0.00068, -0.00371, -0.01024, -0.02298, -0.07669,
])
MEAN_OF_LARGEST = -1.2065  # E A₁
TAIL_PROBABILITIES = np.array(
    [1.0, 0.99, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005]
)
TAIL_QUANTILES = np.array([
    -6.0, -2.542, -1.607, -0.966, -0.125, 0.87, 1.887,
    2.544, 3.133, 3.95, 4.488, 4.89, 5.695, 6.252,
])
# fmt: on
TAIL_RATE = 1.23  # of −log P(T > t) beyond the last quantile, where it grows faster still


def spacing_p_value(eigenvalues: Floats) -> float:
    """P-value of the first of thirteen positive eigenvalues in falling order.

    Examples
    --------
    >>> even = np.linspace(2.0, 1.0, 13)
    >>> spacing_p_value(even) > 0.05, spacing_p_value(np.append(4.0, even[1:])) < 1e-4
    (True, True)
    """
    x = -1 / np.sqrt(eigenvalues)
    T = _excess(x)
    beyond = max(T - TAIL_QUANTILES[-1], 0.0)
    within = float(np.interp(T, TAIL_QUANTILES, np.log(TAIL_PROBABILITIES)))
    return float(np.exp(within - TAIL_RATE * beyond))


def spacing_edge(eigenvalues: Floats) -> float:
    """Edge λ₊ of the bulk whose thirteen largest eigenvalues are given, in falling order."""
    x = -1 / np.sqrt(eigenvalues)
    edge = PREDICTION @ x[1:] - MEAN_OF_LARGEST * max(float(UNIT @ x[1:]), 0.0)
    return float(1 / edge**2) if edge < 0 else float("inf")


def _excess(x: Floats) -> float:
    """Return T, +∞ when the eigenvalues below are all alike."""
    above, unit = float(x[0] - PREDICTION @ x[1:]), float(UNIT @ x[1:])
    if unit <= 0:
        return float("inf") if above > 0 else 0.0
    return above / unit
