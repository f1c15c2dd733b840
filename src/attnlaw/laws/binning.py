"""How far a sample is from a law."""

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import invalid_argument, real_array
from attnlaw.laws.law import Law

__all__ = ["ks_distance"]


def ks_distance(sample: ArrayLike, law: Law) -> float:
    """Return the Kolmogorov–Smirnov distance of a sample to a law.

    Parameters
    ----------
    sample : array
        Eigenvalues, or any numbers; its shape does not matter.
    law : Law
        Values within rounding of one of its atoms count as lying on it.

    Returns
    -------
    float
        The largest distance over x of F_n(x), the share of the sample up to x, to F(x).

    Notes
    -----
    Eigenvalues are rigid: the distance of the d eigenvalues of one matrix to their limit is of
    order 1/d, not d^(−1/2) as for independent values.

    Examples
    --------
    >>> import attnlaw as al
    >>> law = al.MarchenkoPastur(0.5)
    >>> round(ks_distance(law.quantile([0.25, 0.75]), law), 12)
    0.25
    """
    x = np.sort(real_array("sample", sample).ravel())
    if not x.size:
        raise invalid_argument("sample", "at least one number", sample)
    for place in law.atom.location:
        x[np.abs(x - place) <= 1e-12 * max(1.0, abs(place), np.abs(x).max())] = place
    values, counts = np.unique(x, return_counts=True)
    upto = np.cumsum(counts) / x.size
    jumps = (values[:, None] == law.atom.location) @ law.atom.mass
    F = law.cdf(values)
    after, before = np.abs(upto - F), np.abs(upto - counts / x.size - (F - jumps))
    return float(max(after.max(), before.max()))
