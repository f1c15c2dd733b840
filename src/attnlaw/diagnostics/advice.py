"""Which pooling to use on your own sequences, how sure that is, and what more data would bring."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._validation import Random, complain, count, random_generator
from attnlaw.diagnostics.candidates import MULTIPLES, PoolingAdvice, PoolingCandidate
from attnlaw.diagnostics.classification import Folds
from attnlaw.diagnostics.coherence import Coherence, Spiked, measure_coherence
from attnlaw.diagnostics.labelled import LabelledStudy
from attnlaw.diagnostics.moments import Basis, covariance, independent_noise, position_means
from attnlaw.diagnostics.noise import rank_groups
from attnlaw.diagnostics.poolings import FIXED, Rows, pool_all, pooling_weights
from attnlaw.diagnostics.verdicts import best_pooling, pooling_notes, pooling_verdict
from attnlaw.estimators.outliers import outlier_test
from attnlaw.estimators.sequences import Sequences, as_sequences

__all__ = ["advise_pooling"]

Floats = NDArray[np.float64]
Choice = str | Floats  # a pooling, as `pooling_weights` takes it

LEARNED_FROM = 3000  # sequences from which weights are learned without labels
JUDGED_ON = 50_000  # sequences that are pooled and classified
MOST_OUTLIERS = 50  # that are counted


def advise_pooling(
    sequences: Any,
    *,
    table: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
    n_folds: int = 4,
    rng: Random = 0,
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
    rng : Generator, int or None
        Draws halves, folds and subsets.

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
        raise complain("sequences", "at least 40, of at least 2 tokens and dimensions", data.shape)
    generator = random_generator(rng)
    y = None if labels is None else _checked_labels(labels, N)
    if N > JUDGED_ON:
        rows = np.sort(generator.choice(N, JUDGED_ON, replace=False))
        data, y = data.take(rows), None if y is None else y[rows]

    choices: dict[str, Choice] = {name: name for name in FIXED}
    pooled = _pooled(data, choices)
    study = None
    by_fold: dict[str, Floats] = {}
    if y is not None:
        folds = Folds.of(y, count("n_folds", n_folds, at_least=2), generator)
        study = LabelledStudy(data=data, folds=folds)
        choices["trained"], by_fold = study.train(pooled["mean"])
    coherence = measure_coherence(_some(data, generator), choices, generator)
    choices["learned"] = coherence.weights
    later = {name: choices[name] for name in choices if name not in FIXED}
    pooled |= _pooled(data, {**later, **by_fold})
    if study is not None:
        for name in (*FIXED, "learned"):
            study.judge(name, pooled[name])
        study.judge_trained(pooled["trained"], pooled)

    candidates = _candidates(data, choices, pooled, coherence, study, N, generator)
    ranked_by = "snr" if study is None else "accuracy"
    candidates.sort(key=lambda candidate: getattr(candidate, ranked_by), reverse=True)
    best = best_pooling(candidates, ranked_by)
    return PoolingAdvice(
        n_samples=N,
        length=L,
        dimension=d,
        classes=() if study is None else tuple(map(str, study.folds.classes)),
        ranked_by=ranked_by,
        candidates=tuple(candidates),
        best=best,
        direction=coherence.direction,
        signal_power=coherence.power,
        correlation=coherence.correlation,
        notes=pooling_notes(candidates, ranked_by, N, min(N, JUDGED_ON)),
        verdict=pooling_verdict(candidates, best, ranked_by),
    )


def _checked_labels(labels: ArrayLike, n: int) -> NDArray[np.generic]:
    y = np.asarray(labels)
    if y.shape != (n,) or y.dtype.kind not in "biufUS":
        raise complain("labels", f"{n} numbers or words, one a sequence", y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise complain("labels", "finite", y)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 8 or len(classes) > 200:
        found = f"{len(classes)} classes, the smallest of {counts.min()}"
        raise complain("labels", "2 to 200 classes with at least 8 sequences each", found)
    return y


def _some(data: Sequences, rng: np.random.Generator) -> Sequences:
    n = data.shape[0]
    if n <= LEARNED_FROM:
        return data
    return data.take(np.sort(rng.choice(n, LEARNED_FROM, replace=False)))


def _pooled(data: Sequences, choices: dict[str, Choice]) -> dict[str, Rows]:
    L = data.shape[1]
    return pool_all(data, {k: pooling_weights(w, L, data.mask) for k, w in choices.items()})


def _coarse(variances: Floats) -> Floats:
    """Replace variances by the means of a hundred groups, the largest left alone."""
    positive = variances[variances > 0]
    groups = rank_groups(np.arange(len(positive)), n_groups=100)
    return np.concatenate([np.full(len(group), positive[group].mean()) for group in groups])


def _candidates(
    data: Sequences,
    choices: dict[str, Choice],
    pooled: dict[str, Rows],
    coherence: Coherence,
    study: LabelledStudy | None,
    n_samples: int,
    rng: np.random.Generator,
) -> list[PoolingCandidate]:
    """Put together what is known of each pooling."""
    from scipy.special import ndtri

    L = data.shape[1]
    one = float(ndtri(0.975))
    together = float(ndtri(1 - 0.025 / (len(choices) - 1)))  # Bonferroni over the comparisons
    means = position_means(data)
    u, theta = coherence.direction, coherence.power
    candidates = []
    for name, choice in choices.items():
        W = pooling_weights(choice, L, data.mask)
        kappa = float(np.mean(np.sum(W**2, axis=-1)))
        noise = Basis.of(independent_noise(data, means, W, rng))
        spiked = Spiked(variances=noise.variances, shares=noise.components(u) ** 2)
        snr, error = coherence.snr[name], coherence.snr_error[name]
        gain, gain_error = coherence.gain[name], coherence.gain_error[name]
        shown = pooling_weights(choice, L)
        labelled: dict[str, Any] = {}
        if study is None:
            S = covariance(pooled[name])
        else:
            S = study.judged[name].covariance
            labelled = study.findings(name, pooled[name], noise, together, rng)
        values = np.maximum(np.linalg.eigvalsh(S)[::-1], 0.0)
        found = outlier_test(
            values,
            n_samples=len(pooled[name]),
            noise="spectrum",
            noise_spectrum=_coarse(noise.variances),
            level=0.01,
            max_signals=MOST_OUTLIERS,
        )
        candidates.append(
            PoolingCandidate(
                name=name,
                weights=shown,
                effective_length=float(np.sum(shown**2) ** 2 / np.sum(shown**4)),
                snr=snr,
                snr_interval=(snr - one * error, snr + one * error),
                snr_gain_interval=(gain - together * gain_error, gain + together * gain_error),
                overlaps=tuple(  # the noise holds κθ of the signal's αθ already
                    spiked.squared_overlap((snr - 1) * kappa * theta, k * n_samples)
                    for k in MULTIPLES
                ),
                n_outliers=found.n_signals,
                eigenvalues=values,
                noise_spectrum=noise.variances[::-1],
                **labelled,
            )
        )
    return candidates
