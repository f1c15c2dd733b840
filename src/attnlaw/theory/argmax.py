"""The probability that one of several jointly Gaussian scores is the largest."""

import numpy as np
from scipy.special import ndtr, ndtri

from attnlaw._checks import Floats
from attnlaw.laws.outliers import TINY

__all__ = ["largest_score_probability"]


def largest_score_probability(
    label: int, means: Floats, covariances: Floats, uniforms: Floats
) -> float:
    """Return P(s_k > s_j for all j ≠ k), averaged over Gaussian laws s ~ N(m_i, C_i).

    Parameters
    ----------
    label : int
        k.
    means : array of shape (n, K)
        m_i.
    covariances : array of shape (n, K, K) or (1, K, K)
        C_i, or one for all; only those of differences of scores matter.
    uniforms : array of shape (n, at least K − 2)
        Points of a low-discrepancy sequence in the unit cube, beside those that chose m_i, C_i.

    Notes
    -----
    The differences s_k − s_j are K − 1 Gaussian numbers of mean m and covariance LLᵀ, sorted so
    that the least certain comes first. Genz' separation of variables (J. Comput. Graph. Statist.
    1, 141, 1992) integrates them one after the other:

        a_i = (m_i + Σ_{j<i} L_ij z_j)/L_ii ,   c_i = Φ(a_i) ,   z_i = −Φ⁻¹(u_i c_i) ,

    and the probability is the mean of Π c_i. Two classes need no u: Φ(m/σ).

    Examples
    --------
    Three scores alike:

    >>> from scipy.stats import qmc
    >>> u = qmc.Sobol(1, seed=0).random_base2(10)
    >>> round(largest_score_probability(0, np.zeros((1024, 3)), np.eye(3)[None], u), 4)
    0.3333
    """
    k, n_others = label, means.shape[1] - 1
    others = np.delete(np.arange(n_others + 1), k)
    m = means[:, [k]] - means[:, others]
    C = covariances
    own, cross = C[:, k, k][:, None, None], C[:, k, others]
    D = own - cross[:, :, None] - cross[:, None, :] + C[:, others[:, None], others]
    variances = np.mean(np.diagonal(D, axis1=1, axis2=2), axis=0)
    order = np.argsort(m.mean(axis=0) / np.sqrt(np.maximum(variances, TINY)))
    m, D = m[:, order], D[:, order[:, None], order]
    # A sum of squares may be singular (scores that move together); rounding must not stop it.
    ridge = 1e-13 * np.trace(D, axis1=1, axis2=2)[:, None, None] + TINY
    L = np.linalg.cholesky(D + ridge * np.eye(n_others))
    z = np.zeros((len(m), n_others))
    probability = np.ones(len(m))
    for i in range(n_others):
        c = ndtr((m[:, i] + np.sum(L[:, i, :i] * z[:, :i], axis=1)) / L[:, i, i])
        probability *= c
        if i < n_others - 1:
            z[:, i] = -ndtri(np.clip(uniforms[:, i] * c, TINY, 1 - 1e-16))
    return float(probability.mean())
