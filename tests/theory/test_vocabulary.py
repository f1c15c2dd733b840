"""Theory of vocabularies: identities, limits and bounds, no simulation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.theory import token_accuracy
from attnlaw.theory.token_noise import BOUND, HEAVY, NoiseScales, noise_scales, token_sums
from attnlaw.theory.token_spikes import VocabularySpikes
from attnlaw.theory.vocabulary import predict_vocabulary, vocabulary_spikes

PREFIX = al.prefix_correlation(20, prefix=5)
EQUAL = NoiseScales(np.ones(1), np.ones(1))
NORMS = np.linspace(0, 4, 21)


def model(vocabulary=None, **changes):
    settings = {
        "vocab_ratio": 0.05,
        "sample_ratio": 0.4,
        "signal_norm": 1.5,
        "correlation": PREFIX,
        "weights": al.mean_weights(20),
        "vocabulary": vocabulary,
    }
    return al.PooledSequences(**(settings | changes))


@pytest.mark.parametrize("ratios", [(0.5, 0.4), (1.5, 0.5), (0.01, 2.0), (2.0, 0.01)])
@pytest.mark.parametrize("weights", [al.mean_weights(20), al.optimal_weights(PREFIX)])
def test_sums_over_equal_tokens_give_the_closed_form(ratios, weights):
    uniform = model(vocab_ratio=ratios[0], sample_ratio=ratios[1], signal_norm=NORMS)
    uniform = replace(uniform, weights=weights)
    sums = token_sums(np.full(100, 0.01), np.ones(100), np.zeros(100))
    spikes = VocabularySpikes(sums, EQUAL, uniform.snr)
    delta, gamma = (np.asarray(x) for x in ratios)
    found, expected = spikes.spike(NORMS, delta, gamma), al.predict(uniform)
    assert_allclose(found.squared_overlap, expected.squared_overlap, atol=1e-11)
    kappa = uniform.noise_gain
    assert_allclose(kappa * found.eigenvalue, expected.top_eigenvalue, rtol=1e-11)
    assert_allclose(kappa * found.edge, expected.bulk_edge, rtol=1e-11)
    assert_allclose(found.is_detectable, expected.is_detectable)
    population = spikes.spike(NORMS, delta, np.zeros(()))
    assert_allclose(kappa * population.eigenvalue, expected.population_eigenvalue, rtol=1e-11)
    assert_allclose(population.squared_overlap, expected.population_overlap, atol=1e-11)
    limits = al.thresholds(uniform)
    assert_allclose(spikes.threshold(delta, gamma), limits.sample_signal, atol=1e-11)


def test_uniform_vocabulary_changes_nothing():
    alike, plain = model(al.Vocabulary.uniform(400), signal_norm=NORMS), model(signal_norm=NORMS)
    for name, values in vars(al.predict(plain)).items():
        assert_allclose(getattr(al.predict(alike), name), values, rtol=1e-11, atol=1e-15)
    assert al.thresholds(alike) == al.thresholds(plain)
    assert al.plan(replace(alike, signal_norm=1.5)) == al.plan(replace(plain, signal_norm=1.5))


def test_scale_of_importance_changes_eigenvalues_only():
    words = al.Vocabulary.zipf(400).with_importance("sif", a=1e-2)
    once = al.predict(model(words))
    twice = al.predict(model(words.with_importance(2 * words.weights)))
    assert_allclose(twice.squared_overlap, once.squared_overlap, rtol=1e-11)
    assert_allclose(twice.top_eigenvalue, 4 * once.top_eigenvalue, rtol=1e-11)


def test_secular_determinant_and_eigenvector_give_the_same():
    """The outlier by the 4×4 determinant det(I − ΘK), the overlap by its kernel vector."""
    words = al.Vocabulary.zipf(300, offset=0.0).with_importance("sif", a=1e-2)
    here = model(words, vocab_ratio=0.3, sample_ratio=0.0, signal_norm=2.0)
    p, g, c = words.frequencies, words.weights, words.signs.astype(float)
    found = vocabulary_spikes(here).spike(np.asarray(2.0), np.asarray(0.3), np.asarray(0.0))
    s, d, q = float(found.s), 0.3 * 300, here.snr - 1
    gbar, tilt = p @ g, p @ (g * c)
    M1, M0 = np.array([gbar, 1, 0, 0]), np.array([tilt, 0, 0, 1])
    cross = np.zeros((4, 4))
    cross[0, 2] = cross[2, 0] = 1
    theta = q * np.outer(M1, M1) - np.outer(M0, M0) + cross
    theta[0, 0] += p @ g**2
    directions = np.stack([np.sqrt(p) * c, np.sqrt(p) * g * c, np.sqrt(p)])

    def K(s):
        rows = d * p * g**2 / (s - d * p * g**2)
        block = np.zeros((4, 4))
        block[0, 0] = 2.0**2 / s
        block[1:, 1:] = (directions * rows) @ directions.T
        return block

    def x(s):
        return s + np.sum(p * g**2 / (1 - d * p * g**2 / s))

    singular = np.linalg.svd(np.eye(4) - theta @ K(s))
    assert singular.S[-1] < 1e-9 * singular.S[0]
    kernel, h = singular.Vh[-1], 1e-5 * s
    slope = (K(s + h) - K(s - h)) / (x(s + h) - x(s - h))
    overlap = (K(s)[0] @ kernel) ** 2 / (2.0**2 * kernel @ -slope @ kernel)
    assert_allclose(found.squared_overlap, overlap, rtol=1e-8)
    assert_allclose(found.eigenvalue, x(s), rtol=1e-11)


@settings(max_examples=25)
@given(
    exponent=st.floats(0.3, 1.5),
    a=st.floats(1e-5, 1e-1),
    gap=st.floats(1e-6, 10.0),
    delta=st.floats(0.01, 3.0),
)
def test_error_of_the_nodes_is_below_its_bound(exponent, a, gap, delta):
    V = 3000
    words = al.Vocabulary.zipf(V, exponent).with_importance("sif", a=a)
    p, g = words.frequencies, words.weights
    sums = token_sums(p, g, np.zeros(V))
    r = V * p * g**2
    assert sums.n_heavy == HEAVY
    for s in (delta * sums.top * (1 + gap), -delta * sums.top * gap):
        values, slopes = sums.at(np.asarray(s), np.asarray(delta))
        for k, weight in enumerate((np.full(V, 1 / V), p, p * g, p * g**2)):
            assert_allclose(values[k], np.sum(weight * r / (s - delta * r)), rtol=BOUND)
            # of a derivative the bound is larger by its condition, q√8 at most
            exact = -np.sum(weight * r / (s - delta * r) ** 2)
            assert_allclose(slopes[k], exact, rtol=40 * BOUND)


def test_many_tokens_agree_with_all_of_them():
    words = al.Vocabulary.zipf(5000).with_importance("sif", a=1e-3)
    here = model(words)
    spikes = vocabulary_spikes(here)
    p, g, c = words.frequencies, words.weights, words.signs
    weights = np.stack([np.full(5000, 1 / 5000), p, p * g, p * g**2, p * c, p * g * c], axis=1)
    rows = 5000 * p * g**2
    order = np.argsort(-rows)
    every = replace(
        spikes.sums,
        rows=rows[order],
        masses=(rows[:, None] * weights)[order],
        counts=np.ones(5000),
        n_heavy=64,
    )
    arguments = [np.asarray(x) for x in (1.5, 0.05, 0.4)]
    few, all_ = spikes.spike(*arguments), replace(spikes, sums=every).spike(*arguments)
    assert_allclose(few.squared_overlap, all_.squared_overlap, rtol=1e-8)
    assert_allclose(few.eigenvalue, all_.eigenvalue, rtol=1e-8)


def test_noise_scales_have_the_moments_of_pooled_importance():
    w, p, g = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6]), np.array([2.0, 1.0, 0.5])
    scales = noise_scales(w, p, g)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), axis=-1).reshape(-1, 3)
    xi, chance = (w**2 * g[grid] ** 2).sum(axis=1), p[grid].prod(axis=1)
    xi /= chance @ xi
    for n in range(1, 6):
        assert_allclose(scales.masses @ scales.atoms**n, chance @ xi**n, rtol=1e-8)


@given(y=st.floats(1e-3, 1e3), gamma=st.floats(0.0, 10.0))
def test_unequal_noise_solves_its_equation(y, gamma):
    scales = NoiseScales(np.array([0.2, 1.0, 2.6]), np.array([0.3, 0.5, 0.2]))
    scales = NoiseScales(scales.atoms / (scales.masses @ scales.atoms), scales.masses)
    phi, slope = scales.factor(np.asarray(y), np.asarray(gamma))
    sigma = phi / y
    assert_allclose(scales.masses @ (scales.atoms / (sigma - gamma * scales.atoms)), y, rtol=1e-9)
    assert phi >= (1 + gamma * y) * (1 - 1e-12)  # Jensen
    h = 1e-6 * y
    numeric = (scales.factor(np.asarray(y + h), np.asarray(gamma))[0] - phi) / h
    assert_allclose(slope, numeric, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("seed", range(12))
def test_overlaps_of_all_outliers_sum_to_one_at_most(seed):
    """Few tokens, very unequal: most outliers are in gaps, where y may be negative."""
    rng = np.random.default_rng(seed)
    words = al.Vocabulary(frequencies=rng.dirichlet(np.full(40, 0.3)) + 1e-6)
    words = words.with_importance(rng.exponential(size=40) ** 2)
    ratios = [np.full(4, 10 ** rng.uniform(-1, 1)) for _ in range(2)]
    spikes = vocabulary_spikes(model(words))
    found = spikes.spike(np.array([0.3, 1.0, 3.0, 10.0]), *ratios)
    assert np.all(found.squared_overlap <= found.shared + 0.01)
    assert np.all(found.shared <= 1.02)  # interpolated, the largest excepted


def test_thresholds_are_where_the_overlap_begins():
    words = al.Vocabulary.zipf(4000).with_importance("sif", a=1e-3)
    limit = al.thresholds(model(words)).sample_signal
    just_above, just_below = (
        al.predict(model(words, signal_norm=limit * factor)) for factor in (1 + 1e-6, 1 - 1e-6)
    )
    assert 0 < just_above.squared_overlap < 1e-4
    assert just_below.squared_overlap == 0
    assert just_below.top_eigenvalue == just_below.bulk_edge


@pytest.mark.parametrize("need", ["sample_ratio", "vocab_ratio", "signal_norm"])
def test_what_was_planned_for_is_reached(need):
    here = model(al.Vocabulary.zipf(1000).with_importance("sif", a=1e-3))
    wanted = al.plan(here, squared_overlap=0.8)
    reached = al.predict(
        replace(here, **{need: getattr(wanted, need.removesuffix("_norm"))})
    ).squared_overlap
    assert_allclose(reached, 0.8, rtol=1e-9)


def test_plan_says_what_the_tokens_allow():
    here = model(al.Vocabulary.zipf(1000))
    with_weights = model(al.Vocabulary.zipf(1000).with_importance("inverse"))
    assert al.plan(here).ceiling < 0.85 < al.plan(with_weights).ceiling
    assert al.plan(here, 0.99).obstacles


def test_ratios_and_norms_broadcast():
    words = al.Vocabulary.zipf(400).with_importance("sif", a=1e-2)
    delta, gamma = np.array([[0.1], [0.4]]), np.array([0.2, 0.4, 2.0])
    grid = al.predict(model(words, vocab_ratio=delta, sample_ratio=gamma))
    one = al.predict(model(words, vocab_ratio=0.4, sample_ratio=0.2))
    assert grid.squared_overlap.shape == (2, 3)
    assert_allclose(grid.squared_overlap[1, 0], one.squared_overlap, rtol=1e-11)


def test_equal_tokens_of_several_kinds_of_sequences_are_the_mixture():
    mixture = al.SequenceMixture(
        vocab_ratio=0.25,
        sample_ratio=0.5,
        signal_norm=np.array([0.2, 0.5, 1.0, 2.0]),
        correlations=[al.prefix_correlation(n, prefix=5) for n in (5, 40)],
        weights="mean",
    )
    sums = predict_vocabulary(replace(mixture, vocabulary=al.Vocabulary.uniform(480)))
    for name, values in vars(al.predict(mixture)).items():
        assert_allclose(getattr(sums, name), values, rtol=1e-11, atol=1e-13)


def test_kinds_that_are_the_same_are_one():
    words = al.Vocabulary.zipf(400).with_importance("sif", a=1e-2)
    one = model(words)
    common = {name: getattr(one, name) for name in ("vocab_ratio", "sample_ratio", "signal_norm")}
    two = al.SequenceMixture(
        correlations=[PREFIX, PREFIX], weights="mean", vocabulary=words, **common
    )
    expected, found = al.predict(one), al.predict(two)
    assert_allclose(found.squared_overlap, expected.squared_overlap, rtol=1e-10)
    assert_allclose(found.top_eigenvalue, expected.top_eigenvalue, rtol=1e-10)
    assert al.plan(two).sample_ratio == pytest.approx(al.plan(one).sample_ratio, rel=1e-9)
    assert al.thresholds(two).sample_signal == pytest.approx(al.thresholds(one).sample_signal)
    assert al.law(two).edges == pytest.approx(al.law(one).edges, rel=1e-6)
    assert al.validity(two).fourth_moment_deviation == pytest.approx(
        al.validity(one).fourth_moment_deviation
    )


class TestClasses:
    words = al.Vocabulary.zipf(480)

    def classes(self, words, means, **changes):
        common = {"vocab_ratio": 0.25, "sample_ratio": 0.25, "correlation": PREFIX}
        settings = common | {"weights": "mean", "class_means": means, "vocabulary": words}
        return al.PooledClasses(**(settings | changes))

    @pytest.mark.parametrize("importance", ["uniform", "idf", "inverse"])
    def test_two_classes_and_white_noise_are_pooled_sequences(self, importance):
        """9×9 determinants here, one scalar equation there."""
        words = self.words.with_importance(importance)
        two = self.classes(words, [[2.5], [-2.5]])
        own = al.Vocabulary(
            frequencies=two.token_frequencies,
            importance=words.weights,
            classes=np.where(two.token_classes == 0, 1, -1),
        )
        one = model(own, vocab_ratio=0.25, sample_ratio=0.25, signal_norm=2.5)
        found, expected = al.predict(two), al.predict(one)
        for several, single in (
            ("top_eigenvalues", "top_eigenvalue"),
            ("squared_overlaps", "squared_overlap"),
            ("population_eigenvalues", "population_eigenvalue"),
            ("population_overlaps", "population_overlap"),
            ("sample_overlaps", "sample_overlap"),
        ):
            rtol = 1e-4 if single == "sample_overlap" else 1e-9
            assert_allclose(getattr(found, several)[0], getattr(expected, single), rtol=rtol)
        assert_allclose(found.bulk_edge, expected.bulk_edge, rtol=1e-10)
        critical = al.thresholds(replace(two, class_means=[[1.0], [-1.0]]))
        assert_allclose(critical.sample_signal, al.thresholds(one).sample_signal, rtol=1e-9)
        assert_allclose(al.plan(two).ceiling, al.plan(one).ceiling, rtol=1e-2)
        assert_allclose(al.law(two).edges, al.law(one).edges, rtol=1e-9)

    def test_nearly_equal_tokens_are_the_closed_form_of_classes(self):
        spectrum = np.array([0.5, 1.0, 1.5, 3.0])
        means = np.array([[3.0, 0, 0, 0], [0, 2.0, 0, 1.0], [-1.0, 0, 2.0, 0]])
        almost = al.Vocabulary(frequencies=1 + 1e-9 * np.arange(480))
        with_words = self.classes(almost, means, noise_spectrum=spectrum, class_shares=[1, 2, 3])
        assert with_words.tokens_differ
        found = al.predict(with_words)
        expected = al.predict(replace(with_words, vocabulary=None))
        for name, values in vars(expected).items():
            assert_allclose(getattr(found, name), values, rtol=1e-5, atol=1e-7, err_msg=name)
        critical = al.thresholds(with_words).sample_signal
        plain = al.thresholds(replace(with_words, vocabulary=None)).sample_signal
        assert_allclose(critical, plain, rtol=1e-5)

    def test_scales_and_ratios_broadcast(self):
        words, scales = self.words.with_importance("idf"), np.array([1.0, 2.0, 3.0])
        grid = self.classes(words, np.eye(3), signal_scale=scales, sample_ratio=[[0.2], [0.5]])
        whole = al.predict(grid)
        assert whole.squared_overlaps.shape == (2, 3, 2)
        one = al.predict(replace(grid, signal_scale=2.0, sample_ratio=0.5))
        assert_allclose(whole.squared_overlaps[1, 1], one.squared_overlaps, rtol=1e-9)

    def test_what_has_no_answer_is_refused(self):
        here = self.classes(self.words, np.eye(3))
        with pytest.raises(TypeError, match="without a vocabulary"):
            al.predict_accuracy(here, ridge=1.0)
        with pytest.raises(TypeError, match="without a vocabulary"):
            al.simulate_accuracy(here, ridge=1.0)
        with pytest.raises(ValueError, match="sampling must be 'token'"):
            replace(here, sampling="gaussian")
        few = al.Vocabulary(frequencies=[0.3, 0.3, 0.2, 0.2])
        with pytest.raises(ValueError, match="class_shares must be such that"):
            al.predict(replace(here, vocabulary=few))


class TestAccuracy:
    @pytest.mark.parametrize("classifier", ["ridge", "centroid", "component"])
    @pytest.mark.parametrize("sampling", ["token", "gaussian"])
    @pytest.mark.parametrize("ratios", [(0.5, 0.4), (1.5, 0.5), (0.2, 2.0)])
    def test_sums_over_equal_tokens_give_the_closed_form(self, ratios, sampling, classifier):
        norms, (delta, gamma) = np.array([0.3, 1.0, 2.0, 4.0]), ratios
        plain = model(vocab_ratio=delta, sample_ratio=gamma, signal_norm=norms, sampling=sampling)
        sums = token_sums(np.full(100, 0.01), np.ones(100), np.zeros(100))
        spikes = VocabularySpikes(sums, EQUAL, plain.snr, token=sampling == "token")
        settings = [spikes, plain.noise_gain, 0.25, norms, *(np.full(4, x) for x in ratios)]
        if classifier == "ridge":
            settings.append(np.full(4, 0.05))
        score = getattr(token_accuracy, f"{classifier}_score")(*settings)
        expected = al.predict_accuracy(plain, ridge=0.05, classifier=classifier)
        assert_allclose(score.gain, expected.signal_gain, atol=1e-11)
        assert_allclose(score.noise, expected.noise_variance, rtol=1e-11)

    def test_infinitely_many_samples_and_a_small_penalty_are_the_best_linear_rule(self):
        """With γ = 0 and λ → 0 the score has the largest A²/v, larger than the centroid's."""
        here = model(al.Vocabulary.zipf(400).with_importance("idf"), sample_ratio=0.0)
        best = al.predict_accuracy(here, 1e-9).accuracy
        for other in (
            al.predict_accuracy(here, 1.0),
            al.predict_accuracy(here, classifier="centroid"),
        ):
            assert other.accuracy < best

    def test_scale_of_importance_changes_nothing(self):
        words = al.Vocabulary.zipf(400).with_importance("sif", a=1e-2)
        once, twice = (model(words.with_importance(k * words.weights)) for k in (1, 2))
        first, second = al.predict_accuracy(once, 0.1), al.predict_accuracy(twice, 0.4)
        assert_allclose(first.accuracy, second.accuracy, rtol=1e-11)

    def test_noise_scales_left_of_the_bulk_solve_their_equation(self):
        scales = NoiseScales(np.array([0.0, 0.5, 1.7]), np.array([0.1, 0.4, 0.5]))
        scales = NoiseScales(scales.atoms / (scales.masses @ scales.atoms), scales.masses)
        minus_y, gamma = np.geomspace(1e-3, 10, 9), np.linspace(0, 2, 5)[:, None]
        omega = scales.opposite(minus_y, gamma)
        solved = omega > 0
        noise = np.where(solved, omega, 1.0)[..., None] + gamma[..., None] * scales.atoms
        h = (scales.atoms / noise) @ scales.masses
        full = np.broadcast_to(minus_y, h.shape)
        assert_allclose(h[solved], full[solved], rtol=1e-12)
        assert np.all(solved == (gamma * minus_y < 0.9))

    def test_tokens_that_are_not_centred_are_refused(self):
        with pytest.raises(ValueError, match="centred when it has a vocabulary"):
            al.predict_accuracy(model(al.Vocabulary.zipf(400), centred=False), 0.1)


