from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

import attnlaw as al
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.krylov import find_spikes
from attnlaw.simulation._matrix_free.lazy_gaussian import FullSpace, LazyGaussian
from attnlaw.simulation._matrix_free.noise import TokenNoise, sample_and_population
from attnlaw.simulation._matrix_free.trial import begin_run, product_run

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=np.array([0.0, 1.0, 2.0]),
    correlation=al.prefix_correlation(6, prefix=3),
    weights=al.causal_weights(6),
)
READINGS = {
    "token": {},
    "token, not centred": {"centred": False},
    "small vocabulary": {"vocab_ratio": 3.0},
    "gaussian": {"sampling": "gaussian"},
    "gaussian, not centred": {"sampling": "gaussian", "centred": False},
    "infinite vocabulary": {"vocab_ratio": 0.0},
    "infinite vocabulary, not centred": {"vocab_ratio": 0.0, "centred": False},
}
NAMES = [f.name for f in fields(al.results.Spike) if f.name != "is_detectable"]

needs_numba = pytest.mark.skipif(not plan.has_numba(), reason="needs numba")
engines = pytest.mark.parametrize(
    "engine", ["plain", *(pytest.param(e, marks=needs_numba) for e in ("compiled", "large"))]
)


def choose(engine, monkeypatch):
    """Choose how steps are taken.

    Without numba, tokens are multiplied by SciPy and every step is a few NumPy calls; a large
    table has its tokens in tiles, and threads share the work.
    """
    if engine == "plain":
        monkeypatch.setattr(plan, "has_numba", lambda: False)
    else:
        monkeypatch.setattr(plan, "_seconds", np.inf)  # as after `prefer_compiled`
    if engine == "large":
        monkeypatch.setattr(plan, "LARGE", 1)
        monkeypatch.setattr(plan, "WIDE", 1)


def differences(model, other, dimension, n_trials):
    """The z-score of the means and the p-value of two samples, field by field."""
    found = al.simulate(model, dimension, n_trials, rng=1, method="matrix-free")
    drawn = al.simulate(other, dimension, n_trials, rng=2, method="reference")
    z, p = {}, {}
    for name in NAMES:
        a, b = getattr(found, name), getattr(drawn, name)
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / n_trials)
        gap = a.mean(axis=0) - b.mean(axis=0)
        z[name] = np.abs(np.divide(gap, error, out=np.zeros_like(gap), where=error > 1e-12))
        assert np.abs(gap[error <= 1e-12]).max(initial=0) < 1e-9, name
        p[name] = np.array([ks_2samp(x, y).pvalue for x, y in zip(a.T, b.T, strict=True)])
    return z, p


def assert_same_law(model, dimension, n_trials):
    z, p = differences(model, model, dimension, n_trials)
    assert max(x.max() for x in z.values()) < 5, z
    assert min(x.min() for x in p.values()) > 1e-5, p


@pytest.mark.parametrize("reading", READINGS)
def test_it_has_the_law_of_the_direct_simulation(reading):
    assert_same_law(replace(MODEL, **READINGS[reading]), dimension=24, n_trials=150)


@engines
@pytest.mark.parametrize("reading", ["token", "token, not centred"])
def test_every_engine_has_the_law_of_the_direct_simulation(reading, engine, monkeypatch):
    choose(engine, monkeypatch)
    assert_same_law(replace(MODEL, **READINGS[reading]), dimension=24, n_trials=150)


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
def test_it_has_the_law_of_the_direct_simulation_to_a_percent(reading):
    assert_same_law(replace(MODEL, **READINGS[reading]), dimension=60, n_trials=3000)


@pytest.mark.slow
@engines
@pytest.mark.parametrize("reading", ["token", "token, not centred", "small vocabulary"])
def test_every_engine_has_the_law_of_the_direct_simulation_to_a_percent(
    reading, engine, monkeypatch
):
    choose(engine, monkeypatch)
    assert_same_law(replace(MODEL, **READINGS[reading]), dimension=60, n_trials=3000)


def test_the_other_sampling_model_would_fail():
    z, p = differences(MODEL, replace(MODEL, sampling="gaussian"), dimension=24, n_trials=150)
    assert z["squared_overlap"].max() > 8
    assert p["squared_overlap"].min() < 1e-10


