"""A random walk through a chain of bins, each coupled to its neighbours only.

`BinChain` conditions the walk on an observation in each bin. `solve_chain` solves the linear
equations of a Newton step: a change x of (R, C) in a bin changes the smoother's diagonals there
(`Ladders`), together with the variance p of the walk before the bin and the information J from
after it,

    x_R = M_A (∂_R x_R + ∂_C x_C + ∂_p p + ∂_J J) + sides ,

the same for x_C, and it changes what leaves the bin, p after it and J before it. All derivatives
are diagonal in the blocks k, and only M_A and M_C mix them. With few blocks all bins and points
are taken at once, neighbours joined to larger bins; with many, bins are eliminated one by one,
by LAPACK, which takes half of the multiplications.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes

if TYPE_CHECKING:
    from attnlaw.laws.causal_profile import CausalProfile

__all__ = ["BinChain", "Ladders", "recur", "solve_chain"]

Inexact = NDArray[np.complexfloating[Any, Any]]  # of any precision

_FEW = 6  # blocks that are taken at once


class Ladders(NamedTuple):
    """Diagonals of the smoother in each bin, and their derivatives: arrays (B, K, points).

    They depend on R and C of the bin, on the variance p of the walk before it and on the
    information J from after it.
    """

    rows: Complexes
    columns: Complexes
    rows_by: tuple[Complexes, ...] = ()  # by R, C, p, J
    columns_by: tuple[Complexes, ...] = ()
    walk_by: tuple[Complexes, ...] = ()  # p after the bin, by R, C, p
    information_by: tuple[Complexes, ...] = ()  # J before it, by R, C, J


class _Passes(NamedTuple):
    """Results of both passes of the smoother in each bin: arrays (B, K, points)."""

    prior: Complexes  # p⁻, variance of the walk before the bin's observation
    passed: Complexes  # p⁺, variance after the bin
    shrink: Complexes  # 1/(1 + κop⁻), by which the observation shrinks it
    informed: Complexes  # J′, information from the bin's observation and from after it
    later: Complexes  # J, information from after the bin


class BinChain:
    """The random walk of a causal profile, conditioned on one observation in each bin.

    A bin of m tokens has the increments c₁ = fC before its observation and c₂ = rC after it, in
    which the walk decays by e₁ and e₂, and the observation has the precision o = −mR/ℓ. With
    κ = 1/N, the variance goes forward and the information from later bins backward,

        p⁻ = e₁p + c₁ ,                  p⁺ = e₂p⁻/(1 + κop⁻) + c₂ ,
        J′ = o + e₂J/(1 + κc₂J) ,        J before the bin = e₁J′/(1 + κc₁J′) ,

    and the diagonals are p⁻/(1 + κJ′p⁻)/ℓ of rows, and of columns
    −(f J′/(1 + κJ′p⁻) + r J/(1 + κJp⁺))/m.
    """

    def __init__(self, profile: "CausalProfile") -> None:
        before, after = (profile.bins + 1) / 2, (profile.bins - 1) / 2
        kept = np.exp(-2 * profile.slope * np.array([before, after]))
        m, size, self.first, self.rest, self.kept, self.kept_after = (
            a[:, None, None].astype(np.complex128)  # NumPy multiplies equal types faster
            for a in (
                *(profile.bins, profile.sizes),
                *(profile.decayed(before), profile.decayed(after)),
                *kept,
            )
        )
        self.inverse_dimensions = 1 / profile.latent_dimensions[:, None] + 0j  # κ
        self.precision = -m / size  # o/R
        self.first_share, self.rest_share = self.first / m, self.rest / m
        self.inverse_size = 1 / size

    def smoothed(self, R: Complexes, C: Complexes, *, slopes: bool) -> "Ladders":
        """Return the smoother's diagonals, and their derivatives if asked for."""
        k = self.inverse_dimensions
        p, p_after, _, J, J_after = passes = self._passes(R, C)
        d, d_after = 1 / (1 + k * J * p), 1 / (1 + k * J_after * p_after)
        rows = p * d * self.inverse_size
        columns = -(self.first_share * J * d + self.rest_share * J_after * d_after)
        if not slopes:
            return Ladders(rows, columns)
        return self._with_slopes(Ladders(rows, columns), C, passes, d**2, d_after**2)

    def _passes(self, R: Complexes, C: Complexes) -> _Passes:
        k, e1, e2 = self.inverse_dimensions, self.kept, self.kept_after
        c1, c2, o = self.first * C, self.rest * C, self.precision * R
        ko, kc1, kc2 = k * o, k * c1, k * c2
        p, J, J_after = np.empty((3, *R.shape), dtype=np.complex128)
        # p⁻ from that of the bin before: e p⁻/(1 + κop⁻) + what is added, e = e₁e₂ between them
        kept = e1[1:] * e2[:-1]
        p[0] = c1[0]
        recur(p, ko[:-1] / kept, 1 / kept, e1[1:] * c2[:-1] + c1[1:])
        # J′ from that of the bin after, in the same form
        J[-1] = o[-1]
        rate = (kc1[1:] + e1[1:] * kc2[:-1]) / kept
        recur(J[::-1], rate[::-1], 1 / kept[::-1], o[-2::-1])
        J_after[-1] = 0
        J_after[:-1] = e1[1:] * J[1:] / (1 + kc1[1:] * J[1:])
        shrink = 1 / (1 + ko * p)
        return _Passes(p, e2 * p * shrink + c2, shrink, J, J_after)

    def _with_slopes(
        self, values: "Ladders", C: Complexes, passes: _Passes, d2: Complexes, d2_after: Complexes
    ) -> "Ladders":
        """Add the derivatives, by the chain rule through p⁻, p⁺ and J′.

        d2 and d2_after are the squares of 1/(1 + κJ′p⁻) and 1/(1 + κJp⁺). A name a_b is ∂a/∂b;
        of p⁻ the derivatives are f by C and e₁ by p, of J′ that by R is o/R.
        """
        k, first, rest, o_R = self.inverse_dimensions, self.first, self.rest, self.precision
        p, _, shrink, J, J_after = passes
        fade, out = 1 / (1 + k * (rest * C) * J_after), 1 / (1 + k * (first * C) * J)
        after_p, J_J = self.kept_after * shrink**2, self.kept_after * fade**2
        before_J = self.kept * out**2  # J before the bin by J′
        after_R, after_C = -k * p**2 * after_p * o_R, after_p * first + rest
        J_C = -k * J_after**2 * J_J * rest
        row_p, row_J = d2 * self.inverse_size, -k * p**2 * d2 * self.inverse_size
        column_p, column_J = k * J**2 * d2 * self.first_share, -d2 * self.first_share
        column_after = k * J_after**2 * d2_after * self.rest_share
        return values._replace(
            rows_by=(row_J * o_R, row_p * first + row_J * J_C, row_p * self.kept, row_J * J_J),
            columns_by=(
                column_J * o_R + column_after * after_R,
                column_p * first + column_J * J_C + column_after * after_C,
                column_p * self.kept + column_after * (after_p * self.kept),
                column_J * J_J - d2_after * self.rest_share,
            ),
            walk_by=(after_R, after_C, after_p * self.kept),
            information_by=(
                before_J * o_R,
                before_J * J_C - k * J**2 * before_J * first,
                before_J * J_J,
            ),
        )


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


