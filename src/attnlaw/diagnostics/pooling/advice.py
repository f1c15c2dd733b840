"""Which pooling to use on your own sequences, how sure that is, and what more data would bring."""

from collections.abc import Callable, Iterator
from itertools import count as count_from
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator
from attnlaw.data.sequences import Sequences, as_sequences
from attnlaw.diagnostics.pooling.candidates import MULTIPLES, PoolingAdvice, PoolingCandidate
from attnlaw.diagnostics.pooling.classification import Folds
from attnlaw.diagnostics.pooling.coherence import Coherence, Spiked, measure_coherence
from attnlaw.diagnostics.pooling.labelled import LabelledStudy
from attnlaw.diagnostics.pooling.moments import (
    Basis,
    covariance,
    independent_noise,
    position_means,
)
from attnlaw.diagnostics.pooling.poolings import FIXED, pool_all, pooling_weights
from attnlaw.diagnostics.pooling.threads import Run, side_by_side
from attnlaw.diagnostics.pooling.verdicts import (
    best_pooling,
    cut_note,
    pooling_notes,
    pooling_verdict,
)
from attnlaw.diagnostics.tables.noise import rank_groups
from attnlaw.estimators.outliers import outlier_test

__all__ = ["advise_pooling"]

Choice = str | Floats  # a pooling, as `pooling_weights` takes it

LEARNED_FROM = 3000  # sequences from which weights are learned without labels
JUDGED_ON = 50_000  # sequences that are pooled and classified
MOST_OUTLIERS = 50  # that are counted
N_SEARCHED = 9  # searches: three to prepare, and each with signs and without
TRAINED, LEARNED, JUDGED = 0.15, 0.6, 0.8  # share of the work that is done by then, about


def advise_pooling(
    sequences: Any,
    *,
    table: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
    n_folds: int = 4,
    max_length: int = 512,
    rng: Random = 0,
    progress: Callable[[float], None] | None = None,
) -> PoolingAdvice:
    """Rank poolings of your sequences, with labels or without.

    Parameters
    ----------
    sequences : array of shape (N, L, d), or of int and shape (N, L)
        Embeddings; or rows of `table`, negative where there is no token.
    table : array of shape (V, d), optional
        Embeddings of the tokens.
    labels : array of shape (N,), optional
        Class of each sequence.
    mask, lengths
        Where tokens are, as for `attnlaw.estimators.pool_sequences`.
    n_folds : int
        Of the cross-validation.
    max_length : int
        Longer sequences are cut to so many tokens, the first ones (the last ones if padding comes
        first), and a note says so. Time grows faster than the square of it.
    rng : Generator, int or None
        Draws halves, folds and subsets.
    progress : callable or None
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    PoolingAdvice
        Mean, last, late-weighted, causal and learned pooling (and label-trained with labels), by
        accuracy if there are labels and by signal-to-noise ratio otherwise.

    Notes
    -----
    Without labels, signal is what positions have in common (`measure_coherence`): on natural text
    that may be syntax rather than topic, and only labels can tell. With two classes the accuracy
    is also predicted from class means, covariance and N (`predicted_accuracy`;
    docs/theory/classification.md, "Any noise, classes of any size"), once with the pooled
    covariance as it is and once as if tokens were independent. A pooling is recommended over the
    mean only if it is better at 95 % over all comparisons together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((600, 6, 20))
    >>> signs = rng.choice([-1.0, 1.0], 600)
    >>> T[:, :2, 0] += signs[:, None]        # only the first two positions know the class
    >>> advice = advise_pooling(T, labels=signs)
    >>> advice.best, advice.candidates[-1].name
    ('learned', 'last')
    """
    data = as_sequences(sequences, table, mask=mask, lengths=lengths)
    N, L, d = data.shape
    if N < 40 or L < 2 or d < 2:
        raise invalid_argument(
            "sequences", "at least 40, of at least 2 tokens and dimensions", data.shape
        )
    data, n_cut = _cut(data, count("max_length", max_length, at_least=2))
    generator = random_generator(rng)
    y = None if labels is None else _checked_labels(labels, N)
    if N > JUDGED_ON:
        rows = np.sort(generator.choice(N, JUDGED_ON, replace=False))
        data, y = data.take(rows), None if y is None else y[rows]

    study = None
    if y is not None:
        folds = Folds.of(y, count("n_folds", n_folds, at_least=2), generator)
        study = LabelledStudy(data=data, folds=folds)
    with side_by_side(d) as run:
        candidates, coherence = _candidates(data, study, N, generator, run, progress)
    ranked_by = "snr" if study is None else "accuracy"
    candidates.sort(key=lambda candidate: getattr(candidate, ranked_by), reverse=True)
    best = best_pooling(candidates, ranked_by)
    notes = pooling_notes(candidates, ranked_by, N, min(N, JUDGED_ON))
    return PoolingAdvice(
        n_samples=N,
        length=data.shape[1],
        dimension=d,
        classes=() if study is None else tuple(map(str, study.folds.classes)),
        ranked_by=ranked_by,
        candidates=tuple(candidates),
        best=best,
        direction=coherence.direction,
        signal_power=coherence.power,
        correlation=coherence.correlation,
        notes=(*cut_note(n_cut, data.shape[1]), *notes),
        verdict=pooling_verdict(candidates, best, ranked_by),
    )


