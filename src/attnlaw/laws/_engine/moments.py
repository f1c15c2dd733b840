"""Atoms and moments of an expression, exactly, and quantiles of a law.

Atoms follow the rules of free convolution: A ⊞ B has an atom of mass p + q − 1 at a + b for atoms
(a, p), (b, q) with p + q > 1; A ⊠ B has one at ab by the same rule when ab ≠ 0, and the larger of
the two masses at 0 (Bercovici & Voiculescu 1998; Belinschi 2003).

Moments follow by Lagrange inversion of the power series of the stages. With w = 1/z,
y = Σ mₖ wᵏ and G = w(1 + y), a stage moves w at fixed y or fixed G, so

    multiplication, 1/S(y) = p(y):   m'ₙ = (1/n) [wⁿ⁻¹] y'(w) p(y(w))ⁿ
    addition, R-transform R:         m'ₙ = (1/(n+1)) [wⁿ] G'(w) (1 + w R(G(w)))ⁿ⁺¹

and for the second law of a pair R and p are themselves series, found by the same inversion.

Quantiles invert the cdf of any law: a table of it, then Newton's method inside one cell.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    Stage,
)

if TYPE_CHECKING:
    from attnlaw.laws.law import Law


Atoms = dict[float, float]  # location to mass
Series = NDArray[np.float64]  # coefficients of w⁰, w¹, …, truncated
_ROUNDING = 1e-14
_GRADED = np.pi / 48 * 0.3 ** np.arange(8.0, 0.0, -1)  # angles close to an edge
_ANGLES = np.concatenate(
    [[0.0], _GRADED, np.linspace(0.0, np.pi, 49)[1:-1], np.pi - _GRADED[::-1], [np.pi]]
)
_LAST = len(_ANGLES) - 2  # the last cell


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


class QuantileTable:
    """The cdf of a law at nodes of each interval, x = low + (high − low) sin²(θ/2).

    The angle θ spreads the points near the edges, where the density is like a square root; a
    cdf that is smooth in θ is inverted to rounding error in a few Newton steps.
    """

    def __init__(self, law: "Law") -> None:
        self.law = law
        low, high = law.support.T
        self.low, self.width = low, high - low
        location, mass = law.atom
        # Mass below each interval, and up to its end, atoms included.
        start = np.append(0.0, np.cumsum(law._interval_masses))[:-1] if low.size else np.zeros(0)
        self.below = start + np.array([mass[location <= x].sum() for x in low])
        within = [mass[(location > a) & (location < b)].sum() for a, b in law.support]
        self.upto = self.below + law._interval_masses + np.array(within)
        self.atom_top = law.cdf(location)
        self.top = max([*self.upto, *self.atom_top])  # one, but for rounding
        self._rows: dict[int, Floats] = {}

    def invert(self, q: Floats) -> Floats:
        """Return the quantiles of a flat array q."""
        q = np.minimum(q, self.top)
        x = np.full(q.size, np.nan)
        for location, mass, top in zip(*self.law.atom, self.atom_top, strict=True):
            x[(q <= top) & (np.maximum(q, 1e-15) > top - mass)] = location
        if not self.low.size:
            x[np.isnan(x)] = self.law.atom.location[0]  # q = 0
            return x
        todo = np.flatnonzero(np.isnan(x))
        interval = np.searchsorted(self.upto, q[todo] - 1e-15)
        interval = np.minimum(interval, len(self.low) - 1)
        for k in np.unique(interval).tolist():
            here = todo[interval == k]
            x[here] = self._inside(k, q[here])
        return x

    def _row(self, k: int) -> Floats:
        """Return the cdf at the nodes of interval k."""
        if k not in self._rows:
            x = self.low[k] + self.width[k] * np.sin(_ANGLES[1:-1] / 2) ** 2
            values = np.r_[self.below[k], self.law._cdf_inside(x), self.upto[k]]
            self._rows[k] = np.maximum.accumulate(values)
        return self._rows[k]

    def _inside(self, k: int, q: Floats) -> Floats:
        row, low, width = self._row(k), self.low[k], self.width[k]
        cell = np.clip(np.searchsorted(row, q, side="right") - 1, 0, _LAST)
        below, above = row[cell], row[cell + 1]
        share = np.clip((q - below) / np.maximum(above - below, 1e-300), 0.0, 1.0)
        # In the outermost cells the cdf is a power of θ, which is read off the next cell.
        share = np.where(cell == 0, share ** _power(row), share)
        share = np.where(cell == _LAST, 1 - (1 - share) ** _power(row[-1] - row[::-1]), share)
        theta = _ANGLES[cell] + (_ANGLES[cell + 1] - _ANGLES[cell]) * share
        # Rounding may put a point in the cell next to its own.
        a, b = _ANGLES[np.maximum(cell - 1, 0)], _ANGLES[np.minimum(cell + 2, _LAST + 1)]
        theta = np.clip(theta, 1e-14, np.pi - 1e-8)
        todo = np.flatnonzero((q > row[0]) & (q < row[-1]))
        for _ in range(60):
            if not todo.size:
                break
            now = theta[todo]
            sine = np.sin(now / 2)
            density, value = self.law._inside(low + width * sine**2)
            error = value - q[todo]
            a[todo] = np.where(error <= 0, now, a[todo])
            b[todo] = np.where(error >= 0, now, b[todo])
            with np.errstate(all="ignore"):
                new = now - error / (density * width * sine * np.cos(now / 2))
            inside = (new > a[todo]) & (new < b[todo])
            new = np.where(inside, new, 0.5 * (a[todo] + b[todo]))
            far = np.abs(error) > 4e-16
            theta[todo] = np.where(far, new, now)
            todo = todo[far & (np.abs(new - now) > 1e-15 * now)]
        x = low + width * np.sin(theta / 2) ** 2
        return np.asarray(np.where(q <= row[0], low, np.where(q >= row[-1], low + width, x)))


def _power(row: Floats) -> float:
    """Exponent 1/e when the cdf grows from the edge like θᵉ."""
    rise = np.log(max(row[2] - row[0], 1e-300) / max(row[1] - row[0], 1e-300))
    return float(np.log(_ANGLES[2] / _ANGLES[1]) / rise) if rise > 0.1 else 1.0
