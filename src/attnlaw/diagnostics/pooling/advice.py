"""The pooling to use on your own texts, its uncertainty, and the gain from more labels."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator
from attnlaw._machine import require
from attnlaw.data.corpus_statistics import CorpusStatistics, as_statistics
from attnlaw.data.user_arrays import as_sequences
from attnlaw.diagnostics.pooling.classification import CROSS_VALIDATION, simultaneous_quantile
from attnlaw.diagnostics.pooling.criteria import SCORES, Corpus, task_of
from attnlaw.diagnostics.pooling.learning_curve import LearningCurve, predict_learning_curve
from attnlaw.diagnostics.pooling.moments import TokenStatistics, draw_ids, token_statistics
from attnlaw.diagnostics.pooling.poolings import (
    copy_groups,
    cut_note,
    side_by_side,
    standard_error,
)
from attnlaw.diagnostics.pooling.positions import checked_labels, cut_with_ids
from attnlaw.diagnostics.pooling.search import (
    MEAN,
    Found,
    PoolingPipeline,
    Trial,
    Validation,
    search,
    validate,
)
from attnlaw.estimators.fitted_pooling import FittedPooling

__all__ = ["PoolingAdvice", "advise_pooling"]

Interval = tuple[float, float]

ACCURACIES = ("classification", "centroid", "retrieval")
FEWEST = 40  # texts, or pairs, from which another pooling than the mean is recommended
EVALUATED_ON = 20_000  # texts that are looked at
VALIDATED, CURVES = 0.75, 0.95  # share of the work that is done by then, about


@dataclass(frozen=True, kw_only=True)
class PoolingAdvice:
    """The pooling to use, how it was found, and a verdict. Intervals are at 95 %."""

    goal: str
    score_name: str
    n_texts: int  # N
    length: int  # L
    dimension: int  # d
    classes: tuple[str, ...]  # names of the labels; empty without
    majority_accuracy: float | None  # of always answering the largest class
    best: PoolingPipeline  # to use: what the search found if its gain is real, otherwise the mean
    found: PoolingPipeline  # by most searches, of those on all texts and without each fold
    trials: tuple[Trial, ...]  # all that were tried on all texts; scores are those of a search
    chosen: tuple[str, ...]  # what the search found without each fold
    score: float  # on folds held out, of what the search finds without them
    score_interval: Interval
    mean_score: float  # of the mean on the same folds
    mean_interval: Interval
    gain: float  # their difference
    gain_interval: Interval
    curve: LearningCurve | None  # accuracy of `best` at N, 2N, 4N, ∞; for classification
    mean_curve: LearningCurve | None  # of the mean
    tokens: TokenStatistics | None
    mean_snr: float | None  # signal-to-noise ratio of the mean, along what positions share
    n_reliable: int  # components of the mean that can be trusted; 0 if not asked for
    notes: tuple[str, ...]
    verdict: str
    fitted: FittedPooling = field(repr=False)  # `best`, fitted to the texts

    @property
    def in_percent(self) -> bool:
        """Whether scores are accuracies, which are shown in percent."""
        return self.goal in ACCURACIES

    def transformer(self, table: ArrayLike | None = None) -> Any:
        """Return `best` as a fitted scikit-learn object; give the table again for token ids."""
        from attnlaw.estimators.attention_pooling import AttentionPooling

        return AttentionPooling.from_fitted(self.fitted, table=table)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the fitted arrays, as plain values."""
        names = (f.name for f in fields(self) if f.name != "fitted")
        found = {name: getattr(self, name) for name in names}
        return found | {
            "best": {"name": self.best.name, **asdict(self.best)},
            "found": {"name": self.found.name, **asdict(self.found)},
            "trials": [{"name": t.pipeline.name, **asdict(t)} for t in self.trials],
        }

    def to_frame(self) -> Any:
        """Return the pipelines that were tried as a pandas table, best first."""
        pandas = require("pandas", extra="sweeps", purpose="A table")
        rows = [
            {
                "name": trial.pipeline.name,
                **asdict(trial.pipeline),
                "score": trial.score,
                "gain": trial.gain,
                "n_texts": trial.n_texts,
                "recommended": trial.pipeline == self.best,
            }
            for trial in self.trials
        ]
        return pandas.DataFrame(rows)


