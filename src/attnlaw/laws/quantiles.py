"""Inverting a cdf: a table of the law's own cdf, then Newton's method inside one cell."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from attnlaw.laws.law import Law

Floats = NDArray[np.float64]

_NODES = 65


class QuantileTable:
    """The cdf of a law at nodes of each interval, x = low + (high − low) sin²(θ/2).

    The angle θ spreads the points near the edges, where the density is like a square root; a
    cdf that is smooth in θ is inverted to rounding error in a few Newton steps.
    """

    def __init__(self, law: "Law") -> None:
        self.law = law
        self.angles = np.linspace(0.0, np.pi, _NODES)
        low, high = law.support.T
        self.low, self.width = low, high - low
        inner = (low[:, None] + self.width[:, None] * np.sin(self.angles / 2) ** 2)[:, 1:-1]
        masses, location = law._interval_masses, law.atom.location
        # Mass strictly below each interval, atoms inside the interval left out.
        start = np.concatenate([[0.0], np.cumsum(masses)[:-1]]) if len(low) else np.zeros(0)
        start = start + np.array([law.atom.mass[location <= x].sum() for x in low])
        self.embedded = [
            [(a, p) for a, p in zip(*law.atom, strict=True) if x < a < x + w]
            for x, w in zip(low, self.width, strict=True)
        ]
        inside = sum((p for atoms in self.embedded for _, p in atoms), 0.0)
        values = law._inside(inner.ravel())[1].reshape(inner.shape) if inner.size else inner
        stop = start + masses + np.array([sum(p for _, p in atoms) for atoms in self.embedded])
        self.cdf = np.concatenate([start[:, None], values, stop[:, None]], axis=1)
        self.cdf = np.maximum.accumulate(self.cdf, axis=1)
        self.has_embedded = inside > 0

    def invert(self, q: Floats) -> Floats:
        """Return the quantiles of a flat array q."""
        x = np.full(q.size, np.nan)
        for location, mass in zip(*self.law.atom, strict=True):
            top = float(self.law._step(np.array([location]))[0])
            if self.law._is_inside(np.array([location]))[0]:
                top = float(self.law._inside(np.array([location]))[1][0])
            x[(q <= top) & (q > top - mass)] = location
        if not len(self.low):
            x[np.isnan(x)] = self.law.atom.location[0]  # q = 0
            return x
        todo = np.flatnonzero(np.isnan(x))
        if todo.size:
            interval = np.searchsorted(self.cdf[:, -1], q[todo] - 1e-15, side="left")
            interval = np.minimum(interval, len(self.low) - 1)
            x[todo] = self._newton(q[todo], interval)
            first = q[todo] <= self.cdf[interval, 0]
            last = q[todo] >= self.cdf[interval, -1]
            x[todo[first]] = self.low[interval[first]]
            x[todo[last]] = (self.low + self.width)[interval[last]]
        return x

    def _newton(self, q: Floats, interval: NDArray[np.intp]) -> Floats:
        rows = self.cdf[interval]
        cell = np.clip((rows <= q[:, None]).sum(axis=1) - 1, 0, _NODES - 2)
        every = np.arange(q.size)
        a, b = self.angles[cell], self.angles[cell + 1]
        below, above = rows[every, cell], rows[every, cell + 1]
        share = np.clip((q - below) / np.maximum(above - below, 1e-300), 0.0, 1.0)
        first, last = cell == 0, cell == _NODES - 2
        share = np.where(first, np.cbrt(share), np.where(last, 1 - np.cbrt(1 - share), share))
        theta = np.clip(a + (b - a) * share, 1e-6, np.pi - 1e-6)
        # Rounding may put a point in the cell next to its own.
        a, b = self.angles[np.maximum(cell - 1, 0)], self.angles[np.minimum(cell + 2, _NODES - 1)]
        low, width = self.low[interval], self.width[interval]
        todo = every
        for _ in range(60):
            sine = np.sin(theta[todo] / 2)
            x = low[todo] + width[todo] * sine**2
            density, value = self.law._inside(x)
            error = value - q[todo]
            a[todo] = np.where(error <= 0, theta[todo], a[todo])
            b[todo] = np.where(error >= 0, theta[todo], b[todo])
            slope = density * width[todo] * sine * np.cos(theta[todo] / 2)
            with np.errstate(all="ignore"):
                new = theta[todo] - error / slope
            bad = ~((new > a[todo]) & (new < b[todo]))
            new = np.where(bad, 0.5 * (a[todo] + b[todo]), new)
            moved = np.abs(new - theta[todo])
            far = np.abs(error) > 4e-16
            theta[todo] = np.where(far, new, theta[todo])
            todo = todo[far & (moved > 1e-15)]
            if not todo.size:
                break
        return np.asarray(low + width * np.sin(theta / 2) ** 2)
