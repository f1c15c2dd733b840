"""Where a law has no mass: the gaps of its support, found on the real axis of its parameter.

Outside the support the parameter is real and z increases with it. An addition, or one
Marchenko–Pastur factor, has dz'/dz concave on each gap of the law before it (cut at the poles),
so each gap shrinks to one smaller gap or closes: nothing is missed, however many atoms there are.
For a pair of laws each gap belongs to one gap of either law, and is searched for there
(docs/theory/laws.md). The outer gap is one gap, through infinity.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    Stage,
)
from attnlaw.laws.masses import atoms
from attnlaw.laws.roots import climb, concave_bound, find_roots
from attnlaw.laws.uniformisation import Array, Point, apply, cauchy_sums, join

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Curve = Callable[[Floats, Rows], Point]  # (parameter, branch) to a real point

_SHARP, _BLUNT = 27.0, 12.0  # logits next to the ends of a gap, for point masses and for pairs
_SCAN = np.array([-27, -18, -12, -7, -4, -1.5, -0.4, -1e-3, 0.4, 1.5, 4, 7, 12, 18, 27])
_FINE = np.sort(np.append(_SCAN, np.arange(-11.9, 12.0, 0.5)))


class Gaps(NamedTuple):
    """Open intervals of the real parameter, each on one branch of a real curve.

    A gap with low ≥ high goes through infinity: from low to ∞ and on from −∞ to high. Inside a
    gap a point is given by its logit, which keeps its precision at both ends. The curve can be
    trusted up to logits ±end; closer to an atom that of a pair is all rounding.
    """

    low: Floats
    high: Floats
    branch: Rows
    curve: Curve
    scale: float  # length that measures the gap through infinity
    end: float = _SHARP

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

    def limits(self) -> tuple[Floats, Floats]:
        """Return the ends of the gaps in z; where the curve has no value there, its limit."""
        ends = []
        for end, logit in ((self.low, -self.end), (self.high, self.end)):
            z = np.array(self.curve(end, self.branch).z, dtype=float)
            rows = np.flatnonzero(~np.isfinite(z))
            u = self.place(np.full(rows.size, logit), rows)
            point = self.curve(u, self.branch[rows])
            z[rows] = point.z + point.dz * (end[rows] - u)
            ends.append(z)
        return ends[0], ends[1]


def intervals(law: Expression) -> Floats:
    """Return the intervals of the support (n × 2); isolated atoms have length 0."""
    found = gaps(law)
    low, high = (_snapped(end, atoms(law, -1e-12), 1e-7 * law.bound) for end in found.limits())
    real = ~(np.abs(high - low) <= 1e-13 * law.bound) & np.isfinite(low + high)
    low, high = low[real], high[real]
    outer = int(np.argmax(low - high))  # the gap through infinity has low > high
    inner = np.delete(np.arange(len(low)), outer)
    inner = inner[np.argsort(low[inner])]
    starts = np.append(high[outer], high[inner])
    stops = np.append(low[inner], low[outer])
    return np.stack([starts, np.maximum(starts, stops)], axis=1)


def _snapped(z: Floats, locations: Iterable[float], tolerance: float) -> Floats:
    """Put the ends of gaps at isolated atoms exactly there."""
    for location in locations:
        z = np.where(np.abs(z - location) < tolerance, location, z)
    return z


def gaps(law: Expression) -> Gaps:
    """Return the gaps of a law's support; an isolated atom separates two of them."""
    if isinstance(law.base, PointMasses):
        found = _between_masses(law.base, law.bound or 1.0)
    else:
        found = _of_pair(law.base.kind, gaps(law.base.left), gaps(law.base.right))
    for k, stage in enumerate(law.stages):
        before = Expression(law.base, law.stages[:k])
        for part in _elementary(stage):
            found = _after(found, part, before)
            before = Expression(before.base, (*before.stages, part))
    return found


def _elementary(stage: Stage) -> tuple[Stage, ...]:
    """Return the steps of a stage whose slope is concave between poles: any addition is one."""
    if isinstance(stage, Multiplication):
        return tuple(Multiplication((c,)) for c in stage.ratios)
    return (stage,)


