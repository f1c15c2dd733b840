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

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes
from attnlaw.laws._engine.bin_chain import Ladders, solve_chain
from attnlaw.laws.attention import causal_resolvents
from attnlaw.laws.profile import real_products

if TYPE_CHECKING:
    from attnlaw.laws.causal_profile import CausalProfile

__all__ = ["CausalEquations", "recur"]

Bools = NDArray[np.bool_]
Inexact = NDArray[np.complexfloating[Any, Any]]  # of any precision

_TOLERANCE = 1e-5  # of the last Newton step
_SMALL = 0.4
_MOST_ATTEMPTS = 40

# The GNU C library returns freed memory beyond twice the largest block that was ever freed. Free a
# large one: or else each Newton step has its temporaries mapped anew, a third of its time.
np.empty(2**21)


class CausalEquations:
    """The equations of a causal profile in units of its mean, and Newton's method for them.

    The unknowns of a point w are the means R_k and C_k of each bin: arrays (2, B, K, points).
    """

    def __init__(self, profile: "CausalProfile") -> None:
        self.unit = profile.mean
        scale = self.unit**-0.5
        self.h = profile.repeats
        self.K = len(profile.latent_dimensions)
        self.m, self.sizes = profile.bins, profile.sizes
        self.places = profile.places / self.m.sum()
        self.share, self.empty = profile.shares
        # increments before and after a bin's observation, and what is left of the walk after them
        before, after = (self.m + 1) / 2, (self.m - 1) / 2
        self.first, self.rest = profile.decayed(before), profile.decayed(after)
        self.kept, self.kept_after = np.exp(-2 * profile.slope * np.array([before, after]))
        self.noise = profile.noise / self.unit
        self.wr, self.wc = profile.row_weights, profile.column_weights
        self.k = 1 / profile.latent_dimensions
        A = profile.row_variances.swapaxes(0, 1) * scale  # (B, K, I)
        G = profile.column_variances.swapaxes(0, 1) * scale
        self.A_mean = profile.row_means.swapaxes(0, 1) * (scale * self.wr)
        self.G_mean = profile.column_means.swapaxes(0, 1) * (scale * self.wc)
        self.A, self.G = A.swapaxes(1, 2).copy(), G.swapaxes(1, 2).copy()  # (B, I, K)
        shape = (self.m.size, self.K**2, -1)
        self.AA = (self.A_mean[:, :, None] * A[:, None]).reshape(shape)
        self.GG = (self.G_mean[:, :, None] * G[:, None]).reshape(shape)

    def start(self, w: Complexes) -> Complexes:
        """Unknowns of the closed form of noise alone (`CausalLaw`), as a first guess."""
        # small singular values are those of the noise, with less energy than the whole
        scale = np.where(np.abs(w) < self.noise**0.5, self.noise**0.5, 1.0)
        R, C = causal_resolvents(w / scale, self.places)
        R, C = R / scale, C / scale
        rows, columns = self.A_mean.sum(axis=2), self.G_mean.sum(axis=2)
        return np.stack([R[:, None] * rows[..., None], C[:, None] * columns[..., None]])

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
            v[..., todo], done[todo] = self._converge(
                v[..., todo], w[todo], 6 + attempt, tolerance
            )
            in_vain = in_vain + 1 if (~done).sum() == todo.size else 0
            if done.all() or in_vain == patience:
                break
            if done.any():
                todo = np.flatnonzero(~done)
                # further out only now and then, where a copy of the nearest is the safer guess
                copy = attempt % 2 == 1
                v[..., todo] = _extrapolated(w[done], v[..., done], w[todo], copy=copy)
        return v, done

    def _converge(
        self, v: Complexes, w: Complexes, n_steps: int, tolerance: float
    ) -> tuple[Complexes, Bools]:
        """Take Newton steps, shortened to stay in the upper half plane, or else damped ones."""
        done = np.zeros(w.size, dtype=bool)
        for _ in range(n_steps):
            todo = np.flatnonzero(~done)
            now = v[..., todo]
            step, residual = self.newton(now, w[todo])
            scale = np.abs(now)
            scale += 1e-3 * scale.max(axis=1, keepdims=True) + 1e-300
            size = (np.abs(step) / scale).max(axis=(0, 1, 2))
            with np.errstate(all="ignore"):
                reach = np.where(step.imag < 0, -now.imag / step.imag, np.inf).min(axis=(0, 1, 2))
            share = np.minimum(1.0, np.minimum(0.7 * reach, 1 / np.maximum(size, 1e-9)))
            share = np.where(size < _SMALL, 1.0, share)  # it may pass below the axis on its way
            good = (share >= 0.25) & np.isfinite(size)
            now = now + np.where(good, share * np.where(good, step, 0.0), 0.5 * residual)
            v[..., todo] = now
            above = (now.imag >= -1e-3 * scale).all(axis=(0, 1, 2))
            done[todo] = good & above & (size < tolerance)
            if done.all():
                break
        return v, done

    def mean_rows(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Mean of R over all rows: w times the Stieltjes transform at w²."""
        R, _ = self._resolvents(self._ladders(unknowns, slopes=False), w)
        return np.asarray((self.share[:, None] * self.wr).ravel() @ R.reshape(-1, w.size)) - (
            self.empty / w
        )

    def mean_rows_below(
        self, unknowns: Complexes, w: Complexes, step: Complexes, share: float = 1.0
    ) -> Complexes:
        """`mean_rows` at w − step, to first order in the unknowns from the solution at w.

        With a small share it is to first order in all, as of this share of the step: where a step
        is long beside what changes, the integral over w stays what it is. What the unknowns miss
        of the solution is made up for by a last step of Newton's method.
        """
        ladders = self._ladders(unknowns)
        R, C = self._resolvents(ladders, w)
        sides = self._averages(R - step * R**2, C - step * C**2) - unknowns
        change = self._linear(ladders, R, C, sides)
        below = self.mean_rows(unknowns + share * change, w - share * step)
        if share == 1:
            return below
        here = self.mean_rows(unknowns, w)
        return here + (below - here) / share

    def iterate(self, unknowns: Complexes, w: Complexes) -> Complexes:
        """Right-hand sides of the equations."""
        return self._averages(*self._resolvents(self._ladders(unknowns, slopes=False), w))

    def _averages(self, R: Complexes, C: Complexes) -> Complexes:
        return np.stack([real_products(self.A_mean, R), real_products(self.G_mean, C)])

    def _resolvents(self, ladders: Ladders, w: Complexes) -> tuple[Complexes, Complexes]:
        """R and C of each kind in each bin (B, I, points)."""
        rows, columns = real_products(self.A, ladders.rows), real_products(self.G, ladders.columns)
        return -1 / (w + self.h * rows), -1 / (w + columns)

    def _ladders(self, unknowns: Complexes, *, slopes: bool = True) -> Ladders:
        """Run the smoother forward and back through the bins, with derivatives if asked for."""
        R, C = unknowns
        k = self.k[:, None] + 0j
        m, size, first, rest, keep, keep2 = (
            a[:, None, None].astype(np.complex128)  # NumPy multiplies equal types faster
            for a in (self.m, self.sizes, self.first, self.rest, self.kept, self.kept_after)
        )
        o_rate, f, g, size = -m / size, first / m, rest / m, 1 / size
        c1, c2, o = first * C, rest * C, o_rate * R
        ko, kc1, kc2 = k * o, k * c1, k * c2
        p1, J, J1 = np.empty((3, *R.shape), dtype=np.complex128)
        # p before a bin's observation from that in the bin before: κp/(1 + kop) + what is added
        kept: Complexes = keep[1:] * keep2[:-1]
        p1[0] = c1[0]
        recur(p1, ko[:-1] / kept, 1 / kept, keep[1:] * c2[:-1] + c1[1:])
        J1[-1] = o[-1]
        rate = (kc1[1:] + keep[1:] * kc2[:-1]) / kept
        recur(J1[::-1], rate[::-1], 1 / kept[::-1], o[-2::-1])
        J[-1] = 0
        J[:-1] = keep[1:] * J1[1:] / (1 + kc1[1:] * J1[1:])
        shrink = 1 / (1 + ko * p1)
        p3 = keep2 * p1 * shrink + c2
        d1, d3 = 1 / (1 + k * J1 * p1), 1 / (1 + k * J * p3)
        rows, columns = p1 * d1 * size, -(f * J1 * d1 + g * J * d3)
        if not slopes:
            return Ladders(rows, columns)
        fade, out = 1 / (1 + kc2 * J), 1 / (1 + kc1 * J1)
        # by (R, C, p, J): p1 by (0, first, keep, 0), p3 and J1 as follows
        s2, f2, d12, d32, out2 = keep2 * shrink**2, keep2 * fade**2, d1**2, d3**2, keep * out**2
        p3_R, p3_C, p3_p = -k * p1**2 * s2 * o_rate, s2 * first + rest, s2 * keep
        J1_C = -k * J**2 * f2 * rest
        row_p, row_J = d12 * size, -k * p1**2 * d12 * size
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
        residual = self._averages(R, C) - unknowns
        return self._linear(ladders, R, C, residual), residual

    def _linear(self, ladders: Ladders, R: Complexes, C: Complexes, sides: Complexes) -> Complexes:
        """Solve the linearised equations, x − (derivative of the right-hand sides) x = sides."""
        return solve_chain(ladders, self._means(R, C), sides)

    def _means(self, R: Complexes, C: Complexes) -> tuple[Complexes, Complexes]:
        """How R_k and C_k change with the smoother's diagonals in a bin (B, K, K, P)."""
        shape = (self.m.size, self.K, self.K, -1)
        rows = real_products(self.AA, self.h * (R * R)).reshape(shape)
        return rows, real_products(self.GG, C * C).reshape(shape)


def _extrapolated(
    known: Complexes, values: Complexes, w: Complexes, *, copy: bool = False
) -> Complexes:
    """Unknowns at w from those at two known points, as powers of w; or a copy of the nearest."""
    order = np.argsort(np.abs(np.log(w[:, None] / known)), axis=1)
    nearest = values[..., order[:, 0]]
    if copy or known.size < 2:
        return nearest
    a, b = known[order[:, 0]], known[order[:, 1]]
    power = np.clip((np.log(w / a) / np.log(a / b)).real, -2.0, 2.0)
    with np.errstate(all="ignore"):
        guess = nearest * np.exp(power * np.log(nearest / values[..., order[:, 1]]))
    return np.asarray(np.where(np.isfinite(guess) & (guess.imag > 0), guess, nearest))


def recur(x: Inexact, rates: Inexact, constants: Inexact, added: Inexact) -> None:
    """Fill x with x_{b+1} = x_b/(rate_b x_b + constant_b) + added_b, from the first on."""
    below = np.empty_like(x[0])
    for here, there, rate, constant, more in zip(
        x[:-1], x[1:], rates, constants, added, strict=True
    ):
        np.multiply(rate, here, out=below)
        below += constant
        np.divide(here, below, out=below)
        np.add(below, more, out=there)
