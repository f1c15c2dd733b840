"""What the commands answer is what the library answers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.cli.law import parse_law

PREFIX = al.prefix_correlation(20, prefix=5)
MODEL = al.PooledSequences(  # the defaults
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.5,
    correlation=PREFIX,
    weights=al.causal_weights(20),
)


def plain(result):
    """Return a dataclass as JSON would give it back."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(result).items()
    }


def test_predict_answers_what_the_library_predicts(run_json):
    document = run_json("predict", "--ridge", "0.05")
    assert document["spike"] == plain(al.predict(MODEL))
    assert document["thresholds"] == plain(al.thresholds(MODEL))
    assert document["validity"] == plain(al.validity(MODEL))
    assert document["accuracy"] == plain(al.predict_accuracy(MODEL, 0.05))
    assert document["model"]["snr"] == MODEL.snr


def test_zipf_and_importance_reach_the_model(run_json, run):
    words = al.Vocabulary.zipf(2000, 1.1).with_importance("sif", a=1e-3)
    expected = al.predict(replace(MODEL, vocab_ratio=0.05, vocabulary=words))
    options = ("--vocab-ratio", "0.05", "--zipf", "1.1", "--vocab-size", "2000")
    given = run_json("predict", *options, "--importance", "sif", "--smoothing", "1e-3")
    assert given["spike"] == plain(expected)
    assert given["model"]["effective_vocabulary"] == words.effective_size
    default = run_json("predict", *options, "--importance", "sif")
    assert default["spike"]["squared_overlap"] > given["spike"]["squared_overlap"] - 0.02
    assert "effective_vocabulary" in run("predict", *options, "--importance", "idf")[1]
    assert run("predict", "--importance", "sif")[0] == 2


def test_predict_takes_several_signal_norms(run, run_json):
    document = run_json("predict", "--signal-norm", "0.5,1,2")
    several = replace(MODEL, signal_norm=[0.5, 1.0, 2.0])
    assert document["spike"] == plain(al.predict(several))
    _, out, _ = run("predict", "--signal-norm", "0.5,1,2")
    assert "‖μ‖ = 0.5" in out
    assert "‖μ‖ = 2" in out


