"""Covariance of a corpus of token ids: speed, error, memory, a path of SIF's a, and workers.

    python benchmarks/corpus_covariance.py speed                 # one covariance, beside NumPy
    python benchmarks/corpus_covariance.py speed --table minilm --length 16   # another table
    python benchmarks/corpus_covariance.py path                  # 20 values of a, beside one
    python benchmarks/corpus_covariance.py workers               # one and two local processes
    python benchmarks/corpus_covariance.py disk --gigabytes 20   # in 1 GiB of memory, killed once
    python benchmarks/corpus_covariance.py pairs                 # counting pairs of tokens instead
    python benchmarks/corpus_covariance.py scale                 # d = 1024: predicted, measured

Ids follow Zipf's law, p_v ∝ 1/(v + 2.7), and are dealt to the rows of SmolLM2's table (49,152×576
numbers, `requirements/examples.txt`) at random. Plain NumPy is what one writes: for each block of
rows ``X = table[ids].mean(axis=1, dtype=float)``, then ``S += X.T @ X`` in double precision, in
blocks of 50, 200, 1,000 or 4,000 rows, whichever is fastest on 8,000 sequences. Both sides have
one thread; times are those of the processor unless they are called elapsed, and both take turns.
"""

import argparse
import json
import os
import resource
import shutil
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

L = 64
CLOCK = os.sysconf("SC_CLK_TCK")


def vectors(name="smollm2"):
    return np.ascontiguousarray(example_table(name).vectors, dtype=np.float32)


def zipf_ids(n, n_vocab, rng, length=L):
    p = 1 / (np.arange(1, n_vocab + 1) + 2.7)
    cdf = np.cumsum(p / p.sum())
    dealt = np.random.default_rng(1).permutation(n_vocab).astype(np.int32)
    ids = np.empty((n, length), np.int32)
    for k in range(0, n, 50_000):
        ids[k : k + 50_000] = dealt[np.searchsorted(cdf, rng.random(ids[k : k + 50_000].shape))]
    return ids


def plain(ids, table, rows=200):
    """Number, sum and second moment in double precision, as one writes it in NumPy."""
    total, square = 0.0, 0.0
    for k in range(0, len(ids), rows):
        X = table[ids[k : k + rows]].mean(axis=1, dtype=float)
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


def speed(n, name="smollm2", length=L, piece=2**16):
    """Both sides in turns, so that other work on the machine hits both; a line after each turn."""
    table, rng = vectors(name), np.random.default_rng(0)
    few = zipf_ids(8000, len(table), rng, length)
    corpus_statistics(few[:1000], table)  # compiles
    block = min((50, 200, 1000, 4000), key=lambda rows: timed(plain, few, table, rows)[0])
    ours = theirs = 0.0
    result = {"table": name, "length": length, "rows in plain NumPy": block}
    ratios = []
    for done in range(0, n, piece):
        ids = zipf_ids(min(piece, n - done), len(table), rng, length)
        seconds, found = timed(corpus_statistics, ids, table)
        ours += seconds
        ratios.append(1 / seconds)
        seconds, (m, total, square) = timed(plain, ids, table, block)
        theirs += seconds
        ratios[-1] *= seconds
        result |= {
            "sequences": done + m,
            "plain NumPy, s": theirs,
            "float32, s": ours,
            "times as fast": theirs / ours,
            "in each turn": (min(ratios), float(np.median(ratios)), max(ratios)),
        }
        if done == 0:
            exact = square / m - np.outer(total / m, total / m)
            result["error of float32"] = relative(found.covariance, exact)
            corpus_statistics(ids[:1000], table, dtype=float)
            double, twice = timed(corpus_statistics, ids, table, dtype=float)
            result["float64, times as fast"] = theirs / double
            result["error of float64"] = relative(twice.covariance, exact)
        print(json.dumps(result), flush=True)
    seconds, memory = one_process(n, name, length)
    whole = {"sequences": n, "processor, s": seconds, "peak memory, GiB": memory / 2**30}
    return result | {"one process": whole}


def one_process(n, name, length):
    """Processor time and resident memory of a process that maps the ids and does one pass."""
    with tempfile.TemporaryDirectory() as folder:
        path, place = Path(folder) / "ids.npy", Path(folder) / "table.npy"
        table = vectors(name)
        np.save(path, zipf_ids(n, len(table), np.random.default_rng(0), length))
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
    table, rng = vectors(), np.random.default_rng(2)
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
    """One and two processes, with what else the machine did meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        file, place = Path(folder) / "ids.npy", Path(folder) / "table.npy"
        np.save(place, vectors())
        np.save(file, zipf_ids(n, len(vectors()), np.random.default_rng(3)))
        one, two = (measured_pass(file, place, jobs) for jobs in (1, 2))
    return {"sequences": n, "one": one, "two": two, "elapsed, one/two": one["pass"] / two["pass"]}


def measured_pass(file, table, jobs):
    """Elapsed and processor time of a pass; other processes' share of each core meanwhile."""
    store = Path(file).parent / f"store{jobs}"
    command = [sys.executable, "-c", WORKER, str(file), str(table), str(store), str(jobs)]
    before, start = busy_seconds(), time.perf_counter()
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    elapsed, after = time.perf_counter() - start, busy_seconds()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    mine = spent.ru_utime + spent.ru_stime - ours.ru_utime - ours.ru_stime
    shutil.rmtree(store)
    return json.loads(done.stdout) | {
        "whole": elapsed,
        "processor": mine,
        "cores that others used": (after - before - mine) / elapsed,
    }


