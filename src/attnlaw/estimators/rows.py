"""Rows of pooled embeddings as a sample: their lengths, centre, spectrum, and near-copies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.special import betainc

from attnlaw._checks import (
    Floats,
    invalid_argument,
    look_at_part,
    real_array,
    refuse_extremes,
    refuse_masked,
)
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.data.covariance import CovarianceAccumulator
from attnlaw.data.user_arrays import converted

__all__ = [
    "SampleSpectrum",
    "before_scaling",
    "checked_rows",
    "copy_groups",
    "corpus_spectrum",
    "equalised",
    "heavy_tokens",
    "in_doubt",
    "mean_and_varying",
    "norm_dispersion",
    "row_blocks",
    "row_lengths",
    "sample_spectrum",
]

BLOCK_NUMBERS = 2**22  # of the data worked on at a time
MEDIAN_ROWS = 4000  # from which the spatial median is computed
SHORT_ROW = 0.5  # of the median norm: shorter rows say more of the centre's error than of C
MEDIAN_STEPS = 20  # of Weiszfeld's iteration
SKEWED = 0.3  # skewness of scores from which a single token is suspected
UNEQUAL_COLUMNS = 3.0  # standard deviations from which columns are taken to differ in variance


def checked_rows(pooled: Any) -> NDArray[Any]:
    """Return rows of finite float32 or float64 numbers."""
    refuse_masked("pooled", pooled)
    X = np.asarray(converted("pooled", pooled))
    if X.ndim != 2 or X.dtype.kind not in "fiu" or not X.size:
        raise invalid_argument("pooled", "an array of real numbers with 2 axes", X)
    look_at_part("pooled", X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    largest = np.max([np.abs(block).max(initial=0) for block in row_blocks(X)], initial=0)
    if not np.isfinite(largest):
        raise invalid_argument("pooled", "finite", "NaN or infinity")
    refuse_extremes("pooled", largest)
    return X


def row_lengths(lengths: ArrayLike | None, tokens: Any, n_rows: int) -> Floats | None:
    """Return the number of tokens in each row, from either argument; None if all are equal."""
    if lengths is None and tokens is None:
        return None
    if lengths is None:
        found = real_array("tokens", np.sum(tokens >= 0, axis=1))
    else:
        found = real_array("lengths", lengths, ndim=1)
    if found.shape != (n_rows,) or found.min(initial=1) <= 0:
        raise invalid_argument("lengths", f"of shape ({n_rows},) and above 0", found)
    return found


@dataclass(frozen=True)
class SampleSpectrum:
    """Spectrum of S = (1/N) Σ (x−x̄)(x−x̄)ᵀ, or of (1/N) Σ x xᵀ if not centred."""

    eigenvalues: Floats  # (d,) falling, zeros included
    mean: Floats  # x̄ (d,), whether subtracted or not
    varying: NDArray[np.bool_]  # (d,): columns that are not constant
    matrix: Floats  # S over the varying columns; or XXᵀ/N if there are fewer rows
    rows: Any  # X over the varying columns, centred; None if S was formed

    def vectors(self, n: int) -> Floats:
        """Return the n leading eigenvectors of S as rows of an array (n, d)."""
        full = np.zeros((n, len(self.mean)))
        if n == 0:
            return full
        k = len(self.matrix)
        _, U = eigh(self.matrix, subset_by_index=[max(k - n, 0), k - 1])
        U = U[:, ::-1]
        if self.rows is not None:
            U = self.rows.T @ U
            U = U / np.maximum(np.linalg.norm(U, axis=0), np.finfo(float).tiny)
        found = U.T
        largest = np.argmax(np.abs(found), axis=1)
        # The largest entry of each vector is positive, so that signs are reproducible.
        found = found * np.sign(found[np.arange(len(found)), largest])[:, None]
        full[: len(found), self.varying] = found
        return full


def sample_spectrum(rows: NDArray[Any], *, centred: bool) -> SampleSpectrum:
    """Return the spectrum of the covariance of rows (n, d), read block by block.

    Constant columns hold no noise; they are left out, and `eigenvalues` is shorter by their
    number.
    """
    n = len(rows)
    mean, varying = mean_and_varying(rows)
    if not centred:
        varying = varying | (mean != 0)
    kept = int(varying.sum())
    if n < kept:
        X = rows[:, varying].astype(np.float64)
        X -= mean[varying] if centred else 0.0
        G = X @ X.T / n
        values = np.concatenate([np.linalg.eigvalsh(G), np.zeros(kept - n)])
        return SampleSpectrum(_falling(values), mean, varying, G, X)
    accumulator = CovarianceAccumulator(max(kept, 1), np.float64)
    for block in row_blocks(rows):
        accumulator.add(block[:, varying] if kept else block[:, :1])
    S = accumulator.result(centred=centred).covariance
    return SampleSpectrum(_falling(np.linalg.eigvalsh(S)[:kept]), mean, varying, S, None)


def corpus_spectrum(found: CorpusStatistics, *, centred: bool) -> SampleSpectrum:
    """Return the spectrum of pooled sequences from the sums of a pass over a corpus."""
    mean, S = found.mean, found.covariance
    S = S if centred else S + np.outer(mean, mean)
    variances = np.diag(S)
    varying = variances > 1e-12 * max(float(variances.max()), np.finfo(float).tiny)
    if not varying.any():
        raise invalid_argument("pooled", "such that some column is not constant", S)
    S = S[np.ix_(varying, varying)]
    return SampleSpectrum(_falling(np.linalg.eigvalsh(S)), mean, varying, S, None)


def heavy_tokens(scores: Floats, tokens: Any) -> tuple[list[int], float]:
    """Return the few tokens whose presence explains a component best, and how much of it."""
    ids = np.asarray(tokens)
    present = ids >= 0
    used, places = np.unique(ids[present], return_inverse=True)
    rows = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)[present]
    pairs = np.unique(rows * len(used) + places)  # presence, not count
    rows, places = pairs // len(used), pairs % len(used)
    share = np.bincount(places, minlength=len(used)) / len(ids)
    total = np.bincount(places, weights=scores[rows], minlength=len(used)) / len(ids)
    covariance = total - share * scores.mean()
    spread = share * (1 - share) * scores.var()
    with np.errstate(invalid="ignore", divide="ignore"):
        explained = np.where(spread > 0, covariance**2 / spread, 0.0)
    best = np.argsort(-explained)[:5]
    best = best[explained[best] > 0.05]
    if not len(best):
        return [], 0.0
    design = np.zeros((len(ids), len(best)))
    for column, token in enumerate(best):
        design[rows[places == token], column] = 1
    design -= design.mean(axis=0)
    fit = design @ np.linalg.lstsq(design, scores - scores.mean(), rcond=None)[0]
    return used[best].tolist(), float(fit.var() / scores.var())


def mean_and_varying(rows: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the mean of the rows, and which columns vary by more than rounding."""
    mean = np.zeros(rows.shape[1])
    for block in row_blocks(rows):
        mean += block.sum(axis=0, dtype=np.float64)
    mean /= len(rows)
    spread = np.zeros(rows.shape[1])
    for block in row_blocks(rows):
        np.maximum(spread, np.abs(block - mean).max(axis=0), out=spread)
    return mean, spread > 1e-7 * np.maximum(np.abs(mean), np.finfo(float).tiny)