SPIKED = al.spiked_correlation(3.0, [1, -1, 1, -1])
WAYS = {
    "--weights mean --length 8 --prefix 3": (al.prefix_correlation(8, 3), al.mean_weights(8)),
    "--weights optimal --within 0.5": (
        al.prefix_correlation(20, 5, within=0.5),
        al.optimal_weights(al.prefix_correlation(20, 5, within=0.5)),
    ),
    "--weights last --autoregressive 0.5 --length 6": (
        al.autoregressive_correlation(6, 0.5),
        al.last_token_weights(6),
    ),
    "--weights direction --spiked 3 --direction 1,-1,1,-1": (SPIKED, al.optimal_direction(SPIKED)),
    "--weights 0.5,0.3,0.2": (al.prefix_correlation(3, 3), [0.5, 0.3, 0.2]),
    "--weights 0.5,0.3,0.2 --prefix 2": (al.prefix_correlation(3, 2), [0.5, 0.3, 0.2]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_models_are_described_in_many_ways(run, way):
    correlation, weights = WAYS[way]
    code, out, _ = run("predict", "--json", *way.split())
    assert code == 0
    expected = al.predict(replace(MODEL, correlation=correlation, weights=weights))
    assert_allclose(
        json.loads(out)["spike"]["squared_overlap"], expected.squared_overlap, rtol=1e-13
    )


def test_files_give_weights_and_correlations(run_json, tmp_path):
    R = al.autoregressive_correlation(7, 0.6)
    np.save(tmp_path / "R.npy", R)
    np.save(tmp_path / "w.npy", al.optimal_weights(R).astype(np.float32))
    document = run_json(
        "predict", "--correlation", str(tmp_path / "R.npy"), "--weights", str(tmp_path / "w.npy")
    )
    best = replace(MODEL, correlation=R, weights=al.optimal_weights(R))
    assert_allclose(
        document["spike"]["squared_overlap"], al.predict(best).squared_overlap, rtol=1e-5
    )


def test_sampling_and_centring_reach_the_model(run_json):
    document = run_json("predict", "--sampling", "gaussian", "--not-centred")
    assert document["model"]["sampling"] == "gaussian"
    assert document["model"]["centred"] is False
    expected = al.predict(replace(MODEL, sampling="gaussian", centred=False))
    assert document["spike"] == plain(expected)


def test_simulate_sets_observation_beside_prediction(run_json):
    document = run_json("simulate", "--dimension", "60", "--trials", "8", "--seed", "3")
    seen, predicted = al.simulate(MODEL, 60, 8, rng=3), al.predict(MODEL)
    assert document["sizes"] == {
        "dimension": 60,
        "n_vocab": 120,
        "n_samples": 150,
        "n_trials": 8,
        "seed": 3,
    }
    for name, comparison in document["spike"].items():
        values = getattr(seen, name)
        error = values.std(ddof=1) / np.sqrt(8)
        assert_allclose(comparison["predicted"], getattr(predicted, name))
        assert_allclose(comparison["observed"], values.mean())
        assert_allclose(comparison["standard_error"], error)
        if error > 0:
            z = (values.mean() - getattr(predicted, name)) / error
            assert_allclose(comparison["z_score"], z)


def test_simulate_is_the_same_on_any_number_of_workers(run):
    arguments = ("simulate", "--dimension", "30", "--trials", "4")
    assert run(*arguments) == run(*arguments, "--jobs", "2")


def test_simulate_fits_and_tests_ridge_too(run_json):
    document = run_json("simulate", "--dimension", "40", "--trials", "3", "--ridge", "0.1")
    predicted = al.predict_accuracy(MODEL, 0.1)
    assert document["accuracy"]["accuracy"]["predicted"] == predicted.accuracy
    assert 0.5 < document["accuracy"]["accuracy"]["observed"] <= 1


def test_simulate_with_one_trial_has_no_standard_error(run, run_json):
    arguments = ("simulate", "--dimension", "30", "--trials", "1")
    assert run_json(*arguments)["spike"]["top_eigenvalue"]["z_score"] is None
    _, out, _ = run(*arguments)
    assert "–" in out


def test_simulate_prints_a_table_for_each_norm(run):
    code, out, err = run(
        "simulate", "--dimension", "30", "--trials", "3", "--signal-norm", "0.5,2"
    )
    assert (code, err) == (0, "")
    assert out.count("predicted") == 2
    assert "‖μ‖ = 0.5, d = 30" in out


def test_plan_answers_what_the_library_plans(run, run_json):
    arguments = ("plan", "--vocab-ratio", "0.05", "--dimension", "768")
    needs = al.plan(replace(MODEL, vocab_ratio=0.05), 0.8)
    document = run_json(*arguments)
    assert document["plan"] == plain(needs) | {
        "n_samples": needs.n_samples(768),
        "n_vocab": needs.n_vocab(768),
    }
    assert document["obstacles"] == []
    _, out, _ = run(*arguments)
    assert f"{needs.n_samples(768):.0f}" in out


def test_plan_says_what_is_impossible(run, run_json):
    arguments = ("plan", "--squared-overlap", "0.97", "--dimension", "100")
    document = run_json(*arguments)
    assert document["plan"]["sample_ratio"] is None
    assert document["plan"]["n_samples"] is None
    assert len(document["obstacles"]) == 2
    _, out, _ = run(*arguments)
    assert out.count("impossible") == 2
    assert "the ceiling is ‖μ‖²/(‖μ‖² + d/V_eff) = 0.8182." in out


def test_weights_are_compared(run, run_json):
    document = run_json("weights", "--length", "6", "--prefix", "3")
    assert list(document) == ["mean", "causal", "last", "optimal"]
    assert document["causal"]["weights"] == al.causal_weights(6).tolist()
    assert_allclose(document["mean"]["snr"], 2)
    assert_allclose(document["optimal"]["snr"], 3)
    _, out, _ = run("weights", "--length", "6", "--prefix", "3")
    assert len(out.splitlines()) == 2 + 4 + 1 + 2 + 6 + 1


def test_weights_given_as_numbers_are_measured(run_json):
    document = run_json("weights", "--weights", "0.5,0.5,0", "--prefix", "2")
    assert_allclose(document["given"]["snr"], 2)
    assert_allclose(document["given"]["effective_length"], 2)


def test_law_answers_what_the_law_answers(run_json):
    document = run_json(
        "law", "--mp", "0.5", "--mp", "0.4", "--scale", "0.05", "--at", "0.1,9", "--points", "3"
    )
    law = 0.05 * (al.MarchenkoPastur(0.5) @ al.MarchenkoPastur(0.4))
    assert document["law"] == repr(law)
    assert_allclose(document["edges"], law.edges)
    assert_allclose(document["moments"], [law.moment(k) for k in range(1, 5)])
    assert_allclose(document["quantiles"]["quantile"], law.quantile([0.25, 0.5, 0.75]))
    assert_allclose(document["at"]["density"], [law.density(0.1), 0])
    assert_allclose(document["at"]["cdf"], [law.cdf(0.1), 1])
    assert document["atom"] == {"location": [], "mass": []}


def test_law_with_an_atom_names_it(run, run_json):
    document = run_json("law", "--mp", "4")
    assert_allclose(document["atom"]["location"], [0])
    assert_allclose(document["atom"]["mass"], [0.75])
    _, out, _ = run("law", "--mp", "4")
    assert "0.75 at 0" in out


def test_options_put_laws_together(run_json):
    document = run_json(
        *("law", "--atoms", "1,10", "--masses", "0.25,0.75", "--mp", "0.05"),
        *("--semicircle", "0.5", "--scale", "2", "--shift", "-1"),
    )
    law = al.Discrete([1, 10], [0.25, 0.75]) @ al.MarchenkoPastur(0.05) + al.Semicircle(0.5)
    assert document["law"] == repr(2 * law - 1)


EXPRESSIONS = {
    "MP(0.5) @ MP(0.4)": al.MarchenkoPastur(0.5) @ al.MarchenkoPastur(0.4),
    "-MarchenkoPastur(0.5) / 4": -al.MarchenkoPastur(0.5) / 4,
    "SC() + Semicircle(2) - 1": al.Semicircle() + al.Semicircle(2) - 1,
    "2 * (3 - 1) * SC(1)": 4 * al.Semicircle(1),
    "Discrete([1, 2], [0.1, 0.9]) @ MP(1e-1)": al.Discrete([1, 2], [0.1, 0.9])
    @ al.MarchenkoPastur(0.1),
    "Discrete((1, -2))": al.Discrete([1, -2]),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_mean_what_python_means(text):
    law = EXPRESSIONS[text]
    assert parse_law(text) == law
    assert parse_law(repr(law)) == law


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 + 1",
        "MP",
        "MP()",
        "MP(1, 2)",
        "MP(ratio=1)",
        "MP('1')",
        "MP(1j)",
        "MP(True)",
        "MP(1) * MP(2)",
        "MP(1) ** 2",
        "MP(1) @ 2",
        "[1, 2] * MP(1)",
        "[1] + [2]",
        "MP(1).density(1)",
        "(lambda: MP(1))()",
        "__import__('os').getcwd()",
        "MP(*[1])",
        "MP(1) if 1 else MP(2)",
        "MP(1); MP(2)",
        "(" * 3000 + "MP(1)" + ")" * 3000,
        "-" * 9000 + "MP(1)",
    ],
)
def test_an_expression_of_anything_but_laws_is_rejected(text):
    with pytest.raises(ValueError, match=r"^expression must be made of"):
        parse_law(text)


@pytest.mark.parametrize("text", ["1/0 * MP(1)", "1e400 * MP(1)", "MP(1e400)"])
def test_non_finite_numbers_are_rejected(text):
    with pytest.raises(ValueError, match="finite"):
        parse_law(text)


def test_endless_expressions_are_refused():
    with pytest.raises(ValueError, match="at most 10000 characters"):
        parse_law("MP(1) @ " * 5000 + "MP(1)")


MEANS = "2,0; 0,1; -1,-1"


def test_classes_answers_what_the_library_predicts(run, run_json, tmp_path):
    options = ("--shares", "0.2,0.3,0.5", "--signal-scale", "0.5,1", "--noise-spectrum", "0.5,2")
    model = al.PooledClasses(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        class_means=[[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]],
        class_shares=[0.2, 0.3, 0.5],
        noise_spectrum=[0.5, 2.0],
        signal_scale=[0.5, 1.0],
        correlation=PREFIX,
        weights=al.causal_weights(20),
    )
    document = run_json("classes", MEANS, *options)
    assert document["spikes"] == plain(al.predict(model))
    assert document["thresholds"] == plain(al.thresholds(model))
    np.save(tmp_path / "means.npy", model.class_means)
    assert run_json("classes", str(tmp_path / "means.npy"), *options) == document
    _, out, _ = run("classes", MEANS, *options)
    assert "means × 0.5" in out
    assert "top_eigenvalues 2" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("1,2; 3",), "attnlaw: means must be rows of one length, got '1,2; 3'."),
        (("1; x",), "attnlaw: means must be numbers separated by commas"),
        ((MEANS, "--shares", "1,2"), "attnlaw: --shares must be of length 3"),
        ((MEANS, "--noise-spectrum", "1"), "attnlaw: --noise-spectrum must be of length 2"),
    ],
)
def test_classes_refuses_in_one_line(run, arguments, sentence):
    code, _, err = run("classes", *arguments)
    assert code == 2
    assert err.startswith(sentence)


