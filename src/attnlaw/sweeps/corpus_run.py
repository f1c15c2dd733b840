"""A pass over a corpus: here, on local processes or on a cluster, resumed after any kill.

Chunks are computed by whoever is free and merged by `ChunkTree` in an order of their own, so the
result depends on the corpus alone. The store of a pass:

=====================  ===========================================================
``manifest.json``      the pass: files with their sizes, table, weights, versions
``lock``               held by the one writer; the system frees it when that dies
``table.npy``          the table, as the workers map it; ``token_weights.npy``, too
``chunks.state``       unmerged records with a checksum, replaced every few seconds
=====================  ===========================================================
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from attnlaw._checks import Floats, count, invalid_argument, real_array
from attnlaw._store import (
    StoreError,
    atomic_path,
    exclusive,
    file_checksum,
    fingerprint,
    fingerprint_difference,
    writable,
)
from attnlaw.data.corpora import Corpus, is_dask, open_corpus
from attnlaw.data.corpus_pass import CorpusPass
from attnlaw.data.corpus_statistics import ChunkTree, CorpusStatistics, read_state, write_state
from attnlaw.data.covariance import PooledCovariance, precision
from attnlaw.data.pooled_tokens import sif_nodes
from attnlaw.data.readers import read_table
from attnlaw.sweeps.cells import Results
from attnlaw.sweeps.cluster import connected, on_dask, on_dask_array
from attnlaw.sweeps.processes import on_processes

if TYPE_CHECKING:
    from distributed import Client, Security
    from distributed.deploy.cluster import Cluster

__all__ = ["CorpusWork", "corpus_statistics"]

MANIFEST, LOCK, STATE = "manifest.json", "lock", "chunks.state"
FORMAT = "attnlaw corpus 1"
SAVE_SECONDS = 5.0  # of work that a kill may cost
SOURCES = ("_checks.py", "_machine.py", "data", "sweeps/corpus_run.py")

Progress = Callable[[int, int], None]


def corpus_statistics(
    sources: Any,
    table: Any = None,
    *,
    token_weights: ArrayLike | None = None,
    sif: ArrayLike | None = None,
    column: str = "tokens",
    label: str | None = None,
    labels: Any = None,
    max_length: int = 512,
    n_vocab: int | None = None,
    pairs: int = 0,
    dtype: DTypeLike = np.float32,
    store: str | Path | None = None,
    n_jobs: int = 1,
    scheduler: "str | Path | Client | Cluster | None" = None,
    security: "Security | None" = None,
    progress: Progress | None = None,
) -> CorpusStatistics:
    """Count tokens, lengths and classes, and find means and covariances, in one pass.

    Parameters
    ----------
    sources : path, array, or several paths
        The corpus: .npy, .parquet, .arrow, .jsonl, Zarr, or an array of NumPy, Dask or Zarr.
        Token ids, pooled rows (N, d) or embeddings (N, L, d), which are averaged over positions.
    table : array of shape (V, d) or path, optional
        Embeddings of the tokens; without it tokens are counted alone.
    token_weights : array of shape (V,) or (V, K), optional
        Importance g of the tokens, x_i = (1/L_i) Σ_l g_v e_v; several share the pass.
    sif : array of shape (K,), optional
        Values a of smooth inverse frequency instead, g = a/(a + p), with p counted in a pass
        of its own.
    column, label, labels, max_length
        Where ids and classes are: see `attnlaw.data.corpora.open_corpus`.
    n_vocab : int, optional
        V, where there is no table; by default found by a pass of its own.
    pairs : int
        P: how often two tokens are in one sequence is counted for the P most frequent, which a
        pass of its own finds. Takes P²/2 numbers, whatever the corpus.
    dtype : float32 or float64
        In what tokens are pooled and products formed; sums over blocks are float64.
    store : str or Path, optional
        Directory in which the pass over files is kept; the same call goes on with it after a
        kill. Needed as soon as other processes take part, who must be able to read it; not for
        an array of Dask, whose chunks are computed where they are.
    n_jobs : int
        Number of local processes; with 1 everything is done here.
    scheduler, security
        A Dask cluster to compute on instead, as `run_sweep` takes it. Its workers read the
        files by the same names. Without it an array of Dask is computed by the client that
        Dask itself would use, or by its threads.
    progress : callable, optional
        Called with the number of chunks done and of all chunks.

    Returns
    -------
    CorpusStatistics
        The same numbers for any number of workers and any order in which chunks are done, on
        processors of one kind.

    Examples
    --------
    >>> found = corpus_statistics(np.array([[0, 1], [1, 1], [1, -1]]), np.eye(2))
    >>> found.token_counts, found.length_counts, found.mean.round(3)
    (array([1, 4]), array([0, 1, 2]), array([0.167, 0.833]))
    """
    kind = precision(dtype)
    corpus = open_corpus(sources, column=column, label=label, labels=labels, max_length=max_length)
    E = _table(table, corpus, kind)
    V = _vocabulary_size(corpus, E, n_vocab)
    if sif is not None and token_weights is not None:
        raise invalid_argument("token_weights", "left out when sif is given", token_weights)
    if sif is not None and not (np.size(sif) and np.min(real_array("sif", sif, ndim=1)) > 0):
        raise invalid_argument("sif", "one or more numbers above 0", sif)
    on_array = len(corpus.sources) == 1 and is_dask(corpus.sources[0])
    if store is None and not on_array and (n_jobs != 1 or scheduler is not None):
        raise invalid_argument("store", "a directory when other processes take part", store)
    runner = _Runner(
        None if store is None else Path(store),
        count("n_jobs", n_jobs),
        scheduler,
        security,
        progress,
    )
    plan = CorpusPass(corpus=corpus, table=E, n_vocab=V, classes=corpus.classes, dtype=kind)
    if (token_weights is not None or sif is not None) and E is None:
        raise invalid_argument("table", "given with token weights", None)
    if token_weights is not None:
        g = _checked_weights(token_weights, V)
        plan = replace(plan, token_weights=np.ascontiguousarray(g, dtype=kind))
    P = min(count("pairs", pairs, at_least=0), V)
    if pairs and not corpus.is_of_ids:
        raise invalid_argument("pairs", "0 unless the corpus is of token ids", pairs)
    if sif is None and not P:
        return runner.run(plan, "")
    counts = runner.run(replace(plan, table=None, token_weights=None, classes=()), "counts")
    if P:
        order = np.argsort(-counts.token_counts, kind="stable")
        plan = replace(plan, paired=np.sort(order[:P]))
    if sif is not None:
        return _path(plan, real_array("sif", sif, ndim=1), counts.frequencies, runner)
    return runner.run(plan, "pairs")


def _table(table: Any, corpus: Corpus, kind: np.dtype[Any]) -> NDArray[np.floating] | None:
    """Return a table as the loops take it."""
    if table is None:
        return None
    if not corpus.is_of_ids:
        raise invalid_argument("table", "left out unless the corpus is of token ids", table)
    vectors = read_table(table).vectors if isinstance(table, str | Path) else np.asarray(table)
    if vectors.ndim != 2 or 0 in vectors.shape or vectors.dtype.kind not in "fiu":
        raise invalid_argument("table", "an array of real numbers with 2 axes", vectors)
    E = np.ascontiguousarray(vectors, dtype=kind)
    finite = np.isfinite(E).all(axis=1)
    if not finite.all():
        raise invalid_argument("table", "finite", f"NaN or infinity in row {finite.argmin()}")
    return E


def _checked_weights(token_weights: ArrayLike, n_vocab: int) -> Floats:
    g = real_array("token_weights", token_weights)
    g = g[:, None] if g.ndim == 1 else g
    if g.ndim != 2 or len(g) != n_vocab or not g.shape[1]:
        raise invalid_argument("token_weights", f"of shape ({n_vocab}, K)", g)
    return g


def _vocabulary_size(corpus: Corpus, table: Any, n_vocab: int | None) -> int:
    if not corpus.is_of_ids:
        return 0
    if table is not None:
        return len(table)
    if n_vocab is not None:
        return count("n_vocab", n_vocab)
    if is_dask(corpus.sources[0]):
        return int(corpus.sources[0].max().compute()) + 1
    largest = 0
    for index in range(len(corpus.chunks)):
        largest = max(largest, *(int(block.values.max()) for block in corpus.blocks(index)))
    return largest + 1


def _path(plan: CorpusPass, a: Floats, p: Floats, runner: "_Runner") -> CorpusStatistics:
    """Return the statistics of a path of SIF's a: few covariances."""
    nodes, mixing = sif_nodes(p, a)
    g = np.ascontiguousarray(a[nodes] / (a[nodes] + p[:, None]), dtype=plan.dtype)
    found = runner.run(replace(plan, token_weights=g), "path")

    def mixed(parts: Sequence[PooledCovariance]) -> tuple[PooledCovariance, ...]:
        means = mixing @ np.stack([part.mean for part in parts])
        covariances = np.tensordot(mixing, np.stack([part.covariance for part in parts]), 1)
        n = parts[0].n_samples
        return tuple(
            PooledCovariance(mean=mean, covariance=S, n_samples=n)
            for mean, S in zip(means, covariances, strict=True)
        )

    one, other = (mixed([pair[h] for pair in found.halves]) for h in (0, 1))
    return replace(
        found,
        class_means=np.tensordot(mixing, found.class_means, 1),
        pooled=mixed(found.pooled),
        halves=tuple(zip(one, other, strict=True)),
        token_weights=a / (a + p[:, None]),
        a=a,
    )


