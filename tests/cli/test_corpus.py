"""`attnlaw corpus` on small files."""

import json

import numpy as np
import pytest

import attnlaw as al
from attnlaw.data.corpus_statistics import CorpusStatistics


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 30, rng.integers(1, 9)).tolist() for _ in range(400)]
    lines = [json.dumps({"tokens": row, "group": "ab"[len(row) % 2]}) for row in rows]
    (tmp_path / "posts.jsonl").write_text("\n".join(lines))
    np.save(tmp_path / "table.npy", rng.standard_normal((30, 5)))
    return tmp_path, rows


def test_counts_and_covariances_are_printed_and_saved(run, files):
    folder, rows = files
    command = ["corpus", str(folder / "posts.jsonl"), "--label", "group", "--jobs", "1"]
    command += ["--table", str(folder / "table.npy"), "--out", str(folder / "out")]
    code, out, err = run(*command, "--sif", "0.01,0.1", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["n_sequences"] == 400
    assert found["n_tokens"] == sum(map(len, rows))
    assert found["classes"] == {c: sum("ab"[len(r) % 2] == c for r in rows) for c in "ab"}
    assert [part["a"] for part in found["components"]] == [0.01, 0.1]
    second = CorpusStatistics.load(folder / "out").weighting(1)
    part = found["components"][1]
    assert part["n_reliable"] == al.reliable_components(second).n_reliable
    assert part["n_detected"] == al.signal_components(second).test.n_signals
    with np.load(folder / "out" / "statistics.npz") as saved:
        assert saved["covariances"].shape == (2, 5, 5)
        assert saved["token_counts"].sum() == found["n_tokens"]
    code, out, err = run(*command, "--sif", "0.01,0.1")
    assert code == 0, err
    assert "held-out variance" in out
    assert "reproduced by the other half" in out


def test_a_bad_row_is_one_line_and_leaves_no_results(run, files):
    folder, _ = files
    with (folder / "posts.jsonl").open("a") as file:
        file.write('\n{"tokens": [3, 4.5], "group": "a"}\n')
    command = ["corpus", str(folder / "posts.jsonl"), "--table", str(folder / "table.npy")]
    code, out, err = run(*command, "--out", str(folder / "out"), "--jobs", "1")
    assert code == 2
    assert out == ""
    assert "posts.jsonl must hold token ids" in err
    assert "line 401" in err
    assert not (folder / "out" / "statistics.npz").exists()
