"""Accuracy of ridge classification on pooled sequences: measured on folds, and predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.poolings import Rows

__all__ = [
    "RIDGES",
    "Folds",
    "Judged",
    "cross_validate",
    "judge_fold",
    "predicted_accuracy",
    "trained_weights",
]

RIDGES = (0.003, 0.03, 0.3, 3.0)
"""λ to choose from, in units of the mean variance of a pooled coordinate."""

TRAINED_ON = 10_000  # sequences from which weights are trained on labels
BLOCK_NUMBERS = 2**24  # of their projections, at a time


@dataclass(frozen=True, kw_only=True)
class Folds:
    """Labels as numbers, and the part of the data that each sequence is held out in."""

    classes: NDArray[np.generic]  # their names
    labels: NDArray[np.intp]  # (N,), from 0
    parts: NDArray[np.intp]  # (N,), from 0 to n − 1
    n: int

    @staticmethod
    def of(labels: NDArray[np.generic], n: int, rng: np.random.Generator) -> "Folds":
        """Deal out the sequences of each class to n folds alike."""
        classes, numbers = np.unique(labels, return_inverse=True)
        parts = np.empty(len(labels), dtype=np.intp)
        for k in range(len(classes)):
            (rows,) = np.nonzero(numbers == k)
            parts[rng.permutation(rows)] = np.arange(len(rows)) % n
        return Folds(classes=classes, labels=numbers.astype(np.intp), parts=parts, n=n)

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


class Judged(NamedTuple):
    """How a pooling fares when each fold is judged by the others."""

    right: NDArray[np.bool_]  # (N,): whether a sequence held out is classified rightly
    ridges: NDArray[np.intp]  # (n,): which of `RIDGES` each fold was judged with
    covariance: Floats  # (d, d): of the pooled sequences


def cross_validate(pooled: Rows, folds: Folds) -> Judged:
    """Tell for each sequence whether the classifier trained on the other folds gets it right.

    Ridge regression of the class indicators on the pooled vectors, with an intercept; the largest
    answer wins. For each fold λ is the one of `RIDGES` that does best on the other folds.
    """
    X, Y = _fold_by_fold(pooled, folds)
    sums = [_sums(X[fold], Y[fold]) for fold in folds.slices]
    total = [sum(parts) for parts in zip(*sums, strict=True)]
    right = np.zeros((len(RIDGES), len(X)), dtype=bool)
    for fold, part in zip(folds.slices, sums, strict=True):
        train = [whole - own for whole, own in zip(total, part, strict=True)]
        answers = _answers(train, RIDGES, X[fold])
        right[:, folds.order[fold]] = answers == folds.labels[folds.order[fold]]
    chosen = np.array([right[:, folds.parts != f].mean(axis=1).argmax() for f in range(folds.n)])
    return Judged(right[chosen[folds.parts], np.arange(len(X))], chosen, total[0] / len(X))


def judge_fold(pooled: Rows, folds: Folds, fold: int, ridge: int) -> NDArray[np.bool_]:
    """Tell the same for one fold, pooled by weights trained on the others, with a given λ."""
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
    diagonal, scale = np.diag(S).copy(), np.trace(S) / len(S)
    B = np.empty((len(ridges), *H.shape))
    for i, ridge in enumerate(ridges):
        S[np.diag_indices_from(S)] = diagonal + ridge * scale + 1e-12
        B[i] = cho_solve(cho_factor(S, check_finite=False), H, check_finite=False)
    return B, x / n, y / n


def _answers(sums: list[Any], ridges: Sequence[float], X: Rows) -> NDArray[np.intp]:
    """Return the class of each vector for each λ, (λ, n)."""
    B, x, y = _regression(sums, ridges)
    columns = np.concatenate(list(B), axis=1).astype(np.float32)  # (d, λK)
    constant = y - x @ B  # (λ, K)
    scores = (X @ columns).reshape(len(X), len(ridges), -1) + constant.astype(np.float32)
    return np.asarray(scores.argmax(axis=2).T)


def predicted_accuracy(
    variances: Floats,
    mean_products: Floats,
    n_samples: float,
    balance: float,
    ridge: float,
    *,
    n_covariance: float = np.inf,
) -> float:
    """Accuracy of ridge classification of two classes, from covariance, means and N.

    Parameters
    ----------
    variances : array of shape (d,)
        Eigenvalues t of the covariance within a class, of the pooled vectors.
    mean_products : array of shape (d,)
        Squared components m_j² of half the difference of the class means along its eigenvectors;
        estimates without bias may be negative here and there.
    n_samples : float
        N of the training, or infinity.
    balance : float
        ȳ, the mean of labels ±1.
    ridge : float
        λ.
    n_covariance : float
        Number n of vectors from which the covariance was estimated; infinity if it is true.

    Notes
    -----
    Derived in docs/theory/classification.md, "Any noise, classes of any size".

    With σ² = 1 − ȳ² the variance of the
    label, ν solves λ = ν (1 − (1/N) Σ t/(t+ν)) and

        ω = Σ m²/(t+ν),  ω₂ = Σ m²/(t+ν)²,  Γ = (1/N) Σ t²/(t+ν)²,  A = σ²ω/(1+σ²ω),
        v = [σ² − σ²A − ν σ⁴ ω₂/(1+σ²ω)²]/(1−Γ) − σ²(1−A)² :

    the score of a sequence of class y is ȳ + A(y−ȳ) plus noise of variance v, and its sign is the
    answer. The sums are over the true covariance. From one estimated with n vectors they are had
    at another place, s, where ν = s/(1 − h(s)/n), h(s) = Σ t/(t+s) (Silverstein's equation):

        Σ t/(t+ν) → h(s),  ω → (s/ν) Σ m²/(t+s),  ω₂ → −dω/dν,  NΓ → h + ν dh/dν.

    Examples
    --------
    Infinitely many samples, white noise: Φ(‖m‖).

    >>> round(predicted_accuracy(np.ones(4), np.full(4, 0.25), np.inf, 0.0, 1e-9), 6)
    0.841345
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    t, variance = variances, 1 - balance**2

    def place(s: float) -> tuple[float, float, float]:
        """Return ν, Σ t/(t+ν) and ω of the true covariance."""
        h = float(np.sum(t / (t + s)))
        share = 1 - h / n_covariance
        return s / share, h, share * float(np.sum(mean_products / (t + s)))

    def excess(log_s: float) -> float:
        nu, h, _ = place(np.exp(log_s))
        return nu * (1 - h / n_samples) - ridge

    def unseen(log_s: float) -> float:
        return float(np.sum(t / (t + np.exp(log_s)))) - 0.98 * n_covariance

    low, high = np.log(ridge) - 12, np.log(ridge + t.max() + t.sum() / min(n_samples, 1e300)) + 1
    # From hardly more vectors than dimensions little is known of small ν; none below is taken.
    if unseen(low) > 0:
        low = brentq(unseen, low, np.log(t.sum() / n_covariance) + 1)
    s = float(np.exp(brentq(excess, low, max(high, low + 1)) if excess(low) < 0 else low))
    nu, h, w1 = place(s)
    (nu_low, h_low, w_low), (nu_high, h_high, w_high) = (
        place(s * (1 - 1e-5)),
        place(s * (1 + 1e-5)),
    )
    w1 = max(w1, 0.0)
    w2 = max(-(w_high - w_low) / (nu_high - nu_low), 0.0)
    leverage = (h + nu * (h_high - h_low) / (nu_high - nu_low)) / n_samples
    A = variance * w1 / (1 + variance * w1)
    error = variance * (1 - A) - nu * variance**2 * w2 / (1 + variance * w1) ** 2
    noise = error / (1 - leverage) - variance * (1 - A) ** 2
    root = np.sqrt(max(noise, 1e-300))
    share = (1 + balance) / 2
    right = share * ndtr((balance + A * (1 - balance)) / root)
    return float(right + (1 - share) * ndtr((A * (1 + balance) - balance) / root))


def trained_weights(
    data: Sequences, pooled: Rows, folds: Folds, held_out: int | None = None
) -> Floats:
    """Weights of the positions that tell the classes apart, from labels.

    Parameters
    ----------
    data : Sequences
    pooled : array of shape (N, d)
        By the mean.
    folds : Folds
    held_out : int, optional
        Fold whose labels are not looked at.

    Returns
    -------
    array of shape (L,)
        Σ|w| = 1.

    Notes
    -----
    One turn of the alternation for P1 App. J's problem min ‖Y − Σ_l w_l T_l B‖² + ridge, from mean
    pooling: with B from one half of the sequences, w is a regression on the L projections T_l B of
    the other half, and the two halves are added up. What chance explains of the differences
    between positions, mean Var(w_l)/Var_l(w), is then taken away (James and Stein), so that
    weights return to the mean where labels say nothing else.
    """
    (rows,) = (
        np.nonzero(folds.parts != held_out) if held_out is not None else (np.arange(len(pooled)),)
    )
    if len(rows) > TRAINED_ON:
        rows = rows[:: -(-len(rows) // TRAINED_ON)]
    L = data.shape[1]
    Y = folds.targets - folds.targets[rows].mean(axis=0)
    S, h = np.zeros((L, L)), np.zeros(L)
    for ours, theirs in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])):
        (B,), _, _ = _regression(_sums(pooled[ours], Y[ours]), (0.1,))
        theirs = theirs[np.argsort(-data.ends[theirs], kind="stable")]
        half = data.take(theirs, once=True)
        size = max(1, BLOCK_NUMBERS // (len(theirs) * L))
        for start in range(0, B.shape[1], size):
            columns = slice(start, start + size)
            P = half.project(B[:, columns])  # (K, N/2, L)
            h += np.einsum("kil,ik->l", P, Y[theirs, columns].astype(P.dtype))
            for run, end in half.spans:
                flat = P[:, run, :end].reshape(-1, end)
                S[:end, :end] += flat.T @ flat
    n_columns = Y.shape[1]
    ridge = 1e-3 * np.trace(S) / L
    inverse = np.linalg.inv(S + ridge * np.eye(L))
    w = inverse @ h
    residual = float(np.sum(Y[rows] ** 2) - 2 * w @ h + w @ S @ w) / (len(rows) * n_columns)
    # One of the columns follows from the others, so they hold a little less than they seem to.
    chance = residual * float(np.mean(np.diag(inverse))) * n_columns / max(n_columns - 1, 1)
    spread = float(np.var(w))
    w = w.mean() + max(0.0, 1 - chance / spread if spread > 0 else 0.0) * (w - w.mean())
    total = float(np.abs(w).sum())
    return np.asarray(w / total) if total > 0 else np.full(L, 1 / L)
