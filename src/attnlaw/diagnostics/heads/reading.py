"""Attention maps from a file: weights, scores, or queries and keys."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from attnlaw._checks import choice
from attnlaw._machine import available_memory
from attnlaw.data.readers.entries import Array, Entry, bad_file, choose_entry
from attnlaw.data.readers.tables import list_arrays
from attnlaw.diagnostics.heads.maps import (
    AttentionMaps,
    attention_maps,
    maps_from_queries,
    maps_from_scores,
)

__all__ = ["KINDS", "holds_attention", "read_attention"]

KINDS = ("auto", "attention", "scores", "queries")

_NAMES = {
    "attention": ("attention", "attentions", "attention_weights", "weights", "maps"),
    "scores": ("scores", "attention_scores", "logits"),
    "queries": ("queries", "query", "q"),
    "keys": ("keys", "key", "k"),
}


def read_attention(
    path: str | Path,
    tensor: str | None = None,
    *,
    kind: str = "auto",
    causal: bool = False,
    head_dimension: int | None = None,
) -> AttentionMaps:
    """Return attention maps from a file.

    Nothing is ever unpickled, and sizes are checked before memory is taken.

    Parameters
    ----------
    path : str or Path
        A .npy, .npz or .safetensors file with an array of shape (layers, heads, n, n),
        (heads, n, n) or (n, n); or with two, `queries` and `keys`, of shape (…, n, d_k).
    tensor : str, optional
        Name of the array; of the queries, when there are queries and keys.
    kind : "auto", "attention", "scores" or "queries"
        Weights after the softmax, scores before it, or queries and keys; "auto" goes by the
        arrays' names, and takes an array of another name for weights.
    causal : bool
        Mask later tokens of scores, or of queries and keys.
    head_dimension : int, optional
        d_k, when it is known.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "maps.npy"
    ...     np.save(file, np.full((2, 3, 10, 10), 0.1))
    ...     read_attention(file).weights.shape
    (2, 3, 10, 10)
    """
    path = Path(path)
    choice("kind", kind, KINDS)
    entries = list_arrays(path)
    if kind == "auto":
        kind = _kind(entries, tensor)
    source = str(path)
    if kind == "queries":
        queries = _named(path, entries, "queries", tensor)
        keys = _named(path, entries, "keys", None)
        Q, K = _read(path, queries), _read(path, keys)
        return maps_from_queries(Q, K, causal=causal, source=source)
    array = _read(path, _named(path, entries, kind, tensor))
    if kind == "scores":
        return maps_from_scores(array, causal=causal, head_dimension=head_dimension, source=source)
    return attention_maps(array, head_dimension=head_dimension, source=source)


def holds_attention(path: str | Path, tensor: str | None = None) -> bool:
    """Tell whether a file holds attention maps, and not a table or sequences.

    By the name of an array (attention, scores, queries), by four axes, or by square maps whose
    first rows are distributions.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "x.npy"
    ...     np.save(file, np.eye(10))
    ...     holds_attention(file)
    True
    """
    entries = list_arrays(path)
    chosen = {name: e for name, e in entries.items() if tensor is None or name == tensor}
    known = {name for names in _NAMES.values() for name in names} - {"weights", "k", "q", "key"}
    if any(
        len(e.shape) >= 4 or (name.lower() in known and len(e.shape) > 1)
        for name, e in chosen.items()
    ):
        return True
    if len(chosen) != 1:
        return False
    entry = next(iter(chosen.values()))
    if not 2 <= len(entry.shape) <= 3 or entry.shape[-1] != entry.shape[-2] or 0 in entry.shape:
        return False
    array = entry.read()
    if array.dtype.kind != "f":
        return False
    first = np.asarray(array).reshape(-1, entry.shape[-1])[: entry.shape[-1]].astype(np.float64)
    if not np.isfinite(first).all():
        return False
    return bool((first >= 0).all() and np.abs(first.sum(axis=1) - 1).max() < 0.01)


def _kind(entries: Mapping[str, Entry], tensor: str | None) -> str:
    names = {name.lower() for name in ([tensor] if tensor is not None else entries)}
    if tensor is None and names.intersection(_NAMES["attention"]):
        return "attention"
    return next((k for k in ("queries", "scores") if names.intersection(_NAMES[k])), "attention")


def _named(path: Path, entries: Mapping[str, Entry], kind: str, tensor: str | None) -> Entry:
    """Return the array of that name, or the one whose name says what it is, or the only one."""
    if tensor is None:
        by_name = {name.lower(): entry for name, entry in entries.items()}
        for name in _NAMES[kind]:
            if name in by_name:
                return by_name[name]
        if kind in ("queries", "keys"):
            raise bad_file(path, f"hold an array called {kind!r}", ", ".join(list(entries)[:6]))
        fitting = [entry for entry in entries.values() if len(entry.shape) >= 2]
        if len(fitting or entries) == 1:
            return next(iter(fitting or entries.values()))
    return choose_entry(path, entries, tensor, 4)


def _read(path: Path, entry: Entry) -> Array:
    """Read an array whose maps, in double precision one by one, fit in memory."""
    if 0 in entry.shape:
        raise bad_file(path, "hold at least one number", entry.description)
    if len(entry.shape) < 2:
        raise bad_file(path, "hold an array with 2 to 4 axes", entry.description)
    needed = entry.n_bytes + 8 * 6 * math.prod(entry.shape[-2:])
    if needed > available_memory():
        raise bad_file(path, "hold maps that fit in memory", entry.description)
    array = entry.read()
    if array.dtype.kind not in "fiu":
        raise bad_file(path, f"hold {entry.name!r} as real numbers", entry.dtype)
    return array
