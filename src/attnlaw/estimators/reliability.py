r"""Reliability: which principal components can be trusted, whatever the spectrum.

The variance of *new* rows along the k-th sample eigenvector u_k, q_k = u_kᵀ C u_k, is the reliable
variance of that component: its sample eigenvalue is larger because it fits the noise. Two
estimates,

    held out     eigenvectors from all folds but one, variance along them in the fold left out
    predicted    Ledoit and Péché's λ/|1 − γ − γ λ m(λ)|², m the Stieltjes transform of the sample
                 spectrum on the real axis, by Ledoit and Wolf's (2020) kernel estimate

agree where rows are independent and N is large. Derived in docs/theory/signal-components.md,
"Reliability".
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator, scalar
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.estimators.rows import (
    SampleSpectrum,
    checked_rows,
    copy_groups,
    corpus_spectrum,
    sample_spectrum,
)
from attnlaw.results import Record

__all__ = ["ReliableComponents", "predicted_variances", "reliable_components"]

SMOOTHED_OVER = 5  # neighbouring components
CERTAIN = 2.5  # standard errors
FLOOR_SHARE = 0.1  # of the components, the last, whose held-out variance is the floor


@dataclass(frozen=True, kw_only=True)
class ReliableComponents(Record):
    """Principal components with the variance that new rows have along them."""

    components: Floats  # (n, d): unit eigenvectors, the `n_reliable` first are reliable
    mean: Floats  # x̄ (d,)
    n_reliable: int  # leading components whose held-out variance is well above the floor
    eigenvalues: Floats  # λ of the sample covariance, falling, without those that are zero
    held_out_variances: Floats  # q̂_k, smoothed and not rising; one fold fewer than `eigenvalues`
    held_out_errors: Floats  # standard errors, between folds
    predicted_variances: Floats  # q_k by Ledoit and Péché: the optimally shrunken eigenvalues
    predicted_errors: Floats  # standard errors, by leaving out each fold
    floor: float  # held-out variance of a direction that says nothing
    n_rows: int  # distinct rows: copies and near-copies share a fold

    def n_with_share(self, share: float) -> int:
        """Return how many components hold this share of the reliable held-out variance."""
        if self.n_reliable == 0:
            return 0
        total = np.cumsum(self.held_out_variances[: self.n_reliable])
        return int(np.searchsorted(total, share * total[-1] * (1 - 1e-12)) + 1)


def reliable_components(
    pooled: Any,
    *,
    threshold: float = 1.5,
    n_folds: int = 5,
    min_components: int = 0,
    centred: bool = True,
    rng: Random = 0,
) -> ReliableComponents:
    """Find the principal components whose variance is reproduced by held-out rows.

    Parameters
    ----------
    pooled : array of shape (N, d), or CorpusStatistics
        Pooled embeddings; or the statistics of a corpus, whose two halves are then the folds, with
        all sequences treated as different.
    threshold : float
        Smallest held-out variance of a reliable component, relative to the floor; above 1.
    n_folds : int
        Number of folds, at least 2. Copies and near-copies of a row are in the same fold.
    min_components : int
        Smallest number of components returned, reliable or not.
    centred : bool
        Subtract the mean of the rows.
    rng : Generator, int or None
        Source of the folds.

    Returns
    -------
    ReliableComponents

    Notes
    -----
    q̂_k is averaged over the folds, replaced by the median of five neighbouring components, and
    made non-increasing by its running minimum. The floor is the held-out variance in a dimension
    that the training rows do not span, or, if they span all, the mean q̂ of the last tenth of the
    components. Reliable are the leading components with q̂_k ≥ threshold · floor that exceed the
    floor by 2.5 standard errors, q̂_k √(2/N) and floor √(2/Nm) for a floor of m components.

    This tests whether the variance is reproducible, not whether it is a signal: the leading
    directions of a token table are reproducible, too (for signals, see `signal_components`).

    Examples
    --------
    Four of fifty directions have more variance than the others:

    >>> rng = np.random.default_rng(0)
    >>> scales = np.where(np.arange(50) < 4, 3.0, 1.0)
    >>> found = reliable_components(rng.standard_normal((200, 50)) * scales)
    >>> found.n_reliable
    4
    >>> bool(found.held_out_variances[0] < found.eigenvalues[0])
    True
    """
    threshold = scalar("threshold", threshold, above=1)
    n_folds = count("n_folds", n_folds, at_least=2)
    least = count("min_components", min_components, at_least=0)
    if isinstance(pooled, CorpusStatistics):
        return _of_corpus(pooled, threshold, least, centred)
    X = checked_rows(pooled)
    generator = random_generator(rng)
    spectrum = sample_spectrum(X, centred=centred)
    if not spectrum.eigenvalues.any():
        raise invalid_argument("pooled", "such that some column is not constant", X)
    groups = copy_groups(X)
    n_rows = int(groups.max()) + 1
    rank = max(1, min(n_rows - centred, len(spectrum.eigenvalues)))
    values = spectrum.eigenvalues[:rank]
    n_folds = min(n_folds, n_rows)
    fold_of = (generator.permutation(n_rows) % n_folds)[groups]
    n_reliable, q = 0, _Folds(np.zeros(0), np.zeros(0), np.zeros(0), 0.0)
    if n_rows >= 4:
        q = _held_out(X[:, spectrum.varying], fold_of, n_folds, centred=centred)
        n_reliable = _n_reliable(q, threshold, n_rows)
    return _assembled(spectrum, values, q, n_reliable, least, n_rows, centred)


def _n_reliable(q: "_Folds", threshold: float, n_rows: int) -> int:
    """Return how many leading components are clearly above the floor."""
    n_floor = max(1, round(FLOOR_SHARE * len(q.variances)))
    error = np.sqrt(2 / n_rows * (q.variances**2 + q.floor**2 / n_floor))
    above = q.variances >= threshold * q.floor
    above &= q.variances - q.floor >= CERTAIN * error
    return int(np.argmin(np.append(above, False)))


def _assembled(
    spectrum: SampleSpectrum,
    values: Floats,
    q: "_Folds",
    n_reliable: int,
    least: int,
    n_rows: int,
    centred: bool,
) -> ReliableComponents:
    predicted = predicted_variances(values, len(spectrum.eigenvalues), max(n_rows - centred, 2))
    errors = np.full(len(predicted), np.nan)
    errors[: len(q.prediction_errors)] = q.prediction_errors[: len(errors)]
    n_kept = min(max(n_reliable, least), n_rows, len(spectrum.mean))
    return ReliableComponents(
        components=spectrum.vectors(n_kept),
        mean=spectrum.mean,
        n_reliable=n_reliable,
        eigenvalues=values,
        held_out_variances=q.variances,
        held_out_errors=q.errors,
        predicted_variances=predicted,
        predicted_errors=errors,
        floor=q.floor,
        n_rows=n_rows,
    )


def _of_corpus(
    found: CorpusStatistics, threshold: float, least: int, centred: bool
) -> ReliableComponents:
    """Return the reliable components of a corpus, by its halves.

    The variance of one half along eigenvectors u of the other is uᵀ(S + δδᵀ)u, with S its
    covariance and δ the difference of their means, as computed from rows.
    """
    spectrum = corpus_spectrum(found, centred=centred)
    kept, n_rows = spectrum.varying, found.n_sequences
    rank = max(1, min(n_rows - centred, len(spectrum.eigenvalues)))
    pair = found.halves[0]
    each, predictions, outside = [], [], []
    for train, held in (pair, pair[::-1]):
        S, other = (half.covariance[np.ix_(kept, kept)] for half in (train, held))
        if not centred:
            S = S + np.outer(train.mean[kept], train.mean[kept])
        delta = (held.mean - train.mean * centred)[kept]
        other = other + np.outer(delta, delta)
        values, vectors = np.linalg.eigh(S)
        values, U = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        n = train.n_samples - centred
        k = max(1, min(n, len(values)))
        q = np.einsum("dk,de,ek->k", U[:, :k], other, U[:, :k], optimize=True)
        each.append(q)
        predictions.append(predicted_variances(values[:k], len(values), max(n, 2)))
        if k < len(values):
            outside.append(float((np.trace(other) - q.sum()) / (len(values) - k)))
    q_folds = _averaged(each, predictions, outside)
    n_reliable = _n_reliable(q_folds, threshold, n_rows)
    values = spectrum.eigenvalues[:rank]
    return _assembled(spectrum, values, q_folds, n_reliable, least, n_rows, centred)


class _Folds(NamedTuple):
    variances: Floats  # q̂
    errors: Floats  # of q̂
    prediction_errors: Floats
    floor: float


def _held_out(X: NDArray[Any], fold_of: NDArray[Any], n_folds: int, *, centred: bool) -> _Folds:
    d = X.shape[1]
    each: list[Floats] = []
    predictions: list[Floats] = []
    outside: list[float] = []
    for fold in range(n_folds):
        training, held = X[fold_of != fold], X[fold_of == fold].astype(np.float64)
        spectrum = sample_spectrum(training, centred=centred)
        rank = min(len(training) - centred, len(spectrum.eigenvalues))
        held = held - spectrum.mean if centred else held
        q = np.mean((held @ spectrum.vectors(rank).T) ** 2, axis=0)
        each.append(q)
        values, n = spectrum.eigenvalues, len(training) - centred
        predictions.append(predicted_variances(values[:rank], len(values), n))
        if rank < d:
            outside.append(float((np.sum(held**2) / len(held) - q.sum()) / (d - rank)))
    return _averaged(each, predictions, outside)


def _averaged(each: list[Floats], predictions: list[Floats], outside: list[float]) -> _Folds:
    """Return the averages over the folds for each component."""
    n_folds, n = len(each), min(map(len, each))
    table = np.array([q[:n] for q in each])
    mean = _smoothed(table.mean(axis=0))
    last = max(1, round(FLOOR_SHARE * n))
    floor = float(np.mean(outside)) if outside else float(mean[-last:].mean())
    moved = np.array([p[:n] for p in predictions])
    jackknife = np.sqrt(n_folds - 1) * moved.std(axis=0)
    return _Folds(mean, table.std(axis=0, ddof=1) / np.sqrt(n_folds), jackknife, max(floor, 0.0))


def _smoothed(q: Floats) -> Floats:
    """Return medians over five neighbours, fewer at the ends, kept from rising."""
    k = np.arange(len(q))
    reach = np.minimum(SMOOTHED_OVER // 2, np.minimum(k, len(q) - 1 - k))
    medians = [np.median(q[i - r : i + r + 1]) for i, r in zip(k, reach, strict=True)]
    return np.minimum.accumulate(medians)


def predicted_variances(eigenvalues: Floats, dimension: int, n_samples: int) -> Floats:
    r"""Return the population's variances along sample eigenvectors: Ledoit and Péché's formula.

    Parameters
    ----------
    eigenvalues : array
        Those of the sample covariance that are not zero, in falling order.
    dimension : int
        d.
    n_samples : int
        N, less one if the mean was subtracted.

    Returns
    -------
    array
        In the order of the eigenvalues, made non-increasing.

    Notes
    -----
    With f the density of the n non-zero eigenvalues and 𝓗f its Hilbert transform, both estimated
    with Epanechnikov kernels of width N^{−1/3} λ (Ledoit and Wolf 2020, equations 4.2 to 4.9),

        q = λ / [(πγλf)² + (1 − γ − πγλ 𝓗f)²]   if d ≤ N,
        q = λ / (π²λ² [f² + (𝓗f)²])             if d > N.

    Examples
    --------
    White noise has variance 1 in every direction, wherever its eigenvalues are:

    >>> X = np.random.default_rng(0).standard_normal((800, 200))
    >>> values = np.linalg.eigvalsh(X.T @ X / 800)[::-1]
    >>> q = predicted_variances(values, 200, 800)
    >>> bool(values[0] > 2 and abs(q.mean() - 1) < 0.02 and q.max() < 1.3)
    True
    """
    lam = np.maximum(eigenvalues, eigenvalues[0] * 1e-12)
    h, root5 = n_samples ** (-1 / 3), np.sqrt(5)
    width = h * lam[None, :]
    x = (lam[:, None] - lam[None, :]) / width
    bump = np.maximum(1 - x**2 / 5, 0)
    density = 3 / (4 * root5) * np.mean(bump / width, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (1 - x**2 / 5) * np.log(np.abs((root5 - x) / (root5 + x)))
    logs[~np.isfinite(logs)] = 0.0  # at the ends of a kernel, where the limit is 0
    hilbert = np.mean((-0.3 * x + 3 / (4 * root5) * logs) / (np.pi * width), axis=1)
    gamma = dimension / n_samples
    if dimension <= n_samples:
        real_part = 1 - gamma - np.pi * gamma * lam * hilbert
        q = lam / ((np.pi * gamma * lam * density) ** 2 + real_part**2)
    else:
        q = lam / (np.pi**2 * lam**2 * (density**2 + hilbert**2))
    return np.minimum.accumulate(np.asarray(q))