def test_a_table_that_ignores_earlier_answers_would_fail(monkeypatch):
    def careless(self, new, R, fresh):
        fresh = fresh + new @ R.T.astype(new.dtype)
        self.n_known += len(R)
        self.newest = fresh
        self._images.append(fresh)

    choose("plain", monkeypatch)
    monkeypatch.setattr(LazyGaussian, "_draw_images", careless)
    z, _ = differences(MODEL, MODEL, dimension=24, n_trials=50)
    assert max(x.max() for x in z.values()) > 8


@engines
@pytest.mark.parametrize("centred", [True, False])
def test_its_eigenpairs_are_those_of_the_matrices_it_did_not_form(engine, centred, monkeypatch):
    """Reveal the rest of the table afterwards, form every matrix, and solve again."""
    choose(engine, monkeypatch)
    model, d = replace(MODEL, centred=centred), 60
    rng = np.random.default_rng(3)
    V = model.sizes(d).n_vocab
    noise = TokenNoise(
        model, d, rng, model.weights[None], sample_and_population(model, V), np.float64
    )
    if engine != "plain":
        run, _ = begin_run(noise, d, rng, with_spikes=not centred)
    else:
        table = LazyGaussian(noise.rows, d, rng)
        spikes = None if centred else table.transpose_multiply(noise.directions / V).T
        run = product_run(noise, table, spikes)
    found = find_spikes(run, model.signal_norm, tolerance=1e-22, n_pairs=2)

    if engine != "plain":
        while run.n_known < d:
            run.ask(rng.standard_normal((3, V)))
        Z = run.images
    else:
        while table.n_known < d:
            table.transpose_multiply(rng.standard_normal((V, 3)))
        Z = table.multiply(np.eye(d))
    for i, pairs in enumerate(found):
        K = noise.multiply(np.eye(V), [i] * V)
        for j, norm in enumerate(model.signal_norm):
            E = Z + norm * noise.classes * np.eye(1, d)
            values, vectors = np.linalg.eigh(E.T @ K @ E)
            np.testing.assert_allclose(pairs.values[:, j], values[:-3:-1], rtol=1e-10)
            n = pairs.vectors.shape[-1]
            overlaps = np.sum(pairs.vectors[:, j].T * vectors[:n, :-3:-1], axis=0)
            np.testing.assert_allclose(np.abs(overlaps), 1, rtol=1e-10)


def test_a_chain_finds_what_several_matrices_together_find():
    """One covariance needs no older images of the table; the answers are the same."""
    rng = np.random.default_rng(0)
    noise = TokenNoise(
        MODEL, 80, rng, MODEL.weights[None], sample_and_population(MODEL, 160)[:1], np.float64
    )
    found = []
    for chained in (True, False):
        table = LazyGaussian(FullSpace(160), 80, np.random.default_rng(1), chained=chained)
        found += find_spikes(product_run(noise, table, None), MODEL.signal_norm, tolerance=1e-20)
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-10)
    np.testing.assert_allclose(found[0].vectors[..., 0], found[1].vectors[..., 0], atol=1e-10)


@pytest.mark.parametrize("engine", ["compiled", "large"])
@needs_numba
def test_a_compiled_chain_finds_the_same(engine, monkeypatch):
    from attnlaw.simulation._matrix_free.compiled_runs import TokenRun

    choose(engine, monkeypatch)
    found = []
    for chained in (True, False):
        rng = np.random.default_rng(0)
        noise = TokenNoise(
            MODEL, 80, rng, MODEL.weights[None], sample_and_population(MODEL, 160)[:1], np.float64
        )
        run = TokenRun(noise, 80, rng, chained=chained)
        found += find_spikes(run, MODEL.signal_norm, tolerance=1e-20)
        assert (len(run._table.images) == 2) == chained
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-10)
    np.testing.assert_allclose(found[0].vectors[..., 0], found[1].vectors[..., 0], atol=1e-10)


