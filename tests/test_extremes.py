"""Calls with extreme arguments answer with numbers or refuse with one sentence, and in time."""

import warnings

import numpy as np
import pytest
from extreme_calls import fuzz

import attnlaw as al

R = al.prefix_correlation(4, 2)


def model(**changes):
    usual = {"vocab_ratio": 0.5, "sample_ratio": 0.4, "signal_norm": 1.5}
    return al.PooledSequences(**{**usual, "correlation": R, "weights": "mean", **changes})


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e150, 1e308])
def test_weights_whose_powers_leave_the_numbers_are_refused(size):
    with pytest.raises(ValueError, match="the largest of the weights must be between 1e-60 and"):
        model(weights=np.full(4, size))


def test_weights_of_any_other_size_give_the_same_overlap():
    usual = al.predict(model(weights=np.arange(1.0, 5))).squared_overlap
    for size in (1e-59, 1e59):
        found = al.predict(model(weights=size * np.arange(1.0, 5))).squared_overlap
        assert found == pytest.approx(usual, rel=1e-12)


MASKED = np.ma.masked_array([0.1, 0.2, 0.3, 999.0], [False, False, False, True])
ROWS = np.ma.masked_array(np.random.default_rng(0).standard_normal((40, 6)), False)
HIDDEN = ROWS.copy()
HIDDEN[3, 2] = np.ma.masked


@pytest.mark.parametrize(
    "call",
    [
        lambda: model(weights=MASKED),
        lambda: model(signal_norm=MASKED),
        lambda: al.Discrete(MASKED),
        lambda: al.Vocabulary(frequencies=MASKED),
        lambda: al.Vocabulary.from_tokens(np.ma.masked_array([0, 1, 2, 1], [0, 0, 1, 0])),
        lambda: al.signal_components(HIDDEN),
        lambda: al.reliable_components(HIDDEN),
        lambda: al.outlier_test(MASKED, n_samples=50),
    ],
)
def test_hidden_values_are_never_used(call):
    with pytest.raises(ValueError, match="must be without masked entries, got '1 of them'"):
        call()


def test_an_array_that_masks_nothing_is_an_array():
    found = al.reliable_components(ROWS).eigenvalues
    np.testing.assert_array_equal(found, al.reliable_components(ROWS.data).eigenvalues)


def test_overlaps_of_numbers_beyond_bounds_are_refused():
    numbers = dict.fromkeys(("signal_norm", "vocab_ratio", "sample_ratio", "snr"), 1e308)
    with pytest.raises(ValueError, match=r"signal_norm must be at most 1e\+100"):
        al.squared_overlap(**numbers)


def test_edges_that_overflow_are_said():
    with pytest.raises(OverflowError, match="the edges of a law must be below"):
        _ = (1e308 * al.MarchenkoPastur(2.0)).support


def test_a_vocabulary_that_is_rounded_is_said():
    with pytest.warns(al.RegimeWarning, match="4 tokens, a multiple of 2, stand for d/δ = 5"):
        al.simulate(model(vocab_ratio=0.8), 4, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(vocab_ratio=0.8).sizes(400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 10**6])
def test_no_nan_in_five_minutes_of_extreme_calls(seed):
    """What else the fuzzer finds, it prints when it is run by hand (tests/support)."""
    n_calls, found = fuzz(300, seed)
    assert n_calls > 1000
    assert not [key for key in found if "NaN" in key[1] or "cdf falls" in key[1]]
