"""The law of squared singular values of a causal matrix with a variance profile."""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnlaw._checks import Complexes, Floats, count, frozen
from attnlaw.laws.causal_profile import CausalEquations, CausalProfile
from attnlaw.laws.law import Atom, NumericalLaw

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

__all__ = ["CausalProfileLaw"]

_LEAST = 3e-3  # smallest singular value that is solved for, in units
_POINTS = 34  # between it and _USUAL
_USUAL = 5.0
_RATIO = 1.2  # of points above
_SMOOTHING = 0.005  # of a singular value, removed again to first order
_NOTHING = 2e-6


class _Table(NamedTuple):
    """Density and mass in t = log s, and what is below and above the table."""

    flux: "PchipInterpolator"  # dF/dt
    mass: "PchipInterpolator"  # ∫ flux from the first point
    low: float  # t of the first point
    high: float  # and of the last
    below: float  # cdf at the first point
    rate: float  # c of 1/(F − atom) = const − 2ct below the first point


class CausalProfileLaw(NumericalLaw):
    """The law of YYᵀ, for a causal random matrix Y given by its variance profile.

    The density is solved from the equations of the profile on some forty singular values, evenly
    spaced in the logarithm. Below 3e-3 of the root mean square, where the equations are those of
    noise, the cdf goes on as 1/(const − c log x), like that of `CausalLaw`.

    Examples
    --------
    Noise alone, with many tokens, is the law in closed form:

    >>> from attnlaw.laws import CausalLaw
    >>> from attnlaw.laws.causal_profile import token_bins
    >>> bins = token_bins(10**6)
    >>> ones = np.ones((1, bins.size, 1))
    >>> law = CausalProfileLaw(CausalProfile(
    ...     bins=bins, row_weights=np.ones(1), column_weights=np.ones(1), row_variances=ones,
    ...     column_variances=ones, row_means=ones, column_means=ones,
    ...     latent_dimensions=np.array([np.inf])))
    >>> x = np.array([1e-4, 0.01, 0.3, 1.0, 4.0])
    >>> bool(np.abs(law.cdf(x) - CausalLaw().cdf(x)).max() < 1e-3)
    True
    """

    profile: CausalProfile

    def __init__(self, profile: CausalProfile, scale: float = 1.0) -> None:
        self.__dict__.update(profile=profile, scale=float(scale))

    @cached_property
    def _equations(self) -> CausalEquations:
        return CausalEquations(self.profile)

    @cached_property
    def _unit(self) -> float:
        """Singular value that the equations call 1."""
        return float(np.sqrt(self.scale * self._equations.unit))

    @cached_property
    def _table(self) -> _Table:  # type: ignore[override]
        from scipy.interpolate import CubicSpline, PchipInterpolator

        t = np.linspace(np.log(_LEAST), np.log(_USUAL), _POINTS)
        psi = self._mean_rows(t)
        while True:
            slope = CubicSpline(t, psi.real)(t, 1) + 1j * CubicSpline(t, psi.imag)(t, 1)
            # ψ − ih ψ'(w), h = εs: the smoothing kernel's first order taken away
            removed = psi - 1j * _SMOOTHING / (1 + 1j * _SMOOTHING) * slope
            flux = np.maximum(2 / np.pi * np.exp(t) * removed.imag, 0.0)
            if (flux[-2:] < _NOTHING).all() or t.size > 400:
                break
            more = t[-1] + np.log(_RATIO) * np.arange(1, 7)
            t, psi = np.r_[t, more], np.r_[psi, self._mean_rows(more)]
        flux[flux < _NOTHING] = 0.0
        mass = PchipInterpolator(t, flux).antiderivative()
        atom = self._zero
        total = float(mass(t[-1]))
        most = (1 - atom) * (1 - 1e-6)
        share = min(1.0, most / total)
        below = 1 - total * share
        rate = float(np.clip(0.5 * flux[0] * share / (below - atom) ** 2, 0.2, 5.0))
        return _Table(
            PchipInterpolator(t, flux * share),
            PchipInterpolator(t, flux * share).antiderivative(),
            float(t[0]),
            float(t[-1]),
            below,
            rate,
        )

    def _mean_rows(self, t: Floats) -> Complexes:
        w = np.exp(t) * (1 + 1j * _SMOOTHING)
        return self._equations.mean_rows(self._equations.solve(w), w)

    @cached_property
    def _zero(self) -> float:
        """Share of rows that vanish: the first, which has a single entry."""
        empty = self.profile.row_variances.sum(axis=0) == 0
        bins = self.profile.bins
        return float(bins @ (empty @ self.profile.row_weights) / bins.sum())

    # What the base class asks for.

    @cached_property
    def atom(self) -> Atom:
        """The atom at zero, of rows that vanish."""
        mass = np.array([self._zero] if self._zero > 0 else [])
        return Atom(frozen(np.zeros(mass.size)), frozen(mass))

    def _intervals(self) -> Floats:
        return np.array([[0.0, (np.exp(self._table.high) * self._unit) ** 2]])

    @cached_property
    def _interval_masses(self) -> Floats:
        return np.array([1 - self._zero])

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        table, atom = self._table, self._zero
        t = 0.5 * np.log(x) - np.log(self._unit)
        inner = np.maximum(t, table.low)
        cdf = table.below + table.mass(inner)
        flux = table.flux(inner)
        gap = 1 / (1 / (table.below - atom) + 2 * table.rate * (inner - t))
        tail = t < table.low
        cdf = np.where(tail, atom + gap, cdf)
        flux = np.where(tail, 2 * table.rate * gap**2, flux)
        with np.errstate(over="ignore"):
            return np.asarray(flux / (2 * x)), np.clip(cdf, 0.0, 1.0)

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._inside(x)[1]

    def _quantiles(self, q: Floats) -> Floats:
        """Use the closed form below the table, bisection in log x inside it."""
        table, atom = self._table, self._zero
        gap = np.maximum(q - atom, 1e-300)
        tail = table.low - (1 / gap - 1 / (table.below - atom)) / (2 * table.rate)
        low, high = np.full(q.size, table.low), np.full(q.size, table.high)
        for _ in range(50):
            middle = 0.5 * (low + high)
            left = table.below + table.mass(middle) < q
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        t = np.where(q <= table.below, tail, high)
        with np.errstate(under="ignore"):
            x = (np.exp(np.maximum(t, -370.0)) * self._unit) ** 2
        return np.asarray(np.where(q <= atom, 0.0, np.maximum(x, 5e-324)))

    def _cauchy(self, z: Complexes) -> Complexes:
        root = np.sqrt(z) / self._unit
        w = np.where(root.imag < 0, -root, root).astype(np.complex128)
        w = w.real + 1j * np.maximum(w.imag, 1e-12)
        # m = R̄/w at w², in units
        m = self._equations.mean_rows(self._equations.solve(w), w) / w
        return np.asarray(-m / self._unit**2)

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx), by quadrature of the table (the first one exactly)."""
        k = count("k", k, at_least=0)
        if k < 2:
            return float(self.scale * self.profile.mean) if k else 1.0
        t = np.linspace(self._table.low, self._table.high, 4001)
        return float(np.trapezoid(self._table.flux(t) * np.exp(2 * k * t), t)) * self._unit ** (
            2 * k
        )

    def _rescaled(self, factor: float) -> "CausalProfileLaw":
        law = CausalProfileLaw(self.profile, self.scale * factor)
        if "_table" in self.__dict__:  # in units, and so the same
            law.__dict__["_table"] = self._table
        return law

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CausalProfileLaw):
            return NotImplemented
        return self.profile is other.profile and self.scale == other.scale

    def __hash__(self) -> int:
        return hash((id(self.profile), self.scale))

    def __repr__(self) -> str:
        bins, blocks = self.profile.bins.size, len(self.profile.latent_dimensions)
        head = "" if self.scale == 1 else f"{self.scale:g} * "
        return f"{head}CausalProfileLaw({bins} bins, {blocks} blocks)"
