"""`attnlaw pool`: answers, files, and one line for bad input."""

import json

import numpy as np
import pytest
from spelled_files import npy_bytes, safetensors_bytes

from attnlaw.diagnostics import advise_pooling


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
    document = run_json("pool", str(files / "all.npz"))
    stored = np.load(files / "all.npz")
    advice = advise_pooling(stored["tokens"], table=stored["table"], labels=stored["labels"])
    assert document["verdict"] == advice.verdict
    assert document["best"] == advice.best
    names = [candidate["name"] for candidate in document["candidates"]]
    assert names == [candidate.name for candidate in advice.candidates]
    code, out, _ = run("pool", str(files / "all.npz"))
    assert code == 0
    assert advice.verdict in out
    assert "twice the data" in out
    (baseline,) = (line for line in out.splitlines() if "(largest class)" in line)
    assert f"{100 * advice.majority_accuracy:.1f}" in baseline


def test_separate_files_and_embeddings_give_the_same(run_json, files):
    table, labels = str(files / "table.npy"), str(files / "labels.txt")
    a = run_json("pool", str(files / "tokens.npy"), "--table", table, "--labels", labels)
    b = run_json("pool", str(files / "embeddings.npy"), "--labels", labels)
    assert a["classes"] == ["no", "yes"]
    assert a["candidates"][0]["accuracy"] == pytest.approx(
        b["candidates"][0]["accuracy"], abs=0.02
    )


def test_cuts_long_sequences_where_told(run, run_json, files):
    document = run_json("pool", str(files / "all.npz"), "--max-length", "3")
    assert document["length"] == 3
    assert "more than 3 tokens" in document["notes"][0]
    code, _, err = run("pool", str(files / "all.npz"), "--max-length", "1")
    assert code == 2
    assert "max-length" in err


def test_without_labels_ranks_by_signal_to_noise(run, files):
    code, out, _ = run("pool", str(files / "embeddings.npy"))
    assert code == 0
    assert "no labels" in out
    assert "SNR" in out


def test_writes_picture_document_and_weights(run, files):
    pytest.importorskip("matplotlib").use("Agg")
    code, _, _ = run("pool", str(files / "all.npz"), "--out", str(files / "out"))
    assert code == 0
    document = json.loads((files / "out/pool.json").read_text())
    best = next(c for c in document["candidates"] if c["name"] == document["best"])
    np.testing.assert_allclose(np.load(files / "out/weights.npy"), best["weights"])
    assert (files / "out/pool.png").stat().st_size > 10_000


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
