"""Where the density of a causal law is solved for: points t = log s, and dF/dt, the flux.

The flux of a head is smooth up to some singular value; above it there are groups with one value
for each latent dimension of a block, at 1/j with the zeros j of J₀, the narrower the more tokens
there are, with nothing between them (docs/theory/causal-heads.md, "Long sequences"). So where the
energy inside a circle is not all of it, or the points found other than it, groups are sought: as
they are seen from a height above the axis that is the distance of the points, from which none can
hide between two of them.
"""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Complexes, Floats
from attnlaw.laws.causal_equations import CausalEquations

__all__ = ["Flux", "moment_inside", "solved_flux"]

_LEAST = 3e-3  # smallest singular value that is solved for, in units
_SMALL = 0.1  # singular value below which neighbours differ by a factor of 1.5
_RATIO = 1.25  # above it
_FINE = 1.06  # and near the largest
_USUAL = 12.0  # largest of the first ones
_MANY = 6  # blocks beyond which points are solved from larger ones to smaller
_SMOOTHING = 0.003  # of a singular value, removed again to first order
_NOTHING = 1e-5  # of mass in the logarithm of singular values
_TAIL = 0.02, 1e-5  # mass above the first and the last of the fine points
_TOLERANCE = 0.03  # of the last Newton step; a further one squares the error of 1e-3 again
_CIRCLE = 1.5  # radius of the circle for moments, over the largest singular value
_ON_CIRCLE = 24, 8  # points on a quarter of it, and where a hundredth of a percent will do
_APART = 250  # tokens for a latent dimension from which on groups are apart
_ENERGY = 1e-4, 0.05  # share that may be missing inside the circle, and in the flux
_GROUPS = 0.05, 0.006  # distance and height of points among groups, and in the uppermost
_LARGEST = 1e6  # singular value, in units


class Flux(NamedTuple):
    """Points t = log s, dF/dt there, and the radius of a circle that all s are inside of."""

    t: Floats
    values: Floats
    radius: float


class _Solved:
    """Points at which the equations have been solved, in order, with the flux."""

    def __init__(self, equations: CausalEquations) -> None:
        self.equations = equations
        self.t, self.flux, self.height = np.zeros((3, 0))
        self.unknowns: Complexes | None = None

    def add(self, t: Floats, height: float = _SMOOTHING, tolerance: float = _TOLERANCE) -> None:
        """Solve at further points, from those nearest to them.

        A few may be left out, such as those in the gap that a handful of tokens has near zero.
        """
        w = np.exp(t) * (1 + 1j * height)
        known = None
        if self.unknowns is not None and t[0] < self.t[-1] + 1:
            known = (np.exp(self.t) * (1 + 1j * self.height), self.unknowns)
        v, found = self.equations.solve_most(w, known, tolerance)
        if 2 * found.sum() < found.size:
            self.equations.solve(w)  # which says what is wrong
        t, w, v = t[found], w[found], v[..., found]
        share = 1.0 if height == _SMOOTHING else 1e-4
        psi = self.equations.mean_rows_below(v, w, w - w.real, share)
        flux = np.maximum(2 / np.pi * np.exp(t) * psi.imag, 0.0)
        heights = np.full(t.size, height)
        if self.unknowns is not None:
            t, flux = np.r_[self.t, t], np.r_[self.flux, flux]
            heights = np.r_[self.height, heights]
            v = np.concatenate([self.unknowns, v], axis=3)
        order = np.argsort(t, kind="stable")
        self.t, self.flux, self.height = t[order], flux[order], heights[order]
        self.unknowns = v[..., order]

    def at(self, height: float) -> tuple[Floats, Floats]:
        """Points that were solved from this height, and the flux."""
        these = self.height == height
        return self.t[these], self.flux[these]


def solved_flux(equations: CausalEquations, *, has_pattern: bool, largest: float) -> Flux:
    """Solve at wide points first, then at fine ones near the largest, and among groups.

    The last point is the first above the support. `largest` is about the largest singular value
    that blocks have by themselves.
    """
    solved = _Solved(equations)
    s = np.r_[np.geomspace(_LEAST, _SMALL, 10), np.geomspace(_SMALL, _USUAL, 22)[1:]]
    # the first guess, of noise without a pattern, is worse the smaller the singular value
    n_parts = 6 if has_pattern or equations.K > _MANY else 1
    for part in np.array_split(np.log(s)[::-1], n_parts):
        solved.add(part[::-1])
    least = _CIRCLE * _USUAL
    radius = _enclosing_radius(equations, max(least, _CIRCLE * largest))
    in_groups = radius > least and equations.k.max() * equations.m.sum() > _APART
    while not in_groups and solved.flux[-1] > _NOTHING and solved.t.size < 400:
        solved.add(solved.t[-1] + np.log(_RATIO) * np.arange(1, 4))
    in_groups |= radius > _CIRCLE * np.exp(solved.t[-1])
    masses = 0.5 * (solved.flux[1:] + solved.flux[:-1]) * np.diff(solved.t)
    above = np.append(np.cumsum(masses[::-1])[::-1], 0.0) / masses.sum()
    first, last = (np.flatnonzero(above > mass)[-1] for mass in _TAIL)
    start, end = solved.t[first], solved.t[min(int(last) + 1, solved.t.size - 1)]
    if not in_groups:
        grid = np.arange(start, end, np.log(_FINE))[1:]
        solved.add(grid[np.abs(grid[:, None] - solved.t).min(axis=1) > 0.01])
    t, flux = _trimmed(solved.t, solved.flux, _NOTHING)
    if in_groups or abs(_energy(t, flux) - 1) > _ENERGY[1]:
        t, flux = _with_groups(solved, float(start), radius)
    return Flux(t, flux, radius)


