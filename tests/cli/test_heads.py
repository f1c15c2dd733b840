"""`attnlaw heads`: answers, files, pictures, and one line for bad input."""

import base64
import csv
import json
import re

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax
from spelled_files import npy_bytes, safetensors_bytes

from attnlaw import diagnostics
from attnlaw.diagnostics import inspect_heads

RNG = np.random.default_rng(0)
Q, K = queries_and_keys(4, 32, 12, RNG)
K[3, :-1] += 2 * Q[3, 1:]
MAPS = softmax(scores(Q, K)).reshape(2, 2, 32, 32).astype(np.float32)

# What programs read; a change breaks them, so it belongs into the changelog.
REPORT = (
    "source n_layers n_heads n_tokens head_dimension head_dimension_from null n_draws level "
    "effect_unit layer_ablations tokens heads notes verdict"
)
HEAD = (
    "layer head verdict share agreement p_value p_values effect ablation output_norm "
    "output_change parts null_parts entropy inverse_temperature null_inverse_temperature "
    "sink_share most_attended most_attended_word first same previous next prefix_matching "
    "null_prefix_matching is_dormant causal spectrum sentence"
)
COLUMNS = (
    "name,layer,head,verdict,share,agreement,p_value,effect,ablation,output_norm,output_change,"
    "entropy,inverse_temperature,null_inverse_temperature,sink_share,most_attended,"
    "most_attended_word,first,same,previous,next,prefix_matching,null_prefix_matching,is_dormant,"
    "causal,sentence,common,positional,repetition,content,null_common,null_positional,"
    "null_repetition,null_content,p_common,p_positional,p_repetition,p_content,p_first,p_previous,"
    "p_same,p_next,p_entropy,p_prefix,p_spectrum"
)


@pytest.fixture
def maps_file(tmp_path):
    np.save(tmp_path / "maps.npy", MAPS)
    return tmp_path / "maps.npy"


def test_answers_what_the_library_finds(run, run_json, maps_file):
    document = run_json("heads", str(maps_file))
    report = inspect_heads(MAPS)
    assert document["verdict"] == report.verdict
    assert document["head_dimension"] == 12
    assert " ".join(document) == REPORT
    assert " ".join(document["heads"][0]) == HEAD
    found = document["heads"][3]
    assert found["verdict"] == "positional"
    assert found["parts"]["positional"] == report[1, 1].parts.positional
    assert found["p_values"]["previous"] == report[1, 1].p_values["previous"]
    assert found["spectrum"]["predicted"] == report[1, 1].spectrum.predicted.tolist()
    code, out, _ = run("heads", str(maps_file), "--rows", "1")
    assert code == 0
    assert out.splitlines()[4].startswith("L1H1")
    assert "3 more heads" in out
    assert report.verdict in out


def test_writes_page_table_picture_and_document(run, maps_file, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    out = tmp_path / "new" / "folder"
    code, _, _ = run("heads", str(maps_file), "--out", str(out))
    assert code == 0
    assert (out / "heads.png").stat().st_size > 10_000
    assert json.loads((out / "heads.json").read_text())["n_layers"] == 2
    with (out / "heads.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [h.name for h in inspect_heads(MAPS).ranked]
    assert ",".join(rows[0]) == COLUMNS
    page = (out / "heads.html").read_text()
    assert "http" not in re.sub(r"data:[^\"]*", "", page)  # nothing from elsewhere
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])
    assert [head["name"] for head in data["heads"]] == [row["name"] for row in rows]
    image = base64.b64decode(data["heads"][0]["map"].removeprefix("data:image/png;base64,"))
    assert image.startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore")
def test_a_model_reads_texts_and_is_ablated(run, run_json, tmp_path, monkeypatch):
    """Two pieces of a file and one text; stopped in the middle of ablation, and run again."""
    tiny_models = pytest.importorskip("tiny_models")
    pytest.importorskip("torch", reason=tiny_models.WHY)
    transformers = pytest.importorskip("transformers", reason=tiny_models.WHY)
    tokenizers = pytest.importorskip("tokenizers", reason=tiny_models.WHY)
    lab = tiny_models.tiny_model("llama", spread=0.3)
    lab.model.save_pretrained(tmp_path / "model")
    vocabulary = {str(k): k for k in range(60)}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words)
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(tiny_models.words(100))
    out = tmp_path / "out"
    arguments = [
        "heads", str(tmp_path / "model"), "--text-file", str(tmp_path / "text.txt"), "--texts",
        "2", "--text", tiny_models.words(20, 7), "--tokens", "30", "--draws", "5", "--ablate",
        "head", "--out", str(out),
    ]  # fmt: skip
    right = diagnostics.ablate_heads

    def stopped(*args, progress, **options):
        def stop(share):
            if share > 0.5:
                raise KeyboardInterrupt

        return right(*args, progress=stop, **options)

    with monkeypatch.context() as patch:
        patch.setattr(diagnostics, "ablate_heads", stopped)
        assert run(*arguments)[0] == 130
    assert json.loads((out / "heads.json").read_text())["heads"][0]["effect"] > 0
    first = json.loads((out / "ablation-head.json").read_text())["layers"]
    assert len(first) == 2
    document = run_json(*arguments)
    assert document["n_tokens"] == [20, 30, 30]
    assert document["effect_unit"] == "KL divergence, nats a token"
    assert all(head["ablation"] > 0 for head in document["heads"])
    journal = json.loads((out / "ablation-head.json").read_text())
    assert len(journal["layers"]) == 3
    assert journal["layers"][:2] == first
    code, text, _ = run(*arguments[:-4], "--ablate", "layer", "--no-effect", "--rows", "2")
    assert code == 0
    assert "Layers ablated" in text


