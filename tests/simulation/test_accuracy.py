from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation.accuracy import ridge_coefficients
from attnlaw.simulation.pooled import (
    pool,
    population_covariance,
    sample_pooled,
    sample_tokens,
    token_classes,
)
from attnlaw.simulation.signs import sample_signs

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.5,
    correlation=al.prefix_correlation(6, prefix=3),
    weights=al.causal_weights(6),
)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
def test_ridge_is_the_stationary_point_of_its_loss(shape):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    b = ridge_coefficients(X, y, 0.3)
    np.testing.assert_allclose(X.T @ (X @ b - y) / len(y) + 0.3 * b, 0, atol=1e-13)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("centred", [True, False])
def test_accuracy_does_not_depend_on_workers_and_shares_noise_between_norms(sampling, centred):
    model = replace(MODEL, sampling=sampling, centred=centred, signal_norm=np.array([0.5, 1.5]))
    alone = al.simulate_accuracy(model, 20, 3, rng=0, ridge=0.1, n_test=500)
    shared = al.simulate_accuracy(model, 20, 3, rng=0, ridge=0.1, n_test=500, n_jobs=2)
    one = replace(model, signal_norm=1.5)
    single = al.simulate_accuracy(one, 20, 3, rng=0, ridge=0.1, n_test=500)
    for name in vars(alone):
        np.testing.assert_allclose(getattr(alone, name), getattr(shared, name), rtol=1e-9)
        np.testing.assert_allclose(getattr(alone, name)[:, 1], getattr(single, name), rtol=1e-12)


def test_error_is_made_of_gain_and_noise():
    """With w·s = y the squared error is (1 − A)² + v, to the accuracy of the regression."""
    model = replace(MODEL, weights=np.array([0.5, 0.3, 0.2, 0, 0, 0]))
    seen = al.simulate_accuracy(model, 20, 3, rng=0, ridge=0.1)
    np.testing.assert_allclose(
        seen.mean_squared_error, (1 - seen.signal_gain) ** 2 + seen.noise_variance, rtol=1e-10
    )


@pytest.mark.parametrize("centred", [True, False])
def test_measures_are_those_of_pooling_the_test_sequences(centred):
    """The same draws again, with the test set pooled and centred in full."""
    model = replace(MODEL, centred=centred)
    seen = al.simulate_accuracy(model, 20, 1, rng=0, ridge=0.1, n_test=400)
    (rng,) = np.random.default_rng(0).spawn(1)
    train = sample_pooled(model, 20, rng)
    signs = sample_signs(model.correlation, 400, rng)
    tokens = sample_tokens(signs, len(train.table), rng)
    table = train.table + 1.5 * np.outer(token_classes(len(train.table)), np.eye(20)[0])
    X, X_test = train.pooled(1.5), pool(table, tokens, model.weights)
    centre = X.mean(axis=0) if centred else 0
    score = (X_test - centre) @ ridge_coefficients(X - centre, train.signs[:, 0] * 1.0, 0.1)
    y, t = signs[:, 0], signs @ model.weights
    slope = np.linalg.lstsq(t[:, None], score)[0][0]
    np.testing.assert_allclose(seen.accuracy, [np.mean(score * y > 0)])
    np.testing.assert_allclose(seen.mean_squared_error, [np.mean((score - y) ** 2)])
    np.testing.assert_allclose(seen.signal_gain, [slope])
    np.testing.assert_allclose(seen.noise_variance, [np.mean((score - slope * t) ** 2)])


@pytest.mark.parametrize("vocab_ratio", [0.0, 0.5])
def test_gaussian_scores_have_the_variance_of_the_pooled_noise(vocab_ratio):
    from attnlaw.simulation.accuracy import _sample_test

    model = replace(MODEL, sampling="gaussian", vocab_ratio=vocab_ratio)
    train = sample_pooled(model, 20, rng=0)
    b = np.random.default_rng(1).standard_normal(20)
    test = _sample_test(model, train, 100_000, np.random.default_rng(2))
    score = test.scores(model, train, 1.5, b)
    variance = b @ population_covariance(model, train.table, 1.5) @ b
    error = np.std(score**2) / np.sqrt(len(score))
    assert abs(np.mean(score**2) - variance) < 5 * error
    assert abs(np.mean(score**2) - variance - model.noise_gain * b @ b) > 5 * error


