"""Every verb answers for every kind of vocabulary, in numbers or, where listed, in a sentence."""

import warnings

import numpy as np
import pytest

import attnlaw as al

V, LENGTH = 240, 10
CORRELATION = al.prefix_correlation(LENGTH, prefix=3)
SCORES = np.random.default_rng(7).standard_normal(V)
TEXT = np.random.default_rng(8).zipf(1.2, 60_000) % V

FREQUENCIES = {
    "Zipf": al.Vocabulary.zipf(V),
    "Mandelbrot": al.Vocabulary.zipf(V, exponent=1.3, offset=20.0),
    "measured": al.Vocabulary(frequencies=np.bincount(TEXT, minlength=V) + 1.0),
}
IMPORTANCES = {
    "uniform": lambda words: words,
    "sif": lambda words: words.with_importance("sif", a=3e-3),
    "idf": lambda words: words.with_importance("idf"),
    "array": lambda words: words.with_importance(np.linspace(0.1, 2.0, V)),
    "exponential scores": lambda words: words.with_importance(np.exp(0.5 * SCORES)),
    "sigmoid scores": lambda words: words.with_importance(1 / (1 + np.exp(-SCORES))),
    "softmax scores": lambda words: words.with_importance(
        np.exp(SCORES) / (words.frequencies @ np.exp(SCORES))
    ),
}
RATIOS = {"vocab_ratio": 0.25, "sample_ratio": 0.25}
CLASSES = {"class_means": [[2.0, 0, 0], [0, 1.5, 0], [-1, -1, 0.5]], "weights": "mean"}


def models(words):
    """Return the models that have a vocabulary, by name."""
    common = RATIOS | {"correlation": CORRELATION, "vocabulary": words}
    shorter = al.prefix_correlation(4, prefix=2)
    return {
        "sequences": al.PooledSequences(signal_norm=2.0, weights="mean", **common),
        "several norms": al.PooledSequences(
            signal_norm=[0.5, 1.0, 2.0], weights="causal", **common
        ),
        "classes": al.PooledClasses(**CLASSES, **common),
        "anisotropic": al.PooledClasses(noise_spectrum=[0.5, 1.0, 1.5], **CLASSES, **common),
        "mixture": al.SequenceMixture(
            signal_norm=2.0,
            correlations=[CORRELATION, shorter],
            weights=[np.full(LENGTH, 1 / LENGTH), np.full(4, 1 / 4)],
            shares=[1, 2],
            vocabulary=words,
            **RATIOS,
        ),
    }


def _without_scores(comparison):
    """Return what is compared; trials that all agree have no z score."""
    return comparison.to_frame().drop(columns="z_score").to_dict("list")


VERBS = {
    "predict": lambda model: al.predict(model),
    "thresholds": lambda model: al.thresholds(model),
    "plan": lambda model: al.plan(model, 0.4),
    "validity": lambda model: al.validity(model),
    "law": lambda model: al.law(model).edges,
    "simulate": lambda model: al.simulate(model, n_trials=2, rng=0),
    "compare": lambda model: _without_scores(al.compare(model, n_trials=2, rng=0)),
    "predict_accuracy": lambda model: al.predict_accuracy(model, ridge=0.05),
    "optimal_importance": lambda model: al.optimal_importance(model),
}
REFUSED = {
    "predict_accuracy": {"classes", "anisotropic", "mixture"},
    "optimal_importance": {"several norms", "classes", "anisotropic"},
}


def numbers(answer):
    """Return all floats of an answer, however deep."""
    if isinstance(answer, dict):
        return np.concatenate([numbers(value) for value in answer.values()] or [np.empty(0)])
    if hasattr(answer, "to_dict"):
        return numbers(answer.to_dict())
    if isinstance(answer, (tuple, list)):
        return np.concatenate([numbers(value) for value in answer] or [np.empty(0)])
    if isinstance(answer, al.Vocabulary):
        return np.concatenate([answer.frequencies, answer.weights])
    values = np.asarray(answer)
    return np.ravel(values).astype(float) if values.dtype.kind in "fiub" else np.empty(0)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize("frequencies", FREQUENCIES)
def test_every_verb_answers_for_every_vocabulary(verb, importance, frequencies):
    words = IMPORTANCES[importance](FREQUENCIES[frequencies])
    for name, model in models(words).items():
        if name in REFUSED.get(verb, ()):
            with pytest.raises(
                (ValueError, TypeError), match=r"^[^\n]+, got [^\n]+\.$|answers for"
            ):
                VERBS[verb](model)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", al.RegimeWarning)
            found = numbers(VERBS[verb](model))
        assert len(found), name
        assert not np.isnan(found).any(), name
