"""The equations of causal profiles, and their solution.

With R_k and C_k the means of R and C weighted with α_k and γ_k, D = diag(1/ℓ_i) and T_ij =
e^{−m(i−j)} for j ≤ i (1 without ALiBi),

    R_i = −1/(w + h Σ_k α_k(i) [(1 − T C_k Tᵀ D R_k/N_k)⁻¹ T C_k Tᵀ]_ii/ℓ_i) ,

and the same for columns. T C Tᵀ is the covariance of a random walk with increments C_j, which
decays by e^{−m} a step, and the inverse conditions it on observations of precision
−R_i/(ℓ_i N_k): both diagonals are those of a Kalman smoother, in O(n) steps (`CausalEquations`).
Tokens are taken in bins, whose first (m+1)/2m of increments come before the bin's observation,
which counts the pairs j ≤ i of a bin exactly (`_engine.bin_chain`); bins with many tokens for a
dimension are observed at each of them (`_engine.token_chain`). With a window the rows have no
state that a recursion could carry, and inverses are taken over bins (`WindowEquations`). Derived
in docs/theory/causal-heads.md, "A random walk under observation".
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats
from attnlaw.laws._engine.bin_chain import BinChain, Ladders, solve_chain
from attnlaw.laws._engine.token_chain import TokenChain
from attnlaw.laws.attention import causal_resolvents
from attnlaw.laws.profile import real_products

if TYPE_CHECKING:
    from attnlaw.laws.causal_profile import CausalProfile

__all__ = ["CausalEquations", "WindowEquations", "pair_means"]

Bools = NDArray[np.bool_]

_TOLERANCE = 1e-5  # of the last Newton step
_SMALL = 0.4
_MOST_ATTEMPTS = 40
_MOST_IN_BIN = 0.33  # tokens of a bin, over dimensions of a block, observed in its middle
_MOST_KRYLOV = 60
_KRYLOV_TOLERANCE = 1e-3

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
        crowded = profile.bins.max() > _MOST_IN_BIN * profile.latent_dimensions.min()
        self.chain = (TokenChain if crowded else BinChain)(profile)
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
        """Unknowns of the closed form for noise alone (`CausalLaw`), as an initial guess."""
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
        stops after `patience` failed attempts.
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

        With a small share, all is to first order in this share of the step: where a step is long
        beside the scale of change, the integral over w is unchanged. A last step of Newton's
        method removes the remaining error of the unknowns.
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

    def _ladders(self, unknowns: Complexes, *, slopes: bool = True) -> Any:
        return self.chain.smoothed(*unknowns, slopes=slopes)

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


def pair_means(values: Floats, bins: Floats) -> Floats:
    """Mean of f(i − j) over the pairs of tokens of two bins (B × B), f given at lags 0 … n − 1.

    Sums over pairs are second differences of the twice summed values.

    Examples
    --------
    >>> pair_means(np.ones(3), np.array([1.0, 2.0]))      # the pairs j ≤ i
    array([[1.  , 0.  ],
           [1.  , 0.75]])
    """
    n = values.size
    once = np.concatenate([np.zeros(n + 2), np.cumsum(values)])
    twice = np.cumsum(once)
    ends = np.cumsum(bins).astype(int)
    starts = ends - bins.astype(int)

    def up_to(i: NDArray[np.int_], j: NDArray[np.int_]) -> Floats:
        return np.asarray(twice[i[:, None] - j + n + 1])

    sums = up_to(ends, starts) - up_to(starts, starts) - up_to(ends, ends) + up_to(starts, ends)
    return np.asarray(sums / (bins[:, None] * bins))


class _DenseLadders(NamedTuple):
    """Diagonals of the inverses over bins, and their derivatives in q and c (P, K, B, B)."""

    rows: Complexes
    columns: Complexes
    rows_by: tuple[Complexes, Complexes]  # by q, c
    columns_by: tuple[Complexes, Complexes]


class WindowEquations(CausalEquations):
    """The same equations with a window, densely over bins.

    The linear systems of Newton's method are solved by generalised minimal residuals: a product
    with the derivative takes B² operations for B bins, a factorisation of it B³.

    F₁ and F₂ are the means of √ℓ M and of its square over pairs of bins. With q = mR/ℓ and c = mC,
    for the m tokens of a bin together, X = (1 − F₁cF₁ᵀq/N)⁻¹F₁ and Z = XcF₁ᵀ, rows have
    (Z_II − (F₁cF₁ᵀ)_II + (F₂c)_I)/ℓ_I: the pairs of tokens of the first order exactly, all others
    by their means.
    """

    def __init__(self, profile: "CausalProfile") -> None:
        super().__init__(profile)
        self.F1, self.F2 = profile.pair_means(1), profile.pair_means(2)

    def _ladders(self, unknowns: Complexes, *, slopes: bool = True) -> Any:
        R, C = unknowns.transpose(0, 3, 2, 1)  # (P, K, B)
        q, c = R * (self.m / self.sizes), C * self.m
        F1, F2 = self.F1, self.F2
        shape = (*q.shape, self.m.size)
        X = np.empty(shape, dtype=np.complex128)
        X[:] = F1
        Z = np.zeros(shape, dtype=np.complex128)
        W = np.zeros(shape, dtype=np.complex128)
        for k in np.flatnonzero(self.k):
            S = (F1 * c[:, k, None]) @ F1.T
            system = np.eye(self.m.size) - S * (self.k[k] * q[:, k, None])
            X[:, k] = np.linalg.solve(system, np.broadcast_to(F1, S.shape))
            Z[:, k] = (X[:, k] * c[:, k, None]) @ F1.T - S
            W[:, k] = F1.T @ (q[:, k, :, None] * (X[:, k] - F1))
        size = self.sizes
        rows = (np.diagonal(Z, axis1=2, axis2=3) + c @ F2.T) / size
        columns = np.diagonal(W, axis1=2, axis2=3) + q @ F2
        k4 = self.k[:, None, None]
        squares = np.asarray(X**2 + (F2 - F1**2), dtype=np.complex128)
        full: Complexes = Z + (F1 * c[:, :, None]) @ F1.T
        back: Complexes = W + F1.T @ (q[..., None] * F1)
        return _DenseLadders(
            rows=rows.transpose(2, 1, 0),
            columns=columns.transpose(2, 1, 0),
            rows_by=(k4 * full**2 / size[:, None], squares / size[:, None]),
            columns_by=(squares.swapaxes(2, 3), k4 * back**2),
        )

    def _linear(self, ladders: Any, R: Complexes, C: Complexes, sides: Complexes) -> Complexes:
        MR, MC = self._means(R, C)

        def change(x: Complexes) -> Complexes:
            dR, dC = x.transpose(0, 3, 2, 1)
            q, c = (dR * (self.m / self.sizes))[..., None], (dC * self.m)[..., None]
            by, back = ladders.rows_by, ladders.columns_by
            rows = (by[0] @ q + by[1] @ c)[..., 0].transpose(2, 1, 0)
            columns = (back[0] @ q + back[1] @ c)[..., 0].transpose(2, 1, 0)
            out = np.stack([(MR * rows[:, None]).sum(axis=2), (MC * columns[:, None]).sum(axis=2)])
            return np.asarray(x - out)

        return _gmres(change, sides)


def _gmres(apply: Callable[[Complexes], Complexes], sides: Complexes) -> Complexes:
    """Solve apply(x) = sides for each point (last axis) by generalised minimal residuals."""

    def inner(a: Complexes, b: Complexes) -> Complexes:
        return np.asarray(np.sum(a.conj() * b, axis=(0, 1, 2)))

    size = np.sqrt(inner(sides, sides).real) + 1e-300
    basis = [sides / size]
    H = np.zeros((_MOST_KRYLOV + 1, _MOST_KRYLOV, sides.shape[3]), dtype=np.complex128)
    for j in range(_MOST_KRYLOV):
        v = apply(basis[j])
        for _ in range(2):
            for i, u in enumerate(basis):
                share = inner(u, v)
                H[i, j] += share
                v = v - share * u
        H[j + 1, j] = np.sqrt(inner(v, v).real)
        basis.append(v / (H[j + 1, j].real + 1e-300))
        if j % 5 == 4 or j + 1 == _MOST_KRYLOV:
            small = np.moveaxis(H[: j + 2, : j + 1], 2, 0)
            target = np.zeros((len(small), j + 2, 1), dtype=np.complex128)
            target[:, 0, 0] = size
            y = np.linalg.pinv(small) @ target
            rest = np.linalg.norm(small @ y - target, axis=(1, 2)) / size
            if rest.max() < _KRYLOV_TOLERANCE:
                break
    return np.asarray(sum(u * y[:, i, 0] for i, u in enumerate(basis[:-1])))
