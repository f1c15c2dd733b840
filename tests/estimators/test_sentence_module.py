"""Poolings inside sentence-transformers give what they give outside, before and after saving."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("sklearn")
tokenizers = pytest.importorskip("tokenizers")

from attnlaw.data.examples import TABLES, example_file  # noqa: E402
from attnlaw.data.readers import embed_texts, encode_texts  # noqa: E402
from attnlaw.estimators import AttentionPooling  # noqa: E402

TEXTS = [
    "An outlier leaves the bulk.",
    "Mean pooling keeps what all positions share, and little else.",
    "The edge of a law",
    "Signal",
] * 4
pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that are not ours

SETTINGS = [
    {"weights": "mean+max", "token_weights": "sif", "whitening": 5.0},
    {"weights": "trained", "token_weights": "idf", "components_removed": 1},
    {"weights": "late"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_encoder_with_the_pooling_encodes_alike(tmp_path, settings):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer

    try:
        folder = example_file(*TABLES["minilm"][:2])
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    found = embed_texts(TEXTS, folder, length=64)
    pooling = AttentionPooling(**settings)
    rows = np.arange(1000) % len(TEXTS)  # more texts than dimensions: whitening magnifies rounding
    noise = np.random.default_rng(0).standard_normal((1000, *found.sequences.shape[1:]))
    many = (found.sequences[rows] + 0.3 * noise).astype(np.float32)
    pooling.fit(many, rows % 4, mask=found.mask[rows], tokens=found.tokens[rows])
    wanted = pooling.transform(found.sequences, mask=found.mask, tokens=found.tokens)
    modules = [Transformer(str(folder)), pooling.to_sentence_transformers()]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path))
    again = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    scale = np.abs(wanted).max()
    for each in (model, again):
        # Hidden states depend on the batch in the last digits, so the module is given the same.
        features = {
            "token_embeddings": torch.tensor(found.sequences),
            "attention_mask": torch.tensor(found.mask).long(),
            "input_ids": torch.tensor(np.maximum(found.tokens, 0)),
        }
        pooled = each[1](features)["sentence_embedding"].numpy()
        assert_allclose(pooled / scale, wanted / scale, atol=1e-6)
        ours = each.encode(TEXTS)
        inside = each[1](each[0](each.preprocess(TEXTS)))["sentence_embedding"].detach().numpy()
        assert_allclose(ours / scale, inside / scale, atol=1e-6)
        assert_allclose(ours / scale, wanted / scale, atol=1e-5)  # another batch
    assert not list(tmp_path.rglob("*.bin")) + list(tmp_path.rglob("*.pkl"))


def test_a_static_table_with_the_pooling_encodes_alike(tmp_path):
    from sentence_transformers import SentenceTransformer

    from attnlaw.estimators.sentence_module import TableModule

    words = sorted({word for text in TEXTS for word in text.split()})
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"?": 0} | {w: i for i, w in enumerate(words, 1)}, "?")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    table = np.random.default_rng(0).standard_normal((len(words) + 1, 12)).astype(np.float32)
    ids = encode_texts(TEXTS, tokenizer, 8)
    pooling = AttentionPooling("mean+max", token_weights="sif", components_removed=1, table=table)
    wanted = pooling.fit_transform(ids)
    modules = [TableModule(table, tokenizer, 8), pooling.to_sentence_transformers()]
    model = SentenceTransformer(modules=modules, device="cpu")
    assert_allclose(model.encode(TEXTS), wanted, atol=1e-6)
    model.save(str(tmp_path))
    again = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    assert_allclose(again.encode(TEXTS), wanted, atol=1e-6)
