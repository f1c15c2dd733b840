import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import attnlaw as al
from attnlaw.estimators import AttentionPooling, pool_sequences


@parametrize_with_checks(
    [
        AttentionPooling(dimension=1),
        AttentionPooling("causal", length=1),
        AttentionPooling("last", dimension=1),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture
def sequences():
    return np.random.default_rng(0).standard_normal((30, 6, 4))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("mean", al.mean_weights(6)),
        ("causal", al.causal_weights(6)),
        ("last", al.last_token_weights(6)),
        (np.arange(6.0), np.arange(6.0)),
    ],
)
def test_every_entry_gives_the_weighted_sum(sequences, weights, expected):
    wanted = np.einsum("l,nld->nd", expected, sequences)
    assert_allclose(AttentionPooling(weights).fit_transform(sequences), wanted)
    flat = sequences.reshape(30, 24)
    for shape in ({"length": 6}, {"dimension": 4}, {"length": 6, "dimension": 4}):
        assert_allclose(AttentionPooling(weights, **shape).fit_transform(flat), wanted)
    table = sequences.reshape(-1, 4)
    tokens = np.arange(180).reshape(30, 6)
    assert_allclose(AttentionPooling(weights, table=table).fit_transform(tokens), wanted)
    assert_allclose(pool_sequences(tokens, weights, table=table), wanted)


@pytest.mark.parametrize("weights", ["mean", "causal", "last", [3.0, -2.0, 1.0, 1.0, 1.0, 1.0]])
def test_padding_is_as_if_it_were_not_there(sequences, weights):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 7, size=30)
    mask = np.arange(6) < lengths[:, None]
    padded = np.where(mask[..., None], sequences, np.nan)
    pooled = pool_sequences(padded, weights, lengths=lengths)
    assert_array_equal(pooled, pool_sequences(padded, weights, mask=mask))
    assert_array_equal(pooled, AttentionPooling(weights).fit_transform(padded))
    table = sequences.reshape(-1, 4)
    tokens = np.where(mask, np.arange(180).reshape(30, 6), -1)
    assert_allclose(pool_sequences(tokens, weights, table=table), pooled)
    for i, n in enumerate(lengths):
        if isinstance(weights, str):
            assert_allclose(pooled[i], pool_sequences(sequences[i : i + 1, :n], weights)[0])
        else:
            w = np.array(weights[:n])
            assert_allclose(pooled[i], w @ sequences[i, :n] * 9 / np.abs(w).sum())


def test_padding_in_front_keeps_the_order_of_the_tokens(sequences):
    mask = np.arange(6) >= 2
    mask = np.broadcast_to(mask, (30, 6))
    wanted = pool_sequences(sequences[:, 2:], "causal")
    assert_allclose(pool_sequences(sequences, "causal", mask=mask), wanted)


def test_single_precision_stays_single(sequences):
    single = sequences.astype(np.float32)
    assert AttentionPooling("mean").fit_transform(single).dtype == np.float32
    tokens = np.arange(180).reshape(30, 6)
    table = single.reshape(-1, 4)
    assert AttentionPooling("mean", table=table).fit_transform(tokens).dtype == np.float32


def test_learned_weights_work_in_a_pipeline_and_a_grid_search():
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 1], 240)
    X = rng.standard_normal((240, 5, 6))
    X[:, 0, 0] += 1.5 * y
    X[:, 1, 0] -= 1.5 * y
    flat = X.reshape(240, 30)
    pipeline = make_pipeline(AttentionPooling(length=5, random_state=0), LogisticRegression())
    search = GridSearchCV(
        pipeline, {"attentionpooling__weights": ["mean", "causal", "optimal"]}, cv=3
    ).fit(flat, y)
    assert search.best_params_ == {"attentionpooling__weights": "optimal"}
    pooling = search.best_estimator_[0]
    assert pooling.learned_.gain_is_supported
    again = clone(pooling).fit(flat)
    assert_array_equal(again.weights_, pooling.weights_)
    assert again.get_feature_names_out().tolist() == [f"attentionpooling{j}" for j in range(6)]