def busy_seconds():
    """Seconds that all processors together have worked since the machine started."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / CLOCK


WORKER = """
import json, resource, sys, time
import numpy as np
from attnlaw.sweeps import corpus_statistics
file, table, store, jobs = sys.argv[1:]
clock = []
def progress(done, total):
    clock.append(time.perf_counter())
found = corpus_statistics(file, np.load(table), store=store, n_jobs=int(jobs), progress=progress)
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"pass": clock[-1] - clock[0], "sum": float(found.covariance.sum()),
                  "peak memory of the caller, MB": usage[0].ru_maxrss / 1e3,
                  "of a worker, MB": usage[1].ru_maxrss / 1e3}))
"""


def scale(n):
    """Three sizes and two numbers of workers at d = 1024, beside what d = 288 and 576 predict.

    Processor time of a document is u L d + v d²: additions, and products. Both constants come
    from passes with half of SmolLM2's columns and all of them; start-up from a pass that is short.
    """
    cost = {}
    for d in (288, 576):
        table = np.ascontiguousarray(vectors()[:, :d])
        ids = zipf_ids(2**16, len(table), np.random.default_rng(8))
        corpus_statistics(ids[:1000], table)
        cost[d] = min(timed(corpus_statistics, ids, table)[0] for _ in range(3)) / len(ids)
    system = np.array([[L * d, d * d] for d in cost])
    u, v = np.linalg.solve(system, np.array(list(cost.values())))
    d = 1024
    each = u * L * d + v * d * d
    found = {"µs a document": {str(k): 1e6 * c for k, c in cost.items()}}
    found["predicted at 1024, µs"] = 1e6 * each
    print(json.dumps(found), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file, place = Path(folder) / "ids.npy", Path(folder) / "table.npy"
        V = len(vectors())
        np.save(place, np.random.default_rng(0).standard_normal((V, d), dtype=np.float32))
        starts = {}
        for m in (64, n // 4, n // 2, n):
            np.save(file, zipf_ids(m, V, np.random.default_rng(m)))
            for jobs in (1, 2):
                row = measured_pass(file, place, jobs)
                start = starts.setdefault(jobs, row["processor"])
                chunks = -(-m // 2**16)
                record = 8 * (2 * V + 513 + 2 * (1 + d + d * (d + 1) // 2))
                row |= {"documents": m, "workers": jobs, "start-up": start}
                row |= {"predicted processor": start + m * each, "predicted pass": m * each / jobs}
                row["records moved, MB"] = (jobs > 1) * chunks * record / 1e6
                print(json.dumps(row), flush=True)
    return found


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
    table = np.ascontiguousarray(vectors()[:, :dimension])
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


def pairs(n, length):
    """Count pairs of tokens, C = MᵀM, then EᵀCE, beside pooling: seconds of each, three sizes."""
    from scipy.sparse import csr_array

    table, found = vectors(), []
    V = len(table)
    corpus_statistics(zipf_ids(1000, V, np.random.default_rng(6), length), table)
    for m in (n // 16, n // 4, n):
        ids = zipf_ids(m, V, np.random.default_rng(6), length)
        pooled, _ = timed(corpus_statistics, ids, table)

        def count(ids=ids, m=m):
            ones = np.ones(m * length, np.float32)
            places = np.arange(0, m * length + 1, length)
            M = csr_array((ones, ids.ravel(), places), (m, V))
            return M.T @ M

        counting, C = timed(count)
        product, _ = timed(lambda C=C: table.T @ (C @ table))
        row = {"length": length, "sequences": m, "entries": C.nnz, "pooling, s": pooled}
        found.append({**row, "counting, s": counting, "product, s": product})
        print(json.dumps(found[-1]), flush=True)
        del C
    quantities = ("entries", "pooling, s", "counting, s", "product, s")
    exponents = {
        name: float(np.log(found[-1][name] / found[-2][name]) / np.log(4)) for name in quantities
    }
    return {"length": length, "exponents of the last step": exponents}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ["speed", "path", "workers", "disk", "pairs", "scale"]
    parser.add_argument("part", choices=parts)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--table", default="smollm2", help="of attnlaw.data.examples")
    parser.add_argument("--length", type=int, default=L)
    chosen = parser.parse_args()
    with one_blas_thread():
        found = {
            "speed": lambda: speed(chosen.n, chosen.table, chosen.length),
            "path": lambda: path(chosen.n),
            "workers": lambda: workers(chosen.n),
            "disk": lambda: disk(chosen.gigabytes),
            "pairs": lambda: pairs(chosen.n, chosen.length),
            "scale": lambda: scale(chosen.n),
        }[chosen.part]()
    print(json.dumps(found | {"load": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main()
