"""`attnlaw pool`: answers, files, and one line for bad input."""

import json

import numpy as np
import pytest
from spelled_files import npy_bytes, safetensors_bytes

from attnlaw.diagnostics import advise_pooling, compare_positions
from attnlaw.estimators.fitted_pooling import FittedPooling


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 16)).astype(np.float32)
    table[:30, 0] += 2
    y = rng.integers(2, size=300)
    tokens = rng.integers(30, size=(300, 5)) + 30 * y[:, None]
    np.save(tmp_path / "tokens.npy", tokens)
    np.save(tmp_path / "table.npy", table)
    np.save(tmp_path / "embeddings.npy", table[tokens])
    np.savez(tmp_path / "all.npz", tokens=tokens, table=table, labels=y)
    (tmp_path / "labels.txt").write_text("\n".join(["no", "yes"][v] for v in y))
    return tmp_path


def test_answers_what_the_library_advises(run, run_json, files):
    document = run_json("pool", str(files / "all.npz"), "--for", "retrieval")
    stored = np.load(files / "all.npz")
    advice = advise_pooling(
        stored["tokens"], table=stored["table"], labels=stored["labels"], goal="retrieval"
    )
    assert document["verdict"] == advice.verdict
    assert document["best"]["name"] == advice.best.name
    assert [t["name"] for t in document["trials"]] == [t.pipeline.name for t in advice.trials]
    code, out, _ = run("pool", str(files / "all.npz"), "--for", "retrieval")
    assert code == 0
    assert advice.verdict in out
    (baseline,) = (line for line in out.splitlines() if "(largest class)" in line)
    assert f"{100 * advice.majority_accuracy:.1f}" in baseline


def test_positions_alone_are_compared_with_theory(run, run_json, files):
    stored = np.load(files / "all.npz")
    found = compare_positions(stored["tokens"], table=stored["table"], labels=stored["labels"])
    document = run_json("pool", str(files / "all.npz"), "--positions")
    assert document["verdict"] == found.verdict
    assert document["best"] == found.best
    code, out, _ = run("pool", str(files / "embeddings.npy"), "--positions")
    assert code == 0
    assert "SNR" in out
    assert "no labels" in out
    code, _, err = run("pool", str(files / "all.npz"), "--positions", "--for", "retrieval")
    assert code == 2
    assert "--positions must be given without --for" in err


def test_frequencies_come_from_a_pass_over_a_corpus(run, run_json, files):
    more = np.random.default_rng(5).integers(0, 60, (900, 5))
    np.save(files / "more.npy", more)
    command = ["corpus", str(files / "more.npy"), "--vocab-size", "60", "--jobs", "1"]
    assert run(*command, "--out", str(files / "pass"))[0] == 0
    corpus = ["--corpus", str(files / "pass")]
    document = run_json("pool", str(files / "all.npz"), *corpus)
    p = np.bincount(more.ravel()) / more.size
    assert document["tokens"]["effective_size"] == pytest.approx(1 / np.sum(p**2))
    assert "Tokens were counted in 900 texts." in document["notes"]
    code, _, err = run("pool", str(files / "all.npz"), "--positions", *corpus)
    assert code == 2
    assert "--positions must be given without --for, --score and --corpus" in err


def test_separate_files_and_embeddings_give_the_same(run_json, files):
    table, labels = str(files / "table.npy"), str(files / "labels.txt")
    a = run_json("pool", str(files / "tokens.npy"), "--table", table, "--labels", labels)
    b = run_json("pool", str(files / "embeddings.npy"), "--labels", labels)
    assert a["classes"] == ["no", "yes"]
    assert a["mean_score"] == pytest.approx(b["mean_score"], abs=0.02)
    assert a["curve"]["accuracies"][0] > 0.8


def test_cuts_long_sequences_where_told(run, run_json, files):
    document = run_json("pool", str(files / "all.npz"), "--max-length", "3")
    assert document["length"] == 3
    assert "more than 3 tokens" in document["notes"][0]
    code, _, err = run("pool", str(files / "all.npz"), "--max-length", "1")
    assert code == 2
    assert "max-length" in err


def test_writes_page_document_and_pooling(run, files):
    code, _, _ = run("pool", str(files / "all.npz"), "--out", str(files / "out"))
    assert code == 0
    document = json.loads((files / "out/pool.json").read_text())
    page = (files / "out/pool.html").read_text()
    assert document["best"]["name"] in page
    fitted, _ = FittedPooling.load(files / "out/pooling")
    assert fitted.dimension == 16
    pytest.importorskip("matplotlib").use("Agg")
    code, _, _ = run("pool", str(files / "all.npz"), "--positions", "--out", str(files / "out"))
    assert code == 0
    document = json.loads((files / "out/pool.json").read_text())
    best = next(c for c in document["candidates"] if c["name"] == document["best"])
    np.testing.assert_allclose(np.load(files / "out/weights.npy"), best["weights"])
    assert (files / "out/pool.png").stat().st_size > 10_000


WORDS = ["law", "edge", "bulk", "spike", "noise", "signal", "text", "token", "mean", "sum"]


