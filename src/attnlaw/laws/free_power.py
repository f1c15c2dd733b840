"""Powers of a law under free multiplicative convolution: ν ⊠ … ⊠ ν."""

from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import Complexes, Floats, count, frozen, invalid_argument
from attnlaw.laws._engine import expression as ex
from attnlaw.laws._engine.continuation import follow
from attnlaw.laws._engine.expression import Expression, PointMasses
from attnlaw.laws._engine.moments import moments
from attnlaw.laws._engine.uniformisation import evaluate, mass_above
from attnlaw.laws.law import Atom, Law, NumericalLaw

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

__all__ = ["FreePower"]

_POINTS = 280
_SMALL = 2e-4  # mass below the table is about this
_ANGLES = np.concatenate([np.linspace(np.pi, 0.1, 60), np.geomspace(0.1, 1e-8, 24)[1:], [0.0]])


class FreePower(NumericalLaw):
    """ν^{⊠D}, the law of a product of D free matrices with the law ν.

    Parameters
    ----------
    law : Law
        ν, on [0, ∞) and given by one set of point masses, such as `AttentionBulk`.
    exponent : int
        D ≥ 1.

    Notes
    -----
    S-transforms multiply. With a parameter u of ν, at which z, G and y = zG − 1,

        z_D = z^D (y/(1+y))^{D−1} ,    y_D = y ,
        ν^{⊠D}((x, ∞)) = D ν-phase + (D−1) arg(y)/π ,   from ∫ (1+y) dz_D/z_D = DΦ + (D−1) log y .

    For each modulus of x the parameter starts where x is negative and everything is real, and is
    followed through the upper half plane, which has no singularities (docs/theory/depth.md, "The
    law").

    Examples
    --------
    MP_1 ⊠ MP_1 ends at 27/4:

    >>> from attnlaw.laws import MarchenkoPastur
    >>> law = FreePower(MarchenkoPastur(1.0), 2)
    >>> law.edges.round(6)[1]
    np.float64(6.75)
    >>> bool(abs(law.cdf(1.0) - (MarchenkoPastur(1.0) @ MarchenkoPastur(1.0)).cdf(1.0)) < 1e-5)
    True
    """

    law: Law
    exponent: int

    def __init__(self, law: Law, exponent: int, scale: float = 1.0) -> None:
        exponent = count("exponent", exponent)
        expression = law._expression
        if expression.n_leaves != 1 or not expression.is_positive:
            raise invalid_argument("law", "made of one set of non-negative point masses", law)
        self.__dict__.update(law=law, exponent=exponent, scale=float(scale))

    @property
    def _base(self) -> Expression:
        return self.law._expression

    def _curve(self, u: Complexes) -> tuple[Complexes, Complexes, Complexes]:
        """z_D, its slope in u, and y."""
        D = self.exponent
        with np.errstate(all="ignore"):
            point, _ = evaluate(self._base, u[None])
            z = point.z**D * (point.y / (1 + point.y)) ** (D - 1)
            slope = z * (
                D * point.dz[0] / point.z + (D - 1) * point.dy[0] / (point.y * (1 + point.y))
            )
        return z, slope, point.y

    @cached_property
    def _negative(self) -> tuple[Floats, Floats]:
        """Log |z_D| on the negative axis, increasing, and parameters there."""
        mean = moments(self._base, 1)[1]
        zeta = mean * np.geomspace(1e-14, 1e7, 500)
        u = follow(self._base, -zeta.astype(np.complex128))[0]
        z = np.log(np.abs(self._curve(u)[0]))
        seen = np.concatenate([[True], np.diff(np.maximum.accumulate(z)) > 0])
        return z[seen], u.real[seen]

    def _parameters(self, z: Complexes) -> Complexes:
        """Parameters at points of the closed upper half plane, followed from the negative axis."""
        logs, real = self._negative
        size, end = np.abs(z), np.angle(z)
        u = np.interp(np.log(size), logs, real).astype(np.complex128)
        for share in _ANGLES / np.pi:
            target = size * np.exp(1j * (end + (np.pi - end) * share))
            if share == 0:
                target = z
            for _ in range(6 if share in (0.0, 1.0) else 2):
                value, slope, _ = self._curve(u)
                with np.errstate(all="ignore"):
                    step = (value - target) / slope
                    far = np.abs(step) > 0.3 * np.abs(u)
                    step = np.where(far, step * 0.3 * np.abs(u) / np.abs(step), step)
                u = np.where(np.isfinite(step), u - step, u)
        return u

    @cached_property
    def _top(self) -> float:
        """Right edge: where z_D has its minimum to the right of the support of ν."""
        from scipy.optimize import brentq

        if isinstance(self._base.base, PointMasses) and not self._base.stages:
            last = float(self._base.base.locations[-1])
        else:
            last = float(max([*self.law.edges[-1:], *self.law.atom.location[-1:]]))
        if self.exponent == 1:
            return last

        def slope(log_gap: float) -> float:
            u = self._right(last * (1 + np.exp(log_gap)))
            return float((self._curve(u)[1] / self._slope_of_z(u)).real[0])

        gap = float(brentq(slope, -16.0, 16.0, xtol=1e-12))
        return float(self._curve(self._right(last * (1 + np.exp(gap))))[0].real[0])

    def _right(self, z: float) -> Complexes:
        """Parameter of ν at a real point right of its support."""
        u = follow(self._base, np.array([z], dtype=np.complex128))[0]
        return np.asarray(u.real, dtype=np.complex128)

    def _slope_of_z(self, u: Complexes) -> Complexes:
        point, _ = evaluate(self._base, u[None])
        return np.asarray(point.dz[0])

    def _above(self, u: Complexes) -> Floats:
        """Mass above the points of parameters u."""
        D = self.exponent
        y = self._curve(u)[2]
        argument = np.where(y.imag < 0, np.angle(y), np.where(y.real < 0, -np.pi, 0.0))
        return np.asarray(D * mass_above(self._base, u[None]) + (D - 1) * argument / np.pi)

    @cached_property
    def _tabulated(self) -> "PchipInterpolator":
        """Cdf as a function of τ = √(log(top/x)), reversed: −τ increases with x."""
        from scipy.interpolate import PchipInterpolator

        deep = 8.0
        zero = float(self.atom.mass.sum())
        while True:
            x = self._top * np.exp(-(np.array([deep]) ** 2))
            below = 1 - float(self._above(self._parameters(x.astype(np.complex128)))[0])
            if below < zero + _SMALL or deep > 24:
                break
            deep *= 1.25
        tau = np.linspace(deep, 0.0, _POINTS)[:-1]
        u = self._parameters((self._top * np.exp(-(tau**2))).astype(np.complex128))
        cdf = np.maximum.accumulate(np.clip(1 - self._above(u), zero, 1.0))
        return PchipInterpolator(np.append(-tau, 0.0), np.append(cdf, 1.0))

    # What the base class needs.

    @cached_property
    def atom(self) -> Atom:
        """The atom at zero, as large as that of ν."""
        location, mass = self.law.atom
        mass = mass[location == 0]
        return Atom(frozen(np.zeros(mass.size)), frozen(mass))

    def _intervals(self) -> Floats:
        return np.array([[0.0, self.scale * self._top]])

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        table, zero = self._tabulated, float(self.atom.mass.sum())
        tau = np.sqrt(np.maximum(np.log(self.scale * self._top) - np.log(x), 1e-30))
        inner = np.minimum(tau, -table.x[0])
        cdf, slope = table(-inner), np.maximum(table(-inner, 1), 0.0)
        # below the table a power law, cdf − atom ~ x^p
        start = max(float(table(table.x[0])) - zero, 1e-300)
        power = max(float(table(table.x[0], 1)) / (start * -2 * table.x[0]), 1e-6)
        tail = tau > inner
        with np.errstate(under="ignore"):
            low = start * np.exp(-power * (tau**2 - inner**2))
        cdf = np.where(tail, zero + low, cdf)
        density = np.where(tail, power * low / x, slope / (2 * tau * x))
        return np.asarray(density), np.clip(cdf, 0.0, 1.0)

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._inside(x)[1]

    def _quantiles(self, q: Floats) -> Floats:
        """Bisection in log x."""
        top = np.log(self.scale * self._top)
        low, high = np.full(q.size, max(top - 700.0, -740.0)), np.full(q.size, top)
        for _ in range(60):
            middle = 0.5 * (low + high)
            left = self._cdf_inside(np.exp(middle)) < q
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        return np.asarray(np.where(q <= self.atom.mass.sum(), 0.0, np.exp(high)))

    def _cauchy(self, z: Complexes) -> Complexes:
        y = self._curve(self._parameters(np.asarray(z / self.scale)))[2]
        return np.asarray((1 + y) / z)

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx), from the power series of the law (no quadrature)."""
        k = count("k", k, at_least=0)
        if k == 1:
            return self.scale * self.law.moment(1) ** self.exponent
        whole = reduce(ex.multiplicative_convolution, [self._base] * self.exponent)
        return float(moments(whole, k)[k]) * self.scale**k

    def _rescaled(self, factor: float) -> "FreePower":
        return FreePower(self.law, self.exponent, self.scale * factor)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FreePower):
            return NotImplemented
        return (self.law, self.exponent, self.scale) == (other.law, other.exponent, other.scale)

    def __hash__(self) -> int:
        return hash((self.law, self.exponent, self.scale))

    def __repr__(self) -> str:
        head = "" if self.scale == 1 else f"{self.scale:g} * "
        return f"{head}FreePower({self.law!r}, {self.exponent})"
