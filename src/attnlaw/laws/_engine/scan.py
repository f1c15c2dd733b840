"""Tabulating a density that is costly to evaluate: its intervals, then splines on each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import Floats

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

__all__ = ["Piece", "find_intervals", "tabulate"]

Density = Callable[[Floats], Floats]

_ZERO = 1e-8  # densities below this are rounding error
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

    @staticmethod
    def place(low: float, high: float, theta: Floats) -> tuple[Floats, Floats]:
        """Return x(θ) and dx/dθ."""
        sine, cosine = np.sin(theta / 2), np.cos(theta / 2)
        if low == 0:
            return high * sine**3, 1.5 * high * sine**2 * cosine
        return low + (high - low) * sine**2, (high - low) * sine * cosine


def find_intervals(density: Density, reach: float, n_points: int = 96) -> Floats:
    """Return the intervals of [0, reach] where the density is positive (n × 2).

    Parameters
    ----------
    density : callable
        Takes points in increasing order; exactly zero, but for rounding, outside the intervals.
    reach : float
        No interval goes beyond it.
    n_points : int
        Resolution of the first scan: narrower intervals may be missed.
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

    Nothing is refined in the first `resolution` of an interval.
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
