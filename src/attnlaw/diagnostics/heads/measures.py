"""What one attention map shows by itself: temperature, width, distances, spectrum, patterns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats

__all__ = [
    "POSITIONAL_PATTERNS",
    "Rank",
    "Scores",
    "centred_spectrum",
    "common_row",
    "mean_distance",
    "positional_shares",
    "score_rank",
    "score_spread",
    "score_statistics",
    "uniform_rows",
]

Counts = NDArray[np.int_]

POSITIONAL_PATTERNS = ("same token", "previous token", "next token", "first token", "last token")
"""Where a head may look whatever the tokens are."""

_GAP = 10.0  # ratio of singular values that sets rounding off from scores


class Scores(NamedTuple):
    """Scores read back from a map: log A by rows, up to a constant in each row."""

    inverse_temperature: float  # β: their standard deviation within rows
    zero_share: float  # of the entries inside the mask: too small for the file's digits


class Rank(NamedTuple):
    """Width of a head, by its scores."""

    rank: int | None  # number of singular values above rounding; None where they fill the space
    moment: float  # d with E s⁴ as seen: what a random head of that width has


def uniform_rows(n: int, *, causal: bool) -> Floats:
    """Count the tokens that each row may attend to: n, or 1, 2, …, n."""
    return np.arange(1.0, n + 1) if causal else np.full(n, float(n))


def centred_spectrum(attention: Floats, *, causal: bool) -> Floats:
    """Squared singular values of D^{1/2}(A − uniform), ascending; D = n, or 1 … n if causal.

    Notes
    -----
    Without a mask this is √n A_⊥ of `SelfAttention`. Under a causal mask row i has i entries
    around 1/i; its factor √i gives every row the same energy, else the first tokens would rule.

    Examples
    --------
    >>> A = np.full((4, 4), 0.25)
    >>> centred_spectrum(A, causal=False)
    array([0., 0., 0., 0.])
    """
    n = len(attention)
    support = uniform_rows(n, causal=causal)[:, None]
    Y = attention * np.sqrt(support)
    Y -= np.tri(n) / np.sqrt(support) if causal else 1 / np.sqrt(support)
    return np.asarray(np.maximum(np.linalg.eigvalsh(Y @ Y.T), 0.0))


def score_spread(attention: Floats, *, causal: bool) -> Scores:
    """Estimate the inverse temperature by the spread of log A within rows.

    Notes
    -----
    log A_ij = β s_ij − log Z_i with scores of variance 1, so β² is the variance of log A within
    rows, pooled over rows (degrees of freedom: entries minus rows). Entries that are exactly zero
    are too small for the digits they were kept in; then β is the slope of the others over the
    Gaussian quantiles of their ranks, infinite when hardly any are left.

    Examples
    --------
    >>> A = np.exp([[1.0, -1.0], [-1.0, 1.0]])
    >>> spread = score_spread(A / A.sum(axis=1, keepdims=True), causal=False)
    >>> round(spread.inverse_temperature**2, 12)      # 4 squares of 1 over 4 − 2
    2.0
    """
    n = len(attention)
    inside = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    seen = inside & (attention > 0)
    counts = seen.sum(axis=1)
    zero_share = 1 - float(seen.sum() / inside.sum())
    if zero_share:
        return Scores(_censored_spread(attention, inside.sum(axis=1), counts), zero_share)
    L = np.log(attention, out=np.zeros_like(attention), where=seen)
    L -= (L.sum(axis=1) / counts)[:, None]
    L[~seen] = 0.0
    return Scores(float(np.sqrt(np.sum(L**2) / (counts - 1).sum())), 0.0)


def _censored_spread(attention: Floats, supports: Counts, counts: Counts) -> float:
    """Spread of log A by its largest entries: slope over Gaussian quantiles, row by row."""
    from scipy.special import ndtri

    squares, weights = 0.0, 0
    for row, support, k in zip(attention, supports, counts, strict=True):
        if k < 3:
            continue
        y = np.log(np.sort(row)[-k:])
        x = ndtri((np.arange(support - k, support) + 0.625) / (support + 0.25))
        x -= x.mean()
        squares += k * float(x @ y / (x @ x)) ** 2
        weights += int(k)
    return (squares / weights) ** 0.5 if weights else np.inf


def score_rank(attention: Floats, *, causal: bool) -> Rank:
    """Estimate the width of a head: its scores have rank d_k.

    Notes
    -----
    log A = βQKᵀ/√d_k up to a constant in each row, so after centring by rows its rank is d_k, if
    there are more tokens than that; digits that were lost show as small singular values below a
    gap. Where no gap is seen, the fourth moment decides: β QKᵀ/√d_k over n rows and m columns has
    m₂/m₁² = 1 + n/m + n/d_k (P2 §3 for n = m). Under a causal mask the block of the later half of
    the rows and the earlier half of the columns is free of it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = np.exp(rng.standard_normal((40, 7)) @ rng.standard_normal((7, 40)))
    >>> score_rank(A / A.sum(axis=1, keepdims=True), causal=False).rank
    7
    """
    n = len(attention)
    A = attention[n // 2 :, : (n + 1) // 2] if causal else attention
    smallest = A[A > 0].min(initial=1.0)
    L = np.log(np.maximum(A, smallest))
    L -= L.mean(axis=1, keepdims=True)
    s = np.linalg.svd(L, compute_uv=False)
    rows, columns = L.shape
    squares = s**2
    total = float(squares.sum())
    if not total > 0:
        return Rank(None, np.inf)
    excess = rows * float(np.sum(squares**2)) / total**2 - 1 - rows / (columns - 1)
    moment = rows / excess if excess > 0 else np.inf
    full = min(rows, columns - 1)  # centring takes one away
    last = int(0.95 * full) - 2
    gaps = np.flatnonzero(s[:last] > _GAP * s[1 : last + 1]) if last > 0 else np.empty(0, int)
    if gaps.size and s[gaps[-1] + 1] < 1e-2 * s[0]:
        return Rank(int(gaps[-1]) + 1, moment)
    return Rank(None, moment)


class ScoreStatistics(NamedTuple):
    """What scores show that the softmax blurs; neither depends on the temperature."""

    singular_values: Floats  # of the scores, rows of equal weight, mean square 1, ascending
    max_row_correlation: (
        float  # −log(1 − r), r the largest correlation of two rows over what both may see
    )


def score_statistics(attention: Floats, *, causal: bool) -> ScoreStatistics | None:
    """Look at the scores behind a map; None if some are lost in weights that are zero.

    Notes
    -----
    Scores are log A, centred by rows, and divided by the square root of the number of tokens that
    a row may attend to. Rows with few such tokens (below a quarter of them) are left out of it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A = rng.dirichlet(np.ones(30), size=30)
    >>> A[7] = A[3]
    >>> score_statistics(A, causal=False).max_row_correlation > 20
    True
    """
    n = len(attention)
    support = uniform_rows(n, causal=causal)[:, None]
    inside = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    if (attention[inside] <= 0).any():
        return None
    L = np.log(attention, out=np.zeros_like(attention), where=inside)
    L -= np.where(inside, L.sum(axis=1, keepdims=True) / support, 0.0)
    if causal:  # over the tokens of the earlier row of a pair, which is centred there
        squares = np.tril(np.cumsum(L**2, axis=1) - np.cumsum(L, axis=1) ** 2 / support.T)
        norms = np.sqrt(np.maximum(squares, 0.0))  # [later, earlier]
        scale = norms * np.diag(norms)
    else:
        lengths = np.sqrt(np.sum(L**2, axis=1))
        scale = lengths[:, None] * lengths
    first = n // 4 if causal else 0
    r = np.tril(L @ L.T, k=-1)[first:, first:] / np.maximum(scale[first:, first:], 1e-300)
    L /= np.sqrt(support)
    values = np.maximum(np.linalg.eigvalsh(L @ L.T), 0.0)
    values /= max(float(values.mean()), 1e-300)
    return ScoreStatistics(np.sqrt(values), float(-np.log(max(1 - r.max(), 1e-12))))


def common_row(attention: Floats, *, causal: bool) -> Floats:
    """Return the one distribution over tokens that fits all rows best.

    Notes
    -----
    The a that maximises Σ_ij A_ij log(a_j/Z_i), where Z_i sums a over what row i may attend to:
    the mean row without a mask; with it the fixed point a_j = Σ_i A_ij / Σ_{i≥j} 1/Z_i.

    Examples
    --------
    >>> common_row(np.tril(np.ones((3, 3))) / [[1], [2], [3]], causal=True).round(6)
    array([0.333333, 0.333333, 0.333333])
    """
    columns = attention.sum(axis=0)
    a = columns / columns.sum()
    if not causal:
        return np.asarray(a)
    for _ in range(200):
        Z = np.maximum(np.cumsum(a), 1e-300)
        new = columns / np.cumsum((1 / Z)[::-1])[::-1]
        new /= new.sum()
        step, a = np.abs(new - a).sum(), new
        if step < 1e-9:
            break
    return np.asarray(a)


def mean_distance(attention: Floats, row: Floats, *, causal: bool) -> float:
    """Mean total variation between the rows and one distribution, restricted to their mask."""
    if not causal:
        return float(0.5 * np.abs(attention - row).sum(axis=1).mean())
    Z = np.maximum(np.cumsum(row), 1e-300)
    return float(0.5 * np.abs(attention - np.tril(row / Z[:, None])).sum(axis=1).mean())


def positional_shares(attention: Floats, *, causal: bool) -> tuple[Floats, Floats]:
    """Share of attention at each positional pattern, and the same over uniform attention's.

    Examples
    --------
    >>> shares, ratios = positional_shares(np.eye(10), causal=False)
    >>> shares.round(3), ratios.round(3)
    (array([1. , 0. , 0. , 0.1, 0.1]), array([10.,  0.,  0.,  1.,  1.]))
    """
    n = len(attention)
    support = uniform_rows(n, causal=causal)
    rows = np.arange(n)
    shares, ratios = [], []
    for i, j in (
        (rows, rows),
        (rows[1:], rows[:-1]),
        (rows[:-1], rows[1:]),
        (rows, np.zeros(n, int)),
        (rows, np.full(n, n - 1)),
    ):
        weights = attention[i, j]
        shares.append(float(weights.mean()))
        if causal and (j > i).any():  # later tokens are masked
            ratios.append(0.0)
        else:
            ratios.append(float((support[i] * weights).mean()))
    return np.array(shares), np.array(ratios)
