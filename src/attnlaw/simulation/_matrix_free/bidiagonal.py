"""Products with the idealised covariance in the basis that makes the table bidiagonal, compiled.

Imported only when used; `_matrix_free.gaussian_run` says what is multiplied here.
"""

import numpy as np

from attnlaw.simulation._matrix_free.compiled_lanczos import advance_lanczos, transpose_multiply
from attnlaw.simulation._matrix_free.kernels import compiled
from attnlaw.simulation._matrix_free.rows import add_combinations

__all__ = ["advance", "covariance_product", "multiply_transposed"]


@compiled
def multiply(B, vectors, out):
    """Write B times every row into `out`; B has its diagonal and what stands above it as rows."""
    for c in range(len(vectors)):
        x, y = vectors[c], out[c]
        for i in range(len(x)):
            y[i] = B[0, i] * x[i]
        for i in range(len(x) - 1):
            y[i] += B[1, i] * x[i + 1]


@compiled
def multiply_transposed(B, vectors):
    """Return Bᵀ times every row."""
    out = np.empty_like(vectors)
    for c in range(len(vectors)):
        x, y = vectors[c], out[c]
        for i in range(len(x)):
            y[i] = B[0, i] * x[i]
        for i in range(1, len(x)):
            y[i] += B[1, i - 1] * x[i - 1]
    return out


@compiled
def covariance_product(words, n_columns, B, vectors, state):
    """Return Bᵀ Gᵀ G B times every row, drawing what is not yet known of G."""
    n, d = vectors.shape
    both = np.empty((2 * n, d))
    multiply(B, vectors, both)
    coordinates = transpose_multiply(words, n_columns, both, state)
    images = np.zeros_like(vectors)
    add_combinations(images, coordinates, state.images[: state.counts[1]], 0, d)
    return multiply_transposed(B, images)


@compiled
def advance(words, n_steps, n_columns, B, state):
    """Take some steps of block Lanczos, as `lockstep.advance` does."""
    for _ in range(n_steps):
        product = covariance_product(words, n_columns, B, state.newest[0], state)
        advance_lanczos(product, state)
