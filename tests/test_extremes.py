"""Calls with extreme arguments answer with numbers or refuse with one sentence, and in time."""

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse
from extreme_calls import finding, fuzz

import attnlaw as al

R = al.prefix_correlation(4, 2)


def model(**changes):
    usual = {"vocab_ratio": 0.5, "sample_ratio": 0.4, "signal_norm": 1.5}
    return al.PooledSequences(**{**usual, "correlation": R, "weights": "mean", **changes})


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e150, 1e308])
def test_weights_whose_powers_overflow_or_vanish_are_rejected(size):
    with pytest.raises(ValueError, match="the largest of the weights must be between 1e-60 and"):
        model(weights=np.full(4, size))
    heads = {"vocab_ratio": 0.5, "sample_ratio": 0.4, "signal_norm": 1.5, "correlation": R}
    with pytest.raises(ValueError, match="the largest of the weights must be between 1e-60 and"):
        al.MultiHeadPooling(**heads, weights=[np.ones(4), np.full(4, size)])


def test_components_of_no_rows_are_refused():
    for call in (al.signal_components, al.reliable_components):
        with pytest.raises(ValueError, match=r"pooled must be .*, got an array of shape \(0, 6\)"):
            call(np.zeros((0, 6)))


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
        lambda: al.Semicircle() * np.ma.masked,
        lambda: al.MarchenkoPastur(0.5).stieltjes(MASKED + 9),
        lambda: model(weights=[0.1, 0.2, 0.3, np.ma.masked_array(0.5, True)]),
        lambda: al.Vocabulary(frequencies=MASKED),
        lambda: al.Vocabulary.from_tokens(np.ma.masked_array([0, 1, 2, 1], [0, 0, 1, 0])),
        lambda: al.signal_components(HIDDEN),
        lambda: al.reliable_components(HIDDEN),
        lambda: al.outlier_test(MASKED, n_samples=50),
        lambda: al.SignalComponents().fit(HIDDEN),
        lambda: al.SignalComponents().fit(ROWS.data).transform(HIDDEN),
        lambda: al.AttentionPooling("mean").fit(HIDDEN.reshape(10, 4, 6)),
        lambda: al.pooled_covariance([*HIDDEN]),
        lambda: al.data.covariance.token_covariance([[0, 1]], [*HIDDEN], [0.5, 0.5]),
        lambda: al.Vocabulary(
            frequencies=np.ones(4), classes=np.ma.array([1, -1, 1, -1], mask=[1, 0, 0, 0])
        ),
        lambda: al.simulation.learn_weights(HIDDEN.reshape(10, 4, 6), np.ones(10), ridge=1.0),
    ],
)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_hidden_values_are_never_used(call):
    with pytest.raises(ValueError, match="must be without masked entries, got '1 of them'"):
        call()


def test_a_masked_array_without_masked_entries_is_an_array():
    found = al.reliable_components(ROWS).eigenvalues
    np.testing.assert_array_equal(found, al.reliable_components(ROWS.data).eigenvalues)


