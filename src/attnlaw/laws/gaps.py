"""Where a law has no mass: the gaps of its support, found on the real axis of its parameter.

Outside the support the parameter is real and z increases with it. An addition, or one
Marchenko–Pastur factor, has dz'/dz concave on each gap of the law before it (cut at the poles),
so each gap shrinks to one smaller gap or closes: nothing is missed, however many atoms there are.
For a pair of laws each gap belongs to one gap of either law, and is searched for there
(docs/theory/laws.md). The outer gap is one gap, through infinity.
"""

from collections.abc import Callable
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
from attnlaw.laws.masses import atom_at_zero
from attnlaw.laws.roots import climb, concave_bound, find_roots
from attnlaw.laws.uniformisation import Array, Point, apply, cauchy_sums, join

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Curve = Callable[[Floats, Rows], Point]  # (parameter, branch) to a real point

_END = 27.0  # logits of a gap's ends: closer than rounding
_SCAN = np.array([-27, -18, -12, -7, -4, -1.5, -0.4, -1e-3, 0.4, 1.5, 4, 7, 12, 18, 27])
_FINE = np.sort(np.append(_SCAN[1:-1], np.arange(-12.1, 12.0, 0.5)))


class Gaps(NamedTuple):
    """Open intervals of the real parameter, each on one branch of a real curve.

    A gap with low ≥ high goes through infinity: from low to ∞ and on from −∞ to high. Inside a
    gap a point is given by its logit, which keeps its precision at both ends.
    """

    low: Floats
    high: Floats
    branch: Rows
    curve: Curve
    scale: float  # length that measures the gap through infinity

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
        for end, sign in ((self.low, -1.0), (self.high, 1.0)):
            z = np.asarray(self.curve(end, self.branch).z, dtype=float)
            for logit in (_END, 0.95 * _END, 0.9 * _END, 0.8 * _END):
                rows = np.flatnonzero(~np.isfinite(z))
                z[rows] = self.at(np.full(rows.size, sign * logit), rows).z
            ends.append(z)
        return ends[0], ends[1]


def intervals(law: Expression) -> Floats:
    """Return the intervals of the support (n × 2); isolated atoms have length 0."""
    found = gaps(law)
    low, high = found.limits()
    real = ~(np.abs(high - low) <= 1e-13 * law.bound) & np.isfinite(low + high)
    low, high = low[real], high[real]
    outer = int(np.argmax(low - high))  # the gap through infinity has low > high
    inner = np.delete(np.arange(len(low)), outer)
    inner = inner[np.argsort(low[inner])]
    starts = np.append(high[outer], high[inner])
    stops = np.append(low[inner], low[outer])
    return np.stack([starts, np.maximum(starts, stops)], axis=1)


def gaps(law: Expression) -> Gaps:
    """Return the gaps of a law's support; an isolated atom separates two of them."""
    if isinstance(law.base, PointMasses):
        found = _between_masses(law.base)
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


def _between_masses(masses: PointMasses) -> Gaps:
    t = masses.locations

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            g, y, dg, dy = cauchy_sums(masses, u)
        return Point(u, g, y, np.ones_like(u), dg, dy)

    scale = float(np.abs(t).max()) or 1.0
    return Gaps(t, np.roll(t, -1), np.zeros(len(t), dtype=np.intp), curve, scale)


def _after(found: Gaps, stage: Stage, before: Expression) -> Gaps:
    """Return the gaps after one elementary stage."""
    inner = found.curve

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            return apply(stage, inner(u, branch))

    if isinstance(stage, Addition):
        for s, c in stage.parts:  # z has a pole where G = 1/(cs)
            found = _split(found, lambda point: point.g, 1 / (c * s))

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = found.at(logit, rows)
        with np.errstate(all="ignore"):
            return np.asarray(apply(stage, point).dz / point.dz), np.asarray(point.z)

    shrunk = _positive_part(slope, found, is_concave=True)._replace(curve=curve)
    after = Expression(before.base, (*before.stages, stage))
    if isinstance(stage, Multiplication) and atom_at_zero(after) > 0:
        shrunk = _split(shrunk, lambda point: point.z, 0.0)
    return shrunk


