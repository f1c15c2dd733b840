"""Inverting a cdf: a table of the law's own cdf, then Newton's method inside one cell."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw._checks import Floats

if TYPE_CHECKING:
    from attnlaw.laws.law import Law

_GRADED = np.pi / 48 * 0.3 ** np.arange(8.0, 0.0, -1)
_ANGLES = np.concatenate(
    [[0.0], _GRADED, np.linspace(0.0, np.pi, 49)[1:-1], np.pi - _GRADED[::-1], [np.pi]]
)
_LAST = len(_ANGLES) - 2  # the last cell


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
        # In the outermost cells the cdf is a power of θ, which the next cell tells.
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
