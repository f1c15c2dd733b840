"""Results and models in short, as dictionaries and as data frames."""

import numpy as np
import pytest

import attnlaw as al
from attnlaw.results import Spike, brief

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=[0.5, 1.5],
    correlation=al.prefix_correlation(20, prefix=5),
    weights="causal",
)


def test_a_model_is_shown_in_a_few_lines_without_its_defaults():
    text = repr(MODEL)
    assert text.startswith("PooledSequences(\n    vocab_ratio=0.5, sample_ratio=0.4,")
    assert "correlation=<20×20, 0 to 1>" in text
    assert "sampling" not in text
    assert max(map(len, text.splitlines())) <= 88
    idealised = al.PooledSequences(**MODEL.to_dict() | {"sampling": "gaussian"})
    assert "sampling='gaussian'" in repr(idealised)


def test_results_are_shown_with_four_digits():
    limits = al.results.Thresholds(population_signal=1 / 3, sample_signal=np.inf)
    assert repr(limits) == "Thresholds(population_signal=0.3333, sample_signal=inf)"
    assert limits._repr_html_().count("<tr>") == 3
    assert repr(al.predict(MODEL)).count("\n") < 8


def test_values_that_are_not_finite_are_no_range():
    assert brief(np.full(9, np.nan)) == "<9 values>"
    assert brief(np.array([np.nan, 1, 2, 3, np.inf])) == "<5 values, 1 to 3>"


def test_a_model_can_be_made_again_from_its_dictionary():
    assert al.PooledSequences(**MODEL.to_dict()) == MODEL
    spike = al.predict(MODEL)
    assert Spike(**spike.to_dict()).to_dict() == spike.to_dict()


def test_frames_have_a_row_for_each_model_and_trial():
    pandas = pytest.importorskip("pandas")
    predicted = al.predict(MODEL).to_frame()
    assert len(predicted) == 2
    assert predicted["squared_overlap"].tolist() == list(al.predict(MODEL).squared_overlap)
    seen = al.simulate(MODEL, 40, 3, rng=0)
    frame = seen.to_frame()
    assert isinstance(frame.index, pandas.MultiIndex)
    assert frame["squared_overlap"].loc[(2, 1)] == seen.squared_overlap[2, 1]
    assert (
        len(al.thresholds(al.PooledSequences(**MODEL.to_dict() | {"signal_norm": 1.0})).to_frame())
        == 1
    )


def test_outliers_become_columns_of_a_frame():
    pytest.importorskip("pandas")
    heads = al.MultiHeadPooling(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        signal_norm=[1.0, 2.0],
        correlation=MODEL.correlation,
        weights=["mean", "causal"],
    )
    spikes = al.predict(heads)
    frame = spikes.to_frame()
    assert len(frame) == 2
    assert frame["top_eigenvalues_2"].tolist() == spikes.top_eigenvalues[:, 1].tolist()


def test_comparisons_are_tables():
    pytest.importorskip("pandas")
    table = al.compare(MODEL, 40, 3, rng=0)
    frame = table.to_frame()
    assert frame.loc["squared_overlap[1]", "z_score"] == table["squared_overlap"].z_score[1]
    assert table.to_dict()["bulk_edge"]["observed"].shape == (2,)
    assert "<th>± s.e.</th>" in table._repr_html_()


def test_the_nearest_choice_is_suggested():
    with pytest.raises(ValueError, match=r"got 'optmal' \(did you mean 'optimal'\?\)\.$"):
        al.PooledSequences(**MODEL.to_dict() | {"weights": "optmal"})
    with pytest.raises(ValueError, match=r"'gaussian', got 'xyz'\.$"):
        al.PooledSequences(**MODEL.to_dict() | {"sampling": "xyz"})


def test_findings_about_data_have_a_short_form():
    rows = np.random.default_rng(0).standard_normal((300, 30))
    report = al.diagnostics.inspect_table(rows, rng=0)
    assert len(repr(report)) < 900
    assert report._repr_html_().startswith("<table>")
    found = al.pooled_covariance(rows)
    assert repr(found) == "PooledCovariance(mean=<30 values>, covariance=<30×30>, n_samples=300)"