class TestOptimalImportance:
    words = al.Vocabulary.zipf(1500)

    def test_first_order_parameter_is_its_formula(self):
        here = model(self.words, vocab_ratio=0.2, sample_ratio=0.2)
        best = al.optimal_importance(here)
        assert_allclose(best.first_order_smoothing, 1 / (1500 * here.snr), rtol=1e-12)

    def test_exact_optimum_is_near_for_strong_signals(self):
        """The first order rules as ‖μ‖ grows: 1 − ζ is flat around a*."""
        here = model(self.words, vocab_ratio=0.2, sample_ratio=0.2, signal_norm=20.0)
        best = al.optimal_importance(here)
        assert 0.8 < best.smoothing / best.first_order_smoothing < 1.25

    def test_first_order_loss_is_the_limit_of_the_exact_one(self):
        words = self.words.with_importance("sif", a=1e-3)
        here = model(words, vocab_ratio=0.2, sample_ratio=0.2, signal_norm=1000.0)
        p, g, d, N = words.frequencies, words.weights, 300, 1500
        mean, rest = p @ g, here.snr - 1
        A = p @ g**2 + rest * mean**2
        unequal = noise_scales(here.weights, p, g).variance * (p @ g**2 - mean**2) / A
        loss = d * np.sum((p * g * (g + rest * mean)) ** 2) / A**2
        loss += d / N * (p @ g**2) / A * (1 + unequal)
        assert_allclose(1 - al.predict(here).squared_overlap, loss / 1000.0**2, rtol=1e-3)

    def test_no_other_parameter_is_better(self):
        here = model(self.words, vocab_ratio=0.2, sample_ratio=0.2)
        best = al.optimal_importance(here)
        for a in 10.0 ** np.arange(-6, 0):
            other = replace(here, vocabulary=self.words.with_importance("sif", a=a))
            assert al.predict(other).squared_overlap <= best.squared_overlap + 1e-9
        assert best.uniform_overlap < 0.1 < 0.8 < best.squared_overlap

    def test_centroid_has_its_own_parameter(self):
        here = model(self.words, vocab_ratio=0.2, sample_ratio=0.2)
        best = al.optimal_importance(here, objective="centroid")
        P = 5 / 20
        assert_allclose(best.smoothing, here.noise_gain / (1500 * P**2), rtol=1e-12)
        assert best.squared_overlap >= best.uniform_overlap

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"vocabulary": None}, "SequenceMixture with a vocabulary"),
            ({"signal_norm": [1.0, 2.0]}, "a single model"),
            ({"vocab_ratio": 0.0}, "vocab_ratio must be"),
        ],
    )
    def test_invalid_questions_are_reported(self, changes, message):
        with pytest.raises(ValueError, match=message):
            al.optimal_importance(replace(model(self.words), **changes))

    def test_kinds_that_are_the_same_have_the_weights_of_one(self):
        one = model(self.words, vocab_ratio=0.2, sample_ratio=0.2)
        names = ("vocab_ratio", "sample_ratio", "signal_norm", "vocabulary")
        fields = {name: getattr(one, name) for name in names}
        both = al.SequenceMixture(
            correlations=[one.correlation] * 2, weights=[one.weights] * 2, **fields
        )
        for objective in ("component", "centroid"):
            first, second = (al.optimal_importance(m, objective) for m in (one, both))
            assert_allclose(first.smoothing, second.smoothing, rtol=1e-9)
            assert_allclose(first.squared_overlap, second.squared_overlap, rtol=1e-9)