def advise_pooling(
    sequences: Any,
    *,
    table: ArrayLike | None = None,
    labels: Any = None,
    tokens: Any = None,
    pairs: ArrayLike | None = None,
    scores: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
    corpus: CorpusStatistics | str | Path | None = None,
    goal: str | None = None,
    n_folds: int = 4,
    max_length: int = 512,
    rng: Random = 0,
    progress: Callable[[float], None] | None = None,
) -> PoolingAdvice:
    """Find the best pooling of your texts for a given purpose.

    Parameters
    ----------
    sequences : array of shape (N, L, d), or of int and shape (N, L)
        Embeddings; or rows of `table`, negative where there is no token. Lists of unequal
        length and torch tensors are taken, too.
    table : array of shape (V, d), optional
        Embeddings of the tokens.
    labels : array of shape (N,), optional
        Class of each text: numbers, words or a pandas Series.
    tokens : array of int and shape (N, L), optional
        Token ids of embeddings; without them token weights are not tried.
    pairs, scores : arrays of shape (P, 2) and (P,), optional
        Pairs of texts, and how similar they are; instead of labels.
    mask, lengths
        Where tokens are, as for `attnlaw.estimators.pool_sequences`.
    corpus : CorpusStatistics or path, optional
        Of a larger corpus (`attnlaw.sweeps.corpus_statistics`): its counts weigh the tokens.
    goal : "classification", "centroid", "retrieval" or "clustering", optional
        What the labels are for: a linear classifier (the default), the nearest class mean, the
        nearest neighbours, or k-means.
    n_folds : int
        Of the cross-validation.
    max_length : int
        Longer sequences are cut to this number of tokens, the first ones (the last ones if padding
        comes first), with a note.
    rng : Generator, int or None
        Draws folds and subsets.
    progress : callable or None
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    PoolingAdvice

    Notes
    -----
    The search covers nine poolings, token weights and post-processing (`PoolingPipeline`). It is
    repeated without each fold and scored on it: the gain over the mean is that of the whole
    procedure on unseen texts, with one comparison. A search keeps the mean where nothing gains a
    standard error. The recommendation is what most of these searches find; it is the mean unless
    there are 40 texts, the interval of the gain lies above zero and the score above that of always
    predicting the largest class. Without labels or pairs the score is reliability: how often the
    second half of a text is nearer to its first half than that of another text.

    At most 20,000 texts are used; ids in one array are counted in all texts.

    Examples
    --------
    Classes differ in the largest token, not in the mean:

    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((400, 6, 8))
    >>> y = rng.integers(2, size=400)
    >>> T[np.arange(400), rng.integers(6, size=400), 0] += 3.0 * y
    >>> T[np.arange(400), rng.integers(6, size=400), 0] -= 3.0 * y
    >>> advise_pooling(T, labels=y).best.pooling
    'mean+max'
    """
    whole = None if corpus is None else as_statistics("corpus", corpus)
    generator, cut_at = random_generator(rng), count("max_length", max_length, at_least=2)
    n_texts = drawn = None
    if mask is None and lengths is None and pairs is None and table is not None:
        drawn = draw_ids(sequences, np.shape(table)[0], EVALUATED_ON, generator, whole)
    if drawn is not None:
        n_texts, rows, sequences, whole = drawn
        labels = None if labels is None else checked_labels(labels, n_texts)[rows]
    own_ids = sequences if table is not None else tokens
    data = as_sequences(sequences, table, mask=mask, lengths=lengths)
    N, L, d = data.shape
    if N < 12 or L < 2 or d < 2:
        at_least = "at least 12, of at least 2 tokens and dimensions"
        raise invalid_argument("sequences", at_least, data.shape)
    data, ids, n_cut = cut_with_ids(data, own_ids, cut_at)
    y = None if labels is None else checked_labels(labels, N)
    groups = copy_groups(data)
    n_copies = N - int(groups.max()) - 1
    rows = np.arange(N)
    if N > EVALUATED_ON and pairs is None:
        rows = np.sort(generator.choice(N, EVALUATED_ON, replace=False))
        data, groups = data.take(rows), groups[rows]
        ids = None if ids is None else ids[rows]
        y = None if y is None else y[rows]
    task = task_of(y, groups, pairs, scores, goal)
    texts = Corpus(data=data, ids=ids, task=task, whole=whole)
    report, n_folds = progress or (lambda share: None), count("n_folds", n_folds, at_least=2)
    with side_by_side(d) as run:
        _ = data.maximum  # once, for all folds
        held_out = validate(texts, n_folds, generator, run, lambda s: report(VALIDATED * s))
        found = search(texts, generator, run)
    report(CURVES)
    classes = () if y is None else tuple(map(str, np.unique(y)))
    n_texts = n_texts or N
    advice = _assembled(texts, held_out, found, classes, n_texts)
    notes = [*cut_note(n_cut, data.shape[1])]
    if len(rows) < n_texts:
        notes.append(f"{len(rows)} of {n_texts} texts were looked at, chosen at random.")
    if whole is not None:
        notes.append(f"Tokens were counted in {whole.n_sequences} texts.")
    if n_copies:
        notes.append(f"{n_copies} texts are copies of others; copies are held out together.")
    if ids is None:
        notes.append("Token weights were not tried: embeddings came without token ids.")
    report(1.0)
    return PoolingAdvice(**{**advice, "notes": (*notes, *advice["notes"])})


