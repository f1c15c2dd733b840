"""Leading eigenpairs for a sweep over the signal norm, in one compiled call.

The compiled counterpart of `_matrix_free.secular`, which says what is solved and why. For the
small matrices of a Krylov space NumPy's calls take longer than the work itself.
"""

import numpy as np

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free import secular
from attnlaw.simulation._matrix_free.compiled.kernels import compiled, dot
from attnlaw.simulation._matrix_free.secular import EPS, Eigenpairs

__all__ = ["sweep_eigenpairs"]


def sweep_eigenpairs(
    matrix: Floats, coupling: Floats, gain: Floats, norms: Floats, n_pairs: int = 1
) -> Eigenpairs:
    """Do as `secular.sweep_eigenpairs` for matrices of shape (n_matrices, n, n).

    An eigenvalue that is a pole to rounding, or below every pole, is left to that function.
    """
    n_matrices, n, _ = matrix.shape
    if n_pairs < n:
        poles, turns = np.linalg.eigh(matrix[:, 1:, 1:])
        values = np.empty((n_pairs, n_matrices, len(norms)))
        vectors = np.empty((*values.shape, n))
        if _sweep(poles, turns, matrix, coupling, gain, norms, values, vectors):
            return Eigenpairs(values, vectors)
    return secular.sweep_eigenpairs(matrix, coupling, gain, norms, n_pairs)


@compiled
def _sweep(poles, turns, matrix, coupling, gain, norms, values, vectors):
    """Write the eigenpairs; return whether every eigenvalue was found between two poles."""
    n = poles.shape[1]
    f, squares, gaps, along = np.empty(n), np.empty(n), np.empty(n), np.empty((2, n))
    for a in range(len(poles)):
        _turn(matrix[a, 0], coupling[a], turns[a], along)
        for k in range(len(norms)):
            norm = norms[k]
            h = matrix[a, 0, 0] + 2 * norm * coupling[a, 0] + norm**2 * gain[a]
            for i in range(n):
                f[i] = along[0, i] + norm * along[1, i]
            for j in range(len(values)):
                pole = poles[a, n - 1 - j]
                width = poles[a, n - j] - pole if j else np.inf
                length = np.sqrt(dot(f, f))
                tiny = EPS * (max(abs(poles[a, 0]), abs(poles[a, n - 1])) + abs(h) + length)
                top = min(width, max(h - pole, 0.0) + length)
                for i in range(n):
                    squares[i], gaps[i] = f[i] ** 2, pole - poles[a, i]
                s = _root(squares, gaps, h - pole, top, tiny)
                if not tiny < s < width - tiny:  # also where it is not a number
                    return False
                values[j, a, k] = pole + s
                for i in range(n):
                    gaps[i] = f[i] / (s + pole - poles[a, i])
                _write_vector(gaps, turns[a], vectors[j, a, k])
    return True


@compiled
def _turn(column, coupling, turns, out):
    """Write S₀u and b, without the signal's coordinate, in the eigenbasis of D."""
    n = len(turns)
    for i in range(n):
        out[0, i] = out[1, i] = 0.0
    for r in range(n):
        for i in range(n):
            out[0, i] += column[1 + r] * turns[r, i]
            out[1, i] += coupling[1 + r] * turns[r, i]


@compiled
def _write_vector(rest, turns, out):
    """Write the unit vector along (1, rest), turned back from the eigenbasis of D."""
    scale = 1 / np.sqrt(1 + dot(rest, rest))
    out[0] = scale
    for r in range(len(rest)):
        out[1 + r] = scale * dot(rest, turns[r])


@compiled
def _root(squares, gaps, head, top, tiny):
    """Return the root below `top`, see `secular.roots`; NaN where it was not found."""
    weight = 0.0
    for i in range(len(gaps)):
        if gaps[i] == 0:  # the nearest pole
            weight += squares[i]
            squares[i], gaps[i] = 0.0, 1.0
    low, high, s = 0.0, top, top / 2
    for _ in range(200):
        rest, slope = _other_poles(squares, gaps, s)
        if head + rest + weight / s > s:
            low = s
        else:
            high = s
        A, B = head + rest - slope * s, 1 - slope
        root = np.sqrt(A**2 + 4 * B * weight)
        step = (A + root) / (2 * B) if A > 0 else 2 * weight / (root - A)
        is_close = abs(step - s) <= 4 * EPS * s + tiny / 4
        s = step if is_close or low < step < high else (low + high) / 2
        if is_close or high - low <= tiny:
            return s
    return np.nan


@compiled(fastmath=True)
def _other_poles(squares, gaps, s):
    """Return Σ squares/(s + gaps) and its derivative in s."""
    rest = slope = 0.0
    for i in range(len(gaps)):
        inverse = 1 / (s + gaps[i])
        term = squares[i] * inverse
        rest += term
        slope -= term * inverse
    return rest, slope
