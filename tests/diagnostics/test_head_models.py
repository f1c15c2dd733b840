"""Attention layers of models: recorded, with weights redrawn, and ablated."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from tiny_models import ARCHITECTURES, WHY, tiny_model, words

from attnlaw.diagnostics import ablate_heads, load_model, model_attention
from attnlaw.diagnostics.heads import effect, head_effects

torch = pytest.importorskip("torch", reason=WHY)
transformers = pytest.importorskip("transformers", reason=WHY)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries themselves, at import

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def lab(request):
    return tiny_model(request.param)


def test_recorded_maps_are_those_of_the_model(lab):
    text = lab.read(words(30), 30)
    calls = lab.capture(text)
    with torch.no_grad():
        ids = torch.as_tensor(text.ids)[None]
        own = lab.model(input_ids=ids, output_attentions=True).attentions
    assert lab.n_layers == len(calls) == len(own) == 3
    for call, maps in zip(calls, own, strict=True):
        np.testing.assert_allclose(call.weights, maps[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(lab.weights(call), maps[0].numpy(), atol=1e-5)


def test_outputs_and_output_weights_give_what_a_layer_adds(lab):
    """Σ_h AV W_O is what the projection returns, up to its bias."""
    text = lab.read(words(20), 20)
    seen = []
    hook = lab.layers[1].output.register_forward_hook(lambda m, a, out: seen.append(out))
    calls = lab.capture(text)
    hook.remove()
    made = np.einsum("nhi,hio->no", calls[1].outputs, lab.output_weights(1))
    bias = lab.layers[1].output.bias
    expected = seen[1 if len(seen) == 3 else 0][0].numpy() - (
        0 if bias is None else bias.detach().numpy()
    )
    np.testing.assert_allclose(made, expected, atol=1e-5)


def test_redrawn_weights_keep_norms_and_are_put_back(lab):
    text = lab.read(words(30), 30)
    call = lab.capture(text)[1]
    place = lab.layers[1]
    before = place.query.weight.clone()
    drawn = lab.redrawn(call, np.random.default_rng(0))
    again = lab.redrawn(call, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, again)
    assert np.abs(drawn - call.weights).max() > 1e-3
    np.testing.assert_allclose(drawn.sum(axis=-1), 1, rtol=1e-5)
    assert ((drawn > 0) == (call.weights > 0)).all()  # the same mask
    with lab.redraw(1, np.random.default_rng(1)):
        rows = torch.as_tensor(place.query_rows[2])
        turn = type(place.query).__name__ == "Conv1D"
        now, then = (w.T if turn else w for w in (place.query.weight, before))
        assert float(now[rows].norm()) == pytest.approx(float(then[rows].norm()), rel=1e-5)
        assert not torch.allclose(now[rows], then[rows], atol=1e-3)
        if place.query.bias is not None:
            assert not place.query.bias[rows].any()
    torch.testing.assert_close(place.query.weight, before, rtol=0, atol=0)
    np.testing.assert_allclose(lab.weights(call), call.weights, atol=1e-6)


def rotated(x, base=10_000.0):
    """Llama's rotation of pairs (i, i + d/2) by position."""
    n, d = x.shape[-2:]
    angle = np.arange(n)[:, None] * base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(np.tile(angle, 2)), np.sin(np.tile(angle, 2))
    half = np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=-1)
    return x * cos + half * sin


