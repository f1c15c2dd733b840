"""`attnlaw explore`: the library under sliders, in a browser."""

import ipaddress
import threading
import webbrowser

import click

from attnlaw._extras import require

__all__ = ["command"]

EPILOG = """\b
Examples:
  attnlaw explore
  attnlaw explore --port 9000 --no-browser
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
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def command(host: str, port: int, no_browser: bool) -> None:
    """Explore the laws in a browser: sliders, phase diagrams, simulations, your own data.

    The page is served on this machine alone and loads nothing from the network. Ctrl-C ends it.
    """
    for module in ("dash", "dash_mantine_components", "waitress"):
        require(module, extra="explorer", purpose="The explorer")
    from attnlaw.explorer import serve

    try:
        server = serve(host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"port {port} of {host} cannot be used ({reason}); choose another with --port."
        ) from None
    if not _is_loopback(host):
        click.echo(
            f"attnlaw: note: {host} is reachable from other machines, and anyone there can run "
            "simulations on this one.",
            err=True,
        )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{server.effective_port}/"
    click.echo(f"The explorer is at {address} (Ctrl-C ends it)")
    if not no_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        server.run()
    finally:
        server.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