def test_overlaps_of_numbers_beyond_bounds_are_refused():
    numbers = dict.fromkeys(("signal_norm", "vocab_ratio", "sample_ratio", "snr"), 1e308)
    with pytest.raises(ValueError, match=r"signal_norm must be at most 1e\+100"):
        al.squared_overlap(**numbers)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: 1e308 * al.MarchenkoPastur(2.0), ValueError, r"scale must be at most 1e\+100"),
        (lambda: al.MarchenkoPastur(1e300), ValueError, r"ratio must be at most 1e\+100"),
        (lambda: al.MarchenkoPastur([0.5]), ValueError, "ratio must be a single number"),
        (
            lambda: (al.MarchenkoPastur(1e30) + al.MarchenkoPastur(0.5)).support,
            ArithmeticError,
            "cannot be told from a point",
        ),
        (
            lambda: (al.MarchenkoPastur(1e-30) + al.MarchenkoPastur(1e-200)).support,
            ArithmeticError,
            "cannot be told from a point",
        ),
        (lambda: (20 * al.MarchenkoPastur(1)).moment(10**3), OverflowError, "moments of a law"),
        (lambda: al.mean_weights(2**60), ValueError, "length must be at most 9007199254740992"),
        (lambda: al.last_token_weights(2**50), ValueError, "length must be small enough"),
        (lambda: al.plan(model(), 1e-200), ValueError, "squared_overlap must be at least 1e-09"),
        (lambda: al.predict_accuracy(model(), 1e-300), ValueError, "ridge must be at least"),
        (
            lambda: al.predict_accuracy(model(vocab_ratio=1e30), 20.0),
            ValueError,
            "ridge must be at least",
        ),
        (
            lambda: al.signal_components(1e200 * np.eye(40, 6)),
            ValueError,
            r"pooled must be of a size between 1e-30 and 1e\+30, got 1e\+200",
        ),
        (
            lambda: al.simulate(
                al.QueryAttention(
                    n_tokens=2**40,
                    informative_tokens=4,
                    dimension=9,
                    n_samples=2,
                    length=11,
                    informative_share=0.5,
                    signal_norm=1,
                    marker_norm=1,
                    query_overlap=0.5,
                    inverse_temperature=1,
                ),
                rng=0,
            ),
            ValueError,
            "n_tokens must be small enough",
        ),
        (
            lambda: al.QueryAttention(
                n_tokens=64,
                informative_tokens=4,
                dimension=9,
                n_samples=2,
                length=11,
                informative_share=0.5,
                signal_norm=1e200,
                marker_norm=1,
            ),
            ValueError,
            r"signal_norm must be at most 1e\+100",
        ),
        (lambda: 10**400 * al.MarchenkoPastur(0.5), ValueError, "must be finite"),
        (lambda: al.Discrete([0.5]).moment(2**31), ValueError, "k must be at most 1000"),
        (lambda: al.MarchenkoPastur(0.5).sample(2**40), ValueError, "n must be small enough"),
        (
            lambda: (al.MarchenkoPastur(3) @ al.MarchenkoPastur(2)).stieltjes(1.7e308),
            ValueError,
            r"z must be at most 1e\+150",
        ),
        (lambda: al.MarchenkoPastur(20).stieltjes(5e-324), ValueError, "farther from the atoms"),
        (
            lambda: (al.MarchenkoPastur(2) + al.MarchenkoPastur(1e-30)).quantile(0.3),
            ArithmeticError,
            "part of the support of .* cannot be told from a point",
        ),
        (
            lambda: al.simulate(model(sample_ratio=1e-200), 2**31, rng=0),
            ValueError,
            r"dimension must be such that d/δ and d/γ are at most 1e\+12",
        ),
        (
            lambda: al.SelfAttention(n_tokens=2**31, head_dimension=6, inverse_temperature=1),
            ValueError,
            "n_tokens must be at most 1000000",
        ),
        (
            lambda: al.SelfAttention(
                n_tokens=8, head_dimension=6, inverse_temperature=1, n_heads=2**31
            ),
            ValueError,
            "n_heads must be at most 100000",
        ),
        (
            lambda: al.outlier_test(np.arange(1.0, 9), n_samples=20, level=[0.05]),
            ValueError,
            "level must be a single number",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_numbers_beyond_reach_get_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_a_law_over_many_orders_of_magnitude_has_its_uppermost_group():
    """Linear scores have nearly all of the energy: β²n/(d h) and its spread; it was refused."""
    head = al.SelfAttention(n_tokens=10**6, head_dimension=9, inverse_temperature=1e-3, n_heads=10)
    group = al.law(head).quantile(1 - (np.arange(90) + 0.5) / 10**6)  # nine for each head
    assert group.mean() == pytest.approx(1e-6 * 10**6 / 9 / 10, rel=0.03)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize(("n", "d", "heads"), [(10**5, 9, 10), (10**6, 16, 10), (10**6, 9, 1)])
def test_uppermost_groups_keep_their_share_whatever_the_bulk_takes(n, d, heads):
    """Of a bulk over twenty orders of magnitude a table had a fifth, or a tenth too much."""
    head = al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=1e-3, n_heads=heads)
    group = al.law(head).quantile(1 - (np.arange(d * heads) + 0.5) / n)
    assert group.mean() == pytest.approx(1e-6 * n / d / heads, rel=0.005)


@pytest.mark.parametrize("ratios", [(5e-324, 5e-324), (1e-300, 0.5), (1e-200, 1e-200)])
def test_products_of_ratios_that_are_no_numbers_are_refused(ratios):
    """The right edge was 1.8e30, for a law at 1."""
    delta, gamma = ratios
    with pytest.raises(ValueError, match="product is at least"):
        al.MarchenkoPastur(delta) @ al.MarchenkoPastur(gamma)


def test_transforms_next_to_an_atom_keep_its_mass():
    found = al.MarchenkoPastur(20).stieltjes(1e-250)
    assert found == pytest.approx(-0.95e250, rel=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_colder_than_rounding_is_that_of_its_limit(causal):
    """From β = 1e17 on it fell, and at 1e30 two tokens had a logarithm of 0."""

    def edge(beta):
        head = al.SelfAttention(
            n_tokens=2, head_dimension=6, inverse_temperature=beta, causal=causal
        )
        return al.predict(head).bulk_edge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.RegimeWarning)
        assert edge(1e30) == pytest.approx(edge(1e12), rel=1e-9)


