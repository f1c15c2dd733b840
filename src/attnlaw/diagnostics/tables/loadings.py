"""Which tokens make a direction of a table, and what the direction goes along with."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Loading", "rank_correlation", "token_loading"]

Reals = NDArray[np.floating]


class Loading(NamedTuple):
    """The rows at both ends of a direction."""

    highest_tokens: tuple[str, ...]
    lowest_tokens: tuple[str, ...]
    n_effective_tokens: float  # (Σs²)²/Σs⁴ of the projections s
    order_correlation: float  # Spearman, of s with the row's number
    length_correlation: float  # Spearman, of s with the row's length


def token_loading(
    projections: Reals, squared_lengths: Reals, tokens: tuple[str, ...] | None, n_tokens: int
) -> Loading:
    """Describe a direction by the projections s of the centred rows on it.

    Rows without a word are named by their number. Of the two signs of an eigenvector the one
    with the longer tail upwards is taken.
    """
    s = np.asarray(projections, dtype=np.float64)
    s = -s if np.sum(s**3) < 0 else s
    order = np.argsort(s)

    def words(rows: NDArray[np.intp]) -> tuple[str, ...]:
        return tuple(tokens[i] if tokens and tokens[i] else f"#{i}" for i in rows)

    return Loading(
        highest_tokens=words(order[::-1][:n_tokens]),
        lowest_tokens=words(order[:n_tokens]),
        n_effective_tokens=float(np.sum(s**2) ** 2 / np.sum(s**4)),
        order_correlation=rank_correlation(s, np.arange(len(s), dtype=np.float64)),
        length_correlation=rank_correlation(s, squared_lengths),
    )


def rank_correlation(x: Reals, y: Reals) -> float:
    """Spearman's correlation of two sequences without ties worth minding.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 4.0]), np.array([1.0, 8.0, 9.0]))
    1.0
    """
    a, b = (np.argsort(np.argsort(v, kind="stable")).astype(np.float64) for v in (x, y))
    return round(float(np.corrcoef(a, b)[0, 1]), 12)
