"""Models validate themselves once, in the library's one sentence, and stay as they are."""

import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import attnlaw as al
from attnlaw import weights


def settings(**changes):
    return {
        "vocab_ratio": 0.5,
        "sample_ratio": 0.4,
        "signal_norm": 1.5,
        "correlation": al.prefix_correlation(20, prefix=5),
        "weights": al.causal_weights(20),
    } | changes


def model(**changes):
    return al.PooledSequences(**settings(**changes))


def test_gains_are_the_quadratic_forms():
    m = model()
    w, R = m.weights, m.correlation
    assert_allclose(m.signal_gain, w @ R @ w)
    assert_allclose(m.noise_gain, w @ w)
    assert_allclose(m.snr, (w @ R @ w) / (w @ w))
    assert m.length == 20


def test_effective_length_counts_the_positions_in_use():
    assert_allclose(model(weights=al.mean_weights(20)).effective_length, 20)
    assert_allclose(model(weights=al.last_token_weights(20)).effective_length, 1)
    assert 1 < model().effective_length < 20


def test_a_signal_gain_that_is_zero_up_to_rounding_is_not_negative():
    blind = model(correlation=np.ones((3, 3)), weights=[0.1, 0.2, -0.3])
    assert 0 <= blind.signal_gain < 1e-16


def test_sampling_is_by_token_and_centred_unless_said():
    assert model().sampling == "token"
    assert model().centred is True


def test_arrays_broadcast_and_are_frozen():
    grid = model(vocab_ratio=[[0.1], [0.2]], signal_norm=np.ones(3))
    assert grid.shape == (2, 3)
    assert model().shape == ()
    for array in (grid.vocab_ratio, grid.weights, grid.correlation):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    with pytest.raises(FrozenInstanceError):
        grid.sampling = "gaussian"


def test_the_callers_arrays_stay_the_callers():
    weights = al.causal_weights(20)
    frozen = model(weights=weights)
    weights[0] = 7
    assert frozen.weights[0] != 7


def test_equal_models_are_equal():
    assert model() == model()
    assert model() != model(signal_norm=1.4)
    assert model() != "model"
    assert replace(model(), signal_norm=[1.0, 2.0]) == model(signal_norm=[1.0, 2.0])


def test_sizes_are_whole_and_the_vocabulary_even():
    assert model().sizes(500) == (500, 1000, 1250)
    assert model(vocab_ratio=0.3).sizes(100).n_vocab == 334
    assert model(vocab_ratio=0.0).sizes(100).n_vocab == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vocab_ratio": -0.1}, "vocab_ratio must be at least 0, got -0.1."),
        ({"sample_ratio": -1}, "sample_ratio must be at least 0, got -1."),
        ({"vocab_ratio": np.nan}, "vocab_ratio must be finite, got nan."),
        ({"signal_norm": np.inf}, "signal_norm must be finite, got inf."),
        ({"signal_norm": [1.0, -2.0]}, "signal_norm must be at least 0, got [1.0, -2.0]."),
        ({"signal_norm": "1"}, "signal_norm must be made of real numbers, got '1'."),
        ({"signal_norm": 1j}, "signal_norm must be made of real numbers, got 1j."),
        ({"signal_norm": None}, "signal_norm must be made of real numbers, got None."),
        (
            {"weights": np.ones(19)},
            "weights must be of length 20, like the correlation, got an array of shape (19,).",
        ),
        (
            {"weights": np.ones((20, 1))},
            "weights must be an array with 1 axis, got an array of shape (20, 1).",
        ),
        ({"weights": np.zeros(20)}, "weights must be different from zero, got [0.0, 0.0, 0.0"),
        ({"weights": [np.nan] * 20}, "weights must be finite, got [nan, nan"),
        ({"correlation": np.eye(20) + 1e-3 * np.eye(20, k=1)}, "correlation must be symmetric"),
        ({"correlation": np.eye(3)[:2]}, "correlation must be a square matrix, got an array"),
        (
            {"correlation": [[1.0, 1.5], [1.5, 1.0]], "weights": [1, 1]},
            "correlation must be positive semi-definite, got 'a smallest eigenvalue of -0.5'.",
        ),
        ({"sampling": "iid"}, "sampling must be one of 'token', 'gaussian', got 'iid'."),
        ({"centred": 1}, "centred must be True or False, got 1."),
        (
            {"vocab_ratio": [0.1, 0.2], "signal_norm": [1.0, 2.0, 3.0]},
            "the ratios and signal_norm must be broadcastable, got [(2,), (), (3,)].",
        ),
    ],
)
def test_bad_input_gets_the_sentence(change, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        model(**change)


@pytest.mark.parametrize(
    ("change", "dimension", "sentence"),
    [
        ({}, 1, "dimension must be a whole number of at least 2, got 1."),
        ({}, 10.5, "dimension must be a whole number of at least 2, got 10.5."),
        ({"sample_ratio": 0.0}, 10, "sample_ratio must be above 0 when sizes are asked for"),
        ({"vocab_ratio": [0.1, 0.2]}, 10, "vocab_ratio and sample_ratio must be single numbers"),
    ],
)
def test_sizes_that_do_not_exist_get_the_sentence(change, dimension, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        model(**change).sizes(dimension)


def test_equal_models_compare_equal():
    def mixture(**changes):
        kinds = [al.prefix_correlation(n, prefix=5) for n in (5, 40)]
        given = {"vocab_ratio": 0.5, "sample_ratio": 2.0, "signal_norm": 1.0, "weights": "mean"}
        return al.SequenceMixture(correlations=kinds, **given | changes)

    assert mixture() == mixture()
    assert mixture() == mixture(weights=[al.mean_weights(5), al.mean_weights(40)], shares=[2, 2])
    assert mixture() != mixture(shares=[1, 2])
    assert mixture() != mixture(weights="causal")
    assert mixture() != al.PooledSequences(
        vocab_ratio=0.5, sample_ratio=2.0, signal_norm=1.0, correlation=np.eye(5), weights="mean"
    )


@pytest.mark.parametrize("name", ["mean", "causal", "last", "optimal", "direction"])
def test_weights_are_known_by_name(name):
    R = al.prefix_correlation(6, prefix=3)
    numbers = {"vocab_ratio": 0.5, "sample_ratio": 2.0, "signal_norm": 1.0}
    expected = weights.by_name(name, 6, R)
    one = al.PooledSequences(correlation=R, weights=name, **numbers)
    assert_array_equal(one.weights, expected)
    kinds = al.SequenceMixture(correlations=[R, R], weights=[name, expected], **numbers)
    assert_array_equal(kinds.weights[0], expected)
    heads = al.MultiHeadPooling(correlation=R, weights=[name, expected], **numbers)
    assert_array_equal(heads.weights, [expected, expected])


def test_an_unknown_name_is_answered_with_the_known_ones():
    words = "weights must be one of 'mean', 'causal', 'last', 'optimal', 'direction', got 'median'"
    with pytest.raises(ValueError, match=words):
        al.PooledSequences(
            vocab_ratio=1, sample_ratio=1, signal_norm=1, correlation=np.eye(2), weights="median"
        )
