"""How a simulation is computed, and how much memory that takes: decided here, before any work.

direct        forms every matrix (`simulation.pooled`)
rank-two      forms the table and the pooled sequences, but no covariance: same numbers as direct
matrix-free   forms neither table nor covariance; its loops over real tokens are compiled where
              numba is installed and the work repays that, shared by threads where there are many
              tokens, and tiled where the table is also larger than the caches
"""

import logging
import os
from functools import cache
from pathlib import Path

import numpy as np

from attnlaw._machine import require_memory
from attnlaw.models import PooledSequences

__all__ = [
    "METHODS",
    "check_memory",
    "choose_method",
    "has_numba",
    "is_large",
    "is_stored",
    "is_tiled",
    "matrix_free_memory",
    "plain_seconds",
    "prefer_compiled",
    "reference_memory",
    "trial_memory",
    "use_compiled",
]

METHODS = ("reference", "rank-two", "matrix-free")

QUICK = 100_000  # norms · d² below which forming the matrices is faster than avoiding them
STORED = 20_000  # dimension up to which vectors of the idealised model are stored
LARGE = 4_000_000  # tokens from which a product is worth several threads
WIDE = 200_000  # rows of a table from which a product is tiled
PARTS = 4  # into which a large product is cut, however many threads: the sums stay the same
SLAB = 2**20  # sequences at most that are tiled together
LONGEST = 2**13  # positions of a sequence that a tile can distinguish
MOST_COLUMNS = 16  # vectors that a compiled product multiplies at once
COMPILATION = 15.0  # seconds that compiling takes, once on a machine
LOADING = 1.0  # seconds that loading takes what was compiled before

logger = logging.getLogger("attnlaw.simulation")
_seconds = 0.0  # of uncompiled work in this process, estimated


def choose_method(method: str, model: PooledSequences, dimension: int) -> str:
    """Return the method that "auto" stands for; any other method stands for itself."""
    if method != "auto":
        return method
    if model.tokens_differ and not (model.sampling == "token" and model.centred):
        return "reference"
    is_quick = np.size(model.signal_norm) * dimension**2 < QUICK
    return "reference" if is_quick else "matrix-free"


@cache
def has_numba() -> bool:
    """Return whether loops can be compiled here: numba is installed and fits this NumPy."""
    try:
        from attnlaw.simulation._matrix_free.compiled import kernels  # noqa: F401
    except ImportError:
        return False
    return True


def prefer_compiled() -> None:
    """Compile at the next opportunity in this process, however little work there seems to be.

    For work that comes in many small calls, and where every call must take the same way.
    """
    global _seconds
    _seconds = np.inf


def use_compiled(
    model: PooledSequences,
    dimension: int,
    n_trials: int,
    n_matrices: int = 3,
    n_steps: float | None = None,
) -> bool:
    """Decide whether some trials are run in compiled loops, and log when that means compiling.

    Notes
    -----
    Compiled from the moment when the uncompiled work of this process, past and asked for now,
    would take as long as compiling: never more than twice the time of the better choice. Both
    ways draw the same random numbers, and most trials agree to their tolerance; Lanczos amplifies
    rounding, so that single ones near the threshold are as different as those of two seeds. In
    three covariances of tokens that are not centred rounding even decides which directions are
    new; those are compiled whenever they can be.
    """
    global _seconds
    if model.sizes(dimension).n_vocab == 0 or model.tokens_differ:
        return False
    if model.sampling == "token" and (model.centred or n_matrices == 1):
        _seconds += n_trials * plain_seconds(model, dimension, n_matrices, n_steps)
        if _seconds < (LOADING if _is_on_disk() else COMPILATION):
            return False
    if not has_numba():
        return False
    _announce()
    return True


def plain_seconds(
    model: PooledSequences, dimension: int, n_matrices: int = 3, n_steps: float | None = None
) -> float:
    """Return about how long an uncompiled trial with real tokens takes: right to a factor of two.

    Notes
    -----
    steps · (1 ms + columns · (0.2 µs V + 4 ns N L)): the calls of a step, and for each vector a
    Gaussian image and two passes over the tokens.
    """
    _, V, N = model.sizes(dimension)
    steps = _n_steps(dimension) if n_steps is None else n_steps
    columns = n_matrices * (2 if model.centred else 4)
    return float(steps * (1e-3 + columns * (2e-7 * V + 4e-9 * N * model.length)))


@cache
def _announce() -> None:
    """Say, once, that loops are compiled unless they have been before."""
    if not _is_on_disk():
        logger.info("compiling once, about %.0f s", COMPILATION)


def _n_steps(dimension: int) -> float:
    """Return about how many steps of Lanczos find the edge of the bulk."""
    return 20 + 2 * float(dimension ** (1 / 3))


@cache
def _is_on_disk() -> bool:
    """Return whether numba's cache holds the compiled loops."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(chosen) if chosen else Path(__file__).parent / "compiled" / "__pycache__"
    return next(place.rglob("lanczos.advance_*.nbi"), None) is not None


def is_stored(dimension: int) -> bool:
    """Return whether the idealised model's table is reduced to a bidiagonal matrix and stored."""
    return dimension <= STORED


def is_large(n_samples: int, length: int) -> bool:
    """Return whether products with so many tokens are shared by several threads."""
    return n_samples * length >= LARGE


def is_tiled(n_samples: int, length: int, n_vocab: int) -> bool:
    """Return whether so many sequences over such a table are sorted into tiles."""
    return is_large(n_samples, length) and n_vocab >= WIDE and length <= LONGEST


def trial_memory(model: PooledSequences, dimension: int, method: str = "auto") -> int:
    """Return about how many bytes one trial of `simulate` holds at its peak."""
    is_free = choose_method(method, model, dimension) == "matrix-free"
    return (matrix_free_memory if is_free else reference_memory)(model, dimension)


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
    are stored: three for each step and each direction that it starts from.
    """
    d, V, N = model.sizes(dimension)
    steps = _n_steps(d) if n_steps is None else n_steps
    if V == 0 or model.sampling == "gaussian":
        stored = 3 * (1 + n_matrices) * d if is_stored(d) else 0
        return int(8 * ((10 * steps) ** 2 + steps * stored))
    products = (2 if n_matrices == 1 and model.centred else 4) * n_matrices * (steps + 4)
    tokens = 16 * N * model.length
    if is_tiled(N, model.length, V) and has_numba():
        from attnlaw.simulation._matrix_free.compiled.kernels import n_threads

        unsorted = min(N, SLAB * min(PARTS, n_threads()))
        tokens = 4 * N * (model.length + 4 * n_matrices) + 16 * unsorted * model.length
    return int(tokens + 4 * V * products)


def check_memory(needed: float, dimension: int) -> None:
    """Raise when a simulation at this dimension would not fit in memory."""
    require_memory(needed, "dimension", dimension, "matrices")
