"""Verdicts on heads: calibrated on random ones, and sharp on planted structure."""

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax
from scipy.stats import binom

from attnlaw.diagnostics import (
    attention_maps,
    inspect_heads,
    maps_from_queries,
    maps_from_scores,
)
from attnlaw.diagnostics.heads import nulls
from attnlaw.diagnostics.heads.nulls import RandomHeads

N, D, HEADS = 40, 16, 150


@pytest.fixture(scope="module", params=[False, True], ids=["no mask", "causal"])
def random_report(request):
    rng = np.random.default_rng(0)
    beta = np.exp(rng.uniform(np.log(0.5), np.log(2), HEADS))
    return inspect_heads(softmax(scores(*queries_and_keys(HEADS, N, D, rng), beta), request.param))


def test_random_heads_are_called_structured_once_in_a_hundred_at_most(random_report):
    hits = sum(head.verdict == "structured" for head in random_report.heads)
    assert hits <= binom.ppf(1 - 1e-6, HEADS, 0.01)
    assert random_report.head_dimension == D


def test_each_test_is_calibrated_by_itself(random_report):
    """One in ten random heads has a p-value below a tenth, within five standard errors."""
    below = np.array([head.p_values for head in random_report.heads]) < 0.1
    z = (below.mean(axis=0) - 0.1) / (0.09 / HEADS) ** 0.5
    assert (np.abs(z) < 5).all()


def test_calibration_breaks_when_random_heads_are_taken_to_vary_less(monkeypatch):
    """The tests above would notice: with a third of the spread most random heads are called."""
    A = softmax(scores(*queries_and_keys(60, N, D, np.random.default_rng(1)), 0.8), True)
    honest = inspect_heads(A).heads
    assert sum(head.verdict == "structured" for head in honest) <= 3
    right = nulls.gumbel_p_value
    monkeypatch.setattr(nulls, "gumbel_p_value", lambda x, m, sd: right(x, m, sd / 3))
    broken = inspect_heads(A).heads
    hits = sum(head.verdict == "structured" for head in broken)
    assert hits > binom.ppf(1 - 1e-6, 60, 0.01)


def test_wrong_width_and_wrong_mask_are_noticed():
    rng = np.random.default_rng(2)
    A = softmax(scores(*queries_and_keys(6, 60, 32, rng)), False)
    assert {h.verdict for h in inspect_heads(A).heads} == {"random-like"}
    wrong = inspect_heads(A, head_dimension=4)
    assert [h.verdict for h in wrong.heads].count("structured") >= 5
    B = softmax(scores(*queries_and_keys(6, 60, 32, rng)), True)
    assert {h.verdict for h in inspect_heads(B, causal=False, head_dimension=32).heads} == {
        "structured"
    }


def plant(kind, causal, rng, n_heads=8, n=64, d=16):
    Q, K = queries_and_keys(n_heads, n, d, rng)
    extra = 0.0
    if kind == "previous token":
        K[:, :-1] += Q[:, 1:]
    elif kind == "sink":
        extra = 4.0 * (np.arange(n) == 0)
    elif kind == "copies":
        Q[:, 40:], K[:, 40:] = Q[:, :24], K[:, :24]
    elif kind == "low-rank correlation":
        K[..., :2] += 3 * Q[..., 2:4]
    return softmax(scores(Q, K) + extra, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["previous token", "sink", "copies", "low-rank correlation"])
def test_planted_structure_is_found(kind, causal):
    report = inspect_heads(plant(kind, causal, np.random.default_rng(3)), head_dimension=16)
    found = [h.verdict == "structured" for h in report.heads]
    assert sum(found) >= 7
    assert {h.causal for h in report.heads} == {causal}
    if kind in ("previous token", "sink"):
        place = {"sink": "first token"}.get(kind, kind)
        assert [h.positional_pattern for h in report.heads].count(place) >= 7


