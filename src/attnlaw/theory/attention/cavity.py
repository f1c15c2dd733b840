"""Heads at large inverse temperature: rows whose largest entries are kept one by one.

A row is a softmax over n independent scores, given the query's norm r. Its K largest entries are
those of the largest order statistics of n scores, exactly; the sums of all others are replaced by
their means given the K-th. A key whose score is x (for a query of norm 1) has a norm s with
d_k s² = x² + χ²_{d_k−1}, and its column is that of its norm. Uniform attention is a matrix of rank
one and changes no law; so does c_i 1ᵀ for any c, and c_i is the mean of the small entries, which
leaves the least energy. Derived in docs/theory/large-beta.md, "Fluctuating resolvents".
"""

from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammainc, gammaincinv, log_ndtr, ndtri

from attnlaw._checks import Floats
from attnlaw.laws import CavityLaw, HeavyRows
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.kernel import Kernel
from attnlaw.theory.attention.rows import row_energies

__all__ = ["cavity_law", "weyl_points"]

_ROWS = 512
_ENTRIES = 24
_SWEEPS = 40


def cavity_law(model: SelfAttention) -> CavityLaw:
    """Return the law of a single head by the cavity method."""
    n = model.n_tokens
    kernel = Kernel(model)
    mean = float(row_energies(kernel, np.array([float(n)]))[0] @ kernel.weights)
    return CavityLaw([_heavy_rows(model, sweep) for sweep in range(_SWEEPS)], mean)


def weyl_points(first: int, n_points: int, n_coordinates: int) -> Floats:
    """Points ({i²√2}, {i²√3}, {i²√5}, …) for n whole numbers i from the first on.

    Quadratic Weyl sequences: deterministic, evenly distributed in any number of coordinates, and,
    unlike lattices, with gaps like those of independent points (Rudnick & Sarnak 1998), as the
    Poisson numbers of entries in a column need.

    Examples
    --------
    >>> weyl_points(1, 2, 3).round(4)      # fractional parts of i²√2, i²√3, i²√5
    array([[0.4142, 0.7321, 0.2361],
           [0.6569, 0.9282, 0.9443]])
    """
    roots = np.array([isqrt(p << 128) % 2**64 for p in _primes(n_coordinates)], dtype=np.uint64)
    i = np.arange(first, first + n_points, dtype=np.uint64)
    return ((i * i)[:, None] * roots >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54


def _primes(number: int) -> list[int]:
    primes: list[int] = []
    candidate = 2
    while len(primes) < number:
        if all(candidate % p for p in primes):
            primes.append(candidate)
        candidate += 1
    return primes


def _heavy_rows(model: SelfAttention, sweep: int) -> HeavyRows:
    n, d = model.n_tokens, model.head_dimension
    P, K = _ROWS, min(_ENTRIES, n - 1)
    u = weyl_points(1 + P * sweep, P, 2 * K + 1)
    strata = (np.argsort(np.argsort(u, axis=0), axis=0) + 0.5) / P  # each coordinate evenly
    # upper tails of the order statistics: 1 − v_k = Π (uniform)^{1/(n−j)}
    tails = -np.expm1(np.cumsum(np.log(strata[:, :K]) / (n - np.arange(K)), axis=1))
    if model.qk_norm:
        sine = betaincinv((d - 1) / 2, 0.5, np.minimum(2 * tails, 1.0))  # squared
        x = np.asarray(np.sqrt(d * (1 - sine)), dtype=float)
        spread = np.full(P, model.inverse_temperature)
        place = u[:, K : 2 * K]
    else:
        x = np.asarray(-ndtri(tails), dtype=float)
        spread = model.inverse_temperature * np.sqrt(2 * gammaincinv(d / 2, strata[:, -1]) / d)
        squared_norm = x**2 + 2 * gammaincinv((d - 1) / 2, u[:, K : 2 * K])
        place = np.asarray(gammainc(d / 2, 0.5 * squared_norm), dtype=float)
    columns = np.minimum((P * place).astype(np.intp), P - 1)
    top = spread * x[:, 0]
    heavy = np.exp(spread[:, None] * x - top[:, None])
    light = _light_sums(model, spread, x[:, -1], top) * (n - K)
    total = heavy.sum(axis=1) + light[0]
    mean = light[0] / (n - K)
    squares = n * ((heavy - mean[:, None]) / total[:, None]) ** 2
    rest = n * np.maximum(light[1] - light[0] * mean, 0.0) / total**2
    return HeavyRows(squares, rest, columns)


def _light_sums(
    model: SelfAttention, spread: Floats, largest: Floats, top: Floats
) -> NDArray[np.float64]:
    """E[e^{bx}] and E[e^{2bx}] over e^{top}, e^{2 top} for scores x below the largest."""
    b = np.array([[1.0], [2.0]]) * spread
    shift = np.array([[1.0], [2.0]]) * top
    if not model.qk_norm:
        log_mean = 0.5 * b**2 + log_ndtr(largest - b) - log_ndtr(largest)
        return np.asarray(np.exp(log_mean - shift))
    x, weights = Kernel(model).scores(4001, cut=False)
    with np.errstate(under="ignore"):
        terms = weights * np.exp(b[:, :1] * (x - x[-1]))
    sums = np.cumsum(terms, axis=1)
    place = np.interp(largest, x, np.arange(x.size))
    below = np.array([np.interp(place, np.arange(x.size), s) for s in sums])
    share = np.interp(place, np.arange(x.size), np.cumsum(weights))
    return np.asarray(below / share * np.exp(b * x[-1] - shift))
