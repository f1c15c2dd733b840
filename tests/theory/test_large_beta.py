"""Every inverse temperature: exact norms, possible values, the frozen limit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import roots_genlaguerre

import attnlaw as al
from attnlaw.laws.cavity import _observed_walk
from attnlaw.theory.attention.causal import causal_energies, causal_head
from attnlaw.theory.attention.kernel import Kernel
from attnlaw.theory.attention.profiles import tokens_term_energy
from attnlaw.theory.attention.rows import mean_energies, row_energies, row_means

pytestmark = pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")


def head(n, d, beta, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "beta",
    [1e-300, 1e-100, 1e-5, 4.0, 10.0, pytest.param(500.0, marks=pytest.mark.slow), 1e8],
)
def test_every_temperature_has_a_possible_law(beta, causal):
    model = head(60, 20, beta, causal=causal)
    law = al.law(model)
    x = np.geomspace(1e-6, 1e4, 300) * min(max(beta**2, 1e-280), 1.0)
    cdf = law.cdf(x)
    assert (np.diff(cdf) >= 0).all()
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert (law.density(x) >= 0).all()
    predicted = al.predict(model)
    least = np.sum(1 / np.arange(1.0, 61)) if causal else 1.0
    assert least - 1e-9 <= predicted.squared_frobenius_norm <= 60 + 1e-9


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "beta"),
    [
        (2, 1, 1e-300),
        (2, 1, 1e-100),
        (2, 2, 1e-8),
        (5, 1, 0.3),
        (3, 1, 0.5),
        (2, 1, 2.0),
        (12, 2, 1e8),
        (2, 2, 1e30),
    ],
)
def test_heads_of_one_or_two_dimensions_have_a_possible_law(n, d, beta, causal):
    model = head(n, d, beta, causal=causal)
    law = al.law(model)
    x = np.r_[0.0, np.geomspace(1e-300, 1e6, 300)]
    cdf = law.cdf(x)
    assert (np.diff(cdf) >= 0).all()
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert cdf[-1] == 1
    assert (law.density(x) >= 0).all()
    assert 0 <= law.moment(1) <= n - 1 + 1e-9
    assert law.moment(1) ** 2 * (1 - 1e-6) <= law.moment(2) <= n**3
    with pytest.warns(al.RegimeWarning, match="is below 3"):
        al.predict(model)


@pytest.mark.slow
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [2, 5])
def test_small_heads_have_a_possible_law_at_every_temperature(n, d, causal, qk_norm):
    for beta in (1e-300, 1e-100, 1e-8, 1e-3, 0.3, 0.9, 1.4, 2.0, 3.5, 10.0, 181.0, 1e8, 1e30):
        model = head(n, d, beta, causal=causal, qk_norm=qk_norm)
        law = al.law(model)
        x = np.r_[0.0, np.geomspace(1e-300, 1e8, 300)]
        cdf = law.cdf(x)
        assert (np.diff(cdf) >= 0).all()
        assert cdf[0] >= 0
        assert 1 - 1e-14 < cdf[-1] <= 1  # rounding error of a sum of masses
        assert (law.density(x) >= 0).all()
        assert 0 <= law.moment(1) <= n - 1 + 1e-9
        assert 1 - 1e-9 <= al.predict(model).squared_frobenius_norm <= n + 1e-9


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [1.2, 4.0, 10.0])
def test_norm_is_exact(beta, causal):
    model = head(60, 20, beta, causal=causal)
    seen = al.simulate(model, n_trials=100, rng=3).squared_frobenius_norm
    error = seen.std(ddof=1) / seen.size**0.5
    assert abs(seen.mean() - al.predict(model).squared_frobenius_norm) < 5 * error


def exact_energies(lengths, d, beta, *, qk_norm=False):
    """i E ΣA² − 1 for rows of i entries: scores and norms by other rules than the library's."""
    nodes, weights = roots_genlaguerre(24, d / 2 - 1)
    x = np.linspace(-9.5, 9.5, 601)
    density = np.exp(-(x**2) / 2)
    if qk_norm:
        nodes, weights = np.array([d / 2]), np.ones(1)
        x = np.linspace(-1, 1, 4001)[1:-1] * d**0.5
        density = (1 - x**2 / d) ** ((d - 3) / 2)
    density /= density.sum()
    i = np.asarray(lengths, dtype=float)[:, None]
    result = np.zeros(i.size)
    for r, weight in zip(np.sqrt(2 * nodes / d), weights / weights.sum(), strict=True):
        b = beta * r
        log_t = np.arange(-x[-1] * b - np.log(i.max()) - 36, x[-1] * b + 5, 0.2)
        tg = np.exp(np.minimum(log_t[:, None] + b * x, 50.0))
        phi = np.exp(-tg) @ density
        second = (tg**2 * np.exp(-tg)) @ density
        result += weight * (0.2 * i[:, 0] ** 2 * (phi ** (i - 1) @ second) - 1)
    return result


