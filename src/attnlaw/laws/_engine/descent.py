"""From far above the real axis down to it: the solution of a profile's equations at any point.

In the upper half plane the solution is unique among those with positive imaginary parts and
analytic, so it is followed from a height where it is known to first order: predict along the
tangent, correct by Newton's method, lengthen or shorten the next step.
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes
from attnlaw.laws.free_profile import FreeEquations
from attnlaw.laws.profile import Equations

__all__ = ["Descent"]

_TOLERANCE = 1e-11
_FLOOR = 1e-9  # height from which the last step to the axis is taken


class Descent:
    """Solves the equations of a profile, and remembers where it has been.

    A point next to a known one is reached by Newton's method alone; this is kept when it stays
    close and in the upper half plane, where there is only one solution.
    """

    def __init__(self, equations: Equations | FreeEquations) -> None:
        self.equations = equations
        self.points: Complexes = np.zeros(0, dtype=np.complex128)
        self.unknowns: Complexes = np.zeros((0, equations.n_unknowns), dtype=np.complex128)
        self.slopes: Complexes = self.unknowns

    def solve(self, s: Complexes) -> tuple[Complexes, Complexes]:
        """Return the unknowns v at the points s (Im s ≥ 0, a flat array), and dv/ds."""
        v = np.empty((s.size, self.equations.n_unknowns), dtype=np.complex128)
        slope = np.empty_like(v)
        todo = np.ones(s.size, dtype=bool)
        if self.points.size:
            v, slope, near = self._step_aside(s)
            todo = ~near
        if todo.any():
            v[todo], slope[todo] = _land(self.equations, s[todo])
        order = np.argsort(np.concatenate([self.points, s]).real, kind="stable")
        self.points = np.concatenate([self.points, s])[order]
        self.unknowns = np.concatenate([self.unknowns, v])[order]
        self.slopes = np.concatenate([self.slopes, slope])[order]
        return v, slope

    def _step_aside(self, s: Complexes) -> tuple[Complexes, Complexes, NDArray[np.bool_]]:
        known = self.points.real
        right = np.clip(np.searchsorted(known, s.real), 1, max(known.size - 1, 1))
        right = np.minimum(right, known.size - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(s.real - known[left] < known[right] - s.real, left, right)
        v = self.unknowns[nearest]
        guess = v + self.slopes[nearest] * (s - self.points[nearest])[:, None]
        moved = np.abs(guess - v).max(axis=1)
        new, slope, good = _correct(self.equations, guess, s, 4)
        inside = (new[:, :-1].imag > 1e-3 * np.abs(new[:, :-1])).all(axis=1)
        small = np.abs(new - guess).max(axis=1) <= 0.3 * moved + 1e-9
        small &= moved <= 0.3 * np.abs(v).max(axis=1)
        return new, slope, good & inside & small


def _land(equations: Equations | FreeEquations, s: Complexes) -> tuple[Complexes, Complexes]:
    top = 4.0 + 3 * np.abs(s)
    height = top.copy()
    v = equations.start(s + 1j * height)
    v, slope, _ = _correct(equations, v, s + 1j * height, 20)
    share = np.full(s.size, 0.3)  # the next height, as a share of this one
    todo = np.arange(s.size)
    for _ in range(200):
        lower = height[todo] * share[todo]
        last = lower < _FLOOR * (1 + s.imag[todo] / _FLOOR)
        lower = np.where(last, 0.0, lower)
        point = s[todo] + 1j * lower
        guess = v[todo] + slope[todo] * (point - s[todo] - 1j * height[todo])[:, None]
        below = (guess[:, :-1].imag < 0).any(axis=1)
        guess[below] = v[todo][below]
        new, tangent, good = _correct(equations, guess, point, 8)
        good &= (new[:, :-1].imag >= -1e-9 * np.abs(new[:, :-1])).all(axis=1)
        good &= np.abs(new - v[todo]).max(axis=1) <= 2 * np.abs(v[todo]).max(axis=1)
        done = todo[good]
        v[done], slope[done], height[done] = new[good], tangent[good], lower[good]
        share[done] = np.maximum(share[done] ** 1.6, 1e-4)
        share[todo[~good]] = share[todo[~good]] ** 0.4
        # On an edge no step to the axis converges: what is left is its rounding error.
        stuck = (height[todo] < 1e-7) & (share[todo] > 0.5)
        todo = todo[(height[todo] > 0) & ~stuck]
        if not todo.size:
            return v, slope
    raise RuntimeError(
        f"the equations of the profile could not be solved at {todo.size} of {s.size} points, "
        f"the first at singular value {s[todo[0]] * np.sqrt(equations.unit):.6g}; a profile with "
        "entries of very different sizes is the usual cause."
    )


def _correct(
    equations: Equations | FreeEquations, v: Complexes, s: Complexes, n_steps: int
) -> tuple[Complexes, Complexes, NDArray[np.bool_]]:
    """Newton's method at fixed points; returns also dv/ds and where it converged."""
    v, slope = v.copy(), np.empty_like(v)
    if not equations.factors:
        v[:, -1] = s
    good = np.zeros(s.size, dtype=bool)
    todo = np.arange(s.size)
    with np.errstate(all="ignore"):
        for _ in range(n_steps):
            step, tangent, size = equations.newton(v[todo], s[todo])
            v[todo] += step
            slope[todo] = tangent
            small = np.abs(step).max(axis=1) <= 1e-8 * (1 + np.abs(v[todo]).max(axis=1))
            small &= size < 1e-6
            good[todo[small]] = True
            todo = todo[~small & np.isfinite(size)]
            if not todo.size:
                break
    return v, slope, good
