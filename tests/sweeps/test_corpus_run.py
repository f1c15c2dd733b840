"""Passes over a corpus: the same bits whoever computes them, and whoever is killed."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.data import corpora
from attnlaw.data.corpus_statistics import read_state
from attnlaw.sweeps import StoreError, corpus_statistics

N, L, V, D = 2000, 8, 50, 6


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(corpora, "CHUNK_ROWS", 128)


@pytest.fixture
def ids():
    rng = np.random.default_rng(1)
    ids = np.minimum(rng.zipf(1.4, (N, L)) - 1, V - 1)
    ids[:, 5:][rng.random((N, 3)) < 0.5] = -1
    return ids


@pytest.fixture
def table():
    return np.random.default_rng(2).standard_normal((V, D))


@pytest.fixture
def file(ids, tmp_path):
    np.save(tmp_path / "ids.npy", ids)
    return tmp_path / "ids.npy"


class Stop(Exception):
    pass


def stop_after(n):
    def progress(done, total):
        if done >= n:
            raise Stop

    return progress


def same(one, other):
    return all(
        a.covariance.tobytes() == b.covariance.tobytes() and a.mean.tobytes() == b.mean.tobytes()
        for a, b in zip(one.pooled, other.pooled, strict=True)
    )


def test_a_path_of_sif_is_what_each_value_gives(ids, table):
    a = np.geomspace(1e-2, 1e-1, 12)
    path = corpus_statistics(ids, table, sif=a, dtype=float)
    p = path.frequencies
    assert_allclose(p, np.bincount(ids[ids >= 0], minlength=V) / (ids >= 0).sum())
    for k in (0, 4, 11):
        one = corpus_statistics(ids, table, token_weights=a[k] / (a[k] + p), dtype=float)
        scale = np.abs(one.covariance).max()
        assert_allclose(path.pooled[k].covariance, one.covariance, atol=3e-5 * scale)
        assert_allclose(path.pooled[k].mean, one.mean, atol=3e-5)
    with pytest.raises(ValueError, match="pooled must be of one weighting, got 12"):
        path.covariance  # noqa: B018


def test_a_killed_pass_goes_on_and_ends_with_the_same_bits(
    ids, table, file, tmp_path, monkeypatch
):
    monkeypatch.setattr("attnlaw.sweeps.corpus_run.SAVE_SECONDS", -1.0)
    whole = corpus_statistics(ids, table)
    with pytest.raises(Stop):
        corpus_statistics(file, table, store=tmp_path / "store", progress=stop_after(7))
    seen = []
    found = corpus_statistics(
        file, table, store=tmp_path / "store", progress=lambda done, total: seen.append(done)
    )
    assert seen[0] == 7
    assert seen[-1] == 16
    assert same(found, whole)
    again = corpus_statistics(file, table, store=tmp_path / "store", progress=stop_after(17))
    assert same(again, whole)
    assert not list((tmp_path / "store").glob(".partial*"))


def test_a_damaged_state_is_computed_again(ids, table, file, tmp_path):
    whole = corpus_statistics(file, table, store=tmp_path / "store")
    state = tmp_path / "store" / "chunks.state"
    data = bytearray(state.read_bytes())
    data[-9] ^= 1
    state.write_bytes(data)
    assert read_state(state, 1) == {}
    assert same(corpus_statistics(file, table, store=tmp_path / "store"), whole)
    state.write_bytes(data[:-8])
    assert same(corpus_statistics(file, table, store=tmp_path / "store"), whole)


def test_one_flipped_bit_in_the_state_is_noticed(ids, table, file, tmp_path):
    """In the list of chunks, too: another chunk was taken for done, and one was counted twice."""
    corpus_statistics(file, table, store=tmp_path / "store")
    state = tmp_path / "store" / "chunks.state"
    data = state.read_bytes()
    n, size = len(json.loads(data.partition(b"\n")[0])["nodes"]), 0
    size = (len(data) - data.index(b"\n") - 1) // (8 * n)
    assert len(read_state(state, size)) == n
    for place in range(8 * (data.index(b"\n") + 9)):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        state.write_bytes(damaged)
        found = read_state(state, size)
        assert not found or sorted(found) == sorted(read_nodes(data))
    state.write_bytes(b"[" * 100_000)
    assert read_state(state, size) == {}


def read_nodes(data):
    return [tuple(node) for node in json.loads(data.partition(b"\n")[0])["nodes"]]


def test_a_store_of_another_pass_is_refused(ids, table, file, tmp_path):
    corpus_statistics(file, table, store=tmp_path / "store")
    for options, what in (({"dtype": float}, "checksums|dtype"), ({"max_length": 3}, "corpus")):
        with pytest.raises(StoreError, match=f"store of this very pass, got one of .*({what})"):
            corpus_statistics(file, table, store=tmp_path / "store", **options)
    np.save(file, ids[::-1])
    with pytest.raises(StoreError, match="another sizes"):
        corpus_statistics(file, table, store=tmp_path / "store")


def test_tokens_are_counted_without_a_table(ids):
    found = corpus_statistics(ids)
    assert np.array_equal(found.token_counts, np.bincount(ids[ids >= 0]))
    assert found.n_sequences == N
    assert found.pooled == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_jobs": 2}, "store must be a directory when other processes take part"),
        ({"n_jobs": 2, "store": "s"}, "sources must be files, which other processes and later"),
        ({"store": "s"}, "sources must be files, which other processes and later runs can read"),
        ({"sif": [0.0]}, "sif must be one or more numbers above 0"),
        ({"sif": [0.1], "token_weights": [1]}, "token_weights must be left out"),
        ({"token_weights": np.ones(3)}, r"token_weights must be of shape \(50, K\)"),
        ({"table": None, "sif": [0.1]}, "table must be given with token weights"),
        (
            {"table": np.full((V, 2), np.nan)},
            "table must be finite, got 'NaN or infinity in row 0",
        ),
        ({"dtype": int}, "dtype must be float64 or float32"),
    ],
)
def test_bad_arguments_are_named(ids, table, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words):
        corpus_statistics(ids, **{"table": table, **options})


SCRIPT = """
    import os, sys, time
    import numpy as np
    from attnlaw.data import corpora, pooled_tokens
    import attnlaw.sweeps.processes as processes
    from attnlaw.sweeps import corpus_statistics

    corpora.CHUNK_ROWS = 128
    pooled_tokens.can_compile = lambda: False
    folder, killed = sys.argv[1], sys.argv[2]
    processes.COMMAND = (
        "import os; from attnlaw.data import corpora, pooled_tokens, corpus_pass as c\\n"
        "corpora.CHUNK_ROWS = 128; pooled_tokens.can_compile = lambda: False\\n"
        f"mark, plain = {killed!r}, c.CorpusPass.compute\\n"
        "def compute(self, index):\\n"
        "    if index == 5 and mark and not os.path.exists(mark):\\n"
        "        open(mark, 'w').close(); os.kill(os.getpid(), 9)\\n"
        "    return plain(self, index)\\n"
        "c.CorpusPass.compute = compute\\n" + processes.COMMAND
    )
    table = np.load(folder + "/table.npy")
    found = corpus_statistics(folder + "/ids.npy", table, store=folder + "/there", n_jobs=2)
    here = corpus_statistics(folder + "/ids.npy", table)
    assert found.covariance.tobytes() == here.covariance.tobytes()
    assert os.path.exists(killed)
