"""Where a law has no mass: the gaps of its support, found on the real axis of its parameter.

Outside the support the parameter is real and z increases with it. One elementary stage (one
semicircle or one Marchenko–Pastur factor) has dz'/dz concave on each gap of the law before it,
so each gap shrinks to one smaller gap or closes; nothing is missed, however many atoms there
are. For a pair of laws each gap belongs to one gap of either law, and is searched for there
(docs/theory/laws.md).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.expression import (
    Addition,
    Expression,
    Multiplication,
    Pair,
    PointMasses,
    Stage,
)
from attnlaw.laws.masses import atom_at_zero
from attnlaw.laws.uniformisation import Array, Point, apply, cauchy_sums, join

Floats = NDArray[np.float64]
Curve = Callable[[Floats, NDArray[np.intp]], Point]  # (parameter, branch) to a real point

_GOLDEN = 0.5 * (np.sqrt(5) - 1)
_FINE = np.linspace(0.02, 0.98, 29)
_SCAN = np.array([1e-12, 1e-4, 0.03, 0.15, 0.35, 0.5, 0.65, 0.85, 0.97, 1 - 1e-4, 1 - 1e-12])


class Gaps(NamedTuple):
    """Open intervals of the real parameter, each on one branch of a real curve."""

    low: Floats  # −inf for the gap that reaches −∞
    high: Floats
    branch: NDArray[np.intp]
    curve: Curve
    scale: float  # length that measures the unbounded gaps

    def place(self, fraction: Floats, rows: NDArray[np.intp]) -> Floats:
        """Parameters at these fractions of these gaps."""
        return place(self.low[rows], self.high[rows], fraction, self.scale)

    def at(self, fraction: Floats, rows: NDArray[np.intp]) -> Point:
        """Points of the curve at these fractions of these gaps."""
        return self.curve(self.place(fraction, rows), self.branch[rows])


def place(low: Floats, high: Floats, fraction: Floats, scale: float) -> Floats:
    """Map a fraction in (0, 1) to a gap that may be unbounded on one side."""
    with np.errstate(all="ignore"):
        odds = fraction / (1 - fraction)
        inside = np.where(
            fraction < 0.5, low + (high - low) * fraction, high - (high - low) * (1 - fraction)
        )
        left = high - scale / odds
        right = low + scale * odds
    return np.where(np.isinf(low), left, np.where(np.isinf(high), right, inside))


def gaps(law: Expression) -> Gaps:
    """Return the gaps of a law's support; isolated atoms separate two adjacent gaps."""
    found = _pair_gaps(law.base) if isinstance(law.base, Pair) else _mass_gaps(law.base)
    for k, stage in enumerate(law.stages):
        before = Expression(law.base, law.stages[:k])
        for part in _elementary(stage):
            found = _after(found, part, before)
            before = Expression(before.base, (*before.stages, part))
    return found


def edges(law: Expression) -> Floats:
    """Return the intervals of the support (n × 2), isolated atoms as intervals of length 0."""
    found = gaps(law)
    z_low, z_high = _end(found, found.low), _end(found, found.high)
    order = np.argsort(z_low)
    z_low, z_high = z_low[order], z_high[order]
    return np.stack([z_high[:-1], z_low[1:]], axis=1)


def _end(found: Gaps, end: Floats) -> Floats:
    z = end.copy()
    finite = np.isfinite(end)
    with np.errstate(all="ignore"):
        z[finite] = found.curve(end[finite], found.branch[finite]).z
    if np.isnan(z).any():  # the end is a pole of G: take the limit
        rows = np.flatnonzero(np.isnan(z))
        fraction = np.where(end[rows] == found.low[rows], 1e-14, 1 - 1e-14)
        z[rows] = found.at(fraction, rows).z
    return z


def _elementary(stage: Stage) -> Iterator[Stage]:
    if isinstance(stage, Multiplication):
        yield from (Multiplication((c,)) for c in stage.ratios)
        return
    if stage.shift:
        yield Addition(shift=stage.shift)
    if stage.variance:
        yield Addition(variance=stage.variance)
    yield from (Addition(parts=(part,)) for part in stage.parts)


def _mass_gaps(masses: PointMasses) -> Gaps:
    t = masses.locations

    def curve(u: Floats, branch: NDArray[np.intp]) -> Point:
        with np.errstate(all="ignore"):
            g, y, dg, dy = cauchy_sums(masses, u)
        return Point(u, g, y, np.ones_like(u), dg, dy)

    low, high = np.append(-np.inf, t), np.append(t, np.inf)
    scale = float(np.abs(t).max()) or 1.0
    return Gaps(low, high, np.zeros(len(low), dtype=np.intp), curve, scale)


def _after(found: Gaps, stage: Stage, before: Expression) -> Gaps:
    """Return the gaps after one elementary stage."""

    def curve(u: Floats, branch: NDArray[np.intp]) -> Point:
        with np.errstate(all="ignore"):
            return apply(stage, found.curve(u, branch))

    if isinstance(stage, Addition) and not stage.variance and not stage.parts:
        return found._replace(curve=curve)
    if isinstance(stage, Addition) and stage.parts:
        ((s, c),) = stage.parts
        found = split(found, lambda point: point.g - 1 / (c * s))

    def slope(fraction: Floats, rows: NDArray[np.intp]) -> Floats:
        inner = found.at(fraction, rows)
        with np.errstate(all="ignore"):
            return apply(stage, inner).dz / inner.dz

    low, high, rows = positive_part(slope, found)
    shrunk = Gaps(low, high, found.branch[rows], curve, found.scale)
    after = Expression(before.base, (*before.stages, stage))
    if isinstance(stage, Multiplication) and atom_at_zero(after) > 0:
        shrunk = split(shrunk, lambda point: point.z)
    return shrunk