@pytest.mark.parametrize(
    ("d", "beta"),
    [
        (64, 0.1),
        (64, 1.5),
        pytest.param(16, 2.0, marks=pytest.mark.slow),
        (24, 4.0),
        pytest.param(200, 6.5, marks=pytest.mark.slow),
    ],
)
def test_second_moment_of_entries_is_the_exact_integral(d, beta):
    lengths = np.array([*range(1, 61), 300])
    exact = exact_energies(lengths, d, beta)
    model, causal = head(300, d, beta), head(60, d, beta, causal=True)
    by_tokens = al.law(model, "tokens").moment(1) + tokens_term_energy(model)
    assert_allclose(by_tokens, exact[-1], rtol=1e-6)
    rows, term = causal_energies(causal)
    assert_allclose(rows, exact[:60], rtol=1e-6, atol=1e-12)
    assert_allclose(al.law(causal, "tokens").moment(1) + term, exact[:60].mean(), rtol=1e-6)
    # norms that end where those of n tokens do have another energy
    kernel = Kernel(head(300, d, beta))
    cut = float(row_energies(kernel, np.array([300.0]))[0] @ kernel.weights)
    assert abs(cut / exact[-1] - 1) > 3e-6


SEVERAL = {"n_heads": 4}
KINDS = {
    "cavity": (4.0, {}),
    "mixed": (2.0, {}),
    "qk_norm": (1.0, {"qk_norm": True}),
    "qk_norm, cavity": (4.0, {"qk_norm": True}),
    "heads side by side": (1.0, SEVERAL),
    "heads that share keys": (1.0, SEVERAL | {"n_key_heads": 2}),
    "mean of heads": (1.0, SEVERAL | {"combination": "mean"}),
    "window": (1.2, {"window": 7}),
}


@pytest.mark.parametrize(
    ("kind", "causal"), [*((kind, causal) for kind in KINDS for causal in (False, True))]
)
def test_every_kind_of_law_has_the_exact_second_moment(kind, causal):
    n, d = 60, 20
    beta, more = KINDS[kind]
    if kind == "window" and not causal:
        more = {}  # only causal heads have one
    model = head(n, d, beta, causal=causal, **more)
    lengths = np.minimum(np.arange(1, n + 1), more.get("window", n)) if causal else [n]
    exact = exact_energies(lengths, d, beta, qk_norm=model.qk_norm).mean()
    exact /= model.n_heads if model.combination == "mean" else 1
    law = al.law(model)
    outside = law.weights[0] if kind == "mixed" else float("cavity" not in kind)
    term = causal_head(model).term_energy if causal else tokens_term_energy(model)
    assert_allclose(law.moment(1) + outside * term, exact, rtol=1e-6)


def drawn_energies_over_sink(m, d, beta, sink, n_draws):
    """m Σ_j (A_j − (1 − A_0)/m)² of drawn rows of m entries beside a sink, and without it."""
    rng = np.random.default_rng(3)
    norm = np.sqrt(rng.chisquare(d, (n_draws, 1)) / d)
    g = np.exp(beta * norm * rng.standard_normal((n_draws, m + 1)))
    g[:, 0] *= m * sink / (1 - sink)
    others = g[:, 1:] - g[:, 1:].mean(axis=1, keepdims=True)
    squares = m * np.sum(others**2, axis=1)
    return squares / g.sum(axis=1) ** 2, squares / g[:, 1:].sum(axis=1) ** 2