@needs_numba
@pytest.mark.parametrize("vocab_ratio", [0.5, 3.0, 10.0])
def test_in_single_precision_queried_vectors_stay_orthonormal(vocab_ratio):
    """Also where the vocabulary is exhausted: rounding is not taken for one more direction."""
    model = replace(MODEL, vocab_ratio=vocab_ratio)
    V = model.sizes(200).n_vocab
    for seed in range(10):
        rng = np.random.default_rng(seed)
        noise = TokenNoise(model, 200, rng, model.weights[None], sample_and_population(model, V))
        run, _ = begin_run(noise, 200, rng)
        run.advance(20)
        P = run._table.queried[: run._table.counts["queried"]].astype(np.float64)
        assert min(V, 100) <= len(P) <= V
        assert np.abs(P @ P.T - np.eye(len(P))).max() < 2e-6


@engines
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")  # six positions are few
def test_in_a_long_chain_rounding_does_not_grow(engine, monkeypatch):
    """One slow search is left when the others are done; its errors must not feed each other."""
    choose(engine, monkeypatch)
    d, rng = 1500, np.random.default_rng(0)
    V = MODEL.sizes(d).n_vocab
    noise = TokenNoise(MODEL, d, rng, MODEL.weights[None], sample_and_population(MODEL, V))
    if engine != "plain":
        run, _ = begin_run(noise, d, rng)
    else:
        table = LazyGaussian(noise.rows, d, rng)
        run = product_run(noise, table, None)
    run.advance(10)
    run.keep(np.array([False, False, True]))
    run.advance(150)
    if engine != "plain":
        P = run._table.queried[: run._table.counts["queried"]].T
    else:
        P = np.concatenate([chunk.T for chunk in table._queried._filled()], axis=1)
    P = P.astype(np.float64)
    assert np.abs(P.T @ P - np.eye(P.shape[1])).max() < 2e-5
    assert np.linalg.eigvalsh(run.matrix[0])[-1] < 1.1 * al.predict(MODEL).bulk_edge[0]


@needs_numba
def test_no_trial_takes_rounding_for_a_direction():
    """Tokens that are not centred ask nearly dependent questions; one trial in 200 went astray."""
    R = al.prefix_correlation(20, prefix=5)
    model = al.PooledSequences(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        signal_norm=1.2,
        correlation=R,
        weights=al.causal_weights(20),
        centred=False,
    )
    seen = al.simulate(model, 320, 200, rng=5, method="matrix-free")
    assert seen.bulk_edge.max() < 1.2 * al.predict(model).bulk_edge


@pytest.mark.filterwarnings("ignore:.*stand for d")
@engines
@pytest.mark.parametrize("dimension", [2, 3, 7])
@pytest.mark.parametrize("reading", READINGS)
def test_sizes_smaller_than_the_krylov_space_are_solved(reading, dimension, engine, monkeypatch):
    choose(engine, monkeypatch)
    seen = al.simulate(replace(MODEL, **READINGS[reading]), dimension, 3, 0, method="matrix-free")
    for name in NAMES:
        values = getattr(seen, name)
        assert np.isfinite(values).all(), name
        if "overlap" in name:
            assert ((values >= 0) & (values <= 1 + 1e-5)).all()


def test_results_do_not_depend_on_the_number_of_workers():
    alone = al.simulate(MODEL, 80, n_trials=4, rng=3, method="matrix-free")
    shared = al.simulate(MODEL, 80, n_trials=4, rng=3, n_jobs=2, method="matrix-free")
    for name in NAMES:
        np.testing.assert_allclose(getattr(shared, name), getattr(alone, name), rtol=1e-5)


def test_large_sweeps_are_matrix_free_by_default():
    model = replace(MODEL, signal_norm=np.linspace(0, 2, 20))
    auto, explicit = (al.simulate(model, 100, rng=0, method=m) for m in ("auto", "matrix-free"))
    np.testing.assert_array_equal(auto.top_eigenvalue, explicit.top_eigenvalue)
    small, reference = (al.simulate(MODEL, 30, rng=0, method=m) for m in ("auto", "reference"))
    np.testing.assert_array_equal(small.top_eigenvalue, reference.top_eigenvalue)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_the_idealised_model_has_no_size_limit():
    model = replace(MODEL, sampling="gaussian", signal_norm=np.array([0.5, 2.0]))
    seen = al.simulate(model, 10**5, rng=0, method="matrix-free")
    exact = al.predict(model)
    np.testing.assert_allclose(seen.squared_overlap[0, 1], exact.squared_overlap[1], rtol=0.02)
    np.testing.assert_allclose(seen.bulk_edge[0], exact.bulk_edge, rtol=3 * 1e5 ** (-2 / 3))