def _checked_labels(labels: ArrayLike, n: int) -> NDArray[np.generic]:
    y = np.asarray(labels)
    if y.shape != (n,) or y.dtype.kind not in "biufUS":
        raise invalid_argument("labels", f"{n} numbers or words, one a sequence", y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise invalid_argument("labels", "finite", y)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 8 or len(classes) > 200:
        found = f"{len(classes)} classes, the smallest of {counts.min()}"
        raise invalid_argument("labels", "2 to 200 classes with at least 8 sequences each", found)
    return y


def _cut(data: Sequences, length: int) -> tuple[Sequences, int]:
    """Return the sequences with at most so many tokens, and how many were longer."""
    cut = data.cut(length)
    if cut is data:
        return data, 0
    if cut.mask is not None and not cut.mask.any(axis=1).all():
        raise invalid_argument("max_length", "such that every sequence keeps a token", length)
    if data.mask is None or cut.mask is None:
        return cut, data.shape[0]
    return cut, int(np.sum(data.mask.sum(axis=1) > cut.mask.sum(axis=1)))


def _some(data: Sequences, rng: np.random.Generator) -> Sequences:
    n = data.shape[0]
    if n <= LEARNED_FROM:
        return data
    return data.take(np.sort(rng.choice(n, LEARNED_FROM, replace=False)))


def _coarse(variances: Floats) -> Floats:
    """Replace variances by the means of a hundred groups, the largest left alone."""
    positive = variances[variances > 0]
    groups = rank_groups(np.arange(len(positive)), n_groups=100)
    return np.concatenate([np.full(len(group), positive[group].mean()) for group in groups])


def _candidates(
    data: Sequences,
    study: LabelledStudy | None,
    n_samples: int,
    rng: np.random.Generator,
    run: Run,
    progress: Callable[[float], None] | None,
) -> tuple[list[PoolingCandidate], Coherence]:
    """Find weights, judge them, and put together what is known of each pooling."""
    from scipy.special import ndtri

    report = progress or (lambda share: None)

    L = data.shape[1]
    choices: dict[str, Choice] = {name: name for name in FIXED}
    by_fold: dict[str, Floats] = {}
    if study is not None:
        choices["trained"], by_fold = study.train(run)
        report(TRAINED)

    before, searched = (0.0 if study is None else TRAINED), count_from(1)

    def reporting(function: Callable[..., Any], *parts: Any) -> Iterator[Any]:
        """Prepare the searches of all sequences and of each half, then search for weights."""
        for found in run(function, *parts):
            report(before + (LEARNED - before) * next(searched) / N_SEARCHED)
            yield found

    coherence = measure_coherence(_some(data, rng), choices, rng, reporting)
    choices["learned"] = coherence.weights
    weights = {
        name: pooling_weights(choice, L, data.mask).astype(np.float32)  # one for each token
        for name, choice in {**choices, **by_fold}.items()
    }
    pooled = pool_all(data, weights, run)
    if study is not None:
        study.judge(pooled, run)
    report(JUDGED)
    means = position_means(data)
    together = float(ndtri(1 - 0.025 / (len(choices) - 1)))  # Bonferroni over the comparisons

    def candidate(name: str, own: np.random.Generator) -> PoolingCandidate:
        noise = Basis.of(independent_noise(data, means, weights[name], own))
        if study is None:
            S, labelled = covariance(pooled[name]), {}
        else:
            S = study.judged[name].covariance
            labelled = study.findings(name, pooled[name], noise, together, own)
        eigenvalues = np.maximum(np.linalg.eigvalsh(S)[::-1], 0.0)
        found = outlier_test(
            eigenvalues,
            n_samples=len(pooled[name]),
            noise="spectrum",
            noise_spectrum=_coarse(noise.variances),
            level=0.01,
            max_signals=MOST_OUTLIERS,
        )
        shown = pooling_weights(choices[name], L)
        return PoolingCandidate(
            name=name,
            weights=shown,
            effective_length=float(np.sum(shown**2) ** 2 / np.sum(shown**4)),
            **_coherent(name, coherence, weights[name], noise, n_samples, together),
            n_outliers=found.n_signals,
            eigenvalues=eigenvalues,
            noise_spectrum=noise.variances[::-1],
            **labelled,
        )

    candidates = []
    for found in run(candidate, choices, rng.spawn(len(choices))):
        candidates.append(found)
        report(JUDGED + (1 - JUDGED) * len(candidates) / len(choices))
    return candidates, coherence


def _coherent(
    name: str,
    coherence: Coherence,
    weights: NDArray[np.float32],
    noise: Basis,
    n_samples: int,
    quantile: float,
) -> dict[str, Any]:
    """Return the fields of a candidate that come from coherence; gains at a normal quantile."""
    from scipy.special import ndtri

    kappa = float(np.mean(np.sum(weights**2, axis=-1), dtype=np.float64))
    shares = noise.components(coherence.direction) ** 2
    spiked = Spiked(variances=noise.variances, shares=shares)
    snr, error = coherence.snr[name], float(ndtri(0.975)) * coherence.snr_error[name]
    gain, gain_error = coherence.gain[name], quantile * coherence.gain_error[name]
    strength = (snr - 1) * kappa * coherence.power  # the noise holds κθ of the signal's αθ already
    return {
        "snr": snr,
        "snr_interval": (snr - error, snr + error),
        "snr_gain_interval": (gain - gain_error, gain + gain_error),
        "overlaps": tuple(spiked.squared_overlap(strength, k * n_samples) for k in MULTIPLES),
    }
