"""Learning curves from one labelled sample, against theory, fresh samples and pure noise."""

import numpy as np
import pytest

import attnlaw as al
from attnlaw.diagnostics import predict_learning_curve
from attnlaw.diagnostics.pooling import learning_curve
from attnlaw.diagnostics.pooling.learning_curve import RIDGES

D = 100
SPECTRUM = np.geomspace(0.1, 3, D)


def class_means(n_classes, norm, seed=0):
    means = np.random.default_rng(seed).standard_normal((n_classes, D)) * np.sqrt(SPECTRUM)
    return norm * means / np.sqrt(D)


def draw(means, n, rng):
    y = rng.permutation(np.arange(n) % len(means))
    return rng.standard_normal((n, D)) * np.sqrt(SPECTRUM) + means[y], y


def best_accuracy(means, n):
    """The closed form for K Gaussian classes, at the best ridge."""
    model = al.PooledClasses(
        vocab_ratio=0.0, sample_ratio=D / n, class_means=means, noise_spectrum=SPECTRUM,
        correlation=[[1.0]], weights=[1.0],
    )  # fmt: skip
    ridges = np.array(RIDGES) * SPECTRUM.mean()
    return al.predict_accuracy(model, ridges).accuracy.max()


@pytest.mark.parametrize(("n_classes", "norm", "n"), [(2, 1.6, 120), (2, 1.6, 200), (5, 2, 300)])
def test_curve_agrees_with_the_closed_form_of_gaussian_classes(n_classes, norm, n):
    means = class_means(n_classes, norm)
    sizes = [n, 2 * n, 4 * n]
    truth = np.array([best_accuracy(means, N) for N in sizes])
    assert truth[2] > truth[0] + 0.05  # there is something to predict
    curves = [
        predict_learning_curve(*draw(means, n, rng), sizes)
        for rng in np.random.default_rng(1).spawn(24)
    ]
    found = np.array([curve.accuracies for curve in curves])
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    # The prior and the choice of the ridge leave up to 1.5 points of bias.
    assert np.all(np.abs(found.mean(axis=0) - truth) < 3 * errors + 0.015)
    # As if nothing changed with more data:
    assert truth[2] - found[:, 0].mean() > 3 * errors[0] + 0.015
    covered = np.mean(
        [[a <= t <= b for (a, b), t in zip(c.intervals, truth, strict=True)] for c in curves]
    )
    assert covered > 0.85


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("n", [60, 150, 400])
def test_pure_noise_stays_noise(n, n_classes):
    rng = np.random.default_rng(2)
    found, covered = [], []
    for _ in range(60 if n == 60 else 20):
        y = rng.permutation(np.arange(n) % n_classes)
        curve = predict_learning_curve(rng.standard_normal((n, D)), y)
        found.append(curve.accuracies[:3])
        covered.append([low <= 1 / n_classes <= high for low, high in curve.intervals])
    assert np.all(np.abs(np.mean(found, axis=0) - 1 / n_classes) < 0.03)
    assert np.mean(covered) > 0.85


def test_leave_one_out_scores_are_those_of_refitted_regressions():
    rng = np.random.default_rng(3)
    X, y = draw(class_means(3, 2.0), 30, rng)
    sample = learning_curve._LabelledSample.of(X, y)
    ridge = 0.4
    scores = sample.leave_one_out(ridge)
    for i in (0, 7):
        others = np.arange(30) != i
        A = np.c_[np.ones(29), X[others]]
        penalty = 30 * ridge * np.diag([0.0] + D * [1.0])
        b = np.linalg.solve(A.T @ A + penalty, A.T @ sample.targets[others])
        refitted = np.r_[1.0, X[i]] @ b - sample.targets[others].mean(axis=0)
        np.testing.assert_allclose(scores[i], refitted, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_smoothed_shares_are_unbiased_for_gaussian_scores_and_vary_less_than_counts(n_classes):
    n, r = 240, n_classes - 1
    y = np.arange(n) % n_classes
    sample = learning_curve._LabelledSample.of(np.zeros((n, 1)) + y[:, None], y)
    factor = np.array([[1.3]]) if r == 1 else np.array([[1.0, 0.0], [0.5, 0.8]])
    means = 0.8 * sample.targets

    def counts(deviations, times=1):
        scores = np.tile(means, (times, 1)) + deviations
        answers = sample.expected_shares + scores @ sample.to_scores.T
        return float(np.mean(answers.argmax(axis=1) == np.tile(y, times)))

    rng = np.random.default_rng(6)
    truth = counts(rng.standard_normal((2000 * n, r)) @ factor.T, 2000)
    plain, smooth = [], []
    for _ in range(400):
        deviations = rng.standard_normal((n, r)) @ factor.T
        plain.append(counts(deviations))
        smooth.append(learning_curve._smoothed_share(sample, means, deviations, factor @ factor.T))
    error = np.std(smooth) / np.sqrt(len(smooth))
    assert abs(np.mean(smooth) - truth) < 5 * error
    # Clouds around scores that are not drawn together first would be off by 7 to 12 such errors.
    assert np.std(smooth) < 0.93 * np.std(plain)


def test_nothing_is_predicted_below_the_largest_class():
    rng = np.random.default_rng(4)
    y = np.arange(200) % 5 == 0
    curve = predict_learning_curve(rng.standard_normal((200, D)), y)
    assert curve.majority_accuracy == 0.8
    assert min(curve.accuracies) >= 0.79  # less the share that chance explains of the difference


def test_many_samples_are_thinned(monkeypatch):
    X, y = draw(class_means(2, 1.5), 900, np.random.default_rng(5))
    full = predict_learning_curve(X, y)
    monkeypatch.setattr(learning_curve, "MOST_ROWS", 450)
    thinned = predict_learning_curve(X, y)
    assert thinned.n_samples == full.n_samples
    np.testing.assert_allclose(thinned.accuracies, full.accuracies, atol=0.05)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros(7), "labels must be 10 numbers or words, one a sequence"),
        (np.zeros(10), "labels must be two or more classes of at least two samples, got '1 cl"),
        (np.arange(10), "the smallest of 1"),
    ],
)
def test_invalid_labels_are_reported(labels, words):
    with pytest.raises(ValueError, match=words):
        predict_learning_curve(np.eye(10), labels)