def _assembled(
    corpus: Corpus, held_out: Validation, found: Found, classes: tuple[str, ...], n_texts: int
) -> dict[str, Any]:
    """Draw the conclusions."""
    task, (N, L, d) = corpus.task, corpus.data.shape
    majority = None
    if task.labels is not None and task.goal != "clustering":
        majority = float(np.bincount(task.labels).max() / N)
    score, score_interval = _interval(held_out.best, held_out, task.goal)
    mean, mean_interval = _interval(held_out.mean, held_out, task.goal)
    gain, gain_interval = _interval(held_out.best - held_out.mean, held_out, task.goal)
    few = len(np.unique(held_out.groups)) < FEWEST
    real = not few and gain_interval[0] > 0 and (majority is None or score > majority)
    winner = _most_found(found, held_out)
    best = winner if real else MEAN
    fitted = found.fit(best, corpus)
    curve = mean_curve = None
    if task.goal == "classification":
        mean_curve = _curve(corpus, found.fit(MEAN, corpus))
        curve = mean_curve if best == MEAN else _curve(corpus, fitted)
    statistics = None
    if corpus.ids is not None and found.smoothing is not None:
        statistics = token_statistics(corpus.token_counts, found.smoothing)
    words = _verdict(task.goal, best, score, mean, gain_interval, majority, held_out)
    more = _labels_or_pooling(best, gain, curve, mean_curve)
    notes = [f"The mean is kept: fewer than {FEWEST} cannot tell poolings apart."] if few else []
    if statistics is not None:
        notes.append(
            f"Of {statistics.n_types} different tokens a mean is as good as "
            f"{statistics.effective_size:.0f} equally frequent ones; smooth inverse frequency "
            f"with a = {statistics.smoothing:.1g} would make that {statistics.weighted_size:.0f}."
        )
    return {
        "goal": task.goal,
        "score_name": SCORES[task.goal],
        "n_texts": n_texts,
        "length": L,
        "dimension": d,
        "classes": classes,
        "majority_accuracy": majority,
        "best": best,
        "found": winner,
        "trials": found.trials,
        "chosen": tuple(pipeline.name for pipeline in held_out.chosen),
        "score": score,
        "score_interval": score_interval,
        "mean_score": mean,
        "mean_interval": mean_interval,
        "gain": gain,
        "gain_interval": gain_interval,
        "curve": curve,
        "mean_curve": mean_curve,
        "tokens": statistics,
        "mean_snr": None if found.learned is None else found.learned.mean_snr,
        "n_reliable": found.n_reliable,
        "notes": tuple(notes),
        "verdict": f"{words} {more}".strip(),
        "fitted": fitted,
    }


