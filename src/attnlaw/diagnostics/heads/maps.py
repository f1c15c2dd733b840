"""Attention maps, layers × heads × n × n, from weights, scores or queries and keys, and files."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, choice, count, invalid_argument
from attnlaw._machine import available_memory
from attnlaw.data.readers.entries import Entry, bad_file, choose_entry
from attnlaw.data.readers.tables import list_arrays
from attnlaw.data.user_arrays import converted
from attnlaw.simulation import attention_matrix

__all__ = [
    "KINDS",
    "AttentionMaps",
    "attention_maps",
    "holds_attention",
    "maps_from_queries",
    "maps_from_scores",
    "read_attention",
]

Array = NDArray[Any]
_LEAST_TOKENS = 8
_SUM_ERROR = 0.01  # of a row: bfloat16 keeps its entries to 0.4 %


KINDS = ("auto", "attention", "scores", "queries")

_NAMES = {
    "attention": ("attention", "attentions", "attention_weights", "weights", "maps"),
    "scores": ("scores", "attention_scores", "logits"),
    "queries": ("queries", "query", "q"),
    "keys": ("keys", "key", "k"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionMaps:
    """Attention weights of one text, checked: each row is a distribution."""

    weights: Array  # (layers, heads, n, n)
    head_dimension: int | None = None  # d_k, when known
    tokens: tuple[str, ...] | None = None  # the n words, when known
    source: str = "an array"

    def __iter__(self) -> Iterator[tuple[int, int, Floats]]:
        """Iterate over layer, head and its map in double precision, rows summing to one."""
        for layer, heads in enumerate(self.weights):
            for head in range(len(heads)):
                yield layer, head, self[layer, head]

    def __getitem__(self, place: tuple[int, int]) -> Floats:
        """Return the map of a layer and head."""
        A = np.array(self.weights[place], dtype=np.float64)
        np.maximum(A, 0.0, out=A)
        A /= A.sum(axis=1, keepdims=True)
        return A


def attention_maps(
    weights: Any,
    *,
    head_dimension: int | None = None,
    tokens: tuple[str, ...] | None = None,
    source: str = "an array",
) -> AttentionMaps:
    """Check attention weights: square maps whose rows are distributions.

    Parameters
    ----------
    weights : array of shape (layers, heads, n, n), (heads, n, n) or (n, n)
        Further axes are dropped if they have length 1, as that of a batch of one text.
    head_dimension : int, optional
        d_k.
    tokens : tuple of str, optional
        The n words.
    source : str
        Where they come from.

    Examples
    --------
    >>> attention_maps(np.full((2, 10, 10), 0.1)).weights.shape
    (1, 2, 10, 10)
    """
    A = _four_axes("attention", weights)
    n = A.shape[-1]
    if A.shape[-2] != n:
        raise invalid_argument("attention", "square maps", A)
    if n < _LEAST_TOKENS:
        raise invalid_argument("attention", f"maps of at least {_LEAST_TOKENS} tokens", A)
    if head_dimension is not None:
        head_dimension = count("head_dimension", head_dimension)
    if tokens is not None and len(tokens) != n:
        raise invalid_argument("tokens", f"{n} words, one a row", f"{len(tokens)}")
    for layer in range(len(A)):
        for head in range(A.shape[1]):
            _check_rows(np.asarray(A[layer, head], dtype=np.float64), layer, head)
    return AttentionMaps(weights=A, head_dimension=head_dimension, tokens=tokens, source=source)


def maps_from_scores(
    scores: Any,
    *,
    causal: bool = False,
    head_dimension: int | None = None,
    source: str = "an array",
) -> AttentionMaps:
    """Return the softmax of scores by rows.

    Parameters
    ----------
    scores : array of shape (layers, heads, n, n), (heads, n, n) or (n, n)
        Arguments of the softmax, its scale included; −∞ where a token is masked.
    causal : bool
        Mask later tokens.
    head_dimension, source
        As for `attention_maps`.

    Examples
    --------
    >>> maps_from_scores(np.zeros((9, 9)), causal=True)[0, 0][1, :3]
    array([0.5, 0.5, 0. ])
    """
    S = _four_axes("scores", scores)
    if S.shape[-2] != S.shape[-1]:
        raise invalid_argument("scores", "square maps", S)
    A = np.empty(S.shape, dtype=np.float32 if S.dtype.itemsize <= 4 else np.float64)
    for place in np.ndindex(*S.shape[:2]):
        one = np.array(S[place], dtype=np.float64)
        if np.isnan(one).any() or (one == np.inf).any() or np.isneginf(one).all(axis=1).any():
            raise ValueError(
                "scores must be finite, or −∞ for some tokens of a row, "
                f"got {_first_bad(one)} in {_name(*place)}."
            )
        A[place] = attention_matrix(one, 1.0, causal=causal)
    return attention_maps(A, head_dimension=head_dimension, source=source)


def maps_from_queries(
    queries: Any, keys: Any, *, causal: bool = False, source: str = "an array"
) -> AttentionMaps:
    """Return softmax(QKᵀ/√d_k) of queries and keys.

    Parameters
    ----------
    queries, keys : arrays of shape (layers, heads, n, d_k), (heads, n, d_k) or (n, d_k)
        If there are fewer key heads than query heads, neighbouring query heads share them.
    causal : bool
        Mask later tokens.
    source : str
        Where they come from.

    Examples
    --------
    >>> Q = np.random.default_rng(0).standard_normal((3, 20, 5))
    >>> maps_from_queries(Q, Q[:1]).head_dimension
    5
    """
    Q = _four_axes("queries", queries)
    K = _four_axes("keys", keys)
    layers, heads, n, d = Q.shape
    if K.shape[0] != layers or K.shape[2:] != (n, d) or heads % max(K.shape[1], 1):
        raise invalid_argument("keys", f"of the shape of the queries, {Q.shape}", K)
    for name, array in (("queries", Q), ("keys", K)):
        if not np.isfinite(array).all():
            raise invalid_argument(name, "finite", array)
    A = np.empty((layers, heads, n, n), np.float32 if Q.dtype.itemsize <= 4 else np.float64)
    group = heads // K.shape[1]
    for layer, head in np.ndindex(layers, heads):
        q, k = (np.asarray(x, np.float64) for x in (Q[layer, head], K[layer, head // group]))
        A[layer, head] = attention_matrix(q @ k.T / d**0.5, 1.0, causal=causal)
    return attention_maps(A, head_dimension=d, source=source)


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
        Weights after the softmax, scores before it, or queries and keys; "auto" uses the arrays'
        names, and treats an array of another name as weights.
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
    """Return whether a file holds attention maps, not a table or sequences.

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