def _trimmed(t: Floats, flux: Floats, nothing: float) -> tuple[Floats, Floats]:
    flux = np.where(flux > nothing, flux, 0.0)
    last = int(np.flatnonzero(flux)[-1]) + 2
    return t[:last], flux[:last]


def _energy(t: Floats, flux: Floats) -> float:
    """∫ s² dF, which is 1 in units."""
    from scipy.interpolate import PchipInterpolator

    return float(PchipInterpolator(t, np.exp(2 * t) * flux).integrate(t[0], t[-1]))


def _with_groups(solved: _Solved, start: float, radius: float) -> tuple[Floats, Floats]:
    """Points and flux with those above `start` solved anew, then those of the uppermost group."""
    equations = solved.equations
    smallest = 1 / max(float(equations.k.max() * equations.m.sum()), 1.0)  # group, as a share
    t, flux = solved.at(_SMOOTHING)
    bulk = t[t < start], flux[t < start]
    t, flux = bulk
    begin, end = start, np.log(radius)
    for height in _GROUPS:
        points = np.arange(begin, end, height)
        if end > solved.t[-1] + 1:  # too far to be started from there
            solved.add(np.array([end + 1]), height, _TOLERANCE / 6)
        for part in np.array_split(points[::-1], max(1, points.size // 6)):
            solved.add(part[::-1], height, _TOLERANCE / 6)
        new, values = solved.at(height)
        far = new > start + 10 * height
        values = np.where(far, values - _seen_from_afar(*bulk, new, height), values)
        nothing = min(_NOTHING, 0.02 * smallest / height)
        if not (values > nothing).any():
            break
        new, values = _trimmed(new, values, nothing)
        t, flux = np.r_[t[t < new[0]], new], np.r_[flux[t < new[0]], values]
        # the uppermost group: from the last point that has next to nothing
        peak = np.flatnonzero(values)[-1]
        while values[peak - 1] > values[peak]:
            peak -= 1
        low = np.flatnonzero(values[:peak] < 0.02 * values[peak])
        if not low.size or new[-1] - new[low[-1]] > 20 * height:
            break  # wide enough to be seen as it is
        begin, end = new[low[-1]], new[-1]
    return t, flux


def _seen_from_afar(t: Floats, flux: Floats, points: Floats, height: float) -> Floats:
    """Flux that is seen at points s from a height y = ηs above them, but is that of s′ below.

    To first order removed, what a mass at s′ shows is 2y³/π/((s − s′)² + y²)², and at −s′ as well.
    """
    from scipy.interpolate import PchipInterpolator

    at = np.linspace(t[0], t[-1], 400)
    masses = PchipInterpolator(t, flux)(at) * (at[1] - at[0])
    masses[0] += 1 - masses.sum()  # what is below the first of them
    s, y = np.exp(points)[:, None], height * np.exp(points)[:, None]
    seen = sum(2 * y**3 / np.pi / ((s - x) ** 2 + y**2) ** 2 for x in (np.exp(at), -np.exp(at)))
    return np.asarray(np.exp(points) * (seen @ masses))


def _enclosing_radius(equations: CausalEquations, radius: float) -> float:
    """Return the first of ever larger radii with all of the energy inside."""
    while radius < _LARGEST:
        if abs(moment_inside(equations, radius, 1, _ON_CIRCLE[1], 1e-4) - 1) < _ENERGY[0]:
            break
        radius *= _CIRCLE
    return radius


def moment_inside(
    equations: CausalEquations,
    radius: float,
    k: int,
    n_points: int = _ON_CIRCLE[0],
    tolerance: float = 1e-9,
) -> float:
    """Moment ∫ s²ᵏ dF over singular values inside a circle, in units.

    w times the Stieltjes transform is −Σ m_k/w^{2k+1} there, so that m_k is the mean of
    −w^{2k+1} R̄(w) over the circle, by symmetry over a quarter of it.
    """
    angles = (np.arange(n_points) + 0.5) * (0.5 * np.pi / n_points)
    w = radius * np.exp(1j * angles)
    rows = equations.mean_rows(equations.solve(w, tolerance=tolerance), w)
    return float(-np.mean((rows * w ** (2 * k + 1)).real))
