"""The validity note: its formula against exact pairings and against finite matrices."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import coo_array

import attnlaw as al


def single_position(delta, gamma, **changes):
    settings = {"sampling": "token", "correlation": [[1.0]], "weights": [1.0]} | changes
    return al.PooledSequences(vocab_ratio=delta, sample_ratio=gamma, signal_norm=0.0, **settings)


def fourth_moment_of_the_law(delta, gamma):
    """m₄ of MP_δ ⊠ MP_γ from its moment series: y of z = (1+y)(1+δy)(1+γy)/y, in powers of 1/z."""
    # Lagrange inversion: m_n = [y^{n-1}] ((1+y)(1+δy)(1+γy))^n / n
    phi = np.polynomial.Polynomial([1, 1]) * [1, delta] * [1, gamma]
    return (phi**4).coef[3] / 4


@pytest.mark.parametrize(("delta", "gamma"), [(0.5, 0.4), (1.0, 5.0), (2.0, 0.1)])
def test_deviation_is_relative_to_the_laws_own_fourth_moment(delta, gamma):
    note = al.validity(single_position(delta, gamma))
    expected = delta * gamma**2 / fourth_moment_of_the_law(delta, gamma)
    assert_allclose(note.fourth_moment_deviation, expected, rtol=1e-13)


def weight_matrix(rng, n_samples, n_vocab, length):
    """M of X = M Z, κ = 1: `length` entries a row at random tokens, signed so that none leads."""
    rows = np.repeat(np.arange(n_samples), length)
    columns = rng.integers(n_vocab, size=rows.size)
    signs = rng.choice([-1.0, 1.0], size=rows.size) / np.sqrt(length)
    return coo_array((signs, (rows, columns)), shape=(n_samples, n_vocab)).tocsr()


@pytest.mark.parametrize("length", [1, 2])
def test_vocabulary_factor_has_the_extra_crossing_pairing(length):
    """m₄ of (V/N) MᵀM is 1+6c+6c²+c³ + c²/L² at c = V/N."""
    rng, V, c, n_trials = np.random.default_rng(0), 100_000, 1.0, 8
    N = round(V / c)
    observed = []
    for _ in range(n_trials):
        M = weight_matrix(rng, N, V, length)
        squared = (M.T @ M) @ (M.T @ M)
        observed.append((V / N) ** 4 * (squared.data**2).sum() / V)
    error = np.std(observed, ddof=1) / np.sqrt(n_trials)
    law = 1 + 6 * c + 6 * c**2 + c**3
    assert abs(np.mean(observed) - law - c**2 / length**2) < 5 * error
    assert abs(np.mean(observed) - law) > 5 * error


def test_bulk_inherits_the_excess_through_its_free_cumulants():
    """Free cumulants δ^{n−1} m_n(B) of the d×d bulk: m₄ moves by δ³ times what m₄(B) moves by."""
    delta, gamma, length = 0.7, 0.9, 3
    c = gamma / delta
    factor = [1, 1 + c, 1 + 3 * c + c**2, 1 + 6 * c + 6 * c**2 + c**3]
    k1, k2, k3, k4 = (delta**n * m for n, m in enumerate(factor))
    law = k4 + 4 * k3 * k1 + 2 * k2**2 + 6 * k2 * k1**2 + k1**4
    assert_allclose(law, fourth_moment_of_the_law(delta, gamma), rtol=1e-13)
    pooled = single_position(delta, gamma, correlation=np.eye(length), weights=np.ones(length))
    excess = delta**3 * c**2 / length**2
    assert_allclose(al.validity(pooled).fourth_moment_deviation, excess / law, rtol=1e-13)


def test_long_sequences_deviate_by_the_inverse_square_of_their_length():
    short = al.validity(single_position(0.5, 0.4, correlation=np.eye(5), weights=np.ones(5)))
    long = al.validity(single_position(0.5, 0.4, correlation=np.eye(50), weights=np.ones(50)))
    ratio = short.fourth_moment_deviation / long.fourth_moment_deviation
    assert_allclose(ratio, 100)


def test_gaussian_sampling_does_not_deviate():
    note = al.validity(single_position(0.5, 3.0, sampling="gaussian"))
    assert note.fourth_moment_deviation == 0


def test_one_position_with_few_samples_warns_and_says_by_how_much():
    with pytest.warns(al.RegimeWarning, match=r"only 1 positions.*by 2\.81%"):
        al.predict(single_position(0.5, 3.0))


def test_usual_models_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        al.predict(single_position(0.5, 3.0, sampling="gaussian"))
        al.predict(single_position(0.5, 0.4, correlation=np.eye(5), weights=np.ones(5)))


@pytest.mark.parametrize("length", [1, 2])
def test_one_or_two_positions_warn_where_overlaps_were_seen_to_suffer(length):
    """δ = .5, γ = .4: an overlap of one half loses .05 and .003.

    docs/theory/bulk.md, "How far a fixed length is from the limit".
    """
    changes = {"correlation": np.eye(length), "weights": np.ones(length)}
    with pytest.warns(al.RegimeWarning):
        al.predict(single_position(0.5, 0.4, **changes))


def test_mixtures_and_heads_warn_by_their_own_effective_length():
    common = {"vocab_ratio": 0.5, "sample_ratio": 2.0, "signal_norm": 1.0}
    kinds = {"correlations": [np.eye(2), np.eye(8)], "weights": [np.ones(2) / 2, np.ones(8) / 8]}
    mixture = al.SequenceMixture(**common, **kinds)
    # κ̄ = 5/16, Σw⁴ = 1/8 and 1/512
    assert_allclose(al.validity(mixture).effective_length, (5 / 16) ** 2 / (65 / 1024))
    with pytest.warns(al.RegimeWarning, match=r"only 1\.54 positions"):
        al.predict(mixture)
    W = [np.ones(8), np.eye(8)[0]]
    heads = al.MultiHeadPooling(correlation=np.eye(8), weights=W, **common)
    with pytest.warns(al.RegimeWarning, match="only 1 positions"):
        al.predict(heads)


def test_deviation_of_a_mixture_is_relative_to_its_own_law():
    lengths, common = (5, 40), {"vocab_ratio": 0.5, "sample_ratio": 0.8, "signal_norm": 0.0}
    mixture = al.SequenceMixture(
        correlations=[np.eye(n) for n in lengths],
        weights=[al.mean_weights(n) for n in lengths],
        shares=[0.3, 0.7],
        **common,
    )
    law = al.law(mixture) / mixture.noise_gain
    excess = 0.5 * 0.8**2 / mixture.effective_length**2
    deviation = al.validity(mixture).fourth_moment_deviation
    assert_allclose(deviation, excess / law.moment(4), rtol=1e-12)


def test_three_positions_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        al.predict(single_position(0.5, 0.4, correlation=np.eye(3), weights=np.ones(3)))


def test_note_broadcasts_over_ratios():
    note = al.validity(single_position(np.array([[0.1], [0.5]]), np.array([0.2, 0.4, 3.0])))
    assert note.fourth_moment_deviation.shape == (2, 3)
    alone = al.validity(single_position(0.5, 3.0))
    assert_allclose(note.fourth_moment_deviation[1, 2], alone.fourth_moment_deviation)