@pytest.mark.parametrize(("m", "sink"), [(2, 0.3), (9, 0.6), (40, 0.9)])
def test_energy_over_a_sink_is_that_of_drawn_rows(m, sink):
    d, beta = 24, 0.9
    kernel = Kernel(head(60, d, beta))
    exact = float(mean_energies(kernel, np.array([float(m)]), sink=sink)[0])
    plain = float(mean_energies(kernel, np.array([float(m)]))[0])
    drawn, without = drawn_energies_over_sink(m, d, beta, sink, 40_000)
    error = drawn.std() / len(drawn) ** 0.5
    assert abs(drawn.mean() - exact) < 5 * error
    assert abs(without.mean() - plain) < 5 * without.std() / len(drawn) ** 0.5
    assert abs(drawn.mean() - plain * (1 - sink) ** 2) > 5 * error  # the share at β = 0


@pytest.mark.parametrize("more", [{}, {"window": 12}, {"n_heads": 3}, {"qk_norm": True}])
def test_laws_over_a_sink_have_the_exact_second_moment(more):
    n, sink = 60, 0.5
    model = head(n, 20, 0.9, causal=True, sink=sink, **more)
    lengths = np.minimum(np.arange(1.0, n), more.get("window", n))
    exact = mean_energies(Kernel(model), lengths, sink=sink).sum() / n
    assert_allclose(al.law(model).moment(1) + causal_head(model).term_energy, exact, rtol=1e-6)


def exact_decayed_energy(i, d, beta, slope):
    """Σ E(A − π)²/Σπ² of a row with π_j ∝ e^{−mj}, j < i, by other rules than the library's."""
    nodes, weights = roots_genlaguerre(24, d / 2 - 1)
    x = np.linspace(-9.5, 9.5, 1001)
    density = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    v, log_t, result = np.exp(-slope * np.arange(i)), np.arange(-45, 35, 0.2), 0.0
    for r, weight in zip(np.sqrt(2 * nodes / d), weights / weights.sum(), strict=True):
        if weight < 1e-12:
            continue
        t, g = np.exp(log_t), np.exp(beta * r * x)
        decay = np.exp(-np.multiply.outer(np.outer(v, t), g))
        phi, one, two = (decay @ (density * g**k) for k in (0, 1, 2))
        phi = np.maximum(phi, 1e-300)
        product = 0.2 * np.exp(np.log(phi).sum(axis=0))
        second = product @ (t**2 * (v**2 @ (two / phi)))
        first = product @ (t * (v**2 @ (one / phi))) / v.sum()
        result += weight * ((second - 2 * first) / (v @ v) * v.sum() ** 2 + 1)
    return result


def test_laws_with_slopes_have_the_exact_second_moment():
    n, d, beta, slope = 9, 20, 0.9, 0.2
    model = head(n, d, beta, causal=True, alibi_slope=slope)
    exact = np.mean([exact_decayed_energy(i, d, beta, slope) for i in range(1, n + 1)])
    assert_allclose(al.law(model).moment(1) + causal_head(model).term_energy, exact, rtol=1e-6)


def test_cavity_laws_over_a_sink_have_the_exact_second_moment():
    model = head(60, 20, 4.0, causal=True, sink=0.5)
    exact = mean_energies(Kernel(model), np.arange(1.0, 60), sink=0.5)
    assert_allclose(al.law(model).moment(1), exact.mean(), rtol=1e-6)  # of rows with an entry
    seen = np.sum(al.simulation.simulate_spectrum(model, n_trials=400, rng=1), axis=-1)
    error = seen.std(ddof=1) / len(seen) ** 0.5
    assert abs(seen.mean() - exact.sum()) < 5 * error


def test_wide_rows_have_the_energies_of_others():
    # the same integral over two variables, on either side of the spread at which they change
    kernel = Kernel(head(300, 10**9, 6.0))
    lengths = np.array([2.0, 30.0, 1000.0])
    x, weights = kernel.scores(601, cut=False)
    for spread in (6.5, 10.0):
        one = row_means(spread * x, weights, np.zeros((0, x.size)), lengths)[0]
        other = row_energies(kernel, lengths, np.array([spread / 6.0]))[:, 0]
        assert_allclose(one, other, rtol=1e-8)
    frozen = row_energies(kernel, lengths, np.array([1e7]))[:, 0]
    assert_allclose(frozen, lengths - 1, rtol=1e-5)


