"""What the explorer lets in: hosts, origins, a token, and requests and files of bounded size.

A page of another site must not talk to the explorer through the reader's browser. The name in
``Host`` is therefore one of this server's own (a site may point its own name at 127.0.0.1), and
requests that change something come from the explorer's pages (``Origin``). Answers allow no
scripts but the explorer's own, and no frames. Beyond loopback a visitor gives a token once.
"""

import base64
import binascii
import hmac
import ipaddress
import logging
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dash import Dash
from flask import Response, g, redirect, request
from werkzeug.exceptions import HTTPException

from attnlaw._checks import invalid_argument

__all__ = [
    "LARGEST_FILE",
    "LARGEST_REQUEST",
    "decoded",
    "file_name",
    "guard",
    "is_loopback",
    "temporary_file",
]

LARGEST_FILE = 64 * 2**20
"""Bytes of a dropped file."""

LARGEST_REQUEST = 96 * 2**20
"""Bytes of a request; an upload travels as text, a third longer than its file."""

LARGE, MOST_PARTS = 2**20, 2000
"""A request of more bytes is an upload, one long text: it has few brackets and commas."""

COOKIE = "attnlaw-token"
HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}

_log = logging.getLogger(__name__)


def guard(app: Dash, host: str, token: str | None) -> None:
    """Check every request to an application, and say in every answer what it may do.

    Parameters
    ----------
    app : Dash
        With all its callbacks: the scripts in its page are allowed by their digests.
    host : str
        Address that the server listens at.
    token : str or None
        What a visitor gives, as ``?token=…`` once or in ``Authorization: token …``.
    """
    server: Any = app.server
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
    scripts = " ".join(dict.fromkeys(app.csp_hashes()))  # of callbacks, many of them alike
    policy = (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
        "worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    uploads = threading.BoundedSemaphore(2)

    @server.before_request  # type: ignore[untyped-decorator]
    def _check() -> Any:
        if not _is_own_name(request.host, host):
            return _refusal(403, f"The host {request.host[:80]!r} is not one of this explorer's.")
        if not _is_own_origin():
            return _refusal(403, "The request must come from a page of this explorer.")
        if token is not None and not _knows(token):
            return _refusal(403, "This explorer asks for the token of its address: /?token=…")
        if token is not None and "token" in request.args:
            answer = redirect(request.path)  # the token leaves the address bar and the history
            answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
            return answer
        return _check_body(uploads) if request.method == "POST" else None

    @server.teardown_request  # type: ignore[untyped-decorator]
    def _end(_: Any) -> None:
        if g.pop("is_upload", False):
            uploads.release()

    @server.after_request  # type: ignore[untyped-decorator]
    def _limit(answer: Response) -> Response:
        answer.headers.update(HEADERS)
        answer.headers["Content-Security-Policy"] = policy
        return answer

    @server.errorhandler(Exception)  # type: ignore[untyped-decorator]
    def _fail(error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return _refusal(error.code or 500, f"{error.name}.")
        _log.debug("refused a request", exc_info=error)
        return _refusal(400, f"The request fails with {type(error).__name__}: it is no page's.")


def _refusal(code: int, sentence: str) -> Response:
    return Response(sentence + "\n", code, content_type="text/plain; charset=utf-8")


def _is_own_name(given: str, host: str) -> bool:
    """Whether the name that a browser looked up belongs to the address listened at."""
    try:
        name = (urlsplit(f"//{given}").hostname or "").lower()
    except ValueError:
        return False
    if name in LOCAL_NAMES or name == host.lower():
        return True
    if is_loopback(host):
        return False
    return _is_address(name) or name in {socket.gethostname().lower(), socket.getfqdn().lower()}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    return ipaddress.ip_address(host).is_loopback if _is_address(host) else host == "localhost"


def _is_own_origin() -> bool:
    """Whether a request comes from a page of this server, or from no page at all."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        return False
    came_from = request.headers.get("Sec-Fetch-Site", "none")
    return request.method in ("GET", "HEAD") or came_from in ("none", "same-origin")


def _knows(token: str) -> bool:
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    shown = [
        request.args.get("token", ""),
        request.cookies.get(COOKIE, ""),
        given if kind.lower() in ("token", "bearer") else "",
    ]
    return any(hmac.compare_digest(text.encode(), token.encode()) for text in shown)


def _check_body(uploads: threading.BoundedSemaphore) -> Response | None:
    """Refuse what no page sends: its parts, as objects, would take thirty times its bytes."""
    if (request.content_length or 0) > LARGE:
        if not uploads.acquire(blocking=False):
            return _refusal(503, "Other files are being read; try again in a moment.")
        g.is_upload = True
        body = request.get_data()
        if sum(body.count(mark) for mark in (b"[", b"{", b",")) > MOST_PARTS:
            return _refusal(400, f"A request over {LARGE} bytes must be one file.")
    content = request.get_json(silent=True)
    if request.path.startswith("/_moved/"):
        return _check_question(content)
    if not isinstance(content, dict) or not isinstance(content.get("output"), str):
        return _refusal(400, "The request must be a JSON object that names its output.")
    for name in ("inputs", "state"):
        parts = content.get(name, [])
        if not isinstance(parts, list) or not all(map(_is_property, parts)):
            return _refusal(400, f"{name} must be a list of properties.")
    changed = content.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(name, str) for name in changed):
        return _refusal(400, "changedPropIds must be a list of names.")
    return None


def _check_question(content: Any) -> Response | None:
    """Refuse what `sliders.js` does not ask."""
    keys = {"values", "theme", "narrow", "hold", "extra"}
    if not isinstance(content, dict) or set(content) != keys:
        return _refusal(400, f"The request must be a JSON object with {', '.join(sorted(keys))}.")
    if not isinstance(content["values"], dict):
        return _refusal(400, "values must be an object.")
    return None


def _is_property(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(part.get(k), str) for k in ("id", "property"))


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
    """Keep a file in a temporary folder of its own, which is removed in the end.

    That is when the block is left, or when the process ends, by SIGTERM, too (`explore`).
    """
    with tempfile.TemporaryDirectory(prefix="attnlaw-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path
