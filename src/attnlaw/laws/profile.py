"""Random matrices with a variance profile, and the equations of their spectrum.

A matrix Y, n rows and h n columns (h square matrices side by side), is a sum of blocks

    √n Y_ij = Σ_k √α_k(i) √γ_k(j) (G_k H_kᵀ)_ij / √N_k ,

G_k and H_k standard Gaussian with N_k columns; a block with N_k = ∞ is independent noise. Put
z = w² and let R_i and C_j be w times the diagonal of (YYᵀ − z)⁻¹ and of (YᵀY − z)⁻¹. In the limit
they solve, with ρ_k = n/N_k,

    R_i = −1/(w + h Σ_k α_k(i) q_k/(1 − ρ_k p_k q_k)) ,     p_k = mean α'_k R ,
    C_j = −1/(w +   Σ_k γ_k(j) p_k/(1 − ρ_k p_k q_k)) ,     q_k = mean γ'_k C ,

with α' = α and γ' = γ. Where the variances of rows are themselves random, because a few entries
carry much of a row's energy, the means are weighted otherwise. In the upper half plane the
right-hand sides map functions with positive imaginary part to such functions, whatever the
weights, so that the solution is unique and is that of a probability law; `Descent` follows it from
a height where it is known to first order: predict along the tangent, correct by Newton's method,
lengthen or shorten the next step. Derived in
docs/theory/realistic-heads.md, "Step 2: the spread of norms"; for the weights see
docs/theory/realistic-heads.md, "Step 3: the energy of single rows".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats, invalid_argument

if TYPE_CHECKING:
    from attnlaw.laws.free_profile import FreeEquations

__all__ = ["Descent", "VarianceProfile", "profile_resolvents", "real_products"]


_TOLERANCE = 1e-11
_FLOOR = 1e-9  # height from which the last step to the axis is taken


@dataclass(frozen=True, kw_only=True, eq=False)
class VarianceProfile:
    """A random matrix given by the variances of its entries: I kinds of rows, J of columns.

    Parameters
    ----------
    row_weights, column_weights : arrays of shape (I,) and (J,)
        Share of rows (columns) of each kind; both sum to one.
    row_variances, column_variances : arrays of shape (K, I) and (K, J)
        α_k and γ_k of the blocks.
    ratios : array of shape (K,)
        ρ_k = n/N_k; 0 for noise.
    row_means, column_means : arrays of shape (K, I) and (K, J), optional
        α'_k and γ'_k, with the same means as α_k and γ_k; equal to them by default.
    repeats : int
        h, the number of square matrices side by side.
    factors : tuple of float
        Ratios of further Marchenko–Pastur laws by which the law of YYᵀ is multiplied.
    """

    row_weights: Floats
    column_weights: Floats
    row_variances: Floats  # α
    column_variances: Floats  # γ
    ratios: Floats  # ρ
    row_means: Floats | None = None  # α'
    column_means: Floats | None = None  # γ'
    repeats: int = 1  # h
    factors: tuple[float, ...] = ()

    @cached_property
    def mean(self) -> float:
        """First moment of the law of YYᵀ: the mean energy of a row."""
        rows = self.row_variances @ self.row_weights
        columns = self.column_variances @ self.column_weights
        return float(self.repeats * (rows @ columns))


class Equations:
    """The equations of a profile in units of its mean, and Newton's method for them.

    The unknowns of a point are v = (p_1 … p_K, q_1 … q_K, w), in a row of an array; the point is
    s = √z for the law with all its factors, and w the same for the law without them.
    """

    def __init__(self, profile: VarianceProfile, unit: float | None = None) -> None:
        self.unit = profile.mean if unit is None else unit  # of squared singular values
        scale = self.unit**-0.5
        self.K = len(profile.ratios)
        self.n_unknowns = 2 * self.K + 1
        self.wr, self.wc = profile.row_weights, profile.column_weights
        self.A, self.G = profile.row_variances * scale, profile.column_variances * scale
        row_means = profile.row_variances if profile.row_means is None else profile.row_means
        column_means = profile.column_means
        if column_means is None:
            column_means = profile.column_variances
        self.A_mean = row_means * (scale * self.wr)
        self.G_mean = column_means * (scale * self.wc)
        self.rho, self.h, self.factors = profile.ratios, profile.repeats, profile.factors
        self.AA = (self.A_mean[:, None] * self.A).reshape(self.K**2, -1).T.copy()
        self.GG = (self.G_mean[:, None] * self.G).reshape(self.K**2, -1).T.copy()

    @property
    def reach(self) -> float:
        """A bound on singular values, in units."""
        rows, columns = (
            self.A.max(axis=1) * (self.G @ self.wc),
            (self.A @ self.wr) * self.G.max(axis=1),
        )
        sizes = np.sqrt(self.h * rows) + np.sqrt(columns)
        bound = float((sizes * (1 + np.sqrt(self.rho))).sum())
        return bound * float(np.prod([1 + c**0.5 for c in self.factors]))

    @property
    def rank(self) -> float:
        """Rank per row."""
        blocks = self.h * np.sum(1 / self.rho) if self.rho.all() else 1.0
        return float(min([1.0, blocks, *(1 / c for c in self.factors)]))

    def start(self, s: Complexes) -> Complexes:
        """Unknowns far from the support, by fixed-point iteration."""
        K = self.K
        v = np.empty((s.size, 2 * K + 1), dtype=np.complex128)
        v[:, :K] = -self.A_mean.sum(axis=1) / s[:, None]
        v[:, K:-1] = -self.G_mean.sum(axis=1) / s[:, None]
        v[:, -1] = s
        for _ in range(20):
            residual, *_ = self._residual(v, s)
            residual[:, -1] /= -2 * s
            v = v + residual
        return v

    def resolvents(self, v: Complexes) -> tuple[Complexes, Complexes]:
        """Return R (points × I) and C (points × J), in units of 1/√unit."""
        K = self.K
        p, q, w = v[:, :K], v[:, K:-1], v[:, -1:]
        D = 1 - self.rho * p * q
        return -1 / (w + self.h * ((q / D) @ self.A)), -1 / (w + (p / D) @ self.G)

    def moment_function(self, v: Complexes) -> Complexes:
        """Return y = zG(z) − 1 of the law of YYᵀ, by its columns: −h(1 + w mean C)."""
        _, C = self.resolvents(v)
        return np.asarray(-self.h * (1 + v[:, -1] * (C @ self.wc)))

    def moment_slope(self, v: Complexes, dv: Complexes) -> Complexes:
        """Return dy for a change dv of the unknowns."""
        K = self.K
        p, q, w = v[:, :K], v[:, K:-1], v[:, -1]
        D = 1 - self.rho * p * q
        _, C = self.resolvents(v)
        dP = (dv[:, :K] + self.rho * p * p * dv[:, K:-1]) / D**2
        dC = C * C * (dv[:, -1:] + dP @ self.G)
        return np.asarray(-self.h * (dv[:, -1] * (C @ self.wc) + w * (dC @ self.wc)))

    def _residual(
        self, v: Complexes, s: Complexes
    ) -> tuple[Complexes, Complexes, Complexes, Complexes]:
        R, C = self.resolvents(v)
        y = -self.h * (1 + v[:, -1] * (C @ self.wc))
        residual = np.concatenate([R @ self.A_mean.T, C @ self.G_mean.T, v[:, -1:]], axis=1) - v
        residual[:, -1] = v[:, -1] ** 2 * multiplier(self.factors, y)[0] - s**2
        return residual, R, C, y

    def newton(self, v: Complexes, s: Complexes) -> tuple[Complexes, Complexes, Floats]:
        """Return Newton's step, the derivative dv/ds, and the size of the residual."""
        K = self.K
        residual, R, C, y = self._residual(v, s)
        p, q, w = v[:, :K], v[:, K:-1], v[:, -1]
        R2, C2 = R * R, C * C
        MR = self.h * (R2 @ self.AA).reshape(-1, K, K)
        MC = (C2 @ self.GG).reshape(-1, K, K)
        same = (1 - self.rho * p * q) ** -2
        by_q, by_p = (self.rho * q * q * same)[:, None], (self.rho * p * p * same)[:, None]
        same = same[:, None]
        J = np.zeros((s.size, 2 * K + 1, 2 * K + 1), dtype=np.complex128)
        J[:, :K, :K], J[:, :K, K:-1] = MR * by_q, MR * same
        J[:, K:-1, :K], J[:, K:-1, K:-1] = MC * same, MC * by_p
        J[:, :K, -1] = R2 @ self.A_mean.T
        J[:, K:-1, -1] = C2 @ self.G_mean.T
        k = np.arange(2 * K)
        J[:, k, k] -= 1
        product, slope = multiplier(self.factors, y)
        J[:, -1, -1] = 2 * w * product
        if self.factors:  # y moves with the couplings of the columns, and with w
            inner = -self.h * w**2 * slope
            toward = (inner * w)[:, None] * (C2 @ (self.G * self.wc).T)
            J[:, -1, :K] = toward * same[:, 0]
            J[:, -1, K:-1] = toward * by_p[:, 0]
            J[:, -1, -1] += inner * (C @ self.wc + w * (C2 @ self.wc))
        return solved(J, residual, s)


