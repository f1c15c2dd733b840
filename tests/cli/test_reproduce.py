"""`attnlaw reproduce`, on its two cheapest figures."""


def test_it_writes_a_report_and_says_where(run, tmp_path):
    code, out, _ = run("reproduce", "model", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert code == 0
    assert str(tmp_path / "report.html") in out
    assert (tmp_path / "report.html").exists()


def test_json_has_the_numbers_behind_each_verdict(run, tmp_path):
    import json

    arguments = ("causal_limit", "--quick", "--jobs", "1", "--out", str(tmp_path), "--json")
    code, out, _ = run("reproduce", *arguments)
    assert code == 0
    (figure,) = json.loads(out)["figures"]
    (check,) = figure["checks"]
    within = abs(check["difference"]) <= check["tolerance"]
    assert (check["verdict"] == "agrees") == within
    assert check["predicted"] == -0.5


def test_known_differences_are_explained_in_the_terminal():
    from attnlaw.cli.pictures import _differences
    from attnlaw.figures import Check
    from attnlaw.figures.reproduction import Reproduced

    def check(observed, explanation=""):
        return Check(
            quantity=r"$\beta\le 2$", predicted=1.0, observed=observed, tolerance=0.1, basis="",
            explanation=explanation,
        )  # fmt: skip

    checks = [check(1.05), check(1.5, r"Noise of norm $\delta$."), check(2.0)]
    figure = Reproduced.__new__(Reproduced)
    vars(figure).update(name="bulk", checks=checks)
    known, unexpected = _differences([figure])
    assert known == "As known, bulk: β ≤ 2: predicted 1, observed 1.5. Noise of norm δ.\n"
    assert unexpected == "Unexpected, bulk: β ≤ 2: predicted 1, observed 2.\n"


def test_an_unknown_figure_is_one_sentence(run, tmp_path):
    code, _, err = run("reproduce", "nonsense", "--out", str(tmp_path))
    assert code == 2
    assert "figure must be one of" in err
    assert not list(tmp_path.iterdir())


def test_the_list_names_every_figure(run):
    from attnlaw.figures import FIGURES

    code, out, _ = run("reproduce", "--list")
    assert code == 0
    assert all(name in out for name in FIGURES)
