"""`attnlaw table`: answers, files, and one line for bad input."""

import json

import numpy as np
import pytest
from spelled_files import TABLE, gguf_bytes, npy_bytes, safetensors_bytes

from attnlaw.diagnostics import inspect_table


@pytest.fixture
def table_file(tmp_path):
    rng = np.random.default_rng(0)
    E = rng.standard_normal((2000, 40)).astype(np.float32)
    E[:, 0] += 4 * rng.choice([-1, 1], 2000)
    np.save(tmp_path / "table.npy", E)
    return tmp_path / "table.npy"


def test_answers_what_the_library_finds(run, run_json, table_file):
    document = run_json("table", str(table_file))
    report = inspect_table(np.load(table_file))
    assert document["verdict"] == report.verdict
    assert document["bulk_edge"] == report.bulk_edge
    assert document["eigenvalues"] == report.eigenvalues.tolist()
    assert document["check"]["distance"] == report.check.distance
    assert len(document["outliers"]) == 1
    code, out, _ = run("table", str(table_file))
    assert code == 0
    assert "2000 × 40" in out
    assert report.verdict in out


def test_writes_picture_and_document(run, table_file, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    code, _, _ = run("table", str(table_file), "--out", str(tmp_path / "new" / "folder"))
    assert code == 0
    assert (tmp_path / "new/folder/table.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "new/folder/table.json").read_text())["n_vocab"] == 2000


def test_lists_arrays(run, tmp_path):
    file = tmp_path / "x.safetensors"
    file.write_bytes(safetensors_bytes({"wte": TABLE, "ids": np.arange(3)}))
    code, out, _ = run("table", str(file), "--list")
    assert code == 0
    assert "wte" in out
    assert "4×3" in out


BAD = {
    "missing.npy": None,
    "empty.npy": b"",
    "truncated.npy": npy_bytes(np.ones((50, 30)))[:-9],
    "pickled.npy": npy_bytes(np.array([[None] * 30] * 30)),
    "small.npy": npy_bytes(TABLE),
    "nan.npy": npy_bytes(np.full((50, 30), np.nan)),
    "text.csv": b"1,2,3",
    "broken.safetensors": safetensors_bytes({"t": TABLE})[:20],
    "broken.gguf": gguf_bytes(TABLE)[:50],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_one_line_and_exit_code_2(run, tmp_path, name):
    if BAD[name] is not None:
        (tmp_path / name).write_bytes(BAD[name])
    code, out, err = run("table", str(tmp_path / name))
    assert code == 2
    assert out == ""
    assert err.startswith("attnlaw: ")
    assert err.count("\n") == 1


def test_wrong_tensor_is_one_line_that_lists_the_right_ones(run, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes({"wte": TABLE}))
    code, _, err = run("table", str(tmp_path / "x.safetensors"), "--tensor", "nope")
    assert code == 2
    assert "wte (4×3 F32)" in err


def test_outliers_are_beside_frequencies_of_a_corpus(run, run_json, table_file, tmp_path):
    np.save(tmp_path / "ids.npy", np.random.default_rng(1).integers(0, 1500, (300, 8)))
    command = ["corpus", str(tmp_path / "ids.npy"), "--vocab-size", "2000", "--jobs", "1"]
    assert run(*command, "--out", str(tmp_path / "pass"))[0] == 0
    for place in (tmp_path / "pass", tmp_path / "pass" / "statistics.npz"):
        document = run_json("table", str(table_file), "--corpus", str(place))
        assert 1000 < document["n_occurring"] < 1500
        assert abs(document["outliers"][0]["frequency_correlation"]) < 0.2
    code, out, _ = run("table", str(table_file), "--corpus", str(tmp_path / "pass"))
    assert code == 0
    assert "with frequency" in out
    code, out, err = run("table", str(table_file), "--corpus", str(table_file))
    assert (code, out) == (2, "")
    assert "table.npy must hold statistics of a corpus" in err
