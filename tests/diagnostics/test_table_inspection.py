"""Reports on tables: planted signal, artefacts, real tables, and the picture."""

import numpy as np
import pytest

from attnlaw.data.examples import example_table
from attnlaw.diagnostics import EmbeddingTable, inspect_table
from attnlaw.estimators import outlier_test
from attnlaw.sweeps import corpus_statistics

V, D = 4000, 80


def noise(rng, scales=1.0):
    return rng.standard_normal((V, D)) * np.sqrt(np.broadcast_to(scales, V))[:, None]


def test_planted_signal_is_found_with_its_tokens_and_its_strength():
    rng = np.random.default_rng(0)
    signs = np.where(np.arange(V) < 1000, 1.0, -1 / 3)  # the first thousand against the rest
    direction = np.eye(D)[3]
    E = noise(rng) + 3.0 * np.outer(signs, direction)
    words = tuple(f"word{i}" for i in range(V))
    table = EmbeddingTable(vectors=E, tokens=words, source="a test", name="E")
    report = inspect_table(table)
    (outlier,) = report.outliers
    assert all(int(word.removeprefix("word")) < 1000 for word in outlier.highest_tokens)
    assert all(int(word.removeprefix("word")) >= 1000 for word in outlier.lowest_tokens)
    # In the population the direction has variance 1 + 9 (1/4 + 3/4 · 1/9) = 4.
    error = 4 * np.sqrt(2 / V)
    assert abs(outlier.population_eigenvalue - 4.0) < 5 * error
    # With V rows the sample eigenvalue is 4 (1 + δ/(4−1)) on average.
    assert abs(outlier.eigenvalue - 4 * (1 + D / V / 3)) < 5 * error
    np.testing.assert_allclose(report.noise_spectrum, 1, atol=0.2)
    np.testing.assert_allclose(report.bulk_edge, (1 + np.sqrt(D / V)) ** 2, rtol=0.02)
    assert report.check is not None
    assert report.check.passes
    assert report.verdict.startswith("One direction stands off the noise")


def test_pure_noise_has_no_outlier_and_follows_the_law():
    report = inspect_table(noise(np.random.default_rng(1)))
    assert report.outliers == ()
    assert report.check.passes
    assert report.length_spread < 0.05
    assert "No direction stands off" in report.verdict
    np.testing.assert_allclose(report.effective_rank, D / (1 + D / V), rtol=0.01)


def test_artefacts_are_named():
    rng = np.random.default_rng(2)
    E = noise(rng) + 5.0  # a mean that centring takes away
    E[:, :6] = 1.0  # constant columns
    E[-100:] = E[:100]  # copies
    E[700, 20] = 300.0  # one heavy token
    report = inspect_table(E)
    notes = " ".join(report.notes)
    assert "100 rows are copies of other rows." in notes
    assert "6 directions hold nothing" in notes
    assert "Outlier 1 is made by about 1 tokens only." in notes
    assert report.mean_share > 0.9
    assert report.outliers[0].highest_tokens[0] == "#700"


def test_direction_along_the_vocabulary_is_named():
    rng = np.random.default_rng(3)
    E = noise(rng) + np.outer(np.linspace(-3, 3, V), np.eye(D)[0])
    assert "follows the order of the vocabulary" in " ".join(inspect_table(E).notes)


def test_few_rows_are_reported_without_a_check():
    report = inspect_table(np.random.default_rng(4).standard_normal((60, 100)))
    assert report.check is None
    assert "too few rows to check" in report.verdict


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.ones((30, 3)), r"both at least 24, got an array of shape \(30, 3\)"),
        (np.ones((30, 30)), "made of rows that differ"),
        (np.ones((30, 30), dtype=int), "floating-point numbers, got 'int64'"),
    ],
)
def test_bad_tables_are_named(table, words):
    with pytest.raises(ValueError, match=words):
        inspect_table(table)


def assert_same_as_outlier_test(report, **options):
    """A table has the outliers that its eigenvalues have: one question, one answer."""
    other = outlier_test(report.eigenvalues, n_samples=report.n_vocab, noise="general", **options)
    assert len(report.outliers) == other.n_signals
    seen = [outlier.p_value for outlier in report.outliers]
    np.testing.assert_allclose(seen, other.p_values[: other.n_signals])