def test_frozen_heads_count_best_keys():
    n, d = 200, 100
    law = al.law(head(n, d, 1e6), order="frozen")
    assert_allclose(law.moment(1), n, rtol=1e-9)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(60):
        scores = rng.standard_normal((n, d)) @ rng.standard_normal((d, n))
        counts = np.bincount(scores.argmax(axis=1), minlength=n)
        shares.append([(counts == k).mean() for k in range(4)])
    error = np.std(shares, axis=0, ddof=1) / 60**0.5
    z = (np.mean(shares, axis=0) - law.atom.mass[:4]) / error
    assert np.abs(z).max() < 5
    poisson = np.exp(-1) / np.array([1, 1, 2, 6])  # without the spread of norms
    assert np.abs((np.mean(shares, axis=0) - poisson) / error).max() > 8


def test_equal_norms_freeze_to_a_poisson_law():
    law = al.law(head(10_000, 64, 1e6, qk_norm=True), order="frozen")
    expected = np.exp(-1) / np.array([1, 1, 2, 6, 24])
    assert_allclose(law.atom.mass[:5], expected, rtol=1e-3)


def test_frozen_law_is_of_a_single_head():
    with pytest.raises(ValueError, match="order must be 'frozen' for a single head alone"):
        al.law(head(50, 16, 1e6, n_heads=2), order="frozen")


@pytest.mark.parametrize("causal", [False, True])
def test_heavy_rows_follow_their_cavity_law(causal):
    model = head(300, 64, 4.0, causal=causal)
    law = al.law(model)
    assert isinstance(law, al.laws.CavityLaw)
    x = law.quantile(np.linspace(0.2, 0.95, 9))
    values = al.simulation.simulate_spectrum(model, n_trials=8, rng=5)
    shares = (values[:, :, None] <= x).mean(axis=1)
    error = shares.std(axis=0, ddof=1) / len(shares) ** 0.5
    z = np.abs(shares.mean(axis=0) - law.cdf(x)) / error
    assert z.max() < 5
    without = al.law(model, order="tokens")  # resolvents that do not fluctuate
    assert (np.abs(shares.mean(axis=0) - without.cdf(x)) / error).max() > 10


def test_offsets_of_causal_rows_are_a_walk_seen_at_each_row():
    # R and C against the inverse of the whole matrix
    rng = np.random.default_rng(2)
    S, T = (rng.uniform(0.5, 2, (6, 1)) + 0.3j for _ in range(2))
    m = rng.uniform(0.2, 1, 6)
    walk, C = _observed_walk(S, T, (m**2)[:, None] + 0j, 1.0)
    M = np.tril(np.tile(m[:, None], (1, 6)))
    whole = np.block([[-np.diag(S[:, 0]), M], [M.T, -np.diag(T[:, 0])]])
    expected = np.diag(np.linalg.inv(whole))
    assert_allclose((-1 / (S + (m**2)[:, None] * walk))[:, 0], expected[:6], rtol=1e-12)
    assert_allclose(C.ravel(), expected[6:], rtol=1e-12)
    # two matrices of the same offsets side by side: one walk, whose steps are sums
    T = np.stack([T, T[::-1] + 0.2])
    walk, C = _observed_walk(S, T, (m**2)[:, None] + 0j, 1.0)
    both = np.hstack([M, M])
    whole = np.block([[-np.diag(S[:, 0]), both], [both.T, -np.diag(T.ravel())]])
    expected = np.diag(np.linalg.inv(whole))
    assert_allclose((-1 / (S + (m**2)[:, None] * walk))[:, 0], expected[:6], rtol=1e-12)
    assert_allclose(C.ravel(), expected[6:], rtol=1e-12)


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.slow), True])
def test_laws_change_over_by_mixing(causal):
    model = head(250, 24, 2.0, causal=causal)
    law = al.law(model)
    assert isinstance(law, al.laws.MixtureLaw)
    tokens, cavity = law.laws
    values = al.simulation.simulate_spectrum(model, n_trials=6, rng=8)
    x = tokens.quantile(np.linspace(0.3, 0.95, 7))
    seen = (values[:, :, None] <= x).mean(axis=(0, 1))
    error = [np.abs(part.cdf(x) - seen).max() for part in (law, tokens, cavity)]
    assert error[0] < 0.7 * min(error[1:])
    q = np.array([1e-3, 0.2, 0.7, 0.99])
    assert_allclose(law.cdf(law.quantile(q)), np.maximum(q, law.cdf(0.0)), atol=1e-9)
    share = law.weights[1]
    z = 3 + 2j
    mean = (1 - share) * tokens.stieltjes(z) + share * cavity.stieltjes(z)
    assert_allclose(law.stieltjes(z), mean, rtol=1e-12)


