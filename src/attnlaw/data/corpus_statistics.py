"""What a pass over a corpus finds, and how the records of its chunks are merged and kept.

Sums are rounded, so their order matters in the last digits. `ChunkTree` merges chunks 2k and
2k + 1 of each level of a binary tree as soon as both are there: the result depends on the corpus
alone, not on how many workers there were nor on who was first. Only unmerged records are kept, for
n chunks and w workers about w + log₂ n of them, and these are what a run has to store.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, invalid_argument
from attnlaw._store import atomic_path, checksum
from attnlaw.data.covariance import PooledCovariance
from attnlaw.data.readers.array_files import stored_arrays

__all__ = [
    "UNREADABLE",
    "ChunkTree",
    "CorpusStatistics",
    "as_statistics",
    "found_in",
    "is_statistics",
    "read_state",
    "write_state",
]

FORMAT = "attnlaw corpus statistics 2"

UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, BadZipFile)
"""What damaged files of ours raise: a zip may ask for a password or an unknown packing, too."""
COUNTS = ("token_counts", "document_counts", "length_counts", "class_counts", "class_means")
PAIRS = ("pair_tokens", "pair_counts")


@dataclass(frozen=True, kw_only=True, eq=False)
class CorpusStatistics:
    """What one pass over a corpus finds; see `attnlaw.sweeps.corpus_statistics`."""

    n_sequences: int  # N
    n_tokens: int  # of the whole corpus; 0 unless it is of token ids
    token_counts: NDArray[np.int64]  # (V,)
    document_counts: NDArray[np.int64]  # (V,): sequences that hold the token
    length_counts: NDArray[np.int64]  # (L + 1,): sequences with so many tokens
    classes: tuple[str, ...]
    class_counts: NDArray[np.int64]  # (C,)
    class_means: Floats  # (K, C, d)
    pair_tokens: NDArray[np.int64]  # (P,): the most frequent, whose pairs were counted
    pair_counts: NDArray[np.int64]  # (P, P): Σ_i n_iv n_iw, n_iv times that v is in sequence i
    pooled: tuple[PooledCovariance, ...]  # of each weighting of the tokens
    halves: tuple[tuple[PooledCovariance, PooledCovariance], ...]  # the same, of each half
    token_weights: Floats | None = None  # (V, K): g of each weighting; None is g = 1
    a: Floats | None = None  # (K,): of SIF, where the weightings are a path of it

    @property
    def frequencies(self) -> Floats:
        """Share p_v of each token in the text."""
        return self.token_counts / max(self.n_tokens, 1)

    @property
    def token_masses(self) -> Floats:
        """p_v g_v², what each token contributes to the noise of the only weighting: (V,)."""
        _ = self._only
        g = 1.0 if self.token_weights is None else self.token_weights[:, 0]
        return np.asarray(self.frequencies * g**2)

    @property
    def mean(self) -> Floats:
        """Mean pooled sequence, of the only weighting."""
        return self._only.mean

    @property
    def covariance(self) -> Floats:
        """Covariance of pooled sequences, of the only weighting."""
        return self._only.covariance

    @property
    def _only(self) -> PooledCovariance:
        if len(self.pooled) != 1:
            raise invalid_argument("pooled", "of one weighting", len(self.pooled))
        return self.pooled[0]

    def weighting(self, k: int) -> "CorpusStatistics":
        """Return the statistics with the k-th of several weightings alone."""
        g = self.token_weights
        return replace(
            self,
            pooled=(self.pooled[k],),
            halves=(self.halves[k],),
            class_means=self.class_means[[k]],
            token_weights=None if g is None else g[:, [k]],
            a=None if self.a is None else self.a[[k]],
        )

    def held_out_variances(self, n_components: int, weighting: int = 0) -> Floats:
        """Return what components are worth: variances along eigenvectors of the other half.

        Parameters
        ----------
        n_components : int
            The leading ones.
        weighting : int
            Which of several.

        Returns
        -------
        array of shape (2, n_components)
            Eigenvalues λ_k of one half, and u_kᵀ S u_k with S of the other, both averaged over
            the two ways round. A component whose second number is much smaller than its first
            is noise of the sample.
        """
        found = np.zeros((2, n_components))
        for one, other in (self.halves[weighting], self.halves[weighting][::-1]):
            values, vectors = np.linalg.eigh(one.covariance)
            U = vectors[:, ::-1][:, :n_components]
            found[0] += values[::-1][:n_components] / 2
            found[1] += np.einsum("dk,de,ek->k", U, other.covariance, U) / 2
        return found

    def save(self, path: str | Path) -> None:
        """Write an .npz file, without pickle, from which `load` reads the same."""
        arrays = {name: getattr(self, name) for name in (*COUNTS, *PAIRS)}
        arrays |= {"format": np.array(FORMAT), "classes": np.array(self.classes, dtype=str)}
        arrays["n"] = np.array([self.n_sequences, self.n_tokens])
        if self.pooled:
            arrays["means"] = np.stack([part.mean for part in self.pooled])
            arrays["covariances"] = np.stack([part.covariance for part in self.pooled])
            arrays["half_sizes"] = np.array([half.n_samples for half in self.halves[0]])
            halves = [half for pair in self.halves for half in pair]
            arrays["half_means"] = np.stack([half.mean for half in halves])
            arrays["half_covariances"] = np.stack([half.covariance for half in halves])
        for name in ("token_weights", "a"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        arrays = {name: np.asarray(values) for name, values in arrays.items()}
        arrays["digest"] = np.array(_digest(arrays))
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(Path(path)) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @staticmethod
    def load(path: str | Path) -> "CorpusStatistics":
        """Return what `save`, or ``attnlaw corpus``, wrote.

        Parameters
        ----------
        path : str or Path
            The .npz file, or the folder in which it is called statistics.npz.
        """
        source = Path(path)
        source = source / "statistics.npz" if source.is_dir() else source
        try:
            arrays = stored_arrays(source)
            if str(arrays["format"]) != FORMAT:
                raise ValueError(f"format {arrays['format']}")
            digest = str(arrays.pop("digest"))
            if digest != _digest(arrays):  # the archive's checksums are of each array alone
                raise ValueError("arrays that are not those that were written")
            n_sequences, n_tokens = map(int, arrays["n"])
            K = len(arrays.get("means", ()))
            pooled, halves = [], []
            for k in range(K):
                mean, S = arrays["means"][k], arrays["covariances"][k]
                pooled.append(PooledCovariance(mean=mean, covariance=S, n_samples=n_sequences))
                one, other = (
                    PooledCovariance(
                        mean=arrays["half_means"][2 * k + h],
                        covariance=arrays["half_covariances"][2 * k + h],
                        n_samples=int(arrays["half_sizes"][h]),
                    )
                    for h in (0, 1)
                )
                halves.append((one, other))
            return CorpusStatistics(
                n_sequences=n_sequences,
                n_tokens=n_tokens,
                classes=tuple(arrays["classes"].tolist()),
                pooled=tuple(pooled),
                halves=tuple(halves),
                token_weights=arrays.get("token_weights"),
                a=arrays.get("a"),
                **{name: arrays[name] for name in (*COUNTS, *PAIRS)},
            )
        except UNREADABLE as error:
            found = found_in(error)
            raise ValueError(f"{path} must hold statistics of a corpus, got {found}.") from None


def found_in(error: Exception) -> str:
    """Return what an error says was found, as the end of a sentence."""
    return str(error).rsplit(", got ", 1)[-1].rstrip(".")[:60] or type(error).__name__


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of arrays with their names, types and shapes."""
    parts: list[bytes | str] = []
    for name in sorted(arrays):
        values = np.asarray(arrays[name])
        kind = values.dtype.newbyteorder("<")
        parts += [f"{name} {kind.str} {values.shape}\n", values.astype(kind).tobytes()]
    return checksum(parts)


