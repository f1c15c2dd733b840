"""How much memory a simulation needs, asked before anything is allocated."""

from attnlaw._machine import require_memory
from attnlaw.models import PooledSequences
from attnlaw.simulation._matrix_free.gram import PARTS, SLAB, compiled_kernels, is_tiled

__all__ = [
    "WRITTEN_OUT",
    "check_memory",
    "matrix_free_memory",
    "reference_memory",
]

WRITTEN_OUT = 20_000  # dimension up to which vectors of the idealised model are written out


def reference_memory(model: PooledSequences, dimension: int) -> int:
    """Return the bytes that one trial of the direct simulation holds at its peak.

    Notes
    -----
    The table and its class split, 2 V d; the pooled noise, a copy with the signal and a centred
    copy, 3 N d; the covariance, its eigenvectors and LAPACK's work, 4 d²; signs and tokens,
    with the sparse weight matrix of real tokens, 3 N L; the V Gaussians of each sequence when
    they are drawn, N V. Eight bytes for each.
    """
    d, V, N = model.sizes(dimension)
    gaussians = N * V if model.sampling == "gaussian" else 0
    return 8 * (2 * V * d + 3 * N * d + 4 * d**2 + 3 * N * model.length + gaussians)


def matrix_free_memory(
    model: PooledSequences, dimension: int, n_matrices: int = 3, n_steps: float | None = None
) -> int:
    """Return about how many bytes one trial of the matrix-free simulation holds at its peak.

    Notes
    -----
    Real tokens: 16 bytes for each of the N L while they and their signs are drawn, or 4 once they
    are in tiles, with the pooled vectors beside them; of the table its products with some vectors
    of the vocabulary for each step of Lanczos, two or four of them for each covariance, in single
    precision. Steps grow like d^(1/3) where the edge of the bulk is sought, else like log d
    (`n_steps`). Without real tokens next to nothing, except where vectors of the idealised model
    are written out: three for each step and each direction that it starts from.
    """
    d, V, N = model.sizes(dimension)
    steps = 20 + 2 * d ** (1 / 3) if n_steps is None else n_steps
    if V == 0 or model.sampling == "gaussian":
        written_out = 3 * (1 + n_matrices) * d if d <= WRITTEN_OUT else 0
        return int(8 * ((10 * steps) ** 2 + steps * written_out))
    products = (2 if n_matrices == 1 and model.centred else 4) * n_matrices * (steps + 4)
    tokens = 16 * N * model.length
    kernels = compiled_kernels()
    if kernels is not None and is_tiled(N, model.length, V):
        unsorted = min(N, SLAB * min(PARTS, kernels.n_threads()))
        tokens = 4 * N * (model.length + 4 * n_matrices) + 16 * unsorted * model.length
    return int(tokens + 4 * V * products)


def check_memory(needed: float, dimension: int, argument: str = "dimension") -> None:
    """Raise when a simulation at this dimension would not fit in memory."""
    require_memory(needed, argument, dimension, "matrices")