def _between_masses(masses: PointMasses, scale: float) -> Gaps:
    t = masses.locations

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            g, y, dg, dy = cauchy_sums(masses, u)
        return Point(u, g, y, np.ones_like(u), dg, dy)

    return Gaps(t, np.roll(t, -1), np.zeros(len(t), dtype=np.intp), curve, scale)


def _after(found: Gaps, stage: Stage, before: Expression) -> Gaps:
    """Return the gaps after one elementary stage."""
    inner = found.curve

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            return apply(stage, inner(u, branch))

    if isinstance(stage, Addition):
        for s, c in stage.parts:  # z has a pole where G = 1/(cs)
            found = _split(found, "g", 1 / (c * s))

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = found.at(logit, rows)
        with np.errstate(all="ignore"):
            ratio = apply(stage, point).dz / point.dz
        return np.where(point.dz > 0, ratio, -np.inf), np.asarray(point.z)

    shrunk = _positive_part(slope, found, is_concave=True)._replace(curve=curve)
    after = Expression(before.base, (*before.stages, stage))
    if isinstance(stage, Multiplication) and 0.0 in atoms(after):
        shrunk = _split(shrunk, "z", 0.0)
    return shrunk


def _split(found: Gaps, field: str, level: float) -> Gaps:
    """Split every gap where a field of its points crosses a level: on both sides of infinity."""
    wraps = found.low >= found.high
    found = _cut(found, field, level, -found.end, np.where(wraps, -1e-9, found.end))
    wraps = found.low >= found.high
    return _cut(found, field, level, np.where(wraps, 1e-9, found.end), found.end)


def _cut(
    found: Gaps, field: str, level: float, start: Floats | float, stop: Floats | float
) -> Gaps:
    """Cut each gap once, where the field crosses the level between two logits."""
    every = np.arange(len(found.low))
    start, stop = np.broadcast_to(start, every.shape), np.broadcast_to(stop, every.shape)

    def excess(logit: Floats, rows: Rows) -> Floats:
        return _squeeze(getattr(found.at(logit, rows), field) - level)

    rows = np.flatnonzero(excess(start, every) * excess(stop, every) < 0)
    root = find_roots(lambda x, i: excess(x, rows[i]), start[rows], stop[rows])
    where = found.place(root, rows)
    where = _polished(found.curve, where, found.branch[rows], field, level)
    # A cut at an end that is a cut already would leave a piece of length zero, or less.
    after, before = where > found.low[rows], where < found.high[rows]
    proper = np.where(found.low[rows] < found.high[rows], after & before, after | before)
    rows, where = rows[proper], where[proper]
    high = np.append(found.high, found.high[rows])
    high[rows] = where
    branch = np.append(found.branch, found.branch[rows])
    return found._replace(low=np.append(found.low, where), high=high, branch=branch)


def _polished(curve: Curve, u: Floats, branch: Rows, field: str, level: Floats | float) -> Floats:
    """Bring parameters where a field almost has a value to full precision."""
    with np.errstate(all="ignore"):
        point = curve(u, branch)
        step = (getattr(point, field) - level) / getattr(point, f"d{field}")
    return np.where(np.abs(step) < 1e-6 * np.abs(u), u - step, u)


def _squeeze(value: Array) -> Floats:
    """Tame the poles of a value, for root finders; not a number counts as −∞."""
    with np.errstate(all="ignore"):
        squeezed = np.copysign(np.log1p(np.abs(value)), value)
    return np.where(np.isfinite(squeezed), squeezed, np.where(value > 0, 999.0, -999.0))


Slope = Callable[[Floats, Rows], tuple[Floats, Floats]]  # (logit, gap) to (slope, z)


def _scan(slope: Slope, rows: Rows, scan: Floats) -> tuple[Floats, ...]:
    """Return the best slope on a scan of each gap, where it is, its neighbours, and a bound."""
    grid = np.tile(scan, (len(rows), 1))
    raw, z = (v.reshape(grid.shape) for v in slope(grid.ravel(), np.repeat(rows, len(scan))))
    value = _squeeze(raw)
    best = value.argmax(axis=1)
    left, right = np.maximum(best - 1, 0), np.minimum(best + 1, len(scan) - 1)
    peak = value[np.arange(len(rows)), best]
    return peak, scan[best], scan[left], scan[right], concave_bound(z, raw)


