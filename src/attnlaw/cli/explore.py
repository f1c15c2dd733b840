"""`attnlaw explore`: the library under sliders, in a browser."""

import secrets
import signal
import sys
import threading
import webbrowser
from urllib.parse import urlencode

import click

from attnlaw._machine import require

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw explore
  attnlaw explore --port 9000 --no-browser
  attnlaw explore --host 0.0.0.0 --no-browser
"""


@click.command(epilog=EPILOG)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8050,
    show_default=True,
    help="Port to listen at; 0 takes a free one.",
)
@click.option(
    "--token",
    envvar="ATTNLAW_TOKEN",
    help="What visitors must give.  [default: nothing here, a random one beyond this machine]",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def command(host: str, port: int, token: str | None, no_browser: bool) -> None:
    """Explore the laws in a browser: sliders, phase diagrams, simulations, your own data.

    The page is served on this machine alone and loads nothing from the network. Ctrl-C ends it.
    With another --host, visitors need the token that is part of the address shown.
    """
    for module in ("dash", "dash_mantine_components", "waitress"):
        require(module, extra="explorer", purpose="The explorer")
    from attnlaw.explorer import is_loopback, serve

    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    try:
        server = serve(host, port, token or None)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"port {port} of {host} cannot be used ({reason}); choose another with --port."
        ) from None
    if not is_loopback(host):
        click.echo(
            f"attnlaw: note: {host} is reachable from other machines, and anyone with the token "
            "can run simulations on this one; what is sent is not encrypted.",
            err=True,
        )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{server.effective_port}/"
    if token:
        address += "?" + urlencode({"token": token})
    click.echo(f"The explorer is at {address} (Ctrl-C ends it)")
    if not no_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    if threading.current_thread() is threading.main_thread():  # clean up as after Ctrl-C
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        server.run()
    finally:
        server.close()
