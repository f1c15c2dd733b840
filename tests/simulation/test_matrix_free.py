from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

import attnlaw as al
from attnlaw.simulation import matrix_free
from attnlaw.simulation.matrix_free import matrix_free_trial
from attnlaw.simulation.revealed import RevealedMatrix

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
    "gaussian": {"sampling": "gaussian"},
    "gaussian, not centred": {"sampling": "gaussian", "centred": False},
    "infinite vocabulary": {"vocab_ratio": 0.0},
    "infinite vocabulary, not centred": {"vocab_ratio": 0.0, "centred": False},
    "small vocabulary": {"vocab_ratio": 3.0},
}
NAMES = [f.name for f in fields(al.Spike) if f.name != "is_detectable"]


def differences(model, other, dimension, n_trials, method="matrix-free"):
    """The z-score of the means and the p-value of two samples, field by field."""
    found = al.observe(model, dimension, n_trials, rng=1, method=method)
    drawn = al.observe(other, dimension, n_trials, rng=2, method="reference")
    z, p = {}, {}
    for name in NAMES:
        a, b = getattr(found, name), getattr(drawn, name)
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / n_trials)
        gap = a.mean(axis=0) - b.mean(axis=0)
        z[name] = np.abs(np.divide(gap, error, out=np.zeros_like(gap), where=error > 1e-12))
        assert np.abs(gap[error <= 1e-12]).max(initial=0) < 1e-9, name
        p[name] = np.array([ks_2samp(x, y).pvalue for x, y in zip(a.T, b.T, strict=True)])
    return z, p


@pytest.mark.parametrize("reading", READINGS)
def test_it_has_the_law_of_the_reference(reading):
    model = replace(MODEL, **READINGS[reading])
    z, p = differences(model, model, dimension=24, n_trials=150)
    assert max(x.max() for x in z.values()) < 5, z
    assert min(x.min() for x in p.values()) > 1e-5, p


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
def test_it_has_the_law_of_the_reference_to_a_percent(reading):
    model = replace(MODEL, **READINGS[reading])
    z, p = differences(model, model, dimension=60, n_trials=3000)
    assert max(x.max() for x in z.values()) < 5, z
    assert min(x.min() for x in p.values()) > 1e-5, p


def test_the_other_reading_would_be_noticed():
    z, p = differences(MODEL, replace(MODEL, sampling="gaussian"), dimension=24, n_trials=150)
    assert z["squared_overlap"].max() > 8
    assert p["squared_overlap"].min() < 1e-10


def test_a_careless_table_would_be_noticed(monkeypatch):
    def careless(self, new, R):
        fresh = self.rows.gaussian(len(R), self.rng) + new @ R.T.astype(new.dtype)
        self.n_known += len(R)
        self.newest = fresh
        self._images.append(fresh)

    monkeypatch.setattr(RevealedMatrix, "_reveal", careless)
    z, _ = differences(MODEL, MODEL, dimension=24, n_trials=50)
    assert max(x.max() for x in z.values()) > 8


@pytest.mark.parametrize("centred", [True, False])
def test_its_eigenpairs_are_those_of_the_matrix_it_did_not_form(monkeypatch, centred):
    """Reveal the rest of the table afterwards, form every matrix, and solve again."""
    model = replace(MODEL, centred=centred)
    d, kept = 40, {}

    def keep(name):
        original = getattr(matrix_free, name)
        monkeypatch.setattr(
            matrix_free, name, lambda *a, **k: kept.setdefault(name, original(*a, **k))
        )

    keep("RevealedMatrix")
    keep("draw_noise")
    rng = np.random.default_rng(0)
    seen = matrix_free_trial(model, d, rng, dtype=np.float64, tolerance=1e-22)
    table, noise = kept["RevealedMatrix"], kept["draw_noise"]
    while table.n_known < d:
        table.transpose_multiply(rng.standard_normal((noise.rows.size, 3)))
    Z, V = table.multiply(np.eye(d)), noise.rows.size
    K = noise.multiply(dict.fromkeys(("sample", "bulk", "population"), np.eye(V)))
    u, c = np.eye(d)[0], np.repeat([1.0, -1.0], V // 2)
    edge = np.linalg.eigvalsh(Z.T @ K["bulk"] @ Z)[-1]
    np.testing.assert_allclose(seen.bulk_edge, edge, rtol=1e-11)
    for i, norm in enumerate(model.signal_norm):
        E = Z + norm * np.outer(c, u)
        pairs = []
        for name in ("sample", "population"):
            values, vectors = np.linalg.eigh(E.T @ K[name] @ E)
            overlaps = (vectors[:, -2:].T @ (E.T @ c)) ** 2 - (vectors[:, -2:].T @ Z.sum(0)) ** 2
            j = -1 if centred else int(np.argmax(overlaps)) - 2
            pairs.append((values[j], vectors[:, j]))
        (top, v), (population, w) = pairs
        expected = [top, v[0] ** 2, population, w[0] ** 2, (v @ w) ** 2]
        names = ["top_eigenvalue", "squared_overlap", "population_eigenvalue"]
        names += ["population_overlap", "sample_overlap"]
        for name, value in zip(names, expected, strict=True):
            np.testing.assert_allclose(getattr(seen, name)[i], value, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("dimension", [2, 3, 7])
@pytest.mark.parametrize("reading", READINGS)
def test_tiny_sizes_are_exhausted(reading, dimension):
    seen = al.observe(replace(MODEL, **READINGS[reading]), dimension, 3, 0, method="matrix-free")
    for name in NAMES:
        values = getattr(seen, name)
        assert np.isfinite(values).all(), name
        if "overlap" in name:
            assert ((values >= 0) & (values <= 1 + 1e-5)).all()


def test_results_do_not_depend_on_the_number_of_workers():
    alone = al.observe(MODEL, 80, n_trials=4, rng=3, method="matrix-free")
    shared = al.observe(MODEL, 80, n_trials=4, rng=3, n_workers=2, method="matrix-free")
    for name in NAMES:
        np.testing.assert_allclose(getattr(shared, name), getattr(alone, name), rtol=1e-5)


def test_large_sweeps_are_matrix_free_by_default():
    model = replace(MODEL, signal_norm=np.linspace(0, 2, 20))
    auto, asked = (al.observe(model, 100, rng=0, method=m) for m in ("auto", "matrix-free"))
    np.testing.assert_array_equal(auto.top_eigenvalue, asked.top_eigenvalue)
    small, reference = (al.observe(MODEL, 30, rng=0, method=m) for m in ("auto", "reference"))
    np.testing.assert_array_equal(small.top_eigenvalue, reference.top_eigenvalue)


def test_the_idealised_model_has_no_size_limit():
    model = replace(MODEL, sampling="gaussian", signal_norm=np.array([0.5, 2.0]))
    seen = al.observe(model, 10**5, rng=0, method="matrix-free")
    exact = al.predict(model)
    np.testing.assert_allclose(seen.squared_overlap[0, 1], exact.squared_overlap[1], rtol=0.02)
    np.testing.assert_allclose(seen.bulk_edge[0], exact.bulk_edge, rtol=3 * 1e5 ** (-2 / 3))
