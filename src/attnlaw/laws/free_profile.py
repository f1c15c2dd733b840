"""The sum of two random matrices whose variance profiles live in different bases.

In Y = Y₁ + Y₂ the rows of Y₁ have variances α(i) in one basis and those of Y₂ in another,
unrelated one: the self-energies of the rows, two matrices that do not commute, are free. So the
resolvent is that of a free additive convolution. With S₁ and S₂ the couplings of the two profiles'
equations (`profile`) and −1/R̄ = w + σ₁ + σ₂,

    R₁ = −1/(w + h Σ α₁ S₁ + σ₂) ,   R₂ = −1/(w + h Σ α₂ S₂ + σ₁) ,   mean R₁ = mean R₂ = R̄ ,

and the same for columns. If either profile has equal rows, the sum is a variance profile, too.
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
    """Rows or columns of one of the profiles, and the places of their unknowns in v."""

    couplings: Floats  # (K+1, kinds): α, and 1 for the other profile's self-energy
    means: Floats  # (K+1, kinds): weights × α', and weights
    pairs: Floats  # (kinds, (K+1)²): products of both
    repeats: int  # h for rows, 1 for columns
    p: slice  # of the blocks of this profile
    q: slice
    is_rows: bool
    part: int  # 0 for the first profile, 1 for the second
    energies: tuple[int, int]  # σ₁ and σ₂ of rows, or of columns

    @property
    def answered(self) -> slice:
        """Unknowns that are means over this side: p over rows, q over columns."""
        return self.p if self.is_rows else self.q

    @property
    def own(self) -> int:
        """Self-energy of this profile."""
        return self.energies[self.part]

    @property
    def other(self) -> int:
        """Self-energy of the other profile, which enters this side."""
        return self.energies[1 - self.part]


class _Response(NamedTuple):
    """Means over a side at given unknowns, and their derivatives."""

    means: Complexes  # (points, K): of α'R
    resolvent: Complexes  # (points,): mean of R
    by_couplings: Complexes  # (points, K+1, K): of both in the couplings q/D, or p/D
    by_energy: Complexes  # (points, K+1): of both in σ of the other profile, or in w


class FreeEquations:
    """The equations of a free additive convolution, with the interface of `Equations`.

    Unknowns: v = (p of all blocks, q of all blocks, σ₁, σ₂ of rows, σ₁, σ₂ of columns, w). With
    D = 1 − ρpq, each side of each profile has the equations

        p = mean α'R ,   R̄ (w + σ₁ + σ₂) + 1 = 0 ,   R = −1/(w + h Σ α q/D + σ of the other) ,

    rows as written and columns with p and q exchanged and h = 1; the last equation is
    w² Π(1 + cy) = s² over the `factors` c.
    """

    def __init__(self, profile: FreeProfile) -> None:
        self.unit = profile.mean
        self.h, self.factors = profile.repeats, profile.factors
        self.rho = profile.ratios
        self.parts = [Equations(part, self.unit) for part in (profile.first, profile.second)]
        self.K = sum(part.K for part in self.parts)
        self.n_unknowns = 2 * self.K + 5
        self.sides = [self._side(is_rows, part) for is_rows in (True, False) for part in (0, 1)]

    def _side(self, is_rows: bool, part: int) -> _Side:
        e, K = self.parts[part], self.K
        alpha, mean, weights = (e.A, e.A_mean, e.wr) if is_rows else (e.G, e.G_mean, e.wc)
        couplings = np.vstack([alpha, np.ones_like(weights)])
        means = np.vstack([mean, weights])
        start = part * self.parts[0].K
        return _Side(
            couplings=couplings,
            means=means,
            pairs=(means[:, None] * couplings).reshape(len(couplings) ** 2, -1).T.copy(),
            repeats=self.h if is_rows else 1,
            p=slice(start, start + e.K),
            q=slice(K + start, K + start + e.K),
            is_rows=is_rows,
            part=part,
            energies=(2 * K, 2 * K + 1) if is_rows else (2 * K + 2, 2 * K + 3),
        )

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
        v = np.zeros((s.size, self.n_unknowns), dtype=np.complex128)
        for side in self.sides:
            v[:, side.answered] = -side.means[:-1].sum(axis=1) / s[:, None]
        v[:, -1] = s
        for _ in range(30):
            new = v.copy()
            for side in self.sides:
                response = self._response(side, v)
                new[:, side.answered] = response.means
                new[:, side.own] = -1 / response.resolvent - v[:, -1] - v[:, side.other]
            v = new
        return v

    def _response(self, side: _Side, v: Complexes) -> _Response:
        p, q = v[:, side.p], v[:, side.q]
        coupling = (q if side.is_rows else p) / (1 - self.rho[side.p] * p * q)
        inputs = np.concatenate([side.repeats * coupling, v[:, side.other, None]], axis=1)
        R = -1 / (v[:, -1:] + inputs @ side.couplings)
        means, size = R @ side.means.T, len(side.couplings)
        slopes = ((R * R) @ side.pairs).reshape(-1, size, size)
        return _Response(
            means[:, :-1], means[:, -1], side.repeats * slopes[:, :, :-1], slopes[:, :, -1]
        )

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
        residual = np.zeros_like(v)
        J = np.zeros((s.size, self.n_unknowns, self.n_unknowns), dtype=np.complex128)
        for side in self.sides:
            self._enter_side(side, v, residual, J)
        self._enter_singular_value(v, s, residual, J)
        return solved(J, residual, s)

    def _enter_side(self, side: _Side, v: Complexes, residual: Complexes, J: Complexes) -> None:
        """Write mean α'R − p and R̄(w + σ₁ + σ₂) + 1, with their derivatives."""
        lines, own = side.answered, side.own
        response = self._response(side, v)
        first, second = side.energies
        total = v[:, -1] + v[:, first] + v[:, second]
        residual[:, lines] = response.means - v[:, lines]
        residual[:, own] = response.resolvent * total + 1
        for unknowns, change in self._coupling_slopes(side, v):
            slopes = response.by_couplings * change[:, None]
            J[:, lines, unknowns] += slopes[:, :-1]
            J[:, own, unknowns] += slopes[:, -1] * total[:, None]
        for unknown in (side.other, -1):
            J[:, lines, unknown] += response.by_energy[:, :-1]
            J[:, own, unknown] += response.by_energy[:, -1] * total
        for unknown in (first, second, -1):  # in the factor w + σ₁ + σ₂
            J[:, own, unknown] += response.resolvent
        k = np.arange(lines.start, lines.stop)
        J[:, k, k] -= 1

    def _coupling_slopes(self, side: _Side, v: Complexes) -> list[tuple[slice, Complexes]]:
        """Return d(q/D) = ρq²/D² dp + dq/D² for rows, and d(p/D) for columns."""
        rho, p, q = self.rho[side.p], v[:, side.p], v[:, side.q]
        same = 1 / (1 - rho * p * q) ** 2
        if side.is_rows:
            return [(side.p, rho * q * q * same), (side.q, same)]
        return [(side.p, same), (side.q, rho * p * p * same)]

    def _enter_singular_value(
        self, v: Complexes, s: Complexes, residual: Complexes, J: Complexes
    ) -> None:
        """Write w² Π(1 + cy) − s², with its derivatives."""
        w = v[:, -1]
        product, slope = multiplier(self.factors, self.moment_function(v))
        residual[:, -1] = w**2 * product - s**2
        J[:, -1, -1] = 2 * w * product
        if self.factors:  # y moves with w and with the self-energies of the columns
            C = self._mean_column(v)
            inner = -self.h * w**2 * slope
            J[:, -1, -1] += inner * (C + w * C * C)
            J[:, -1, -3] = J[:, -1, -2] = inner * w * C * C
