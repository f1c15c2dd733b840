from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

import attnlaw as al
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.krylov import find_spikes
from attnlaw.simulation._matrix_free.noise import sample_gains
from attnlaw.simulation.pooled import pool, sample_table, sample_tokens, token_classes
from attnlaw.simulation.signs import sample_signs

needs_numba = pytest.mark.skipif(not plan.has_numba(), reason="needs numba")
if plan.has_numba():
    from attnlaw.simulation._matrix_free.compiled_runs import GaussianRun, bidiagonal_table

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
    seen = al.simulation.simulate_alignment(model, 30, n, rng=0, weights=WEIGHTS)
    for i, w in enumerate(WEIGHTS):
        drawn = al.simulate(replace(model, weights=w), 30, n, rng=i + 1, method="reference")
        for name in ("top_eigenvalue", "squared_overlap"):
            a, b = getattr(seen, name)[:, i], getattr(drawn, name)
            z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)
            assert np.abs(z).max() < 5, (name, i, z)
            assert min(ks_2samp(x, y).pvalue for x, y in zip(a.T, b.T, strict=True)) > 1e-5


@pytest.mark.parametrize("centred", [True, False])
def test_one_weighting_alone_has_the_law_of_the_reference(centred):
    """Alone, and centred, it forgets what it knew of the table."""
    model, n = replace(MODEL, centred=centred), 150
    seen = al.simulation.simulate_alignment(model, 30, n, rng=0)
    drawn = al.simulate(model, 30, n, rng=1, method="reference")
    for name in ("top_eigenvalue", "squared_overlap"):
        a, b = getattr(seen, name), getattr(drawn, name)
        z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)
        assert np.abs(z).max() < 5, (name, z)
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
        monkeypatch.setattr(plan, "has_numba", lambda: False)
    else:
        monkeypatch.setattr(plan, "_seconds", np.inf)  # as after `prefer_compiled`
    n = 400
    seen = al.simulation.simulate_alignment(MODEL, 30, n, rng=0, weights=WEIGHTS).squared_overlap[
        :, :, 2
    ]
    rng = np.random.default_rng(1)
    drawn = np.array([shared_draw(rng) for _ in range(n)])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        a, b = seen[:, i] - seen[:, j], drawn[:, i] - drawn[:, j]
        assert abs(a.mean() - b.mean()) < 5 * np.sqrt((a.var() + b.var()) / n)
        assert ks_2samp(a, b).pvalue > 1e-4
        apart = seen[:, i] - np.roll(seen[:, j], 1)  # as if drawn one by one
        assert apart.std() > 1.5 * a.std()


def test_the_model_s_own_weights_are_the_default():
    alone = al.simulation.simulate_alignment(MODEL, 100, 2, rng=0)
    among = al.simulation.simulate_alignment(MODEL, 100, 2, rng=0, weights=WEIGHTS[:1])
    assert alone.squared_overlap.shape == (2, 3)
    np.testing.assert_array_equal(alone.squared_overlap, among.squared_overlap[:, 0])
    one = al.simulation.simulate_alignment(replace(MODEL, signal_norm=2.0), 100, 2, rng=0)
    np.testing.assert_allclose(one.squared_overlap, alone.squared_overlap[:, 2], atol=2e-3)


def test_repeated_weights_have_the_same_answers():
    seen = al.simulation.simulate_alignment(MODEL, 100, 1, rng=0, weights=WEIGHTS[[0, 1, 0]])
    np.testing.assert_allclose(seen.squared_overlap[:, 0], seen.squared_overlap[:, 2], atol=1e-4)


def test_more_weights_than_the_compiled_loop_takes():
    many = np.random.default_rng(0).random((11, 6))
    seen = al.simulation.simulate_alignment(MODEL, 60, 2, rng=0, weights=many)
    assert seen.top_eigenvalue.shape == (2, 11, 3)


def test_results_do_not_depend_on_the_number_of_workers():
    alone = al.simulation.simulate_alignment(MODEL, 80, 4, rng=3, weights=WEIGHTS)
    shared = al.simulation.simulate_alignment(MODEL, 80, 4, rng=3, weights=WEIGHTS, n_jobs=2)
    np.testing.assert_allclose(shared.squared_overlap, alone.squared_overlap, rtol=1e-5, atol=1e-7)


def test_signals_without_gain_are_lost():
    opposed = np.array([[1.0, -1.0], [-1.0, 1.0]])
    model = replace(MODEL, correlation=opposed, weights=np.array([1.0, 1.0]))
    seen = al.simulation.simulate_alignment(model, 60, 3, rng=0)
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
        al.simulation.simulate_alignment(MODEL, 30, weights=weights)