def solve_chain(
    ladders: Ladders, means: tuple[Complexes, Complexes], sides: Complexes
) -> Complexes:
    """Return x (2, B, K, points) for sides of its shape and M_A, M_C (B, K, K, points)."""
    solve = _joined if sides.shape[2] <= _FEW else _eliminated
    return solve(ladders, means, sides)


def _eliminated(
    ladders: Ladders, means: tuple[Complexes, Complexes], sides: Complexes
) -> Complexes:
    """Solve bin by bin: forward for x as X J + x₀, of J after each bin, and back for J.

    On the way p before a bin is P J + c, of J before it. Arrays of a bin are (points, 2, K, …),
    of rows and columns, and X and x₀, P and c are kept together, in K + 1 columns.
    """
    _, B, K, n = sides.shape
    M = np.stack(means, axis=1).transpose(0, 4, 1, 2, 3).copy()
    by = [
        np.stack(pair, axis=1).transpose(0, 3, 1, 2)[:, :, :, None].copy()
        for pair in zip(ladders.rows_by, ladders.columns_by, strict=True)
    ]
    walk, information = (
        [part.swapaxes(1, 2).copy() for part in parts]
        for parts in (ladders.walk_by, ladders.information_by)
    )
    constants = sides.transpose(1, 3, 0, 2)
    before = np.zeros((n, K, K + 1), dtype=np.complex128)
    X = np.empty((B, n, 2, K, K + 1), dtype=np.complex128)
    for b in range(B):
        p_R, p_C, p_p = (part[b, :, :, None] for part in walk)
        J_R, J_C, J_J = (part[b] for part in information)
        X[b] = _in_a_bin(M[b], [part[b] for part in by], (J_R, J_C, J_J), before, constants[b])
        J = J_R[..., None] * X[b, :, 0] + J_C[..., None] * X[b, :, 1]  # before the bin
        J[:, np.arange(K), np.arange(K)] += J_J
        p = before[..., :-1] @ J
        p[..., -1] += before[..., -1]
        before = p_R * X[b, :, 0] + p_C * X[b, :, 1] + p_p * p
    x = np.empty((B, n, 2, K), dtype=np.complex128)
    J = np.zeros((n, K), dtype=np.complex128)
    for b in reversed(range(B)):
        x[b] = (X[b, ..., :-1] @ J[:, None, :, None])[..., 0] + X[b, ..., -1]
        J_R, J_C, J_J = (part[b] for part in information)
        J = J_R * x[b, :, 0] + J_C * x[b, :, 1] + J_J * J
    return x.transpose(2, 0, 3, 1)