def split(found: Gaps, value: Callable[[Point], Floats]) -> Gaps:
    """Split every gap at the zero of a function that is monotone on it."""
    n = len(found.low)
    every = np.arange(n)
    start, stop = np.full(n, 1e-13), np.full(n, 1 - 1e-13)
    with np.errstate(all="ignore"):
        first, last = value(found.at(start, every)), value(found.at(stop, every))
        rows = np.flatnonzero(first * last < 0)
        start, stop, sign = start[rows], stop[rows], np.sign(first[rows])
        for _ in range(100):
            middle = 0.5 * (start + stop)
            ahead = np.sign(value(found.at(middle, rows))) == sign
            start, stop = np.where(ahead, middle, start), np.where(ahead, stop, middle)
    cut = found.place(0.5 * (start + stop), rows)
    low = np.append(found.low, cut)
    high = np.append(found.high, found.high[rows])
    branch = np.append(found.branch, found.branch[rows])
    high[rows] = cut
    order = np.argsort(low, kind="stable")
    return found._replace(low=low[order], high=high[order], branch=branch[order])


def positive_part(
    slope: Callable[[Floats, NDArray[np.intp]], Floats], found: Gaps, scan: Floats = _SCAN
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return the interval of each gap on which a quasi-concave slope is positive, and its gap."""
    n = len(found.low)
    every = np.arange(n)
    value = np.stack([slope(np.full(n, f), every) for f in scan])
    value[np.isnan(value)] = -np.inf
    best = value.argmax(axis=0)
    peak = value[best, every]
    middle = scan[best]
    left, right = scan[np.maximum(best - 1, 0)], scan[np.minimum(best + 1, len(scan) - 1)]
    rows = np.flatnonzero(peak <= 0)
    a, b = left[rows], right[rows]
    for _ in range(60):  # golden section, only where no positive value was met yet
        if not rows.size:
            break
        c, d = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
        at_c, at_d = slope(c, rows), slope(d, rows)
        a, b = np.where(at_c < at_d, c, a), np.where(at_c < at_d, b, d)
        top = np.maximum(at_c, at_d)
        met = top > 0
        peak[rows[met]] = top[met]
        middle[rows[met]] = np.where(at_c > at_d, c, d)[met]
        # Concavity bounds what is still to be found; stop when it cannot be positive.
        hopeless = np.abs(b - a) < 1e-15
        keep = ~(met | hopeless)
        rows, a, b = rows[keep], a[keep], b[keep]
    rows = np.flatnonzero(peak > 0)
    middle = middle[rows]
    ends = []
    for end, far in ((found.low, 0.0), (found.high, 1.0)):
        inner, outer = middle.copy(), np.full(len(rows), far)
        for _ in range(110):
            trial = 0.5 * (inner + outer)
            good = slope(trial, rows) > 0
            inner, outer = np.where(good, trial, inner), np.where(good, outer, trial)
        reached = np.abs(inner - far) < 1e-13  # positive up to the end: an atom, or infinity
        ends.append(np.where(reached, end[rows], found.place(inner, rows)))
    return ends[0], ends[1], rows


def _pair_gaps(pair: Pair) -> Gaps:
    """Return the gaps of a sum or product of two laws, on the parameter of the left one."""
    left, right = gaps(pair.left), gaps(pair.right)

    def value(point: Point) -> Array:
        return point.g if pair.kind == "sum" else point.y

    def slope_of(point: Point) -> Array:
        return point.dg if pair.kind == "sum" else point.dy

    # Cut the left gaps where G (or y) meets the end of a right gap's range, or 0.
    n = len(right.low)
    every = np.arange(n)
    first = value(right.at(np.full(n, 1e-13), every))
    last = value(right.at(np.full(n, 1 - 1e-13), every))
    cuts = np.append(first, last)
    for cut in np.unique(np.append(0.0, cuts[np.abs(cuts) < 1e9 / right.scale])):
        left = split(left, lambda point, cut=cut: value(point) - cut)  # type: ignore[misc]
    n_left = len(left.low)

    def curve(u: Floats, branch: NDArray[np.intp]) -> Point:
        with np.errstate(all="ignore"):
            a = left.curve(u, left.branch[branch % n_left])
            rows, wanted = branch // n_left, value(a)
            start, stop = np.full(u.shape, 1e-15), np.full(u.shape, 1 - 1e-15)
            for _ in range(64):
                middle = 0.5 * (start + stop)
                above = value(right.at(middle, rows)) > wanted
                start, stop = np.where(above, middle, start), np.where(above, stop, middle)
            w = right.place(0.5 * (start + stop), rows)
            for _ in range(3):
                b = right.curve(w, right.branch[rows])
                step = (value(b) - wanted) / slope_of(b)
                w = w - np.where(np.abs(step) < 1e-3 * np.abs(w), step, 0.0)
            b = right.curve(w, right.branch[rows])
            off = np.abs(value(b) - wanted) > 1e-6 * np.abs(wanted)
            rate = np.where(off, np.nan, slope_of(a) / slope_of(b))  # dw/du
            b = b._replace(dz=b.dz * rate, dg=b.dg * rate, dy=b.dy * rate)
            return join(pair.kind, a, b)[0]

    branch = np.arange(n * n_left)
    whole = Gaps(np.tile(left.low, n), np.tile(left.high, n), branch, curve, left.scale)

    def slope(fraction: Floats, rows: NDArray[np.intp]) -> Floats:
        return whole.at(fraction, rows).dz

    low, high, rows = positive_part(slope, whole, np.sort(np.append(_SCAN, _FINE)))
    return Gaps(low, high, branch[rows], curve, left.scale)