def real_products(real: Floats, values: Complexes) -> Complexes:
    """Products of real matrices (B, m, k) and complex ones (B, k, points)."""
    parts = np.ascontiguousarray(values).view(np.float64)
    return np.asarray((real @ parts).view(np.complex128))


def multiplier(factors: tuple[float, ...], y: Complexes) -> tuple[Complexes, Complexes]:
    """Return Π(1 + c y) over the factors, and its derivative in y."""
    product, slope = np.ones_like(y), np.zeros_like(y)
    for c in factors:
        slope = slope * (1 + c * y) + c * product
        product = product * (1 + c * y)
    return product, slope


def solved(J: Complexes, residual: Complexes, s: Complexes) -> tuple[Complexes, Complexes, Floats]:
    """Return Newton's step, dv/ds (s enters the last equation as −s²), and the residual's size."""
    sides = np.zeros((*residual.shape, 2), dtype=np.complex128)
    sides[..., 0] = -residual
    sides[:, -1, 1] = 2 * s
    finite = np.isfinite(J).all(axis=(1, 2)) & np.isfinite(residual).all(axis=1)
    J[~finite] = np.eye(residual.shape[1])
    steps: Complexes = np.linalg.solve(J, sides).astype(np.complex128, copy=False)
    steps[~finite] = np.nan
    size: Floats = np.where(finite, np.abs(residual).max(axis=1), np.inf)
    return steps[..., 0], steps[..., 1], size


