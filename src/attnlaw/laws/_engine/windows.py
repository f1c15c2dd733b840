"""Equations of causal profiles whose rows see a window: dense inverses over bins.

With a window the rows of a causal matrix have no state that a recursion could carry. The linear
systems of Newton's method are solved by generalised minimal residuals: a product with the
derivative takes B² operations for B bins, a factorisation of it B³.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats
from attnlaw.laws.causal_equations import CausalEquations

if TYPE_CHECKING:
    from attnlaw.laws.causal_profile import CausalProfile

__all__ = ["WindowEquations", "pair_means"]

_MOST_KRYLOV = 60
_KRYLOV_TOLERANCE = 1e-3


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
