"""Sweeps described in a small TOML file.

The keys are the arguments of `Sweep`. Where a list of numbers may stand, a table may stand that
says how to make it: ``{ start = 0.0, stop = 2.0, points = 21 }``, with ``spacing = "log"`` for a
geometric one.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._checks import choice, count, invalid_argument, real
from attnlaw.sweeps.grid import Sweep

__all__ = ["load_sweep", "sweep_from_mapping"]

RANGE = ("start", "stop", "points", "spacing")
MOST_POINTS = 1_000_000  # of a range


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep from a TOML file.

    Parameters
    ----------
    path : str or Path
        The file. It is data only; nothing in it is executed.

    Raises
    ------
    ValueError
        Naming the key that is unknown, missing or wrong.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write('''
    ...         dimension = 200
    ...         vocab_ratio = 0.5
    ...         sample_ratio = [0.2, 0.4]
    ...         signal_norm = { start = 0.0, stop = 2.0, points = 21 }
    ...         weights = ["mean", "optimal"]
    ...         correlation = { kind = "prefix", length = 20, prefix = 5 }
    ...     ''')
    ...     file.flush()
    ...     load_sweep(file.name).n_cells
    4
    """
    try:
        text = Path(path).read_text("utf-8-sig")  # some editors begin with a mark
    except UnicodeDecodeError:
        raise invalid_argument("the grid file", "text in UTF-8", str(path)) from None
    try:
        mapping = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} must be a TOML file, got an error: {error}.") from None
    return sweep_from_mapping(mapping)


def sweep_from_mapping(mapping: Mapping[str, Any]) -> Sweep:
    """Return the sweep that a mapping (of a TOML file, say) describes.

    Examples
    --------
    >>> sweep_from_mapping({"dimension": 100})
    Traceback (most recent call last):
    ValueError: vocab_ratio must be given, got None.
    """
    known = {field.name: field.default for field in fields(Sweep)}
    for name in mapping:
        if name not in known:
            raise invalid_argument("a key of the grid", "one of " + ", ".join(known), name)
    for name, default in known.items():
        if default is MISSING and name not in mapping:
            raise invalid_argument(name, "given", None)
    arguments = {name: _expanded(name, value) for name, value in mapping.items()}
    correlation = arguments["correlation"]
    if isinstance(correlation, Mapping):
        arguments["correlation"] = {
            name: _expanded(f"correlation.{name}", value) for name, value in correlation.items()
        }
    return Sweep(**arguments)


def _expanded(name: str, value: Any) -> Any:
    """Return the numbers of a range, or the value itself if it is not a range."""
    if not isinstance(value, Mapping) or not {"start", "stop", "points"} & set(value):
        return value
    for key in value:
        if key not in RANGE:
            raise invalid_argument(f"a key of {name}", "one of " + ", ".join(RANGE), key)
    for key in RANGE[:3]:
        if key not in value:
            raise invalid_argument(f"{name}.{key}", "given", None)
    n = count(f"{name}.points", value["points"], at_least=2)
    if n > MOST_POINTS:
        raise invalid_argument(f"{name}.points", f"at most {MOST_POINTS:,}", n)
    start, stop = (float(real(f"{name}.{key}", value[key])) for key in ("start", "stop"))
    if choice(f"{name}.spacing", value.get("spacing", "linear"), ("linear", "log")) == "linear":
        return np.linspace(start, stop, n).tolist()
    real(f"{name}.start", start, above=0)
    real(f"{name}.stop", stop, above=0)
    return np.geomspace(start, stop, n).tolist()