class Descent:
    """Solves the equations of a profile, and keeps the solutions that it has found.

    A point next to a known one is reached by Newton's method alone; this is kept when it stays
    close and in the upper half plane, where there is only one solution.
    """

    def __init__(self, equations: "Equations | FreeEquations") -> None:
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


def _land(equations: "Equations | FreeEquations", s: Complexes) -> tuple[Complexes, Complexes]:
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
    equations: "Equations | FreeEquations", v: Complexes, s: Complexes, n_steps: int
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


def profile_resolvents(profile: VarianceProfile, singular_values: Floats) -> tuple[Floats, Floats]:
    """Return resolvents of the rows and columns of Y at singular values outside the support.

    Parameters
    ----------
    profile : VarianceProfile
        Y; it has no `factors`.
    singular_values : array of shape (m,)
        w > 0, in gaps of the singular values of Y or above them.

    Returns
    -------
    rows, columns : arrays of shape (m, kinds)
        R and C: w times the diagonals of (YYᵀ − w²)⁻¹ and (YᵀY − w²)⁻¹, real there.

    Examples
    --------
    Noise alone has R = C = −1/(w + R):

    >>> from attnlaw.laws import VarianceProfile
    >>> one = np.ones(1)
    >>> noise = VarianceProfile(
    ...     row_weights=one, column_weights=one, row_variances=one[None],
    ...     column_variances=one[None], ratios=np.zeros(1))
    >>> [r.round(9) for r in profile_resolvents(noise, np.array([2.5]))]
    [array([[-0.5]]), array([[-0.5]])]
    """
    if profile.factors:
        raise invalid_argument("profile", "without factors", profile.factors)
    equations = Equations(profile)
    unit = np.sqrt(equations.unit)
    v, _ = Descent(equations).solve(np.asarray(singular_values / unit, dtype=np.complex128))
    R, C = equations.resolvents(v)
    return np.asarray(R.real / unit), np.asarray(C.real / unit)
