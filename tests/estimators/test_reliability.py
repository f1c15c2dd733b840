"""Reliability: the variance of new rows along sample eigenvectors, in two independent ways."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.estimators import SignalComponents, reliable_components
from attnlaw.estimators.reliability import predicted_variances


@pytest.mark.parametrize(("n", "d"), [(400, 200), (300, 150), (150, 300)])
def test_both_estimates_are_the_true_variance_along_sample_eigenvectors(n, d):
    rng = np.random.default_rng(0)
    variances = 1 / np.arange(1, d + 1)
    seen = []
    for _ in range(8):
        X = rng.standard_normal((n, d)) * np.sqrt(variances)
        found = reliable_components(X, rng=rng)
        _, _, vectors = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        k = min(len(found.held_out_variances), len(found.predicted_variances))
        truth = (vectors[:k] ** 2) @ variances
        blocks = np.array_split(np.arange(10, int(0.6 * k)), 4)
        mean = lambda q, blocks=blocks: [q[b].mean() for b in blocks]  # noqa: E731
        seen.append(
            [
                mean(found.held_out_variances / truth[: len(found.held_out_variances)]),
                mean(found.predicted_variances[:k] / truth),
                mean(found.eigenvalues[:k] / truth),
            ]
        )
    held_out, predicted, naive = np.mean(seen, axis=0)
    # A fifth of the rows less costs the held-out eigenvectors up to 12 % of the variance.
    assert_allclose(held_out, 1, atol=0.13)
    assert_allclose(predicted, 1, atol=0.13)
    assert naive[0] > 1.15  # the eigenvalues themselves are too large


def test_predicted_variances_keep_the_trace_and_are_exact_for_a_known_population():
    rng = np.random.default_rng(1)
    n, variances = 1500, np.repeat([1.0, 4.0], 150)
    X = rng.standard_normal((n, 300)) * np.sqrt(variances)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    q = predicted_variances(values[::-1], 300, n)
    truth = (vectors[:, ::-1].T ** 2) @ variances
    assert q.sum() == pytest.approx(truth.sum(), rel=0.03)
    # closer than half of what the eigenvalues are off
    assert np.abs(q - truth).mean() < 0.5 * np.abs(values[::-1] - truth).mean()


@pytest.mark.parametrize("noise", ["white", "more columns than rows", "t4 entries", "small"])
def test_noise_has_no_reliable_component(noise):
    rng = np.random.default_rng(2)
    draw = {
        "white": lambda: rng.standard_normal((200, 60)),
        "more columns than rows": lambda: rng.standard_normal((60, 150)),
        "t4 entries": lambda: rng.standard_t(4, (200, 60)),
        "small": lambda: rng.standard_normal((40, 6)),
    }[noise]
    found = [reliable_components(draw(), rng=rng).n_reliable for _ in range(20)]
    assert np.count_nonzero(found) <= 1


def test_copies_share_a_fold_and_do_not_make_noise_significant():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 120))
    copies = np.concatenate([X] * 4) + 0.05 * rng.standard_normal((240, 120))
    found = reliable_components(copies)
    assert (found.n_rows, found.n_reliable) == (60, 0)


def test_errors_cover_the_spread_between_samples():
    rng = np.random.default_rng(4)
    scales = np.sqrt(np.concatenate([[8.0, 5.0, 3.0], np.ones(57)]))
    samples = [reliable_components(rng.standard_normal((300, 60)) * scales) for _ in range(60)]
    for name in ("held_out", "predicted"):
        first = np.array([getattr(s, f"{name}_variances")[0] for s in samples])
        error = np.mean([getattr(s, f"{name}_errors")[0] for s in samples])
        # the spread itself is known to 1/√120; a jackknife of five folds to about a quarter
        assert 0.6 < error / first.std() < 1.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"threshold": 1.0}, "threshold must be above 1"),
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2"),
        ({"pooled": np.ones((5, 3))}, "pooled must be such that some column"),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        reliable_components(**({"pooled": np.eye(9)} | arguments))


@pytest.mark.parametrize("centred", [True, False])
def test_halves_of_a_corpus_are_two_folds(centred, monkeypatch):
    """The same numbers as of rows whose folds are the halves of the pass."""
    from attnlaw.data.corpus_pass import RUN
    from attnlaw.estimators import reliability
    from attnlaw.sweeps import corpus_statistics

    rng = np.random.default_rng(4)
    X = rng.standard_normal((1024, 40)) * np.where(np.arange(40) < 5, 3.0, 1.0) + 0.3
    found = reliable_components(corpus_statistics(X, dtype=float), centred=centred)
    fold = np.arange(len(X)) // RUN % 2
    monkeypatch.setattr(reliability, "copy_groups", lambda rows: np.arange(len(rows)))

    class Fixed:
        def permutation(self, n):
            return fold

    monkeypatch.setattr(reliability, "random_generator", lambda rng: Fixed())
    rows = reliable_components(X, n_folds=2, centred=centred)
    assert found.n_reliable == rows.n_reliable == 5 + (not centred)
    for name in ("eigenvalues", "held_out_variances", "held_out_errors", "predicted_variances"):
        assert_allclose(getattr(found, name), getattr(rows, name), rtol=1e-9)
    assert_allclose(found.floor, rows.floor)
    assert_allclose(found.components, rows.components, atol=1e-8)
    kept = SignalComponents(centred=centred).fit(corpus_statistics(X, dtype=float))
    scores = kept.transform(X)
    assert_allclose(kept.explained_variance_, np.mean(scores**2, axis=0))
