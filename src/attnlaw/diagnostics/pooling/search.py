"""Search for the best pooling of some texts: positions, tokens and post-processing.

The choices multiply to hundreds, so they are searched by coordinate in three rounds, each with
more texts and fewer candidates: every pooling with equal tokens, and the mean with every token
weight; then the best of both together with finer post-processing; then the best few, of which the
first is kept if it gains more than a standard error over the mean. What a search finds is
optimistic, so `validate` repeats all of it without each fold, and scores what it
found on that fold.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.classification import Folds
from attnlaw.diagnostics.pooling.criteria import (
    MOST_QUERIES,
    MOST_STORED,
    Corpus,
    Task,
    single,
)
from attnlaw.diagnostics.pooling.poolings import Rows, Run, standard_error
from attnlaw.estimators.alternation import trained_weights
from attnlaw.estimators.fitted_pooling import FittedPooling, fit_pooling
from attnlaw.estimators.pooling import POOLINGS, RowSpectrum
from attnlaw.estimators.pooling_weights import PoolingWeights, learn_pooling_weights
from attnlaw.estimators.reliability import reliable_components

__all__ = ["Found", "PoolingPipeline", "Trial", "Validation", "search", "validate"]

ROUNDS = (600, 1200, 4000)  # texts of each round, at most
SMOOTHINGS = (1e-2, 1e-3, 1e-4)  # of inverse frequency, beside that of theory
REMOVED = (1, 3, 10)  # leading components, as far as they are reliable
WHITENINGS = (0.1, 1.0, 10.0)
ROUND_ONE = "mean", "mean+max"  # with more than one kind of post-processing
N_POOLINGS, N_TOKEN_WEIGHTS, N_FINAL = 2, 3, 3  # that go on
ASKED = {"learned": "optimal", "trained": "trained"}  # names of `AttentionPooling`
LEAST_SNR = 0.25  # of the mean, in a*
LEARNED_FROM = 400  # texts from which weights of positions are learned without labels

Progress = Callable[[float], None]


@dataclass(frozen=True, kw_only=True)
class PoolingPipeline:
    """From tokens to one vector: how positions, tokens and the pooled vectors are treated."""

    pooling: str = "mean"  # of `POOLINGS`, or "learned", "trained"
    token_weights: str = "uniform"  # "uniform", "sif" or "idf"
    smoothing: float = 1e-3  # a of "sif"
    components_removed: int | None = None  # None: vectors are not centred
    whitening: float | None = None  # shrinkage s

    @property
    def name(self) -> str:
        """A short name of the choices."""
        words = self.pooling
        if self.token_weights == "sif":
            words += f", sif a={self.smoothing:.1g}"
        elif self.token_weights != "uniform":
            words += f", {self.token_weights}"
        if self.whitening is not None:
            return words + f", whitened s={self.whitening:g}"
        if self.components_removed is None:
            return words
        k = self.components_removed
        return words + (", centred" if k == 0 else f", minus {k}")

    @property
    def post(self) -> tuple[int | None, float | None]:
        """The choice of post-processing."""
        return self.components_removed, self.whitening

    @property
    def tokens(self) -> tuple[str, float]:
        """The choice of token weights."""
        return self.token_weights, self.smoothing

    def with_post(self, post: tuple[int | None, float | None]) -> "PoolingPipeline":
        """Return the same with other post-processing."""
        return replace(self, components_removed=post[0], whitening=post[1])


MEAN = PoolingPipeline()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pipeline that was tried in a search."""

    pipeline: PoolingPipeline
    score: float  # mean of its values, each text answered by the others
    gain: float  # over the mean, on the same texts
    n_texts: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Result of a search, with the weights learned on the way."""

    best: PoolingPipeline
    trials: tuple[Trial, ...]  # best first, those with the most texts before the others
    learned: PoolingWeights | None  # weights of positions without labels
    smoothing: float | None  # a* = 1/(N·SNR), by theory
    n_reliable: int  # components of the mean

    def fit(self, pipeline: PoolingPipeline, corpus: Corpus) -> FittedPooling:
        """Fit a pipeline to all texts of a corpus; learned weights are those of the search."""
        pooling = _named_or_learned(pipeline.pooling, self.learned)
        if pipeline.pooling == "trained":
            assert corpus.task.labels is not None
            pooling = trained_weights(corpus.data, corpus.task.labels)
        return fit_pooling(
            corpus.data,
            corpus.ids,
            pooling,
            token_weights=pipeline.token_weights,
            smoothing=pipeline.smoothing,
            components_removed=pipeline.components_removed,
            whitening=pipeline.whitening,
            corpus=corpus.whole,
            asked=ASKED.get(pipeline.pooling),
        )


def _named_or_learned(name: str, learned: PoolingWeights | None) -> str | Floats:
    """Return the weights that were learned without labels, or the name of a pooling."""
    if name != "learned":
        return name
    assert learned is not None
    return learned.weights


class _Round:
    """One round: some texts, pooled once for each choice of positions and tokens."""

    def __init__(self, corpus: Corpus, learned: PoolingWeights | None, seed: int) -> None:
        self.corpus, self.learned, self.seed = corpus, learned, seed
        self.values: dict[PoolingPipeline, Floats] = {}  # one a text, NaN where it has none
        self.scores: dict[PoolingPipeline, float] = {}

    def run(self, pipelines: Iterable[PoolingPipeline], run: Run) -> None:
        """Score pipelines, those with the same pooled vectors together."""
        groups: dict[PoolingPipeline, list[PoolingPipeline]] = {}
        for pipeline in dict.fromkeys([MEAN, *pipelines]):
            if pipeline not in self.scores:
                groups.setdefault(pipeline.with_post((None, None)), []).append(pipeline)
        for found in run(self._score, groups, groups.values()):
            self.values.update(found)
            self.scores.update({p: float(np.nanmean(values)) for p, values in found.items()})

    def _score(
        self, raw: PoolingPipeline, pipelines: Sequence[PoolingPipeline]
    ) -> dict[PoolingPipeline, Floats]:
        corpus = self.corpus
        X, parts = self._pooled(raw)
        spectrum: RowSpectrum | None = None
        found = {}
        for pipeline in pipelines:
            processed = parts
            if pipeline.post != (None, None):
                spectrum = spectrum or RowSpectrum(X)
                processing = spectrum.processing(*pipeline.post, rotated=True)
                processed = [processing.apply(part) for part in parts]
            rng = np.random.default_rng(self.seed)  # the same folds for all
            other = processed[1] if len(processed) > 1 else None
            found[pipeline] = corpus.task.values(processed[0], other, rng)
        return found

    def _pooled(self, raw: PoolingPipeline) -> tuple[Rows, list[Rows]]:
        """Return the pooled texts, and those that are scored: the texts, or their halves."""
        corpus = self.corpus
        if raw.pooling == "trained":
            X = self._pooled_by_halves(raw)
            return X, [X]
        fitted = self._fit(raw, _named_or_learned(raw.pooling, self.learned))
        X = single(fitted.pooled(corpus.data, corpus.ids))
        if corpus.task.goal != "reliability":
            return X, [X]
        return X, [single(fitted.pooled(half, corpus.ids)) for half in corpus.halves]

    def _pooled_by_halves(self, raw: PoolingPipeline) -> Rows:
        """Pool each half of the texts by weights that were trained on the labels of the other."""
        corpus, groups = self.corpus, self.corpus.task.groups
        X = np.empty((len(groups), corpus.data.shape[2]), dtype=np.float32)
        for half in (0, 1):
            (ours,), (theirs,) = np.nonzero(groups % 2 == half), np.nonzero(groups % 2 != half)
            part, other = corpus.take(ours), corpus.take(theirs)
            assert part.task.labels is not None
            fitted = self._fit(raw, trained_weights(part.data, part.task.labels))
            X[theirs] = fitted.pooled(other.data, other.ids)
        return X

    def _fit(self, raw: PoolingPipeline, pooling: str | Floats) -> FittedPooling:
        corpus = self.corpus
        return fit_pooling(
            corpus.data,
            corpus.ids,
            pooling,
            token_weights=raw.token_weights,
            smoothing=raw.smoothing,
            corpus=corpus.whole,
        )

    def best(self) -> PoolingPipeline:
        """Return the first of the ranked, or the mean if it gains less than a standard error."""
        first = self.ranked()[0]
        gains = self.values[first] - self.values[MEAN]
        kept = ~np.isnan(gains)
        units = self.corpus.task.units()[: len(gains)][kept]
        error = standard_error(gains[kept], units)
        return first if np.mean(gains[kept]) > error else MEAN

    def ranked(self) -> list[PoolingPipeline]:
        """Return the pipelines, best first; ties keep their order."""
        return sorted(self.scores, key=lambda pipeline: -self.scores[pipeline])


def search(corpus: Corpus, rng: np.random.Generator, run: Run = map) -> Found:
    """Return the best pipeline, the mean if none is clearly better, and all that were tried.

    Parameters
    ----------
    corpus : Corpus
    rng : Generator
        Draws the texts of each round, and folds.
    run : callable
        `map`, or that of an executor with several threads.
    """
    N = len(corpus.task.groups)
    order = rng.permutation(N)
    if corpus.task.pairs is not None:  # all texts, so that pairs are whole
        order = np.arange(N)
    seed = int(rng.integers(2**31))
    parts = [corpus.take(np.sort(order[: _size(corpus.task, N, n)])) for n in ROUNDS]
    learned = _learn(parts[0].data.some(LEARNED_FROM, rng), seed)
    snr = 1.0 if learned is None else max(learned.mean_snr, LEAST_SNR)
    smoothing = None if corpus.ids is None else 1 / (N * snr)

    first = _Round(parts[0], learned, seed)
    first.run(_first_round(corpus, learned, smoothing), run)
    n_reliable = 0
    if first.ranked()[0].components_removed:
        mean = fit_pooling(parts[0].data, None, "mean").pooled(parts[0].data, None)
        n_reliable = reliable_components(mean, n_folds=2, rng=seed).n_reliable
    second = _Round(parts[1], learned, seed)
    second.run(_second_round(first, n_reliable), run)
    third = _Round(parts[2], learned, seed)
    third.run(second.ranked()[:N_FINAL], run)

    trials: dict[PoolingPipeline, Trial] = {}
    for part in (third, second, first):
        n = len(part.corpus.task.groups)
        for pipeline in part.ranked():
            gain = part.scores[pipeline] - part.scores[MEAN]
            trial = Trial(pipeline=pipeline, score=part.scores[pipeline], gain=gain, n_texts=n)
            trials.setdefault(pipeline, trial)
    return Found(
        best=third.best(),
        trials=tuple(trials.values()),
        learned=learned,
        smoothing=smoothing,
        n_reliable=n_reliable,
    )


def _size(task: Task, N: int, n: int) -> int:
    return N if task.pairs is not None else min(N, n)


def _learn(data: Sequences, seed: int) -> PoolingWeights | None:
    """Learn weights of positions without labels, where there are enough different texts."""
    try:
        return learn_pooling_weights(data, rng=seed)
    except ValueError:
        return None


def _first_round(
    corpus: Corpus, learned: PoolingWeights | None, smoothing: float | None
) -> list[PoolingPipeline]:
    posts: list[tuple[int | None, float | None]] = [(None, None)]
    if corpus.task.uses_cosines:
        posts += [(1, None), (0, None), (None, 1.0)]
    names = [*POOLINGS]
    if learned is not None:
        names.append("learned")
    if corpus.task.labels is not None:
        names.append("trained")
    tried = []
    for name in names:
        some = posts if name in ROUND_ONE else posts[:2]
        tried += [PoolingPipeline(pooling=name).with_post(post) for post in some]
    if corpus.ids is None:
        return tried
    values = list(SMOOTHINGS)
    if smoothing is not None and min(abs(np.log(smoothing / a)) for a in values) > np.log(1.5):
        values.append(smoothing)
    weighted = [PoolingPipeline(token_weights="sif", smoothing=a) for a in values]
    weighted.append(PoolingPipeline(token_weights="idf"))
    some = [posts[1], posts[3]] if corpus.task.uses_cosines else posts
    return tried + [pipeline.with_post(post) for pipeline in weighted for post in some]


def _second_round(first: _Round, n_reliable: int) -> list[PoolingPipeline]:
    """Return the best poolings with the best token weights, and post-processing like the best."""
    ranked = first.ranked()
    poolings = list(dict.fromkeys(p.pooling for p in ranked))[:N_POOLINGS]
    tokens = list(dict.fromkeys(p.tokens for p in ranked))
    tokens = list(dict.fromkeys([*tokens[: N_TOKEN_WEIGHTS - 1], MEAN.tokens, *tokens]))
    tokens = tokens[:N_TOKEN_WEIGHTS]
    best = ranked[0].post
    posts: list[tuple[int | None, float | None]] = [(None, None)]
    if not first.corpus.task.uses_cosines:
        posts.append((None, 1.0))
    elif best[1] is not None:
        posts = [(None, s) for s in WHITENINGS]
    elif best[0] is not None and best[0] > 0:
        posts = [(k, None) for k in REMOVED if k <= max(n_reliable, 1)]
    else:
        posts += [(0, None), (1, None)]
    combined = [
        PoolingPipeline(pooling=p, token_weights=t, smoothing=a).with_post(post)
        for p in poolings
        for t, a in (tokens if p != "max" else [MEAN.tokens])
        for post in posts
    ]
    return [*combined, *ranked[:3]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """Scores on folds that the search did not see."""

    chosen: tuple[PoolingPipeline, ...]  # of each fold
    best: Floats  # values of what was chosen
    mean: Floats  # values of the mean, of the same texts
    groups: NDArray[np.intp]  # of those texts
    folds: NDArray[np.intp]  # in which they were held out


def validate(
    corpus: Corpus,
    n_folds: int,
    rng: np.random.Generator,
    run: Run = map,
    progress: Progress = lambda share: None,
) -> Validation:
    """Repeat the search without each fold, and score what it finds, and the mean, on the fold."""
    task = corpus.task
    labels = np.zeros(len(task.groups), dtype=np.intp) if task.labels is None else task.labels
    folds = Folds.of(labels, n_folds, rng, task.groups)
    chosen, best, mean, groups = [], [], [], []
    for f in range(n_folds):
        train = corpus.take(np.flatnonzero(folds.parts != f))
        test = corpus.take(np.flatnonzero(folds.parts == f))
        found = search(train, rng, run)
        if task.goal == "retrieval":  # no more are looked at
            train, test = train.thinned(MOST_STORED), test.thinned(MOST_QUERIES)
        seed = int(rng.integers(2**31))
        scores = _held_out(found, found.best, train, test, seed)
        scores_of_mean = _held_out(found, MEAN, train, test, seed)
        kept = ~np.isnan(scores)
        chosen.append(found.best)
        best.append(scores[kept])
        mean.append(scores_of_mean[kept])
        groups.append(test.task.units()[: len(kept)][kept])
        progress((f + 1) / n_folds)
    return Validation(
        chosen=tuple(chosen),
        best=np.concatenate(best),
        mean=np.concatenate(mean),
        groups=np.concatenate(groups),
        folds=np.repeat(np.arange(n_folds), [len(values) for values in best]),
    )


def _held_out(
    found: Found, pipeline: PoolingPipeline, train: Corpus, test: Corpus, seed: int
) -> Floats:
    """Score a pipeline, fitted to some texts, on others."""
    fitted = found.fit(pipeline, train)
    X, other = test.vectors(fitted)
    compared = test.task.goal in ("classification", "centroid", "retrieval")
    X_train = train.vectors(fitted)[0] if compared else X
    return test.task.held_out(X, other, train.task, X_train, np.random.default_rng(seed))