@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("planted", [(), (6.0,), (4.0, 4.02, 9.0, 40.0)])
@pytest.mark.parametrize("rows", ["equal", "unequal"])
def test_outliers_are_those_of_the_test_of_any_noise(planted, rows, level):
    """Correlated columns, with planted directions or without, rows of one length or of several."""
    rng = np.random.default_rng(6)
    d, n = 120, 1800
    scales = np.sqrt(np.append(np.linspace(0.5, 1.5, d - len(planted)), planted))
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    E = (rng.standard_normal((n, d)) * scales) @ rotation
    if rows == "unequal":
        E *= np.exp(0.15 * rng.standard_normal((n, 1)))
    report = inspect_table(E, level=level)
    if level < 0.05:  # at which one table in twenty may have one too many
        assert len(report.outliers) == len(planted)
    assert len(report.outliers) >= len(planted)
    assert_same_as_outlier_test(report, level=level)


def test_outliers_that_a_few_long_rows_make_are_named():
    rng = np.random.default_rng(7)
    found = named = 0
    for _ in range(6):
        E = noise(rng) * np.sqrt(3 / rng.chisquare(3, (V, 1)))
        report = inspect_table(E.astype(np.float32))
        found += bool(report.outliers)
        named += any("tokens only" in note for note in report.notes)
    assert found == named > 0


@pytest.mark.parametrize(
    ("name", "n_outliers", "farthest", "equal_lengths"),
    [("smollm2", 5, 0.008, 0.009), ("minilm", 0, 0.009, 0.018), ("wordllama", 2, 0.014, 0.04)],
)
def test_real_tables_follow_the_law_once_row_lengths_are_known(
    name, n_outliers, farthest, equal_lengths
):
    """Seen with seed 0: distances .0041, .0056, .0073; with equal lengths .011, .025, .055."""
    if name == "smollm2":
        pytest.importorskip("gguf")
    try:
        table = example_table(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    report = inspect_table(table, rng=1)
    assert len(report.outliers) == n_outliers
    assert_same_as_outlier_test(report)
    assert report.check.distance < farthest
    assert report.check.silverstein_distance > equal_lengths


def test_picture_shows_both_panels():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    from attnlaw.plotting import draw_table

    rng = np.random.default_rng(5)
    E = noise(rng) + np.outer(rng.choice([-1, 1], V), 3 * np.eye(D)[0])
    figure = draw_table(inspect_table(E))
    left, right = figure.axes
    assert "outliers" in left.get_legend_handles_labels()[1]
    assert any("with row lengths" in text for text in right.get_legend_handles_labels()[1])
    small = draw_table(inspect_table(rng.standard_normal((60, 100))))
    assert small.axes[1].get_title(loc="left") == "too few rows for the check"
    plt.close("all")


def test_outliers_are_held_against_the_frequencies_of_a_corpus(tmp_path):
    rng = np.random.default_rng(3)
    V = 1500
    p = rng.permutation(1 / (np.arange(V) + 3.0))  # not in the order of the rows
    table = rng.standard_normal((V, 40))
    table[:, 0] += 6 * np.log(p / p.mean())
    table[:, 1] += 4 * rng.choice([-1, 1], V)
    found = corpus_statistics(rng.choice(V - 100, (4000, 20), p=p[:-100] / p[:-100].sum()))
    found.save(tmp_path / "statistics.npz")
    report = inspect_table(table, corpus=tmp_path / "statistics.npz")
    first, second = report.outliers[:2]
    assert abs(first.frequency_correlation) > 0.8
    assert abs(first.order_correlation) < 0.2
    assert abs(second.frequency_correlation) < 0.2
    assert any(
        "Outlier 1 follows the frequency of tokens in the corpus" in n for n in report.notes
    )
    assert report.n_occurring == np.sum(found.token_counts > 0) <= V - 100
    assert report.effective_vocabulary == pytest.approx(1 / np.sum(found.frequencies**2))
    assert inspect_table(table).outliers[0].frequency_correlation is None
    with pytest.raises(ValueError, match="corpus must be of tokens below 1000, got 1400"):
        inspect_table(table[:1000], corpus=found)
