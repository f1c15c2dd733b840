"""Moments of an expression, by Lagrange inversion of the power series of its stages.

With w = 1/z, y = Σ mₖ wᵏ and G = w(1 + y), a stage moves w at fixed y or fixed G, so

    product, 1/S(y) = p(y):   m'ₙ = (1/n) [wⁿ⁻¹] y'(w) p(y(w))ⁿ
    sum, R-transform R:       m'ₙ = (1/(n+1)) [wⁿ] G'(w) (1 + w R(G(w)))ⁿ⁺¹

and for the second law of a pair R and p are themselves series, found by the same inversion.
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    Stage,
)

Series = NDArray[np.float64]  # coefficients of w⁰, w¹, …, truncated


def moments(law: Expression, order: int) -> Series:
    """Return m₀, …, m_order."""
    if isinstance(law.base, PointMasses):
        t, h = law.base.locations, law.base.weights
        m = np.array([h @ t**k for k in range(order + 1)])
        m[0] = 1.0
    else:
        a, b = moments(law.base.left, order), moments(law.base.right, order)
        if law.base.kind == "sum":
            m = _after_sum(a, _cumulants(b)[1:])
        else:
            m = _after_product(a, _inverse_s(b))
    for stage in law.stages:
        m = _after(m, stage)
    return m


def _after(m: Series, stage: Stage) -> Series:
    order = len(m) - 1
    if isinstance(stage, Multiplication):
        p = np.zeros(order + 1)
        p[0] = 1.0
        for c in stage.ratios:
            p[1:] += c * p[:-1]
        return _after_product(m, p)
    return _after_sum(m, _r_series(stage, order))


def _r_series(stage: Addition, order: int) -> Series:
    r = np.zeros(max(order, 2))
    r[0], r[1] = stage.shift, stage.variance
    for s, c in stage.parts:
        r += s * (c * s) ** np.arange(len(r))
    return r[:order]


def _after_product(m: Series, p: Series) -> Series:
    """Moments after multiplication by the law with 1/S(y) = Σ pₖ yᵏ."""
    order = len(m) - 1
    y = m.copy()
    y[0] = 0.0
    factor = _compose(p, y)
    derivative = np.append(y[1:] * np.arange(1, order + 1), 0.0)
    after, power = np.ones(order + 1), derivative
    for n in range(1, order + 1):
        power = _times(power, factor)
        after[n] = power[n - 1] / n
    return after


def _after_sum(m: Series, r: Series) -> Series:
    """Moments after addition of the law with R(g) = Σ rₖ gᵏ."""
    order = len(m) - 1
    g = np.append(0.0, m[:-1])
    factor = np.append(1.0, _compose(r, g)[:order])
    power = m * np.arange(1, order + 2)  # G'(w)
    after = np.ones(order + 1)
    power = _times(power, factor)
    for n in range(1, order + 1):
        power = _times(power, factor)
        after[n] = power[n] / (n + 1)
    return after


def _cumulants(m: Series) -> Series:
    """Free cumulants κ₀ = 0, κ₁, …: κₙ = −(1/(n−1)) [wⁿ] M(w)^(1−n), M = 1 + y."""
    order = len(m) - 1
    kappa = np.zeros(order + 1)
    if order:
        kappa[1] = m[1]
    centred = _after_sum(m, np.append(-m[1], np.zeros(order - 1))) if order else m
    inverse = _reciprocal(centred)
    power = np.zeros(order + 1)
    power[0] = 1.0
    for n in range(2, order + 1):
        power = _times(power, inverse)
        kappa[n] = -power[n] / (n - 1)
    return kappa


def _inverse_s(m: Series) -> Series:
    """Coefficients of 1/S(y) = y/((1+y) w(y)), w(y) the inverse of y(w) = Σ mₖ wᵏ."""
    order = len(m) - 1
    if order == 0:
        return np.ones(1)
    ratio = _reciprocal(np.append(m[1:], 0.0))  # w/y(w)
    w, power = np.zeros(order + 1), np.zeros(order + 1)
    power[0] = 1.0
    for n in range(1, order + 1):
        power = _times(power, ratio)
        w[n] = power[n - 1] / n
    over = np.append(w[1:], 0.0)  # w(y)/y
    return _reciprocal(over + np.append(0.0, over[:-1]))


def _times(a: Series, b: Series) -> Series:
    return np.convolve(a, b)[: len(a)]


def _compose(outer: Series, inner: Series) -> Series:
    """Return outer(inner(w)) by Horner's rule; inner has no constant term."""
    result = np.zeros(len(inner))
    for coefficient in outer[::-1]:
        result = _times(result, inner)
        result[0] += coefficient
    return result


def _reciprocal(a: Series) -> Series:
    b = np.zeros(len(a))
    b[0] = 1 / a[0]
    for n in range(1, len(a)):
        b[n] = -b[0] * (a[1 : n + 1] @ b[n - 1 :: -1][:n])
    return b