def _most_found(found: Found, held_out: Validation) -> PoolingPipeline:
    """Return what most searches found; among ties, the best on all texts."""
    votes = Counter([found.best, *held_out.chosen])
    tried = [trial.pipeline for trial in found.trials]
    return max(tried, key=lambda pipeline: votes[pipeline])


def _interval(values: Floats, held_out: Validation, goal: str) -> tuple[float, Interval]:
    """Return the mean, and its interval with the variance of cross-validation.

    Clusters also depend on the starts of k-means, which the variance within a fold does not show:
    for them the interval is at least Student's of the means of the folds.
    """
    groups, centre = held_out.groups, float(values.mean())
    half = CROSS_VALIDATION * standard_error(values, groups)
    half *= simultaneous_quantile(1, len(np.unique(groups)))
    if goal == "clustering":
        n = int(held_out.folds.max()) + 1
        means = np.bincount(held_out.folds, values) / np.bincount(held_out.folds)
        spread = simultaneous_quantile(1, n) * float(means.std(ddof=1)) / np.sqrt(n)
        half = max(half, spread)
    return centre, (centre - half, centre + half)


def _curve(corpus: Corpus, fitted: FittedPooling) -> LearningCurve:
    assert corpus.task.labels is not None
    once = np.sort(np.unique(corpus.task.groups, return_index=True)[1])
    X, _ = corpus.take(once).vectors(fitted)
    return predict_learning_curve(X, corpus.task.labels[once])


def _verdict(
    goal: str,
    best: PoolingPipeline,
    score: float,
    mean: float,
    gain: Interval,
    majority: float | None,
    held_out: Validation,
) -> str:
    """Say which pooling to use, and with what uncertainty."""
    percent = goal in ACCURACIES

    def number(value: float) -> str:
        return f"{100 * value:.1f} %" if percent else f"{value:.3f}"

    name = SCORES[goal]
    ends = f"{gain[0]:+.3f} and {gain[1]:+.3f}"
    if percent:
        ends = f"{100 * gain[0]:+.1f} and {100 * gain[1]:+.1f} points"
    if majority is not None and max(score, mean) <= majority:
        return (
            f"No pooling is recommended: the {name} of the mean is {number(mean)}, of the best "
            f"found {number(score)}, not above the {number(majority)} of always answering the "
            "largest class."
        )
    if all(pipeline == MEAN for pipeline in held_out.chosen):
        return (
            f"Use the mean, whose {name} is {number(mean)}: without any of the "
            f"{len(held_out.chosen)} folds, a search finds nothing that is clearly better."
        )
    if best == MEAN:
        return (
            f"Use the mean, whose {name} is {number(mean)}: what a search finds has "
            f"{number(score)} on folds it has not seen, a gain between {ends}."
        )
    chosen = Counter([pipeline.name for pipeline in held_out.chosen])
    usual, times = max(chosen.items(), key=lambda item: (item[1], item[0] == best.name))
    what = "the same" if usual == best.name else usual
    return (
        f"Use {best.name}: {name} {number(score)} on folds that the search has not seen, against "
        f"{number(mean)} of the mean, a gain between {ends} "
        f"(without a fold the search found {what} in {times} of {len(held_out.chosen)} cases)."
    )


def _labels_or_pooling(
    best: PoolingPipeline,
    gain: float,
    curve: LearningCurve | None,
    mean_curve: LearningCurve | None,
) -> str:
    """Say whether to label more or to pool better."""
    if curve is None or mean_curve is None:
        return ""
    (now, twice, _, ceiling), (low, high) = curve.accuracies, curve.intervals[1]
    more = (
        f"twice as many labels are predicted to bring {100 * (twice - now):+.1f} points (to "
        f"between {100 * low:.1f} and {100 * high:.1f} %), infinitely many "
        f"{100 * (ceiling - now):+.1f}."
    )
    if best == MEAN:
        return f"Pooling has nothing to add; {more}"
    usual = mean_curve.accuracies[1] - mean_curve.accuracies[0]
    first = "Pool better first" if gain > usual else "Label more first"
    return (
        f"{first}: the pooling brings {100 * gain:+.1f} points, twice the labels would bring the "
        f"mean {100 * usual:+.1f}; with this pooling {more}"
    )