@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.6], [1.5, -0.5]])
def test_weights_of_a_mixture_are_probabilities(weights):
    with pytest.raises(ValueError, match="weights must be one for each law"):
        al.laws.MixtureLaw([al.MarchenkoPastur(1.0), al.MarchenkoPastur(0.5)], weights)


def test_cavity_law_answers_like_every_law():
    law = al.law(head(300, 64, 4.0)) * 2.0
    q = np.linspace(0.02, 0.999, 40)
    x = law.quantile(q)
    assert_allclose(law.cdf(x), q, atol=1e-9)
    assert (np.diff(x) > 0).all()
    middle = np.geomspace(1e-6, law.edges[1] * 0.99, 4000)
    integral = law.cdf(middle[0]) + np.trapezoid(law.density(middle) * middle, np.log(middle))
    assert_allclose(integral, law.cdf(middle[-1]), atol=2e-3)
    z = 50 + 400j
    samples = law.quantile((np.arange(20_000) + 0.5) / 20_000)
    assert_allclose(law.stieltjes(z), np.mean(1 / (samples - z)), rtol=1e-3)
    assert_allclose(law.moment(1), np.mean(samples), rtol=0.03)
    assert law == al.law(head(300, 64, 4.0)) * 2.0  # computed once


def test_law_tends_to_the_frozen_law_at_large_inverse_temperature():
    frozen = al.law(head(60, 20, 1e8), order="frozen")
    law = al.law(head(60, 20, 1e8))
    between = 60 * (np.arange(5) + 0.5)
    assert_allclose(law.cdf(between), frozen.cdf(between), atol=0.015)


@pytest.mark.parametrize(
    ("causal", "combination"),
    [
        (False, "concatenate"),
        (True, "concatenate"),
        pytest.param(False, "mean", marks=pytest.mark.slow),
        pytest.param(True, "mean", marks=pytest.mark.slow),
    ],
)
def test_several_heads_follow_their_cavity_law(causal, combination):
    model = head(200, 64, 4.0, causal=causal, n_heads=3, combination=combination)
    law = al.law(model)
    assert isinstance(law, al.laws.CavityLaw)
    values = np.sort(al.simulation.simulate_spectrum(model, n_trials=6, rng=5).ravel())
    seen = values > 1e-13 * values[-1]
    share = (np.arange(values.size) + 0.5) / values.size
    gap = np.abs(law.cdf(values) - share)[seen].max()
    assert gap < 0.03
    others = [al.law(model, order="tokens"), al.law(head(200, 64, 4.0, causal=causal))]
    for other in others:  # resolvents that do not fluctuate, and the law of one head
        assert np.abs(other.cdf(values) - share)[seen].max() > 1.5 * gap


def test_heads_over_a_sink_follow_their_cavity_law():
    model = head(200, 64, 4.0, causal=True, sink=0.9)
    law = al.law(model)
    spectra = al.simulation.simulate_spectrum(model, n_trials=8, rng=5)
    values = np.sort(spectra.ravel())
    seen = values > 1e-13 * values[-1]
    share = (np.arange(values.size) + 0.5) / values.size
    gap = np.abs(law.cdf(values) - share)[seen].max()
    assert gap < 0.03
    means = spectra.mean(axis=1)
    assert abs(means.mean() - law.moment(1)) < 5 * means.std(ddof=1) / means.size**0.5
    others = [al.law(model, order="tokens"), al.law(head(200, 64, 4.0, causal=True))]
    for other in others:  # resolvents that do not fluctuate, and no sink
        assert np.abs(other.cdf(values) - share)[seen].max() > 2 * gap


def test_windows_and_input_spectra_have_no_cavity_law():
    with pytest.raises(ValueError, match="order must be 'tokens' for a head with a window or a"):
        al.law(head(50, 16, 4.0, causal=True, alibi_slope=0.1), order="cavity")
    with pytest.raises(ValueError, match="order must be 'first' or 'tokens' when there is an"):
        al.law(head(50, 16, 4.0, input_spectrum=np.ones(50)), order="cavity")
