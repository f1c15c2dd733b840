r"""Leading eigenpairs of covariances at every signal norm, by block Lanczos.

Covariances are met here only through their products, so they may be matrices in memory or ones
whose table is revealed as it is asked (`attnlaw.simulation.revealed`). Several are sought in
lockstep: of one sample, its bulk and its population, or of one sample pooled in several ways.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnlaw.simulation.lanczos import BlockLanczos
from attnlaw.simulation.secular import Eigenpairs, sweep_eigenpairs

__all__ = ["find_spikes"]

Floats = NDArray[np.float64]
Products = Callable[[Floats, list[int]], Floats]

FIRST_LOOK = 8  # steps before convergence is looked at


def find_spikes(
    columns: Floats,
    gains: Floats,
    norms: Floats,
    products: Products,
    *,
    tolerance: float,
    n_pairs: int = 1,
) -> list[Eigenpairs]:
    r"""Return the leading eigenpairs of S(μ) = S₀ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ.

    Parameters
    ----------
    columns : array of shape (n_matrices, n, 2 or more)
        For every matrix S₀u, b, and whatever else its Krylov space should start from. The signal
        u is the first coordinate.
    gains : array of shape (n_matrices,)
        a of every matrix.
    norms : array of shape (n_norms,)
        Values of ‖μ‖.
    products : callable
        Takes vectors Y of shape (n matrices still sought, n, block) and which they are, and
        returns S₀Y. The result may have more coordinates than Y: those missing in Y are zero.
    tolerance : float
        The search for a matrix ends when no eigenvector has more than this share of its mass in
        the last block of the Krylov space, which tells how much would still come if the space
        were larger. Eigenvalues and overlaps with the signal then err by less than `tolerance`,
        eigenvectors by about its root.
    n_pairs : int
        How many eigenpairs, from the largest down.

    Returns
    -------
    list of Eigenpairs
        For every matrix, in the original coordinates.

    Notes
    -----
    Without the signal's row and column S(μ) is one matrix D for all norms, and its leading
    eigenvectors lie in the Krylov space of D that starts from the rest of these columns
    (theory.md §9.1–2). The mass in the last block falls by about the same factor at every step,
    which tells when to look again.

    Examples
    --------
    >>> S = np.diag([1.0, 3.0, 2.0])
    >>> columns = np.stack([S[0], np.array([0.0, 1.0, 1.0])], axis=1)[None]
    >>> (pairs,) = find_spikes(
    ...     columns, np.array([2.0]), np.array([0.0, 1.0]), lambda Y, which: S @ Y, tolerance=1e-9)
    >>> pairs.values.round(3)
    array([[3.   , 4.247]])
    """
    found: list[Eigenpairs | None] = [None] * len(columns)
    active = list(range(len(columns)))
    run = BlockLanczos(_without_signal(columns))
    next_look, seen = FIRST_LOOK, None
    while active:
        run.advance(_without_signal(products(run.newest, active)))
        is_exact = ~run.newest.any(axis=(1, 2))
        if run.n_steps < next_look and not is_exact.any():
            continue
        pairs = _eigenpairs(run, columns[active, 0, :2], gains[active], norms, n_pairs)
        last = np.sum(pairs.vectors[..., -run.block :] ** 2, axis=-1).max(axis=(0, 2))
        is_done = is_exact | (last <= tolerance)
        for i in np.flatnonzero(is_done):
            found[active[i]] = _in_full(pairs, run, int(i))
        next_look = run.n_steps + _wait(run.n_steps, last, seen, tolerance)
        seen = (run.n_steps, last[~is_done])
        active = [name for name, done in zip(active, is_done, strict=True) if not done]
        if is_done.any():
            run.keep(~is_done)
    return [pairs for pairs in found if pairs is not None]


def _wait(n_steps: int, last: Floats, seen: tuple[int, Floats] | None, tolerance: float) -> int:
    """Return after how many steps to look again, from how the mass at the end has fallen."""
    if seen is None or len(seen[1]) != len(last):
        return 4
    falls = np.log(np.maximum(seen[1] / last, 1 + 1e-9)) / (n_steps - seen[0])
    needed = np.log(np.maximum(last / tolerance, 1)) / falls
    needed = needed[needed > 0]
    return int(np.clip(np.ceil(needed.min(initial=np.inf)), 1, 2 + n_steps // 2))


def _eigenpairs(
    run: BlockLanczos, corners: Floats, gains: Floats, norms: Floats, n_pairs: int
) -> Eigenpairs:
    """Return the eigenpairs in the Krylov spaces; the signal is still the first coordinate."""
    T, ends = run.matrix, run.start_coordinates
    (n, size, _), block = T.shape, slice(1, 1 + run.block)
    matrix, coupling = np.zeros((n, size + 1, size + 1)), np.zeros((n, size + 1))
    matrix[:, 1:, 1:] = T
    matrix[:, 0, 0], coupling[:, 0] = corners.T
    matrix[:, 0, block] = matrix[:, block, 0] = ends[:, :, 0]
    coupling[:, block] = ends[:, :, 1]
    return sweep_eigenpairs(matrix, coupling, gains, norms, n_pairs)


def _in_full(pairs: Eigenpairs, run: BlockLanczos, i: int) -> Eigenpairs:
    """Return the eigenpairs of one matrix in the original coordinates."""
    vectors = pairs.vectors[:, i]
    full = vectors[..., 1:] @ run.basis[i].T
    full[..., 0] += vectors[..., 0]
    return Eigenpairs(pairs.values[:, i], full)


def _without_signal(vectors: Floats) -> Floats:
    vectors = vectors.copy()
    vectors[:, 0] = 0
    return vectors
