"""Accuracy of ridge classification of pooled vectors on held-out folds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.learning_curve import (
    MULTIPLES,
    RIDGES,
    predict_learning_curve,
)
from attnlaw.diagnostics.pooling.moments import Basis
from attnlaw.diagnostics.pooling.poolings import Rows, Run, standard_error
from attnlaw.estimators.alternation import trained_weights
from attnlaw.theory.accuracy import gaussian_accuracy

__all__ = [
    "Folds",
    "HeldOutScores",
    "LabelledStudy",
    "cross_validate",
    "ridge_answers",
    "simultaneous_quantile",
]

N_HALVES = 16  # ways to split the sequences for products of means without bias
CROSS_VALIDATION = 4 / 3
"""Factor of the standard error of cross-validated accuracies and of their differences. Each pair
of sequences enters twice, as training and test and the other way round, so that the answers are
not independent: without signal the variance of their mean is 1 + 2/π times that of independent
ones, with and without signal 1.21² to 1.39² times in simulations."""


@dataclass(frozen=True, kw_only=True)
class Folds:
    """Labels as numbers, and the part of the data that each sequence is held out in."""

    classes: NDArray[np.generic]  # their names
    labels: NDArray[np.intp]  # (N,), from 0
    groups: NDArray[np.intp]  # (N,): copies have the same number
    parts: NDArray[np.intp]  # (N,), from 0 to n − 1
    n: int

    @staticmethod
    def of(
        labels: NDArray[np.generic],
        n: int,
        rng: np.random.Generator,
        groups: NDArray[np.intp] | None = None,
    ) -> "Folds":
        """Distribute the sequences of each class evenly over n folds, copies to the same fold."""
        classes, numbers = np.unique(labels, return_inverse=True)
        groups = np.arange(len(labels)) if groups is None else groups
        _, first, members = np.unique(groups, return_index=True, return_inverse=True)
        part = np.empty(len(first), dtype=np.intp)
        for k in range(len(classes)):
            (rows,) = np.nonzero(numbers[first] == k)
            part[rng.permutation(rows)] = np.arange(len(rows)) % n
        return Folds(
            classes=classes,
            labels=numbers.astype(np.intp),
            groups=groups,
            parts=part[members],
            n=n,
        )

    @cached_property
    def targets(self) -> Floats:
        """One column a class, 1 where a sequence belongs to it."""
        return np.eye(len(self.classes))[self.labels]

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Sequences fold by fold."""
        return np.argsort(self.parts, kind="stable")

    @cached_property
    def slices(self) -> list[slice]:
        """Where each fold is in that order."""
        ends = np.cumsum(np.bincount(self.parts, minlength=self.n))
        return [slice(int(a), int(b)) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @cached_property
    def originals(self) -> NDArray[np.intp]:
        """Rows without further copies of any."""
        return np.sort(np.unique(self.groups, return_index=True)[1])

    @property
    def majority_accuracy(self) -> float:
        """Accuracy of always answering the largest class."""
        return float(np.bincount(self.labels).max() / len(self.labels))


class HeldOutScores(NamedTuple):
    """Scores of a pooling when each fold is classified by the others."""

    right: NDArray[np.bool_]  # (N,): whether a sequence held out is classified correctly
    ridges: NDArray[np.intp]  # (n,): which of `RIDGES` each fold was classified with


def simultaneous_quantile(n_comparisons: int, n_groups: int) -> float:
    """Return Student's quantile for intervals that hold together at 95 % (Bonferroni)."""
    from scipy.special import stdtrit

    return float(stdtrit(max(n_groups - 1, 1), 1 - 0.025 / n_comparisons))


def cross_validate(pooled: Rows, folds: Folds) -> HeldOutScores:
    """Return for each sequence whether the classifier trained on the other folds is right.

    Ridge regression of the class indicators on the pooled vectors, with an intercept; the largest
    answer wins. For each fold λ is the one of `RIDGES` that does best on the other folds.
    """
    X, Y = _fold_by_fold(pooled, folds)
    right = np.zeros((len(RIDGES), len(X)), dtype=bool)
    for fold, answers in zip(folds.slices, _fold_answers(X, Y, folds), strict=True):
        right[:, folds.order[fold]] = answers == folds.labels[folds.order[fold]]
    chosen = np.array([right[:, folds.parts != f].mean(axis=1).argmax() for f in range(folds.n)])
    return HeldOutScores(right[chosen[folds.parts], np.arange(len(X))], chosen)


def ridge_answers(
    train: Rows,
    labels: NDArray[np.intp],
    test: Rows,
    rng: np.random.Generator,
    groups: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Return the classes of test vectors by ridge regression on training vectors.

    λ is the one of `RIDGES` that does best on three folds of the training vectors.
    """
    folds = Folds.of(labels, 3, rng, groups)
    X, Y = _fold_by_fold(train, folds)
    right = np.zeros(len(RIDGES))
    for fold, answers in zip(folds.slices, _fold_answers(X, Y, folds), strict=True):
        right += (answers == folds.labels[folds.order[fold]]).sum(axis=1)
    best = (RIDGES[int(right.argmax())],)
    (answers,) = _answers(_sums(X, Y), best, test - train.mean(axis=0))
    return np.asarray(folds.classes[answers], dtype=np.intp)


def _fold_answers(X: Rows, Y: Floats, folds: Folds) -> Iterator[NDArray[np.intp]]:
    """Yield the classes of each fold for each λ, (λ, n), by regression on the other folds.

    From sums over the folds, or from products of the vectors where there are fewer of these than
    dimensions.
    """
    if len(X) < X.shape[1]:
        K = (X @ X.T).astype(np.float64)
        for fold in folds.slices:
            yield _dual_answers(K, Y, fold, X.shape[1])
        return
    sums = [_sums(X[fold], Y[fold]) for fold in folds.slices]
    total = [sum(parts) for parts in zip(*sums, strict=True)]
    for fold, part in zip(folds.slices, sums, strict=True):
        rest = [whole - own for whole, own in zip(total, part, strict=True)]
        yield _answers(rest, RIDGES, X[fold])


def _dual_answers(K: Floats, Y: Floats, fold: slice, dimension: int) -> NDArray[np.intp]:
    """Return the same for one fold from K = XXᵀ: y + k(K_c + nλ)⁻¹Y_c, centred on the others.

    λ is in units of tr S/d = tr K_c/(nd), so that nλ is in units of tr K_c/d.
    """
    from scipy.linalg import cho_factor, cho_solve

    rest = np.r_[0 : fold.start, fold.stop : len(K)]
    inner, cross = K[np.ix_(rest, rest)], K[fold][:, rest]
    mean = inner.mean(axis=0)
    cross = cross - cross.mean(axis=1, keepdims=True) - (mean - mean.mean())
    inner = inner - mean - mean[:, None] + mean.mean()
    centre = Y[rest].mean(axis=0)
    diagonal = np.diag(inner).copy()
    scale, floor = diagonal.sum() / dimension, 1e-12 * len(rest)
    found = []
    for ridge in RIDGES:
        inner[np.diag_indices_from(inner)] = diagonal + ridge * scale + floor
        A = cho_solve(cho_factor(inner, check_finite=False), Y[rest] - centre, check_finite=False)
        found.append((centre + cross @ A).argmax(axis=1))
    return np.array(found)


def _evaluate_fold(pooled: Rows, folds: Folds, fold: int, ridge: int) -> NDArray[np.bool_]:
    """Return the same for one fold, pooled by weights trained on the others, with a given λ."""
    X, Y = _fold_by_fold(pooled, folds)
    test = folds.slices[fold]
    before, after = slice(0, test.start), slice(test.stop, len(X))
    train = [
        a + b for a, b in zip(_sums(X[before], Y[before]), _sums(X[after], Y[after]), strict=True)
    ]
    (answers,) = _answers(train, (RIDGES[ridge],), X[test])
    return np.asarray(answers == folds.labels[folds.order[test]])


def _fold_by_fold(pooled: Rows, folds: Folds) -> tuple[Rows, Floats]:
    """Return centred vectors and targets in the order of the folds, so that folds are slices."""
    X = pooled[folds.order]
    X -= X.mean(axis=0)
    return X, folds.targets[folds.order]


def _sums(X: Rows, Y: Floats) -> list[Any]:
    """Return what a regression needs: XᵀX, XᵀY, Σx, Σy, n."""
    XX, XY = (X.T @ X).astype(np.float64), (X.T @ Y.astype(np.float32)).astype(np.float64)
    return [XX, XY, X.sum(axis=0, dtype=np.float64), Y.sum(axis=0), float(len(X))]


def _regression(sums: list[Any], ridges: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Return coefficients for each λ, (d, K) after (λ,), and the means of x and y."""
    from scipy.linalg import cho_factor, cho_solve

    XX, XY, x, y, n = sums
    S, H = XX / n - np.outer(x, x) / n**2, XY / n - np.outer(x, y) / n**2
    diagonal, scale = np.diag(S).copy(), np.trace(S) / len(S) or 1.0  # H = 0 where S is
    B = np.empty((len(ridges), *H.shape))
    for i, ridge in enumerate(ridges):
        S[np.diag_indices_from(S)] = diagonal + ridge * scale
        B[i] = cho_solve(cho_factor(S, check_finite=False), H, check_finite=False)
    return B, x / n, y / n


def _answers(sums: list[Any], ridges: Sequence[float], X: Rows) -> NDArray[np.intp]:
    """Return the class of each vector for each λ, (λ, n)."""
    B, x, y = _regression(sums, ridges)
    columns = np.concatenate(list(B), axis=1).astype(np.float32)  # (d, λK)
    constant = y - x @ B  # (λ, K)
    scores = (X @ columns).reshape(len(X), len(ridges), -1) + constant.astype(np.float32)
    return np.asarray(scores.argmax(axis=2).T)


@dataclass(frozen=True, kw_only=True)
class LabelledStudy:
    """Which sequences each pooling gets right when they are held out."""

    data: Sequences
    folds: Folds
    scores: dict[str, HeldOutScores] = field(default_factory=dict)

    def train(self, run: Run) -> tuple[Floats, dict[str, Floats]]:
        """Train weights on all labels, and on those of all folds but one, by its number."""
        data, folds = self.data, self.folds

        def train(held_out: int | None) -> Floats:
            if held_out is None:
                return trained_weights(data, folds.labels)
            (rows,) = np.nonzero(folds.parts != held_out)
            return trained_weights(data.take(rows), folds.labels[rows])

        trained, *by_fold = run(train, (None, *range(folds.n)))
        return trained, {str(f): weights for f, weights in enumerate(by_fold)}

    def evaluate(self, pooled: Mapping[str, Rows], run: Run) -> None:
        """Cross-validate poolings that do not depend on the labels, and the trained one.

        Each fold of the trained pooling is classified with the weights trained without it, under
        the fold's number; λ as for the mean.
        """
        folds = self.folds
        plain = [name for name in pooled if name != "trained" and not name.isdigit()]
        found = run(lambda name: cross_validate(pooled[name], folds), plain)
        self.scores.update(zip(plain, found, strict=True))
        ridges = self.scores["mean"].ridges
        right = np.zeros(len(folds.labels), dtype=bool)

        def evaluate(f: int) -> NDArray[np.bool_]:
            return _evaluate_fold(pooled[str(f)], folds, f, int(ridges[f]))

        for fold, own in zip(folds.slices, run(evaluate, range(folds.n)), strict=True):
            right[folds.order[fold]] = own
        self.scores["trained"] = HeldOutScores(right, ridges)

    def gain_interval(self, name: str, n_comparisons: int) -> tuple[float, float]:
        """Return the interval of the gain in accuracy over the mean, for all comparisons together.

        Student's, with copies counted once and the variance of cross-validation.
        """
        gains = self.scores[name].right.astype(np.float64) - self.scores["mean"].right
        half = CROSS_VALIDATION * standard_error(gains, self.folds.groups)
        half *= simultaneous_quantile(n_comparisons, len(self.folds.originals))
        return float(gains.mean() - half), float(gains.mean() + half)

    def findings(
        self, name: str, pooled: Rows, noise: Basis, n_comparisons: int, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the fields of a candidate that need labels."""
        folds = self.folds
        right = self.scores[name].right
        train = len(folds.originals) * (folds.n - 1) / folds.n
        rows = folds.originals
        curve = predict_learning_curve(
            pooled[rows], folds.labels[rows], [k * train for k in MULTIPLES]
        )
        n_effective = len(rows) / CROSS_VALIDATION**2
        found: dict[str, Any] = {
            "accuracy": float(right.mean()),
            "accuracy_interval": _wilson(float(right.mean()), n_effective),
            "accuracy_gain_interval": self.gain_interval(name, n_comparisons),
            "predicted_accuracies": curve.accuracies,
            "predicted_intervals": curve.intervals,
        }
        if len(folds.classes) == 2:
            found["independent_accuracy"] = self._independent(pooled, noise, train, rng)
        return found

    def _independent(
        self, pooled: Rows, noise: Basis, n_train: float, rng: np.random.Generator
    ) -> float:
        """Predict the accuracy for two classes if tokens were independent.

        Class means are taken from random halves and from their rests, whose products have no bias.
        """
        y = self.folds.labels == 1
        share = float(y.mean())
        (low_a, low_b), (high_a, high_b) = (
            _means_by_halves(pooled[y == c], rng) for c in (False, True)
        )
        m_a, m_b = (high_a - low_a) / 2, (high_b - low_b) / 2
        t = noise.variances
        products = np.mean((m_a @ noise.vectors) * (m_b @ noise.vectors), axis=0)
        return max(
            gaussian_accuracy(t, products, n_train, 2 * share - 1, r * float(t.mean()))
            for r in RIDGES
        )


def _means_by_halves(rows: Rows, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the means of random halves of the rows and of their rests, (n, d)."""
    halves = np.zeros((N_HALVES, len(rows)), dtype=np.float32)
    for half in halves:
        half[rng.permutation(len(rows))[: len(rows) // 2]] = 1
    total, sums = rows.sum(axis=0, dtype=np.float64), (halves @ rows).astype(np.float64)
    n = len(rows) // 2
    return sums / n, (total - sums) / (len(rows) - n)


def _wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of n, at 95 %."""
    z2 = 1.96**2
    centre = (share * n + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * (share * (1 - share) * n + z2 / 4)) / (n + z2)
    return float(centre - half), float(centre + half)
