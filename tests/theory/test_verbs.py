"""One verb for each question: right model, right answer, and answers that fit each other."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.models import Model
from attnlaw.models.base import answers

R = al.prefix_correlation(20, prefix=5)
COMMON = {"vocab_ratio": 0.3, "sample_ratio": 0.4}
THREE = [[2.0, 0.0, 0.3], [0.0, 1.0, 0.0], [-1.0, -1.0, 0.0]]
MODELS = {
    "sequences": al.PooledSequences(signal_norm=1.0, correlation=R, weights="causal", **COMMON),
    "mixture": al.SequenceMixture(
        vocab_ratio=0.5,
        sample_ratio=2.0,
        signal_norm=1.0,
        correlations=[al.prefix_correlation(n, prefix=5) for n in (5, 40)],
        weights="mean",
    ),
    "classes": al.PooledClasses(class_means=THREE, correlation=R, weights="causal", **COMMON),
    "coloured classes": al.PooledClasses(
        class_means=THREE,
        class_shares=[0.2, 0.3, 0.5],
        noise_spectrum=[1.0, 2.0, 0.5],
        correlation=R,
        weights="causal",
        **COMMON,
    ),
    "heads": al.MultiHeadPooling(
        signal_norm=1.0, correlation=R, weights=["mean", "causal"], **COMMON
    ),
}
HEAD = al.SelfAttention(n_tokens=20, head_dimension=10, inverse_temperature=1.0)


@pytest.fixture(params=[(name, s) for name in MODELS for s in ("token", "gaussian")], ids=str)
def model(request):
    name, sampling = request.param
    return replace(MODELS[name], sampling=sampling)


def outliers(spike):
    """Overlaps and detectability with an axis of outliers, also for a single one."""
    if hasattr(spike, "squared_overlaps"):
        return spike.squared_overlaps, spike.is_detectable
    return np.atleast_1d(spike.squared_overlap), np.atleast_1d(spike.is_detectable)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_thresholds_are_where_predictions_begin_to_see(model):
    critical = np.atleast_1d(al.thresholds(model).sample_signal)
    tested = 0
    for j, signal in enumerate(critical):
        if 0 < signal < np.inf:
            below, above = (
                outliers(al.predict(replace(model, **{model.signal_field: factor * signal})))[1][j]
                for factor in (1 - 1e-6, 1 + 1e-6)
            )
            assert above
            assert not below
            tested += 1
    assert tested


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_thresholds_of_the_population_are_those_of_infinitely_many_samples(model):
    critical = al.thresholds(model).population_signal
    found = al.thresholds(replace(model, sample_ratio=1e-12)).sample_signal
    assert_allclose(found, critical, atol=2e-3)  # of order γ^{1/4} without a vocabulary


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_what_is_planned_for_is_predicted(model):
    wanted = 0.45
    needs = al.plan(model, wanted)
    names = {"sample_ratio": "sample_ratio", "vocab_ratio": "vocab_ratio"}
    tested = 0
    for field, need in {**names, model.signal_field: "signal"}.items():
        for j, value in enumerate(np.atleast_1d(getattr(needs, need))):
            if 0 < value < np.inf:
                reached = outliers(al.predict(replace(model, **{field: float(value)})))[0][j]
                assert_allclose(reached, wanted, rtol=1e-9, err_msg=f"{field} of outlier {j}")
                tested += 1
    assert tested >= 2
    limits = outliers(al.predict(replace(model, sample_ratio=0.0)))[0]
    assert_allclose(np.atleast_1d(needs.sample_limit), limits, rtol=1e-9)
    assert_allclose(np.atleast_1d(needs.sample_ratio) > 0, limits > wanted)
    if getattr(model, "noise_spectrum", None) is None:  # white noise: a bound, not only a limit
        assert (np.atleast_1d(needs.ceiling) >= limits * (1 - 1e-9)).all()


def test_a_search_finds_what_the_closed_form_does():
    """A mixture of one kind is pooled sequences, whose plan is in closed form."""
    alone = MODELS["sequences"]
    kinds = al.SequenceMixture(
        signal_norm=1.0, correlations=[R], weights=[alone.weights], **COMMON
    )
    here, there = (vars(al.plan(each, [0.3, 0.6])) for each in (alone, kinds))
    for name, expected in here.items():
        assert_allclose(there[name], expected, rtol=1e-9, err_msg=name)
    assert_allclose(
        al.thresholds(kinds).sample_signal, al.thresholds(alone).sample_signal, rtol=1e-12
    )


def test_plans_and_thresholds_of_a_mixture_are_its_own():
    """The mean over kinds would see a signal of 0.257, and plan for a norm that is too weak."""
    mixture = MODELS["mixture"]
    mean = al.PooledSequences(
        vocab_ratio=0.5, sample_ratio=2.0, signal_norm=1.0, correlation=np.eye(5), weights="mean"
    )
    mean = replace(mean, correlation=al.prefix_correlation(5, 5, (mixture.snr - 1) / 4))
    assert al.thresholds(mixture).sample_signal > 1.4 * al.thresholds(mean).sample_signal
    assert al.plan(mixture, 0.5).signal > 1.1 * al.plan(mean, 0.5).signal


@pytest.mark.parametrize("verb", [al.predict, al.simulate, al.law, al.thresholds, al.plan])
def test_what_is_no_model_is_said_in_one_sentence(verb):
    sentence = rf"{verb.__name__} has no answer for str; it answers for .*PooledSequences.*\.$"
    with pytest.raises(TypeError, match=sentence):
        verb("a model")
    with pytest.raises(TypeError, match=r"model must be an instance, got the class SelfAttention"):
        verb(al.SelfAttention)


@pytest.mark.parametrize("verb", [al.thresholds, al.plan, al.validity, al.predict_accuracy])
def test_heads_have_no_answer_to_questions_about_pooling(verb):
    words = f"{verb.__name__} has no answer for SelfAttention; it answers for "
    with pytest.raises(TypeError, match=re.escape(words)):
        verb(HEAD)


def test_a_model_may_be_given_by_keyword():
    model = MODELS["sequences"]
    assert al.predict(model=model) == al.predict(model)


def test_a_new_model_is_answered_where_it_is_defined():
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Constant(Model[float]):
        value: float

    @answers(al.predict)
    def predict_constant(model: Constant) -> float:
        return model.value

    assert al.predict(Constant(value=2.0)) == 2.0
    with pytest.raises(TypeError, match="simulate has no answer for Constant"):
        al.simulate(Constant(value=2.0))


def test_warnings_point_at_the_line_of_the_caller():
    short = replace(MODELS["sequences"], sample_ratio=2.0, weights="last")
    for verb in (al.predict, al.law):
        with pytest.warns(al.RegimeWarning, match="only 1 positions") as caught:
            verb(short)
        assert caught[0].filename == __file__
