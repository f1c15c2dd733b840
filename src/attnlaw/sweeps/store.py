"""The store of a sweep: a directory that a kill at any moment leaves whole.

=====================  ===========================================================
``manifest.json``      the sweep, the versions and a digest of the source
``lock``               held by the one writer; the system frees it when that dies
``cells.journal``      what each finished cell observed, appended as it comes
``results.nc``         the labelled dataset, put in place after the last cell
=====================  ===========================================================

Once ``results.nc`` is in place the journal is removed: the order in which cells were finished,
and how often the sweep was interrupted, leaves no trace.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlaw.sweeps.files import StoreError, exclusive, replace_file, writable
from attnlaw.sweeps.grid import Sweep
from attnlaw.sweeps.provenance import difference, fingerprint

__all__ = [
    "JOURNAL",
    "RESULTS",
    "check_same",
    "is_finished",
    "put_results",
    "read_manifest",
    "writing",
]

FORMAT = "attnlaw sweep 1"
MANIFEST, LOCK, JOURNAL, RESULTS = "manifest.json", "lock", "cells.journal", "results.nc"


@contextmanager
def writing(path: Path, sweep: Sweep) -> Iterator[None]:
    """Begin or continue the store of a sweep, as its only writer.

    Raises
    ------
    StoreError
        When somebody else is writing, when the store is that of another sweep or version, or
        when the directory holds other things.
    """
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} must be a directory, got a file.")
    if path.exists() and not (path / MANIFEST).exists():
        others = [p.name for p in path.iterdir() if p.name not in (LOCK, f"{MANIFEST}.partial")]
        if others:
            raise StoreError(
                f"{path} must be a new directory or the store of a sweep, got a directory that "
                f"holds {others[0]!r} and no {MANIFEST}."
            )
    with writable(path):
        path.mkdir(parents=True, exist_ok=True)
    with exclusive(path / LOCK):
        if (path / MANIFEST).exists():
            check_same(path, sweep)
        else:
            text = json.dumps(_manifest(sweep), indent=1, ensure_ascii=False)
            replace_file(path / MANIFEST, lambda partial: partial.write_text(text, "utf-8"))
        yield


def put_results(path: Path, write: Callable[[Path], object]) -> None:
    """Put the dataset in place, written by `write(path)`, and remove the journal."""
    if not (path / RESULTS).exists():
        replace_file(path / RESULTS, write)
    (path / JOURNAL).unlink(missing_ok=True)


def read_manifest(path: Path) -> tuple[Sweep, dict[str, str]]:
    """Read the sweep of a store, and the fingerprint of the code that it was begun with."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"{path} must be the store of a sweep, got no {MANIFEST} in it."
        ) from None
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StoreError(f"{path / MANIFEST} must be a manifest in the format {FORMAT!r}.")
    checksum = manifest.pop("checksum", None)
    if checksum != _checksum(manifest):
        raise StoreError(
            f"{path / MANIFEST} must be as it was written, got a checksum that does not match."
        )
    return Sweep(**manifest["sweep"]), manifest["software"]


def is_finished(path: Path) -> bool:
    """Return whether there is nothing left to write."""
    return (path / RESULTS).exists() and not (path / JOURNAL).exists()


def check_same(path: Path, sweep: Sweep) -> None:
    """Raise when a store is that of another sweep or another version."""
    there, software = read_manifest(path)
    changed = difference(software)
    if changed:
        raise StoreError(
            f"{path} must be continued by the code that began it, got {changed}; continue with "
            "that code, or begin a new store."
        )
    ours, theirs = sweep.as_mapping(), there.as_mapping()
    for name in ours:
        if json.dumps(ours[name]) != json.dumps(theirs[name]):  # the order of weights counts
            raise StoreError(
                f"{path} must be the store of this very sweep, got another {name}: "
                f"{_short(theirs[name])} there, {_short(ours[name])} here; give the new sweep a "
                "store of its own."
            )


def _manifest(sweep: Sweep) -> dict[str, Any]:
    manifest = {"format": FORMAT, "software": fingerprint(), "sweep": sweep.as_mapping()}
    return {**manifest, "checksum": _checksum(manifest)}


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