def test_quantiles_of_a_law_as_narrow_as_rounding_stay_inside_it():
    low, high = (20 * al.MarchenkoPastur(1e-12)).support[0]
    assert low <= (20 * al.MarchenkoPastur(1e-12)).quantile(0.3) <= high


@pytest.mark.parametrize(
    ("n", "d", "beta", "causal"),
    [(25, 100, 0.6, True), (60, 20, 0.1, False), (40, 100, 2.7, True), (80, 100, 1.8, False)],
)
def test_cdfs_of_attention_do_not_fall(n, d, beta, causal):
    """They fell by 2e-6 next to edges, in each of the four kinds of law."""
    head = al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, causal=causal)
    law = al.law(head)
    top = law.edges[-1]
    x = np.concatenate([np.linspace(0, 1.01 * top, 1000), top * np.geomspace(1e-12, 1, 1000)])
    values = law.cdf(np.sort(np.append(x, law.edges)))
    assert (np.diff(values) >= 0).all()
    assert values[-1] == pytest.approx(1, abs=1e-9)


def test_sizes_of_frequencies_and_directions_do_not_matter():
    assert al.effective_vocabulary([1e300, 1e300], 1e-300) == 2.0
    assert al.Discrete([1, 3], [1.7e308, 1.7e308]).moment(1) == 2.0
    usual = al.spiked_correlation(2.0, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(al.spiked_correlation(2.0, [1e300, 2e300, 3e300]), usual)


def test_a_ridge_that_is_tiny_beside_the_variance_is_solved_all_the_same():
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1e9, 1, 1, 1]
    y = np.sign(X[:, 1])
    rows, values = np.vstack([X, 50**0.5 * np.eye(4)]), np.append(y, np.zeros(4))
    usual = np.linalg.lstsq(rows, values)[0]  # the same minimum, as least squares
    found = al.simulation.accuracy.ridge_coefficients(X, y, 1.0)
    np.testing.assert_allclose(found, usual, rtol=1e-5)


def test_laws_of_tiny_scale_have_a_density():
    usual = al.MarchenkoPastur(20).density(15.0)
    found = (-1e-100 * al.MarchenkoPastur(20)).density(-15e-100)
    np.testing.assert_allclose(found * 1e-100, usual, rtol=1e-12)
    product = al.MarchenkoPastur(0.5) @ al.MarchenkoPastur(0.4)
    for law in (product, al.Semicircle()):
        small = 1e-100 * law
        np.testing.assert_allclose(small.density(1e-100) * 1e-100, law.density(1.0), rtol=1e-11)
        np.testing.assert_allclose(small.cdf(1e-100), law.cdf(1.0), rtol=1e-11)
        with pytest.raises(ValueError, match="scale must be at least 1e-100 in size"):
            law * 1e-200


FOUND = [
    ("plan", 52_040_567),
    ("ask law", 52_032_636),
    ("predict query", 1_014_152),
    ("predict query", 1_026_297),
    ("ask law", 1_016_396),
    ("learn", 90_004_284),
]


@pytest.mark.parametrize(("call", "seed"), FOUND)
def test_what_the_fuzzer_found_stays_repaired(call, seed):
    assert finding(call, seed) is None


def test_tokens_that_no_query_attends_to_make_no_noise():
    """Weights of 1e-200 left the numbers when they were inverted and squared."""
    sizes = {"n_tokens": 64, "informative_tokens": 56, "dimension": 99, "n_samples": 64}
    step = al.QueryAttention(
        **sizes, length=20, informative_share=0.5, signal_norm=1.0, marker_norm=0.0,
        scoring="sigmoid", inverse_temperature=1000.0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.RegimeWarning)
        sharper = dataclasses.replace(step, inverse_temperature=1e6)
        assert al.predict(step).top_eigenvalue == pytest.approx(
            al.predict(sharper).top_eigenvalue, rel=1e-9
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"inverse_temperature": 20.0},
            "inverse_temperature must be at most 10.71 for scores 4 apart",
        ),
        ({"informative_share": 1e-200}, "informative_share must be at least 1e-30"),
    ],
)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_non_finite_weights_of_a_query_are_rejected(changes, words):
    usual = {"n_tokens": 20, "informative_tokens": 4, "dimension": 5, "n_samples": 9, "length": 3}
    rest = {"informative_share": 0.2, "signal_norm": 1.0, "marker_norm": 4.0}
    with pytest.raises(ValueError, match=words):
        al.QueryAttention(**usual, **{**rest, **changes})
    sharp = al.QueryAttention(**usual, **rest, scoring="sigmoid", inverse_temperature=1e100)
    assert 0 <= al.predict(sharp).squared_overlap <= 1


