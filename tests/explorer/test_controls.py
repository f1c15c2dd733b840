import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlaw import RegimeWarning
from attnlaw.explorer.app import PAGES, create_app
from attnlaw.explorer.charts import Look
from attnlaw.explorer.controls import read_query, write_query
from attnlaw.explorer.frame import page_layout
from attnlaw.explorer.frame import shown as as_shown

SPECTRUM = PAGES["spectrum"].controls


def values_of(controls):
    kinds = {
        "number": lambda c: st.floats(c.lowest, c.highest).map(lambda x: float(f"{x:.10g}")),
        "whole": lambda c: st.integers(int(c.lowest), int(c.highest)),
        "choice": lambda c: st.sampled_from([key for key, _ in c.options]),
        "switch": lambda c: st.booleans(),
        "text": lambda c: st.text(max_size=40).filter(lambda t: t.isprintable()),
    }
    return st.fixed_dictionaries({c.name: kinds[c.kind](c) for c in controls})


@given(values_of(SPECTRUM))
def test_a_link_spells_any_state(values):
    again, messages = read_query(SPECTRUM, write_query(SPECTRUM, values))
    assert messages == []
    for name, value in values.items():
        assert again[name] == (pytest.approx(value) if isinstance(value, float) else value)


@given(st.text(max_size=200))
@pytest.mark.parametrize("name", PAGES)
def test_any_query_gives_valid_values_for_the_page(name, search):
    values, messages = read_query(PAGES[name].controls, search)
    assert len(messages) <= 6
    for control in PAGES[name].controls:
        assert control.check(values[control.name]) == values[control.name]


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ("?signal_norm=1e999", "signal_norm must be a number from 0 to 4, got '1e999'."),
        ("?length=2.5", "length must be a whole number from 2 to 64, got '2.5'."),
        ("?weights=%00", "weights must be one of 'mean', 'causal', "),
        ("?centred=maybe", "centred must be true or false, got 'maybe'."),
        ("?nonsense=1", "'nonsense' in the link is no parameter of this page"),
        ("?" + "a=1&" * 200, "The link has too many parts"),
    ],
)
def test_invalid_query_is_reported(link, sentence):
    values, messages = read_query(SPECTRUM, link)
    assert messages[0].startswith(sentence)
    assert values == {control.name: control.default for control in SPECTRUM}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_a_view_of_its_defaults_in_both_themes(name):
    page = PAGES[name]
    page_layout(page, "")
    values = {control.name: control.default for control in page.controls}
    for look in (Look("light"), Look("dark", is_narrow=True)):
        view = page.view(values, look, None)
        assert view.figure["layout"]["paper_bgcolor"] == look.colours.paper


def test_malformed_requests_get_an_answer_and_the_server_stays_up():
    app = create_app()
    client = app.server.test_client()
    for body in (b"", b"{}", b"[1, 2]", b"\xff\xfe", b'{"output": "nothing.children"}'):
        client.post("/_dash-update-component", data=body, content_type="application/json")
    assert client.get("/_dash-layout").status_code == 200


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("importance", ["uniform", "best", "sif", "idf", "inverse"])
@pytest.mark.parametrize("name", ["spectrum", "phase"])
def test_vocabulary_of_the_controls_is_that_of_the_code_beside_them(name, importance):
    page = PAGES[name]
    values = {c.name: c.default for c in page.controls} | {"frequencies": "zipf"}
    values |= {"importance": importance, "n_tokens": 200, "exponent": 0.8, "smoothing": -2.0}
    view = page.view(values, Look("light"), None)
    lines: dict = {}
    exec(view.code.split("spectra =")[0], lines)
    shown = {reading.key: reading.value for reading in view.readings}
    if name == "spectrum":
        expected = lines["al"].predict(lines["model"]).squared_overlap
        assert shown["squared_overlap"] == as_shown(expected)
        assert shown["effective_vocabulary"]
    else:
        drawn = next(trace for trace in view.figure["data"] if trace["name"] == "optimal")
        picture = lines["panels"][0][-1].collections[0].get_array()
        np.testing.assert_allclose(drawn["z"], picture.reshape(np.shape(drawn["z"])), atol=1e-5)
        lines["plt"].close("all")


def test_layers_that_a_causal_head_does_without_are_said():
    page = PAGES["attention"]
    values = {c.name: c.default for c in page.controls} | {"causal": True, "depth": 4}
    with pytest.warns(RegimeWarning, match="what is shown is one causal layer"):
        page.view(values, Look("light"), None)