def _in_a_bin(
    M: Complexes,
    by: list[Complexes],
    information: tuple[Complexes, ...],
    before: Complexes,
    constants: Complexes,
) -> Complexes:
    """X and x₀ of a bin, from P and c before it: (points, 2, K, K + 1)."""
    n, _, K, _ = M.shape
    through = (M * by[2]).reshape(n, 2 * K, K) @ before
    P, c = through[..., :-1].reshape(n, 2, K, K), through[..., -1].reshape(n, 2, K)
    by_R, by_C, by_J = (
        M * by[i] + P * change[:, None, None]
        for i, change in zip((0, 1, 3), information, strict=True)
    )
    left = np.concatenate([by_R, by_C], axis=3).reshape(n, 2 * K, 2 * K)
    right = np.concatenate([by_J, (constants + c)[..., None]], axis=3)
    x = np.linalg.solve(np.eye(2 * K) - left, right.reshape(n, 2 * K, K + 1))
    return np.asarray(x.reshape(right.shape))


def _joined(ladders: Ladders, means: tuple[Complexes, Complexes], sides: Complexes) -> Complexes:
    """Solve all bins at once, then join neighbours.

    In each bin x is an affine function of the changes of p before and J after the bin (`_local`);
    what leaves the bin is one as well, and the chain is solved by joining neighbours.
    """
    local = _local(ladders, means, sides)
    K = sides.shape[2]
    leaving = []
    for by, own in ((ladders.walk_by, 0), (ladders.information_by, K)):
        by_R, by_C, by_own = (part.swapaxes(0, 1)[:, None] for part in by)
        leaving.append(by_R * local[:K] + by_C * local[K:])
        leaving[-1][np.arange(K), own + np.arange(K)] += by_own[:, 0]
    p, J = _joined_pairs(*leaving)
    step = _product(local[:, :K], p[:, None])
    step += _product(local[:, K:-1], J[:, None])
    step[:, 0] += local[:, -1]
    return step.reshape(2, K, *step.shape[2:]).swapaxes(1, 2)


