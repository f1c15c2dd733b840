"""The law of squared singular values of a matrix with a variance profile.

A density that is costly to evaluate is tabulated as splines on its intervals.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw._checks import Complexes, Floats, count, frozen
from attnlaw.laws.free_profile import FreeEquations, FreeProfile
from attnlaw.laws.law import Atom, NumericalLaw
from attnlaw.laws.profile import Descent, Equations, VarianceProfile

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

__all__ = ["Piece", "ProfileLaw", "find_intervals", "tabulate"]

Density = Callable[[Floats], Floats]

_ZERO = 1e-8  # densities below this are rounding error
_ENERGY = 0.03  # share of it, and of the mass, that a table may miss
_HEIGHT = 0.02  # distance and height of the points from which groups are seen
_LEAST = 1e-2, 1e-4, 1e-6  # smallest of them, in units
_WIDTH = 1e-9  # to which edges are found, as a share of the right edge


@dataclass(frozen=True)
class Piece:
    """Density and mass on one interval, as splines in the angle θ of x = x(θ), 0 ≤ θ ≤ π.

    The angle makes square-root edges smooth: x = low + (high − low) sin²(θ/2), or, where the
    interval starts at zero and the density may grow like x^(−1/3), x = high sin³(θ/2).
    """

    low: float
    high: float
    flux: "CubicSpline"  # density × dx/dθ
    below: "CubicSpline"  # its integral
    mass: float

    def angle(self, x: Floats) -> Floats:
        """Return θ(x)."""
        share = np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)
        return np.asarray(2 * np.arcsin(np.cbrt(share) if self.low == 0 else np.sqrt(share)))

    def moment(self, k: int) -> float:
        """Return ∫ sᵏ over the piece."""
        theta, weight = np.polynomial.legendre.leggauss(400)
        theta = 0.5 * np.pi * (1 + theta)
        s, _ = self.place(self.low, self.high, theta)
        return float((0.5 * np.pi * weight * self.flux(theta)) @ s**k)

    @staticmethod
    def place(low: float, high: float, theta: Floats) -> tuple[Floats, Floats]:
        """Return x(θ) and dx/dθ."""
        sine, cosine = np.sin(theta / 2), np.cos(theta / 2)
        if low == 0:
            return high * sine**3, 1.5 * high * sine**2 * cosine
        return low + (high - low) * sine**2, (high - low) * sine * cosine


def find_intervals(density: Density, reach: float, n_points: int = 96) -> Floats:
    """Return the intervals of [0, reach] where the density is positive (n × 2).

    The density takes points in increasing order and is zero outside, up to rounding; an interval
    that a scan of n_points misses is lost.
    """
    small = reach * np.geomspace(1e-8, 1e-2, n_points // 4)
    x = np.concatenate([small, reach * np.linspace(0.01, 1.0, n_points)[1:]])
    f = density(x)
    inside = f > _ZERO
    change = np.flatnonzero(inside[1:] != inside[:-1])
    inner = np.where(inside[change], change, change + 1)
    outer = np.where(inside[change], change + 1, change)
    # The last two points inside, for the line f² ≈ slope (edge − x); then the last one outside.
    sign = np.where(outer > inner, 1, -1)
    second = np.clip(inner - sign, 0, len(x) - 1)
    second = np.where(inside[second], second, inner)
    edges = _refine(density, x[inner], f[inner], x[second], f[second], x[outer], reach)
    if inside[0]:
        edges = np.concatenate([[0.0], edges])
    return edges.reshape(-1, 2)


def _refine(
    density: Density, a: Floats, fa: Floats, b: Floats, fb: Floats, out: Floats, reach: float
) -> Floats:
    """Shrink brackets (a inside, out outside) of edges, by the secant of f²."""
    if not a.size:
        return a
    for _ in range(40):
        gap = out - a
        with np.errstate(all="ignore"):
            guess = a + fa**2 * (b - a) / (fa**2 - fb**2)
        share = (guess - a) / gap
        share = np.where(np.isfinite(share) & (share > 0.02) & (share < 0.98), share, 0.5)
        shares = np.stack([0.97 * share, share + 0.03 * (1 - share)])
        points = a + gap * shares
        values = density(points.ravel()).reshape(points.shape)
        for point, value in zip(points, values, strict=True):
            inside = (value > _ZERO) & (np.abs(point - a) < np.abs(out - a))
            nearer = np.abs(point - a) < np.abs(out - a)
            b, fb = np.where(inside, a, b), np.where(inside, fa, fb)
            a, fa = np.where(inside, point, a), np.where(inside, value, fa)
            out = np.where(~inside & nearer, point, out)
        if (np.abs(out - a) < _WIDTH * reach).all():
            break
    return np.sort(0.5 * (a + out))


def tabulate(
    density: Density, intervals: Floats, tolerance: float = 1e-7, resolution: float = 0.0
) -> list[Piece]:
    """Return the pieces of a density on its intervals, refined where splines are not enough.

    The first `resolution` of an interval is not refined.
    """
    from scipy.interpolate import CubicSpline

    tables = []
    for low, high in intervals:
        theta = np.linspace(0.0, np.pi, 33)
        tables.append((low, high, theta, np.ones(32, dtype=bool)))
    fluxes = _flux(density, [(low, high, theta) for low, high, theta, _ in tables])
    for _ in range(9):
        middles = [0.5 * (t[1:] + t[:-1])[active] for _, _, t, active in tables]
        if not sum(m.size for m in middles):
            break
        new = _flux(density, [(t[0], t[1], m) for t, m in zip(tables, middles, strict=True)])
        for k, (low, high, theta, active) in enumerate(tables):
            spline = CubicSpline(theta, fluxes[k])
            error = np.abs(new[k] - spline(middles[k])) * np.diff(theta)[active]
            place = np.flatnonzero(active) + 1
            rough = np.zeros(active.size, dtype=bool)
            low_share = Piece.place(0.0, 1.0, middles[k])[0]
            rough[active] = (error > tolerance) & (low_share > resolution)
            split = np.repeat(rough, 1 + active)  # a cell that was halved is two cells
            theta = np.insert(theta, place, middles[k])
            fluxes[k] = np.insert(fluxes[k], place, new[k])
            tables[k] = (low, high, theta, split)
    pieces = []
    for (low, high, theta, _), flux in zip(tables, fluxes, strict=True):
        spline = CubicSpline(theta, flux)
        below = spline.antiderivative()
        pieces.append(Piece(float(low), float(high), spline, below, float(below(np.pi))))
    return pieces


def _flux(density: Density, parts: list[tuple[float, float, Floats]]) -> list[Floats]:
    """Evaluate density × dx/dθ on several intervals in one call; it vanishes at their ends."""
    placed = [Piece.place(low, high, theta) for low, high, theta in parts]
    inner = [(x > low) & (x < high) for (low, high, _), (x, _) in zip(parts, placed, strict=True)]
    points = [x[keep] for (x, _), keep in zip(placed, inner, strict=True)]
    values = np.split(density(np.concatenate(points)), np.cumsum([p.size for p in points])[:-1])
    fluxes = []
    for (_, slope), keep, value in zip(placed, inner, values, strict=True):
        flux = np.zeros(keep.size)
        flux[keep] = value * slope[keep]
        fluxes.append(flux)
    return fluxes


class ProfileLaw(NumericalLaw):
    """The limiting law of YYᵀ, for a random matrix Y given by its variance profile.

    Its density is solved from the equations of the profile on as many points as splines need for a
    cdf accurate to about 1e-6; the Stieltjes transform is solved at each given point, to rounding
    error. The equations are derived in docs/theory/realistic-heads.md, "Step 2: the spread of
    norms".

    Examples
    --------
    Noise alone is the Marchenko–Pastur law of ratio 1:

    >>> from attnlaw.laws import MarchenkoPastur, VarianceProfile
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

    def _singular_density(self, s: Floats, smoothing: float | None = None) -> Floats:
        """Density of singular values at s, in units; solved, not interpolated.

        With ψ = −(1 + y)/s it is (2/π) Im ψ(s + 0i), or, smoothed over h = εs by the kernel
        (2/π) h³/(x² + h²)², (2/π) Im(ψ(s + ih) − ih ψ'(s + ih)).
        """
        smoothing = self.smoothing if smoothing is None else smoothing
        s = np.maximum(s, 1e-12 * self._reach)
        height = 1j * smoothing * s
        point = s + height
        v, slope = self._descent.solve(point)
        y = self._equations.moment_function(v)
        psi = -(1 + y) / point
        if smoothing:
            dy = self._equations.moment_slope(v, slope)
            psi = psi - height * (-dy / point - psi / point)
        return np.maximum(2 / np.pi * psi.imag, 0.0)

    @cached_property
    def _pieces(self) -> list[Piece]:
        if self.smoothing:
            return self._smoothed_pieces()
        for resolution in (96, 256, 768):
            intervals = find_intervals(self._singular_density, self._reach, resolution)
            pieces = tabulate(self._singular_density, intervals)
            missing = 1 - self._zero - sum(piece.mass for piece in pieces)
            if missing < 2e-7:
                break
        return pieces

    def _smoothed_pieces(self) -> list[Piece]:
        """One piece, or, if it misses mass or energy, one for the bulk and one for each group."""
        far = self._reach * 2.0 ** np.arange(-12, 0.5, 0.5)
        seen = far[far * self._singular_density(far) > 1e-5]
        if seen.size:
            everything = np.array([[0.0, min(2 * seen[-1], self._reach)]])
            (piece,) = tabulate(self._singular_density, everything, 1e-5, resolution=1e-5)
            piece = _positive(piece)
            mass = piece.mass / (1 - self._zero)
            if max(abs(mass - 1), abs(piece.moment(2) - 1)) < _ENERGY:
                return [piece]
        intervals = self._groups()
        if not intervals.size:
            raise ArithmeticError(f"the support of {self} cannot be told from a point.")
        return list(map(_positive, tabulate(self._singular_density, intervals, 1e-6, 1e-8)))

    def _groups(self) -> Floats:
        """Intervals of the bulk and of groups of singular values above it (n × 2).

        Blocks of few dimensions have groups of as many values, which are narrow over many tokens.
        They are seen from a height above the axis that is the distance of the points, from which
        the bulk below adds 4η³/π to the density of log s.
        """
        t, inside, high = np.zeros(0), np.zeros(0, dtype=bool), self._reach
        for low in _LEAST:  # until the bulk is there; small ones take the longest
            part = np.arange(np.log(low), np.log(high), _HEIGHT)
            seen = np.exp(part) * self._singular_density(np.exp(part), _HEIGHT)
            t, high = np.r_[part, t], low
            inside = np.r_[seen > 3 * 4 * _HEIGHT**3 / np.pi, inside]
            if inside[0]:
                break
        change = np.diff(np.r_[0, inside, 0])
        first, last = np.flatnonzero(change == 1), np.flatnonzero(change == -1) - 1
        begin, end = np.exp(t[first] - _HEIGHT), np.exp(t[last] + _HEIGHT)
        begin[:1], end = 0.0, np.minimum(end, self._reach)
        apart = np.r_[True, begin[1:] > end[:-1]]
        return np.stack([begin[apart], end[np.r_[apart[1:], True]]], axis=1)

    @cached_property
    def _reach(self) -> float:
        return 1.05 * self._equations.reach

    @cached_property
    def _zero(self) -> float:
        """Mass at zero: one minus the rank per row."""
        return 1 - self._equations.rank

    # What the base class needs.

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
        if masses[1:].sum() < 1 - self._zero:  # what a table misses is near zero
            masses[0] = 1 - self._zero - masses[1:].sum()
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
        shares = self._interval_masses / [piece.mass for piece in self._pieces]
        moments = [piece.moment(2 * k) for piece in self._pieces]
        return float(shares @ moments) * self._unit ** (2 * k)

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
        sizes = [f"{p.row_weights.size} × {p.column_weights.size}, {p.ratios.size}" for p in both]
        scale = "" if self.scale == 1 else f"{self.scale:g} * "
        return f"{scale}ProfileLaw({' blocks + '.join(sizes)} blocks)"


def _positive(piece: Piece) -> Piece:
    """Interpolate a piece without overshoot, so that its cdf never falls."""
    from scipy.interpolate import PchipInterpolator

    theta = piece.flux.x
    flux: Any = PchipInterpolator(theta, np.maximum(piece.flux(theta), 0.0))
    below = flux.antiderivative()
    return Piece(piece.low, piece.high, flux, below, float(below(np.pi)))
