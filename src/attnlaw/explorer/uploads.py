"""Files that readers drop: bounded, kept in a temporary folder while they are read, never run."""

import base64
import binascii
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlaw._checks import invalid_argument

__all__ = ["LARGEST_FILE", "decoded", "file_name", "temporary_file"]

LARGEST_FILE = 64 * 2**20
"""Bytes of a dropped file."""


def decoded(contents: Any) -> bytes:
    """Return the bytes of a file as the browser sends it, a data URL.

    Examples
    --------
    >>> decoded("data:text/plain;base64,aGk=")
    b'hi'
    """
    limit = f"at most {LARGEST_FILE // 2**20} MiB long"
    if not isinstance(contents, str):
        raise invalid_argument("the file", "sent as text", type(contents).__name__)
    if len(contents) > LARGEST_FILE * 4 / 3 + 1000:
        raise invalid_argument("the file", limit, f"about {len(contents) * 3 / 4 / 2**20:.0f} MiB")
    try:
        return base64.b64decode(contents.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument("the file", "sent in base 64", contents[:40]) from None


def file_name(name: Any) -> str:
    """Return a harmless name that a reader recognises: no folders, no odd characters.

    Examples
    --------
    >>> file_name("../../etc/pass wd.npy")
    'pass_wd.npy'
    """
    last = re.split(r"[/\\\\]", str(name))[-1]
    return re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".")[-80:] or "file"


@contextmanager
def temporary_file(content: bytes, name: str) -> Iterator[Path]:
    """Keep a file in a temporary folder of its own, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="attnlaw-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path
