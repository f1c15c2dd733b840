"""What labels say about poolings: accuracy measured on folds, beside accuracy predicted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.candidates import MULTIPLES
from attnlaw.diagnostics.pooling.classification import (
    RIDGES,
    Folds,
    Judged,
    cross_validate,
    judge_fold,
    predicted_accuracy,
    trained_weights,
)
from attnlaw.diagnostics.pooling.moments import Basis, covariance
from attnlaw.diagnostics.pooling.poolings import Rows, pooling_weights
from attnlaw.diagnostics.pooling.threads import Run

__all__ = ["LabelledStudy"]

N_HALVES = 16  # ways to part the sequences for products of means without bias


@dataclass(frozen=True, kw_only=True)
class LabelledStudy:
    """Which sequences each pooling gets right when they are held out."""

    data: Sequences
    folds: Folds
    judged: dict[str, Judged] = field(default_factory=dict)

    def train(self, run: Run) -> tuple[Floats, dict[str, Floats]]:
        """Train weights on all labels, and on those of all folds but one, by its number."""
        data, folds = self.data, self.folds
        pooled = data.pool(pooling_weights("mean", data.shape[1], data.mask))
        pooled = pooled.astype(np.float32, copy=False)

        def train(held_out: int | None) -> Floats:
            return trained_weights(data, pooled, folds, held_out)

        trained, *by_fold = run(train, (None, *range(folds.n)))
        return trained, {str(f): weights for f, weights in enumerate(by_fold)}

    def judge(self, pooled: Mapping[str, Rows], run: Run) -> None:
        """Cross-validate poolings that know nothing of the labels, and the trained one.

        Each fold of the trained pooling is judged by the weights trained without it, under the
        fold's number; λ as for the mean.
        """
        folds = self.folds
        plain = [name for name in pooled if name != "trained" and not name.isdigit()]
        judged = run(lambda name: cross_validate(pooled[name], folds), plain)
        self.judged.update(zip(plain, judged, strict=True))
        ridges = self.judged["mean"].ridges
        right = np.zeros(len(folds.labels), dtype=bool)

        def judge(f: int) -> NDArray[np.bool_]:
            return judge_fold(pooled[str(f)], folds, f, int(ridges[f]))

        for fold, own in zip(folds.slices, run(judge, range(folds.n)), strict=True):
            right[folds.order[fold]] = own
        self.judged["trained"] = Judged(right, ridges, covariance(pooled["trained"]))

    def findings(
        self, name: str, pooled: Rows, noise: Basis, quantile: float, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the fields of a candidate that need labels; gains at a given normal quantile."""
        right, mean = self.judged[name].right, self.judged["mean"].right
        N = len(right)
        gains = right.astype(np.float64) - mean
        spread = quantile * float(gains.std(ddof=1)) / np.sqrt(N)
        found: dict[str, Any] = {
            "accuracy": float(right.mean()),
            "accuracy_interval": _wilson(int(right.sum()), N),
            "accuracy_gain_interval": (gains.mean() - spread, gains.mean() + spread),
        }
        if len(self.folds.classes) == 2:
            predicted, independent = self.predict(pooled, self.judged[name].covariance, noise, rng)
            found |= {"predicted_accuracies": predicted, "independent_accuracy": independent}
        return found

    def predict(
        self, pooled: Rows, covariance: Floats, noise: Basis, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], float]:
        """Predict the accuracy of a pooling of two classes.

        Parameters
        ----------
        pooled : array of shape (N, d)
        covariance : array of shape (d, d)
            Of them.
        noise : Basis
            Covariance if tokens were independent.
        rng : Generator
            Draws the halves from which class means are taken twice, so that their products have
            no bias.

        Returns
        -------
        accuracies : tuple
            With the covariance as it is, at each of `MULTIPLES`; λ is the best of `RIDGES`.
        independent : float
            With independent tokens, at the present number.
        """
        N = len(pooled)
        y = self.folds.labels == 1
        share = float(y.mean())
        train = N * (self.folds.n - 1) / self.folds.n
        (low, low_a, low_b), (high, high_a, high_b) = (
            _means_by_halves(pooled[y == c], rng) for c in (False, True)
        )
        m, m_a, m_b = (high - low) / 2, (high_a - low_a) / 2, (high_b - low_b) / 2
        within = Basis.of(covariance - 4 * share * (1 - share) * np.outer(m, m))

        def accuracies(
            basis: Basis, n_covariance: float, multiples: tuple[float, ...]
        ) -> tuple[float, ...]:
            t = basis.variances
            products = np.mean((m_a @ basis.vectors) * (m_b @ basis.vectors), axis=0)
            scale = float(t.mean())
            return tuple(
                max(
                    predicted_accuracy(
                        t,
                        products,
                        k * train,
                        2 * share - 1,
                        r * scale,
                        n_covariance=n_covariance,
                    )
                    for r in RIDGES
                )
                for k in multiples
            )

        (independent,) = accuracies(noise, np.inf, (1.0,))
        return accuracies(within, N, MULTIPLES), independent


def _means_by_halves(rows: Rows, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return the mean of the rows (d,), and those of random halves and of their rests, (n, d)."""
    halves = np.zeros((N_HALVES, len(rows)), dtype=np.float32)
    for half in halves:
        half[rng.permutation(len(rows))[: len(rows) // 2]] = 1
    total, sums = rows.sum(axis=0, dtype=np.float64), (halves @ rows).astype(np.float64)
    n = len(rows) // 2
    return total / len(rows), sums / n, (total - sums) / (len(rows) - n)


def _wilson(n_right: int, n: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, at 95 %."""
    z2 = 1.96**2
    centre = (n_right + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * (n_right * (n - n_right) / n + z2 / 4)) / (n + z2)
    return float(centre - half), float(centre + half)
