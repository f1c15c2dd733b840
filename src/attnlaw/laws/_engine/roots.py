"""Roots and peaks of many scalar functions at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats

Rows = NDArray[np.intp]
Function = Callable[[Floats, Rows], Floats]  # (argument, which function) to value

Derived = Callable[[Floats, Rows], tuple[Floats, Floats]]  # to value and derivative

_ZOOM = np.linspace(0.0, 1.0, 13)
_TOLERANCE = 1e-11


def find_roots(function: Function, a: Floats, b: Floats) -> Floats:
    """Return a root of each function between a and b, where its signs differ.

    Chandrupatla's method (1997): inverse quadratic interpolation when the last three points
    allow it, bisection otherwise; to 1e-11 of 1 + |root|.
    """
    root = np.empty(a.shape)
    rows = np.arange(a.size)
    fa, fb = function(a, rows), function(b, rows)
    c, fc = a, fa
    share = np.full(a.size, 0.5)
    for _ in range(64):
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
    root[rows] = best[keep] if done.any() else best
    return root


def newton_roots(function: Derived, a: Floats, b: Floats, fa: Floats, fb: Floats) -> Floats:
    """Return the root of each monotone function between a and b, from values and derivatives.

    Newton's method from the secant's guess, inside the bracket; bisection where a step leaves it
    or gains too little. To about 1e-8 of 1 + |root|, for callers who polish: a step of 1e-4 after
    one a hundred times as long is enough, since the next would be that much shorter again.
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
        tolerance = 1e-8 * (1 + np.abs(x))
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
