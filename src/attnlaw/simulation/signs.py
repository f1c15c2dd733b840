r"""Signs s ∈ {±1}^L with E[s] = 0 and exactly the correlation E[s sᵀ] = R."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Random, count, random_generator
from attnlaw.correlations import check_correlation

__all__ = ["SignGroups", "attainable_correlation", "sample_signs", "sign_groups"]

ROUNDING = 1e-10  # correlations closer than this are taken to be equal, as in check_correlation
MOST_REMEMBERED = 256  # positions of a correlation whose groups are kept for the next trial


def sample_signs(correlation: ArrayLike, n: int, rng: Random = None) -> NDArray[np.int8]:
    """Draw sequences of fair signs whose positions have a given correlation.

    Parameters
    ----------
    correlation : array of shape (length, length)
        R, symmetric, positive semi-definite, with a unit diagonal.
    n : int
        Number of independent sequences.
    rng : Generator, int or None
        Source of randomness.

    Returns
    -------
    array of int8, shape (n, length)
        Rows s with s_l = ±1, E[s_l] = 0 and E[s_l s_l'] = R_ll'.

    Raises
    ------
    ValueError
        When none of the samplers below attains R; the sentence says how close one comes.

    Notes
    -----
    Exact, by the cheapest sampler that attains R (docs/theory/weights.md, "Signs with a given
    correlation"):

    1. Positions with R_ll' = ±1 share one Rademacher sign (up to a factor ±1), drawn once.
    2. A position uncorrelated with all others has a Rademacher sign of its own.
    3. The rest are s = sign(g) with g ~ N(0, sin(πR/2)), for E[sign(g) sign(g')] =
       (2/π) arcsin E[g g'] (Sheppard). That identity holds for singular covariances as well;
       only |E[g g']| = 1 would leave the agreement of two signs to rounding, and step 1 has
       removed those.
    4. sin(πR/2) need not be positive semi-definite. Where it is not but R_ll' = f_l f_l' off
       the diagonal with |f_l| ≤ 1, as for `spiked_correlation`, a hidden Rademacher sign c does:
       given c the signs are independent with E[s_l | c] = c f_l.

    R alone does not fix the joint law of more than two signs. Spectra depend on R only; the
    accuracy of a classifier may depend on more, except where steps 1 and 2 are enough.

    Examples
    --------
    In a prefix model the prefix shares one sign:

    >>> from attnlaw import prefix_correlation
    >>> signs = sample_signs(prefix_correlation(5, prefix=3), 4, rng=0)
    >>> bool((signs[:, 0] == signs[:, 2]).all())
    True
    """
    R = check_correlation(correlation)
    n, rng = count("n", n, at_least=0), random_generator(rng)
    groups = _groups(R)
    distinct = _sample_distinct(R[np.ix_(groups.leaders, groups.leaders)], n, rng)
    return distinct[:, groups.members] * groups.polarity


def attainable_correlation(correlation: ArrayLike) -> NDArray[np.float64]:
    """Return R where `sample_signs` attains it, else a correlation close by that it attains.

    Notes
    -----
    The negative eigenvalues of sin(πR/2) are set to 0, its diagonal is brought back to 1, and
    what signs of such Gaussians have for correlation, (2/π) arcsin, is returned.

    Examples
    --------
    No three signs are all opposed to each other by more than 1/3 on average:

    >>> R = np.full((3, 3), -0.45) + 1.45 * np.eye(3)
    >>> attainable_correlation(R).round(3)
    array([[ 1.   , -0.333, -0.333],
           [-0.333,  1.   , -0.333],
           [-0.333, -0.333,  1.   ]])
    """
    R = check_correlation(correlation)
    groups = _groups(R)
    distinct = R[np.ix_(groups.leaders, groups.leaders)]
    if _gaussian_root(distinct) is None and _hidden_sign(distinct) is None:
        distinct = _nearest(distinct)
    attained = distinct[np.ix_(groups.members, groups.members)]
    return attained * np.outer(groups.polarity, groups.polarity)


class SignGroups(NamedTuple):
    """Positions that share one Rademacher sign: s_l = polarity_l · sign[members_l]."""

    leaders: NDArray[np.intp]  # the first position of each group
    members: NDArray[np.intp]  # the group of each position
    polarity: NDArray[np.int8]  # +1 or −1: its sign beside the leader's


def sign_groups(correlation: NDArray[np.float64]) -> SignGroups | None:
    """Return which positions share a sign, or None where independent signs are not enough.

    Examples
    --------
    >>> from attnlaw import prefix_correlation
    >>> sign_groups(prefix_correlation(5, prefix=3)).members
    array([0, 0, 0, 1, 2])
    """
    R = np.asarray(correlation, dtype=np.float64)
    if len(R) <= MOST_REMEMBERED:
        return _remembered_groups(R.tobytes(), len(R))
    return _sign_groups(R)


@lru_cache(maxsize=8)
def _remembered_groups(content: bytes, length: int) -> SignGroups | None:
    """Do as `sign_groups`, once for all trials of a model."""
    return _sign_groups(np.frombuffer(content).reshape(length, length))


def _sign_groups(R: NDArray[np.float64]) -> SignGroups | None:
    groups = _groups(R)
    distinct = R[np.ix_(groups.leaders, groups.leaders)]
    return None if np.abs(distinct - np.eye(len(distinct))).max() > ROUNDING else groups


def _groups(R: NDArray[np.float64]) -> SignGroups:
    first = np.argmax(np.abs(R) > 1 - ROUNDING, axis=1)
    first = first[first]  # rounding may leave a chain l → l' → leader
    leaders, members = np.unique(first, return_inverse=True)
    polarity = np.sign(R[np.arange(len(R)), first]).astype(np.int8)
    return SignGroups(leaders, members, polarity)


def _sample_distinct(R: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw signs when no two positions share one."""
    signs = _sign(rng.integers(2, size=(n, len(R)), dtype=np.int8) == 0)
    linked = np.abs(R - np.diag(np.diag(R))).max(axis=1) > ROUNDING
    if not linked.any():
        return signs
    R = R[np.ix_(linked, linked)]
    root = _gaussian_root(R)
    if root is not None:
        signs[:, linked] = _sign(rng.standard_normal((n, len(R))) @ root > 0)
        return signs
    factor = _hidden_sign(R)
    if factor is not None:
        hidden = signs[:, linked][:, :1]
        signs[:, linked] = hidden * _sign(rng.random((n, len(R))) < (1 + factor) / 2)
        return signs
    smallest = float(np.linalg.eigvalsh(np.sin(np.pi / 2 * R))[0])
    distance = float(np.abs(_nearest(R) - R).max())
    raise ValueError(
        "correlation must be one that signs of Gaussians can have, sin(πR/2) positive "
        f"semi-definite, got a smallest eigenvalue of {smallest:.3g}; "
        f"attainable_correlation(correlation) is attained and within {distance:.3g} of it."
    )


def _sign(positive: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(positive, np.int8(1), np.int8(-1))


def _gaussian_root(R: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return A with AᵀA = sin(πR/2), or None when that matrix is not PSD."""
    values, vectors = np.linalg.eigh(np.sin(np.pi / 2 * R))
    if values[0] < -ROUNDING * len(R):
        return None
    return np.asarray(np.sqrt(values.clip(min=0))[:, None] * vectors.T)


def _hidden_sign(R: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return f with |f| ≤ 1 and R = f fᵀ off the diagonal, or None when there is none."""
    off = R - np.diag(np.diag(R))
    i, j = np.unravel_index(np.argmax(np.abs(off)), R.shape)
    k = int(np.argmax(np.abs(off[i] * off[j])))
    if off[i, k] * off[j, k] == 0 or off[i, j] * off[i, k] / off[j, k] < 0:
        return None
    f = np.empty(len(R))
    f[i] = np.sqrt(off[i, j] * off[i, k] / off[j, k])
    f[np.arange(len(R)) != i] = np.delete(off[i], i) / f[i]
    product = np.outer(f, f)
    np.fill_diagonal(product, 0)
    if np.abs(product - off).max() > ROUNDING or np.abs(f).max() > 1:
        return None
    return f


def _nearest(R: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of signs when sin(πR/2) is clipped to be PSD."""
    values, vectors = np.linalg.eigh(np.sin(np.pi / 2 * R))
    clipped = (vectors * values.clip(min=0)) @ vectors.T
    scale = 1 / np.sqrt(np.diag(clipped))
    near = 2 / np.pi * np.arcsin((scale[:, None] * clipped * scale).clip(-1, 1))
    np.fill_diagonal(near, 1)
    return np.asarray(near)
