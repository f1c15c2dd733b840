"""Files that survive a kill at any moment: replaced as a whole, locked by one writer."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["StoreError", "exclusive", "replace_file", "sync_directory"]


class StoreError(ValueError):
    """A store cannot be used in the way that was asked for."""


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, and put it in its place once it is on disk."""
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Bring the names of files in a directory to disk, where the system can."""
    with suppress(OSError):  # Windows has no such thing
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that the system lets go of when its owner dies, however it dies."""
    with path.open("a+") as file:
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError):
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise StoreError(
                f"{path.parent} must be a store that nobody else is writing, got one that "
                f"{owner} is writing."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
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
