"""Laws of attention against drawn attention.

Eigenvalues repel each other, so the distance of an empirical distribution from its own law is
of order (log n)/n and not 1/√n: at 500 tokens and three draws it is below 0.005 for the matrix
whose law is exact (`test_linear…`). What softmax adds is the error of the theory at finite n.
"""

import numpy as np
import pytest

import attnlaw as al


def head(n, d, beta, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


def distance(law, values):
    return al.ks_distance(values, law)


def test_linear_equivalent_has_the_moments_of_the_first_order_law(z_score):
    model = head(300, 75, 1.0)
    values = al.observe_attention_spectrum(model, 30, rng=0, matrix="linear")
    law = al.attention_law(model, "first")
    # E m₁ = θ₁ exactly; E m₂ = 2θ₁² + θ₂²φ + (θ₁² + 2θ₂²φ/n …)/n, here corrected to order 1/n:
    # the square of an n×n Gram matrix has E tr/n = 2θ₁² + θ₁²/n for noise, the block adds
    # θ₂²(φ + 2/d + 1/n) − …, so allow half a percent besides five standard errors.
    assert abs(z_score(values.mean(axis=1), law.moment(1))) < 5
    m2 = (values**2).mean(axis=1)
    error = m2.std(ddof=1) / 30**0.5
    assert abs(m2.mean() - law.moment(2)) < 5 * error + 0.005 * law.moment(2)
    without_block = 2 * law.moment(1) ** 2
    assert abs(m2.mean() - without_block) > 50 * error


def test_linear_equivalent_has_the_first_order_law():
    for d in (500, 60):
        model = head(500, d, 1.0)
        values = al.observe_attention_spectrum(model, 3, rng=1, matrix="linear")
        assert distance(al.attention_law(model, "first"), values) < 0.005


def test_square_heads_have_the_first_order_law():
    # n = d_k = 1000, β = 1, ten draws, the top three removed: the paper's own regime.
    model = head(1000, 1000, 1.0)
    values = al.observe_attention_spectrum(model, 10, rng=0)[:, :-3]
    law = al.attention_law(model, "first")
    assert distance(law, values) < 0.03
    assert distance(al.attention_law(model, "tokens"), values) < 0.008
    noise_alone = np.expm1(1.0) * al.MarchenkoPastur(1.0)
    assert distance(noise_alone, values) > 0.05


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize(
    ("d", "beta", "first", "norms", "tokens"),
    [  # distances: first order at least, norms at most and at least, tokens at most
        (64, 0.5, 0.04, 0.015, 0.012),
        (64, 1.0, 0.07, 0.035, 0.015),
        (64, 1.5, 0.14, 0.08, 0.025),
        (16, 1.0, 0.25, 0.02, 0.02),
        (500, 1.5, 0.08, 0.12, 0.02),
    ],
)
def test_realistic_heads_have_the_law_of_their_size(d, beta, first, norms, tokens):
    model = head(500, d, beta)
    values = al.observe_attention_spectrum(model, 4, rng=2)
    assert distance(al.attention_law(model, "first"), values) > first
    assert distance(al.attention_law(model, "norms"), values) < norms
    assert distance(al.attention_law(model), values) < tokens


@pytest.mark.slow
def test_realistic_head_of_the_issue():
    # n = 2000, d_k = 64, β = 1: first order .12, powers .064; asked for: below .03.
    model = head(2000, 64, 1.0)
    values = al.observe_attention_spectrum(model, 3, rng=0)
    assert distance(al.attention_law(model, "first"), values) > 0.1
    assert 0.05 < distance(al.attention_law(model, "powers"), values) < 0.08
    assert distance(al.attention_law(model, "norms"), values) < 0.012
    assert distance(al.attention_law(model), values) < 0.008


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("combination", ["concatenate", "mean"])
def test_several_heads(combination):
    model = head(400, 100, 0.7, n_heads=4, combination=combination)
    values = al.observe_attention_spectrum(model, 3, rng=3)
    law = al.attention_law(model, "first")
    assert distance(law, values) < 0.03
    assert distance(al.attention_law(model), values) < 0.01
    # φ = n/d_k kept for every head, instead of n/(h d_k), is far off:
    phi, theta = 4.0, np.expm1(0.49)
    rows = 0.49 * al.MarchenkoPastur(phi) + (theta - 0.49)
    wrong = (
        rows / 4 @ al.MarchenkoPastur(1.0)
        if combination == "mean"
        else rows @ al.MarchenkoPastur(0.25)
    )
    assert distance(wrong, values) > 0.15


def test_values_and_output_multiply_the_law():
    model = head(400, 100, 0.7, n_heads=2, value_dimension=100, output_dimension=250)
    values = al.observe_attention_spectrum(model, 3, rng=4)
    for order in ("first", "tokens"):
        law = al.attention_law(model, order)
        assert law.atom.mass[0] == pytest.approx(0.5)
        assert distance(law, values) < 0.02


def test_prediction_meets_observation(z_score):
    # 400 tokens at β = 0.7: s₁ and ‖A‖ to five standard errors of 30 draws and a part in 500
    # (the energies of the theory are good to 1/n); the limit s₁ = 1 is far outside.
    model = head(400, 64, 0.7)
    seen, said = al.observe_attention(model, 30, rng=5), al.predict_attention(model)
    for name in ("mean_square", "squared_frobenius_norm", "top_singular_value", "stable_rank"):
        observed, predicted = getattr(seen, name), getattr(said, name)
        error = observed.std(ddof=1) / 30**0.5
        assert abs(observed.mean() - predicted) < 5 * error + predicted / 500, name
    assert abs(z_score(seen.top_singular_value, 1.0)) > 20
    assert abs(seen.bulk_edge.mean() / said.bulk_edge - 1) < 3 * 400 ** (-2 / 3)
    assert abs(seen.second_singular_value.mean() / said.second_singular_value - 1) < 0.05


@pytest.mark.parametrize("name", ["gaussian", "two values", "half rank"])
def test_inputs_that_are_not_orthonormal(name):
    n = 500
    spectrum = {
        "gaussian": al.MarchenkoPastur(1.0).quantile((np.arange(n) + 0.5) / n),
        "two values": [0.2, 1.8],
        "half rank": [0.0, 2.0],
    }[name]
    model = head(n, n, 0.5, input_spectrum=spectrum)
    law = al.attention_law(model, "first")
    exact = al.observe_attention_spectrum(model, 3, rng=6, matrix="linear")
    assert distance(law, exact) < 0.008
    values = al.observe_attention_spectrum(model, 3, rng=6)
    assert distance(law, values) < 0.02
    assert distance(al.attention_law(head(n, n, 0.5), "first"), values) > 0.06
    # The largest follows Tracy and Widom: E − 1.2065 (an)^{−2/3}, with density (a/π)√(E − x).
    edge = law.edges[-1]
    a = np.pi * law.density(0.999 * edge) / np.sqrt(0.001 * edge)
    scale = (a * n) ** (-2 / 3)
    z = (exact[:, -1].mean() - (edge - 1.2065 * scale)) / (1.268 * scale / 3**0.5)
    assert abs(z) < 5
    orthonormal = al.attention_law(head(n, n, 0.5), "first").edges[-1]
    assert abs(exact[:, -1].mean() - orthonormal) > 5 * 1.268 * scale


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("name", ["gaussian", "half rank"])
def test_realistic_heads_over_realistic_inputs(name):
    n = 500
    spectrum = [0.0, 2.0]
    if name == "gaussian":
        spectrum = al.MarchenkoPastur(1.0).quantile((np.arange(n) + 0.5) / n)
    model = head(n, 250, 0.8, input_spectrum=spectrum)
    values = al.observe_attention_spectrum(model, 3, rng=8)
    # over three seeds: .010–.013, .032–.035 and .055–.064
    assert distance(al.attention_law(model), values) < 0.018
    assert distance(al.attention_law(model, "first"), values) > 0.025  # the head is not the limit
    assert distance(al.attention_law(head(n, 250, 0.8)), values) > 0.045  # nor the inputs alike


def key_norm_overlaps(model, seed):
    """Squared singular values, and the overlap of their right vectors with the key norms."""
    from attnlaw.simulation.attention import attention_matrix

    rng = np.random.default_rng(seed)
    n, d = model.n_tokens, model.head_dimension
    Q, K = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    Y = n**0.5 * (attention_matrix(Q @ K.T / d**0.5, model.inverse_temperature) - 1 / n)
    values, vectors = np.linalg.eigh(Y.T @ Y)
    norms = np.sum(K**2, axis=1)
    norms = norms - norms.mean()
    return values, (vectors.T @ norms) ** 2 / (norms @ norms)


@pytest.mark.parametrize(("n", "d", "beta"), [(800, 8, 0.5), (800, 16, 0.6), (1000, 32, 0.8)])
def test_key_norms_stand_alone_in_the_gap(n, d, beta):
    model = head(n, d, beta)
    found = al.key_norm_outlier(model)
    assert found.locations.size == 1
    seen = []
    for seed in range(4):
        values, overlaps = key_norm_overlaps(model, seed)
        k = int(np.argmax(overlaps))
        assert n - 1 - k == d  # just below the d_k singular values of the linear part
        seen.append((values[k], overlaps[k]))
    seen = np.array(seen)
    error = seen.std(axis=0, ddof=1) / 4**0.5
    # the strength of a draw fluctuates like 1/√n through its key norms; theory adds d^{-1} terms
    assert abs(seen[:, 0].mean() - found.locations[0]) < 5 * error[0] + 0.05 * found.locations[0]
    assert abs(seen[:, 1].mean() - found.squared_overlaps[0]) < 0.06
    # without the bulk the term would sit at its own strength, with overlap 1
    assert found.squared_overlaps[0] < 0.99


def test_key_norms_are_lost_where_there_is_no_gap():
    model = head(600, 600, 1.0)
    assert al.key_norm_outlier(model).locations.size == 0
    _, overlaps = key_norm_overlaps(model, 0)
    assert overlaps.max() < 0.1


def test_strong_term_leaves_the_top_of_the_gaussian_equivalent():
    # β = 2, φ = 40: softmax at this n is ruled by single entries, so the term is put on Y_lin.
    n, d, beta = 800, 20, 2.0
    rng = np.random.default_rng(7)
    model = head(n, d, beta)
    found = al.key_norm_outlier(model, "first")
    assert found.is_detached
    tops = []
    for _ in range(4):
        square = beta**2
        Y = beta * rng.standard_normal((n, d)) @ rng.standard_normal((d, n)) / (n * d) ** 0.5
        Y += (np.expm1(square) - square) ** 0.5 * rng.standard_normal((n, n)) / n**0.5
        r = rng.standard_normal(n)
        r *= (found.strength / n) ** 0.5 / np.sqrt(np.mean(r**2))
        Y += np.outer(np.ones(n), r) / n**0.5
        values, vectors = np.linalg.eigh(Y.T @ Y)
        tops.append((values[-1], (vectors[:, -1] @ r) ** 2 / (r @ r)))
    tops = np.array(tops)
    assert abs(tops[:, 0].mean() / found.locations[-1] - 1) < 0.05
    assert abs(tops[:, 1].mean() - found.squared_overlaps[-1]) < 0.1