def rows_of(text):
    """Return CSV as dictionaries."""
    import csv

    return list(csv.DictReader(text.splitlines()))


def test_ranges_are_evenly_spaced_and_csv_has_a_row_for_each(run):
    code, out, _ = run("predict", "--vocab-ratio", "0.1:0.5:5", "--csv")
    assert code == 0
    rows = rows_of(out)
    deltas = np.linspace(0.1, 0.5, 5)
    assert_allclose([float(row["vocab_ratio"]) for row in rows], deltas)
    expected = al.predict(replace(MODEL, vocab_ratio=deltas)).squared_overlap
    assert_allclose([float(row["squared_overlap"]) for row in rows], expected, rtol=1e-15)


def test_inputs_are_echoed(run, run_json):
    model = run_json("predict", "--prefix", "7", "--weights", "mean")["model"]
    assert model["weights"] == {"name": "mean", "values": [0.05] * 20}
    assert model["correlation"].pop("values") == al.prefix_correlation(20, 7).tolist()
    assert model["correlation"] == {"kind": "prefix", "prefix": 7, "within": 1.0, "length": 20}
    assert (model["vocab_ratio"], model["sample_ratio"]) == (0.5, 0.4)
    for command in ("predict", "plan"):
        out = run(command, "--autoregressive", "0.5", "--weights", "0.5,0.3,0.2")[1]
        assert out.startswith("δ = 0.5, γ = 0.4, ‖μ‖ = 1.5; tokens of a table\nL = 3, R: autoregr")


