"""A fitted pooling: everything needed to pool other texts, saved without pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, choice, count, invalid_argument
from attnlaw._store import atomic_path, checksum, file_checksum
from attnlaw.data.corpus_statistics import UNREADABLE, CorpusStatistics, found_in
from attnlaw.data.readers.array_files import stored_arrays
from attnlaw.data.readers.entries import opened
from attnlaw.data.sequences import Sequences
from attnlaw.data.user_arrays import converted
from attnlaw.estimators.pooling import (
    POOLINGS,
    TOKEN_WEIGHTS,
    PostProcessing,
    Rows,
    RowSpectrum,
    max_scale,
    pool,
    token_importance,
    weights_where_present,
)

__all__ = ["FittedPooling", "fit_pooling"]

FORMAT = 1  # of saved files
DOCUMENT_BYTES = 2**20  # of pooling.json


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedPooling:
    """A fitted pooling: weights of positions and tokens, scale, post-processing."""

    pooling: str | Floats  # one of `POOLINGS`, or weights of positions
    length: int  # L of the sequences that it was fitted to
    dimension: int  # d of their tokens
    settings: Mapping[str, Any] = field(default_factory=dict)  # what `AttentionPooling` was asked
    importance: Floats | None = None  # g (V,)
    unseen: float = 1.0  # importance of a token that was not seen
    scale: float = 1.0  # of the maximum in "mean+max"
    processing: PostProcessing = field(default_factory=PostProcessing)

    def pooling_for(self, length: int) -> str | Floats:
        """Return the pooling of sequences of any length.

        Weights of positions are cut, or continued by the mean of their last quarter.
        """
        if isinstance(self.pooling, str):
            return self.pooling
        w = self.pooling
        if length <= len(w):
            return w[:length]
        rest = w[-max(1, len(w) // 4) :].mean()
        return np.concatenate([w, np.full(length - len(w), rest)])

    def importance_of(self, ids: NDArray[Any] | None) -> Floats | None:
        """Return the importance of each token; ids that were not seen count as rare."""
        if self.importance is None:
            return None
        if ids is None:
            raise invalid_argument("tokens", "given beside embeddings for token weights", None)
        known = (ids >= 0) & (ids < len(self.importance))
        return np.where(known, self.importance[np.where(known, ids, 0)], self.unseen)

    def pooled(self, data: Sequences, ids: NDArray[Any] | None) -> Rows:
        """Return the pooled vectors before post-processing."""
        weights = self.pooling_for(data.shape[1])
        if not isinstance(weights, str) and data.mask is not None:
            weights = weights_where_present(weights, data.mask)
        return pool(data, weights, self.importance_of(ids), scale=self.scale)

    def apply(self, data: Sequences, ids: NDArray[Any] | None = None) -> Rows:
        """Return one vector a sequence; processed in double precision, which whitening needs."""
        pooled = self.pooled(data, ids)
        if self.processing.mean is None:
            return pooled
        return self.processing.apply(pooled.astype(np.float64)).astype(pooled.dtype)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned as plain arrays."""
        post = self.processing
        named = isinstance(self.pooling, str)
        found = {
            "weights": None if named else self.pooling,
            "importance": self.importance,
            "mean": post.mean,
            "components": post.components,
            "matrix": post.matrix,
        }
        return {name: np.asarray(value) for name, value in found.items() if value is not None}

    def save(self, folder: str | Path, *, table: Any = None) -> None:
        """Write pooling.json and pooling.npz into a folder, without pickle.

        The table is saved, too, if it is given, so that the loaded pooling accepts token ids.
        """
        arrays = self.arrays()
        if table is not None:
            arrays["table"] = converted("table", table)
        settings = {
            k: v for k, v in self.settings.items() if isinstance(v, str | float | int | None)
        }
        document = {
            "format": FORMAT,
            "pooling": self.pooling if isinstance(self.pooling, str) else None,
            "length": self.length,
            "dimension": self.dimension,
            "unseen": self.unseen,
            "scale": self.scale,
            "settings": settings,
        }
        target = Path(folder) / "pooling.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target.with_suffix(".npz")) as partial, partial.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
            stream.flush()
            document["arrays"] = file_checksum(partial)
        document["checksum"] = checksum([json.dumps(document)])
        with atomic_path(target) as partial:
            partial.write_text(json.dumps(document, indent=1), encoding="utf-8")

    @staticmethod
    def load(folder: str | Path) -> tuple["FittedPooling", NDArray[Any] | None]:
        """Return the pooling that `save` wrote, and the table if it was saved."""
        source = Path(folder) / "pooling.json"
        try:
            with opened(source) as stream:
                document = json.loads(stream.read(DOCUMENT_BYTES))
            written = document.pop("checksum", None)
            if written != checksum([json.dumps(document)]):
                raise ValueError("a pooling.json that is not as it was written")
            arrays = stored_arrays(source.with_suffix(".npz"))
            if document["arrays"] != file_checksum(source.with_suffix(".npz")):
                raise ValueError("a pooling.npz that does not belong to pooling.json")
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']}")
            named = document["pooling"]
            fitted = FittedPooling(
                pooling=arrays["weights"] if named is None else choice("pooling", named, POOLINGS),
                length=count("length", document["length"]),
                dimension=count("dimension", document["dimension"]),
                settings=dict(document["settings"]),
                importance=arrays.get("importance"),
                unseen=float(document["unseen"]),
                scale=float(document["scale"]),
                processing=PostProcessing(
                    mean=arrays.get("mean"),
                    components=arrays.get("components"),
                    matrix=arrays.get("matrix"),
                ),
            )
        except (*UNREADABLE, AttributeError) as error:
            found = found_in(error)
            raise ValueError(
                f"{folder} must be a folder with a saved pooling, got {found}."
            ) from None
        return fitted, arrays.get("table")


