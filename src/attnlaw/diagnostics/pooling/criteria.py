"""Tasks for pooled vectors and their held-out scores: one number a text.

==============  ==========================================================================
classification  whether ridge regression of the classes on the vectors is right
centroid        whether the nearest class mean, by cosine, is right
retrieval       whether the vote of the ten nearest neighbours, by cosine, is right
clustering      adjusted mutual information of spherical k-means with the classes
similarity      Spearman's correlation of cosines with given scores of pairs
reliability     without labels: how often the other half of a text is nearer than another's
==============  ==========================================================================

Scores that are no means over texts come as the values whose mean they are to first order, so
that one standard error fits all. Derived in docs/theory/classification.md, "Scores of pooled
vectors".
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, choice, invalid_argument, real_array
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.data.sequences import Sequences
from attnlaw.data.user_arrays import converted
from attnlaw.diagnostics.pooling.classification import Folds, cross_validate, ridge_answers
from attnlaw.diagnostics.pooling.poolings import Rows
from attnlaw.estimators.fitted_pooling import FittedPooling

__all__ = [
    "GOALS",
    "SCORES",
    "Corpus",
    "Task",
    "adjusted_mutual_information",
    "spherical_k_means",
    "task_of",
]

GOALS = ("classification", "centroid", "retrieval", "clustering")
"""What labels can be for."""

SCORES = {
    "classification": "accuracy",
    "centroid": "accuracy of the nearest centroid",
    "retrieval": "accuracy of the nearest neighbours",
    "clustering": "adjusted mutual information",
    "similarity": "Spearman correlation",
    "reliability": "reliability",
}
"""What a score is called."""

NEIGHBOURS = 10
MOST_QUERIES, MOST_SEARCHED = 2500, 2000  # texts whose neighbours are looked for; in a search
MOST_STORED = 8000  # texts among which they are looked for
N_STARTS, N_STEPS = 3, 25  # of k-means
BLOCK = 500  # rows of similarities at a time


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task on some texts, with its labels, pairs or scores."""

    goal: str
    groups: NDArray[np.intp]  # (N,): copies, and texts that are compared, have the same number
    labels: NDArray[np.intp] | None = None  # (N,), from 0
    n_classes: int = 0
    pairs: NDArray[np.intp] | None = None  # (P, 2): texts
    scores: Floats | None = None  # (P,)

    @property
    def uses_cosines(self) -> bool:
        """Whether only directions of vectors count, so that post-processing matters."""
        return self.goal != "classification"

    def take(self, rows: NDArray[np.intp]) -> "Task":
        """Return the same task on some of the texts."""
        part = replace(
            self,
            groups=self.groups[rows],
            labels=None if self.labels is None else self.labels[rows],
        )
        if self.pairs is None or self.scores is None:
            return part
        places = np.full(len(self.groups), -1)
        places[rows] = np.arange(len(rows))
        pairs = places[self.pairs]
        kept = (pairs >= 0).all(axis=1)
        return replace(part, pairs=pairs[kept], scores=self.scores[kept])

    def units(self) -> NDArray[np.intp]:
        """Return the group of each number that `values` and `held_out` give."""
        return self.groups if self.pairs is None else self.groups[self.pairs[:, 0]]

    def values(self, X: Rows, other: Rows | None, rng: np.random.Generator) -> Floats:
        """Score each vector by the others, for a search.

        `other` are those of the second halves of the texts, for "reliability".
        """
        if self.goal == "classification":
            assert self.labels is not None
            folds = Folds.of(self.labels, 3, rng, self.groups)
            return cross_validate(X, folds).right.astype(np.float64)
        if self.goal == "centroid":
            return self._centroid(X, X, own=True)
        if self.goal == "retrieval":
            return self._neighbours(X, X, self, own=True)
        return self._unlabelled(X, other, rng)

    def held_out(
        self,
        X: Rows,
        other: Rows | None,
        train: "Task",
        X_train: Rows,
        rng: np.random.Generator,
    ) -> Floats:
        """Score vectors by those of a training set."""
        if self.goal == "classification":
            assert self.labels is not None
            assert train.labels is not None
            answers = ridge_answers(X_train, train.labels, X, rng, train.groups)
            return np.asarray(answers == self.labels, dtype=np.float64)
        if self.goal == "centroid":
            return train._centroid(X_train, X, labels=self.labels)
        if self.goal == "retrieval":
            return self._neighbours(X, X_train, train)
        return self._unlabelled(X, other, rng)

    def _unlabelled(self, X: Rows, other: Rows | None, rng: np.random.Generator) -> Floats:
        """Score vectors by themselves."""
        X = unit_rows(X)
        if self.goal == "clustering":
            assert self.labels is not None
            return _information_values(self.labels, spherical_k_means(X, self.n_classes, rng))
        if self.goal == "similarity":
            assert self.pairs is not None
            assert self.scores is not None
            cosines = np.einsum("ij,ij->i", X[self.pairs[:, 0]], X[self.pairs[:, 1]])
            return _spearman_values(cosines, self.scores)
        assert other is not None
        return _reliability_values(X, unit_rows(other))

    def _centroid(
        self,
        X_train: Rows,
        X: Rows,
        *,
        labels: NDArray[np.intp] | None = None,
        own: bool = False,
    ) -> Floats:
        assert self.labels is not None
        T = unit_rows(X_train)
        sums = class_sums(T, self.labels, self.n_classes)
        U = unit_rows(X)
        cosines = U @ unit_rows(sums.astype(U.dtype)).T
        if own:  # each without itself
            rest = unit_rows(sums[self.labels].astype(U.dtype) - U)
            cosines[np.arange(len(U)), self.labels] = np.einsum("ij,ij->i", U, rest)
            labels = self.labels
        return np.asarray(cosines.argmax(axis=1) == labels, dtype=np.float64)

    def _neighbours(self, X: Rows, stored: Rows, train: "Task", *, own: bool = False) -> Floats:
        """Vote by the nearest, weighted by cosine; copies of a text do not vote for it."""
        assert self.labels is not None
        assert train.labels is not None
        limit = np.arange(len(stored))[:: -(-len(stored) // MOST_STORED)]
        queries = np.arange(len(X))[:: -(-len(X) // (MOST_SEARCHED if own else MOST_QUERIES))]
        S, right = unit_rows(stored[limit]), np.full(len(X), np.nan)
        k = min(NEIGHBOURS, len(S) - 1)
        copies = len(limit) < len(X) or len(np.unique(self.groups)) < len(X)
        for start in range(0, len(queries), BLOCK):
            some = queries[start : start + BLOCK]
            cosines = unit_rows(X[some]) @ S.T
            if own and copies:
                cosines[self.groups[some][:, None] == train.groups[limit]] = -2.0
            elif own:
                cosines[np.arange(len(some)), some] = -2.0
            near = np.argpartition(cosines, -k, axis=1)[:, -k:]
            weights = np.take_along_axis(cosines, near, axis=1) + 1.0
            votes = np.zeros((len(some), self.n_classes))
            np.add.at(votes, (np.arange(len(some))[:, None], train.labels[limit][near]), weights)
            right[some] = votes.argmax(axis=1) == self.labels[some]
        return right


def task_of(
    labels: NDArray[Any] | None,
    groups: NDArray[np.intp],
    pairs: ArrayLike | None,
    scores: ArrayLike | None,
    goal: str | None,
) -> Task:
    """Return the task for which the texts are pooled."""
    if labels is not None:
        if pairs is not None or scores is not None:
            raise invalid_argument("pairs and scores", "left out beside labels", "both")
        name = choice("goal", goal or "classification", GOALS)
        classes, numbers = np.unique(labels, return_inverse=True)
        return Task(goal=name, groups=groups, labels=numbers, n_classes=len(classes))
    if goal is not None:
        raise invalid_argument("goal", "left out without labels", goal)
    if pairs is None and scores is None:
        return Task(goal="reliability", groups=groups)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    N, P = len(groups), np.asarray(converted("pairs", pairs))
    s = real_array("scores", [] if scores is None else scores)
    if P.ndim != 2 or P.shape[1] != 2 or P.dtype.kind not in "iu" or len(P) < 12:
        raise invalid_argument("pairs", "at least 12 pairs of texts, whole numbers", P)
    if s.shape != (len(P),) or not np.isfinite(s).all() or np.ptp(s) == 0:
        raise invalid_argument("scores", f"{len(P)} finite numbers that differ", s)
    if P.min() < 0 or P.max() >= N:
        raise invalid_argument("pairs", f"rows of the sequences, from 0 to {N - 1}", int(P.max()))
    copies = np.stack([np.arange(N), np.unique(groups, return_index=True)[1][groups]], axis=1)
    ends = np.concatenate([P, copies])
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (N, N))
    _, together = connected_components(graph, directed=False)
    whole = np.bincount(together).max() > N / 2  # in one piece: pairs across folds are left out
    apart = groups if whole else together.astype(np.intp)
    return Task(goal="similarity", groups=apart, pairs=P, scores=s)


@dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Texts as sequences of tokens, with their task."""

    data: Sequences
    ids: NDArray[Any] | None  # (N, L): tokens, for their weights
    task: Task
    whole: CorpusStatistics | None = None  # counts of the tokens, if those of more texts are known

    def take(self, rows: NDArray[np.intp]) -> "Corpus":
        """Return some of the texts."""
        return Corpus(
            data=self.data.take(rows),
            ids=None if self.ids is None else self.ids[rows],
            task=self.task.take(rows),
            whole=self.whole,
        )

    def thinned(self, n: int) -> "Corpus":
        """Return every k-th text, n at most."""
        step = -(-len(self.task.groups) // n)
        return self if step == 1 else self.take(np.arange(len(self.task.groups))[::step])

    @property
    def token_counts(self) -> NDArray[np.int64]:
        """Counts of the tokens that occur."""
        if self.whole is not None:
            return self.whole.token_counts
        assert self.ids is not None
        ids = self.ids if self.data.mask is None else self.ids[self.data.mask]
        return np.unique(ids, return_counts=True)[1]

    @cached_property
    def halves(self) -> tuple[Sequences, Sequences]:
        """The first and the second half of the tokens of each text."""
        N, L, _ = self.data.shape
        mask = np.ones((N, L), dtype=bool) if self.data.mask is None else self.data.mask
        first = mask & (np.cumsum(mask, axis=1) <= mask.sum(axis=1, keepdims=True) / 2)
        return self.data.with_mask(first), self.data.with_mask(mask & ~first)

    def vectors(self, fitted: FittedPooling) -> tuple[Rows, Rows | None]:
        """Return the pooled texts, or pooled halves of texts for reliability."""
        parts = (self.data,) if self.task.goal != "reliability" else self.halves
        pooled = [single(fitted.pooled(part, self.ids)) for part in parts]
        first, *rest = (fitted.processing.apply(rows) for rows in pooled)
        return first, rest[0] if rest else None


def single(rows: Rows) -> Rows:
    """Return rows in single precision."""
    return rows.astype(np.float32, copy=False)


def unit_rows(X: Rows) -> Rows:
    """Scale rows to length one; those that are zero stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    return np.asarray(X / np.where(norms > 0, norms, 1)[:, None])


def class_sums(X: Rows, labels: NDArray[np.intp], n_classes: int) -> Rows:
    """Return the sum of the rows of each class, (K, d)."""
    members = np.zeros((n_classes, len(X)), dtype=X.dtype)
    members[labels, np.arange(len(X))] = 1
    return np.asarray(members @ X)


def spherical_k_means(X: Rows, n_clusters: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Cluster unit vectors by cosine: k-means++ starts, the best of three runs.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], dtype=np.float32)
    >>> found = spherical_k_means(unit_rows(X), 2, np.random.default_rng(0))
    >>> bool(found[0] == found[1] != found[2] == found[3])
    True
    """
    best, most = np.zeros(len(X), dtype=np.intp), -np.inf
    for _ in range(N_STARTS):
        centres = [X[rng.integers(len(X))]]
        nearest = X @ centres[0]
        for _ in range(min(n_clusters, len(X)) - 1):
            chances = np.maximum(1 - nearest, 0).astype(np.float64)
            total = chances.sum()
            chances = chances / total if total > 0 else np.full(len(X), 1 / len(X))
            centres.append(X[rng.choice(len(X), p=chances)])
            nearest = np.maximum(nearest, X @ centres[-1])
        C = np.array(centres)
        labels = np.argmax(X @ C.T, axis=1)
        for _ in range(N_STEPS):
            sums = class_sums(X, labels, len(C))
            C = np.where(np.any(sums, axis=1, keepdims=True), unit_rows(sums), C)
            moved = np.argmax(X @ C.T, axis=1)
            if np.array_equal(moved, labels):
                break
            labels = moved
        fit = float(np.sum(np.einsum("ij,ij->i", X, C[labels])))
        if fit > most:
            best, most = labels, fit
    return np.asarray(best, dtype=np.intp)


def adjusted_mutual_information(a: NDArray[np.integer[Any]], b: NDArray[np.integer[Any]]) -> float:
    """Return (I − E)/((H_a + H_b)/2 − E), E the mean of I over tables with the same margins.

    Examples
    --------
    >>> adjusted_mutual_information(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    return float(_information_values(a, b).mean())


def _information_values(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Return numbers whose mean is the adjusted mutual information, one a text.

    With pointwise information i = log p_ab/(p_a p_b) and entropy h = −(log p_a + log p_b)/2, the
    index is A = (I − E)/(H − E), and a text adds (i − I − A(h − H))/(H − E) to first order.
    """
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a, b), 1.0)
    n = len(a)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = _expected_information(rows[rows > 0], columns[columns > 0], n)
    information = np.log(table[a, b] * n / (rows[a] * columns[b]))
    entropy = -(np.log(rows[a] / n) + np.log(columns[b] / n)) / 2
    scale = entropy.mean() - expected
    if scale < 1e-12:
        return np.ones(n)
    index = (information.mean() - expected) / scale
    influence = (information - information.mean()) - index * (entropy - entropy.mean())
    return np.asarray(index + influence / scale)


def _expected_information(rows: Floats, columns: Floats, n: int) -> float:
    """Return E[I] when rows and columns are matched at random (hypergeometric)."""
    from scipy.special import gammaln

    total = 0.0
    for r in rows:
        cells = np.arange(1, int(min(r, columns.max())) + 1)[:, None]
        inside = (cells >= r + columns - n) & (cells <= columns)
        safe = np.where(inside, cells, np.maximum(1, r + columns - n))
        logs = (
            gammaln(r + 1) + gammaln(columns + 1) + gammaln(n - r + 1) + gammaln(n - columns + 1)
        )
        logs = logs - gammaln(n + 1) - gammaln(safe + 1) - gammaln(r - safe + 1)
        logs -= gammaln(columns - safe + 1) + gammaln(n - r - columns + safe + 1)
        terms = safe / n * np.log(safe * n / (r * columns)) * np.exp(logs)
        total += float(np.sum(terms[inside]))
    return total


def _spearman_values(x: Floats, y: Floats) -> Floats:
    """Return numbers whose mean is Spearman's correlation ρ: ρ + ab − ρ(a² + b²)/2, ranks a, b."""
    from scipy.stats import rankdata

    a, b = (rankdata(v) for v in (x, y))
    a, b = ((v - v.mean()) / max(float(v.std()), 1e-300) for v in (a, b))
    rho = float(np.mean(a * b))
    return np.asarray(a * b + rho * (1 - (a**2 + b**2) / 2))


def _reliability_values(A: Rows, B: Rows) -> Floats:
    """Return for each text the share of other texts whose second half is less similar."""
    A, B = A[: MOST_QUERIES * 2], B[: MOST_QUERIES * 2]
    values = np.empty(len(A))
    for start in range(0, len(A), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(A)))
        cosines = A[rows] @ B.T
        own = cosines[np.arange(len(rows)), rows][:, None]
        below = np.sum(cosines < own, axis=1) + (np.sum(cosines == own, axis=1) - 1) / 2
        values[rows] = below / max(len(A) - 1, 1)
    return values
