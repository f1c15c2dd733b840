"""What a grid may vary: numbers, and correlations and weights by name.

A parameter that is a single value is fixed; a list (or array) of values is an axis of the grid.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import choice, count, invalid_argument, real_array, scalar
from attnlaw.correlations import KINDS
from attnlaw.weights import NAMES

__all__ = ["axis", "correlation_parameters", "weight_vectors"]

Value = TypeVar("Value", bool, int, float, str)

REQUIRED: dict[str, tuple[str, ...]] = {
    "prefix": ("length", "prefix"),
    "autoregressive": ("length", "coefficient"),
    "spiked": ("strength", "direction"),
    "matrix": ("matrix",),
}
DEFAULTS: dict[str, dict[str, float]] = {"prefix": {"within": 1.0}}
WHOLE = ("length", "prefix")  # parameters that are whole numbers
ARRAYS = ("direction", "matrix")  # parameters that are arrays and so never axes


def axis(name: str, value: Any, check: Callable[[str, Any], Value]) -> Value | tuple[Value, ...]:
    """Return a fixed value, or the values of an axis: at least one and no two the same.

    Examples
    --------
    >>> axis("dimension", [100, 200], count)
    (100, 200)
    >>> axis("dimension", 100, count)
    100
    """
    if hasattr(value, "__array__"):  # of NumPy, pandas, xarray
        value = np.asarray(value).tolist()
    if isinstance(value, str) or not isinstance(value, Sequence):
        return check(name, value)
    values = tuple(check(name, item) for item in value)
    if not values:
        raise invalid_argument(name, "a value or a list of at least one value", value)
    if len(set(values)) < len(values):
        raise invalid_argument(name, "a list of different values", value)
    return values


def number(**bounds: float) -> Callable[[str, Any], float]:
    """Return a check for a single real number within bounds."""

    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or np.ndim(value):
            raise invalid_argument(name, "a number or a flat list of numbers", value)
        return scalar(name, value, **bounds)

    return check


def option(*options: str) -> Callable[[str, Any], str]:
    """Return a check for one of several words."""
    return lambda name, value: choice(name, value, options)


def truth(name: str, value: Any) -> bool:
    """Check for True or False."""
    if not isinstance(value, bool | np.bool_):
        raise invalid_argument(name, "true or false", value)
    return bool(value)


def correlation_parameters(correlation: Mapping[str, Any] | ArrayLike) -> dict[str, Any]:
    """Return a correlation as its kind and parameters, each fixed or an axis.

    Parameters
    ----------
    correlation : mapping or array of shape (length, length)
        ``{"kind": "prefix", "length": 20, "prefix": [2, 5]}`` and so on, or a matrix.

    Examples
    --------
    >>> correlation_parameters({"kind": "prefix", "length": 20, "prefix": [2, 5]})
    {'kind': 'prefix', 'length': 20, 'prefix': (2, 5), 'within': 1.0}
    """
    if isinstance(correlation, str | int | float):
        raise invalid_argument("correlation", "a table with a kind, or a matrix", correlation)
    if not isinstance(correlation, Mapping):
        correlation = {"kind": "matrix", "matrix": correlation}
    given = dict(correlation)
    if "kind" not in given:
        raise invalid_argument("correlation.kind", "one of " + _listed(KINDS), None)
    kind = choice("correlation.kind", given.pop("kind"), tuple(KINDS))
    known = (*REQUIRED[kind], *DEFAULTS.get(kind, {}))
    for name in given:
        if name not in known:
            raise invalid_argument(
                f"a key of the {kind} correlation", "one of " + _listed(known), name
            )
    for name in REQUIRED[kind]:
        if name not in given:
            raise invalid_argument(f"correlation.{name}", f"given for the kind {kind!r}", None)
    given = {**DEFAULTS.get(kind, {}), **given}
    parameters: dict[str, Any] = {"kind": kind}
    for name in known:
        label = f"correlation.{name}"
        if name in ARRAYS:
            parameters[name] = real_array(label, given[name])
        elif name in WHOLE:
            parameters[name] = axis(label, given[name], lambda n, v: count(n, v, at_least=0))
        else:
            parameters[name] = axis(label, given[name], number())
    return parameters


def weight_vectors(weights: Any) -> str | dict[str, str | tuple[float, ...]]:
    """Return the one name if the weights are fixed, else what each label stands for.

    Parameters
    ----------
    weights : str, list of str, mapping of label to name or vector, or vector
        Names are those of `attnlaw.weights.by_name`.

    Examples
    --------
    >>> weight_vectors("mean")
    'mean'
    >>> weight_vectors({"mean": "mean", "first": [1, 0]})
    {'mean': 'mean', 'first': (1.0, 0.0)}
    """
    name = option(*NAMES)
    if isinstance(weights, str):
        return name("weights", weights)
    if isinstance(weights, Mapping):
        if not weights:
            raise invalid_argument("weights", "at least one", {})
        vectors = {
            str(label): name(f"weights.{label}", value)
            if isinstance(value, str)
            else tuple(real_array(f"weights.{label}", value, ndim=1).tolist())
            for label, value in weights.items()
        }
        if len(vectors) < len(weights):
            raise invalid_argument(
                "weights", "a table of labels that differ as text", list(weights)
            )
        return vectors
    if isinstance(weights, np.ndarray) and weights.dtype.kind == "U":
        weights = weights.tolist()
    if isinstance(weights, Sequence) and any(isinstance(item, str) for item in weights):
        if all(isinstance(item, str) for item in weights):
            return {label: label for label in axis("weights", list(weights), name)}
    else:
        w = real_array("weights", weights)
        if w.ndim == 1 and len(w):
            return {"given": tuple(w.tolist())}
    what = "a name, a list of names, one vector, or a table of labels with names and vectors"
    raise invalid_argument("weights", what, weights)


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))
