"""The limit law of attention in closed form: a quartic for each point, a polynomial for the edges.

With θ₂ and c = θ₁ − θ₂ the energies of the linear part and of the noise, ρ the ratio of the linear
part and κ that of the last factor, (θ₂ MP_ρ ⊞ c) ⊠ MP_κ has g = G_H as a parameter:

    z = N M / (g (1 − ag)²) ,    a = ρθ₂ ,
    N = 1 + (c + θ₂ − a) g − ac g² ,    M = 1 + (κ(c + θ₂) − a) g − κac g² ,

so a point z has four values of g, of which inside the support exactly two are not real; the one
in the lower half plane is the law's. Nothing has to be chosen by hand.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats
from attnlaw.laws._engine.free import FreeLaw
from attnlaw.laws.classical import MarchenkoPastur

__all__ = ["AttentionBulk"]


class _Constants(NamedTuple):
    """Of the parametrisation."""

    linear: float  # θ₂
    noise: float  # c = θ₁ − θ₂
    ratio: float  # ρ
    last_ratio: float  # κ


class AttentionBulk(FreeLaw):
    """(θ₂ MP_ρ ⊞ c) ⊠ MP_κ, the law of attention when n and d_k are infinite.

    Parameters
    ----------
    linear, noise : float
        θ₂ and c = θ₁ − θ₂, both above 0.
    ratio, last_ratio : float
        ρ and κ, both above 0.

    Examples
    --------
    >>> law = AttentionBulk(linear=1.0, noise=np.e - 2, ratio=1.0, last_ratio=1.0)
    >>> law.edges.round(4)
    array([0.    , 9.0095])
    """

    _constants: _Constants

    def __init__(self, *, linear: float, noise: float, ratio: float, last_ratio: float) -> None:
        law = (linear * MarchenkoPastur(ratio) + noise) @ MarchenkoPastur(last_ratio)
        super().__init__(law._expression)
        self.__dict__["_constants"] = _Constants(linear, noise, ratio, last_ratio)

    @cached_property
    def _factors(self) -> tuple[Polynomial, Polynomial, Polynomial]:
        """N, M and 1 − ag, in g/unit with unit = 1/(c + θ₂) of the order of 1/z."""
        theta, c, rho, kappa = self._constants
        unit = 1 / (c + theta)
        a, c, total = rho * theta * unit, c * unit, 1.0
        N = Polynomial([1, total - a, -a * c])
        M = Polynomial([1, kappa * total - a, -kappa * a * c])
        return N, M, Polynomial([1, -a])

    @property
    def _unit(self) -> float:
        """Mean of the law, in whose units z and 1/g are of order one."""
        return self._constants.linear + self._constants.noise

    def _values(self, g: NDArray[np.complex128] | Floats) -> NDArray[np.complex128] | Floats:
        N, M, pole = self._factors
        return N(g) * M(g) / (g * pole(g) ** 2)

    def _intervals(self) -> Floats:
        """Between critical values of z(g), those stretches where two of four roots are complex."""
        N, M, pole = self._factors
        g = Polynomial([0, 1])
        top, bottom = N * M, g * pole
        # z' = 0 for z = top/(g pole²): top' g pole = top (pole + 2 g pole')
        slope = top.deriv() * bottom - top * (pole + 2 * g * pole.deriv())
        critical = slope.roots()
        for _ in range(3):
            critical = critical - slope(critical) / slope.deriv()(critical)
        real = critical[np.abs(critical.imag) < 1e-9 * np.abs(critical)].real
        values: Floats = np.asarray(self._values(real), dtype=np.float64)
        values = np.sort(values[(values > 0) & np.isfinite(values)])
        values = values[values > 1e-13 * values[-1]]  # κ = 1 has its hard edge at 0
        ends = np.concatenate([[0.0], values])
        middle = 0.5 * (ends[1:] + ends[:-1])
        inside = np.array([bool(self._complex_root(np.array([x])).imag[0] < 0) for x in middle])
        pairs = [(a, b) for a, b, keep in zip(ends, ends[1:], inside, strict=False) if keep]
        joined: list[list[float]] = []
        for a, b in pairs:  # a critical value inside the support is not an edge
            if joined and joined[-1][1] == a:
                joined[-1][1] = b
            else:
                joined.append([a, b])
        return np.asarray(self._unit * np.array(joined).reshape(-1, 2))

    def _complex_root(self, x: Floats) -> Complexes:
        """Root g in the lower half plane at x in units; real where there is none."""
        N, M, pole = self._factors
        if self._constants.last_ratio == 1:
            # N = M: take the root of N² = x g pole². In √g all four stay apart as x → 0.
            known, moving = _stretched(N), Polynomial([0, 1]) * _stretched(pole)
            return _lower_root(known, moving, np.sqrt(x)) ** 2
        return _lower_root(N * M, Polynomial([0, 1]) * pole**2, x)

    def _parameters(self, x: Floats) -> Complexes:
        """Parameter u = c + 1/g of the point mass on which the law is built."""
        g = self._complex_root(x / self._unit) / self._unit
        return np.asarray(self._constants.noise + 1 / g)[None]


def _stretched(polynomial: Polynomial) -> Polynomial:
    """Return p(h²) as a polynomial in h."""
    coefficients = np.zeros(2 * polynomial.coef.size - 1)
    coefficients[::2] = polynomial.coef
    return Polynomial(coefficients)


def _lower_root(known: Polynomial, moving: Polynomial, x: Floats) -> Complexes:
    """Root of known − x moving (a quartic) in the lower half plane, real if there is none."""
    fixed, rate = np.zeros(5), np.zeros(5)
    fixed[:] = known.coef
    rate[: moving.coef.size] = moving.coef
    p = fixed - np.outer(x, rate)
    companion = np.zeros((x.size, 4, 4))
    companion[:, 0] = -p[:, 3::-1] / p[:, 4:]
    companion[:, [1, 2, 3], [0, 1, 2]] = 1
    roots = np.linalg.eigvals(companion).astype(np.complex128)
    g = np.take_along_axis(roots, roots.imag.argmin(axis=1)[:, None], axis=1)[:, 0]
    g = np.where(g.imag < -1e-12 * np.abs(g), g, g.real)
    slope, moving_slope = known.deriv(), moving.deriv()
    with np.errstate(all="ignore"):
        for _ in range(3):
            step = (known(g) - x * moving(g)) / (slope(g) - x * moving_slope(g))
            g = np.where(np.abs(step) < 1e-2 * np.abs(g), g - step, g)
    return np.asarray(g, dtype=np.complex128)