def test_what_cannot_be_reached_is_null(run, run_json):
    document = run_json("plan", "--squared-overlap", "0.99", "--dimension", "100")["plan"]
    assert document["sample_ratio"] is None
    assert document["n_samples"] is None
    assert document["signal"] > 7
    (row,) = rows_of(run("plan", "--squared-overlap", "0.99", "--csv")[1])
    assert row["sample_ratio"] == ""


def test_mixtures_and_several_heads_answer_what_the_library_predicts(run_json):
    kinds = ("--kind", "length=5", "--kind", "length=30 prefix=3 share=3 weights=causal")
    mixture = al.SequenceMixture(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        signal_norm=1.5,
        correlations=[al.prefix_correlation(5, 5), al.prefix_correlation(30, 3)],
        weights=["mean", "causal"],
        shares=[1, 3],
    )
    document = run_json("mixture", *kinds, "--trials", "3", "--dimension", "40")
    assert document["spike"] == plain(al.predict(mixture))
    seen = al.simulate(mixture, 40, 3, rng=0).squared_overlap.mean()
    assert_allclose(document["comparison"]["squared_overlap"]["observed"], seen)
    heads = al.MultiHeadPooling(
        vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5, correlation=PREFIX,
        weights=["mean", "causal"],
    )  # fmt: skip
    assert run_json("multi-head", "--head", "mean", "--head", "causal")["spikes"] == plain(
        al.predict(heads)
    )


def test_attention_answers_what_the_library_predicts(run, run_json, tmp_path):
    head = al.SelfAttention(n_tokens=60, head_dimension=16, inverse_temperature=0.7, causal=True)
    options = ("--n-tokens", "60", "--head-dimension", "16", "--inverse-temperature", "0.7")
    document = run_json("attention", *options, "--causal", "--trials", "3")
    assert document["prediction"] == plain(al.predict(head))
    assert document["model"]["causal"] is True
    seen = al.simulate(head, n_trials=3, rng=0).bulk_edge.mean()
    assert_allclose(document["comparison"]["bulk_edge"]["observed"], seen)
    rows = rows_of(run("attention", *options, "--points", "3", "--csv")[1])
    assert [float(row["q"]) for row in rows] == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    "arguments",
    [
        "predict",
        "predict --signal-norm 0:2:9",
        "law --mp 0.5",
        "weights",
        "simulate --trials 2",
        "simulate --trials 1 --signal-norm 0.5,1",
        "attention --n-tokens 40",
        "attention --n-tokens 40 --causal --trials 2",
    ],
)
def test_pictures_are_written(run, tmp_path, arguments):
    path = tmp_path / "picture.svg"
    words = arguments.split()
    words += ["--dimension", "40"] if "simulate" in words else []
    code, _, err = run(*words, "--plot", str(path))
    assert (code, err) == (0, f"attnlaw: note: picture in {path}\n")
    assert path.read_text().startswith("<?xml")


def test_a_note_is_shown_once(run, tmp_path):
    """Drawing the law predicts again, which warned again."""
    words = ["--zipf", "1", "--importance", "sif", "--vocab-size", "400", "--vocab-ratio", "0.25"]
    _, _, err = run("predict", *words, "--plot", str(tmp_path / "picture.png"))
    lines = err.splitlines()
    assert len(lines) == len(set(lines)) == 2


def test_plan_says_what_token_weights_bring(run_json):
    document = run_json("plan", "--zipf", "1", "--vocab-size", "400", "--vocab-ratio", "0.25")
    words = document["token_weights"]
    assert words["squared_overlap"] > document["squared_overlap"] == words["uniform_overlap"]
    assert "token_weights" not in run_json("plan")