def _four_axes(name: str, values: Any) -> Array:
    array: Array = np.asanyarray(converted(name, values))
    if array.dtype.kind not in "fiu":
        raise invalid_argument(name, "made of real numbers", array.dtype.name)
    given = array
    for axis in (0, 1):  # a batch of one text, before the layers or after them
        if array.ndim > 4 and array.shape[axis] == 1:
            array = np.squeeze(array, axis)
    if not 2 <= array.ndim <= 4:
        raise invalid_argument(
            name, "of shape (layers, heads, n, n), (heads, n, n) or (n, n)", given
        )
    if not array.size:
        raise invalid_argument(name, "at least one number", given)
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _check_rows(A: Floats, layer: int, head: int) -> None:
    """Raise unless every row is a distribution, to the precision of short floats."""
    place = _name(layer, head)
    if not np.isfinite(A).all():
        raise ValueError(f"attention must be finite, got {_first_bad(A)} in {place}.")
    if A.min() < -1e-6:
        i = int(A.min(axis=1).argmin())
        raise ValueError(f"attention must be at least 0, got {A.min():.3g} in row {i} of {place}.")
    sums = A.sum(axis=1)
    i = int(np.abs(sums - 1).argmax())
    if abs(sums[i] - 1) > _SUM_ERROR:
        raise ValueError(
            "attention must have rows that sum to one (scores before the softmax are another "
            f"kind), got {sums[i]:.4g} in row {i} of {place}."
        )


def _first_bad(A: Floats) -> str:
    bad = ~np.isfinite(A)
    i, j = np.argwhere(bad)[0]
    return f"{A[i, j]} in row {i}"


def _name(layer: int, head: int) -> str:
    return f"layer {layer}, head {head}"


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
