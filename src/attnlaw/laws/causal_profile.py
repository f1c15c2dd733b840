"""Causal random matrices with a variance profile: the equations that their spectrum solves.

Row i of an n × n matrix has the entries j ≤ i, a sum of blocks k with N_k latent dimensions,

    Y_ij = Σ_k √(α_k(i) γ_k(j)/i) (G_k H_kᵀ)_ij/√N_k ,     j ≤ i ,

G_k and H_k standard Gaussian; N_k = ∞ is independent noise. With R_i and C_j as in `profile`,
R_k and C_k their means weighted with α_k and γ_k, D = diag(1/i) and T the triangle of ones,

    R_i = −1/(w + h Σ_k α_k(i) [(1 − T C_k Tᵀ D R_k/N_k)⁻¹ T C_k Tᵀ]_ii/i) ,

and the same for columns. T C Tᵀ is the covariance of a random walk with increments C_j, and the
inverse conditions it on observations of precision −R_i/(i N_k): both diagonals are those of a
Kalman smoother, in O(n) steps (docs/theory/causal-heads.md, "A random walk under observation").
Tokens are taken in bins, whose first (m+1)/2m of increments come before the bin's observation,
which counts the pairs j ≤ i of a bin exactly.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats

__all__ = ["CausalEquations", "CausalProfile", "token_bins"]

Bools = NDArray[np.bool_]

_TOLERANCE = 1e-5  # of the last Newton step, after which the error is its square
_SMALL = 0.4
_MOST_ATTEMPTS = 40
_FAR = 4.0  # in units: far from the support, where resolvents are −1/w
_GROWTH = 0.2  # tokens of a bin, as a share of those before it
_MOST = 0.025  # and at most, as a share of all


def token_bins(n_tokens: int) -> Floats:
    """Count the tokens of each bin: a fifth of those before it, at most a fortieth of all.

    The solution is a power of i near zero, and at a small singular value s it falls like
    e^{−x log(1/s²)} in x = i/n.

    Examples
    --------
    >>> [token_bins(10**k).size for k in (1, 3, 6)]
    [10, 59, 96]
    """
    sizes: list[int] = []
    before = 0
    while before < n_tokens:
        size = max(1, round(min(_GROWTH * before, _MOST * n_tokens)))
        sizes.append(min(size, n_tokens - before))
        before += sizes[-1]
    return np.array(sizes, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class CausalProfile:
    """A causal random matrix by the variances of its entries, in B bins of tokens.

    Parameters
    ----------
    bins : array of shape (B,)
        Number of tokens in each bin; they sum to n.
    row_weights, column_weights : arrays of shape (I,) and (J,)
        Share of each kind of rows (columns) in a bin; both sum to one.
    row_variances, column_variances : arrays of shape (K, B, I) and (K, B, J)
        α_k and γ_k.
    row_means, column_means : arrays of shape (K, B, I) and (K, B, J)
        α'_k and γ'_k, by which R and C are averaged (`VarianceProfile`).
    latent_dimensions : array of shape (K,)
        N_k, infinite for noise.
    repeats : int
        h, the number of such matrices side by side.
    """

    bins: Floats  # m
    row_weights: Floats
    column_weights: Floats
    row_variances: Floats  # α
    column_variances: Floats  # γ
    row_means: Floats  # α'
    column_means: Floats  # γ'
    latent_dimensions: Floats  # N
    repeats: int = 1  # h

    @cached_property
    def lengths(self) -> Floats:
        """Mean number i of entries of the rows in each bin."""
        return np.asarray(np.cumsum(self.bins) - self.bins + (self.bins + 1) / 2)

    @cached_property
    def mean(self) -> float:
        """First moment of the law of YYᵀ."""
        rows = self.row_variances @ self.row_weights  # (K, B)
        columns = self.column_variances @ self.column_weights
        m = self.bins
        before = np.cumsum(m * columns, axis=1) - 0.5 * (m - 1) * columns
        return float(self.repeats * (rows * before / self.lengths).sum(axis=0) @ m / m.sum())


class Ladders(NamedTuple):
    """Diagonals of the smoother in each bin, and their derivatives: arrays (B, points, K).

    They depend on R and C of the bin, on the variance p of the walk before it and on the
    information J from after it.
    """

    rows: Complexes
    columns: Complexes
    rows_by: tuple[Complexes, Complexes, Complexes, Complexes]  # by R, C, p, J
    columns_by: tuple[Complexes, Complexes, Complexes, Complexes]
    walk_by: tuple[Complexes, Complexes, Complexes]  # p after the bin, by R, C, p
    information_by: tuple[Complexes, Complexes, Complexes]  # J before it, by R, C, J


class CausalEquations:
    """The equations of a causal profile in units of its mean, and Newton's method for them.

    The unknowns of a point w are the means R_k and C_k of each bin: arrays (2, B, points, K).
    """

    def __init__(self, profile: CausalProfile) -> None:
        self.unit = profile.mean
        scale = self.unit**-0.5
        self.h = profile.repeats
        self.K = len(profile.latent_dimensions)
        self.m, self.i = profile.bins, profile.lengths
        self.share = self.m / self.m.sum()
        self.wr, self.wc = profile.row_weights, profile.column_weights
        self.k = 1 / profile.latent_dimensions
        self.A = np.ascontiguousarray(profile.row_variances.swapaxes(0, 1)) * scale  # (B, K, I)
        self.G = np.ascontiguousarray(profile.column_variances.swapaxes(0, 1)) * scale
        A_mean = profile.row_means.swapaxes(0, 1) * (scale * self.wr)
        G_mean = profile.column_means.swapaxes(0, 1) * (scale * self.wc)
        self.AT, self.GT = A_mean.swapaxes(1, 2).copy(), G_mean.swapaxes(1, 2).copy()
        B, K = self.m.size, self.K
        self.AA = (
            (A_mean[:, :, None] * self.A[:, None]).reshape(B, K * K, -1).swapaxes(1, 2).copy()
        )
        self.GG = (
            (G_mean[:, :, None] * self.G[:, None]).reshape(B, K * K, -1).swapaxes(1, 2).copy()
        )

    def start(self, w: Complexes) -> Complexes:
        """Unknowns of the closed form of noise alone (`CausalLaw`), as a first guess.

        In units, y = wu has dy/d log x = K x y e^{−y} =: q with K = −E₁(−w²), and C = −w/y,
        R = −q/w.
        """
        from scipy.special import exp1

        B = self.m.size
        R, C = np.empty((2, B, w.size), dtype=np.complex128)
        plain = (np.abs(w) > _FAR) | (w.imag > np.abs(w.real))
        y, t = np.where(plain, 0.1j, w * w), 0.0
        K = -exp1(-y)
        places = np.log(self.i / self.m.sum())
        for b in range(B - 1, -1, -1):
            q = K * np.exp(t - y)  # over y
            rate = max(5.0, 4 * float(np.abs(q).max()))
            n_steps = min(200, max(1, int(np.ceil((t - places[b]) * rate))))
            step = (places[b] - t) / n_steps
            for _ in range(n_steps):  # the midpoint rule
                half = y * (1 + 0.5 * step * K * np.exp(t - y))
                y = y + step * half * K * np.exp(t + 0.5 * step - half)
                t += step
            R[b], C[b] = -y * K * np.exp(t - y) / w, -w / y
        for part in (R, C):
            part[:, plain] = -1 / w[plain]
            part[:] = np.where(np.isfinite(part) & (part.imag > 0), part, -1 / w)
        rows, columns = self.AT.sum(axis=1)[:, None], self.GT.sum(axis=1)[:, None]
        return np.stack([R[..., None] * rows, C[..., None] * columns])

    def solve(self, w: Complexes) -> Complexes:
        """Return the unknowns at points w of the upper half plane (a flat array).

        Newton's method from the closed form of noise; points at which it does not converge start
        again from the nearest point at which it did.
        """
        v = self.start(w)
        for _ in range(3):
            v = 0.5 * (v + self.iterate(v, w))
        done = np.zeros(w.size, dtype=bool)
        for attempt in range(_MOST_ATTEMPTS):
            todo = np.flatnonzero(~done)
            v[:, :, todo], done[todo] = self._converge(v[:, :, todo], w[todo], 5 + attempt)
            if done.all():
                return v
            if done.any():
                known, todo = np.flatnonzero(done), np.flatnonzero(~done)
                distance = np.abs(np.log(w[todo, None] / w[known]))
                v[:, :, todo] = v[:, :, known[distance.argmin(axis=1)]]
        raise RuntimeError(
            f"the equations of the causal profile could not be solved at {(~done).sum()} of "
            f"{w.size} points, the first at singular value "
            f"{w[~done][0].real * self.unit**0.5:.6g}; a profile with entries of very different "
            "sizes is the usual cause."
        )

    def _converge(self, v: Complexes, w: Complexes, n_steps: int) -> tuple[Complexes, Bools]:
        """Take Newton steps, shortened to stay in the upper half plane, or else damped ones."""
        done = np.zeros(w.size, dtype=bool)
        for _ in range(n_steps):
            todo = np.flatnonzero(~done)
            now = v[:, :, todo]
            step, residual = self.newton(now, w[todo])
            scale = np.abs(now) + 1e-3 * np.abs(now).max(axis=1, keepdims=True) + 1e-300
            size = (np.abs(step) / scale).max(axis=(0, 1, 3))
            with np.errstate(all="ignore"):
                reach = np.where(step.imag < 0, -now.imag / step.imag, np.inf).min(axis=(0, 1, 3))
            share = np.minimum(1.0, np.minimum(0.7 * reach, 1 / np.maximum(size, 1e-9)))
            share = np.where(size < _SMALL, 1.0, share)  # it may pass below the axis on its way
            good = ((share >= 0.25) & np.isfinite(size))[:, None]
            newton = share[:, None] * np.where(good, step, 0.0)
            v[:, :, todo] = now + np.where(good, newton, 0.5 * residual)
            above = (v[:, :, todo].imag >= -1e-3 * scale).all(axis=(0, 1, 3))
            done[todo] = good[:, 0] & above & (size < _TOLERANCE)
            if done.all():
                break
        return v, done

    def mean_rows(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Mean of R over all rows: w times the Stieltjes transform at w²."""
        R, _ = self._resolvents(self._ladders(unknowns), w)
        return np.asarray(self.share @ (R @ self.wr))

    def iterate(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Right-hand sides of the equations."""
        R, C = self._resolvents(self._ladders(unknowns), w)
        return np.stack([R @ self.AT, C @ self.GT])

    def _resolvents(self, ladders: Ladders, w: Complexes) -> tuple[Complexes, Complexes]:
        w = w[None, :, None]
        return -1 / (w + self.h * (ladders.rows @ self.A)), -1 / (w + ladders.columns @ self.G)

    def _ladders(self, unknowns: Complexes) -> Ladders:
        """Run the smoother forward and back through the bins."""
        R, C = unknowns
        k, m, i = self.k, self.m[:, None, None], self.i[:, None, None]
        first = (m + 1) / 2  # of the increments, before the observation
        rest = (m - 1) / 2
        o_rate = -m / i
        c1, c2, o = first * C, rest * C, o_rate * R
        ko, kc1, kc2 = k * o, k * c1, k * c2
        B = len(R)
        p, J = np.zeros((2, *R.shape[1:]), dtype=np.complex128)
        before, after = np.empty_like(R), np.empty_like(R)
        for b in range(B):
            before[b] = p
            p = p + c1[b]
            p = p / (1 + ko[b] * p) + c2[b]
        for b in range(B - 1, -1, -1):
            after[b] = J
            J = J / (1 + kc2[b] * J) + o[b]
            J = J / (1 + kc1[b] * J)
        J = after
        p1 = before + c1
        shrink = 1 / (1 + ko * p1)
        p3 = p1 * shrink + c2
        fade = 1 / (1 + kc2 * J)
        J1 = J * fade + o
        d1, d3 = 1 / (1 + k * J1 * p1), 1 / (1 + k * J * p3)
        out = 1 / (1 + kc1 * J1)
        f, g = first / m, rest / m
        # by (R, C, p, J): p1 by (0, first, 1, 0), p3 and J1 as follows
        s2, f2, d12, d32, out2 = shrink**2, fade**2, d1**2, d3**2, out**2
        p3_R, p3_C, p3_p = -k * p1**2 * s2 * o_rate, s2 * first + rest, s2
        J1_C = -k * J**2 * f2 * rest
        row_p, row_J = d12 / i, -k * p1**2 * d12 / i
        col_p, col_J, end_p = k * J1**2 * d12 * f, -d12 * f, k * J**2 * d32 * g
        return Ladders(
            rows=p1 * d1 / i,
            columns=-(f * J1 * d1 + g * J * d3),
            rows_by=(row_J * o_rate, row_p * first + row_J * J1_C, row_p, row_J * f2),
            columns_by=(
                col_J * o_rate + end_p * p3_R,
                col_p * first + col_J * J1_C + end_p * p3_C,
                col_p + end_p * p3_p,
                col_J * f2 - d32 * g,
            ),
            walk_by=(p3_R, p3_C, p3_p),
            information_by=(out2 * o_rate, out2 * J1_C - k * J1**2 * out2 * first, out2 * f2),
        )

    def newton(self, unknowns: Complexes, w: Complexes) -> tuple[Complexes, Complexes]:
        """Return Newton's step and the residual.

        In each bin the step of (R, C) is an affine function of those of p before and J after the
        bin (`_local`); what leaves the bin is one as well, and the chain of bins is solved by a
        backward sweep, in which the step of J is an affine function of that of p, and a forward
        one.
        """
        ladders = self._ladders(unknowns)
        R, C = self._resolvents(ladders, w)
        residual = np.stack([R @ self.AT, C @ self.GT]) - unknowns
        local = self._local(ladders, R, C, residual)
        K = self.K
        by_R, by_C = local[..., :K, :], local[..., K:, :]
        k = np.arange(K)
        walk = ladders.walk_by[0][..., None] * by_R + ladders.walk_by[1][..., None] * by_C
        walk[..., k, k] += ladders.walk_by[2]
        information = (
            ladders.information_by[0][..., None] * by_R
            + ladders.information_by[1][..., None] * by_C
        )
        information[..., k, K + k] += ladders.information_by[2]
        steps = _chain(walk, information)
        step = (local[..., :-1] @ steps[..., None])[..., 0] + local[..., -1]
        return np.stack([step[..., :K], step[..., K:]]), residual

    def _local(
        self, ladders: Ladders, R: Complexes, C: Complexes, residual: Complexes
    ) -> Complexes:
        """Step of (R, C) in a bin by the steps of p and J, and a constant: (…, 2K, 2K+1)."""
        K = self.K
        shape = (*residual.shape[1:3], K, K)
        MR = self.h * ((R * R) @ self.AA).reshape(shape)
        MC = ((C * C) @ self.GG).reshape(shape)
        system = np.empty((*shape[:2], 2 * K, 2 * K), dtype=np.complex128)
        sides = np.empty((*shape[:2], 2 * K, 2 * K + 1), dtype=np.complex128)
        for lines, M, by in (
            (slice(0, K), MR, ladders.rows_by),
            (slice(K, 2 * K), MC, ladders.columns_by),
        ):
            system[..., lines, :K] = -M * by[0][..., None, :]
            system[..., lines, K:] = -M * by[1][..., None, :]
            sides[..., lines, :K] = M * by[2][..., None, :]
            sides[..., lines, K:-1] = M * by[3][..., None, :]
        i = np.arange(2 * K)
        system[..., i, i] += 1
        sides[..., :K, -1], sides[..., K:, -1] = residual
        return np.asarray(np.linalg.solve(system, sides), dtype=np.complex128)


def _chain(walk: Complexes, information: Complexes) -> Complexes:
    """Solve for the steps of p before and J after each bin, given both maps: (B, points, 2K)."""
    B, n_points, K, _ = walk.shape
    one = np.eye(K)
    slope = np.zeros((n_points, K, K), dtype=np.complex128)  # J after the bin = slope p + offset
    offset = np.zeros((n_points, K, 1), dtype=np.complex128)
    kept = []
    for b in range(B - 1, -1, -1):
        by_J = walk[b, :, :, K:-1]
        sides = walk[b][..., [*range(K), 2 * K]]
        sides[..., -1:] += by_J @ offset
        onward = np.linalg.solve(one - by_J @ slope, sides)  # p after the bin by p before it
        through = slope @ onward
        through[..., -1:] += offset
        kept.append((onward, through))
        back = information[b][..., [*range(K), 2 * K]] + information[b, :, :, K:-1] @ through
        slope, offset = back[..., :-1], back[..., -1:]
    steps = np.zeros((B, n_points, 2 * K), dtype=np.complex128)
    p = np.zeros((n_points, K, 1), dtype=np.complex128)
    for b in range(B):
        onward, through = kept[B - 1 - b]
        steps[b, :, :K] = p[..., 0]
        steps[b, :, K:] = (through[..., :-1] @ p + through[..., -1:])[..., 0]
        p = onward[..., :-1] @ p + onward[..., -1:]
    return steps
