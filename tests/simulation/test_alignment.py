from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

import attnlaw as al
from attnlaw.simulation import matrix_free
from attnlaw.simulation.sequences import pool, sample_table, sample_tokens, token_classes
from attnlaw.simulation.signs import sample_signs

R = al.prefix_correlation(6, prefix=3)
WEIGHTS = np.stack([al.mean_weights(6), al.causal_weights(6), al.optimal_weights(R)])
MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=np.array([0.0, 0.7, 2.0]),
    correlation=R,
    weights=WEIGHTS[0],
)
READINGS = {
    "token": {},
    "token, not centred": {"centred": False},
    "gaussian": {"sampling": "gaussian"},
    "infinite vocabulary": {"vocab_ratio": 0.0},
}


@pytest.mark.parametrize("reading", READINGS)
def test_each_weights_have_the_law_of_the_reference(reading):
    model, n = replace(MODEL, **READINGS[reading]), 150
    seen = al.observe_alignment(model, 30, n, rng=0, weights=WEIGHTS)
    for i, w in enumerate(WEIGHTS):
        drawn = al.observe(replace(model, weights=w), 30, n, rng=i + 1, method="reference")
        for name in ("top_eigenvalue", "squared_overlap"):
            a, b = getattr(seen, name)[:, i], getattr(drawn, name)
            z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)
            assert np.abs(z).max() < 5, (name, i, z)
            assert min(ks_2samp(x, y).pvalue for x, y in zip(a.T, b.T, strict=True)) > 1e-5


def shared_draw(rng, d=30):
    """Squared overlaps of all weights on one table and one sample of tokens, plainly."""
    _, V, N = MODEL.sizes(d)
    E = sample_table(V, d, rng)
    E[:, 0] += 2.0 * token_classes(V)
    tokens = sample_tokens(sample_signs(R, N, rng), V, rng)
    overlaps = []
    for w in WEIGHTS:
        X = pool(E, tokens, w)
        overlaps.append(np.linalg.eigh(np.cov(X.T, bias=True))[1][0, -1] ** 2)
    return overlaps


@pytest.mark.parametrize("engine", ["compiled", "plain"])
def test_several_weights_share_tokens_and_table(engine, monkeypatch):
    """Differences between weights have the law they have on one draw, and not on two."""
    if engine == "plain":
        monkeypatch.setattr(matrix_free, "compiled_kernels", lambda: None)
    n = 400
    seen = al.observe_alignment(MODEL, 30, n, rng=0, weights=WEIGHTS).squared_overlap[:, :, 2]
    rng = np.random.default_rng(1)
    drawn = np.array([shared_draw(rng) for _ in range(n)])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        a, b = seen[:, i] - seen[:, j], drawn[:, i] - drawn[:, j]
        assert abs(a.mean() - b.mean()) < 5 * np.sqrt((a.var() + b.var()) / n)
        assert ks_2samp(a, b).pvalue > 1e-4
        apart = seen[:, i] - np.roll(seen[:, j], 1)  # as if drawn one by one
        assert apart.std() > 1.5 * a.std()


def test_the_model_s_own_weights_are_the_default():
    alone = al.observe_alignment(MODEL, 100, 2, rng=0)
    among = al.observe_alignment(MODEL, 100, 2, rng=0, weights=WEIGHTS[:1])
    assert alone.squared_overlap.shape == (2, 3)
    np.testing.assert_array_equal(alone.squared_overlap, among.squared_overlap[:, 0])
    one = al.observe_alignment(replace(MODEL, signal_norm=2.0), 100, 2, rng=0)
    np.testing.assert_allclose(one.squared_overlap, alone.squared_overlap[:, 2], atol=2e-3)


def test_repeated_weights_have_the_same_answers():
    seen = al.observe_alignment(MODEL, 100, 1, rng=0, weights=WEIGHTS[[0, 1, 0]])
    np.testing.assert_allclose(seen.squared_overlap[:, 0], seen.squared_overlap[:, 2], atol=1e-4)


def test_more_weights_than_the_compiled_loop_takes():
    many = np.random.default_rng(0).random((11, 6))
    seen = al.observe_alignment(MODEL, 60, 2, rng=0, weights=many)
    assert seen.top_eigenvalue.shape == (2, 11, 3)


def test_results_do_not_depend_on_the_number_of_workers():
    alone = al.observe_alignment(MODEL, 80, 4, rng=3, weights=WEIGHTS)
    shared = al.observe_alignment(MODEL, 80, 4, rng=3, weights=WEIGHTS, n_workers=2)
    np.testing.assert_allclose(shared.squared_overlap, alone.squared_overlap, rtol=1e-5, atol=1e-7)


def test_signals_without_gain_are_lost():
    opposed = np.array([[1.0, -1.0], [-1.0, 1.0]])
    model = replace(MODEL, correlation=opposed, weights=np.array([1.0, 1.0]))
    seen = al.observe_alignment(model, 60, 3, rng=0)
    assert seen.squared_overlap.max() < 0.5
    assert np.isfinite(seen.top_eigenvalue).all()


@pytest.mark.parametrize(
    ("weights", "condition"),
    [
        (np.ones(6), "with 2 axes"),
        (np.ones((2, 5)), "of shape"),
        (np.zeros((1, 6)), "different from zero"),
        ([[np.nan] * 6], "finite"),
    ],
)
def test_bad_weights_are_refused(weights, condition):
    with pytest.raises(ValueError, match=f"weights must be .*{condition}"):
        al.observe_alignment(MODEL, 30, weights=weights)


def test_a_bad_tolerance_is_refused():
    with pytest.raises(ValueError, match="tolerance must be above 0, got 0"):
        al.observe_alignment(MODEL, 30, tolerance=0)


@pytest.mark.slow
def test_it_agrees_with_theory_at_a_size_no_matrix_would_fit():
    model = replace(MODEL, signal_norm=np.linspace(0.5, 2, 4), weights=WEIGHTS[1])
    seen, exact = al.observe_alignment(model, 50_000, rng=0), al.predict(model)
    np.testing.assert_allclose(seen.squared_overlap[0, 1:], exact.squared_overlap[1:], rtol=0.02)
