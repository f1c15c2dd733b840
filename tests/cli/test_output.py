"""How tables and documents are written."""

import json

import numpy as np

from attnlaw.cli.output import print_csv, print_json, print_table, shown
from attnlaw.results import Thresholds


def test_words_stand_to_the_left_and_numbers_to_the_right(capsys):
    print_table(["name", "value", "why"], [["a", 1.5, "so"], ["long", np.inf, "because"]])
    assert capsys.readouterr().out.splitlines() == [
        "name  value  why",
        "────  ─────  ───────",
        "a       1.5  so",
        "long      ∞  because",
        "",
    ]


def test_a_table_without_rows_has_its_head(capsys):
    print_table(["name", "value"], [])
    assert capsys.readouterr().out == "name  value\n────  ─────\n\n"


def test_cells_are_short_and_say_what_is_not():
    assert shown(1 / 3) == "0.333333"
    assert shown(np.nan) == "–"
    assert shown(-np.inf) == "-∞"
    assert shown(np.True_) == "yes"
    assert shown("text") == "text"


def test_tables_fit_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    print_table(["field", "first", "second"], [["overlap", 0.25, 0.5], ["edge", 1.0, 2.0]])
    out = capsys.readouterr().out
    assert out.splitlines()[:4] == [
        "field    first  second",
        "───────  ─────  ──────",
        "overlap   0.25     0.5",
        "edge         1       2",
    ]
    monkeypatch.setenv("COLUMNS", "20")
    print_table(["field", "first", "second"], [["overlap", 0.25, 0.5], ["edge", 1.0, 2.0]])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 20
    assert out.count("overlap") == 2
    print_table(["words"], [["x" * 60]])
    assert capsys.readouterr().out.splitlines()[2] == "x" * 19 + "…"


def test_csv_has_all_digits_and_nothing_for_what_is_not(capsys):
    print_csv([{"x": 1 / 3, "y": np.nan, "name": "a, b"}, {"x": 2.0, "y": np.inf, "name": "c"}])
    assert capsys.readouterr().out == 'x,y,name\n0.3333333333333333,,"a, b"\n2.0,,c\n'


def test_documents_hold_arrays_dataclasses_and_no_infinity(capsys):
    limits = Thresholds(population_signal=np.inf, sample_signal=np.array([1.0, np.nan]))
    print_json({"thresholds": limits, "n": np.int64(3), "flag": np.bool_(True), "name": "‖μ‖"})
    assert json.loads(capsys.readouterr().out) == {
        "thresholds": {"population_signal": None, "sample_signal": [1.0, None]},
        "n": 3,
        "flag": True,
        "name": "‖μ‖",
    }


def test_lists_of_numbers_take_one_line_of_a_document(capsys):
    print_json({"R": np.eye(2), "none": [], "of": {}, "words": ["a", "[1,\n2]"], "mixed": [{}, 1]})
    out = capsys.readouterr().out
    assert '  "R": [\n    [1.0, 0.0],\n    [0.0, 1.0]\n  ],\n' in out
    assert json.loads(out) == {
        "R": [[1.0, 0.0], [0.0, 1.0]],
        "none": [],
        "of": {},
        "words": ["a", "[1,\n2]"],
        "mixed": [{}, 1],
    }
