"""The machinery of the reproduction, on a small figure made here."""

import json
import os
import subprocess
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

import attnlaw.figures as figures
from attnlaw.figures.figure import Check, PaperFigure, load_tables, save_tables, z_check
from attnlaw.figures.reproduction import _Job, reproduce, write_report


class Tiny(PaperFigure):
    """A figure that counts how often it is computed."""

    title, claim, seconds = "Tiny", r"$x^2$ & more", (1.0, 1.0)
    runs = 0
    truth = 2.0

    def setting(self, size):
        return {"size": "small"}

    def compute(self, size, rng):
        Tiny.runs += 1
        values = rng.normal(2.0, 1.0, 400)
        return {
            "numbers": {
                "observed": np.array([values.mean()]),
                "error": np.array([values.std(ddof=1) / 20]),
                "predicted": np.array([self.truth]),
            }
        }

    def draw(self, tables):
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots()
        axes.plot(tables["numbers"]["observed"], "o")
        return figure

    def check(self, tables):
        table = tables["numbers"]
        return [z_check("mean", table["predicted"], table["observed"], table["error"])]


@pytest.fixture
def tiny(monkeypatch):
    """Register the figure, and count from 0."""
    module = types.ModuleType("attnlaw.figures.tiny")
    module.Tiny = Tiny
    monkeypatch.setitem(sys.modules, "attnlaw.figures.tiny", module)
    monkeypatch.setattr(figures, "FIGURES", {"tiny": "tiny:Tiny"})
    monkeypatch.setattr(Tiny, "runs", 0)
    return Tiny


def test_a_figure_leaves_pictures_tables_and_a_manifest(tiny, tmp_path):
    (done,) = reproduce(["tiny"], out=tmp_path)
    assert done.verdict.startswith("agrees")
    for name in done.files:
        assert (tmp_path / name).stat().st_size > 0
    manifest = json.loads((tmp_path / "manifests/tiny.json").read_text())
    assert manifest["checks"][0]["verdict"] == "agrees"
    assert not [p for p in tmp_path.rglob(".*") if p.is_file()]


def test_a_second_run_computes_nothing_and_says_the_same(tiny, tmp_path):
    (first,) = reproduce(["tiny"], out=tmp_path)
    (second,) = reproduce(["tiny"], out=tmp_path)
    assert tiny.runs == 1
    assert (first.resumed, second.resumed) == (False, True)
    assert first.checks == second.checks


@pytest.mark.parametrize("damage", ["table", "manifest"])
def test_a_lost_file_means_computing_again(tiny, tmp_path, damage):
    reproduce(["tiny"], out=tmp_path)
    if damage == "table":
        (tmp_path / "tables/tiny-numbers.csv").unlink()
    else:
        (tmp_path / "manifests/tiny.json").write_text("{")
    reproduce(["tiny"], out=tmp_path)
    assert tiny.runs == 2


def test_another_effort_or_seed_means_computing_again(tiny, tmp_path):
    reproduce(["tiny"], out=tmp_path)
    reproduce(["tiny"], out=tmp_path, quick=True)
    reproduce(["tiny"], out=tmp_path, quick=True, seed=1)
    assert tiny.runs == 3


def test_a_wrong_prediction_changes_the_verdict(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "truth", 2.5)
    (done,) = reproduce(["tiny"], out=tmp_path)
    assert done.verdict == "1 unexpected"


def test_the_report_stands_alone(tiny, tmp_path):
    page = write_report(reproduce(["tiny"], out=tmp_path), tmp_path, quick=True).read_text()
    assert "<math" in page
    assert "&amp; more" in page
    assert "data:image/svg+xml;base64," in page
    for loads in ("<script", "<link", "@import", 'src="http', "url("):
        assert loads not in page


def test_an_unknown_figure_is_named():
    with pytest.raises(ValueError, match=r"figure must be one of .*, got 'nonsense'"):
        figures.load_figure("nonsense")


def test_a_misspelt_figure_is_suggested():
    with pytest.raises(ValueError, match=r"got 'alignement' \(did you mean 'alignment'\?\)\."):
        figures.load_figure("alignement")


def test_tables_come_back_exactly(tmp_path):
    table = {
        "x": np.array([0.1, np.pi, 1e-300]),
        "n": np.array([1, 2, 3]),
        "flag": np.array([True, False, True]),
        "word": np.array(["a", "b,c", 'd"e']),
    }
    save_tables({"t": table}, tmp_path, "figure")
    back = load_tables(tmp_path, "figure", ["t"])["t"]
    for key, values in table.items():
        assert back[key].dtype.kind == values.dtype.kind
        np.testing.assert_array_equal(back[key], values)


def test_a_missing_number_never_agrees():
    check = Check(quantity="q", predicted=1.0, observed=np.nan, tolerance=1.0, basis="")
    assert not check.agrees


def test_z_check_reports_the_worst_point():
    check = z_check("q", [1.0, 1.0], [1.0, 2.0], [0.1, 0.1])
    assert (check.observed, check.agrees) == (2.0, False)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_keeps_the_contract(name):
    figure = figures.load_figure(name)
    assert figure.title
    assert figure.claim
    assert 0 < figure.seconds[0] <= figure.seconds[1]
    for size in figure.sizes:
        assert figure.setting(size)
    for part in ("setting", "compute", "draw", "check"):
        assert getattr(type(figure), part) is not getattr(PaperFigure, part), part


def test_a_changed_table_of_the_user_is_computed_anew(tmp_path):
    file = tmp_path / "table.npy"
    np.save(file, np.eye(3))
    job = _Job(name="embedding_table", out=tmp_path, quick=True, seed=0)
    given = replace(job, inputs={"table": file})
    before = given.fingerprint
    assert before != job.fingerprint
    os.utime(file, ns=(0, 1))
    assert given.fingerprint != before


def test_a_difference_is_known_only_where_the_figure_explains_it():
    def verdict(observed, explanation):
        return Check(
            quantity="q", predicted=1.0, observed=observed, tolerance=0.1, basis="",
            explanation=explanation,
        ).verdict  # fmt: skip

    assert verdict(1.05, "") == verdict(1.05, "an approximation") == "agrees"
    assert verdict(2.0, "an approximation") == "differs as known"
    assert verdict(2.0, "") == verdict(np.nan, "an approximation") == "unexpected"


def test_workers_end_when_a_run_is_stopped(tmp_path):
    """They would compute for minutes and share the output, which ends with the last of them."""
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    command = [sys.executable, script, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 0


def test_no_worker_sees_an_interrupt(tmp_path):
    """Python unblocks it when a program starts its first child, which then printed a traceback."""
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True"], done.stderr


CHILDREN = """
import signal
from multiprocessing import get_context
from attnlaw.figures.reproduction import _interrupt_held_back

def look():
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)

if __name__ == "__main__":
    for _ in range(2):
        child = get_context("spawn").Process(target=look)
        with _interrupt_held_back():
            child.start()
        child.join()
"""

STOPPED = """
import sys, threading, signal, os
from pathlib import Path
from attnlaw.figures.reproduction import reproduce

def stop(name, state):
    if name == "convergence":
        threading.Timer(4, os.kill, (os.getpid(), signal.SIGINT)).start()

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    reproduce(["attention_bulk", "convergence"], out=Path(sys.argv[1]), n_jobs=2, progress=stop)
"""