def _local(ladders: Ladders, means: tuple[Complexes, Complexes], sides: Complexes) -> Complexes:
    """Step of (R, C) in a bin by the steps of p and J, and a constant: (2K, 2K+1, B, P)."""
    _, B, K, P = sides.shape
    system = np.empty((2 * K, 4 * K + 1, B, P), dtype=np.complex128)
    for lines, mean, by, side in (
        (slice(0, K), means[0], ladders.rows_by, sides[0]),
        (slice(K, 2 * K), means[1], ladders.columns_by, sides[1]),
    ):
        M = mean.transpose(1, 2, 0, 3)
        for part in range(4):  # by R, C, p, J
            columns = slice(part * K, (part + 1) * K)
            np.multiply(M, by[part].swapaxes(0, 1), out=system[lines, columns])
        system[lines, -1] = side.swapaxes(0, 1)
    left = system[:, : 2 * K]
    np.negative(left, out=left)
    i = np.arange(2 * K)
    left[i, i] += 1
    return _solution(system)


def _joined_pairs(walk: Complexes, information: Complexes) -> tuple[Complexes, Complexes]:
    """Solve for the steps of p before and J after each bin: (K, B, points) each.

    Given are p after each bin and J before it, as affine functions of p before and J after it
    (K, 2K+1, B, points). Neighbours are joined to bins of twice the size, for which p and J
    between the two are solved for, until a single bin is left, with nothing before and after it.
    """
    K = len(walk)
    levels = []
    while (n_bins := walk.shape[2]) > 1:
        pairs = slice(0, n_bins - 1, 2), slice(1, n_bins, 2)
        (a, b), (c, d) = ([x[:, :, part] for part in pairs] for x in (walk, information))
        mixed = _product(a[:, K:-1], d)
        system = np.concatenate([-mixed[:, :K], a[:, :K], mixed[:, K:]], axis=1)
        system[:, -1] += a[:, -1]
        system[np.arange(K), np.arange(K)] += 1
        between = _solution(system)  # p between the two bins
        back = _product(d[:, :K], between)  # J between them
        back[:, K:] += d[:, K:]
        onward, first = _product(b[:, :K], between), _product(c[:, K:-1], back)
        onward[:, K:] += b[:, K:]
        first[:, :K] += c[:, :K]
        first[:, -1] += c[:, -1]
        levels.append((between, back, n_bins))
        if n_bins % 2:
            onward = np.concatenate([onward, walk[:, :, -1:]], axis=2)
            first = np.concatenate([first, information[:, :, -1:]], axis=2)
        walk, information = onward, first
    p, J = np.zeros((2, K, 1, walk.shape[3]), dtype=np.complex128)
    for between, back, n_bins in reversed(levels):
        n_pairs = n_bins // 2
        ends = np.concatenate([p[:, :n_pairs], J[:, :n_pairs]])[:, None]
        all_p, all_J = np.empty((2, K, n_bins, p.shape[2]), dtype=np.complex128)
        all_p[:, ::2], all_J[:, 1::2] = p, J[:, :n_pairs]
        all_p[:, 1::2] = _product(between[:, :-1], ends)[:, 0] + between[:, -1]
        all_J[:, : 2 * n_pairs : 2] = _product(back[:, :-1], ends)[:, 0] + back[:, -1]
        if n_bins % 2:
            all_J[:, -1] = J[:, -1]
        p, J = all_p, all_J
    return p, J


def _product(A: Complexes, B: Complexes) -> Complexes:
    """Matrix products; rows and columns are the first axes."""
    total = A[:, 0, None] * B[0]
    for k in range(1, len(B)):
        total += A[:, k, None] * B[k]
    return np.asarray(total)


def _solution(whole: Complexes) -> Complexes:
    """Solve Ax = b for small matrices [A b], rows and columns first (Gauss–Jordan, in place).

    Pivots are those of the diagonal: each leading block of A is that of the equations for some of
    the unknowns given the others, and as regular.
    """
    n = len(whole)
    for k in range(n):
        pivot = whole[k, k + 1 :]
        pivot *= 1 / whole[k, k]
        for i in range(n):
            if i != k:
                whole[i, k + 1 :] -= whole[i, k] * pivot
    return whole[:, n:]