def test_without_a_supported_gain_the_mean_is_kept():
    X = np.random.default_rng(0).standard_normal((200, 5, 8))
    fallen_back = AttentionPooling("optimal", random_state=0).fit(X)
    assert not fallen_back.learned_.gain_is_supported
    assert_array_equal(fallen_back.weights_, al.mean_weights(5))
    insisting = AttentionPooling("optimal", random_state=0, fallback=None).fit(X)
    assert_array_equal(insisting.weights_, insisting.learned_.weights)


@pytest.mark.parametrize(
    ("arguments", "X", "words"),
    [
        ({}, np.ones((4, 6)), "length or dimension must be given"),
        ({"length": 4}, np.ones((4, 6)), r"X must be of shape \(n, length·dimension\)"),
        ({"weights": "median"}, np.ones((4, 2, 3)), "weights must be one of"),
        ({"weights": [1.0]}, np.ones((4, 2, 3)), "weights must be of length 2"),
        ({"weights": [0.0, 0.0]}, np.ones((4, 2, 3)), "weights must be different from zero"),
        ({"weights": "optimal", "fallback": "max"}, np.ones((9, 2, 3)), "fallback must be one"),
        ({"table": np.eye(3)}, np.full((2, 2), 3), "sequences must be rows of the table"),
        ({"table": np.eye(3)}, np.full((2, 2), -1), "sequences must be such that every row has"),
        ({"table": np.eye(3)}, np.ones((2, 2)), "sequences must be whole numbers"),
    ],
)
def test_mistakes_are_named(arguments, X, words):
    with pytest.raises(ValueError, match=words):
        AttentionPooling(**arguments).fit(X)


def test_sequences_of_another_length_are_pooled():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 8, 3))
    pooling = AttentionPooling(np.arange(8.0)).fit(X)
    assert_allclose(pooling.transform(X[:, :5]), np.einsum("l,nld->nd", np.arange(5.0), X[:, :5]))
    longer = rng.standard_normal((4, 10, 3))
    w = np.append(np.arange(8.0), [6.5, 6.5])  # the mean of the last quarter
    assert_allclose(pooling.transform(longer), np.einsum("l,nld->nd", w, longer))
    with pytest.raises(ValueError, match="X's dimension must be 3, got 2"):
        pooling.transform(np.ones((4, 5, 2)))


def test_weights_are_trained_on_labels():
    rng = np.random.default_rng(4)
    y = rng.choice(["no", "yes"], 400)
    X = rng.standard_normal((400, 6, 8))
    X[:, 1, 0] += 2 * (y == "yes")
    mask = np.arange(6) < rng.integers(2, 7, size=400)[:, None]
    pooling = AttentionPooling("trained").fit(X, y, mask=mask.astype(np.int8))
    assert np.argmax(pooling.weights_) == 1
    assert pooling.weights_[1] > 0.4
    assert pooling.transform(X[:, :4], mask=mask[:, :4]).shape == (400, 8)
    with pytest.raises(ValueError, match="y must be given for weights='trained', got None"):
        AttentionPooling("trained").fit(X)
    with pytest.raises(ValueError, match="y must be 400 labels of two or more classes"):
        AttentionPooling("trained").fit(X, np.zeros(400))


def test_default_is_learned_and_a_wrong_name_lists_all_choices():
    assert AttentionPooling().weights == "optimal"
    with pytest.raises(ValueError, match="weights must be one of") as raised:
        AttentionPooling("median").fit(np.ones((9, 2, 3)))
    for name in (
        "mean",
        "causal",
        "last",
        "first",
        "late",
        "max",
        "mean+max",
        "optimal",
        "trained",
    ):
        assert repr(name) in str(raised.value)


