"""The description of a sweep: axes, cells, streams, TOML, and sentences for what is wrong."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

import attnlaw as al
from attnlaw.sweeps import Sweep, load_sweep
from attnlaw.sweeps.cells import cell, compute
from attnlaw.sweeps.grid import sweep_from_mapping

from .conftest import CHEAP


def at(sweep, **wanted):
    """Index of the first cell with these coordinates."""
    axes = sweep.cell_axes
    place = [axes[k].index(wanted.get(k, axes[k][0])) for k in axes]
    return int(np.ravel_multi_index(place, [len(v) for v in axes.values()]))


def test_lists_are_axes_and_single_values_are_not(cheap):
    assert list(cheap.axes) == ["weights", "sample_ratio", "dimension", "signal_norm"]
    assert cheap.parameters["vocab_ratio"] == 0.5
    assert cheap.n_cells == 2 * 3 * 2 * 2  # two pieces of two trials; norms share their noise


def test_a_cell_observes_what_simulate_does_with_its_stream(cheap):
    work = cell(cheap, 5)
    seen = al.simulate(work.model, work.dimension, 2, np.random.default_rng(work.stream))
    assert_array_equal(compute(cheap, 5)[0], seen.top_eigenvalue)
    assert_array_equal(compute(cheap, 5)[-1], seen.is_detectable)


def test_pieces_of_trials_continue_each_other(cheap):
    whole = Sweep(**{**CHEAP, "trials_per_cell": 4})
    parts = [compute(cheap, at(cheap, dimension=8, first_trial=k)) for k in (0, 2)]
    assert_array_equal(np.concatenate(parts, axis=1), compute(whole, at(whole, dimension=8)))


def test_a_cell_does_not_depend_on_the_rest_of_the_grid(cheap):
    other = Sweep(
        **{**CHEAP, "dimension": 8, "sample_ratio": [7.0, 0.5], "sampling": ["gaussian", "token"]}
    )
    assert_array_equal(
        compute(cheap, at(cheap, dimension=8, sample_ratio=0.5)),
        compute(other, at(other, sampling="token", sample_ratio=0.5)),
    )


def test_different_cells_have_different_streams(cheap):
    apart = Sweep(**{**CHEAP, "share_noise": False})
    states = {
        tuple(np.random.default_rng(cell(apart, k).stream).spawn(1)[0].integers(2**63, size=2))
        for k in range(apart.n_cells)
    }
    assert len(states) == apart.n_cells == 48
    assert cell(Sweep(**{**CHEAP, "seed": 1}), 0).stream.entropy != cell(cheap, 0).stream.entropy


def test_shared_noise_pairs_the_weights(cheap):
    """Weights given by name and by vector see the same sequences, and so the same numbers."""
    equal = Sweep(**{**CHEAP, "weights": {"a": "mean", "b": [1 / 3] * 3}})
    a, b = (compute(equal, at(equal, weights=label)) for label in "ab")
    assert_array_equal(a, b)
    apart = Sweep(**{**CHEAP, "weights": {"a": "mean", "b": [1 / 3] * 3}, "share_noise": False})
    a, b = (compute(apart, at(apart, weights=label)) for label in "ab")
    assert (a[0] != b[0]).all()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"correlation": al.prefix_correlation(3, 2)},
        {"correlation": {"kind": "spiked", "strength": [1, 2.0], "direction": [1, -1, 1]}},
        {"correlation": {"kind": "autoregressive", "length": [3, 4], "coefficient": 0.5}},
        {"weights": np.array([0.5, 0.25, 0.25])},
        {"centred": [True, False], "sampling": ["token", "gaussian"]},
    ],
)
def test_a_sweep_survives_json(change):
    sweep = Sweep(**{**CHEAP, **change})
    again = Sweep(**json.loads(json.dumps(sweep.as_mapping())))
    assert again == sweep
    last = sweep.n_cells - 1
    assert cell(again, last).model == cell(sweep, last).model
    assert cell(again, last).stream.spawn_key == cell(sweep, last).stream.spawn_key


def test_cells_are_divided_by_their_work():
    sweep = Sweep(**{**CHEAP, "n_trials": 100, "dimension": [200, 400], "trials_per_cell": None})
    assert sweep.trials_together == 5
    assert sweep == replace(sweep, trials_per_cell=5)
    assert replace(sweep, n_trials=7).trials_together == 1, "what was left out is found anew"


@pytest.mark.parametrize(
    "change",
    [
        {"dimension": np.array([6, 8])},
        {"dimension": range(6, 10, 2)},
        {"dimension": xr.DataArray([6, 8])},
        {"signal_norm": np.array([0.5, 2.0], dtype=np.float32)},
        {"weights": np.array(["mean", "optimal"])},
        {"weights": ("mean", "optimal")},
    ],
)
def test_arrays_of_any_kind_are_axes(cheap, change):
    assert Sweep(**{**CHEAP, **change}) == cheap


def test_toml_says_the_same_as_python(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("""
        dimension = [6, 8]
        vocab_ratio = 0.5
        sample_ratio = { start = 0.25, stop = 1.0, points = 3, spacing = "log" }
        signal_norm = { start = 0.5, stop = 2, points = 2 }
        weights = ["mean", "optimal"]
        n_trials = 4
        trials_per_cell = 2

        [correlation]
        kind = "prefix"
        length = 3
        prefix = 2
    """)
    assert load_sweep(path) == Sweep(**CHEAP)
    path.write_text("\N{BYTE ORDER MARK}" + path.read_text("utf-8"), "utf-8")
    assert load_sweep(path) == Sweep(**CHEAP), "some editors put a mark before the text"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sample_ratio": 0}, "sample_ratio must be above 0, got 0"),
        ({"sample_ratio": [0.5, 0.5]}, "sample_ratio must be a list of different values"),
        ({"signal_norm": []}, "signal_norm must be a value or a list of at least one value"),
        ({"signal_norm": [[1.0]]}, "signal_norm must be a number or a flat list of numbers"),
        ({"vocab_ratio": "half"}, "vocab_ratio must be made of real numbers, got 'half'"),
        ({"vocab_ratio": True}, "vocab_ratio must be a number"),
        ({"dimension": 1}, "dimension must be a whole number of at least 2"),
        ({"dimension": [10, 2.5]}, "dimension must be a whole number"),
        ({"weights": "maen"}, "weights must be one of 'mean', 'causal'"),
        ({"weights": {"mine": [1, 2]}}, "weights must be of length 3"),
        ({"weights": {"mine": "yours"}}, "weights.mine must be one of"),
        ({"weights": {}}, "weights must be at least one"),
        ({"sampling": "words"}, "sampling must be one of 'token', 'gaussian', got 'words'"),
        ({"centred": "yes"}, "centred must be true or false, got 'yes'"),
        ({"weights": [[1, 0, 0], [0, 1, 0]]}, "weights must be a name, a list of names, one vect"),
        ({"weights": ["mean", [1, 0, 0]]}, "weights must be a name, a list of names, one vector"),
        ({"weights": {1: "mean", "1": "last"}}, "a table of labels that differ as text"),
        ({"weights": []}, r"a table of labels with names and vectors, got \[\]"),
        (
            {"correlation": "prefix"},
            "correlation must be a table with a kind, or a matrix",
        ),
        ({"signal_norm": [1.0, 1e200]}, r"signal_norm must be at most 1e\+100, got 1e\+200"),
        ({"ridge": 0.1, "method": "rank-two"}, "method must be left out when a ridge is given"),
        (
            {"signal_norm": {"start": 0, "stop": 1, "points": 10**12}},
            "signal_norm.points must be at most 1,000,000, got 1000000000000",
        ),
        ({"n_trials": 0}, "n_trials must be a whole number of at least 1"),
        ({"trials_per_cell": 3}, "trials_per_cell must be a divisor of the 4 trials, got 3"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"method": "witchcraft"}, "method must be one of 'auto', 'reference'"),
        ({"share_noise": 1}, "share_noise must be true or false"),
        ({"correlation": {}}, "correlation.kind must be one of 'prefix'"),
        ({"correlation": {"kind": "suffix"}}, "correlation.kind must be one of"),
        ({"correlation": {"kind": "prefix", "length": 3}}, "correlation.prefix must be given"),
        ({"correlation": {"kind": "prefix", "length": 3, "prefix": [2, 4]}}, "at most the length"),
        ({"correlation": {"kind": "prefix", "legnth": 3}}, "got 'legnth'"),
        ({"correlation": [[1.0, 2.0], [2.0, 1.0]]}, "correlation must be positive semi-definite"),
        ({"dimention": 10}, "a key of the grid must be one of dimension, .*, got 'dimention'"),
        ({"signal_norm": {"start": 0, "stop": 1}}, "signal_norm.points must be given"),
        ({"signal_norm": {"start": 0, "end": 1}}, "a key of signal_norm must be one of start"),
        ({"signal_norm": {"start": 0, "stop": 1, "points": 1}}, "signal_norm.points must be"),
        (
            {"signal_norm": {"start": 0, "stop": 1, "points": 3, "spacing": "log"}},
            "signal_norm.start must be above 0",
        ),
    ],
)
def test_what_is_wrong_is_named(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        sweep_from_mapping({**CHEAP, **change})


def test_files_that_are_not_toml_are_named(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("dimension = ")
    with pytest.raises(ValueError, match=r"grid.toml must be a TOML file, got an error"):
        load_sweep(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="the grid file must be text in UTF-8"):
        load_sweep(path)


def test_files_without_a_grid_get_a_sentence(tmp_path):
    """A device was read to the end of memory, a pipe waited for."""
    with pytest.raises(ValueError, match="/dev/zero must be a regular file, got a device"):
        load_sweep("/dev/zero")
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ValueError, match="must be a regular file, got a named pipe"):
        load_sweep(tmp_path / "pipe.toml")
    path = tmp_path / "grid.toml"
    path.write_text("x = " + "[" * 10**5)
    with pytest.raises(ValueError, match="must be a TOML file"):
        load_sweep(path)
    path.write_text("#" * (2**24 + 1))
    with pytest.raises(ValueError, match="the grid file must be of at most 16777216 bytes"):
        load_sweep(path)
