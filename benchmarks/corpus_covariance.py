"""Covariance of a corpus of token ids: speed, error, memory, a path of SIF's a, and workers.

    python benchmarks/corpus_covariance.py speed                 # one covariance, beside NumPy
    python benchmarks/corpus_covariance.py path                  # 20 values of a, beside one
    python benchmarks/corpus_covariance.py workers               # one and two local processes
    python benchmarks/corpus_covariance.py disk --gigabytes 20   # in 1 GiB of memory, killed once
    python benchmarks/corpus_covariance.py pairs                 # counting pairs of tokens instead

Ids follow Zipf's law, p_v ∝ 1/(v + 2.7), and are dealt to the rows of SmolLM2's table (49,152×576
numbers, `requirements/examples.txt`) at random. Plain NumPy is what one writes: for each block of
rows ``X = table[ids].mean(axis=1, dtype=float)``, then ``S += X.T @ X`` in double precision, in
blocks of 200 rows, the fastest of 200, 1,000 and 4,000. Both sides have one thread; times are
those of the processor unless they are called elapsed, and both sides take turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attnlaw._machine import one_blas_thread
from attnlaw.data.examples import example_table
from attnlaw.data.pooled_tokens import sif_nodes
from attnlaw.sweeps import corpus_statistics

L, PLAIN_ROWS = 64, 200


def smollm2():
    return np.ascontiguousarray(example_table("smollm2").vectors, dtype=np.float32)


def zipf_ids(n, n_vocab, rng, length=L):
    p = 1 / (np.arange(1, n_vocab + 1) + 2.7)
    cdf = np.cumsum(p / p.sum())
    dealt = np.random.default_rng(1).permutation(n_vocab).astype(np.int32)
    ids = np.empty((n, length), np.int32)
    for k in range(0, n, 50_000):
        ids[k : k + 50_000] = dealt[np.searchsorted(cdf, rng.random(ids[k : k + 50_000].shape))]
    return ids


def plain(ids, table):
    """Number, sum and second moment in double precision, as one writes it in NumPy."""
    total, square = 0.0, 0.0
    for k in range(0, len(ids), PLAIN_ROWS):
        X = table[ids[k : k + PLAIN_ROWS]].mean(axis=1, dtype=float)
        total = total + X.sum(axis=0)
        square = square + X.T @ X
    return len(ids), total, square


def timed(function, *args, **options):
    start = time.process_time()
    found = function(*args, **options)
    return time.process_time() - start, found


def relative(found, exact):
    """Largest error of an entry, over the largest entry; and of an eigenvalue, over its value."""
    eigenvalues = np.linalg.eigvalsh(exact)
    return {
        "entry": float(np.abs(found - exact).max() / np.abs(exact).max()),
        "eigenvalue": float(np.abs(np.linalg.eigvalsh(found) / eigenvalues - 1).max()),
    }


def speed(n, piece=2**16):
    """Both sides in turns, so that other work on the machine hits both; a line after each turn."""
    table, rng = smollm2(), np.random.default_rng(0)
    corpus_statistics(zipf_ids(1000, len(table), rng), table)  # compiles
    ours = theirs = 0.0
    result = {}
    for done in range(0, n, piece):
        ids = zipf_ids(min(piece, n - done), len(table), rng)
        seconds, found = timed(corpus_statistics, ids, table)
        ours += seconds
        seconds, (m, total, square) = timed(plain, ids, table)
        theirs += seconds
        result |= {
            "sequences": done + m,
            "plain NumPy, s": theirs,
            "float32, s": ours,
            "times as fast": theirs / ours,
        }
        if done == 0:
            exact = square / m - np.outer(total / m, total / m)
            result["error of float32"] = relative(found.covariance, exact)
            corpus_statistics(ids[:1000], table, dtype=float)
            double, twice = timed(corpus_statistics, ids, table, dtype=float)
            result["float64, times as fast"] = theirs / double
            result["error of float64"] = relative(twice.covariance, exact)
        print(json.dumps(result), flush=True)
    seconds, memory = one_process(1_000_000)
    whole = {"sequences": 1_000_000, "processor, s": seconds, "peak memory, GiB": memory / 2**30}
    return result | {"one process": whole}


def one_process(n):
    """Processor time and resident memory of a process that maps the ids and does one pass."""
    with tempfile.TemporaryDirectory() as folder:
        path, place = Path(folder) / "ids.npy", Path(folder) / "table.npy"
        table = smollm2()
        np.save(path, zipf_ids(n, len(table), np.random.default_rng(0)))
        np.save(place, table)
        code = (
            "import resource, time, numpy as np\nfrom attnlaw.sweeps import corpus_statistics\n"
            f"table = np.load({str(place)!r})\nstart = time.process_time()\n"
            f"corpus_statistics({str(path)!r}, table)\nprint(time.process_time() - start)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    seconds, memory = done.stdout.split()
    return float(seconds), 1024 * int(memory)


def path(n, low=1e-4, high=1e-2):
    table, rng = smollm2(), np.random.default_rng(2)
    ids = zipf_ids(n, len(table), rng)
    a = np.geomspace(low, high, 20)
    corpus_statistics(ids[:1000], table)
    corpus_statistics(ids[:1000], table, sif=a)
    one, _ = timed(corpus_statistics, ids, table, sif=a[7:8])
    several, found = timed(corpus_statistics, ids, table, sif=a)
    mean, _ = timed(corpus_statistics, ids, table)
    nodes, mixing = sif_nodes(found.frequencies, a)
    some = ids[: min(n, 20_000)]
    part = corpus_statistics(some, table, sif=a)
    errors = {}
    for k in sorted(set(range(20)) - set(nodes.tolist()))[::3]:  # of those that were not pooled
        g = a[k] / (a[k] + part.frequencies)
        exact = corpus_statistics(some, table, token_weights=g, dtype=float).covariance
        errors[f"{a[k]:.2g}"] = relative(part.pooled[k].covariance, exact)
    return {
        "sequences": n,
        "values of a": len(a),
        "from, to": (low, high),
        "covariances formed": len(nodes),
        "largest sum of |c|": float(np.abs(mixing).sum(axis=1).max()),
        "one mean pooling, s": mean,
        "one value of a, s": one,
        "20 values of a, s": several,
        "20 values over one": several / one,
        "20 values over one mean pooling": several / mean,
        "errors at values between": errors,
    }


def workers(n):
    table = smollm2()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ids.npy"
        np.save(file, zipf_ids(n, len(table), np.random.default_rng(3)))
        found = {}
        for jobs in (1, 2):
            start = time.perf_counter()
            store = Path(folder) / f"store{jobs}"
            one = subprocess.run(
                [sys.executable, "-c", WORKER, str(file), str(store), str(jobs)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            elapsed = time.perf_counter() - start
            found[f"{jobs} worker(s), elapsed s"] = json.loads(one.stdout) | {"whole": elapsed}
    a, b = (found[f"{jobs} worker(s), elapsed s"]["pass"] for jobs in (1, 2))
    return {"sequences": n, **found, "two over one": a / b, "load": os.getloadavg()}


WORKER = """
import json, sys, time
import numpy as np
from attnlaw.data.examples import example_table
from attnlaw.sweeps import corpus_statistics
table = np.ascontiguousarray(example_table("smollm2").vectors, dtype=np.float32)
clock = []
def progress(done, total):
    clock.append((time.perf_counter(), done))