def fit_pooling(
    data: Sequences,
    ids: NDArray[Any] | None,
    pooling: str | Floats,
    *,
    token_weights: str | Floats = "uniform",
    smoothing: float = 1e-3,
    components_removed: int | None = None,
    whitening: float | None = None,
    n_tokens: int = 0,
    corpus: CorpusStatistics | None = None,
    asked: str | None = None,
) -> FittedPooling:
    """Fit a pooling, except weights of positions: see `AttentionPooling` for the arguments.

    `asked` is the name of weights of positions that were learned before; `corpus` has counts of
    tokens that are used in place of those of the data.
    """
    settings = {
        "weights": asked if asked is not None else pooling if isinstance(pooling, str) else None,
        "token_weights": token_weights if isinstance(token_weights, str) else None,
        "smoothing": smoothing,
        "components_removed": components_removed,
        "whitening": whitening,
    }
    importance, unseen = None, 1.0
    if not isinstance(token_weights, str):
        importance = token_weights
    elif choice("token_weights", token_weights, TOKEN_WEIGHTS) != "uniform":
        if ids is None:
            raise invalid_argument("tokens", "given beside embeddings for token weights", None)
        present = ids >= 0 if data.mask is None else data.mask
        n_tokens = max(n_tokens, int(ids[present].max()) + 1)
        importance = token_importance(
            token_weights, ids, present, n_tokens, smoothing=smoothing, corpus=corpus
        )
        N = len(ids) if corpus is None else corpus.n_sequences
        unseen = 1.0 if token_weights == "sif" else float(1 + np.log1p(N))
    fitted = FittedPooling(
        pooling=pooling,
        length=data.shape[1],
        dimension=data.shape[2],
        settings=settings,
        importance=importance,
        unseen=unseen,
    )
    pooled = None
    if isinstance(pooling, str) and pooling == "mean+max":
        pooled = fitted.pooled(data, ids)
        fitted = replace(fitted, scale=max_scale(pooled))
        pooled[:, data.shape[2] :] *= pooled.dtype.type(fitted.scale)
    if components_removed is None and whitening is None:
        return fitted
    pooled = fitted.pooled(data, ids) if pooled is None else pooled
    return replace(
        fitted, processing=RowSpectrum(pooled).processing(components_removed, whitening)
    )