class CorpusWork:
    """The chunks of a pass, as processes and clusters compute them."""

    def __init__(self, plan: CorpusPass, plain: dict[str, Any]) -> None:
        self.plan, self.plain = plan, plain

    @classmethod
    def described(cls, plain: dict[str, Any]) -> "CorpusWork":
        """Return the work that a description means, in another process."""
        changed = fingerprint_difference(plain["software"], fingerprint(SOURCES))
        if changed:
            raise invalid_argument("the software of every worker", "that of the caller", changed)
        tables = {
            name: None if path is None else np.load(path, mmap_mode="r", allow_pickle=False)
            for name, path in plain["arrays"].items()
        }
        plan = CorpusPass(
            corpus=open_corpus(**plain["corpus"]),
            n_vocab=plain["n_vocab"],
            classes=tuple(plain["classes"]),
            dtype=np.dtype(plain["dtype"]),
            **tables,
        )
        return cls(plan, plain)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a record."""
        return (self.plan.size,)

    def compute(self, index: int) -> Floats:
        """Return the record of a chunk."""
        return self.plan.compute(index)

    def label(self, index: int) -> str:
        """Name a chunk in messages."""
        return self.plan.corpus.describe(index)


class _Runner:
    """Where and by whom passes are computed."""

    def __init__(
        self,
        store: Path | None,
        n_jobs: int,
        scheduler: Any,
        security: Any,
        progress: Progress | None,
    ) -> None:
        self.store, self.n_jobs, self.progress = store, n_jobs, progress
        self.scheduler, self.security = scheduler, security

    def run(self, plan: CorpusPass, name: str) -> CorpusStatistics:
        """Compute all chunks of a pass that its store does not hold, and merge them."""
        tree = ChunkTree(plan, len(plan.corpus.chunks))
        if self.store is None:
            self._compute(CorpusWork(plan, {}), tree, None)
            return plan.statistics(tree.result())
        if not plan.corpus.is_stored:
            what = "files, which other processes and later runs can read"
            raise invalid_argument("sources", what, plan.corpus.names[0])
        folder = self.store / name if name else self.store
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / LOCK):
            work = CorpusWork(plan, _written(plan, folder))
            _check_manifest(folder, work)
            tree.nodes = read_state(folder / STATE, plan.size)
            self._compute(work, tree, folder / STATE)
        return plan.statistics(tree.result())

    def _compute(self, work: CorpusWork, tree: ChunkTree, state: Path | None) -> None:
        todo = np.flatnonzero(~tree.done).tolist()
        n_done = tree.n_chunks - len(todo)
        report = self.progress or (lambda done, total: None)
        report(n_done, tree.n_chunks)
        if not todo:
            return
        cluster = (
            nullcontext() if self.scheduler is None else connected(self.scheduler, self.security)
        )
        with cluster as client:
            results: Results
            if is_dask(work.plan.corpus.sources[0]):
                results = on_dask_array(work.plan, todo, client)
            elif client is not None:
                results = on_dask(work, todo, client)
            elif self.n_jobs > 1:
                results = on_processes(work, todo, self.n_jobs)
            else:
                results = ((index, work.compute(index)) for index in todo)
            saved = time.monotonic()
            with closing(results):
                for index, record in results:
                    tree.add(index, record)
                    n_done += 1
                    if state is not None and time.monotonic() > saved + SAVE_SECONDS:
                        write_state(state, tree)
                        saved = time.monotonic()
                    report(n_done, tree.n_chunks)
        if state is not None:
            write_state(state, tree)


def _written(plan: CorpusPass, folder: Path) -> dict[str, Any]:
    """Describe a pass for other processes; its arrays are written to the store."""
    arrays: dict[str, str | None] = {}
    sums = {}
    for name in ("table", "token_weights", "paired"):
        values, path = getattr(plan, name), (folder / f"{name}.npy").absolute()
        arrays[name] = None if values is None else str(path)
        if values is None:
            continue
        with atomic_path(path, only_writer=True) as partial:
            np.save(partial, values)
            sums[name] = file_checksum(partial)
    sizes = []
    for source in plan.corpus.sources if plan.corpus.is_stored else ():
        status = Path(source).stat()
        sizes.append([status.st_size, status.st_mtime_ns])
    return {
        "format": FORMAT,
        "software": fingerprint(SOURCES),
        "corpus": plan.corpus.plain,
        "sizes": sizes,
        "n_chunks": len(plan.corpus.chunks),
        "arrays": arrays,
        "checksums": sums,
        "n_vocab": plan.n_vocab,
        "classes": list(plan.classes),
        "dtype": plan.dtype.name,
    }


def _check_manifest(folder: Path, work: CorpusWork) -> None:
    """Write what the store is of, or refuse one that is of something else."""
    path, ours = folder / MANIFEST, work.plain
    if not path.exists():
        with atomic_path(path, only_writer=True) as partial:
            partial.write_text(json.dumps(ours, indent=1, ensure_ascii=False), "utf-8")
        (folder / STATE).unlink(missing_ok=True)
        return
    try:
        theirs = json.loads(path.read_text("utf-8"))
        changed = next((name for name in ours if theirs.get(name) != ours[name]), None)
    except (ValueError, AttributeError, RecursionError):
        changed = "format"
    if changed is not None:
        raise StoreError(
            f"{folder} must be the store of this very pass, got one of another {changed}; give "
            "the new pass a store of its own."
        )
