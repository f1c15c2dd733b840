"""Open intervals of a real parameter, and what shrinks or cuts them: parts of gaps in a support.

Outside the support of a law its parameter is real and z increases with it. The gaps of a support
are therefore found as intervals of the parameter; `support` builds them up stage by stage.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.laws._engine.roots import climb, concave_bound, find_roots
from attnlaw.laws._engine.uniformisation import Array, Point

Rows = NDArray[np.intp]
Curve = Callable[[Floats, Rows], Point]  # (parameter, branch) to a real point
Slope = Callable[[Floats, Rows], tuple[Floats, Floats]]  # (logit, gap) to (slope, z)

SHARP, BLUNT = 1e-13, 1e-6  # how close to an atom curves of point masses and of pairs are precise
# Where to look for a positive slope, from one end of a gap (−1) to the other (1).
_SCAN = np.array([0.67, 0.45, 0.26, 0.15, 0.055, 0.015])
_SCAN = np.array([-1, *-_SCAN, -4e-5, *_SCAN[::-1], 1])
_FINE = np.unique([*_SCAN, *np.linspace(-0.99, 0.99, 49)])


class Gaps(NamedTuple):
    """Gaps as intervals of the real parameter, each on one branch of a real curve.

    A gap with low ≥ high goes through infinity: from low to ∞ and on from −∞ to high. Inside a
    gap a point is given by its logit, which keeps its precision at both ends. Closer to an end
    than `close`, relatively, the curve is all rounding.
    """

    low: Floats
    high: Floats
    branch: Rows
    curve: Curve
    scale: float  # length that measures the gap through infinity
    close: float

    @property
    def wraps(self) -> NDArray[np.bool_]:
        """Whether each gap goes through infinity."""
        return np.asarray(self.low >= self.high)

    @property
    def ends(self) -> Floats:
        """Logits next to the ends of the gaps (2 × gaps), the first ones negative."""
        span = np.where(self.wraps, 2 * self.scale, self.high - self.low)
        with np.errstate(divide="ignore"):
            low, high = (np.log(span / np.abs(end)) for end in (self.low, self.high))
        far = np.array([low, high]) - np.log(self.close)
        return np.asarray(np.clip(far, 3.0, 60.0) * [[-1], [1]])

    def place(self, logit: Floats, rows: Rows) -> Floats:
        """Parameters at these logits in these gaps."""
        low, high = self.low[rows], self.high[rows]
        near = np.exp(-np.abs(logit))
        share = near / (1 + near)
        with np.errstate(divide="ignore"):
            far = self.scale * 2 * share * (1 + near) / (1 - near)
        step = np.where(low < high, (high - low) * share, far)
        return np.asarray(np.where(logit < 0, low + step, high - step))

    def at(self, logit: Floats, rows: Rows) -> Point:
        """Points of the curve at these logits in these gaps."""
        return self.curve(self.place(logit, rows), self.branch[rows])

    def limits(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the ends of the gaps in z (2 × gaps), and which of them are isolated atoms.

        At those G is infinite, and z is extrapolated.
        """
        limits, is_atom = [], []
        for end, logit in zip((self.low, self.high), self.ends, strict=True):
            point = self.curve(end, self.branch)
            z = np.array(point.z, dtype=float)
            at_atom = ~(np.isfinite(point.g) & np.isfinite(z))
            rows = np.flatnonzero(at_atom)
            u = self.place(logit[rows], rows)
            point = self.curve(u, self.branch[rows])
            z[rows] = point.z + point.dz * (end[rows] - u)
            limits.append(z)
            is_atom.append(at_atom)
        return np.array(limits), np.array(is_atom)


