"""Files that survive a kill at any moment, checksums, and fingerprints of the software.

A file is replaced as a whole or not at all (`atomic_path`), a folder has one writer at a time
(`exclusive`), and what was computed by other software is recognised (`fingerprint`).
"""

import errno
import hashlib
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import attnlaw

__all__ = [
    "StoreError",
    "atomic_path",
    "checksum",
    "exclusive",
    "file_checksum",
    "fingerprint",
    "fingerprint_difference",
    "require_room",
    "source_files",
    "writable",
]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ROOT = Path(attnlaw.__file__).parent
LIBRARIES = ("numpy", "scipy", "numba")


class StoreError(ValueError):
    """A store cannot be used in the way that was asked for."""


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Name the file when the system refuses to write it, and say what becomes of the work."""
    try:
        yield
    except OSError as error:
        full = "; what is done is kept, and the same run goes on once there is room"
        raise StoreError(
            f"{path} must be writable, got {error.strerror or str(error)!r}"
            f"{full if error.errno in FULL else ''}."
        ) from error


def require_room(path: Path, n_bytes: int) -> None:
    """Refuse, before any work is done, to begin what the disk cannot hold."""
    free = shutil.disk_usage(path).free
    if n_bytes > free:
        raise StoreError(
            f"{path} must be on a disk with {n_bytes / 1e6:,.1f} MB of room for the results, got "
            f"{free / 1e6:,.1f} MB."
        )


@contextmanager
def atomic_path(path: Path, *, only_writer: bool = False) -> Iterator[Path]:
    """Write to the path this gives; it replaces `path` when the block ends without an error.

    Parameters
    ----------
    path : Path
        The file; its folder is made if need be.
    only_writer : bool
        Whether no other process writes this file (`exclusive`). The unfinished file then has
        a name of its own, so that what a kill leaves behind is overwritten the next time.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder) / "sizes.json") as partial:
    ...         _ = partial.write_text("[1, 2]")
    ...     [file.name for file in Path(folder).iterdir()]
    ['sizes.json']
    """
    mark = "partial" if only_writer else str(os.getpid())
    partial = path.with_name(f".{mark}-{path.name}")  # the suffix stays: savefig reads it
    try:
        with writable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(partial, path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Bring the names of the files in a folder to disk, where the system can."""
    with suppress(OSError):  # Windows cannot
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases when its owner dies, however it dies."""
    with writable(path):
        file = path.open("a+")
    with file:
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError):
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise StoreError(
                f"{path.parent} must be a store that nobody else is writing, got one that "
                f"{owner} is writing."
            ) from None
        with suppress(OSError):  # the lock holds on a full disk, too, which has no room for a name
            file.truncate(0)
            name = f"process {os.getpid()} on {socket.gethostname()}\n"
            os.write(file.fileno(), name.encode())
        try:
            yield
        finally:
            with suppress(OSError):
                file.truncate(0)


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        os.lseek(handle, 2**30, os.SEEK_SET)  # beyond the text, which others may then read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def checksum(parts: Iterable[bytes | str]) -> str:
    """Return the SHA-256 of the parts, one after the other, as 64 hexadecimal digits.

    Examples
    --------
    >>> checksum(["ab", b"c"])[:8]
    'ba7816bf'
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_files(parts: Iterable[str] = ("",)) -> list[Path]:
    """Return the Python files of parts of this package: files or folders, "" for all of it."""
    files: list[Path] = []
    for part in parts:
        path = ROOT / part
        files += [path] if path.suffix else sorted(path.rglob("*.py"))
    return files


@cache
def fingerprint(parts: tuple[str, ...] = ("",)) -> dict[str, str]:
    """Return the versions of attnlaw, NumPy, SciPy and numba, and a checksum of source files.

    Parameters
    ----------
    parts : tuple of str
        Parts of this package, as `source_files` takes them. Any edit of those files changes the
        checksum, a comment as well as a formula; edits elsewhere are not noticed.

    Examples
    --------
    >>> sorted(fingerprint())
    ['attnlaw', 'numba', 'numpy', 'scipy', 'source']
    """
    names_and_texts = (
        text
        for file in source_files(parts)
        for text in (file.relative_to(ROOT).as_posix(), file.read_bytes())
    )
    return {
        "attnlaw": attnlaw.__version__,
        **{name: _version(name) for name in LIBRARIES},
        "source": checksum(names_and_texts),
    }


def fingerprint_difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Say in what two fingerprints differ; "" if in nothing."""
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
