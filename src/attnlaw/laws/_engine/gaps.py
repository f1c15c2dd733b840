"""Open intervals of a real parameter, the gaps of a support, and how they shrink and split.

Outside the support of a law its parameter is real and z increases with it. The gaps of a support
are therefore found as intervals of the parameter; `support` builds them up stage by stage. At the
end, roots and peaks of many scalar functions at once.

A parameter is kept as a *place*: the complex number a + id stands for a + d, where a is an atom
and d the distance from it. So it has all its digits also next to an atom that is not at zero.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats
from attnlaw.laws._engine.uniformisation import Array, Point

Rows = NDArray[np.intp]
Places = Complexes
Curve = Callable[[Places, Rows], Point]  # (parameter, branch) to a real point
Slope = Callable[[Floats, Rows], tuple[Floats, Floats]]  # (logit, gap) to (slope, z)
Function = Callable[[Floats, Rows], Floats]  # (argument, which function) to value

Derived = Callable[[Floats, Rows], tuple[Floats, Floats]]  # to value and derivative

_ZOOM = np.linspace(0.0, 1.0, 14)
_TOLERANCE = 1e-11
_FEW = 100  # brackets that are narrowed by a grid first

SHARP, BLUNT = 1e-13, 1e-6  # how close to an atom curves of point masses and of pairs are precise
# Where to look for a positive slope, from one end of a gap (−1) to the other (1).
_SCAN = np.array([0.67, 0.45, 0.26, 0.15, 0.055, 0.015])
_SCAN = np.array([-1, *-_SCAN, -4e-5, *_SCAN[::-1], 1])


class Gaps(NamedTuple):
    """Gaps as intervals of the real parameter, each on one branch of a real curve.

    A gap with low ≥ high goes through infinity: from low to ∞ and on from −∞ to high. Inside a
    gap a point is given by its logit, which keeps its precision at both ends. Closer to an end
    than `close`, relatively, or than the distance `nearest`, the curve is all rounding.
    """

    low: Places
    high: Places
    branch: Rows
    curve: Curve
    scale: float  # length that measures the gap through infinity
    close: float
    nearest: Floats  # on each branch of the curve, at either end (2 × branches)

    @property
    def wraps(self) -> NDArray[np.bool_]:
        """Whether each gap goes through infinity."""
        return np.asarray(distance(self.high, self.low) <= 0)

    @property
    def ends(self) -> Floats:
        """Logits next to the ends of the gaps (2 × gaps), the first ones negative."""
        close = self.close * np.abs([self.low.imag, self.high.imag])
        with np.errstate(divide="ignore"):
            far = np.log(self.span / np.maximum(close, self.nearest[:, self.branch]))
        return np.asarray(np.clip(far, 3.0, 60.0) * [[-1], [1]])

    @property
    def span(self) -> Floats:
        """Lengths of the gaps, twice the scale for one through infinity."""
        return np.where(self.wraps, 2 * self.scale, distance(self.high, self.low))

    def place(self, logit: Floats, rows: Rows) -> Places:
        """Parameters at these logits in these gaps."""
        low, high = self.low[rows], self.high[rows]
        length = distance(high, low)
        near = np.exp(-np.abs(logit))
        share = near / (1 + near)
        with np.errstate(divide="ignore"):
            far = self.scale * 2 * share * (1 + near) / -np.expm1(-np.abs(logit))
        step = 1j * np.where(length > 0, length * share, far)
        return np.asarray(np.where(logit < 0, low + step, high - step))

    def rate(self, logit: Floats, rows: Rows) -> Floats:
        """Return the derivative of the parameter with respect to the logit."""
        near = np.exp(-np.abs(logit))
        length = distance(self.high[rows], self.low[rows])
        with np.errstate(divide="ignore"):
            far = 2 * self.scale * near / np.expm1(-np.abs(logit)) ** 2
        return np.asarray(np.where(length > 0, length * near / (1 + near) ** 2, far))

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
            z[rows] = point.z + point.dz * distance(end[rows], u)
            limits.append(z)
            is_atom.append(at_atom)
        return np.array(limits), np.array(is_atom)


def distance(to: Places, start: Places) -> Floats:
    """Return how far one place lies above another, exactly if both belong to one atom."""
    return np.asarray((to.real - start.real) + (to.imag - start.imag))


class Cuts(NamedTuple):
    """Points inside gaps, several in one gap if need be."""

    row: Rows  # the gap
    logit: Floats
    u: Places  # the parameter
    level: Rows  # which level is crossed there


def split(gaps: Gaps, field: str, levels: Sequence[float]) -> Gaps:
    """Cut the gaps where a field of their points crosses some levels.

    The field is monotone on a gap; on one through infinity it is so on either side of infinity.
    """
    return pieces(gaps, crossings(gaps, field, levels))


def crossings(gaps: Gaps, field: str, levels: Sequence[float]) -> Cuts:
    """Return where the field has one of the levels."""
    row, start, stop = _stretches(gaps)
    before, after = (getattr(gaps.at(logit, row), field) for logit in (start, stop))
    with np.errstate(invalid="ignore"):
        crossed = (before[:, None] < levels) != (after[:, None] < levels)  # stretches × levels
    stretch, which = np.nonzero(crossed)
    row, level = row[stretch], np.asarray(levels, dtype=float)[which]

    def excess(logit: Floats, rows: Rows) -> Floats:
        return squeeze(getattr(gaps.at(logit, row[rows]), field) - level[rows])

    logit = find_roots(excess, start[stretch], stop[stretch])
    u = polished(gaps, gaps.place(logit, row), row, field, level)
    return Cuts(row, logit, u, which)


def _stretches(gaps: Gaps) -> tuple[Rows, Floats, Floats]:
    """Return stretches of gaps that do not contain infinity: gap, first and last logit."""
    wraps, (first, last) = gaps.wraps, gaps.ends
    beyond = np.flatnonzero(wraps)  # from −∞ on
    row = np.append(np.arange(len(wraps)), beyond)
    start = np.append(first, np.full(beyond.size, 1e-9))
    stop = np.append(np.where(wraps, -1e-9, last), last[beyond])
    return row, start, stop


def pieces(gaps: Gaps, cuts: Cuts) -> Gaps:
    """Return what is left of the gaps between one cut, or end, and the next."""
    every, inf = np.arange(len(gaps.low)), np.full(len(gaps.low), np.inf)
    row = np.concatenate([every, cuts.row, every])
    logit = np.concatenate([-inf, cuts.logit, inf])
    u = np.concatenate([gaps.low, cuts.u, gaps.high])
    order = np.lexsort((logit, row))
    start, stop = order[:-1], order[1:]
    same = row[start] == row[stop]
    start, stop = start[same], stop[same]
    # Two cuts at the same place leave nothing, or by rounding less, between them.
    has_infinity = gaps.wraps[row[start]] & (logit[start] < 0) & (logit[stop] > 0)
    proper = (distance(u[stop], u[start]) <= 0) == has_infinity
    start, stop = start[proper], stop[proper]
    return gaps._replace(low=u[start], high=u[stop], branch=gaps.branch[row[start]])


def polished(gaps: Gaps, u: Places, rows: Rows, field: str, level: Floats) -> Places:
    """Bring parameters inside gaps, where a field almost has a value, to full precision."""
    low, high = gaps.low[rows], gaps.high[rows]
    with np.errstate(all="ignore"):
        point = gaps.curve(u, gaps.branch[rows])
        step = (getattr(point, field) - level) / getattr(point, f"d{field}")
        beside = np.minimum(np.abs(distance(u, low)), np.abs(distance(u, high)))
        close = np.abs(step) < 1e-6 * np.maximum(np.abs(u.imag), beside)
        return np.asarray(np.where(close, u - 1j * np.where(close, step, 0.0), u))


def squeeze(value: Array) -> Floats:
    """Tame the poles of a value, for root finders; not a number counts as −∞."""
    with np.errstate(all="ignore"):
        squeezed = np.copysign(np.log1p(np.abs(value)), value)
    return np.where(np.isfinite(squeezed), squeezed, np.where(value > 0, 999.0, -999.0))


def where_concave(slope: Slope, gaps: Gaps) -> Gaps:
    """Return the part of each gap where a slope, concave as a function of z, is positive.

    Most gaps that close are recognised from a first scan alone; where it finds no positive slope,
    but cannot exclude one, the peak is climbed.
    """
    peak, middle, left, right, bound = _scan(slope, gaps.ends)
    rows = np.flatnonzero((peak <= 0) & (bound > 0) & ~gaps.wraps)
    middle[rows], peak[rows] = climb(
        lambda x, i: squeeze(slope(x, rows[i])[0]), left[rows], right[rows]
    )
    return shrunk(lambda x, i: squeeze(slope(x, i)[0]), gaps, peak, middle)


def shrunk(slope: Function, gaps: Gaps, peak: Floats, middle: Floats) -> Gaps:
    """Return the part of each gap where a slope is positive, from one place of it at most.

    That is where it has its `peak`, at the logit `middle`; a peak that is not positive closes
    the gap.
    """
    rows = np.flatnonzero(peak > 0)
    low, high = gaps.low[rows], gaps.high[rows]
    every = np.tile(rows, 2)
    ends = gaps.ends[:, rows].ravel()
    closing = np.flatnonzero(slope(ends, every) < 0)  # otherwise it ends at an atom
    at, ends = every[closing], ends[closing]
    root = find_roots(lambda x, i: slope(x, at[i]), middle[at], ends)
    inside = np.abs(root) < np.abs(ends) - 2  # nearer to the end than that is at it
    limits = np.concatenate([low, high])
    limits[closing[inside]] = gaps.place(root, at)[inside]
    low, high = np.split(limits, 2)
    return gaps._replace(low=low, high=high, branch=gaps.branch[rows])


def _scan(slope: Slope, ends: Floats) -> tuple[Floats, ...]:
    """Return the best slope on a scan of each gap, where it is, its neighbours, and a bound."""
    grid = np.abs(_SCAN) * np.where(_SCAN[:, None] < 0, ends[0], ends[1]).T
    every = np.arange(len(grid))
    raw, z = (v.reshape(grid.shape) for v in slope(grid.ravel(), np.repeat(every, len(_SCAN))))
    value = squeeze(raw)
    best = value.argmax(axis=1)
    left, right = np.maximum(best - 1, 0), np.minimum(best + 1, len(_SCAN) - 1)
    bound = concave_bound(z, raw)
    return value[every, best], grid[every, best], grid[every, left], grid[every, right], bound


def find_roots(function: Function, a: Floats, b: Floats) -> Floats:
    """Return a root of each function between a and b, where its signs differ.

    Chandrupatla's method (1997): inverse quadratic interpolation when the last three points
    allow it, bisection otherwise; to 1e-11 of 1 + |root|.
    """
    root = np.empty(a.shape)
    if not a.size:
        return root
    rows, few = np.arange(a.size), a.size <= _FEW
    if few:
        a, b = _narrowed(function, a, b, 2)
    fa, fb = function(a, rows), function(b, rows)
    c, fc = a, fa
    share = np.full(a.size, 0.5)
    for _ in range(12 if few else 64):
        x = a + share * (b - a)
        fx = function(x, rows)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        with np.errstate(all="ignore"):
            slack = _TOLERANCE * (np.abs(best) + 1) / np.abs(b - c)
            done = (slack > 0.5) | (fa == 0) | ~np.isfinite(slack)
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            quadratic = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            share = fa / (fb - fa) * fc / (fb - fc)
            share = share + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        share = np.where(quadratic & np.isfinite(share), share, 0.5)
        share = np.clip(share, np.minimum(slack, 0.5), 1 - np.minimum(slack, 0.5))
        if done.any():
            root[rows[done]] = best[done]
            keep = ~done
            if not keep.any():
                return root
            rows, a, b, c, fa, fb, fc, share = (
                v[keep] for v in (rows, a, b, c, fa, fb, fc, share)
            )
    a, b = np.where(fa > 0, a, b), np.where(fa > 0, b, a)
    if few:  # the function jumps to values that are none: its end is where it still is positive
        a, b = _narrowed(lambda x, i: function(x, rows[i]), a, b, 9)
    root[rows] = a
    return root


def _narrowed(function: Function, a: Floats, b: Floats, times: int) -> tuple[Floats, Floats]:
    """Return brackets of the roots, narrower by a factor of thirteen for each evaluation.

    What costs time with few brackets is the number of evaluations, not their size.
    """
    every = np.arange(a.size)
    for _ in range(times):
        grid = a[:, None] + (b - a)[:, None] * _ZOOM
        value = function(grid.ravel(), np.repeat(every, len(_ZOOM))).reshape(grid.shape)
        first = ((value < 0) != (value[:, :1] < 0)).argmax(axis=1)
        a, b = grid[every, np.maximum(first - 1, 0)], grid[every, first]
    return a, b


def newton_roots(function: Derived, a: Floats, b: Floats, fa: Floats, fb: Floats) -> Floats:
    """Return the root of each monotone function between a and b, from values and derivatives.

    Newton's method from the secant's guess, inside the bracket; bisection where a step leaves it
    or gains too little. To about 1e-8 of |root|, for callers who polish: a step of 1e-4 of it,
    after one a hundred times as long, is enough, as the next would be that much shorter again.
    """
    root = np.empty(a.shape)
    rows = np.arange(a.size)
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(all="ignore"):
        share = fa / (fa - fb)
    x = a + np.where(np.isfinite(share) & (share > 0) & (share < 1), share, 0.5) * (b - a)
    rising = fb > fa
    width = before = high - low
    for _ in range(48):
        f, slope = function(x, rows)
        right = (f < 0) == rising  # of x lies the root
        low, high = np.where(right, x, low), np.where(right, high, x)
        with np.errstate(all="ignore"):
            step = f / slope
        new = x - step
        shrinks = high - low < 0.75 * width
        good = np.isfinite(new) & (new > low) & (new < high) & (shrinks | (np.abs(step) < width))
        new = np.where(good, new, 0.5 * (low + high))
        tolerance = 1e-8 * (1e-12 + np.abs(x))
        length = np.abs(new - x)
        quick = good & (length < 1e4 * tolerance) & (length < 0.01 * before)
        done = quick | (length < tolerance) | (f == 0) | (high - low < tolerance)
        width, before = high - low, length
        root[rows] = np.where(f == 0, x, new)
        if done.all():
            break
        keep = ~done
        rows, x, low, high, width, before, rising = (
            v[keep] for v in (rows, new, low, high, width, before, rising)
        )
    return root


def climb(function: Function, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a point between a and b where each function is positive, or its peak if none is.

    Zooms in on the best of a few points, until a positive value is met.
    """
    point, peak = 0.5 * (a + b), np.full(a.shape, -np.inf)
    rows = np.arange(a.size)
    for _ in range(8):
        if not rows.size:
            break
        grid = a[:, None] + (b - a)[:, None] * _ZOOM
        value = function(grid.ravel(), np.repeat(rows, len(_ZOOM))).reshape(grid.shape)
        best = value.argmax(axis=1)
        every = np.arange(len(rows))
        point[rows], peak[rows] = grid[every, best], value[every, best]
        keep = value[every, best] <= 0
        a = grid[every, np.maximum(best - 1, 0)][keep]
        b = grid[every, np.minimum(best + 1, len(_ZOOM) - 1)][keep]
        rows = rows[keep]
    return point, peak


def concave_bound(x: Floats, v: Floats) -> Floats:
    """Return an upper bound of the maximum of concave functions, from samples (rows × samples).

    Between two samples a concave function lies below the chords extended from either side.
    """
    with np.errstate(all="ignore"):
        step = np.diff(x)
        slope = np.diff(v) / step
        from_left = np.full(step.shape, np.inf)
        from_left[:, 1:] = np.maximum(v[:, 1:-1], v[:, 1:-1] + slope[:, :-1] * step[:, 1:])
        from_right = np.full(step.shape, np.inf)
        from_right[:, :-1] = np.maximum(v[:, 1:-1], v[:, 1:-1] - slope[:, 1:] * step[:, :-1])
    from_left[np.isnan(from_left)] = np.inf
    from_right[np.isnan(from_right)] = np.inf
    bound: Floats = np.minimum(from_left, from_right).max(axis=1)
    return bound