@pytest.fixture
def texts(tmp_path):
    """Write texts of two kinds, with labels and pairs, and word vectors."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((len(WORDS), 4)).round(3)
    lines = [f"{w} {' '.join(map(str, v))}" for w, v in zip(WORDS, vectors.tolist(), strict=True)]
    (tmp_path / "glove.txt").write_text("\n".join(lines))
    rows = ["review,other,stars,score"]
    for _ in range(80):
        y = rng.integers(2)
        one, two = (" ".join(rng.choice(WORDS[5 * y : 5 * y + 7], size=6)) for _ in range(2))
        rows.append(f"{one},{two},{'ab'[y]},{rng.random():.3f}")
    (tmp_path / "texts.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_texts_are_read_and_embedded(run, run_json, texts):
    file, model = str(texts / "texts.csv"), str(texts / "glove.txt")
    found = run_json("pool", file, "--text", "review", "--label", "stars", "--model", model)
    assert (found["n_texts"], found["dimension"], found["classes"]) == (80, 4, ["a", "b"])
    pairs = ("--text", "review", "--text", "other", "--score", "score")
    found = run_json("pool", file, *pairs, "--model", model)
    assert (found["goal"], found["n_texts"]) == ("similarity", 160)
    _, out, _ = run("pool", file, *pairs, "--model", model)  # correlations are no percentages
    (line,) = (line for line in out.splitlines() if line.startswith("best of a search"))
    assert f"{found['score']:.3f}" in line


def test_no_more_texts_are_embedded_than_are_looked_at(run_json, run, texts, monkeypatch):
    monkeypatch.setattr("attnlaw.cli.pool.MOST_TEXTS", 50)
    choices = ("--text", "review", "--label", "stars", "--model", str(texts / "glove.txt"))
    found = run_json("pool", str(texts / "texts.csv"), *choices)
    assert (found["n_texts"], found["classes"]) == (50, ["a", "b"])
    _, out, _ = run("pool", str(texts / "texts.csv"), *choices)
    assert "50 of 80 texts were looked at, chosen at random." in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--text", "reviews", "--model", "glove.txt"], "have a column called 'reviews'"),
        (["--text", "review"], "--text and --model must be given for texts"),
        (["--text", "review", "--text", "other", "--model", "glove.txt"], "twice with --score"),
        (["--text", "review", "--model", "none.gguf"], "nothing at that place"),
        (["--text", "review", "--model", "."], "hold a .safetensors file, got none"),
        (["--text", "review", "--score", "stars", "--model", "glove.txt"], "twice with --score"),
        (["--text", "review", "--label", "other", "--model", "glove.txt"], "2 to 200 classes"),
    ],
)
def test_bad_use_of_texts_is_one_line(run, texts, monkeypatch, arguments, words):
    monkeypatch.chdir(texts)
    code, out, err = run("pool", "texts.csv", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_columns_of_an_array_file_are_refused(run, files):
    code, _, err = run("pool", str(files / "all.npz"), "--text", "review")
    assert code == 2
    assert "must be given for texts" in err


T = np.random.default_rng(0).standard_normal((50, 4, 6))
BAD = {
    "missing.npy": (None, "No such file or folder: "),
    "empty.npy": (b"", "an empty file"),
    "truncated.npy": (npy_bytes(T)[:-8], "truncated"),
    "pickled.npy": (npy_bytes(np.array([[[{}]]])), "pickled"),
    "ragged.npy": (npy_bytes(np.array([[1, 2], [3]], dtype=object)), "pickled Python objects"),
    "nan.npy": (npy_bytes(np.full((50, 4, 6), np.nan)), "finite numbers"),
    "flat.npy": (npy_bytes(np.ones(5)), "(N, L, d) or (N, L)"),
    "ids.npy": (npy_bytes(np.ones((50, 4), dtype=int)), "be given with a table"),
    "few.npy": (npy_bytes(T[:5]), "at least 12"),
    "zero.npy": (npy_bytes(T[:0]), "at least one number"),
    "two.safetensors": (
        safetensors_bytes({"a": np.ones((2, 2), "f4"), "b": np.ones((2, 2), "f4")}),
        "hold one array",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_one_line_and_exit_code_2(run, tmp_path, name):
    content, words = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, out, err = run("pool", str(tmp_path / name))
    assert code == 2
    assert out == ""
    assert err.startswith("attnlaw: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize(
    ("option", "content", "words"),
    [
        ("labels.txt", b"a\nb\n", "50 numbers or words"),
        ("labels.txt", b"\xff\xfe\xfa", "one label a line"),
        ("labels.npy", npy_bytes(np.full(50, np.nan)), "finite"),
        ("lengths.npy", npy_bytes(np.full(50, 9)), "from 1 to 4"),
        ("table.npy", npy_bytes(np.ones((9, 9))), "token ids (N, L) beside a table"),
    ],
)
def test_bad_companion_is_one_line_and_exit_code_2(run, tmp_path, option, content, words):
    (tmp_path / "x.npy").write_bytes(npy_bytes(T))
    (tmp_path / option).write_bytes(content)
    flag = "--" + option.split(".")[0]
    code, _, err = run("pool", str(tmp_path / "x.npy"), flag, str(tmp_path / option))
    assert code == 2
    assert err.count("\n") == 1
    assert words in err
