"""Atoms and moments of an expression, exactly.

Atoms follow the rules of free convolution: A ⊞ B has an atom of mass p + q − 1 at a + b for atoms
(a, p), (b, q) with p + q > 1; A ⊠ B has one at ab by the same rule when ab ≠ 0, and the larger of
the two masses at 0 (Bercovici & Voiculescu 1998; Belinschi 2003).

Moments follow by Lagrange inversion of the power series of the stages. With w = 1/z,
y = Σ mₖ wᵏ and G = w(1 + y), a stage moves w at fixed y or fixed G, so

    multiplication, 1/S(y) = p(y):   m'ₙ = (1/n) [wⁿ⁻¹] y'(w) p(y(w))ⁿ
    addition, R-transform R:         m'ₙ = (1/(n+1)) [wⁿ] G'(w) (1 + w R(G(w)))ⁿ⁺¹

and for the second law of a pair R and p are themselves series, found by the same inversion.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    Stage,
)

Atoms = dict[float, float]  # location to mass
Series = NDArray[np.float64]  # coefficients of w⁰, w¹, …, truncated
_ROUNDING = 1e-14


def atoms(law: Expression, above: float = _ROUNDING) -> Atoms:
    """Return the locations and masses of all atoms, in increasing order.

    Only masses `above` rounding error count. A slightly negative number finds also the places
    where p + q = 1: no atom, but an edge at which the density is infinite.
    """
    if isinstance(law.base, PointMasses):
        found = dict(zip(law.base.locations.tolist(), law.base.weights.tolist(), strict=True))
    else:
        a, b = atoms(law.base.left, above), atoms(law.base.right, above)
        if law.base.kind == "additive":
            found = _sum(a, b, above)
        else:
            pairs = _heavy(a, b, above)
            found = {x * v: p + q - 1 for x, p, v, q in pairs if x * v != 0}
            found |= _at_zero(max(a.get(0.0, 0.0), b.get(0.0, 0.0)))
    for stage in law.stages:
        if isinstance(stage, Addition):
            if stage.variance:
                found = {}
            for _, c in stage.parts:
                found = _sum(found, _at_zero(1 - 1 / c), above)
            found = {x + stage.shift: p for x, p in found.items()}
        else:
            found = _at_zero(max([found.get(0.0, 0.0), *(1 - 1 / c for c in stage.ratios)]))
    return dict(sorted(found.items()))


def _at_zero(mass: float) -> Atoms:
    return {0.0: mass} if mass > 0 else {}


def _sum(a: Atoms, b: Atoms, above: float) -> Atoms:
    return {x + v: p + q - 1 for x, p, v, q in _heavy(a, b, above)}


def _heavy(a: Atoms, b: Atoms, above: float) -> Iterator[tuple[float, float, float, float]]:
    """Yield the pairs of atoms whose masses exceed one together."""
    heaviest = max(b.values(), default=0.0)
    for x, p in a.items():
        if p + heaviest - 1 > above:
            yield from ((x, p, v, q) for v, q in b.items() if p + q - 1 > above)


def moments(law: Expression, order: int) -> Series:
    """Return m₀, …, m_order."""
    if isinstance(law.base, PointMasses):
        t, h = law.base.locations, law.base.weights
        m = np.array([h @ t**k for k in range(order + 1)])
        m[0] = 1.0
    else:
        a, b = moments(law.base.left, order), moments(law.base.right, order)
        if law.base.kind == "additive":
            m = _after_addition(a, _cumulants(b)[1:])
        else:
            m = _after_multiplication(a, _inverse_s(b))
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
        return _after_multiplication(m, p)
    return _after_addition(m, _r_series(stage, order))


def _r_series(stage: Addition, order: int) -> Series:
    r = np.zeros(max(order, 2))
    r[0], r[1] = stage.shift, stage.variance
    for s, c in stage.parts:
        r += s * (c * s) ** np.arange(len(r))
    return r[:order]


def _after_multiplication(m: Series, p: Series) -> Series:
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


def _after_addition(m: Series, r: Series) -> Series:
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
    centred = _after_addition(m, np.append(-m[1], np.zeros(order - 1))) if order else m
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