found = corpus_statistics(sys.argv[1], table, store=sys.argv[2], n_jobs=int(sys.argv[3]),
                          progress=progress)
print(json.dumps({"pass": clock[-1][0] - clock[0][0], "sum": float(found.covariance.sum())}))
"""


DISK = """
import json, resource, sys, time
import numpy as np
from attnlaw.sweeps import corpus_statistics
from attnlaw.sweeps import corpus_run
folder = sys.argv[1]
table = np.load(folder + "/table.npy")
corpus_statistics(np.zeros((10, 64), np.int32), table)  # linear algebra takes what it needs
resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
try:
    np.ones(2**27)
    sys.exit("the limit does not hold")
except MemoryError:
    pass
seen = []
start = time.process_time()
found = corpus_statistics(folder + "/ids.npy", table, store=folder + "/store",
                          progress=lambda done, total: seen.append(done))
anonymous = [x for x in open("/proc/self/status") if x.startswith("VmData")]
print(json.dumps({"chunks at the start": seen[0], "chunks": seen[-1],
                  "sequences": found.n_sequences, "processor, s": time.process_time() - start,
                  "data": anonymous[0].split()[1:],
                  "covariance": found.covariance.tolist()}))
"""


def disk(gigabytes, dimension=16):
    """A corpus that repeats 131,072 sequences, so that its covariance is known."""
    table = np.ascontiguousarray(smollm2()[:, :dimension])
    base = zipf_ids(2**17, len(table), np.random.default_rng(5)).astype(np.int64)
    copies = max(2, round(gigabytes * 1e9 / base.nbytes))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "table.npy", table)
        with (Path(folder) / "ids.npy").open("wb") as file:
            shape = (copies * len(base), L)
            header = {"descr": "<i8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(file, header)
            for _ in range(copies):
                base.tofile(file)
        size = (Path(folder) / "ids.npy").stat().st_size
        command = [sys.executable, "-c", DISK, folder]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        state = Path(folder) / "store" / "chunks.state"
        while not state.exists() and first.poll() is None:
            time.sleep(0.1)
        first.kill()
        first.wait()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout)
    X = table.astype(float)
    total, square = 0.0, 0.0
    for k in range(0, len(base), 4096):
        pooled = X[base[k : k + 4096]].mean(axis=1)
        total, square = total + pooled.sum(axis=0), square + pooled.T @ pooled
    exact = square / len(base) - np.outer(total, total) / len(base) ** 2
    errors = relative(np.array(found.pop("covariance")), exact)
    return {"bytes": size, "limit on data, bytes": 2**30, **found, "error": errors}


def pairs(n, lengths=(8, 16, 64)):
    """Count pairs of tokens, C = MᵀM, then EᵀCE, beside pooling: seconds of each."""
    from scipy.sparse import csr_array

    table, found = smollm2(), []
    V = len(table)
    for length in lengths:
        for m in (n // 4, n):
            ids = zipf_ids(m, V, np.random.default_rng(6), length)
            corpus_statistics(ids[:1000], table)
            pooled, _ = timed(corpus_statistics, ids, table)

            def count(ids=ids, m=m, length=length):
                ones = np.ones(m * length, np.float32)
                places = np.arange(0, m * length + 1, length)
                M = csr_array((ones, ids.ravel(), places), (m, V))
                return M.T @ M

            counting, C = timed(count)
            product, _ = timed(lambda C=C: table.T @ (C @ table))
            row = {"length": length, "sequences": m, "pairs": C.nnz, "pooling, s": pooled}
            found.append({**row, "counting, s": counting, "product, s": product})
            print(json.dumps(found[-1]), flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["speed", "path", "workers", "disk", "pairs"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, default=20)
    chosen = parser.parse_args()
    with one_blas_thread():
        if chosen.part == "disk":
            found = disk(chosen.gigabytes)
        else:
            parts = {"speed": speed, "path": path, "workers": workers, "pairs": pairs}
            found = parts[chosen.part](chosen.n)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
