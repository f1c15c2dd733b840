"""A few weighted points in place of a distribution: norms of Gaussian vectors, Gauss's rule."""

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import gammaincinv

from attnlaw._checks import Floats

__all__ = ["gauss_rule", "norm_rule"]


def gauss_rule(points: Floats, weights: Floats, n_nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights that integrate polynomials up to degree 2n−1 as the given points do.

    Parameters
    ----------
    points, weights : arrays of shape (m,)
        A discrete distribution; the weights are scaled to sum to one.
    n_nodes : int
        Number of nodes, fewer when the points are.

    Returns
    -------
    nodes, weights : arrays of shape (at most n_nodes,)

    Notes
    -----
    Lanczos's method for the diagonal matrix of points from the vector of square-root weights;
    the nodes are eigenvalues of its tridiagonal matrix. For a function like 1/(w + x), which is
    what enters a resolvent, Gauss's rule is Padé approximation and converges geometrically.

    Examples
    --------
    >>> nodes, weights = gauss_rule(np.linspace(-1, 1, 2001), np.ones(2001), 2)
    >>> nodes.round(2), weights.round(2)
    (array([-0.58,  0.58]), array([0.5, 0.5]))
    """
    basis = [np.sqrt(weights / weights.sum())]
    diagonal: list[float] = []
    off: list[float] = []
    scale = np.abs(points).max()
    while True:
        v = points * basis[-1]
        diagonal.append(float(basis[-1] @ v))
        if len(diagonal) == n_nodes:
            break
        known = np.array(basis)
        for _ in range(2):  # Gram–Schmidt twice: no loss of orthogonality
            v = v - known.T @ (known @ v)
        norm = float(np.linalg.norm(v))
        if norm <= 1e-12 * scale:
            break
        off.append(norm)
        basis.append(v / norm)
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off))
    return np.asarray(nodes, dtype=float), np.asarray(vectors[0] ** 2, dtype=float)


def norm_rule(
    dimension: float, n_nodes: int, n_draws: float | None = None
) -> tuple[Floats, Floats]:
    """Gauss's rule for r = ‖g‖/√d, g standard Gaussian in R^d.

    Parameters
    ----------
    dimension : float
        d; it need not be whole.
    n_nodes : int
        Number of nodes.
    n_draws : float, optional
        Cut the distribution where fewer than half of n draws are expected beyond, so that its
        support is that of n norms and not the whole line.

    Examples
    --------
    >>> r, w = norm_rule(64, 5)
    >>> round(float(w @ r**2), 9)
    1.0
    """
    tail = 0.5 / n_draws if n_draws else 1e-14
    low, high = np.sqrt(2 * gammaincinv(dimension / 2, [tail, 1 - tail]) / dimension)
    x, w = np.polynomial.legendre.leggauss(200)
    r = 0.5 * (low + high) + 0.5 * (high - low) * x
    log_density = (dimension - 1) * np.log(r) - dimension * r * r / 2
    return gauss_rule(r, w * np.exp(log_density - log_density.max()), n_nodes)