def test_mean_and_maximum_side_by_side(sequences):
    pooled = AttentionPooling("mean+max").fit_transform(sequences)
    mean, largest = sequences.mean(axis=1), sequences.max(axis=1)
    scale = 0.5 * np.sqrt(mean.var(axis=0).sum() / largest.var(axis=0).sum())
    assert_allclose(pooled, np.hstack([mean, scale * largest]))
    lengths = np.random.default_rng(0).integers(1, 7, size=30)
    padded = pool_sequences(sequences, "max", lengths=lengths)
    for i, n in enumerate(lengths):
        assert_allclose(padded[i], sequences[i, :n].max(axis=0))


def test_token_weights_are_those_of_the_formula():
    rng = np.random.default_rng(5)
    table = rng.standard_normal((7, 3))
    tokens = rng.choice(6, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05], size=(50, 4))
    p = np.bincount(tokens.ravel(), minlength=7) / tokens.size
    n = np.array([np.any(tokens == v, axis=1).sum() for v in range(7)])
    wanted = {"sif": 0.1 / (0.1 + p), "idf": 1 + np.log(51 / (1 + n))}
    for name, g in wanted.items():
        pooling = AttentionPooling("mean", token_weights=name, smoothing=0.1, table=table)
        w = g[tokens] / g[tokens].sum(axis=1, keepdims=True)
        by_hand = np.einsum("nl,nld->nd", w, table[tokens])
        assert_allclose(pooling.fit_transform(tokens), by_hand)
        embedded = AttentionPooling("mean", token_weights=name, smoothing=0.1)
        assert_allclose(
            embedded.fit(table[tokens], tokens=tokens).transform(table[tokens], tokens=tokens),
            by_hand,
        )
    with pytest.raises(ValueError, match="tokens must be given beside embeddings"):
        AttentionPooling("mean", token_weights="sif").fit(table[tokens])


@pytest.mark.parametrize("n", [30, 300])  # fewer and more rows than dimensions
@pytest.mark.parametrize("choices", [(None, 0.1), (None, 3.0), (0, None), (3, None)])
def test_what_a_search_tries_has_the_cosines_of_what_is_fitted(n, choices):
    """A Cholesky factor and subspace iteration, against all eigenvectors."""
    from attnlaw.diagnostics.pooling.criteria import unit_rows
    from attnlaw.estimators.pooling import RowSpectrum

    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 40)) * np.r_[30.0, 20.0, 12.0, np.linspace(3, 1, 37)] + 4
    spectrum = RowSpectrum(X)
    exact, quick = (
        unit_rows(spectrum.processing(*choices, rotated=rotated).apply(X))
        for rotated in (False, True)
    )
    assert_allclose(quick @ quick.T, exact @ exact.T, atol=1e-6)
    raw = unit_rows(X)
    assert np.abs(raw @ raw.T - exact @ exact.T).max() > 0.1


def test_components_are_removed_and_vectors_whitened():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((300, 4, 6)) * np.array([5, 3, 1, 1, 1, 1.0]) + 2
    mean = X.mean(axis=1)
    centred = mean - mean.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / 300)
    removed = AttentionPooling("mean", components_removed=2).fit_transform(X)
    rest = centred @ vectors[:, :4] @ vectors[:, :4].T
    assert_allclose(removed, rest, atol=1e-10)
    white = AttentionPooling("mean", whitening=1e-9).fit_transform(X)
    assert_allclose(np.cov(white.T, bias=True) / values.mean(), np.eye(6), atol=1e-6)
    half = AttentionPooling("mean", whitening=1.0).fit_transform(X)
    shrunk = vectors * np.sqrt(values.mean() / (values + values.mean())) @ vectors.T
    assert_allclose(half, centred @ shrunk, atol=1e-10)
    with pytest.raises(ValueError, match="components_removed must be below 6, got 6"):
        AttentionPooling("mean", components_removed=6).fit(X)