def test_uniform_sink_and_one_hot_heads():
    rng = np.random.default_rng(4)
    n = 50
    random_choice = np.eye(n)[rng.integers(0, n, n)]
    sink = np.tile(np.where(np.arange(n) == 3, 0.97, 0.03 / (n - 1)), (n, 1))
    shift = np.roll(np.eye(n), -1, axis=1)
    maps = [np.full((n, n), 1 / n), sink, random_choice, shift]
    report = inspect_heads(np.array(maps), head_dimension=16)
    assert [h.verdict for h in report.heads] == [
        "collapsed", "collapsed", "saturated", "structured",
    ]  # fmt: skip
    uniform, sunk, hot, shifted = report.heads
    assert (uniform.inverse_temperature, uniform.p_value) == (0, 1)
    assert uniform.distance_to_uniform == pytest.approx(0, abs=1e-12)
    assert "evenly" in uniform.sentence
    assert (sunk.most_attended, round(sunk.most_attended_share, 2)) == (3, 0.97)
    assert "token 3" in sunk.sentence
    assert hot.distance_to_one_hot == 0
    assert shifted.positional_pattern == "previous token"
    assert shifted.stable_rank == pytest.approx(n)
    assert report.by_structure[-1] is uniform


def test_law_of_unmasked_heads_is_that_of_theory():
    import attnlaw as al

    heads = RandomHeads(n_tokens=60, head_dimension=20, causal=False)
    model = al.SelfAttention(n_tokens=60, head_dimension=20, inverse_temperature=0.77)
    law = al.law(model).quantile((np.arange(60) + 0.5) / 60)
    np.testing.assert_allclose(heads.predicted(0.77) ** 2, law, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize(
    ("size", "beta", "theory"),
    [((60, 20, False), 1.0, True), ((60, 20, True), 1.0, False), ((60, 5, False), 1.0, False),
     ((60, 20, False), 3.0, False)],
)  # fmt: skip
def test_null_says_where_its_law_comes_from(size, beta, theory):
    n, d, causal = size
    A = softmax(scores(*queries_and_keys(1, n, d, np.random.default_rng(5)), beta), causal)
    head = inspect_heads(A, head_dimension=d).heads[0]
    assert head.null == ("theory" if theory else "simulation")


def test_structure_must_show_at_any_width_when_none_is_known():
    """Half precision keeps few weights of cold heads, and so no rank."""
    A = softmax(scores(*queries_and_keys(12, 48, 32, np.random.default_rng(9)), 20.0))
    report = inspect_heads(A.astype(np.float16))
    assert report.head_dimension_from == "assumed"
    assert "32, 64, 128" in report.notes[-1]
    assert "structured" not in {head.verdict for head in report.heads}
    shift = np.eye(48, k=-1)
    shift[0, 0] = 1
    assert inspect_heads(shift, causal=False).heads[0].verdict == "structured"


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
    assert report.n_tokens == 40
    assert "first 40 of 80" in report.notes[0]
    part = softmax(np.log(A)[:, :40, :40])
    expected = inspect_heads(part, head_dimension=report.head_dimension)
    assert [h.distance for h in report.heads] == pytest.approx(
        [h.distance for h in expected.heads]
    )


def test_progress_and_shapes():
    done = []
    A = softmax(scores(*queries_and_keys(6, 12, 4, np.random.default_rng(8))))
    report = inspect_heads(A.reshape(2, 3, 12, 12), head_dimension=4, progress=done.append)
    assert done == [1, 2, 3, 4, 5, 6]
    assert report[1, 2].name == "L1H2"
    assert attention_maps(A.reshape(2, 1, 3, 12, 12)).weights.shape == (2, 3, 12, 12)
    assert attention_maps(A[0]).weights.shape == (1, 1, 12, 12)


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
        (lambda: attention_maps(GOOD, tokens=("a",)), "tokens must be 10 words"),
    ],
)
def test_bad_arguments_are_one_sentence(make, words):
    with pytest.raises(ValueError, match="must") as error:
        make()
    assert words in str(error.value)