def _positive_part(
    slope: Slope,
    found: Gaps,
    *,
    is_concave: bool,
) -> Gaps:
    """Return the part of each gap where a slope with one peak is positive.

    `slope` returns the slope and z; a concave slope (as a function of z) lets most gaps that
    close be recognised from the scan alone.
    """
    every = np.arange(len(found.low))
    scan, fine = (logits[np.abs(logits) <= found.end] for logits in (_SCAN, _FINE))
    peak, middle, left, right, bound = _scan(slope, every, scan)
    if is_concave:
        doubtful = (peak <= 0) & (bound > 0) & (found.low < found.high)
    else:
        doubtful = (peak <= 0) & (peak > -2.5)
        rows = np.flatnonzero(doubtful)
        peak[rows], middle[rows], left[rows], right[rows], _ = _scan(slope, rows, fine)
        doubtful &= (peak <= 0) & (peak > -1.2)
    rows = np.flatnonzero(doubtful)
    middle[rows], peak[rows] = climb(
        lambda x, i: _squeeze(slope(x, rows[i])[0]), left[rows], right[rows]
    )

    rows = np.flatnonzero(peak > 0)
    ends = np.repeat([-found.end, found.end], len(rows))
    both = np.tile(rows, 2)
    limit = np.concatenate([found.low[rows], found.high[rows]])
    closing = np.flatnonzero(_squeeze(slope(ends, both)[0]) < 0)  # otherwise an atom
    root = find_roots(
        lambda x, i: _squeeze(slope(x, both[closing[i]])[0]), middle[both[closing]], ends[closing]
    )
    limit[closing] = found.place(root, both[closing])
    low, high = np.split(limit, 2)
    return found._replace(low=low, high=high, branch=found.branch[rows])


def _of_pair(kind: str, left: Gaps, right: Gaps) -> Gaps:
    """Return the gaps of a sum or product of two laws, on the parameter of the left one."""
    field = "g" if kind == "sum" else "y"  # what the two laws have in common
    unit = right.scale if kind == "sum" else 1.0  # makes it dimensionless
    n = len(right.low)
    first, last = (
        getattr(right.at(np.full(n, end), np.arange(n)), field) for end in (-right.end, right.end)
    )
    pieces = []  # the left gaps, cut where the field leaves the range of each right gap
    for ends in zip(first, last, strict=True):
        piece = left
        for end in ends:
            if 1e-9 < abs(end) * unit < 1e9:
                piece = _split(piece, field, end)
        pieces.append(piece)
    partners = np.repeat(np.arange(n), [len(piece.low) for piece in pieces])
    low, high, inner = (np.concatenate([piece[k] for piece in pieces]) for k in range(3))

    def partner(wanted: Floats, rows: Rows) -> Point:
        """Return the point of the right law, in these gaps, where the field is as wanted."""

        def excess(logit: Floats, which: Rows) -> Floats:
            here = getattr(right.at(logit, rows[which]), field)
            return _squeeze(here * unit) - _squeeze(wanted[which] * unit)

        ends = np.full(wanted.shape, right.end)
        every = np.arange(wanted.size)
        valid = (excess(-ends, every) >= 0) & (excess(ends, every) <= 0) & np.isfinite(wanted)
        logit = np.full(wanted.shape, np.nan)
        kept = np.flatnonzero(valid)
        logit[kept] = find_roots(lambda x, which: excess(x, kept[which]), -ends[kept], ends[kept])
        w, branch = right.place(logit, rows), right.branch[rows]
        return right.curve(_polished(right.curve, w, branch, field, wanted), branch)

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            a = left.curve(u, inner[branch])
            b = partner(getattr(a, field), partners[branch])
            rate = getattr(a, f"d{field}") / getattr(b, f"d{field}")
            b = b._replace(dz=b.dz * rate, dg=b.dg * rate, dy=b.dy * rate)
            near, far = join(kind, a, b)[0], join(kind, b, a)[0]
            swap = np.abs(a.z) * right.scale > np.abs(b.z) * left.scale
            return Point(*(np.where(swap, f, m) for f, m in zip(far, near, strict=True)))

    whole = Gaps(low, high, np.arange(len(low)), curve, left.scale, _BLUNT)

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = whole.at(logit, rows)
        return np.asarray(point.dz), np.asarray(point.z)

    return _positive_part(slope, whole, is_concave=False)
