"""The equations of causal profiles, and how they are solved.

With R_k and C_k the means of R and C weighted with α_k and γ_k, D = diag(1/ℓ_i) and T_ij =
e^{−m(i−j)} for j ≤ i (1 without ALiBi),

    R_i = −1/(w + h Σ_k α_k(i) [(1 − T C_k Tᵀ D R_k/N_k)⁻¹ T C_k Tᵀ]_ii/ℓ_i) ,

and the same for columns. T C Tᵀ is the covariance of a random walk with increments C_j, which
decays by e^{−m} a step, and the inverse conditions it on observations of precision
−R_i/(ℓ_i N_k): both diagonals are those of a Kalman smoother, in O(n) steps (`CausalEquations`).
Tokens are taken in bins, whose first (m+1)/2m of increments come before the bin's observation,
which counts the pairs j ≤ i of a bin exactly. With a window there is no such recursion, and
inverses are taken over bins (`_engine.windows`). Derived in docs/theory/causal-heads.md,
"A random walk under observation".
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes

if TYPE_CHECKING:
    from attnlaw.laws.causal_profile import CausalProfile

__all__ = ["CausalEquations"]

Bools = NDArray[np.bool_]

_TOLERANCE = 1e-5  # of the last Newton step
_SMALL = 0.4
_MOST_ATTEMPTS = 40
_FAR = 6.0  # in units: far from the support, where resolvents are −1/w


class Ladders(NamedTuple):
    """Diagonals of the smoother in each bin, and their derivatives: arrays (B, points, K).

    They depend on R and C of the bin, on the variance p of the walk before it and on the
    information J from after it.
    """

    rows: Complexes
    columns: Complexes
    rows_by: tuple[Complexes, ...] = ()  # by R, C, p, J
    columns_by: tuple[Complexes, ...] = ()
    walk_by: tuple[Complexes, ...] = ()  # p after the bin, by R, C, p
    information_by: tuple[Complexes, ...] = ()  # J before it, by R, C, J


class CausalEquations:
    """The equations of a causal profile in units of its mean, and Newton's method for them.

    The unknowns of a point w are the means R_k and C_k of each bin: arrays (2, B, points, K).
    """

    def __init__(self, profile: "CausalProfile") -> None:
        self.unit = profile.mean
        scale = self.unit**-0.5
        self.h = profile.repeats
        self.K = len(profile.latent_dimensions)
        self.m, self.sizes = profile.bins, profile.sizes
        self.places = np.log(profile.places / self.m.sum())
        self.share, self.empty = profile.shares
        # increments before and after a bin's observation, and what is left of the walk after them
        before, after = (self.m + 1) / 2, (self.m - 1) / 2
        self.first, self.rest = profile.decayed(before), profile.decayed(after)
        self.kept, self.kept_after = np.exp(-2 * profile.slope * np.array([before, after]))
        self.noise = profile.noise / self.unit
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
        # small singular values are those of the noise, with less energy than the whole
        scale = np.where(np.abs(w) < self.noise**0.5, self.noise**0.5, 1.0)
        w = w / scale
        plain = (np.abs(w) > _FAR) | (w.imag > np.abs(w.real))
        y, t = np.where(plain, 0.1j, w * w), 0.0
        K = -exp1(-y)
        places = self.places
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
        R, C = R / scale, C / scale
        rows, columns = self.AT.sum(axis=1)[:, None], self.GT.sum(axis=1)[:, None]
        return np.stack([R[..., None] * rows, C[..., None] * columns])

    def solve(self, w: Complexes, tolerance: float = _TOLERANCE) -> Complexes:
        """Return the unknowns at points w of the upper half plane (a flat array)."""
        v, done = self.solve_most(w, tolerance=tolerance, patience=_MOST_ATTEMPTS)
        if not done.all():
            raise RuntimeError(
                f"the equations of the causal profile could not be solved at {(~done).sum()} of "
                f"{w.size} points, the first at singular value "
                f"{w[~done][0].real * self.unit**0.5:.6g}; a profile with entries of very "
                "different sizes is the usual cause."
            )
        return v

    def solve_most(
        self,
        w: Complexes,
        known: tuple[Complexes, Complexes] | None = None,
        tolerance: float = _TOLERANCE,
        patience: int = 8,
    ) -> tuple[Complexes, Bools]:
        """Return the unknowns at points w, and where they were found.

        Newton's method from the closed form of noise, or from those of the `known` points and
        unknowns nearest to it; points at which it does not converge start again from those at
        which it did. The last step is smaller than `tolerance`, and the error about its square. It
        gives up after `patience` attempts in vain.
        """
        if known is None:
            v = self.start(w)
            for _ in range(3):
                v = 0.5 * (v + self.iterate(v, w))
        else:
            v = _extrapolated(*known, w)
        done = np.zeros(w.size, dtype=bool)
        in_vain = 0
        for attempt in range(_MOST_ATTEMPTS):
            todo = np.flatnonzero(~done)
            v[:, :, todo], done[todo] = self._converge(
                v[:, :, todo], w[todo], 6 + attempt, tolerance
            )
            in_vain = in_vain + 1 if (~done).sum() == todo.size else 0
            if done.all() or in_vain == patience:
                break
            if done.any():
                todo = np.flatnonzero(~done)
                # further out only now and then, where a copy of the nearest is the safer guess
                copy = attempt % 2 == 1
                v[:, :, todo] = _extrapolated(w[done], v[:, :, done], w[todo], copy=copy)
        return v, done

    def _converge(
        self, v: Complexes, w: Complexes, n_steps: int, tolerance: float
    ) -> tuple[Complexes, Bools]:
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
            done[todo] = good[:, 0] & above & (size < tolerance)
            if done.all():
                break
        return v, done

    def mean_rows(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Mean of R over all rows: w times the Stieltjes transform at w²."""
        R, _ = self._resolvents(self._ladders(unknowns, slopes=False), w)
        return np.asarray(self.share @ (R @ self.wr) - self.empty / w)

    def mean_rows_slope(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Return the derivative of `mean_rows` in w, at the solution."""
        ladders = self._ladders(unknowns)
        R, C = self._resolvents(ladders, w)
        slope = self._linear(ladders, R, C, np.stack([R * R @ self.AT, C * C @ self.GT]))
        step = 1e-6 * w
        ahead = self.mean_rows(unknowns + step[:, None] * slope, w + step)
        return np.asarray((ahead - self.share @ (R @ self.wr) + self.empty / w) / step)

    def iterate(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Right-hand sides of the equations."""
        R, C = self._resolvents(self._ladders(unknowns, slopes=False), w)
        return np.stack([R @ self.AT, C @ self.GT])

    def _resolvents(self, ladders: Ladders, w: Complexes) -> tuple[Complexes, Complexes]:
        w = w[None, :, None]
        return -1 / (w + self.h * (ladders.rows @ self.A)), -1 / (w + ladders.columns @ self.G)

    def _ladders(self, unknowns: Complexes, *, slopes: bool = True) -> Ladders:
        """Run the smoother forward and back through the bins, with derivatives if asked for."""
        R, C = unknowns
        k = self.k
        m, size, first, rest, keep, keep2 = (
            a[:, None, None]
            for a in (self.m, self.sizes, self.first, self.rest, self.kept, self.kept_after)
        )
        o_rate = -m / size
        c1, c2, o = first * C, rest * C, o_rate * R
        ko, kc1, kc2 = k * o, k * c1, k * c2
        B = len(R)
        p, J = np.zeros((2, *R.shape[1:]), dtype=np.complex128)
        before, after = np.empty_like(R), np.empty_like(R)
        for b in range(B):
            before[b] = p
            p = keep[b] * p + c1[b]
            p = keep2[b] * p / (1 + ko[b] * p) + c2[b]
        for b in range(B - 1, -1, -1):
            after[b] = J
            J = keep2[b] * J / (1 + kc2[b] * J) + o[b]
            J = keep[b] * J / (1 + kc1[b] * J)
        J = after
        p1 = keep * before + c1
        shrink = 1 / (1 + ko * p1)
        p3 = keep2 * p1 * shrink + c2
        fade = 1 / (1 + kc2 * J)
        J1 = keep2 * J * fade + o
        d1, d3 = 1 / (1 + k * J1 * p1), 1 / (1 + k * J * p3)
        f, g = first / m, rest / m
        rows, columns = p1 * d1 / size, -(f * J1 * d1 + g * J * d3)
        if not slopes:
            return Ladders(rows, columns)
        out = 1 / (1 + kc1 * J1)
        # by (R, C, p, J): p1 by (0, first, keep, 0), p3 and J1 as follows
        s2, f2, d12, d32, out2 = keep2 * shrink**2, keep2 * fade**2, d1**2, d3**2, keep * out**2
        p3_R, p3_C, p3_p = -k * p1**2 * s2 * o_rate, s2 * first + rest, s2 * keep
        J1_C = -k * J**2 * f2 * rest
        row_p, row_J = d12 / size, -k * p1**2 * d12 / size
        col_p, col_J, end_p = k * J1**2 * d12 * f, -d12 * f, k * J**2 * d32 * g
        return Ladders(
            rows=rows,
            columns=columns,
            rows_by=(row_J * o_rate, row_p * first + row_J * J1_C, row_p * keep, row_J * f2),
            columns_by=(
                col_J * o_rate + end_p * p3_R,
                col_p * first + col_J * J1_C + end_p * p3_C,
                col_p * keep + end_p * p3_p,
                col_J * f2 - d32 * g,
            ),
            walk_by=(p3_R, p3_C, p3_p),
            information_by=(out2 * o_rate, out2 * J1_C - k * J1**2 * out2 * first, out2 * f2),
        )

    def newton(self, unknowns: Complexes, w: Complexes) -> tuple[Complexes, Complexes]:
        """Return Newton's step and the residual."""
        ladders = self._ladders(unknowns)
        R, C = self._resolvents(ladders, w)
        residual = np.stack([R @ self.AT, C @ self.GT]) - unknowns
        return self._linear(ladders, R, C, residual), residual

    def _linear(self, ladders: Ladders, R: Complexes, C: Complexes, sides: Complexes) -> Complexes:
        """Solve the linearised equations, x − (derivative of the right-hand sides) x = sides.

        In each bin x is an affine function of the changes of p before and J after the bin
        (`_local`); what leaves the bin is one as well, and the chain of bins is solved by a
        backward sweep, in which the change of J is an affine function of that of p, and a forward
        one.
        """
        local = self._local(ladders, R, C, sides)
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
        return np.stack([step[..., :K], step[..., K:]])

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


def _extrapolated(
    known: Complexes, values: Complexes, w: Complexes, *, copy: bool = False
) -> Complexes:
    """Unknowns at w from those at two known points, as powers of w; or a copy of the nearest."""
    order = np.argsort(np.abs(np.log(w[:, None] / known)), axis=1)
    nearest = values[:, :, order[:, 0]]
    if copy or known.size < 2:
        return nearest
    a, b = known[order[:, 0]], known[order[:, 1]]
    power = np.clip((np.log(w / a) / np.log(a / b)).real, -2.0, 2.0)[:, None]
    with np.errstate(all="ignore"):
        guess = nearest * np.exp(power * np.log(nearest / values[:, :, order[:, 1]]))
    return np.asarray(np.where(np.isfinite(guess) & (guess.imag > 0), guess, nearest))


def _chain(walk: Complexes, information: Complexes) -> Complexes:
    """Solve for the steps of p before and J after each bin, given both maps: (B, points, 2K).

    Points are the last axis throughout, over which NumPy is fast when K is small.
    """
    B, n_points, K, _ = walk.shape
    walk = np.ascontiguousarray(np.moveaxis(walk, 1, -1))  # (B, K, 2K+1, points)
    information = np.ascontiguousarray(np.moveaxis(information, 1, -1))
    own = [*range(K), 2 * K]
    own_walk, own_information = walk[:, :, own], information[:, :, own]
    diagonal = np.arange(K)
    ahead = np.zeros((K, K + 1, n_points), dtype=np.complex128)  # J after the bin by p, and alone
    both = np.empty((B, 2 * K, K + 1, n_points), dtype=np.complex128)  # J and p after the bin
    for b in range(B - 1, -1, -1):
        mixed = _product(walk[b, :, K:-1], ahead)
        sides, system = own_walk[b], -mixed[:, :-1]
        sides[:, -1] += mixed[:, -1]
        system[diagonal, diagonal] += 1
        onward = _solution(system, sides)  # p after the bin by p before it
        through = _product(ahead[:, :-1], onward)
        through[:, -1] += ahead[:, -1]
        both[b, :K], both[b, K:] = through, onward
        ahead = own_information[b] + _product(information[b, :, K:-1], through)
    steps = np.zeros((B, 2 * K, n_points), dtype=np.complex128)
    p = np.zeros((K, n_points), dtype=np.complex128)
    for b in range(B):
        after = _product(both[b, :, :-1], p[:, None])[:, 0] + both[b, :, -1]
        steps[b, :K], steps[b, K:] = p, after[:K]
        p = after[K:]
    return np.moveaxis(steps, -1, 1)


def _product(A: Complexes, B: Complexes) -> Complexes:
    """Matrix products, points last."""
    total = A[:, 0, None] * B[0]
    for k in range(1, len(B)):
        total += A[:, k, None] * B[k]
    return np.asarray(total)


def _solution(A: Complexes, sides: Complexes) -> Complexes:
    """Solve Ax = sides for small matrices near the identity, points last (Gauss–Jordan)."""
    whole = np.concatenate([A, sides], axis=1)
    K = len(A)
    for k in range(K):
        whole[k] = whole[k] / whole[k, k]
        for i in range(K):
            if i != k:
                whole[i] -= whole[i, k] * whole[k]
    return whole[:, K:]