def is_statistics(value: Any) -> bool:
    """Return whether something is statistics of a corpus, or a file or folder with them."""
    if not isinstance(value, str | Path):
        return isinstance(value, CorpusStatistics)
    return Path(value).suffix.lower() == ".npz" or (Path(value) / "statistics.npz").is_file()


def as_statistics(name: str, value: Any) -> CorpusStatistics:
    """Return the statistics of a corpus of token ids, read where they are in a file."""
    found = CorpusStatistics.load(value) if isinstance(value, str | Path) else value
    if not isinstance(found, CorpusStatistics):
        raise invalid_argument(name, "statistics of a corpus, or their file", value)
    if not found.n_tokens:
        raise invalid_argument(name, "of a corpus of token ids", "one of vectors")
    return found


class ChunkTree:
    """Records of chunks, merged two by two in an order that their numbers decide.

    Examples
    --------
    >>> class Sums:
    ...     merge = staticmethod(lambda a, b: a + b)
    >>> tree = ChunkTree(Sums(), 3)
    >>> for index in (2, 0, 1):
    ...     tree.add(index, np.array([10.0**index]))
    >>> sorted(tree.nodes), tree.result()
    ([(0, 2), (1, 0)], array([111.]))
    """

    def __init__(self, work: Any, n_chunks: int) -> None:
        self._work, self.n_chunks = work, n_chunks
        self.nodes: dict[tuple[int, int], Floats] = {}  # (level, k): chunks k·2^level and on

    def add(self, index: int, record: Floats) -> None:
        """Add the record of a chunk, and merge it as far as its neighbours are there."""
        level, k = 0, index
        while (level, k ^ 1) in self.nodes:
            other = self.nodes.pop((level, k ^ 1))
            pair = (record, other) if k % 2 == 0 else (other, record)
            record = self._work.merge(*pair)
            level, k = level + 1, k // 2
        self.nodes[level, k] = record

    @property
    def done(self) -> NDArray[np.bool_]:
        """Which chunks have been added."""
        done = np.zeros(self.n_chunks, dtype=bool)
        for level, k in self.nodes:
            done[k << level : (k + 1) << level] = True
        return done

    def result(self) -> Floats:
        """Return the record of all chunks."""
        if not self.done.all():
            raise invalid_argument("chunks", "all added", f"{self.done.sum()} of {self.n_chunks}")
        nodes: Iterable[tuple[int, int]] = sorted(self.nodes, key=lambda node: node[1] << node[0])
        total: Floats | None = None
        for node in nodes:  # of falling level: the binary digits of n_chunks
            record = self.nodes[node]
            total = record if total is None else self._work.merge(total, record)
        assert total is not None
        return total


def write_state(path: Path, tree: ChunkTree) -> None:
    """Replace the state, as a whole or not at all."""
    nodes = list(tree.nodes)
    records = [np.ascontiguousarray(tree.nodes[node], "<f8") for node in nodes]
    crc = _nodes_checksum(nodes)
    for record in records:
        crc = zlib.crc32(record.data, crc)
    header = json.dumps({"nodes": nodes, "checksum": crc}) + "\n"
    with atomic_path(path, only_writer=True) as partial, partial.open("wb") as file:
        file.write(header.encode())
        for record in records:
            file.write(record.data)


def read_state(path: Path, size: int) -> dict[tuple[int, int], Floats]:
    """Return unmerged records; none if the state is not there or not as it was written."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
            data = file.read()
        records = np.frombuffer(data, "<f8").reshape(len(header["nodes"]), size)
        if zlib.crc32(data, _nodes_checksum(header["nodes"])) != header["checksum"]:
            return {}
        pairs = zip(header["nodes"], records, strict=True)
        return {(int(level), int(k)): r for (level, k), r in pairs}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _nodes_checksum(nodes: Any) -> int:
    """Return the checksum of which chunks the records are of; that of the records goes on."""
    return zlib.crc32(json.dumps(nodes).encode())