def split(gaps: Gaps, field: str, levels: Sequence[float]) -> Gaps:
    """Cut the gaps where a field of their points, monotone on each, crosses some levels.

    A gap through infinity may be cut on both sides of it.
    """
    wraps, (first, last) = gaps.wraps, gaps.ends
    both = np.flatnonzero(wraps)
    rows = np.append(np.arange(len(wraps)), both)
    start = np.append(first, np.full(both.size, 1e-9))
    stop = np.append(np.where(wraps, -1e-9, last), last[both])
    side = np.repeat(np.arange(len(rows)), len(levels))
    level = np.tile(np.asarray(levels, dtype=float), len(rows))

    def excess(logit: Floats, which: Rows) -> Floats:
        return squeeze(getattr(gaps.at(logit, rows[side[which]]), field) - level[which])

    before, after = (getattr(gaps.at(logit, rows), field)[side] for logit in (start, stop))
    with np.errstate(invalid="ignore"):
        cut = np.flatnonzero((before < level) != (after < level))
    side, level = side[cut], level[cut]
    root = find_roots(excess, start[side], stop[side])
    order = np.lexsort((root, rows[side]))
    row, root = rows[side][order], root[order]
    u = polished(gaps.curve, gaps.place(root, row), gaps.branch[row], field, level[order])
    # Pieces: from the low end to the first cut of a gap, and from each cut to the next.
    ahead = np.append(row[1:] == row[:-1], False)
    is_first = np.append(True, row[1:] != row[:-1])[: len(row)]
    to, to_root = gaps.high.copy(), np.full(len(wraps), np.inf)
    to[row[is_first]], to_root[row[is_first]] = u[is_first], root[is_first]
    low = np.append(gaps.low, u)
    high = np.append(to, np.where(ahead, np.roll(u, -1), gaps.high[row]))
    start = np.append(np.full(len(wraps), -np.inf), root)
    stop = np.append(to_root, np.where(ahead, np.roll(root, -1), np.inf))
    parent = np.append(np.arange(len(wraps)), row)
    # Two cuts at the same place leave nothing, or by rounding less, between them.
    proper = (low >= high) == (wraps[parent] & (start < 0) & (stop > 0))
    low, high, parent = low[proper], high[proper], parent[proper]
    return gaps._replace(low=low, high=high, branch=gaps.branch[parent])


def polished(curve: Curve, u: Floats, branch: Rows, field: str, level: Floats | float) -> Floats:
    """Bring parameters where a field almost has a value to full precision."""
    with np.errstate(all="ignore"):
        point = curve(u, branch)
        step = (getattr(point, field) - level) / getattr(point, f"d{field}")
    return np.where(np.abs(step) < 1e-6 * np.abs(u), u - step, u)


def squeeze(value: Array) -> Floats:
    """Tame the poles of a value, for root finders; not a number counts as −∞."""
    with np.errstate(all="ignore"):
        squeezed = np.copysign(np.log1p(np.abs(value)), value)
    return np.where(np.isfinite(squeezed), squeezed, np.where(value > 0, 999.0, -999.0))


def where_increasing(slope: Slope, gaps: Gaps, *, is_concave: bool) -> Gaps:
    """Return the part of each gap where a slope with one peak is positive.

    A slope that is concave as a function of z lets most gaps that close be recognised from a
    first scan alone.
    """
    every = np.arange(len(gaps.low))
    peak, middle, left, right, bound = _scan(slope, gaps.ends, every, _SCAN)
    if is_concave:
        doubtful = (peak <= 0) & (bound > 0) & ~gaps.wraps
    else:
        doubtful = (peak <= 0) & (peak > -2.5)
        rows = np.flatnonzero(doubtful)
        peak[rows], middle[rows], left[rows], right[rows], _ = _scan(slope, gaps.ends, rows, _FINE)
        doubtful &= (peak <= 0) & (peak > -1.2)
    rows = np.flatnonzero(doubtful)
    middle[rows], peak[rows] = climb(
        lambda x, i: squeeze(slope(x, rows[i])[0]), left[rows], right[rows]
    )
    rows = np.flatnonzero(peak > 0)
    both = np.tile(rows, 2)
    ends = gaps.ends[:, rows].ravel()
    limit = np.concatenate([gaps.low[rows], gaps.high[rows]])
    closing = np.flatnonzero(squeeze(slope(ends, both)[0]) < 0)  # otherwise an atom
    root = find_roots(
        lambda x, i: squeeze(slope(x, both[closing[i]])[0]), middle[both[closing]], ends[closing]
    )
    inside = np.abs(root) < np.abs(ends[closing]) - 2  # nearer to the end than that is at it
    limit[closing[inside]] = gaps.place(root, both[closing])[inside]
    low, high = np.split(limit, 2)
    return gaps._replace(low=low, high=high, branch=gaps.branch[rows])


def _scan(slope: Slope, ends: Floats, rows: Rows, scan: Floats) -> tuple[Floats, ...]:
    """Return the best slope on a scan of each gap, where it is, its neighbours, and a bound."""
    grid = np.abs(scan) * np.where(scan[:, None] < 0, ends[0, rows], ends[1, rows]).T
    which = np.repeat(rows, len(scan))
    raw, z = (v.reshape(grid.shape) for v in slope(grid.ravel(), which))
    value = squeeze(raw)
    best = value.argmax(axis=1)
    left, right = np.maximum(best - 1, 0), np.minimum(best + 1, len(scan) - 1)
    every = np.arange(len(rows))
    bound = concave_bound(z, raw)
    return value[every, best], grid[every, best], grid[every, left], grid[every, right], bound