def test_tokens_of_the_test_set_come_from_the_training_table():
    """A vocabulary far smaller than the dimension is learned by heart."""
    model = replace(
        MODEL, signal_norm=0.0, vocab_ratio=10.0, sample_ratio=0.1, weights=np.eye(6)[0]
    )
    seen = al.simulate_accuracy(model, 40, 2, rng=0, ridge=1e-6, n_test=1000)
    np.testing.assert_array_equal(seen.accuracy, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"ridge": 0.0}, "ridge must be above 0, got 0.0"),
        ({"ridge": float("nan")}, "ridge must be finite"),
        ({"n_test": 0}, "n_test must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"dimension": 10**8}, "dimension must be small enough"),
    ],
)
def test_bad_input_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        al.simulate_accuracy(**{"model": MODEL, "dimension": 10, "ridge": 0.1} | arguments)


def labelled_tokens(n_samples_ratio=0.2, rng=0):
    model = replace(MODEL, sample_ratio=n_samples_ratio, vocab_ratio=0.2)
    sample = sample_pooled(model, 30, rng=rng)
    table = sample.table + 1.5 * np.outer(token_classes(len(sample.table)), np.eye(30)[0])
    return table, sample.tokens, sample.signs[:, 0].astype(float)


@pytest.mark.parametrize("ratio", [0.2, 2.0])
def test_envelope_gradient_is_the_slope_of_the_loss(ratio):
    from attnlaw.simulation.learning import _views, ridge_loss

    table, tokens, y = labelled_tokens(ratio)
    pooled, projected, length = _views(tokens, table, len(y))
    a = np.random.default_rng(0).standard_normal(length)
    step = 1e-5
    slopes = [
        (
            ridge_loss(a + step * e, pooled, projected, y, 0.1)[0]
            - ridge_loss(a - step * e, pooled, projected, y, 0.1)[0]
        )
        / (2 * step)
        for e in np.eye(length)
    ]
    np.testing.assert_allclose(
        ridge_loss(a, pooled, projected, y, 0.1)[1], slopes, rtol=1e-6, atol=1e-9
    )


def test_tokens_and_raw_embeddings_learn_the_same():
    table, tokens, y = labelled_tokens()
    short = al.simulation.learn_weights(tokens, y, table=table, ridge=0.1, n_restarts=1)
    raw = al.simulation.learn_weights(table[tokens], y, ridge=0.1, n_restarts=1)
    np.testing.assert_allclose(short.weights, raw.weights, atol=1e-4)
    np.testing.assert_allclose(short.loss, raw.loss, rtol=1e-6)


def test_learned_weights_lose_less_than_any_fixed_ones_and_find_the_prefix():
    table, tokens, y = labelled_tokens()
    learned = al.simulation.learn_weights(tokens, y, table=table, ridge=0.1)
    assert learned.weights.min() >= 0
    np.testing.assert_allclose(learned.weights.sum(), 1)
    for w in (al.mean_weights(6), al.causal_weights(6), al.optimal_weights(MODEL.correlation)):
        X = np.einsum("l,nld->nd", w, table[tokens])
        b = ridge_coefficients(X, y, 0.1)
        assert learned.loss < np.mean((y - X @ b) ** 2) + 0.1 * b @ b
    assert learned.weights[:3].sum() > 0.9
    assert learned.restart_losses.shape == (3,)
    assert learned.loss == learned.restart_losses.min()
    assert learned.coefficients.shape == (30,)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"sequences": np.zeros((3, 2))}, "sequences must be floats of shape"),
        ({"sequences": np.full((3, 2, 2), np.nan)}, "sequences must be finite"),
        ({"labels": np.ones(4)}, "labels must be one for each of the 3 sequences, got 4"),
        ({"table": np.ones((5, 2))}, "sequences must be whole numbers of shape"),
        (
            {"sequences": np.full((3, 2), 5), "table": np.ones((5, 2))},
            "sequences must be tokens from 0 to 4, the rows of the table, got",
        ),
        ({"ridge": -1}, "ridge must be above 0"),
        ({"n_restarts": 0}, "n_restarts must be"),
        ({"max_iterations": 0}, "max_iterations must be"),
    ],
)
def test_bad_sequences_are_refused(arguments, sentence):
    good = {"sequences": np.zeros((3, 2, 2)), "labels": np.ones(3), "ridge": 0.1}
    with pytest.raises(ValueError, match=sentence):
        al.simulation.learn_weights(**good | arguments)