def row_blocks(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the rows a few at a time."""
    size = max(1, BLOCK_NUMBERS // max(rows.shape[1], 1))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def equalised(
    rows: NDArray[Any],
    *,
    centred: bool,
    lengths: Floats | None = None,
    components: Floats | None = None,
) -> tuple[NDArray[Any], Floats]:
    """Return rows scaled to the same variance about their centre, and that centre.

    Parameters
    ----------
    rows : array of shape (n, d)
    centred : bool
        Whether the centre is the rows' own; the origin if not.
    lengths : array of shape (n,), optional
        Number L of tokens averaged in each row, whose variance is proportional to 1/L. By default
        every row is scaled to the same norm about the spatial median, which needs no moments of
        the norms; rows below half the median norm are scaled as those of half that norm. In high
        dimension the directions of the rows retain the shape of the covariance.
    components : array of shape (k, d), optional
        Unit vectors that are excluded from the norms of rows: a component that dominates the
        variance would otherwise scale the noise by its scores.

    Returns
    -------
    scaled : array of shape (n, d)
        Of the mean squared norm that the rows have about the centre.
    centre : array of shape (d,)
    """
    n, d = rows.shape
    centre = np.zeros(d)
    if centred and lengths is None:
        centre = spatial_median(rows)
    elif centred and lengths is not None:
        for block, weight in zip(row_blocks(rows), row_blocks(lengths[:, None]), strict=False):
            centre += (block * weight).sum(axis=0)
        centre /= lengths.sum()
    along = np.zeros((0, d)) if components is None else components
    squares = np.concatenate([_residual_squares(b - centre, along) for b in row_blocks(rows)])
    tiny = np.finfo(float).tiny
    if lengths is None:
        norms = np.sqrt(squares)
        factors = 1 / np.maximum(norms, max(SHORT_ROW * float(np.median(norms)), tiny))
    else:
        factors = np.sqrt(lengths)
    factors *= np.sqrt(squares.sum() / max(float(np.sum(squares * factors**2)), tiny))
    scaled = np.empty((n, d), dtype=rows.dtype)
    np.subtract(rows, centre, out=scaled, casting="same_kind")
    scaled *= factors[:, None].astype(rows.dtype)
    return scaled, centre


def _residual_squares(block: NDArray[Any], components: Floats) -> Floats:
    """Return squared norms of rows orthogonally to the components."""
    total = np.sum(block**2, axis=1, dtype=np.float64)
    return np.asarray(np.maximum(total - np.sum((block @ components.T) ** 2, axis=1), 0.0))


def norm_dispersion(rows: NDArray[Any], centre: Floats) -> float:
    """Return the variance of squared norms over that of Gaussian rows, 2 tr C²/(tr C)².

    tr C²/(tr C)² is the mean of cos² over pairs of different rows.
    """
    few = rows[:: -(-len(rows) // 1000)].astype(np.float64) - centre
    squares = np.sum(few**2, axis=1)
    if len(few) < 30 or not squares.all():
        return 1.0
    products = few @ few.T
    cosines = products**2 / np.outer(squares, squares)
    n = len(few)
    expected = 2 * float(np.sum(cosines) - n) / (n * (n - 1))
    return float(squares.var() / squares.mean() ** 2 / expected)


def in_doubt(rows: NDArray[Any], scores: Floats, vocab_ratio: float) -> NDArray[np.bool_]:
    """Return which components may be a single long token, or a column wider than the others.

    Parameters
    ----------
    rows : array of shape (n, d)
    scores : array of shape (n, k)
        Of the rows along the components, of mean 0 and variance 1.
    vocab_ratio : float
        δ = d/V.

    Notes
    -----
    A token in a share p of the rows, with a part f of a component's variance, gives its scores the
    skewness f^{3/2} (1−2p)/√(p(1−p)); classes of similar size give none.

    Variances of d columns of Gaussian tokens have the relative variance 2/N + 2/V. Theirs is
    measured by the quartiles, which a signal in a few columns does not move; its relative
    standard deviation is then 2.33/√d.
    """
    n, d = rows.shape
    variances = np.asarray(rows.var(axis=0), dtype=np.float64)
    low, middle, high = np.quantile(variances, [0.25, 0.5, 0.75])
    spread = ((high - low) / (1.349 * max(middle, np.finfo(float).tiny))) ** 2
    expected = 2 / n + 2 * vocab_ratio / d
    unequal = spread > expected * (1 + UNEQUAL_COLUMNS * 2.33 / np.sqrt(d))
    return np.asarray((np.abs(np.mean(scores**3, axis=0)) > SKEWED) | unequal)


def before_scaling(values: Floats, n_samples: int) -> Floats:
    """Return approximate eigenvalues of Gaussian rows before they are scaled to one norm.

    Scaling lowers the variance t along a direction by the factor 1 − 2(t − t̄²)/d, in units of the
    mean variance, because rows that are long in that direction are long. t is taken half from the
    sample eigenvalue and half from its linear shrinkage, which fits white noise and tokens alike.
    """
    d, mean = len(values), values.mean()
    x = values / mean
    second = float(np.mean(x**2))
    of_population = max(second - d / n_samples, 1.0)
    shrinkage = (of_population - 1) / max(second - 1, np.finfo(float).tiny)
    restored = x * np.maximum(1 + (1 + shrinkage) * (x - of_population) / d, 0.1)
    return np.asarray(restored * (mean / restored.mean()))


def spatial_median(rows: NDArray[Any]) -> Floats:
    """Return the point with the least sum of distances to the rows: Weiszfeld's iteration."""
    X = rows[:: -(-len(rows) // MEDIAN_ROWS)].astype(np.float64)
    centre = np.asarray(X.mean(axis=0))
    for _ in range(MEDIAN_STEPS):
        distances = np.linalg.norm(X - centre, axis=1)
        if not distances.any():
            break
        near = 1 / np.maximum(distances, 1e-9 * float(distances.mean()))
        centre = near @ X / near.sum()
    return np.asarray(centre)


def _falling(values: NDArray[Any]) -> Floats:
    return np.maximum(np.sort(np.asarray(values, dtype=np.float64))[::-1], 0.0)


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
    threshold = _near_copy_cosine(X) if n >= 3 and X.shape[1] >= 2 else None
    if threshold is None:  # exact copies only
        return np.unique(rows, axis=0, return_inverse=True)[1].ravel().astype(np.intp)
    pairs = _all_pairs(X, threshold) if n <= ALL_PAIRS else _similar_pairs(X, threshold)
    groups = np.arange(n)
    for first, second in pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]:
        if groups[first] == first and groups[second] == second:
            groups[second] = first
    return np.unique(groups, return_inverse=True)[1].astype(np.intp)


def _near_copy_cosine(X: NDArray[np.float32]) -> float | None:
    """Return the cosine that independent unit rows do not reach; None if they reach any."""
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
            found.append(np.sort(np.stack([first[near], second[near]], axis=1), axis=1))
    return np.unique(np.concatenate(found), axis=0)