def test_a_bad_tolerance_is_refused():
    with pytest.raises(ValueError, match="tolerance must be above 0, got 0"):
        al.simulation.simulate_alignment(MODEL, 30, tolerance=0)


@needs_numba
def test_a_bidiagonal_table_has_the_moments_of_a_gaussian_one():
    """tr C and tr C², C = ZᵀZ, and the signal's entries of C and C², for all shapes of Z."""
    rng, n = np.random.default_rng(0), 4000
    for V, d in ((9, 4), (4, 4), (3, 6)):
        moments = []
        for kind in ("gaussian", "bidiagonal"):
            rows = []
            for _ in range(n):
                if kind == "gaussian":
                    Z = sample_table(V, d, rng)
                else:
                    diagonal, above = bidiagonal_table(V, d, rng)
                    Z = np.diag(diagonal) + np.diag(above[:-1], 1)
                C = Z.T @ Z
                rows.append([np.trace(C), np.sum(C * C), C[0, 0], C[0] @ C[0]])
            moments.append(np.array(rows))
        a, b = moments
        z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)
        assert np.abs(z).max() < 5, (V, d, z)


@needs_numba
@pytest.mark.parametrize(("vocab_ratio", "centred"), [(0.5, True), (0.5, False), (3.0, True)])
def test_idealised_eigenpairs_are_those_of_the_matrices_that_were_not_formed(vocab_ratio, centred):
    """Reveal the rest of G afterwards, form every matrix, and solve again."""
    model, d = replace(MODEL, sampling="gaussian", vocab_ratio=vocab_ratio, centred=centred), 40
    rng = np.random.default_rng(5)
    run = GaussianRun(model, d, rng, WEIGHTS, n_steps=4)
    kappa, gains = run._kappa, run.gains
    found = find_spikes(run, model.signal_norm, tolerance=1e-24)
    rank = 3
    for v in np.eye(d):
        run._make_room(1)
        run.multiply(v[None].copy())
    P, G = (
        run._table.queried[: run._table.counts["queried"]],
        run._table.images[: run._table.counts["known"]],
    )
    B = np.diag(run._B[0]) + np.diag(run._B[1, :-1], 1)
    used = np.linalg.matrix_rank(B, tol=1e-12)  # rows of B: min(V, d)
    assert len(P) >= used
    factor = run_factor(model, d)
    for i, pairs in enumerate(found):
        np.testing.assert_allclose(gains[i], factor[:, i] @ factor[:, i], rtol=1e-12)
        F = np.sqrt(kappa[i]) * G @ B
        for j, norm in enumerate(model.signal_norm):
            X = F.copy()
            X[:rank, 0] += norm * factor[:, i]
            values, vectors = np.linalg.eigh(X.T @ X)
            np.testing.assert_allclose(pairs.values[0, j], values[-1], rtol=1e-9)
            np.testing.assert_allclose(pairs.vectors[0, j, 0] ** 2, vectors[0, -1] ** 2, atol=1e-9)


def run_factor(model, d):
    """The gains that a run with this seed has drawn first."""
    N = model.sizes(d).n_samples
    return sample_gains(model, WEIGHTS, N, np.random.default_rng(5)) / np.sqrt(N)


@needs_numba
def test_the_idealised_model_is_the_same_stored_or_not(monkeypatch):
    model, n = replace(MODEL, sampling="gaussian"), 300
    out = al.simulation.simulate_alignment(model, 60, n, rng=0, weights=WEIGHTS)
    monkeypatch.setattr(plan, "STORED", 0)
    implicit = al.simulation.simulate_alignment(model, 60, n, rng=1, weights=WEIGHTS)
    for name in ("top_eigenvalue", "squared_overlap"):
        a, b = getattr(out, name), getattr(implicit, name)
        z = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)
        assert np.abs(z).max() < 5, (name, z)
        # Weights share their draws, so differences have the same law, too. Without a signal they
        # are exactly zero for overlaps: all weights have the same covariance but for its scale.
        first, second = (x[:, 0, 1:] - x[:, 1, 1:] for x in (a, b))
        assert min(ks_2samp(x, y).pvalue for x, y in zip(first.T, second.T, strict=True)) > 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_it_agrees_with_theory_at_a_size_no_matrix_would_fit():
    model = replace(MODEL, signal_norm=np.linspace(0.5, 2, 4), weights=WEIGHTS[1])
    seen, exact = al.simulation.simulate_alignment(model, 50_000, rng=0), al.predict(model)
    np.testing.assert_allclose(seen.squared_overlap[0, 1:], exact.squared_overlap[1:], rtol=0.02)