"""


def test_two_workers_of_which_one_is_killed_give_the_same_bits(table, file, tmp_path):
    np.save(tmp_path / "table.npy", table)
    (tmp_path / "run.py").write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path), str(tmp_path / "killed")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_pairs_are_those_of_the_most_frequent_tokens(ids, table, file, tmp_path):
    found = corpus_statistics(file, table, pairs=4, store=tmp_path / "store")
    counts = np.bincount(ids[ids >= 0], minlength=V)
    assert sorted(counts[found.pair_tokens]) == sorted(counts)[-4:]
    M = np.stack([(ids == v).sum(axis=1) for v in found.pair_tokens], axis=1)
    assert np.array_equal(found.pair_counts, M.T @ M)
    assert same(found, corpus_statistics(ids, table))
    path = corpus_statistics(ids, table, pairs=4, sif=[0.1])
    assert np.array_equal(path.pair_counts, found.pair_counts)
    assert_allclose(path.token_masses, path.frequencies * (0.1 / (0.1 + path.frequencies)) ** 2)
    with pytest.raises(ValueError, match="pairs must be 0 unless the corpus is of token ids"):
        corpus_statistics(table, pairs=2)


def test_an_array_of_dask_is_computed_by_dask(ids, table, monkeypatch):
    """By its threads, with the labels, and in tasks: never as slices of the array."""
    da = pytest.importorskip("dask.array")
    labels = np.where(ids[:, 0] > 2, "a", "b")
    array = da.from_array(ids, chunks=(77, 3))
    monkeypatch.setattr(type(array), "__array__", lambda *a, **k: pytest.fail("computed here"))
    there = corpus_statistics(array, table, labels=labels, pairs=3)
    here = corpus_statistics(ids, table, labels=labels, pairs=3)
    assert same(here, there)
    assert np.array_equal(here.class_means, there.class_means)
    assert np.array_equal(here.pair_counts, there.pair_counts)
    assert np.array_equal(
        corpus_statistics(array).token_counts, here.token_counts[: ids.max() + 1]
    )
    bad = da.from_array(np.where(np.arange(N)[:, None] == 1500, V, ids), chunks=200)
    with pytest.raises(
        ValueError, match=f"the array must hold ids below {V}, got {V} in row 1500"
    ):
        corpus_statistics(bad, table)


@pytest.mark.slow
def test_workers_of_a_cluster_read_an_array_and_one_is_killed(ids, table, tmp_path, monkeypatch):
    """Rows never come to this process; the worker that gets chunk 5 first is killed."""
    da = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("ATTNLAW_CALLER", str(os.getpid()))
    mark = tmp_path / "killed"

    def read(rows, block_info=None):
        if os.getpid() == int(os.environ["ATTNLAW_CALLER"]):
            raise AssertionError("read in the calling process")
        if block_info[0]["chunk-location"][0] == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    def use_small_chunks():  # local, hence sent by value and not by the name of its module
        corpora.CHUNK_ROWS = 128

    here = corpus_statistics(ids, table)
    array = da.from_array(ids, chunks=(128, L)).map_blocks(read, dtype=ids.dtype, meta=ids[:0])
    monkeypatch.setattr(type(array), "__array__", lambda *a, **k: pytest.fail("sliced here"))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(use_small_chunks)
        there = corpus_statistics(array, table, scheduler=client)
        assert mark.exists()
        by_default = corpus_statistics(array, table)
    assert same(here, there)
    assert same(here, by_default)


@pytest.mark.slow
def test_a_cluster_gives_the_same_bits(table, file, tmp_path):
    distributed = pytest.importorskip("distributed")
    here = corpus_statistics(file, table)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = corpus_statistics(file, table, store=tmp_path / "there", scheduler=client)
    assert same(here, there)


@pytest.mark.slow
def test_a_pass_killed_from_outside_goes_on(table, tmp_path):
    """SIGKILL after the first saved state; the second run starts from there."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "ids.npy", rng.integers(0, V, (600_000, L), dtype=np.int32))
    np.save(tmp_path / "table.npy", np.tile(table, 30))
    script = textwrap.dedent(f"""
        import json, numpy as np
        from attnlaw.data import corpora
        import attnlaw.sweeps.corpus_run as run
        corpora.CHUNK_ROWS, run.SAVE_SECONDS = 10_000, 0.0
        seen = []
        found = run.corpus_statistics(
            {str(tmp_path / "ids.npy")!r}, np.load({str(tmp_path / "table.npy")!r}),
            store={str(tmp_path / "store")!r}, progress=lambda done, total: seen.append(done))
        print(json.dumps([seen[0], found.covariance.tobytes().hex()]))
    """)
    command = [sys.executable, "-c", script]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    state = tmp_path / "store" / "chunks.state"
    deadline = time.monotonic() + 60
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    begun, found = json.loads(subprocess.check_output(command))
    assert 0 < begun < 60
    state.unlink()
    assert json.loads(subprocess.check_output(command)) == [0, found]
