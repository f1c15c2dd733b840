"""Needs invert predictions: what is planned for is predicted, and less is too little."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al

PREFIX = al.prefix_correlation(20, prefix=5)
MODEL = al.PooledSequences(
    vocab_ratio=0.05,
    sample_ratio=0.4,
    signal_norm=1.0,
    correlation=PREFIX,
    weights=al.causal_weights(20),
)

norms = st.floats(-1, 1).map(lambda exponent: 10.0**exponent)
ratios = st.floats(-3, 1).map(lambda exponent: 10.0**exponent)
wanted = st.floats(0.01, 0.99)
samplings = st.sampled_from(["token", "gaussian"])
POOLINGS = [
    al.mean_weights(20),  # α/κ = 2
    al.optimal_weights(PREFIX),  # 5
    np.append(np.zeros(19), 1.0),  # 1
    np.array([1.0, -0.5, *np.zeros(18)]),  # 0.2, below that of no pooling at all
]
poolings = st.sampled_from(POOLINGS)


@given(norms, ratios, ratios, wanted, samplings, poolings)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_each_need_predicts_what_was_wanted(norm, delta, gamma, zeta, sampling, weights):
    studied = replace(
        MODEL,
        signal_norm=norm,
        vocab_ratio=delta,
        sample_ratio=gamma,
        sampling=sampling,
        weights=weights,
    )
    needs = al.plan(studied, zeta)
    for name in ("sample_ratio", "vocab_ratio", "signal_norm"):
        value = getattr(needs, name.removesuffix("_norm"))
        if value > 0:
            overlap = al.predict(replace(studied, **{name: value})).squared_overlap
            assert_allclose(overlap, zeta, rtol=1e-9, err_msg=name)
    assert needs.signal > 0
    assert (needs.sample_ratio > 0) == (needs.sample_limit > zeta)


@given(norms, ratios, wanted, samplings, poolings)
def test_no_larger_vocabulary_ratio_does(norm, gamma, zeta, sampling, weights):
    """Against a fine grid: ζ may rise with δ before it falls, so a local answer could be wrong."""
    studied = replace(
        MODEL, signal_norm=norm, sample_ratio=gamma, sampling=sampling, weights=weights
    )
    found = al.plan(studied, zeta).vocab_ratio
    grid = np.geomspace(1e-4, 1e4, 4001)
    overlaps = al.squared_overlap(
        signal_norm=norm,
        vocab_ratio=grid,
        sample_ratio=gamma,
        snr=studied.snr,
        sampling=sampling,
    )
    enough = grid[overlaps >= zeta]
    assume(abs(overlaps.max() - zeta) > 1e-6)
    if enough.size:
        assert enough[-1] <= found * (1 + 1e-9) < enough[-1] * grid[1] / grid[0] * (1 + 1e-9)
    else:
        assert found < grid[0] * (1 + 1e-9)


def test_a_need_that_only_a_middling_vocabulary_meets_is_found():
    """An infinite one leaves the spike below threshold; small ones lend it strength."""
    hidden = replace(MODEL, signal_norm=0.4, sample_ratio=1.0, weights=al.optimal_weights(PREFIX))
    needs = al.plan(hidden, 0.1)
    assert needs.vocab_limit == 0
    assert needs.vocab_ratio > 0
    assert_allclose(
        al.predict(replace(hidden, vocab_ratio=needs.vocab_ratio)).squared_overlap, 0.1
    )


def test_whole_numbers_are_the_smallest_that_do():
    needs, d = al.plan(MODEL, 0.8), 768
    N, V = needs.n_samples(d), needs.n_vocab(d)
    assert int(N) == N
    assert int(V) == V
    assert V % 2 == 0

    def overlap(n_samples=d / MODEL.sample_ratio, n_vocab=d / MODEL.vocab_ratio):
        changed = replace(MODEL, sample_ratio=d / n_samples, vocab_ratio=d / n_vocab)
        return al.predict(changed).squared_overlap

    assert overlap(n_samples=N) >= 0.8 > overlap(n_samples=N - 1)
    assert overlap(n_vocab=V) >= 0.8 > overlap(n_vocab=V - 2)


def test_what_one_has_is_what_one_needs():
    """A ratio of exactly d/N does not cost a sample more for rounding's sake."""
    exact = replace(MODEL, sample_ratio=768 / 3000)
    needs = al.plan(exact, al.predict(exact).squared_overlap)
    assert needs.n_samples(768) == 3000


def test_beyond_the_ceiling_no_number_of_samples_does():
    needs = al.plan(MODEL, 0.96)
    assert_allclose(needs.ceiling, 1 / 1.05)
    assert needs.sample_ratio == 0
    assert needs.n_samples(768) == np.inf
    assert "ceiling is ‖μ‖²/(‖μ‖² + d/V_eff) = 0.9524" in needs.obstacles[0]


def test_below_the_ceiling_the_population_can_forbid_too():
    needs = al.plan(MODEL, 0.9495)
    assert needs.sample_limit < 0.9495 < needs.ceiling
    assert needs.sample_ratio == 0
    assert "with infinitely many it is 0.9492" in needs.obstacles[0]


def test_a_vocabulary_that_cannot_help_is_said():
    needs = al.plan(replace(MODEL, sample_ratio=5.0), 0.9)
    assert needs.vocab_ratio == 0
    assert needs.n_vocab(768) == np.inf
    assert any(sentence.startswith("No vocabulary gives") for sentence in needs.obstacles)


def test_weights_that_keep_no_signal_need_infinitely_much():
    blind = replace(MODEL, correlation=np.ones((2, 2)), weights=[1.0, -1.0])
    needs = al.plan(blind, 0.5)
    assert needs.signal == np.inf
    assert needs.sample_ratio == needs.vocab_ratio == 0
    assert len(needs.obstacles) == 3


def test_a_reachable_plan_has_no_obstacles():
    assert al.plan(MODEL, 0.8).obstacles == ()


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_arrays_give_what_their_entries_give(sampling):
    grid = replace(
        MODEL,
        sampling=sampling,
        vocab_ratio=np.array([[0.0], [0.3]]),
        signal_norm=np.array([0.0, 1.0, 3.0]),
    )
    together = al.plan(grid, 0.6)
    for i, delta in enumerate(grid.vocab_ratio.ravel()):
        for j, norm in enumerate(grid.signal_norm):
            alone = al.plan(replace(grid, vocab_ratio=delta, signal_norm=norm), 0.6)
            for name, value in vars(alone).items():
                assert_allclose(getattr(together, name)[i, j], value, rtol=1e-12, err_msg=name)
    assert together.n_samples(100).shape == (2, 3)
    with pytest.raises(ValueError, match="plan must be of a single model"):
        _ = together.obstacles


def test_several_wishes_are_planned_at_once():
    needs = al.plan(MODEL, np.array([0.5, 0.8]))
    assert needs.sample_ratio.shape == (2,)
    assert needs.sample_ratio[0] > needs.sample_ratio[1]


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (0.0, "squared_overlap must be above 0, got 0.0."),
        (1.0, "squared_overlap must be below 1, got 1.0."),
        (float("nan"), "squared_overlap must be finite, got nan."),
    ],
)
def test_impossible_wishes_get_the_sentence(wish, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        al.plan(MODEL, wish)


def test_wishes_must_fit_the_model():
    with pytest.raises(ValueError, match=r"squared_overlap must be broadcastable to \(2,\)"):
        al.plan(replace(MODEL, signal_norm=[1.0, 2.0]), [0.1, 0.2, 0.3])