PIPELINES = [
    {"weights": "mean+max", "token_weights": "sif", "whitening": 0.5},
    {"weights": "trained", "token_weights": "idf", "components_removed": 1},
    {"weights": "optimal", "fallback": None, "random_state": 0},
    {"weights": "causal"},
]


@pytest.mark.parametrize("settings", PIPELINES)
def test_saved_poolings_pool_alike_without_pickle(tmp_path, settings):
    rng = np.random.default_rng(7)
    table = rng.standard_normal((50, 5)).astype(np.float32)
    tokens = rng.integers(50, size=(90, 6))
    tokens[:, 4:] = np.where(rng.random((90, 2)) < 0.5, -1, tokens[:, 4:])
    pooling = AttentionPooling(**settings, table=table).fit(tokens, rng.integers(2, size=90))
    pooling.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pooling.json", "pooling.npz"]
    again = AttentionPooling.load(tmp_path)
    assert_array_equal(again.transform(tokens), pooling.transform(tokens))
    assert again.weights == pooling.weights
    assert again.whitening == pooling.whitening
    assert set(again.fitted.arrays()) == set(pooling.fitted.arrays())
    (tmp_path / "pooling.json").write_text("{}")
    with pytest.raises(ValueError, match="must be a folder with a saved pooling, got"):
        AttentionPooling.load(tmp_path)


def test_a_table_can_be_given_again_to_what_was_saved_without(tmp_path):
    rng = np.random.default_rng(6)
    table, tokens = rng.standard_normal((20, 3)), rng.integers(20, size=(30, 4))
    pooling = AttentionPooling("mean", table=table, token_weights="sif").fit(tokens)
    pooling.fitted.save(tmp_path / "pooling")
    again = AttentionPooling.load(tmp_path / "pooling", table=table)
    assert_array_equal(again.transform(tokens), pooling.transform(tokens))


def test_lists_tensors_and_series_are_taken():
    rng = np.random.default_rng(8)
    lengths = rng.integers(1, 6, size=20)
    whole = rng.standard_normal((20, 5, 3))
    ragged = [whole[i, :n] for i, n in enumerate(lengths)]
    wanted = pool_sequences(whole, "late", lengths=lengths)
    assert_allclose(AttentionPooling("late").fit_transform(ragged), wanted)
    pandas = pytest.importorskip("pandas")
    assert_allclose(AttentionPooling("late").fit_transform(pandas.Series(ragged)), wanted)
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(whole, requires_grad=True)
    for kind in (torch.bool, torch.uint8, torch.int16, torch.int64):
        mask = (torch.arange(5) < torch.tensor(lengths)[:, None]).to(kind)
        assert_allclose(pool_sequences(tensor, "late", mask=mask), wanted)
    half = torch.tensor(whole, dtype=torch.bfloat16)
    rough = AttentionPooling("late").fit_transform(half, mask=mask)
    assert_allclose(rough, wanted, atol=0.02)


def test_damaged_poolings_are_refused(tmp_path):
    """One flipped bit, or a file cut short; some gave a TypeError, an empty file an EOFError."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6, 5))
    AttentionPooling(weights=np.arange(1.0, 7.0)).fit(X).save(tmp_path)
    pooled = AttentionPooling.load(tmp_path).transform(X)  # weights of one's own were not loaded
    assert_allclose(pooled, AttentionPooling(weights=np.arange(1.0, 7.0)).fit_transform(X))
    for name in ("pooling.json", "pooling.npz"):
        content = (tmp_path / name).read_bytes()
        visible = [k for k, byte in enumerate(content) if name.endswith("npz") or byte > 32]
        for place in [*rng.choice(visible, size=40).tolist(), None]:
            damaged = bytearray(content)
            if place is None:
                damaged.clear()
            else:
                damaged[place] ^= 1 << int(rng.integers(8))
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(ValueError, match="must be a folder with a saved pooling"):
                AttentionPooling.load(tmp_path)
        (tmp_path / name).write_bytes(content)
