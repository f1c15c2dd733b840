import tempfile
from pathlib import Path

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax
from explorer_hands import expect_reading, traces
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.diagnostics import compare_positions, inspect_heads, inspect_table
from attnlaw.explorer.frame import shown


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(800, 1))
    return (rng.standard_normal((800, 40)) + signs * np.full(40, 0.3)).astype(np.float32)


def drop(page, name, content):
    page.locator("#data-upload input").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )


def bytes_of(array, folder, **names):
    file = folder / "array.npy"
    if names:
        np.savez(folder / "arrays.npz", array, **names)
        return (folder / "arrays.npz").read_bytes()
    np.save(file, array)
    return file.read_bytes()


def test_good_files_are_reported_on_and_bad_ones_refused(open_page, table, tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("attnlaw-*"))
    page = open_page("/data")
    drop(page, "weights.npy", bytes_of(table, tmp_path))
    report = inspect_table(table, rng=0)
    expect_reading(page, "data-reading-n_outliers", str(len(report.outliers)))
    expect_reading(page, "data-reading-bulk_edge", shown(report.bulk_edge))
    expect(page.locator("#data-sentence")).to_contain_text(report.verdict)
    assert traces(page, "data")["outliers"]["x"] == pytest.approx([report.eigenvalues[0]])

    refused = {
        "../../evil.pkl": (b"\x80\x04N.", "evil.pkl must be a plain array file"),
        "text.npy": (b"hello, this is no array", "text.npy must be a .npy, .npz"),
        "empty.npy": (b"", "empty.npy must hold data"),
        "cut.npy": (bytes_of(table, tmp_path)[:1000], "cut.npy must"),
        "line.npy": (bytes_of(table[0], tmp_path), "line.npy must be an array with 2 axes"),
        "small.npy": (bytes_of(table[:5], tmp_path), "table must be of shape (V, d), both"),
    }
    for name, (content, sentence) in refused.items():
        drop(page, name, content)
        expect(page.locator("#data-status")).to_contain_text(sentence)

    sequences = np.random.default_rng(1).standard_normal((200, 5, 12)).astype(np.float32)
    drop(page, "sequences.npy", bytes_of(sequences, tmp_path))
    learned = al.learn_pooling_weights(sequences, rng=0)
    expect_reading(page, "data-reading-mean_snr", shown(learned.mean_snr))
    expect(page.locator("#data-sentence")).to_contain_text(
        compare_positions(sequences, rng=0).verdict
    )
    assert traces(page, "data")["learned weights"]["y"] == pytest.approx(learned.weights)
    assert set(Path(tempfile.gettempdir()).glob("attnlaw-*")) == before


def test_an_example_is_inspected(open_page):
    page = open_page("/data?example=sequences&seed=2")
    page.locator("#data-run").click()
    expect(page.locator("#data-sentence")).to_contain_text("1000 sequences of 8", timeout=60_000)
    code = page.locator(".mantine-CodeHighlight-code")
    expect(code).to_contain_text("learn_pooling_weights")
    scope = {}
    exec(compile(code.inner_text(), "snippet", "exec"), scope)
    expect_reading(page, "data-reading-snr", shown(scope["learned"].snr))
    expect(page.locator("#data-sentence")).to_contain_text(scope["advice"].verdict)


def test_attention_maps_are_reported_on(open_page, tmp_path):
    Q, K = queries_and_keys(4, 32, 10, np.random.default_rng(0))
    K[2, :-1] += 2 * Q[2, 1:]
    maps = softmax(scores(Q, K)).reshape(2, 2, 32, 32)
    report = inspect_heads(maps)
    page = open_page("/data?head=L0H1")
    drop(page, "maps.npy", bytes_of(maps, tmp_path))
    expect_reading(page, "data-reading-energy", shown(report[0, 1].parts.total))
    expect(page.locator("#data-sentence")).to_contain_text(report.verdict)
    expect(page.locator("#data-heads tbody tr")).to_have_count(4)
    page.locator("#data-head").fill("L1H0")
    page.locator("#data-head").press("Enter")
    expect_reading(page, "data-reading-verdict", "positional")
    expect(page.locator("#data-sentence")).to_contain_text(report[1, 0].sentence)
    assert "head=L1H0" in page.url
    shown_map = traces(page, "data")["nats beyond the null"]["z"]
    assert np.ravel(shown_map) == pytest.approx([head.excess for head in report.heads])

    figure = page.locator("#data-figure .nsewdrag").first
    figure.hover(position={"x": 20, "y": 200})  # bottom left, where the click counts
    figure.click(position={"x": 21, "y": 200})
    expect(page.locator("#data-head")).to_have_value("L0H0")
    expect_reading(page, "data-reading-energy", shown(report[0, 0].parts.total))

    wrong = maps.copy()
    wrong[1, 1, 3, 4] += 0.5
    drop(page, "wrong.npy", bytes_of(wrong, tmp_path))
    expect(page.locator("#data-status")).to_contain_text(
        "attention must have rows that sum to one"
    )
