r"""Leading eigenpairs for a whole sweep over the signal norm, from one matrix.

With the signal along the first coordinate u = e₁, the covariance at every norm is

    S(μ) = S₀ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ

It differs from S₀ in its first row and column only. So the block D = S(μ)[1:, 1:] is the same
for all norms: diagonalise it once, and each norm leaves a scalar equation. Derived in
docs/theory/simulation.md, "One draw for all signal norms".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats

__all__ = ["Eigenpairs", "roots", "sweep_eigenpairs"]

EPS = float(np.finfo(np.float64).eps)


class Eigenpairs(NamedTuple):
    """Leading eigenpairs at every norm of a sweep; the signal is the first coordinate."""

    values: Floats  # (n_pairs, ..., n_norms)
    vectors: Floats  # (n_pairs, ..., n_norms, n), of unit length


def sweep_eigenpairs(
    matrix: Floats,
    coupling: Floats,
    gain: ArrayLike,
    norms: Floats,
    n_pairs: int = 1,
) -> Eigenpairs:
    """Return the leading eigenpairs of S(μ) for every norm.

    Parameters
    ----------
    matrix : array of shape (..., n, n)
        S₀, symmetric; the signal is along its first coordinate. Several are swept at once.
    coupling : array of shape (..., n)
        b.
    gain : array of shape (...)
        a.
    norms : array of shape (n_norms,)
        Values of ‖μ‖.
    n_pairs : int
        How many eigenpairs, from the largest down.

    Notes
    -----
    With the eigenpairs (λ_j, v_j) of D in descending order, h = S₀₁₁ + 2‖μ‖ b₁ + ‖μ‖² a and
    f_j = v_j·(S₀[1:, 0] + ‖μ‖ b[1:]), the eigenvalues x of S(μ) are the roots of

        φ(x) = x − h − Σ_j f_j² / (x − λ_j) ,     one in each gap: λ_j < x_j < λ_{j−1} , λ_0 = ∞

    (Cauchy's interlacing), increasing in each gap; its eigenvector is (1, f_j/(x − λ_j)) and
    its squared overlap with the signal 1/φ'(x). The unknown is the distance s = x − λ_j, so that
    nothing cancels when a root lies close to that pole.

    Examples
    --------
    A diagonal S₀ with a signal of norm 2 along its first coordinate:

    >>> pairs = sweep_eigenpairs(np.diag([1.0, 3.0]), np.zeros(2), 1.0, np.array([0.0, 2.0]))
    >>> pairs.values[0], pairs.vectors[0, :, 0] ** 2
    (array([3., 5.]), array([0., 1.]))
    """
    poles, turns = np.linalg.eigh(matrix[..., 1:, 1:])
    poles, turns = poles[..., None, ::-1], turns[..., ::-1]  # poles (..., 1, n − 1)
    ends = np.stack([matrix[..., 0, 1:], coupling[..., 1:]], axis=-2) @ turns
    f = ends[..., :1, :] + norms[:, None] * ends[..., 1:, :]  # (..., n_norms, n − 1)
    h = matrix[..., :1, 0] + 2 * norms * coupling[..., :1] + norms**2 * np.asarray(gain)[..., None]
    found = [_eigenpair(j, poles, f, h) for j in range(n_pairs)]
    values = np.stack([value for value, _ in found])
    vectors = np.stack([vector for _, vector in found])
    vectors[..., 1:] = vectors[..., 1:] @ np.swapaxes(turns, -1, -2)
    return Eigenpairs(values, vectors)


def _eigenpair(j: int, poles: Floats, f: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Return the j-th largest eigenvalue at every norm, and its vector in D's eigenbasis."""
    n = poles.shape[-1]
    if n == 0:
        return h, np.ones((*h.shape, 1))
    if j == n:  # below every pole: reflect, so that it is the largest again
        value, vector = _eigenpair(0, -poles[..., ::-1], f[..., ::-1], -h)
        return -value, np.concatenate([-vector[..., :1], vector[..., :0:-1]], axis=-1)
    pole, gaps = poles[..., j], poles[..., j : j + 1] - poles  # x − λ_i = s + gap_i
    width = poles[..., j - 1] - pole if j else np.full(pole.shape, np.inf)
    lengths = np.sqrt(np.sum(f**2, axis=-1))
    top = np.minimum(width, np.maximum(h - pole, 0) + lengths)  # s is below this
    tiny = EPS * (np.abs(poles).max(axis=-1) + np.abs(h) + lengths)
    s = roots(f**2, gaps, h - pole, top, tiny)

    with np.errstate(divide="ignore", invalid="ignore"):
        rest = f / (s[..., None] + gaps)
    vectors = np.concatenate([np.ones((*s.shape, 1)), rest], axis=-1)
    at_pole, at_next = s <= tiny, width - s <= tiny
    for row in zip(*np.nonzero(at_pole | at_next), strict=True):
        i, ladder = (j if at_pole[row] else j - 1), poles[(*row[:-1], 0)]
        head = h[row] - ladder[i]
        vectors[row] = _vector_at_pole(i, ladder[i] - ladder, f[row], head, tiny[row])
    vectors /= np.sqrt(np.sum(vectors**2, axis=-1, keepdims=True))
    return pole + s, vectors


def _vector_at_pole(j: int, gaps: Floats, f: Floats, head: float, tiny: float) -> Floats:
    """Return the eigenvector when λ_j is an eigenvalue to rounding, not normalised."""
    vector = np.zeros(len(f) + 1)
    vector[j + 1] = 1
    if j and -gaps[j - 1] <= tiny:  # a repeated pole: the combination that f does not see
        if f[j] or f[j - 1]:
            vector[j : j + 2] = f[j], -f[j - 1]
        return vector
    if abs(f[j]) <= tiny:
        return vector
    others = np.abs(gaps) > tiny
    vector[0] = f[j] / (-head - np.sum(f[others] ** 2 / gaps[others]))  # from the first row
    vector[1:][others] = vector[0] * f[others] / gaps[others]
    return vector


def roots(squares: Floats, gaps: Floats, heads: Floats, top: Floats, tiny: Floats) -> Floats:
    """Solve s = head + Σ squares/(s + gaps) for 0 < s < top, at every norm at once.

    Parameters
    ----------
    squares : array of shape (..., n_norms, n)
        f².
    gaps : array of shape (..., 1, n)
        λ_j − λ_i; zero for the nearest pole.
    heads, top, tiny : arrays of shape (..., n_norms)
        h − λ_j, a bound of s, and what counts as rounding.

    Notes
    -----
    The nearest pole is kept as it is and the others are replaced by their tangent, which leaves
    a quadratic; a step that leaves the bracket is replaced by bisection.
    """
    near = gaps == 0
    weight = np.sum(np.where(near, squares, 0), axis=-1)
    others, gaps = np.where(near, 0, squares), np.where(near, 1, gaps)
    low, high, s = np.zeros_like(top), top, top / 2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for _ in range(200):
            inverse = 1 / (s[..., None] + gaps)
            terms = others * inverse
            rest, slope = terms.sum(axis=-1), -np.sum(terms * inverse, axis=-1)
            is_low = heads + rest + weight / s > s  # −φ > 0
            low, high = np.where(is_low, s, low), np.where(is_low, high, s)
            A, B = heads + rest - slope * s, 1 - slope  # 0 = A − B s + weight/s
            root = np.sqrt(A**2 + 4 * B * weight)
            step = np.where(A > 0, (A + root) / (2 * B), 2 * weight / (root - A))
            close = np.abs(step - s) <= 4 * EPS * s + tiny / 4
            s = np.where(close | ((step > low) & (step < high)), step, (low + high) / 2)
            if np.all(close | (high - low <= tiny)):
                return s
    raise ArithmeticError(
        "the secular equation did not converge; the matrix may hold infinite or missing numbers."
    )
