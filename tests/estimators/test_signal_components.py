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
from attnlaw.estimators import SignalComponents, outlier_test, signal_components
from attnlaw.estimators.rows import copy_groups, equalised
from attnlaw.simulation import sample_pooled


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@parametrize_with_checks([SignalComponents(), SignalComponents("detected", centred=False)])
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
    found = signal_components(X, n_tokens=600, snr=3.0, scale_rows=False)
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
    monkeypatch.setattr("attnlaw.estimators.rows.BLOCK_NUMBERS", 1000)
    blocked = signal_components(X)
    assert_allclose(blocked.test.eigenvalues, whole.test.eigenvalues, rtol=1e-10)
    single = signal_components(X.astype(np.float32))
    assert_allclose(single.test.eigenvalues, whole.test.eigenvalues, rtol=1e-4, atol=1e-6)
    few = X[:100]
    C = np.cov(few.T, bias=True)
    found = signal_components(
        few, noise="tokens", n_tokens=300, min_components=2, scale_rows=False
    )
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
    X[:6] += 0.8 * np.random.default_rng(0).standard_normal(X.shape[1])
    found = signal_components(X, n_tokens=300, scale_rows=False)
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
    components = SignalComponents("detected", n_tokens=300).fit(X)
    assert components.n_vouched_ == components.analysis_.test.n_signals == 1
    assert_allclose(components.transform(X)[:, 0], (X - X.mean(0)) @ components.components_[0])
    assert_allclose(components.transform(X).var(axis=0), components.explained_variance_)
    back = components.inverse_transform(components.transform(X))
    assert_allclose(components.transform(back), components.transform(X), atol=1e-10)
    search = GridSearchCV(
        make_pipeline(SignalComponents(), LogisticRegression()),
        {"signalcomponents__keep": ["reliable", 0.5, 1]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.7
    assert clone(components).get_params()["n_tokens"] == 300


def test_a_column_that_nothing_vouches_for_comes_with_a_warning():
    X, _ = pooled(0.0, prefix=0)
    with pytest.warns(al.RegimeWarning, match="1 components are kept, 0 of them detected"):
        nothing = SignalComponents("detected", n_tokens=300).fit(X)
    assert nothing.transform(X).shape == (len(X), 1)
    none = SignalComponents("detected", n_tokens=300, min_components=0).fit(X)
    assert none.transform(X).shape == (len(X), 0)
    white = np.random.default_rng(0).standard_normal((200, 50))
    with pytest.warns(al.RegimeWarning, match="1 components are kept, 0 of them reliable"):
        assert SignalComponents().fit_transform(white).shape == (200, 1)
    with pytest.warns(al.RegimeWarning, match="7 components are kept, 0 of them reliable"):
        assert SignalComponents(7).fit_transform(white).shape == (200, 7)
    assert SignalComponents(min_components=0).fit_transform(white).shape == (200, 0)


def test_a_share_of_the_reliable_variance_is_kept():
    X = np.random.default_rng(0).standard_normal((400, 40)) * np.geomspace(10, 0.1, 40)
    all_of_them = SignalComponents().fit(X)
    some = SignalComponents(0.9).fit(X)
    variances = some.reliability_.held_out_variances[: some.n_vouched_]
    assert some.n_components_ < all_of_them.n_components_ == some.n_vouched_ < 40
    shares = np.cumsum(variances) / variances.sum()
    assert shares[some.n_components_ - 2] < 0.9 <= shares[some.n_components_ - 1]
    assert SignalComponents(max_components=3).fit(X).n_components_ == 3
    assert_allclose(all_of_them.explained_variance_, all_of_them.eigenvalues_[: len(variances)])
    with pytest.raises(ValueError, match="keep must be 'reliable', 'detected'"):
        SignalComponents("everything").fit(X)


def test_near_copies_are_used_once():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 60))
    more = np.concatenate([X, X[:50] + 0.2 * rng.standard_normal((50, 60)), X[:20]])
    found = signal_components(more)
    assert found.n_rows == 150
    assert kinds(found) == [("duplicated rows", None)]
    assert found.artefacts[0].evidence == pytest.approx(70 / 220)
    assert len(
        np.unique(copy_groups(np.concatenate([more, rng.standard_normal((4000, 60))])))
    ) in (range(4150, 4153))


