"""Drawn attention: what must hold in every draw."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.simulation import attention as sim
from attnlaw.simulation import attention_matrix


def head(n=60, d=20, beta=1.0, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


@pytest.mark.parametrize("beta", [0.0, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("causal", [False, True])
def test_rows_sum_to_one_at_any_temperature(beta, causal):
    scores = np.random.default_rng(0).standard_normal((40, 40)) * 30
    A = attention_matrix(scores, beta, causal=causal)
    assert (A >= 0).all()
    assert_allclose(A.sum(axis=1), 1, rtol=1e-13)
    if causal:
        assert (np.triu(A, 1) == 0).all()
    if beta == 0:
        assert_allclose(A, head(40, causal=causal).mean_pattern(), rtol=1e-13)


def test_singular_values_by_gram_are_those_of_svd():
    rng = np.random.default_rng(1)
    for shape in ((30, 30), (30, 70), (30, 12)):
        Y = rng.standard_normal(shape)
        exact = np.zeros(30)
        values = np.linalg.svd(Y, compute_uv=False) ** 2
        exact[-values.size :] = values[::-1]
        assert_allclose(sim.squared_singular_values(Y), exact, atol=1e-12 * exact[-1])


def test_centred_attention_loses_the_constant_vector():
    values = al.simulation.simulate_spectrum(head(), n_trials=3, rng=0)
    assert values.shape == (3, 60)
    assert (values[:, 0] < 1e-12 * values[:, -1]).all()
    assert (np.diff(values, axis=1) >= 0).all()


def test_draws_do_not_depend_on_their_number_or_on_workers():
    few = al.simulation.simulate_spectrum(head(), n_trials=2, rng=7)
    many = al.simulation.simulate_spectrum(head(), n_trials=3, rng=7, n_jobs=2)
    assert_allclose(few, many[:2], rtol=1e-9, atol=1e-13)


def test_frozen_attention_counts_columns_like_poisson():
    # β → ∞: one 1 in a row, squared singular values of √n A are n × column counts, Poisson(1).
    n, draws = 400, 20
    rng = np.random.default_rng(3)
    counts = []
    for _ in range(draws):
        scores = rng.standard_normal((n, 80)) @ rng.standard_normal((80, n))
        A = attention_matrix(scores, 1e9)
        found = np.sort(sim.squared_singular_values(A))
        columns = A.sum(axis=0)
        assert_allclose(found, np.sort(columns), atol=1e-9)
        counts.append([np.mean(columns == k) for k in range(3)])
    # Long keys win more often: at d_k = 80 the counts are a little more spread than Poisson's.
    expected = np.exp(-1) / np.array([1, 1, 2])
    assert_allclose(np.mean(counts, axis=0), expected, atol=0.12)
    independent = [
        [np.mean(np.bincount(rng.integers(n, size=n), minlength=n) == k) for k in range(3)]
        for _ in range(draws)
    ]
    z = (np.mean(independent, axis=0) - expected) / (np.std(independent, axis=0) / draws**0.5)
    assert np.abs(z).max() < 5


def test_matrices_of_the_chain_are_close_to_each_other():
    # P2 Figure 1: √n A_⊥ ≈ f(S)/√n ≈ its polynomial; the same scores in all three.
    model = head(400, 400, 0.6)
    by_name = {
        name: al.simulation.simulate_spectrum(model, rng=5, matrix=name)[0]
        for name in sim.MATRICES
    }
    top = by_name["kernel"][-1]
    assert np.abs(by_name["polynomial"] - by_name["kernel"]).max() < 1e-3 * top
    assert np.abs(by_name["softmax"] - by_name["kernel"])[:-3].max() < 0.03 * top
    assert np.abs(by_name["linear"] - by_name["kernel"])[:-3].max() < 0.06 * top


def test_shapes_of_heads_values_and_output():
    for combination in ("concatenate", "mean"):
        more = {"n_heads": 3, "combination": combination}
        for extra, rank in [
            ({}, 59),
            ({"value_dimension": 7}, 21),
            ({"value_dimension": 7, "output_dimension": 5}, 5),
        ]:
            if (
                combination == "mean"
                and extra.get("value_dimension")
                and "output_dimension" not in extra
            ):
                rank = 7
            values = al.simulation.simulate_spectrum(head(**more, **extra), rng=0)[0]
            assert values.size == 60
            assert np.sum(values > 1e-10) in (rank, rank + 1)


def test_observation_measures_the_matrix_itself():
    model = head(80, 30, 0.8)
    seen = al.simulate(model, n_trials=2, rng=4)
    rng = np.random.default_rng(4).spawn(1)[0]
    Q, K = rng.standard_normal((80, 30)), rng.standard_normal((80, 30))
    A = attention_matrix(Q @ K.T / 30**0.5, 0.8)
    s = np.linalg.svd(A, compute_uv=False)
    assert_allclose(seen.top_singular_value[0], s[0], rtol=1e-10)
    assert_allclose(seen.second_singular_value[0], s[1], rtol=1e-10)
    assert_allclose(seen.squared_frobenius_norm[0], np.sum(s**2), rtol=1e-10)
    assert_allclose(seen.stable_rank[0], np.sum(s**2) / s[0] ** 2, rtol=1e-10)
    assert_allclose(seen.mean_square[0], np.sum(s**2) - 1, rtol=1e-9)  # ‖A‖² = 1 + m₁


def test_several_heads_are_observed_too():
    seen = al.simulate(head(n_heads=3), n_trials=2, rng=0)
    mean = al.simulate(head(n_heads=3, combination="mean"), n_trials=2, rng=0)
    assert (seen.squared_frobenius_norm > mean.squared_frobenius_norm).all()
    assert_allclose(seen.top_singular_value, 1, atol=0.1)


def test_causal_attention_is_centred_by_its_own_mean():
    values = al.simulation.simulate_spectrum(head(causal=True, beta=1e-9), rng=0)
    assert values.max() < 1e-15


def test_inputs_have_the_spectrum_asked_for():
    model = head(50, 10, 1.0, input_spectrum=[0.0, 1.0, 2.0])
    X = sim.sample_inputs(model, np.random.default_rng(0))
    found = np.linalg.eigvalsh(X @ X.T)
    assert_allclose(found.mean(), 1, rtol=0.02)
    assert_allclose(np.unique(found.round(9)), [0, 1, 2], atol=1e-8)


def test_given_inputs_matter_through_their_gram_matrix_alone():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 20))
    rotation = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    scores = []
    for inputs in (X, 3.0 * X @ rotation):  # the same W_Q, W_K in another basis
        model = head(50, 10, inputs=inputs)
        assert_allclose(np.sum(model.inputs**2), 50, rtol=1e-12)
        scores.append(model.inputs @ model.inputs.T)
    assert_allclose(scores[0], scores[1], atol=1e-12)
    # a row of inputs twice is a row of attention twice
    doubled = head(50, 10, inputs=np.repeat(X[:25], 2, axis=0))
    A = sim.sample_attention(doubled, rng=0)
    assert_allclose(A[::2], A[1::2], rtol=1e-9)
    # unless positions tell them apart
    A = sim.sample_attention(
        head(50, 10, inputs=np.repeat(X[:25], 2, axis=0), rotary_base=1e4), rng=0
    )
    assert np.abs(A[::2] - A[1::2]).max() > 1e-3


def test_scores_over_given_inputs_have_the_covariance_of_their_gram_matrix():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3, 4))
    model = head(3, 6, inputs=X)
    T = model.inputs @ model.inputs.T
    draws = []
    for _ in range(4000):
        Q, K = sim.sample_queries_and_keys(model, rng, model.inputs)
        draws.append(sim.attention_scores(Q, K))
    S = np.array(draws)

    def z_score(seen, expected):
        return (seen.mean() - expected) / (seen.std(ddof=1) / seen.size**0.5)

    # E S_ij S_kl = T_ik T_jl
    for i, j, k, m in [(0, 1, 0, 1), (0, 1, 2, 1), (0, 0, 1, 2)]:
        assert abs(z_score(S[:, i, j] * S[:, k, m], T[i, k] * T[j, m])) < 5
    assert abs(z_score(S[:, 0, 1] ** 2, 1.0)) > 5  # nor are they those of orthonormal inputs


def test_rotations_leave_norms_and_see_differences_of_positions():
    V = np.random.default_rng(4).standard_normal((30, 12))
    R = sim.rotate_by_position(V, 100.0)
    assert_allclose(np.linalg.norm(R, axis=1), np.linalg.norm(V, axis=1), rtol=1e-12)
    same = np.tile(V[0], (30, 1))
    S = sim.attention_scores(same, np.tile(V[1], (30, 1)), 100.0)
    assert_allclose(S[5:, 5:], S[:-5, :-5], atol=1e-12)  # Toeplitz
    # rotation invariant queries and keys lose nothing: the same scores in law
    z = sim.attention_scores(V, V, 100.0)
    assert_allclose(np.diag(z), np.diag(V @ V.T) / 12**0.5, rtol=1e-12)


@pytest.mark.parametrize(
    ("more", "seen_by_last"),
    [({"window": 7}, 7), ({"alibi_slope": 50.0}, 1), ({"sink": 0.4, "window": 5}, 6)],
)
def test_patterns_limit_what_a_row_sees(more, seen_by_last):
    model = head(causal=True, **more)
    A = sim.sample_attention(model, rng=5)
    assert_allclose(A.sum(axis=1), 1, rtol=1e-12)
    assert (A[np.triu_indices(60, 1)] == 0).all()
    assert np.sum(A[-1] > 1e-12) == seen_by_last
    warm = head(causal=True, beta=0.0, **more)
    assert_allclose(sim.sample_attention(warm, rng=5), model.mean_pattern(), atol=1e-12)
    assert np.abs(sim.centred_attention(warm, model.mean_pattern())).max() < 1e-12


def test_a_sink_scales_the_rows_of_the_other_tokens():
    rng = np.random.default_rng(6)
    scores = rng.standard_normal((40, 40))
    model = head(40, causal=True, sink=0.6)
    A = sim.sample_attention(model, scores=scores)
    others = head(39, causal=True)
    alone = sim.sample_attention(others, scores=scores[1:, 1:])
    Y = sim.centred_attention(model, A)
    assert_allclose(A[1:, 1:], (1 - A[1:, :1]) * alone, rtol=1e-12)
    expected = (1 - A[1:, :1]) * sim.centred_attention(others, alone)
    assert_allclose(Y[1:, 1:], expected, atol=1e-13)
    assert (Y[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: al.simulation.simulate_spectrum(head(), matrix="tanh"),
            "matrix must be one of 'softmax', 'kernel', 'polynomial', 'linear', got 'tanh'.",
        ),
        (
            lambda: head(inputs=np.ones((3, 2))),
            "inputs must be of shape (60, m), a row for each token, got an array of shape (3, 2).",
        ),
        (
            lambda: al.simulate(head(value_dimension=4)),
            "value_dimension must be None to simulate A itself, got 4.",
        ),
        (
            lambda: al.simulation.simulate_spectrum(head(), n_trials=0),
            "n_trials must be a whole number of at least 1, got 0.",
        ),
    ],
)
def test_bad_input_gets_the_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        call()


def test_sizes_that_do_not_fit_are_refused_before_anything_is_drawn():
    with pytest.raises(ValueError, match=r"^n_tokens must be small enough for .* GiB of matrices"):
        al.simulate(head(n=900_000))
