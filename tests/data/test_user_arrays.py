"""Masks and lengths: one rule wherever sequences come in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.data.covariance import pooled_covariance
from attnlaw.data.user_arrays import as_sequences, padded, presence, remaining_weights
from attnlaw.estimators.pooling import pool_sequences

T = np.arange(24.0).reshape(4, 2, 3)
ENTRANCES = {
    "sequences": lambda **given: as_sequences(T, **given),
    "pooled": lambda **given: pool_sequences(T, **given),
    "covariance": lambda **given: pooled_covariance(T, **given),
    "learned": lambda **given: al.learn_pooling_weights(T, **given),
}
NO_TOKEN = np.array([[True, True], [True, False], [False, False], [True, True]])


@pytest.mark.parametrize("entrance", ENTRANCES.values(), ids=ENTRANCES)
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"lengths": [2, 1, 0, 2]},
            r"^lengths must be whole numbers from 1 to 2, got '0 in row 2'",
        ),
        (
            {"lengths": [2, 1, 2, 3]},
            r"^lengths must be whole numbers from 1 to 2, got '3 in row 3'",
        ),
        ({"lengths": [2, 1]}, r"^lengths must be of shape \(4,\)"),
        ({"lengths": [2.0, 1, 1, 1]}, "^lengths must be made of whole numbers"),
        ({"mask": NO_TOKEN}, "^mask must be such that every row has a token, got 'none in row 2'"),
        ({"mask": np.ones((4, 3), bool)}, r"^mask must be of shape \(4, 2\)"),
        ({"mask": np.ones((4, 2))}, "^mask must be made of bools"),
        ({"mask": NO_TOKEN, "lengths": [1] * 4}, "^lengths must be left out when a mask is given"),
    ],
)
def test_every_entrance_has_the_same_rule(entrance, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        entrance(**given)


def test_a_mask_that_masks_nothing_changes_nothing():
    assert presence((4, 2), np.ones((4, 2), bool), None) is None
    assert presence((4, 2), None, np.full(4, 2)) is None


def test_pooled_rows_and_their_covariance_agree():
    weights = np.array([0.25, -0.75])
    mask = np.array([[True, True], [True, False], [False, True], [True, True]])
    X = pool_sequences(T, weights, mask=mask)
    assert_allclose(pooled_covariance(T, weights, mask=mask).covariance, np.cov(X.T, bias=True))


def test_remaining_weights_keep_their_sum_of_absolute_values():
    rng = np.random.default_rng(0)
    mask = rng.random((50, 6)) < 0.7
    mask[:, 0] = True
    for weights in (rng.standard_normal(6), rng.standard_normal((50, 6))):
        kept = remaining_weights(weights, mask)
        total = np.broadcast_to(np.abs(weights).sum(axis=-1), 50)
        assert_allclose(np.abs(kept).sum(axis=1), total)
        assert not kept[~mask].any()


def test_weights_that_miss_every_token_of_a_row_are_rejected():
    with pytest.raises(ValueError, match=r"^weights must be different from zero .* row 3'\.$"):
        remaining_weights(np.array([1.0, 0.0]), np.array([[True, False], [False, True]]), first=2)


def test_a_text_is_no_list_of_sequences():
    with pytest.raises(ValueError, match="sequences must be an array, or a list of arrays, got"):
        padded("a path or a text")
