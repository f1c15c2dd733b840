"""Random matrices with a variance profile: the equations that their spectrum solves.

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
weights, so that the solution is unique and is that of a probability law. Derived in
docs/theory/realistic-heads.md, "Step 2: the spread of norms"; for the weights see
docs/theory/realistic-heads.md, "Step 3: the energy of single rows".
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlaw._checks import Complexes, Floats

__all__ = ["VarianceProfile"]


@dataclass(frozen=True, kw_only=True, eq=False)
class VarianceProfile:
    """A random matrix by the variances of its entries: I kinds of rows, J kinds of columns.

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
