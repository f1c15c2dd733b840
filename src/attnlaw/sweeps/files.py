"""Files that survive a kill at any moment: replaced as a whole, locked by one writer."""

import errno
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "StoreError",
    "exclusive",
    "replace_file",
    "require_room",
    "sync_directory",
    "writable",
]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StoreError(ValueError):
    """A store cannot be used in the way that was asked for."""


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Name the file when the system refuses to write it, and say what becomes of the work."""
    try:
        yield
    except OSError as error:
        full = "; what is done is kept, and the same sweep goes on once there is room"
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


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, and put it in its place once it is on disk."""
    partial = path.with_name(path.name + ".partial")
    try:
        with writable(path):
            write(partial)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
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