@pytest.mark.parametrize("tau", [3.0, 12.0, 30.0])
def test_softmaxes_of_sharp_random_scores_keep_their_digits(tau):
    """They lost 1e-3 of their size at τ = 8, and all of it at 40."""
    x = np.linspace(-9, 9, 20_001)
    mass = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    square = mass @ (1 + np.tanh(tau * x / 2**0.5)) ** 2 / 4  # two tokens: a sigmoid of √2 τ x
    _, kappa = al.theory.random_attention_gains(np.eye(2), tau)
    mean = 0.25  # E w_j² over rows: (square + 1/4)/2 for two independent rows
    assert kappa == pytest.approx(2 * (square + mean) / 2, rel=1e-9)


@pytest.mark.parametrize("size", [1e-14, 1e-9, 1e9, 1e14])
def test_sizes_of_embeddings_do_not_change_what_is_learned(size):
    """Fourth powers left float32, and an absolute ridge took over below 1e-6."""
    X = np.random.default_rng(0).standard_normal((60, 5, 6))
    y = X[:, 1, 0] > 0
    for weights in ("trained", "optimal"):
        fit = al.AttentionPooling(weights, fallback=None, random_state=0)
        usual = fit.fit(X, y).weights_
        np.testing.assert_allclose(fit.fit(X * size, y).weights_, usual, rtol=1e-9)
        with pytest.raises(ValueError, match=r"must be of a size between 1e-15 and 1e\+15"):
            fit.fit(X * size**2, y)


def test_squares_that_vanish_in_float32_are_refused():
    with pytest.raises(ValueError, match="large enough for their squares to be float32"):
        al.pooled_covariance(1e-25 * SQUARE, dtype=np.float32)


LABELS = [["a", None] * 10, np.array([0, np.nan] * 10), np.zeros(20, "M8[s]"), 3.0]


@pytest.mark.parametrize("labels", [*LABELS, np.ma.masked_array([0, 1] * 10, [1, 0] * 10)])
def test_missing_labels_are_no_classes(labels):
    X = np.random.default_rng(0).standard_normal((20, 3, 4))
    with pytest.raises(ValueError, match="y must be"):
        al.AttentionPooling("trained").fit(X, labels)
    with pytest.raises(ValueError, match="labels must be"):
        al.diagnostics.predict_learning_curve(X[:, 0], labels)


SQUARE = np.random.default_rng(0).standard_normal((60, 6))


@pytest.mark.parametrize("kind", ["sparse", "complex", "times", "structured", "objects"])
def test_arrays_of_other_kinds_are_refused(kind):
    X = {
        "sparse": scipy.sparse.csr_array(SQUARE),
        "complex": SQUARE + 1j,
        "times": SQUARE.astype("m8[s]"),
        "structured": SQUARE.view([("a", "f8"), ("b", "f8")]),
        "objects": np.where(SQUARE > 2, None, SQUARE),
    }[kind]
    for call in (al.pooled_covariance, al.signal_components, al.diagnostics.check_subsets):
        with pytest.raises(ValueError, match="must be"):
            call(X)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_other_shapes_in_memory_give_the_same_numbers():
    usual = al.pooled_covariance(SQUARE).covariance
    swapped = SQUARE.astype(SQUARE.dtype.newbyteorder())
    for X in (np.matrix(SQUARE), swapped, SQUARE[::-1][::-1], np.asfortranarray(SQUARE)):
        np.testing.assert_allclose(al.pooled_covariance(X).covariance, usual, rtol=1e-12)


def test_a_vocabulary_that_is_rounded_is_said():
    with pytest.warns(al.RegimeWarning, match="4 tokens, a multiple of 2, stand for d/δ = 5"):
        al.simulate(model(vocab_ratio=0.8), 4, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(vocab_ratio=0.8).sizes(400)


def test_a_number_of_sequences_that_is_rounded_is_said():
    with pytest.warns(al.RegimeWarning, match=r"2 sequences stand for d/γ = 0\.2"):
        model(sample_ratio=100.0).sizes(20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 10**6])
def test_five_minutes_of_extreme_calls_find_nothing(seed):
    """No NaN, no falling cdf, no error of a library below, no wait."""
    n_calls, found = fuzz(300, seed)
    assert n_calls > 1000
    assert not found
