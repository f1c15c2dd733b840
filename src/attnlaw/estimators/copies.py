"""Rows that are copies, or near-copies, of others: they are no samples of their own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from attnlaw.estimators.rows import mean_and_varying, spatial_median

__all__ = ["copy_groups"]

NEAR_COPY = 0.9  # least cosine of near-copies
CHANCE_PAIRS = 0.01  # near-copies expected among independent rows
ALL_PAIRS = 4096  # rows up to which every pair is compared


def copy_groups(rows: NDArray[Any]) -> NDArray[np.intp]:
    """Return the number of the group of copies and near-copies that each row belongs to.

    Rows are near-copies if, after centring, their cosine is at least 0.9, and so large that among
    independent rows of the same effective dimension (tr C)²/tr C² not even one pair in a hundred
    samples would reach it. A group is a row and the near-copies of that row. Beyond 4096 rows
    only rows whose random projections have similar signs are compared, which finds 99 % of the
    pairs with a cosine of 0.95.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((6, 50))
    >>> copy_groups(np.concatenate([X, X[2:4] + 0.01]))
    array([0, 1, 2, 3, 4, 5, 2, 3])
    """
    n = len(rows)
    _, varying = mean_and_varying(rows)
    centre = spatial_median(rows)[varying]  # the mean may lie far outside of most rows
    X = np.empty((n, int(varying.sum())), dtype=np.float32)
    for start in range(0, n, 512):
        part = rows[start : start + 512, varying] - centre
        norms = np.sqrt(np.sum(part**2, axis=1, keepdims=True))
        X[start : start + 512] = part / np.maximum(norms, np.finfo(np.float32).tiny)
    if n < 3 or X.shape[1] < 2:
        return _exact_groups(rows)
    threshold = _near_copy_cosine(X)
    if threshold is None:
        return _exact_groups(rows)
    pairs = _all_pairs(X, threshold) if n <= ALL_PAIRS else _similar_pairs(X, threshold)
    groups = np.arange(n)
    for first, second in pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]:
        if groups[first] == first and groups[second] == second:
            groups[second] = first
    return np.unique(groups, return_inverse=True)[1].astype(np.intp)


def _exact_groups(rows: NDArray[Any]) -> NDArray[np.intp]:
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel().astype(np.intp)


def _near_copy_cosine(X: NDArray[np.float32]) -> float | None:
    """Return the cosine that independent unit rows never reach; None if they reach any."""
    few = X[:: -(-len(X) // 500)].astype(np.float64)
    n = len(few)
    products = few @ few.T
    # E cos² = tr C²/(tr C)² over different rows
    mean_square = float((np.sum(products**2) - n) / max(n * (n - 1), 1))
    dimension = max(1 / max(mean_square, 1 / X.shape[1]), 1.5)
    cosines = np.linspace(NEAR_COPY, 1 - 1e-6, 2000)
    n_pairs = len(X) * (len(X) - 1) / 2
    expected = n_pairs * betainc((dimension - 1) / 2, 0.5, 1 - cosines**2) / 2
    rare = np.flatnonzero(expected <= CHANCE_PAIRS)
    return float(cosines[rare[0]]) if len(rare) else None


def _all_pairs(X: NDArray[np.float32], threshold: float) -> NDArray[np.intp]:
    found = []
    for start in range(0, len(X), 256):
        products = X[start : start + 256] @ X[start:].T
        first, second = np.nonzero(np.triu(products >= threshold, 1))
        found.append(np.stack([first + start, second + start], axis=1))
    return np.concatenate(found)


def _similar_pairs(X: NDArray[np.float32], threshold: float) -> NDArray[np.intp]:
    """Return near-copies that are neighbours in the order of their projections' signs."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(16):
        signs = X @ rng.standard_normal((X.shape[1], 48), dtype=np.float32) > 0
        order = np.argsort(signs @ 2 ** np.arange(48, dtype=np.int64), kind="stable")
        for step in (1, 2, 3):
            first, second = order[:-step], order[step:]
            # 7 of 48 signs differ in the mean at a cosine of 0.9, and 24 by chance
            alike = np.sum(signs[first] != signs[second], axis=1) <= 15
            first, second = first[alike], second[alike]
            near = np.einsum("ij,ij->i", X[first], X[second]) >= threshold
            pairs = np.stack([first[near], second[near]], axis=1)
            found.append(np.sort(pairs, axis=1))
    return np.unique(np.concatenate(found), axis=0)
