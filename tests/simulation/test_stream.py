from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi as chi_law
from scipy.stats import kstest

import attnlaw as al
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.stream import Stream, seeded_state
from attnlaw.simulation._matrix_free.trial import alignment_trial, matrix_free_trial

needs_numba = pytest.mark.skipif(not plan.has_numba(), reason="needs numba")
MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=np.array([0.7, 1.5]),
    correlation=al.prefix_correlation(20, prefix=5),
    weights=al.causal_weights(20),
)


def test_words_are_those_of_the_generator_one_by_one():
    """Blackman and Vigna's xoshiro256++, in whole numbers of Python."""
    mask, s = 2**64 - 1, [int(x) for x in seeded_state(np.random.default_rng(0))]
    expected = []
    for _ in range(3000):
        total = (s[0] + s[3]) & mask
        expected.append((((total << 23 | total >> 41) & mask) + s[0]) & mask)
        t = s[1] << 17 & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = (s[3] << 45 | s[3] >> 19) & mask
    stream = Stream(np.random.default_rng(0))
    words = np.concatenate([stream.words(n) for n in (1, 5, 0, 2000, 994)])
    np.testing.assert_array_equal(words, np.array(expected, dtype=np.uint64))


def test_normals_and_lengths_have_their_laws():
    stream = Stream(np.random.default_rng(1))
    assert kstest(stream.normal(100_000), "norm").pvalue > 1e-4
    assert kstest([stream.chi(7) for _ in range(2000)], chi_law(7).cdf).pvalue > 1e-4


@needs_numba
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_of_compiled_loops(seed):
    from attnlaw.simulation._matrix_free.compiled import kernels

    words, stream = seeded_state(np.random.default_rng(seed)), Stream(np.random.default_rng(seed))
    for n in (1, 3, 100_000, 17, 0, 20_000):
        expected = np.empty(n)
        kernels.fill_normal(words, expected)
        np.testing.assert_allclose(stream.normal(n), expected, rtol=1e-14)
    for freedom in (1, 2, 3, 1000):
        np.testing.assert_allclose(stream.chi(freedom), kernels.chi(words, freedom), rtol=1e-14)


@needs_numba
@pytest.mark.parametrize("half", [50, 1_500_000_000])  # of the latter, a third is drawn again
def test_tokens_are_those_of_compiled_loops(half):
    from attnlaw.simulation._matrix_free.compiled.kernels import CompiledStream

    members, polarity = np.array([0, 0, 1, 63]), np.array([1, -1, 1, 1], dtype=np.int8)
    signs = np.where(np.random.default_rng(1).random((300, 7)) < 0.5, 1, -1).astype(np.int8)
    ours, compiled = (kind(np.random.default_rng(2)) for kind in (Stream, CompiledStream))
    for _ in range(2):
        a, b = (x.sign_tokens(5000, members, polarity, half, np.uint32) for x in (ours, compiled))
        np.testing.assert_array_equal(a, b)
        a, b = (x.tokens(signs, half, np.uint32) for x in (ours, compiled))
        np.testing.assert_array_equal(a, b)


@needs_numba
@pytest.mark.parametrize("change", [{}, {"correlation": al.autoregressive_correlation(20, 0.5)}])
def test_trials_are_the_same_compiled_or_not(change):
    """To single precision, which turns eigenvectors by 1e-6 over their relative gap."""
    model = replace(MODEL, **change)
    a, b = (
        matrix_free_trial(model, 400, np.random.default_rng(3), tolerance=1e-10, compiled=c)
        for c in (True, False)
    )
    other = matrix_free_trial(model, 400, np.random.default_rng(4), compiled=False)
    assert np.abs(a.squared_overlap - other.squared_overlap).max() > 2e-3
    for name in ("top_eigenvalue", "squared_overlap", "population_overlap", "sample_overlap"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-4, err_msg=name)


@needs_numba
@pytest.mark.parametrize("centred", [True, False])
def test_alignments_are_the_same_compiled_or_not(centred):
    model, weights = replace(MODEL, centred=centred), np.stack([MODEL.weights, np.ones(20) / 20])
    a, b = (
        alignment_trial(model, 300, weights, None, np.random.default_rng(3), compiled=c)
        for c in (True, False)
    )
    np.testing.assert_allclose(a, b, atol=5e-6)
