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
    assert AttentionPooling().fit_transform(single).dtype == np.float32
    tokens = np.arange(180).reshape(30, 6)
    table = single.reshape(-1, 4)
    assert AttentionPooling(table=table).fit_transform(tokens).dtype == np.float32


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


def test_another_length_is_refused():
    pooling = AttentionPooling().fit(np.ones((4, 3, 2)))
    with pytest.raises(ValueError, match="X's length must be 3, got 5"):
        pooling.transform(np.ones((4, 5, 2)))
