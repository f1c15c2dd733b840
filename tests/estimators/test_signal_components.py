import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import attnlaw as al
from attnlaw.estimators import SignalComponents, signal_components
from attnlaw.simulation import sample_pooled


@parametrize_with_checks([SignalComponents(), SignalComponents("tokens", centred=False)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def pooled(signal_norm, *, d=150, rng=0, prefix=5, centred=True):
    """Mean-pooled tokens, not centred."""
    model = al.PooledSequences(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        signal_norm=signal_norm,
        correlation=al.prefix_correlation(10, prefix),
        weights=al.mean_weights(10),
        centred=centred,
    )
    sample = sample_pooled(model, d, rng)
    return sample.pooled(signal_norm), sample


def kinds(found):
    return [(a.kind, a.component) for a in found.artefacts]


def test_components_are_the_principal_axes_and_overlap_as_predicted():
    X, _ = pooled(1.5, d=300)
    found = signal_components(X, n_tokens=600, snr=3.0)
    assert found.test.n_signals == 1
    pca = PCA(1, svd_solver="full").fit(X)
    assert abs(found.components[0] @ pca.components_[0]) == pytest.approx(1, abs=1e-9)
    assert_allclose(found.test.eigenvalues[0] * len(X) / (len(X) - 1), pca.explained_variance_)
    # The signal is along the first coordinate.
    assert found.signal_overlaps[0] == pytest.approx(found.components[0, 0] ** 2, abs=0.06)
    assert found.signal_overlaps[0] < found.test.squared_overlaps[0]
    assert np.isnan(signal_components(X, n_tokens=600).signal_overlaps).all()


def test_fewer_rows_than_columns_single_precision_and_blocks_agree(monkeypatch):
    X, _ = pooled(2.0)
    whole = signal_components(X)
    monkeypatch.setattr("attnlaw.estimators.spectrum.BLOCK_NUMBERS", 1000)
    blocked = signal_components(X)
    assert_allclose(blocked.test.eigenvalues, whole.test.eigenvalues, rtol=1e-10)
    single = signal_components(X.astype(np.float32))
    assert_allclose(single.test.eigenvalues, whole.test.eigenvalues, rtol=1e-4, atol=1e-6)
    few = X[:100]
    C = np.cov(few.T, bias=True)
    found = signal_components(few, noise="tokens", n_tokens=300, min_components=2)
    values, vectors = np.linalg.eigh(C)
    assert_allclose(found.test.eigenvalues[:99], values[::-1][:99], rtol=1e-8)
    assert_allclose(np.abs(found.components @ vectors[:, -2:]), [[0, 1], [1, 0]], atol=1e-8)


def test_the_mean_direction_is_named_when_nothing_is_centred():
    X, _ = pooled(0.0, prefix=0)
    raw = signal_components(X, n_tokens=300, centred=False)
    assert ("mean direction", 0) in kinds(raw)
    assert signal_components(X, n_tokens=300).test.n_signals == 0


def test_the_noise_of_class_means_is_named_and_a_signal_is_not():
    # Correlated signs with μ = 0 still make an outlier: along m, with ‖m‖² → δ.
    X, sample = pooled(0.0, prefix=8, rng=2)
    found = signal_components(X, n_tokens=300, snr=1 + 8 * 7 / 10)
    assert kinds(found) == [("table means", 0)]
    plus, minus = np.split(sample.table, 2)
    m = (plus.mean(axis=0) - minus.mean(axis=0)) / 2
    assert (found.components[0] @ m) ** 2 / (m @ m) > 0.7
    X, _ = pooled(1.0, prefix=8)
    assert kinds(signal_components(X, n_tokens=300, snr=1 + 8 * 7 / 10)) == []


def test_constant_columns_are_named_and_left_out():
    X, _ = pooled(2.0)
    wide = np.insert(X, [3, 40], 7.0, axis=1)
    found, plain = signal_components(wide), signal_components(X)
    assert kinds(found)[0] == ("constant columns", None)
    assert_allclose(found.test.p_values, plain.test.p_values, rtol=1e-6)
    assert_allclose(np.delete(found.components, [3, 41], axis=1), plain.components, atol=1e-8)
    assert_allclose(found.components[:, [3, 41]], 0)


def test_copies_of_rows_are_named_and_do_not_count():
    X, _ = pooled(0.0, prefix=0)
    twice = np.concatenate([X, X])
    found, plain = signal_components(twice, n_tokens=300), signal_components(X, n_tokens=300)
    assert kinds(found) == [("duplicated rows", None)]
    assert_allclose(found.test.p_values, plain.test.p_values, rtol=1e-6)
    assert found.test.n_signals == 0


def test_a_component_of_few_rows_is_named():
    X, _ = pooled(0.0, prefix=0)
    X[:4] += 3 * np.random.default_rng(0).standard_normal(X.shape[1])
    found = signal_components(X, n_tokens=300)
    assert ("few rows", 0) in kinds(found)


def test_heavy_tokens_are_named():
    d, V, N, L = 100, 400, 400, 10
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((V, d))
    tokens = rng.integers(V, size=(N, L))
    tokens[rng.random(N) < 0.4, 0] = 17
    X = Z[tokens].mean(axis=1)
    found = signal_components(X, n_tokens=V, tokens=tokens)
    heavy = [a for a in found.artefacts if a.kind == "heavy tokens"]
    assert [a.component for a in heavy] == [0]
    assert "17" in heavy[0].message
    plain = signal_components(*[Z[rng.integers(V, size=(N, L))].mean(axis=1)], n_tokens=V)
    assert kinds(plain) == []


def test_a_column_on_another_scale_is_named():
    X, _ = pooled(0.0, prefix=0)
    X[:, 5] *= 30
    assert ("single column", 0) in kinds(signal_components(X, n_tokens=300))


def test_transform_pipeline_and_grid_search():
    X, sample = pooled(1.5, rng=1)
    y = sample.signs[:, 0]
    components = SignalComponents(n_tokens=300).fit(X)
    assert components.n_signals_ == 1
    assert_allclose(components.transform(X)[:, 0], (X - X.mean(0)) @ components.components_[0])
    assert_allclose(components.transform(X).var(axis=0), components.explained_variance_)
    back = components.inverse_transform(components.transform(X))
    assert_allclose(components.transform(back), components.transform(X), atol=1e-10)
    search = GridSearchCV(
        make_pipeline(SignalComponents(), LogisticRegression()),
        {"signalcomponents__noise": ["auto", "independent"], "signalcomponents__level": [0.01]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.7
    assert clone(components).get_params()["n_tokens"] == 300


def test_at_least_and_at_most_so_many_components():
    X, _ = pooled(0.0, prefix=0)
    nothing = SignalComponents(n_tokens=300).fit(X)
    assert (nothing.n_signals_, nothing.transform(X).shape) == (0, (len(X), 1))
    none = SignalComponents(n_tokens=300, min_components=0).fit(X)
    assert none.transform(X).shape == (len(X), 0)
    one = SignalComponents("independent", max_components=1).fit(X)
    assert one.transform(X).shape == (len(X), 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pooled": np.ones(3)}, "pooled must be an array of real numbers with 2 axes"),
        ({"pooled": np.full((5, 3), np.inf)}, "pooled must be finite"),
        ({"pooled": np.ones((5, 3))}, "pooled must be such that some column"),
        ({"pooled": np.eye(5), "snr": 0}, "snr must be above 0"),
        ({"pooled": np.eye(5), "tokens": np.ones((4, 2), int)}, r"tokens must be of shape \(5,"),
        ({"pooled": np.eye(5), "min_components": -1}, "min_components must be a whole number"),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        signal_components(**arguments)
