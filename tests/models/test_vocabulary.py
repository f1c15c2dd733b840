"""Vocabularies: checks, named importances and effective sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.models.vocabulary import balanced_classes


def test_each_class_has_half_of_the_text():
    words = al.Vocabulary.zipf(999, exponent=1.2)
    assert_allclose(words.frequencies[words.signs > 0].sum(), 0.5, rtol=1e-12)
    assert_allclose(words.frequencies.sum(), 1.0, rtol=1e-12)


@given(st.integers(3, 200), st.floats(0.0, 1.0))
def test_dealing_out_balances_up_to_one_token(n, exponent):
    p = np.arange(1, n + 1) ** -exponent
    p /= p.sum()
    plus = p[balanced_classes(p) > 0].sum()
    assert abs(plus - 0.5) <= 0.5 * p.max() * (1 + 1e-9)


def test_effective_size_is_between_one_and_all():
    words = al.Vocabulary.zipf(1000)
    assert 1 < words.effective_size < 1000
    assert_allclose(words.with_importance("inverse").effective_size, 1000, rtol=1e-11)
    assert_allclose(words.effective_size, 1 / np.sum(words.frequencies**2), rtol=1e-12)


@pytest.mark.parametrize("name", ["uniform", "idf", "inverse"])
def test_named_importances_are_their_formulas(name):
    words = al.Vocabulary.zipf(50).with_importance(name)
    p = words.frequencies
    expected = {"uniform": np.ones(50), "idf": -np.log(p), "inverse": p.min() / p}[name]
    assert_allclose(words.weights, expected)


def test_tokens_are_counted():
    words = al.Vocabulary.from_tokens(np.array([[3, 3, 8], [8, 1, 1], [4, 4, -100]]))
    assert words.n_tokens == 4
    assert words == al.Vocabulary.uniform(4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frequencies": [1.0, 0.0]}, "frequencies must be"),
        ({"frequencies": [8.0, 1.0, 1.0]}, "half of the text"),
        ({"frequencies": [1.0, 1.0], "importance": [1.0]}, "importance must be"),
        ({"frequencies": [1.0, 1.0], "importance": [0.0, 0.0]}, "importance must be"),
        ({"frequencies": [1.0, 1.0], "importance": [1.0, -1.0]}, "importance must be"),
        ({"frequencies": [1.0, 1.0], "classes": [1, 1]}, "classes must be"),
        ({"frequencies": [1.0, 1.0], "classes": [1, 0]}, "classes must be"),
        ({"frequencies": [1.0, np.nan]}, "frequencies must be"),
    ],
)
def test_invalid_vocabularies_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        al.Vocabulary(**arguments)


def test_parameter_belongs_to_smooth_inverse_frequency():
    words = al.Vocabulary.zipf(50)
    with pytest.raises(ValueError, match="a must be given"):
        words.with_importance("sif")
    with pytest.raises(ValueError, match="a must be given"):
        words.with_importance("idf", a=1.0)


def test_vocabulary_fixes_the_dimension():
    model = al.PooledSequences(
        vocab_ratio=0.25,
        sample_ratio=0.5,
        signal_norm=1.0,
        correlation=np.eye(2),
        weights=[0.5, 0.5],
        vocabulary=al.Vocabulary.zipf(400),
    )
    assert model.sizes(100) == (100, 400, 200)
    with pytest.raises(ValueError, match="dimension must be 100"):
        model.sizes(120)


def test_a_vocabulary_is_counted_from_files_chunk_by_chunk(tmp_path, monkeypatch):
    from attnlaw.data import corpora
    from attnlaw.sweeps import corpus_statistics

    monkeypatch.setattr(corpora, "CHUNK_ROWS", 100)
    ids = np.random.default_rng(0).integers(0, 40, (1000, 7)) ** 2 // 40
    ids[:, 5:] = -1
    np.save(tmp_path / "ids.npy", ids)
    desired = al.Vocabulary.from_tokens(ids)
    assert al.Vocabulary.from_tokens(tmp_path / "ids.npy") == desired
    assert al.Vocabulary.from_tokens(np.load(tmp_path / "ids.npy", mmap_mode="r")) == desired
    found = corpus_statistics(ids)
    found.save(tmp_path / "pass" / "statistics.npz")
    for counted in (found, tmp_path / "pass", tmp_path / "pass" / "statistics.npz"):
        assert al.Vocabulary.from_tokens(counted) == desired
    with pytest.raises(ValueError, match="tokens must be of a corpus of token ids, got 'one of"):
        al.Vocabulary.from_tokens(corpus_statistics(ids / 2))
    da = pytest.importorskip("dask.array")
    array = da.from_array(ids, chunks=(130, 3))
    monkeypatch.setattr(type(array), "__array__", lambda *a, **k: pytest.fail("computed here"))
    assert al.Vocabulary.from_tokens(array) == desired
    np.save(tmp_path / "rows.npy", ids / 2)
    with pytest.raises(ValueError, match=r"rows\.npy must hold token ids, got float64 in row 0"):
        al.Vocabulary.from_tokens(tmp_path / "rows.npy")


def test_an_odd_number_of_tokens_is_kept():
    """Warnings are errors: three tokens are not said to stand for four."""
    words = al.Vocabulary(frequencies=[0.5, 0.25, 0.25])
    model = al.PooledSequences(
        vocab_ratio=10.0,
        sample_ratio=0.5,
        signal_norm=1.0,
        correlation=np.eye(4),
        weights="mean",
        vocabulary=words,
    )
    assert model.sizes() == (30, 3, 60)


def test_sequences_of_unequal_length_are_counted():
    words = al.Vocabulary.from_tokens([[5, 9], [5], [], [7, -1]])
    assert_allclose(words.frequencies, [0.5, 0.25, 0.25], rtol=1e-15)
    with pytest.raises(ValueError, match="tokens must be at least two token ids, got"):
        al.Vocabulary.from_tokens([])