def _split(found: Gaps, value: Callable[[Point], Array], level: float) -> Gaps:
    """Split every gap where a value crosses a level: once, or once on either side of infinity."""
    wraps = found.low >= found.high
    rows = np.concatenate([np.flatnonzero(~wraps), np.tile(np.flatnonzero(wraps), 2)])
    n, m = int((~wraps).sum()), int(wraps.sum())
    start = np.concatenate([np.full(n, -_END), np.full(m, -_END), np.full(m, 1e-9)])
    stop = np.concatenate([np.full(n, _END), np.full(m, -1e-9), np.full(m, _END)])

    def sign(logit: Floats, which: Rows) -> Floats:
        return _squeeze(value(found.at(logit, rows[which])) - level)

    every = np.arange(len(rows))
    cut = np.flatnonzero(sign(start, every) * sign(stop, every) < 0)
    rows, start, stop = rows[cut], start[cut], stop[cut]
    where = found.place(find_roots(sign, start, stop), rows)
    low = np.append(found.low, where)
    high = np.append(found.high, found.high[rows])
    for row, u in zip(rows, where, strict=True):
        high[row] = u
    return found._replace(low=low, high=high, branch=np.append(found.branch, found.branch[rows]))


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
    scan = _SCAN if is_concave else _SCAN[1:-1]  # a pair's slope is all rounding at its ends
    peak, middle, left, right, bound = _scan(slope, every, scan)
    if is_concave:
        doubtful = (peak <= 0) & (bound > 0) & (found.low < found.high)
    else:
        doubtful = (peak <= 0) & (peak > -2.5)
        rows = np.flatnonzero(doubtful)
        peak[rows], middle[rows], left[rows], right[rows], _ = _scan(slope, rows, _FINE)
        doubtful &= (peak <= 0) & (peak > -1.2)
    rows = np.flatnonzero(doubtful)
    middle[rows], peak[rows] = climb(
        lambda x, i: _squeeze(slope(x, rows[i])[0]), left[rows], right[rows]
    )

    rows = np.flatnonzero(peak > 0)
    ends = np.concatenate([np.full(len(rows), -_END), np.full(len(rows), _END)])
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

    def value(point: Point) -> Array:
        return point.g if kind == "sum" else point.y

    unit = right.scale if kind == "sum" else 1.0  # makes the value dimensionless
    n = len(right.low)
    every = np.arange(n)
    first, last = (value(right.at(np.full(n, end), every)) for end in (-_END, _END))
    for cut in np.unique([first, last]):  # where the left value leaves the range of a right gap
        if np.isfinite(cut) and 1e-9 < abs(cut) * unit < 1e9:
            left = _split(left, value, cut)
    n_left = len(left.low)

    def partner(wanted: Floats, rows: Rows) -> Point:
        """Return the point of the right law, in these gaps, that has the wanted value."""

        def excess(logit: Floats, which: Rows) -> Floats:
            here, there = value(right.at(logit, rows[which])) * unit, wanted[which] * unit
            return _squeeze(here) - _squeeze(there)

        ends = np.full(wanted.shape, _END)
        every = np.arange(wanted.size)
        valid = (excess(-ends, every) >= 0) & (excess(ends, every) <= 0) & np.isfinite(wanted)
        logit = np.full(wanted.shape, np.nan)
        kept = np.flatnonzero(valid)
        logit[kept] = find_roots(lambda x, which: excess(x, kept[which]), -ends[kept], ends[kept])
        w = right.place(logit, rows)
        point = right.curve(w, right.branch[rows])
        step = (value(point) - wanted) / (point.dg if kind == "sum" else point.dy)
        w = np.where(np.abs(step) < 1e-6 * np.abs(w), w - step, w)  # to full precision
        return right.curve(w, right.branch[rows])

    def curve(u: Floats, branch: Rows) -> Point:
        with np.errstate(all="ignore"):
            a = left.curve(u, left.branch[branch % n_left])
            b = partner(value(a), branch // n_left)
            rate = (a.dg / b.dg) if kind == "sum" else (a.dy / b.dy)
            b = b._replace(dz=b.dz * rate, dg=b.dg * rate, dy=b.dy * rate)
            near, far = join(kind, a, b)[0], join(kind, b, a)[0]
            swap = np.abs(a.z) * right.scale > np.abs(b.z) * left.scale
            return Point(*(np.where(swap, f, m) for f, m in zip(far, near, strict=True)))

    branch = np.arange(n * n_left)
    whole = Gaps(np.tile(left.low, n), np.tile(left.high, n), branch, curve, left.scale)

    def slope(logit: Floats, rows: Rows) -> tuple[Floats, Floats]:
        point = whole.at(logit, rows)
        return np.asarray(point.dz), np.asarray(point.z)

    return _positive_part(slope, whole, is_concave=False)
