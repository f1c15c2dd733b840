"""Weights of positions compared: the predictions of theory and the measurements."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count as count_from
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator
from attnlaw.data.sequences import Sequences
from attnlaw.data.user_arrays import as_sequences, labels_array, padded
from attnlaw.diagnostics.pooling.classification import (
    Folds,
    LabelledStudy,
    simultaneous_quantile,
)
from attnlaw.diagnostics.pooling.learning_curve import MULTIPLES
from attnlaw.diagnostics.pooling.moments import (
    Basis,
    Coherence,
    covariance,
    draw_ids,
    independent_noise,
    measure_coherence,
    position_means,
)
from attnlaw.diagnostics.pooling.poolings import (
    FIXED,
    PositionComparison,
    PositionPooling,
    Rows,
    Run,
    best_pooling,
    copy_groups,
    cut_note,
    pool_all,
    pooling_notes,
    pooling_verdict,
    pooling_weights,
    side_by_side,
)
from attnlaw.diagnostics.table_noise import rank_groups
from attnlaw.estimators.outliers import outlier_test
from attnlaw.laws.outliers import SpikedCovariance

__all__ = ["checked_labels", "compare_positions", "cut_sequences", "cut_with_ids"]

Choice = str | Floats  # a pooling, as `pooling_weights` takes it

LEARNED_FROM = 3000  # sequences from which weights are learned without labels
EVALUATED_ON = 50_000  # sequences that are pooled and classified
MOST_OUTLIERS = 50  # that are counted
N_SEARCHES = 9  # three to prepare, and each with signs and without
TRAINED, LEARNED, EVALUATED = 0.15, 0.6, 0.8  # share of the work that is done by then, about


def compare_positions(
    sequences: Any,
    *,
    table: ArrayLike | None = None,
    labels: Any = None,
    mask: Any = None,
    lengths: Any = None,
    n_folds: int = 4,
    max_length: int = 512,
    rng: Random = 0,
    progress: Callable[[float], None] | None = None,
) -> PositionComparison:
    """Rank weights of positions, with or without labels, beside the predictions of theory.

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
        Longer sequences are cut to this number of tokens, the first ones (the last ones if padding
        comes first), with a note. Time grows faster than its square.
    rng : Generator, int or None
        Draws halves, folds and subsets.
    progress : callable or None
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    PositionComparison
        Mean, last, late-weighted, causal and learned pooling (and label-trained with labels), by
        accuracy if there are labels and by signal-to-noise ratio otherwise.

    Notes
    -----
    Without labels, signal is what positions have in common (`measure_coherence`): on natural text
    that may be syntax rather than topic, which only labels can distinguish. With labels the
    accuracy at more sequences is predicted, too (`predict_learning_curve`), and for two classes
    what it would be if tokens were independent (docs/theory/classification.md, "Any noise, classes
    of any size"). A pooling is recommended over the mean only if it is better at 95 % over all
    comparisons together, and better than always predicting the largest class. Copies of a sequence
    are held out together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((600, 6, 20))
    >>> signs = rng.choice([-1.0, 1.0], 600)
    >>> T[:, :2, 0] += signs[:, None]        # only the first two positions know the class
    >>> advice = compare_positions(T, labels=signs)
    >>> advice.best, advice.candidates[-1].name
    ('learned', 'last')
    """
    generator, drawn, n_all = random_generator(rng), None, 0
    if mask is None and lengths is None and table is not None:
        drawn = draw_ids(sequences, np.shape(table)[0], EVALUATED_ON, generator)
    if drawn is not None:  # before anything is copied
        n_all, rows, sequences, _ = drawn
        labels = None if labels is None else checked_labels(labels, n_all)[rows]
    data = as_sequences(sequences, table, mask=mask, lengths=lengths)
    N, L, d = data.shape
    if N < 12 or L < 2 or d < 2:
        words = "at least 12, of at least 2 tokens and dimensions"
        raise invalid_argument("sequences", words, data.shape)
    data, n_cut = cut_sequences(data, count("max_length", max_length, at_least=2))
    y = None if labels is None else checked_labels(labels, N)
    if N > EVALUATED_ON:
        rows = np.sort(generator.choice(N, EVALUATED_ON, replace=False))
        data, y = data.take(rows), None if y is None else y[rows]
    N = max(N, n_all)
    groups = copy_groups(data)

    study = None
    if y is not None:
        folds = Folds.of(y, count("n_folds", n_folds, at_least=2), generator, groups)
        study = LabelledStudy(data=data, folds=folds)
    with side_by_side(d) as run:
        candidates, coherence = _candidates(data, groups, study, N, generator, run, progress)
    ranked_by, majority = "snr", None
    if study is not None:
        ranked_by, majority = "accuracy", study.folds.majority_accuracy
    candidates.sort(key=lambda candidate: getattr(candidate, ranked_by), reverse=True)
    best = best_pooling(candidates, ranked_by, majority)
    n_copies = len(groups) - len(np.unique(groups))
    notes = pooling_notes(candidates, ranked_by, N, len(groups), n_copies)
    return PositionComparison(
        n_samples=N,
        length=data.shape[1],
        dimension=d,
        classes=() if study is None else tuple(map(str, study.folds.classes)),
        majority_accuracy=majority,
        ranked_by=ranked_by,
        candidates=tuple(candidates),
        best=best,
        direction=coherence.direction,
        signal_power=coherence.power,
        correlation=coherence.correlation,
        notes=(*cut_note(n_cut, data.shape[1]), *notes),
        verdict=pooling_verdict(candidates, best, ranked_by, majority),
    )


def checked_labels(labels: Any, n: int) -> NDArray[np.generic]:
    """Return labels as an array of numbers or words, of 2 to 200 classes."""
    y = labels_array("labels", labels, n)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 4 or len(classes) > 200:
        found = f"{len(classes)} classes, the smallest of {counts.min()}"
        raise invalid_argument("labels", "2 to 200 classes with at least 4 sequences each", found)
    return y


def cut_sequences(data: Sequences, length: int) -> tuple[Sequences, int]:
    """Return the sequences with at most this many tokens, and how many were longer."""
    cut = data.cut(length)
    if cut is data:
        return data, 0
    if cut.mask is not None and not cut.mask.any(axis=1).all():
        raise invalid_argument("max_length", "such that every sequence keeps a token", length)
    if data.mask is None or cut.mask is None:
        return cut, data.shape[0]
    return cut, int(np.sum(data.mask.sum(axis=1) > cut.mask.sum(axis=1)))


def cut_with_ids(
    data: Sequences, tokens: Any, length: int
) -> tuple[Sequences, NDArray[Any] | None, int]:
    """Cut long sequences, and check their token ids."""
    ids = None if tokens is None else np.asarray(padded(tokens)[0])
    if ids is not None and (ids.shape != data.shape[:2] or ids.dtype.kind not in "iu"):
        raise invalid_argument("tokens", f"whole numbers of shape {data.shape[:2]}", ids)
    cut, n_cut = cut_sequences(data, length)
    if cut is data or ids is None:
        return cut, ids, n_cut
    first, last = slice(0, length), slice(data.shape[1] - length, None)
    start = data.mask is None or data.mask[:, first].sum() >= data.mask[:, last].sum()
    return cut, ids[:, first if start else last], n_cut


def _coarse(variances: Floats) -> Floats:
    """Replace variances by the means of a hundred groups, the largest left alone."""
    positive = variances[variances > 0]
    if not positive.size:
        raise invalid_argument("sequences", "such that they differ", "copies of one")
    groups = rank_groups(np.arange(len(positive)), n_groups=100)
    return np.concatenate([np.full(len(group), positive[group].mean()) for group in groups])


def _candidates(
    data: Sequences,
    groups: NDArray[np.intp],
    study: LabelledStudy | None,
    n_samples: int,
    rng: np.random.Generator,
    run: Run,
    progress: Callable[[float], None] | None,
) -> tuple[list[PositionPooling], Coherence]:
    """Train and learn weights, pool by all of them, and describe each pooling."""
    report = progress or (lambda share: None)
    choices: dict[str, Choice] = {name: name for name in FIXED}
    by_fold: dict[str, Floats] = {}
    done = 0.0
    if study is not None:
        choices["trained"], by_fold = study.train(run)
        report(done := TRAINED)

    n_done = count_from(1)

    def reporting(function: Callable[..., Any], *parts: Any) -> Iterator[Any]:
        for found in run(function, *parts):
            report(done + (LEARNED - done) * next(n_done) / N_SEARCHES)
            yield found

    some = np.arange(len(groups))
    if len(some) > LEARNED_FROM:
        some = np.sort(rng.choice(len(some), LEARNED_FROM, replace=False))
    subset = data if len(some) == len(groups) else data.take(some)
    coherence = measure_coherence(subset, choices, rng, reporting, groups=groups[some])
    choices["learned"] = coherence.weights

    weights = {
        name: pooling_weights(choice, data.shape[1], data.mask).astype(np.float32)
        for name, choice in {**choices, **by_fold}.items()
    }
    pooled = pool_all(data, weights, run)
    if study is not None:
        study.evaluate(pooled, run)
    report(EVALUATED)

    evaluation = _Evaluation(
        data=data,
        study=study,
        coherence=coherence,
        n_samples=n_samples,
        n_learned_from=len(some),
        choices=choices,
        weights=weights,
        pooled=pooled,
        means=position_means(data),
    )
    candidates: list[PositionPooling] = []
    for found in run(evaluation.candidate, choices, rng.spawn(len(choices))):
        candidates.append(found)
        report(EVALUATED + (1 - EVALUATED) * len(candidates) / len(choices))
    return candidates, coherence


@dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """Shared inputs for the description of each pooling."""

    data: Sequences
    study: LabelledStudy | None
    coherence: Coherence
    n_samples: int
    n_learned_from: int
    choices: Mapping[str, Choice]
    weights: Mapping[str, NDArray[np.float32]]  # by name, one for each token
    pooled: Mapping[str, Rows]
    means: Floats  # (L, d): of the tokens at each position

    @property
    def n_comparisons(self) -> int:
        """Number of poolings that are compared with the mean."""
        return len(self.choices) - 1

    def candidate(self, name: str, rng: np.random.Generator) -> PositionPooling:
        """Describe one pooling."""
        pooled = self.pooled[name]
        noise = Basis.of(independent_noise(self.data, self.means, self.weights[name], rng))
        labelled = {}
        if self.study is not None:
            labelled = self.study.findings(name, pooled, noise, self.n_comparisons, rng)
        eigenvalues = np.maximum(np.linalg.eigvalsh(covariance(pooled))[::-1], 0.0)
        found = outlier_test(
            eigenvalues,
            n_samples=len(pooled),
            noise="spectrum",
            noise_spectrum=_coarse(noise.variances),
            level=0.01,
            max_signals=MOST_OUTLIERS,
        )
        shown = pooling_weights(self.choices[name], self.data.shape[1])
        return PositionPooling(
            name=name,
            weights=shown,
            effective_length=float(np.sum(shown**2) ** 2 / np.sum(shown**4)),
            **self._coherent(name, noise),
            n_outliers=found.n_signals,
            eigenvalues=eigenvalues,
            noise_spectrum=noise.variances[::-1],
            **labelled,
        )

    def _coherent(self, name: str, noise: Basis) -> dict[str, Any]:
        """Return the fields of a candidate that need no labels."""
        coherence = self.coherence
        one = simultaneous_quantile(1, self.n_learned_from)
        several = simultaneous_quantile(self.n_comparisons, self.n_learned_from)
        kappa = float(np.mean(np.sum(self.weights[name] ** 2, axis=-1), dtype=np.float64))
        spiked = SpikedCovariance(
            variances=noise.variances, shares=noise.components(coherence.direction) ** 2
        )
        snr, error = coherence.snr[name], one * coherence.snr_error[name]
        gain, gain_error = coherence.gain[name], several * coherence.gain_error[name]
        # the noise holds κθ of the signal's αθ already
        strength = (snr - 1) * kappa * coherence.power
        overlaps = (spiked.squared_overlap(strength, k * self.n_samples) for k in MULTIPLES)
        return {
            "snr": snr,
            "snr_interval": (snr - error, snr + error),
            "snr_gain_interval": (gain - gain_error, gain + gain_error),
            "overlaps": tuple(overlaps),
        }