def by_hand(name, lab, call):
    """Scores of a layer from its input, written out for each architecture."""
    module = lab.layers[1].module
    X = call.options.get("hidden_states", call.arguments[0] if call.arguments else None)
    X = X[0].double().numpy()
    n, d = len(X), lab.head_dimension
    if name in ("gpt2", "bloom"):
        part = module.c_attn if name == "gpt2" else module.query_key_value
        W = part.weight.detach().double().numpy()
        made = X @ (W if name == "gpt2" else W.T) + part.bias.detach().double().numpy()
        if name == "gpt2":
            Q, K = (y.reshape(n, 4, d) for y in np.split(made, 3, axis=1)[:2])
        else:
            Q, K = made.reshape(n, 4, 3, d)[:, :, 0], made.reshape(n, 4, 3, d)[:, :, 1]
    else:
        parts = (module.q_proj, module.k_proj) if name != "bert" else (module.query, module.key)
        made = [X @ p.weight.detach().double().numpy().T for p in parts]
        made = [
            y if p.bias is None else y + p.bias.detach().double().numpy()
            for y, p in zip(made, parts, strict=True)
        ]
        Q, K = (y.reshape(n, -1, d) for y in made)
    Q, K = Q.transpose(1, 0, 2), K.transpose(1, 0, 2)
    if name == "qwen3":
        norms = [m.weight.detach().double().numpy() for m in (module.q_norm, module.k_norm)]
        Q, K = (
            y / np.sqrt(np.mean(y**2, axis=-1, keepdims=True) + 1e-6) * w
            for y, w in zip((Q, K), norms, strict=True)
        )
    if name in ("llama", "qwen3"):
        Q, K = rotated(Q), rotated(K)
    scores = Q @ np.repeat(K, 4 // len(K), axis=0).transpose(0, 2, 1) / d**0.5
    if name == "bloom":
        slopes = 2.0 ** (-2 * np.arange(1, 5))
        scores = scores + slopes[:, None, None] * np.arange(n)
    if name != "bert":
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    A = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", ["bert", "gpt2", "bloom", "llama", "qwen3"])
def test_redrawn_maps_are_those_computed_by_hand(name):
    """Mask, rotation, ALiBi, grouped queries and norms are kept, biases are not."""
    lab = tiny_model(name)
    call = lab.capture(lab.read(words(24), 24))[1]
    np.testing.assert_allclose(by_hand(name, lab, call), call.weights, atol=1e-5)
    with lab.redraw(1, np.random.default_rng(3)):
        drawn = lab.weights(call)
        np.testing.assert_allclose(by_hand(name, lab, call), drawn, atol=1e-5)
    assert np.abs(drawn - call.weights).max() > 1e-3


def test_models_are_ablated_from_where_they_differ(lab):
    """A run that resumes at the ablated layer gives what a full run gives."""
    text = lab.read(words(20), 20)
    means = effect.head_means(lab, [lab.capture(text)])
    groups = [[(0, 1)], [(1, 2)], [(2, 0), (1, 3)]]
    found = effect.ablation_distances(lab, text, means, groups)
    values = torch.as_tensor(means, dtype=torch.float32)
    with torch.no_grad():
        plain = lab.output(text)
        for places, distance in zip(groups, found, strict=True):
            with effect.ablated(lab, values, places):
                assert distance == pytest.approx(lab.distance(plain, lab.output(text)), rel=1e-2)
        torch.testing.assert_close(lab.output(text), plain)
    assert (found > 1e-9).all()


def test_ablated_heads_are_at_their_means():
    """Means are over the tokens that are ablated, so ablating twice changes nothing more."""
    lab = tiny_model("llama")
    text = lab.read(words(20), 20)
    means = effect.head_means(lab, [lab.capture(text)])
    values = torch.as_tensor(means, dtype=torch.float32)
    with effect.ablated(lab, values, [(2, 1)]):
        seen = []
        hook = lab.layers[2].output.register_forward_hook(lambda m, a, out: seen.append(a[0]))
        with torch.no_grad():
            lab.output(text)
        hook.remove()
    outputs = seen[0][0].reshape(20, 4, -1).numpy()
    np.testing.assert_allclose(outputs[1:, 1], np.tile(means[2, 1], (19, 1)), atol=1e-6)
    assert np.abs(outputs[0, 1] - means[2, 1]).max() > 1e-4  # the first token is left alone


@pytest.mark.parametrize("name", ["llama", "roberta"])
def test_squared_gradients_are_the_curvature_of_the_divergence(name):
    """½E(∂ log p/∂g)² is the second-order term: measured at gates a little below 1."""
    lab = tiny_model(name, spread=0.2)
    text = lab.read(words(16), 16)
    means = effect.head_means(lab, [lab.capture(text)])
    estimate = effect.squared_gradients(lab, text, means, 400, np.random.default_rng(0))
    values, start = torch.as_tensor(means, dtype=torch.float64), int(lab.causal)
    lab.model.double()
    with torch.no_grad():
        plain = lab.output(text).double()
        exact = np.zeros_like(estimate)
        for layer, head in np.ndindex(estimate.shape):

            def change(k, outputs, layer=layer, head=head):
                if k == layer:
                    outputs = outputs.clone()
                    outputs[start:, head] += 0.05 * (values[k, head] - outputs[start:, head])
                return outputs

            with effect.gated(lab, change):
                exact[layer, head] = lab.distance(plain, lab.output(text).double()) / 0.05**2
    # 400 squares of nearly Gaussian numbers: relative standard error (2/400)^½
    z = (estimate / exact - 1) / (2 / 400) ** 0.5
    assert np.abs(z).max() < 5
    assert np.abs(2 * estimate / exact - 1).min() > 5 * (2 / 400) ** 0.5  # without the ½


def test_effects_rank_heads_as_ablation_does():
    from scipy.stats import spearmanr

    lab = tiny_model("gpt2", spread=0.3, n_layer=4, seed=1)
    texts = [lab.read(words(40, seed), 40) for seed in (0, 1)]
    found = head_effects(lab, texts, [lab.capture(text) for text in texts])
    assert found.effect.shape == found.output_norm.shape == (4, 4)
    others = [lab.read(words(40, seed), 40) for seed in (2, 3)]
    measured = ablate_heads(lab, others)
    assert spearmanr(found.effect.ravel(), measured.ravel()).statistic > 0.6


def test_ablation_goes_on_where_it_stopped(tmp_path, monkeypatch):
    lab = tiny_model("bert")
    texts = [lab.read(words(16, seed), 16) for seed in (0, 1)]
    journal = tmp_path / "new" / "ablation.json"
    whole = ablate_heads(lab, texts)
    shares = []

    def stop(share):
        shares.append(share)
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ablate_heads(lab, texts, journal=journal, progress=stop)
    assert len(json.loads(journal.read_text())["layers"]) == 2
    runs = []
    right = effect.ablation_distances
    monkeypatch.setattr(
        effect, "ablation_distances", lambda *args: runs.append(args) or right(*args)
    )
    np.testing.assert_allclose(ablate_heads(lab, texts, journal=journal), whole)
    assert len(runs) == 2  # one layer, two texts
    assert all(a < b for a, b in pairwise(shares))
    with pytest.raises(ValueError, match="journal must be of this model and these texts"):
        ablate_heads(lab, texts[:1], journal=journal)
    with pytest.raises(ValueError, match="journal must be of this model and these texts"):
        ablate_heads(tiny_model("bert", seed=1), texts, journal=journal)  # of the same name
    journal.write_text("[]")
    with pytest.raises(ValueError, match="journal must be one that"):
        ablate_heads(lab, texts, journal=journal)
    assert ablate_heads(lab, texts, by="layer").shape == (3, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two layers with random weights, saved as Hugging Face does."""
    tokenizers = pytest.importorskip("tokenizers", reason=WHY)
    folder = tmp_path_factory.mktemp("tiny")
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=16, max_position_embeddings=40,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder, safe_serialization=True)
    vocabulary = {word: k for k, word in enumerate(WORDS)}
    letters = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    letters.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    letters.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    saved = transformers.PreTrainedTokenizerFast(
        tokenizer_object=letters, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    saved.save_pretrained(folder)
    return folder


def test_a_folder_is_loaded_and_read(folder, capsys):
    maps = model_attention(folder, " ".join("abcdefghij" * 10))
    assert maps.weights.shape == (2, 3, 40, 40)  # cut where the model ends
    assert maps.head_dimension == 8
    assert maps.tokens[:3] == ("[CLS]", "a", "b")
    lab = load_model(folder)
    assert not lab.predicts_tokens
    pieces = lab.read_pieces(" ".join("abcdefghij" * 10), 30, 5)
    assert [len(piece.ids) for piece in pieces] == [30, 30, 30, 18]
    assert {piece.words[0] for piece in pieces} == {"[CLS]"}
    text, start = lab.repeated_text(9, np.random.default_rng(0))
    assert start == 1
    assert text.words[0] == "[CLS]"
    assert text.words[1:10] == text.words[10:19]
    assert not {"[PAD]", "[CLS]", "[SEP]"}.intersection(text.words[1:-1])
    assert capsys.readouterr() == ("", "")


def test_bad_models_are_one_sentence(folder, tmp_path):
    with pytest.raises(ValueError, match="text must be at least 8 tokens long, got 3 tokens"):
        model_attention(folder, "a")
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"must hold a config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "nonsense"}')
    with pytest.raises(ValueError, match="must be a model that transformers can load") as error:
        load_model(tmp_path)
    assert re.search(r"[^.]\.$", str(error.value))  # one sentence, not cut in the middle
    assert "\n" not in str(error.value)
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(ValueError, match="must hold a tokenizer, got none"):
        load_model(tmp_path)


def test_pickled_weights_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError, match="only the pickle"):
        load_model(tmp_path)


def test_models_without_known_projections_are_one_sentence():
    from attnlaw.diagnostics.heads import wrap_model

    config = transformers.T5Config(vocab_size=30, d_model=16, num_layers=1, num_heads=2, d_kv=8)
    with pytest.raises(ValueError, match="model must be an encoder or a decoder"):
        wrap_model(transformers.T5Model(config), None)
