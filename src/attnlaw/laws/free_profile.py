"""The sum of two random matrices whose variance profiles live in different bases.

In Y = Y₁ + Y₂ the rows of Y₁ have variances α(i) in one basis and those of Y₂ in another, with
nothing to do with each other: the self-energies of the rows, two matrices that do not commute, are
free. So the resolvent is that of a free additive convolution. With S₁ and S₂ the couplings of the
two profiles' equations (`profile`) and −1/R̄ = w + σ₁ + σ₂,

    R₁ = −1/(w + h Σ α₁ S₁ + σ₂) ,   R₂ = −1/(w + h Σ α₂ S₂ + σ₁) ,   mean R₁ = mean R₂ = R̄ ,

and the same for columns. Equal rows in either profile make it a profile again.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attnlaw._checks import Complexes, Floats
from attnlaw.laws.profile import Equations, VarianceProfile, multiplier, solved

__all__ = ["FreeProfile"]


@dataclass(frozen=True, eq=False)
class FreeProfile:
    """Two profiles, free from each other; both have the same `repeats` and no `factors`.

    Derived in docs/theory/correlated-inputs.md, "Finite heads over such inputs".

    Parameters
    ----------
    first, second : VarianceProfile
        Their noise and blocks add up.
    factors : tuple of float
        Ratios of further Marchenko–Pastur laws by which the law of YYᵀ is multiplied.
    """

    first: VarianceProfile
    second: VarianceProfile
    factors: tuple[float, ...] = ()

    @property
    def repeats(self) -> int:
        """Number h of square matrices side by side."""
        return self.first.repeats

    @property
    def ratios(self) -> Floats:
        """ρ of all blocks."""
        return np.concatenate([self.first.ratios, self.second.ratios])

    @cached_property
    def mean(self) -> float:
        """First moment of the law of YYᵀ."""
        return self.first.mean + self.second.mean


class _Side(NamedTuple):
    """Rows or columns of one profile, with the other's self-energy as one more coupling."""

    couplings: Floats  # (K+1, kinds): α, and 1
    means: Floats  # (K+1, kinds): weights × α', and weights
    pairs: Floats  # (kinds, (K+1)²)

    @staticmethod
    def of(couplings: Floats, means: Floats, weights: Floats) -> "_Side":
        A = np.vstack([couplings, np.ones_like(weights)])
        M = np.vstack([means, weights])
        return _Side(A, M, (M[:, None] * A).reshape(len(A) ** 2, -1).T.copy())

    def respond(self, inputs: Complexes, w: Complexes) -> tuple[Complexes, Complexes]:
        """Return the means of α'R and of R, and their derivatives in the couplings."""
        R = -1 / (w[:, None] + inputs @ self.couplings)
        size = len(self.couplings)
        return R @ self.means.T, ((R * R) @ self.pairs).reshape(-1, size, size)


