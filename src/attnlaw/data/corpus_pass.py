"""Sufficient statistics of a corpus: one pass, in chunks that can be merged.

What is counted and summed of a chunk is one array of float64 numbers, a *record*:

- how often each token occurs and in how many sequences, how many sequences have each length and
  each class, and how often two of some tokens are in one sequence;
- for each weighting of the tokens, class sums, and mean x̄ and scatter Σ (x_i − x̄)(x_i − x̄)ᵀ of
  the pooled sequences in each of two halves: runs of 64 sequences alternate between them, so
  that what one half suggests can be held against the other.

Records of two chunks merge into that of both (Chan, Golub and LeVeque, 1983), in an order that the
numbers of the chunks decide: see `attnlaw.data.corpus_statistics`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, invalid_argument
from attnlaw._machine import one_blas_thread, require_memory
from attnlaw.data.corpora import Block, Corpus, open_corpus
from attnlaw.data.corpus_statistics import ChunkTree, CorpusStatistics
from attnlaw.data.covariance import PooledCovariance
from attnlaw.data.pooled_tokens import pool_token_ids, sequences_with_token

__all__ = ["CorpusPass", "count_corpus"]

RUN = 64  # sequences that follow each other and belong to the same half
BLOCK_BYTES = 2**24  # of pooled sequences held at a time: they stay in the cache
PILOT = 256  # sequences whose mean is subtracted before products are formed


@dataclass(frozen=True, kw_only=True, eq=False)
class CorpusPass:
    """One pass over a corpus: what is counted, and how the records of its chunks merge.

    Parameters
    ----------
    corpus : Corpus
        Token ids (with a table, or counted alone), pooled rows, or embeddings.
    table : array of shape (V, d), optional
        Embeddings of the tokens, C-contiguous, in the precision of the products.
    token_weights : array of shape (V, K), optional
        Weightings g of the tokens, of the same type; x_i = (1/L_i) Σ_l g_{v_il} e_{v_il}.
    paired : array of int of shape (P,), optional
        Tokens whose pairs are counted, C_vw = Σ_i n_iv n_iw: P²/2 numbers, whatever the corpus.
    n_vocab : int
        V; 0 where there are no ids.
    classes : sequence of str
        Names of the classes.
    dtype : float32 or float64
        In which tokens are pooled and products formed; sums over blocks are float64.
    """

    corpus: Corpus
    table: NDArray[np.floating] | None = None
    token_weights: NDArray[np.floating] | None = None
    paired: NDArray[np.integer] | None = None
    n_vocab: int = 0
    classes: Sequence[str] = ()
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))

    def __post_init__(self) -> None:
        needed = 16 * self.size + 2 * BLOCK_BYTES
        require_memory(needed, "dimension", self.dimension, "covariances")

    @property
    def shared(self) -> dict[str, Any]:
        """All but the corpus, as `of_rows` takes it."""
        names = ("table", "token_weights", "paired", "n_vocab", "classes", "dtype")
        return {"max_length": self.corpus.max_length} | {n: getattr(self, n) for n in names}

    @classmethod
    def of_rows(cls, rows: Any, labels: Any, shared: dict[str, Any]) -> "CorpusPass":
        """Return the same pass over an array, or over the part of it that is here."""
        rest = dict(shared)
        corpus = Corpus(
            sources=(rows,),
            column="",
            label=None,
            labels=labels,
            max_length=rest.pop("max_length"),
        )
        return cls(corpus=corpus, **rest)

    @property
    def n_weightings(self) -> int:
        """Number of weightings K of the tokens; 0 when tokens are counted alone."""
        if self.corpus.is_of_ids and self.table is None:
            return 0
        return 1 if self.token_weights is None else self.token_weights.shape[1]

    @cached_property
    def dimension(self) -> int:
        """Dimension d of pooled sequences; 0 when tokens are counted alone."""
        if self.table is not None:
            return int(self.table.shape[1])
        return 0 if self.corpus.is_of_ids else int(self.corpus.shape[-1])

    @cached_property
    def _parts(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """Place and shape of each part of a record; scatters as upper triangles."""
        K, d, C = self.n_weightings, self.dimension, len(self.classes)
        n_lengths = self.corpus.max_length + 1 if self.corpus.is_of_ids else 0
        P = 0 if self.paired is None else len(self.paired)
        shapes = {
            "token_counts": (self.n_vocab,),
            "document_counts": (self.n_vocab,),
            "pair_counts": (P * (P + 1) // 2,),
            "length_counts": (n_lengths,),
            "class_counts": (C,),
            "class_sums": (K, C, d),
            "n": (2,),
            "mean": (K, 2, d),
            "scatter": (K, 2, d * (d + 1) // 2),
        }
        parts, stop = {}, 0
        for name, shape in shapes.items():
            start, stop = stop, stop + int(np.prod(shape))
            parts[name] = (slice(start, stop), shape)
        return parts

    @property
    def size(self) -> int:
        """Numbers in a record."""
        return int(self._parts["scatter"][0].stop)

    @property
    def _block_rows(self) -> int:
        """Sequences of both halves that are pooled at a time: whole runs."""
        each = self.dtype.itemsize * max(1, self.n_weightings * self.dimension)
        return 2 * RUN * (min(2**13, max(2**11, 2 * BLOCK_BYTES // each)) // (2 * RUN))

    def view(self, record: Floats) -> dict[str, Floats]:
        """Return the parts of a record, as views."""
        return {name: record[at].reshape(shape) for name, (at, shape) in self._parts.items()}

    def compute(self, index: int) -> Floats:
        """Return the record of a chunk.

        Notes
        -----
        Products are of x − c with c the mean of the first few sequences, so that a mean far
        larger than the spread costs no digits: Σ (x − x̄)(x − x̄)ᵀ = Σ (x − c)(x − c)ᵀ − n δδᵀ with
        δ = x̄ − c. Each block of rows is multiplied in `dtype` and added in float64.
        """
        record = np.zeros(self.size)
        parts = self.view(record)
        K, d = self.n_weightings, self.dimension
        shift: NDArray[np.floating] | None = None
        sums, products = np.zeros((K, 2, d)), np.zeros((K, 2, d, d))
        size = self._block_rows
        space = np.empty(K * max(size // 2, PILOT) * d, self.dtype)
        place = 0
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            for block in self.corpus.blocks(index):
                self._count(block, parts)
                for start in range(0, len(block.values) if K else 0, size):
                    rows = block.values[start : start + size]
                    if shift is None:
                        pilot = self._pooled(rows[:PILOT], np.zeros((K, d), self.dtype), space)
                        shift = pilot.mean(axis=1, dtype=np.float64).astype(self.dtype)
                    half = (place + np.arange(len(rows))) // RUN % 2
                    place += len(rows)
                    for h in (0, 1):
                        here = np.flatnonzero(half == h)
                        X = self._pooled(rows[here], shift, space)
                        parts["n"][h] += len(here)
                        ones = np.ones(len(here), self.dtype)
                        for k in range(K):
                            sums[k, h] += ones @ X[k]
                            products[k, h] += X[k].T @ X[k]
                        if not np.isfinite(sums[:, h]).all():
                            raise self._not_finite(block, start)
                        if block.labels is not None and self.classes:
                            labels = block.labels[start : start + size][here]
                            self._add_classes(X, shift, labels, parts)
        if K and shift is not None:
            self._centre(parts, shift, sums, products)
        if not np.isfinite(record).all():
            name = self.corpus.describe(index)
            raise invalid_argument(
                "pooled sequences", f"small enough for their squares to be {self.dtype}", name
            )
        return record

    def _count(self, block: Block, parts: dict[str, Floats]) -> None:
        """Count tokens, lengths and classes; refuse sequences that have no token."""
        values = block.values
        if self.corpus.is_of_ids != (values.dtype.kind in "iu"):
            found = f"{values.dtype} beside {'token ids' if self.corpus.is_of_ids else 'vectors'}"
            raise block.refuse(0, "hold sequences of one type", found)
        if self.corpus.is_of_ids:
            present = values >= 0
            lengths = present.sum(axis=1)
            if not lengths.all():
                raise block.refuse(int(lengths.argmin()), "hold a token in every row", "none")
            if values.max() >= self.n_vocab:
                k = int(np.argmax(values.max(axis=1)))
                raise block.refuse(k, f"hold ids below {self.n_vocab}", str(values[k].max()))
            ids = values.ravel() if present.all() else values[present]
            parts["token_counts"] += np.bincount(ids, minlength=self.n_vocab)
            parts["document_counts"] += sequences_with_token(values, self.n_vocab)
            if self.paired is not None:
                parts["pair_counts"] += self._pairs(values)
            parts["length_counts"] += np.bincount(lengths, minlength=self.corpus.max_length + 1)
        elif values.shape[1:] != self.corpus.shape:
            found = f"{values.shape[-1]} beside {self.corpus.shape[-1]}"
            raise block.refuse(0, "hold vectors of one length", found)
        if block.labels is not None and self.classes:
            codes = self._codes(block.labels)
            if codes.max() >= len(self.classes):
                k = int(codes.argmax())
                raise block.refuse(k, "hold labels among the classes", str(block.labels[k]))
            parts["class_counts"] += np.bincount(codes, minlength=len(self.classes))

    @cached_property
    def _pair_places(self) -> NDArray[np.int64]:
        """Place of each token among those whose pairs are counted; −1 where it is not."""
        assert self.paired is not None
        places = np.full(self.n_vocab, -1)
        places[self.paired] = np.arange(len(self.paired))
        return places

    def _pairs(self, ids: NDArray[Any]) -> Floats:
        """Return the upper triangle of MᵀM, M the counts of the paired tokens in each sequence."""
        from scipy.sparse import csr_array

        places = self._pair_places[ids]
        there = (ids >= 0) & (places >= 0)
        assert self.paired is not None
        P, ends = len(self.paired), np.append(0, np.cumsum(there.sum(axis=1)))
        M = csr_array((np.ones(ends[-1]), places[there], ends), shape=(len(ids), P))
        return np.asarray((M.T @ M).toarray()[np.triu_indices(P)])

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return places of labels among the classes; the number of classes where there is none."""
        names = np.array(self.classes)
        places = np.searchsorted(names, labels)
        known = names[np.minimum(places, len(names) - 1)] == labels
        return np.where(known, places, len(names))

    def _pooled(
        self, rows: NDArray[Any], shift: NDArray[np.floating], space: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Return pooled sequences less the shift, of each weighting, in `space`: (K, n, d)."""
        if self.table is not None:
            shape = (len(shift), len(rows), self.dimension)
            X = space[: math.prod(shape)].reshape(shape)
            if len(rows):
                pool_token_ids(rows, self.table, self.token_weights, shift, X)
            return X
        pooled = rows.mean(axis=1, dtype=np.float64) if rows.ndim == 3 else rows
        return (pooled[None] - shift[:, None].astype(np.float64)).astype(self.dtype)

    def _not_finite(self, block: Block, start: int) -> ValueError:
        rows = block.values[start : start + self._block_rows]
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if finite.all():
            what = f"small enough for sums of {self.dtype}"
            return invalid_argument("embeddings", what, block.source)
        return block.refuse(start + int(finite.argmin()), "hold finite numbers", "NaN or infinity")

    def _add_classes(
        self,
        X: NDArray[np.floating],
        shift: NDArray[np.floating],
        labels: NDArray[Any],
        parts: dict[str, Floats],
    ) -> None:
        codes = self._codes(labels)
        for code in np.unique(codes):
            rows = codes == code
            total = X[:, rows].sum(axis=1, dtype=np.float64)
            parts["class_sums"][:, code] += total + rows.sum() * shift.astype(np.float64)

    def _centre(
        self,
        parts: dict[str, Floats],
        shift: NDArray[np.floating],
        sums: Floats,
        products: Floats,
    ) -> None:
        """Write means and centred scatters."""
        n = np.maximum(parts["n"], 1)[None, :, None]
        delta = sums / n
        parts["mean"][:] = shift[:, None, :] + delta
        upper = np.triu_indices(self.dimension)
        for k, h in np.ndindex(len(shift), 2):
            step = delta[k, h] * np.sqrt(n[0, h, 0])
            parts["scatter"][k, h] = (products[k, h] - np.outer(step, step))[upper]

    def merge(self, left: Floats, right: Floats) -> Floats:
        """Return the record of two sets of chunks from theirs.

        Notes
        -----
        Counts add up. With n_a, n_b rows, means m_a, m_b and scatters M_a, M_b,

            m = m_a + (n_b/n) δ,   M = M_a + M_b + (n_a n_b/n) δ δᵀ,   δ = m_b − m_a.
        """
        total = left + right
        a, b, both = self.view(left), self.view(right), self.view(total)
        upper = np.triu_indices(self.dimension)
        n_a, n_b = a["n"], b["n"]
        n = np.maximum(n_a + n_b, 1)
        delta = b["mean"] - a["mean"]
        both["mean"][:] = a["mean"] + (n_b / n)[:, None] * delta
        for k, h in np.ndindex(delta.shape[:2]):
            if n_a[h] == 0 or n_b[h] == 0:  # there is no mean to differ from
                both["mean"][k, h] = (a if n_a[h] else b)["mean"][k, h]
                continue
            step = np.sqrt(n_a[h] * n_b[h] / n[h]) * delta[k, h]
            both["scatter"][k, h] += np.outer(step, step)[upper]
        return total

    def statistics(self, record: Floats) -> CorpusStatistics:
        """Return what a record says."""
        parts = self.view(record)
        n = parts["n"].astype(int)
        halves = []
        for mean, scatter in zip(parts["mean"], parts["scatter"], strict=True):
            one, other = (
                PooledCovariance(
                    mean=mean[h].copy(),
                    covariance=_unpacked(scatter[h], self.dimension) / max(n[h], 1),
                    n_samples=int(n[h]),
                )
                for h in (0, 1)
            )
            halves.append((one, other))
        counts, P = parts["class_counts"], 0 if self.paired is None else len(self.paired)
        lengths = parts["length_counts"].astype(np.int64)
        n_sequences = int(n.sum()) if len(halves) else int(lengths.sum())
        g = self.token_weights
        return CorpusStatistics(
            n_sequences=n_sequences,
            n_tokens=int(parts["token_counts"].sum()),
            token_counts=parts["token_counts"].astype(np.int64),
            document_counts=parts["document_counts"].astype(np.int64),
            pair_tokens=np.array([] if self.paired is None else self.paired, dtype=np.int64),
            pair_counts=_unpacked(parts["pair_counts"], P).astype(np.int64),
            length_counts=np.trim_zeros(lengths, "b"),
            classes=tuple(self.classes),
            class_counts=counts.astype(np.int64),
            class_means=parts["class_sums"] / np.maximum(counts, 1)[:, None],
            pooled=tuple(_whole(*pair) for pair in halves),
            halves=tuple(halves),
            token_weights=None if g is None else np.asarray(g, dtype=np.float64),
        )


def count_corpus(sources: Any, n_vocab: int, *, max_length: int = 512) -> CorpusStatistics:
    """Count the tokens of a corpus in this process, in one pass and without a table.

    Examples
    --------
    >>> found = count_corpus(np.array([[2, 2, -1], [0, 2, 0]]), 4)
    >>> found.token_counts, found.document_counts
    (array([2, 0, 3, 0]), array([1, 0, 2, 0]))
    """
    plan = CorpusPass(corpus=open_corpus(sources, max_length=max_length), n_vocab=n_vocab)
    tree = ChunkTree(plan, len(plan.corpus.chunks))
    for index in range(tree.n_chunks):
        tree.add(index, plan.compute(index))
    return plan.statistics(tree.result())


def _unpacked(triangle: Floats, d: int) -> Floats:
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = triangle
    return S + np.triu(S, 1).T


def _whole(one: PooledCovariance, other: PooledCovariance) -> PooledCovariance:
    """Return mean and covariance of both halves together."""
    n = one.n_samples + other.n_samples
    p, q = one.n_samples / n, other.n_samples / n
    delta = other.mean - one.mean
    S = p * one.covariance + q * other.covariance + p * q * np.outer(delta, delta)
    return PooledCovariance(mean=one.mean + q * delta, covariance=S, n_samples=n)
