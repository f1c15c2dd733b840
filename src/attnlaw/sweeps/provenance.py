"""What the numbers of a sweep depend on besides the sweep: the code and the libraries."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import attnlaw

__all__ = ["difference", "fingerprint", "source_files"]

ROOT = Path(attnlaw.__file__).parent
LIBRARIES = ("numpy", "scipy", "numba")
SOURCES = (
    "_checks.py",
    "correlations.py",
    "weights.py",
    "models",
    "results.py",
    "simulation",
    "sweeps/parameters.py",
    "sweeps/grid.py",
    "sweeps/cells.py",
)


@cache
def fingerprint() -> dict[str, str]:
    """Return the version of attnlaw and of the libraries it computes with, and of its source.

    The source is told by a digest of the files that decide what a cell observes, so that an
    edited simulation is noticed even when the version is the same.

    Examples
    --------
    >>> sorted(fingerprint())[:2]
    ['attnlaw', 'numba']
    """
    return {
        "attnlaw": attnlaw.__version__,
        **{name: _version(name) for name in LIBRARIES},
        "source": _source_digest(),
    }


def difference(there: dict[str, str]) -> str:
    """Say in what another fingerprint differs from the one here; "" if in nothing."""
    here = fingerprint()
    for name in ("attnlaw", *LIBRARIES):
        if there.get(name) != here[name]:
            return f"{name} {there.get(name)} there, {here[name]} here"
    if there.get("source") != here["source"]:
        return f"attnlaw {here['attnlaw']} on both sides, but its source has been edited"
    return ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def source_files() -> list[Path]:
    """Return the files that decide what a cell observes."""
    files: list[Path] = []
    for source in SOURCES:
        path = ROOT / source
        files += [path] if path.suffix else sorted(path.rglob("*.py"))
    return files


def _source_digest() -> str:
    digest = hashlib.sha256()
    for file in source_files():
        digest.update(file.relative_to(ROOT).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