def test_unequal_lengths_and_heavy_tails_are_named_and_scaled_away():
    rng = np.random.default_rng(0)
    d, V, N = 100, 200, 300
    Z = rng.standard_normal((V, d))
    lengths = rng.integers(1, 60, N)
    X = np.array([Z[rng.integers(V, size=n)].mean(axis=0) for n in lengths])
    scaled = signal_components(X)
    assert kinds(scaled) == [("unequal rows", None)]
    assert scaled.test.n_signals == 0
    assert signal_components(X, noise="tokens", scale_rows=False).test.n_signals > 0
    known = signal_components(X, lengths=lengths)
    assert known.test.n_signals == 0
    # Both ways of scaling see the table: δ = .5, to the precision of one sample.
    assert known.test.vocab_ratio == pytest.approx(0.5, rel=0.1)
    assert scaled.test.vocab_ratio == pytest.approx(0.5, rel=0.1)


def test_scaling_rows_of_equal_variance_leaves_their_spectrum():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 30))
    X = rng.standard_normal((400, 60)) @ Z  # δ = .5
    scaled = signal_components(X).test.eigenvalues
    plain = signal_components(X, scale_rows=False).test.eigenvalues
    # total variances about the median and about the mean differ by a part in N
    assert scaled.sum() == pytest.approx(plain.sum(), rel=1 / len(X))
    assert scaled[:5].mean() == pytest.approx(plain[:5].mean(), rel=0.015)
    unit = X - X.mean(axis=0)
    unit *= np.sqrt(np.mean(unit**2) * X.shape[1]) / np.linalg.norm(unit, axis=1)[:, None]
    uncorrected = np.linalg.eigvalsh(unit.T @ unit / len(X))[::-1]
    assert uncorrected[:5].mean() < 0.97 * plain[:5].mean()
    tails = X * rng.standard_cauchy(len(X))[:, None]
    of_tails = signal_components(tails).test.eigenvalues
    share = of_tails[:5].mean() / of_tails.mean()
    assert share == pytest.approx(plain[:5].mean() / plain.mean(), rel=0.05)


def test_token_frequencies_are_counted_where_tokens_are_given():
    rng = np.random.default_rng(1)
    d, V, N, L = 100, 400, 400, 10
    p = 1 / np.arange(1, V + 1)
    Z = rng.standard_normal((V, d))
    tokens = rng.choice(V, size=(N, L), p=p / p.sum())
    found = signal_components(Z[tokens].mean(axis=1), tokens=tokens)
    assert (found.test.noise, found.test.n_signals) == ("tokens", 0)
    assert signal_components(Z[tokens].mean(axis=1), n_tokens=V).test.n_signals > 5


def test_a_null_that_the_data_chose_is_mentioned_when_it_finds_something():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 150)) * (10.0 + np.arange(150)) ** -0.4
    X[:, -1] += 3 * rng.choice([-1.0, 1.0], 500)
    with pytest.warns(
        al.RegimeWarning, match="1 component: the bulk may have a longer upper tail"
    ):
        found = signal_components(X)
    assert found.test.noise == "long-tailed"
    assert abs(found.components[0, -1]) > 0.95


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize(
    ("N", "d", "factors"),
    [(500, 150, [20.0]), (300, 60, [30.0, 20.0]), (50, 100, [40.0]), (40, 10, [9.0])],
)
def test_components_that_dominate_the_variance_are_found_alone(N, d, factors):
    """One or two tokens would explain them; and noise scaled by their scores has heavy tails."""
    for seed in range(4):
        X = np.random.default_rng(seed).standard_normal((N, d))
        X[:, : len(factors)] *= factors
        assert signal_components(X).test.n_signals == len(factors)


def test_rows_may_be_left_out_of_their_norm_along_components():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 80))
    X[:, 0] *= 50
    whole, _ = equalised(X, centred=False)
    rest, _ = equalised(X, centred=False, components=np.eye(80)[:1])
    spread = [np.std(np.sum(rows[:, 1:] ** 2, axis=1)) for rows in (whole, rest)]
    means = [np.mean(np.sum(rows[:, 1:] ** 2, axis=1)) for rows in (whole, rest)]
    assert spread[0] / means[0] > 0.8
    assert spread[1] / means[1] < 0.05


def test_components_carried_by_few_rows_need_a_larger_eigenvalue():
    """Their eigenvalues fluctuate more than those of Gaussian rows."""
    X = np.random.default_rng(2).standard_normal((300, 80))
    X[:, 0] *= 1.5
    values = np.linalg.eigvalsh(np.cov(X.T))
    alone = outlier_test(values, n_samples=300).p_values[0]
    carried = [
        outlier_test(values, n_samples=300, score_kurtosis=[k]).p_values[0] for k in (3, 5, 99)
    ]
    assert carried[0] == alone
    assert carried[0] < carried[1] < carried[2]