class FreeEquations:
    """The equations of a free additive convolution, with the interface of `Equations`.

    Unknowns: v = (p of all blocks, q of all blocks, σ₁, σ₂ of rows, σ₁, σ₂ of columns, w).
    """

    def __init__(self, profile: FreeProfile) -> None:
        self.unit = profile.mean
        self.h, self.factors = profile.repeats, profile.factors
        self.rho = profile.ratios
        parts = [Equations(part, self.unit) for part in (profile.first, profile.second)]
        self.parts = parts
        self.sizes = [part.K for part in parts]
        self.K = sum(self.sizes)
        self.n_unknowns = 2 * self.K + 5
        self.rows = [_Side.of(part.A, part.A_mean, part.wr) for part in parts]
        self.columns = [_Side.of(part.G, part.G_mean, part.wc) for part in parts]

    @property
    def reach(self) -> float:
        """A bound on singular values, in units."""
        return float(sum(part.reach for part in self.parts)) * float(
            np.prod([1 + c**0.5 for c in self.factors])
        )

    @property
    def rank(self) -> float:
        """Rank per row."""
        blocks = self.h * np.sum(1 / self.rho) if self.rho.all() else 1.0
        return float(min([1.0, blocks, *(1 / c for c in self.factors)]))

    def start(self, s: Complexes) -> Complexes:
        """Unknowns far from the support, by fixed-point iteration."""
        K = self.K
        v = np.zeros((s.size, self.n_unknowns), dtype=np.complex128)
        v[:, :K] = (
            -np.concatenate([side.means[:-1].sum(axis=1) for side in self.rows]) / s[:, None]
        )
        v[:, K : 2 * K] = (
            -np.concatenate([side.means[:-1].sum(axis=1) for side in self.columns]) / s[:, None]
        )
        v[:, -1] = s
        for _ in range(30):
            state = self._state(v)
            v[:, : 2 * K] = np.concatenate(
                [answer[:, :-1] for answers in state.answers for answer in answers], axis=1
            )
            for side, answers in enumerate(state.answers):
                sigma = v[:, 2 * K + 2 * side : 2 * K + 2 * side + 2]
                total = [-1 / answer[:, -1] - v[:, -1] for answer in answers]
                v[:, 2 * K + 2 * side : 2 * K + 2 * side + 2] = np.stack(
                    [total[0] - sigma[:, 1], total[1] - sigma[:, 0]], axis=1
                )
        return v

    def _state(self, v: Complexes) -> "_State":
        K, k = self.K, self.sizes[0]
        p, q, w = v[:, :K], v[:, K : 2 * K], v[:, -1]
        D = 1 - self.rho * p * q
        sigma = v[:, 2 * K : 2 * K + 4]
        answers, slopes = [], []
        for side, coupling, scale, at in (
            (self.rows, q / D, self.h, 0),
            (self.columns, p / D, 1, 2),
        ):
            first = np.concatenate([scale * coupling[:, :k], sigma[:, at + 1 : at + 2]], axis=1)
            second = np.concatenate([scale * coupling[:, k:], sigma[:, at : at + 1]], axis=1)
            replies = [side[0].respond(first, w), side[1].respond(second, w)]
            answers.append([reply[0] for reply in replies])
            slopes.append([reply[1] for reply in replies])
        return _State(D, answers, slopes)

    def moment_function(self, v: Complexes) -> Complexes:
        """Return y = zG(z) − 1 of the law of YYᵀ, by its columns: −h(1 + w mean C)."""
        return np.asarray(-self.h * (1 + v[:, -1] * self._mean_column(v)))

    def _mean_column(self, v: Complexes) -> Complexes:
        return np.asarray(-1 / (v[:, -1] + v[:, -3] + v[:, -2]))

    def moment_slope(self, v: Complexes, dv: Complexes) -> Complexes:
        """Return dy for a change dv of the unknowns."""
        C = self._mean_column(v)
        dC = C * C * (dv[:, -1] + dv[:, -3] + dv[:, -2])
        return np.asarray(-self.h * (dv[:, -1] * C + v[:, -1] * dC))

    def newton(self, v: Complexes, s: Complexes) -> tuple[Complexes, Complexes, Floats]:
        """Return Newton's step, the derivative dv/ds, and the size of the residual."""
        K, k = self.K, self.sizes[0]
        D, answers, slopes = self._state(v)
        p, q, w = v[:, :K], v[:, K : 2 * K], v[:, -1]
        same = 1 / D**2
        # d(q/D) = q²ρ/D² dp + dq/D², and the like for p/D.
        by_p = (self.rho * q * q * same, same)
        by_q = (same, self.rho * p * p * same)
        residual = np.zeros_like(v)
        J = np.zeros((s.size, self.n_unknowns, self.n_unknowns), dtype=np.complex128)
        for side, (scale, moves) in enumerate(((self.h, by_p), (1, by_q))):
            at = 2 * K + 2 * side  # σ₁ and σ₂ of this side
            total = w + v[:, at] + v[:, at + 1]
            for part in (0, 1):
                lines = slice(side * K + part * k, side * K + (k if part == 0 else K))
                blocks = slice(part * k, k if part == 0 else K)
                answer, slope = answers[side][part], slopes[side][part]
                residual[:, lines] = answer[:, :-1] - v[:, lines]
                residual[:, at + part] = answer[:, -1] * total + 1
                other = at + 1 - part
                for lead, move in zip((0, K), moves, strict=True):
                    columns = slice(lead + blocks.start, lead + blocks.stop)
                    step = scale * slope[:, :, :-1] * move[:, None, blocks]
                    J[:, lines, columns] += step[:, :-1]
                    J[:, at + part, columns] += step[:, -1] * total[:, None]
                for unknown in (other, -1):
                    J[:, lines, unknown] += slope[:, :-1, -1]
                    J[:, at + part, unknown] += slope[:, -1, -1] * total
                for unknown in (at, at + 1, -1):
                    J[:, at + part, unknown] += answer[:, -1]
        i = np.arange(2 * K)
        J[:, i, i] -= 1
        y = self.moment_function(v)
        product, slope_y = multiplier(self.factors, y)
        residual[:, -1] = w**2 * product - s**2
        J[:, -1, -1] = 2 * w * product
        if self.factors:
            C = self._mean_column(v)
            inner = -self.h * w**2 * slope_y
            J[:, -1, -1] += inner * (C + w * C * C)
            J[:, -1, -3] = J[:, -1, -2] = inner * w * C * C
        return solved(J, residual, s)


class _State(NamedTuple):
    D: Complexes
    answers: list[list[Complexes]]  # [rows, columns][first, second]: means of α'R, and of R
    slopes: list[list[Complexes]]