@pytest.mark.parametrize("causal", [False, True])
def test_scores_and_queries_answer_the_same(run_json, tmp_path, causal):
    flag = ["--causal"] if causal else []
    A = softmax(scores(Q, K), causal).astype(np.float32)
    np.savez(tmp_path / "a.npz", attention=A)
    np.savez(tmp_path / "s.npz", scores=scores(Q, K).astype(np.float32))
    arrays = {"queries": Q.astype(np.float32), "keys": K.astype(np.float32)}
    (tmp_path / "qk.safetensors").write_bytes(safetensors_bytes(arrays))
    by_weights = run_json("heads", str(tmp_path / "a.npz"), "--head-dimension", "12")
    by_scores = run_json("heads", str(tmp_path / "s.npz"), "--head-dimension", "12", *flag)
    by_queries = run_json("heads", str(tmp_path / "qk.safetensors"), *flag)
    assert by_queries["head_dimension_from"] == "known"
    for document in (by_scores, by_queries):
        for a, b in zip(by_weights["heads"], document["heads"], strict=True):
            assert a["causal"] == causal
            assert a["verdict"] == b["verdict"]
            assert a["parts"]["content"] == pytest.approx(b["parts"]["content"], rel=1e-2)


def test_lists_arrays(run, maps_file):
    code, out, _ = run("heads", str(maps_file), "--list")
    assert code == 0
    assert "2×2×32×32" in out


def spoiled(value):
    A = MAPS.copy()
    A[1, 0, 5, 6] = value
    return A


BAD = {
    "missing.npy": (None, "No such file or folder: "),
    "empty.npy": (b"", "an empty file"),
    "truncated.npy": (npy_bytes(MAPS)[:-9], "truncated"),
    "pickled.npy": (npy_bytes(np.array([[None] * 9] * 9)), "never loaded"),
    "none.npy": (npy_bytes(MAPS[:0]), "at least one number"),
    "nan.npy": (npy_bytes(spoiled(np.nan)), "got nan in row 5 in layer 1, head 0"),
    "negative.npy": (npy_bytes(spoiled(-0.5)), "at least 0, got -0.5 in row 5"),
    "sums.npy": (npy_bytes(spoiled(0.9)), "rows that sum to one"),
    "oblong.npy": (npy_bytes(MAPS[..., :20]), "square maps"),
    "before-softmax.npy": (npy_bytes(scores(Q, K)), "attention must be"),
    "line.npy": (npy_bytes(np.ones(9)), "2 to 4 axes"),
    "words.npy": (npy_bytes(np.array(["a"])), "real numbers"),
    "broken.safetensors": (safetensors_bytes({"t": MAPS})[:20], ".safetensors"),
    "text.csv": (b"1,2,3", "begins"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_one_line_and_exit_code_2(run, tmp_path, name):
    content, words = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, out, err = run("heads", str(tmp_path / name))
    assert (code, out) == (2, "")
    assert err.startswith("attnlaw: ")
    assert err.count("\n") == 1
    assert words in err


def test_wrong_names_and_options_are_one_line(run, tmp_path, maps_file):
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes({"one": MAPS, "two": MAPS}))
    file = str(tmp_path / "x.safetensors")
    for arguments, words in (
        ([file, "--tensor", "nope"], "one (2×2×32×32 F32)"),
        ([file], "given with the name of one of its arrays"),
        ([file, "--kind", "queries"], "hold an array called 'queries'"),
        ([str(maps_file), "--text", "hello"], "reads no text"),
        ([str(tmp_path)], "give it a --text"),
        ([str(maps_file), "--ablate", "head"], "nothing to ablate"),
        ([str(tmp_path), "--text", "a"], "hold a config.json"),
        ([str(maps_file), "--level", "2"], "level"),
    ):
        code, _, err = run("heads", *arguments)
        assert code == 2
        assert words in err
        assert err.count("\n") == 1
