"""The view of attention heads: what the library finds, and nothing else."""

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax

from attnlaw.diagnostics import inspect_heads
from attnlaw.explorer.charts import Look
from attnlaw.explorer.findings import (
    HeadsFinding,
    TableFinding,
    find_in_example,
    find_in_file,
    heads_view,
)
from attnlaw.explorer.frame import shown

Q, K = queries_and_keys(4, 40, 10, np.random.default_rng(0))
K[2, :-1] += 2 * Q[2, 1:]
MAPS = softmax(scores(Q, K)).reshape(2, 2, 40, 40)


@pytest.fixture
def found(tmp_path):
    np.save(tmp_path / "maps.npy", MAPS)
    return find_in_file(tmp_path / "maps.npy", "", 0)


def readings(view):
    return {reading.key: reading.value for reading in view.readings}


def test_the_head_that_ranks_first_is_shown(found):
    report = inspect_heads(MAPS)
    view = heads_view(found, {"head": ""}, Look())
    assert readings(view)["verdict"] == "positional"
    assert readings(view)["energy"] == shown(report[1, 0].parts.total)
    assert report[1, 0].sentence in view.sentence
    traces = {trace["name"]: trace for trace in view.figure["data"]}
    assert np.ravel(traces["nats beyond the null"]["z"]) == pytest.approx(
        [head.excess for head in report.heads]
    )
    assert (traces["L1H0"]["x"], traces["L1H0"]["y"]) == ([0], [1])


def test_a_head_is_chosen_by_name(found):
    view = heads_view(found, {"head": " l0h1 "}, Look(is_narrow=True))
    assert readings(view)["energy"] == shown(inspect_heads(MAPS)[0, 1].parts.total)
    assert view.warnings == list(found.report.notes)
    wrong = heads_view(found, {"head": "L9H9"}, Look())
    assert "no head 'L9H9'" in wrong.warnings[-1]
    assert readings(wrong)["verdict"] == "positional"


def test_snippet_gives_the_same_numbers():
    found = find_in_example("heads", 3)
    view = heads_view(found, {"head": ""}, Look())
    scope = {}
    exec(compile(view.code, "snippet", "exec"), scope)
    assert scope["head"].sentence in view.sentence
    assert scope["report"].verdict == found.report.verdict
    assert found.report[0, 1].verdict == "positional"
    assert found.report[1, 2].verdict == "sink"


@pytest.mark.parametrize(
    ("array", "kind"),
    [(MAPS[0], HeadsFinding), (MAPS[0, 0], HeadsFinding), (np.sqrt(MAPS[0, 0]), TableFinding)],
)
def test_attention_maps_and_tables_are_distinguished(tmp_path, array, kind):
    np.save(tmp_path / "x.npy", array)
    assert isinstance(find_in_file(tmp_path / "x.npy", "", 0), kind)


def test_scores_queries_and_keys_are_recognised_by_their_names(tmp_path):
    np.savez(tmp_path / "qk.npz", queries=Q, keys=K)
    found = find_in_file(tmp_path / "qk.npz", "", 0)
    assert isinstance(found, HeadsFinding)
    assert found.report.head_dimension_from == "known"
    np.savez(tmp_path / "s.npz", scores=scores(Q, K))
    again = find_in_file(tmp_path / "s.npz", "", 0)
    assert again.report.heads[2].verdict == "positional"
