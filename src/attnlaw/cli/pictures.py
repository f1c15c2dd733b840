"""`attnlaw reproduce`, the figures of the papers; `attnlaw explore`, the laws under sliders."""

import secrets
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from attnlaw._machine import require
from attnlaw.cli.options import FOLDER, json_option
from attnlaw.cli.output import in_letters, print_json, print_table
from attnlaw.figures import FIGURES

if TYPE_CHECKING:
    from attnlaw.figures.reproduction import Reproduced

__all__ = ["explore", "reproduce"]

REPRODUCE_EPILOG = """\b
Examples:
  attnlaw reproduce --quick
  attnlaw reproduce bulk alignment --out my-figures --jobs 1

An interrupted run resumes when it is started again with the same options.
"""


@click.command(epilog=REPRODUCE_EPILOG)
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option(
    "--out",
    type=FOLDER,
    default=Path("reproduction"),
    show_default=True,
    help="Folder for the report, pictures and tables.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Small sizes and few trials: two minutes instead of four, on two cores.",
)
@click.option(
    "--jobs", type=int, default=2, show_default=True, help="Number of processes, one figure each."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the random numbers.")  # fmt: skip
@click.option(
    "--table",
    type=click.Path(exists=True, path_type=Path),
    help="Your own embedding table for the figure embedding_table.",
)
@click.option("--list", "only_list", is_flag=True, help="Name the figures and stop.")
@json_option
def reproduce(
    figures: tuple[str, ...],
    out: Path,
    quick: bool,
    jobs: int,
    seed: int,
    table: Path | None,
    only_list: bool,
    as_json: bool,
) -> None:
    """Compute, draw and check the figures of the papers (all of them, or those named).

    A comparison of theory with simulation agrees within its tolerance, differs as known (the
    formula is an approximation there, and the report says why), or is unexpected.
    """
    for module in ("matplotlib", "jinja2", "latex2mathml"):  # before any work is done
        require(module, extra="figures", purpose="attnlaw reproduce")
    from attnlaw.figures import load_figure, reproduction

    if only_list:
        print_table(["figure", ""], [[name, load_figure(name).title] for name in FIGURES])
        return
    names = list(dict.fromkeys(figures)) or list(FIGURES)
    cost = {name: load_figure(name).seconds[not quick] for name in names}
    with _progress(cost, out) as told:
        done = reproduction.reproduce(
            names, out=out, quick=quick, n_jobs=jobs, seed=seed, table=table, progress=told
        )
    report = reproduction.write_report(done, out, quick=quick)
    if as_json:
        print_json({"report": str(report), "figures": [_document(figure) for figure in done]})
        return
    print_table(
        ["figure", "verdict", "seconds"],
        [[figure.name, figure.verdict, f"{figure.seconds:.1f}"] for figure in done],
    )
    for line in _differences(done):
        click.echo(line)
    click.echo(f"report: {report}")


def _differences(done: "list[Reproduced]") -> Iterator[str]:
    """Say of each comparison beyond its tolerance by how much, and why if that is known."""
    for figure in done:
        for check in figure.checks:
            if check.agrees:
                continue
            numbers = f"predicted {check.predicted:.4g}, observed {check.observed:.4g}"
            known = check.verdict == "differs as known"
            reason = f" {check.explanation}" if known else ""
            word = "As known" if known else "Unexpected"
            yield in_letters(f"{word}, {figure.name}: {check.quantity}: {numbers}.{reason}\n")


def _document(figure: "Reproduced") -> dict[str, Any]:
    checks = [vars(c) | {"difference": c.difference, "verdict": c.verdict} for c in figure.checks]
    return vars(figure) | {"verdict": figure.verdict, "checks": checks}


class _progress:
    """A bar over the figures' expected cost, with the figures at work and the time left."""

    def __init__(self, cost: dict[str, float], out: Path) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.cost, self.out, self.running = cost, out, list[str]()
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.percentage:3.0f} %"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=sum(cost.values()))

    def __call__(self, name: str, state: str) -> None:
        if state == "started":
            self.running.append(name)
        else:
            self.running.remove(name)
            self.bar.advance(self.task, self.cost[name])
        self.bar.update(self.task, description=", ".join(self.running))

    def __enter__(self) -> "_progress":
        if not self.bar.disable:  # else older versions of rich print an empty line
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.bar.disable:
            self.bar.stop()
        if kind is KeyboardInterrupt:
            click.echo(
                f"Stopped; the figures done so far are kept in {self.out}. "
                "Run the same command again to resume.",
                err=True,
            )


EXPLORE_EPILOG = """\b
Examples:
  attnlaw explore
  attnlaw explore --port 9000 --no-browser
  attnlaw explore --host 0.0.0.0 --no-browser
"""


@click.command(epilog=EXPLORE_EPILOG)
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
    help="Access token of visitors.  [default: none here, a random one beyond this machine]",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def explore(host: str, port: int, token: str | None, no_browser: bool) -> None:
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
        if isinstance(error, socket.gaierror):
            raise ValueError(f"--host must be an address of this machine, got {host!r}.") from None
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