@pytest.mark.parametrize("shape", [(5, 2), (4, 30), (30, 3)])
def test_too_few_eigenvalues_tell_nothing(shape):
    test = signal_components(np.random.default_rng(0).standard_normal(shape)).test
    assert test.n_signals == 0
    assert "cannot tell" in test.notes[0]
    assert np.all(test.p_values == 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pooled": np.ones(3)}, "pooled must be an array of real numbers with 2 axes"),
        ({"pooled": np.full((5, 3), np.inf)}, "pooled must be finite"),
        ({"pooled": np.ones((5, 3))}, "pooled must be such that some column"),
        ({"pooled": np.eye(5), "snr": 0}, "snr must be above 0"),
        (
            {"pooled": np.eye(5), "tokens": np.ones((4, 2), int)},
            r"tokens must be whole numbers of shape \(5,",
        ),
        ({"pooled": np.eye(5), "lengths": [1, 2]}, r"lengths must be of shape \(5,"),
        ({"pooled": np.eye(5), "min_components": -1}, "min_components must be a whole number"),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        signal_components(**arguments)


@pytest.mark.parametrize("a", [None, 0.02])
def test_a_pass_over_a_corpus_has_the_components_of_its_rows(a):
    """The same test as of rows that are not scaled, with p g² as the masses of the tokens."""
    from attnlaw.sweeps import corpus_statistics

    rng = np.random.default_rng(5)
    V, d, N, L = 300, 60, 3000, 10
    p = 1 / (np.arange(V) + 4)
    table = rng.standard_normal((V, d))
    table[::2, 3] += 2
    ids = rng.choice(V, (N, L), p=p / p.sum())
    ids = np.where(rng.random((N, L)) < 0.7, ids // 2 * 2 + rng.integers(2, size=(N, 1)), ids)
    found = corpus_statistics(ids, table, sif=None if a is None else [a], dtype=float)
    q = np.bincount(ids.ravel(), minlength=V) / ids.size
    g = np.ones(V) if a is None else a / (a + q)
    X = (g[ids, None] * table[ids]).mean(axis=1)
    here = signal_components(
        X, scale_rows=False, token_frequencies=(q * g**2)[q > 0], min_components=3
    )
    there = signal_components(found, min_components=3)
    assert there.test.noise == "tokens"
    assert there.test.n_signals == here.test.n_signals >= 1
    assert_allclose(there.test.eigenvalues, here.test.eigenvalues, rtol=1e-3)
    assert_allclose(there.test.bulk_edge, here.test.bulk_edge, rtol=1e-3)
    if a is not None:  # the masses matter
        wrong = signal_components(found, token_frequencies=q[q > 0])
        assert abs(wrong.test.bulk_edge / there.test.bulk_edge - 1) > 0.05
    assert_allclose(np.abs(np.sum(there.components * here.components, axis=1)), 1, atol=1e-3)
    kept = SignalComponents("detected").fit(found)
    assert kept.n_components_ == there.test.n_signals
    rows = kept.transform(X)
    assert_allclose(kept.explained_variance_, np.mean(rows**2, axis=0), rtol=1e-3)
    with pytest.raises(ValueError, match="lengths and tokens must be left out for a corpus"):
        signal_components(found, tokens=ids)


def test_short_sequences_in_a_corpus_are_said():
    from attnlaw.sweeps import corpus_statistics

    rng = np.random.default_rng(6)
    ids = rng.integers(0, 100, (500, 9))
    ids[:250, 3:] = -1
    table = np.hstack([rng.standard_normal((100, 20)), np.ones((100, 1))])
    found = signal_components(corpus_statistics(ids, table))
    assert [artefact.kind for artefact in found.artefacts] == ["constant columns", "unequal rows"]
    assert "3 to 9 tokens" in found.artefacts[1].message


def test_tensors_with_gradients_are_taken():
    torch = pytest.importorskip("torch")
    rows = np.random.default_rng(0).standard_normal((60, 8))
    tensor = torch.tensor(rows, requires_grad=True)
    np.testing.assert_array_equal(
        al.signal_components(tensor).test.p_values, al.signal_components(rows).test.p_values
    )
    values = np.linalg.eigvalsh(rows.T @ rows / 60)
    tested = al.outlier_test(torch.tensor(values, requires_grad=True), n_samples=60)
    np.testing.assert_array_equal(tested.p_values, al.outlier_test(values, n_samples=60).p_values)
