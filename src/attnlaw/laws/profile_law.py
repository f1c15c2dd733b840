"""The law of squared singular values of a matrix with a variance profile."""

from functools import cached_property
from typing import Any

import numpy as np

from attnlaw._checks import Complexes, Floats, count, frozen, invalid_argument
from attnlaw.laws._engine.descent import Descent
from attnlaw.laws._engine.scan import Piece, find_intervals, tabulate
from attnlaw.laws.free_profile import FreeEquations, FreeProfile
from attnlaw.laws.law import Atom, NumericalLaw
from attnlaw.laws.profile import Equations, VarianceProfile

__all__ = ["ProfileLaw", "profile_resolvents"]


class ProfileLaw(NumericalLaw):
    """The limiting law of YYᵀ, for a random matrix Y given by its variance profile.

    It answers what every law does. Its density is solved from the equations of the profile on
    as many points as splines need for a cdf good to about 1e-6; the Stieltjes transform is
    solved where it is asked for, to rounding error. The equations are derived in
    docs/theory/realistic-heads.md, "Step 2: the spread of norms".

    Examples
    --------
    Noise alone is the Marchenko–Pastur law of ratio 1:

    >>> from attnlaw.laws import MarchenkoPastur, ProfileLaw, VarianceProfile
    >>> one = np.ones(1)
    >>> law = ProfileLaw(VarianceProfile(
    ...     row_weights=one, column_weights=one, row_variances=one[None],
    ...     column_variances=one[None], ratios=np.zeros(1)))
    >>> bool(abs(law.cdf(2.0) - MarchenkoPastur(1.0).cdf(2.0)) < 1e-6)
    True
    >>> law.edges.round(6)
    array([0., 4.])
    """

    profile: VarianceProfile | FreeProfile
    scale: float
    smoothing: float

    def __init__(
        self, profile: VarianceProfile | FreeProfile, scale: float = 1.0, smoothing: float = 0.0
    ) -> None:
        self.__dict__.update(profile=profile, scale=float(scale), smoothing=float(smoothing))

    @cached_property
    def _equations(self) -> Equations | FreeEquations:
        if isinstance(self.profile, FreeProfile):
            return FreeEquations(self.profile)
        return Equations(self.profile)

    @cached_property
    def _descent(self) -> Descent:
        return Descent(self._equations)

    @cached_property
    def _unit(self) -> float:
        """Singular value that the equations call 1."""
        return float(np.sqrt(self.scale * self._equations.unit))

    def _singular_density(self, s: Floats) -> Floats:
        """Density of singular values at s, in units; solved, not interpolated.

        With ψ = −(1 + y)/s it is (2/π) Im ψ(s + 0i), or, smoothed over h = εs by the kernel
        (2/π) h³/(x² + h²)², (2/π) Im(ψ(s + ih) − ih ψ'(s + ih)).
        """
        s = np.maximum(s, 1e-12 * self._reach)
        height = 1j * self.smoothing * s
        point = s + height
        v, slope = self._descent.solve(point)
        y = self._equations.moment_function(v)
        psi = -(1 + y) / point
        if self.smoothing:
            dy = self._equations.moment_slope(v, slope)
            psi = psi - height * (-dy / point - psi / point)
        return np.maximum(2 / np.pi * psi.imag, 0.0)

    @cached_property
    def _pieces(self) -> list[Piece]:
        if self.smoothing:
            far = self._reach * 2.0 ** np.arange(-12, 0.5, 0.5)
            seen = far[far * self._singular_density(far) > 1e-5]
            if not seen.size:
                raise ArithmeticError(f"the support of {self} cannot be told from a point.")
            everything = np.array([[0.0, min(2 * seen[-1], self._reach)]])
            pieces = tabulate(self._singular_density, everything, 1e-5, resolution=1e-5)
            return [_positive(piece) for piece in pieces]
        for resolution in (96, 256, 768):
            intervals = find_intervals(self._singular_density, self._reach, resolution)
            pieces = tabulate(self._singular_density, intervals)
            missing = 1 - self._zero - sum(piece.mass for piece in pieces)
            if missing < 2e-7:
                break
        return pieces

    @cached_property
    def _reach(self) -> float:
        return 1.05 * self._equations.reach

    @cached_property
    def _zero(self) -> float:
        """Mass at zero: one minus the rank per row."""
        return 1 - self._equations.rank

    # What the base class asks for.

    @cached_property
    def atom(self) -> Atom:
        """The atom at zero, if there is one."""
        mass = np.array([self._zero] if self._zero > 0 else [])
        return Atom(frozen(np.zeros(mass.size)), frozen(mass))

    def _intervals(self) -> Floats:
        return (
            np.array([[p.low, p.high] for p in self._pieces]).reshape(-1, 2) ** 2 * self._unit**2
        )

    @cached_property
    def _interval_masses(self) -> Floats:
        masses = np.array([piece.mass for piece in self._pieces])
        return np.asarray(masses * ((1 - self._zero) / masses.sum()))

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        s = np.sqrt(x) / self._unit
        density, below = np.zeros(x.size), np.zeros(x.size)
        start = self._zero
        for piece, mass in zip(self._pieces, self._interval_masses, strict=True):
            here = (s > piece.low) & (s < piece.high)
            theta = piece.angle(s[here])
            _, slope = Piece.place(piece.low, piece.high, theta)
            share = mass / piece.mass
            flux = np.maximum(piece.flux(theta), 0.0)
            density[here] = share * flux / slope / (2 * s[here] * self._unit**2)
            below[here] = start + share * piece.below(theta)
            start += mass
        return density, np.clip(below, 0.0, 1.0)

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._inside(x)[1]

    def _cauchy(self, z: Complexes) -> Complexes:
        root = np.sqrt(z) / self._unit
        s = np.where(root.imag < 0, -root, root).astype(np.complex128)
        v, _ = Descent(self._equations).solve(s)
        return np.asarray((1 + self._equations.moment_function(v)) / z)

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx), by quadrature of the tabulated density (the first one exactly)."""
        k = count("k", k, at_least=0)
        if k < 2:
            return float(self.scale * self.profile.mean) if k else 1.0
        theta, weight = np.polynomial.legendre.leggauss(400)
        theta = 0.5 * np.pi * (1 + theta)
        total = 0.0
        for piece, mass in zip(self._pieces, self._interval_masses, strict=True):
            s, _ = Piece.place(piece.low, piece.high, theta)
            flux = 0.5 * np.pi * weight * piece.flux(theta) * (mass / piece.mass)
            total += float(flux @ (s * self._unit) ** (2 * k))
        return total

    def _rescaled(self, factor: float) -> "ProfileLaw":
        return ProfileLaw(self.profile, self.scale * factor, self.smoothing)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProfileLaw):
            return NotImplemented
        return self.profile is other.profile and self.scale == other.scale

    def __hash__(self) -> int:
        return hash((id(self.profile), self.scale))

    def __repr__(self) -> str:
        parts = self.profile
        both = [parts.first, parts.second] if isinstance(parts, FreeProfile) else [parts]
        sizes = " + ".join(
            f"{len(p.row_weights)} × {len(p.column_weights)}, {len(p.ratios)} blocks" for p in both
        )
        return f"{'' if self.scale == 1 else f'{self.scale:g} * '}ProfileLaw({sizes})"


def profile_resolvents(profile: VarianceProfile, singular_values: Floats) -> tuple[Floats, Floats]:
    """Return resolvents of the rows and columns of Y at singular values outside the support.

    Parameters
    ----------
    profile : VarianceProfile
        Y; it has no `factors`.
    singular_values : array of shape (m,)
        w > 0, in gaps of the singular values of Y or above them.

    Returns
    -------
    rows, columns : arrays of shape (m, kinds)
        R and C: w times the diagonals of (YYᵀ − w²)⁻¹ and (YᵀY − w²)⁻¹, real there.

    Examples
    --------
    Noise alone has R = C = −1/(w + R):

    >>> from attnlaw.laws import VarianceProfile
    >>> one = np.ones(1)
    >>> noise = VarianceProfile(
    ...     row_weights=one, column_weights=one, row_variances=one[None],
    ...     column_variances=one[None], ratios=np.zeros(1))
    >>> [r.round(9) for r in profile_resolvents(noise, np.array([2.5]))]
    [array([[-0.5]]), array([[-0.5]])]
    """
    if profile.factors:
        raise invalid_argument("profile", "without factors", profile.factors)
    equations = Equations(profile)
    unit = np.sqrt(equations.unit)
    v, _ = Descent(equations).solve(np.asarray(singular_values / unit, dtype=np.complex128))
    R, C = equations.resolvents(v)
    return np.asarray(R.real / unit), np.asarray(C.real / unit)


def _positive(piece: Piece) -> Piece:
    """Interpolate a piece without overshoot, so that its cdf never falls."""
    from scipy.interpolate import PchipInterpolator

    theta = piece.flux.x
    flux: Any = PchipInterpolator(theta, np.maximum(piece.flux(theta), 0.0))
    below = flux.antiderivative()
    return Piece(piece.low, piece.high, flux, below, float(below(np.pi)))
