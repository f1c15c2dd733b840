"""`attnlaw reproduce`: the figures of the papers, with verdicts, in one folder."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnlaw._machine import require
from attnlaw.cli.options import json_option
from attnlaw.cli.output import print_json, print_table
from attnlaw.figures import FIGURES

if TYPE_CHECKING:
    from attnlaw.figures.reproduction import Reproduced

__all__ = ["command", "in_letters"]

EPILOG = """\b
Examples:
  attnlaw reproduce --quick
  attnlaw reproduce bulk alignment --out my-figures --jobs 1

A run that was stopped goes on where it was when started again with the same options.
"""


@click.command(epilog=EPILOG)
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Folder for the report, pictures and tables.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Small sizes and few trials: two minutes in place of four, on two cores.",
)
@click.option(
    "--jobs", type=int, default=2, show_default=True, help="Number of processes, one figure each."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--table",
    type=click.Path(exists=True, path_type=Path),
    help="Your own embedding table for the figure embedding_table.",
)
@click.option("--list", "only_list", is_flag=True, help="Name the figures and stop.")
@json_option
def command(
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
    from attnlaw.figures import load_figure
    from attnlaw.figures.reproduction import reproduce, write_report

    if only_list:
        print_table(["figure", ""], [[name, load_figure(name).title] for name in FIGURES])
        return
    names = list(dict.fromkeys(figures)) or list(FIGURES)
    cost = {name: load_figure(name).seconds[not quick] for name in names}
    with _progress(cost, out) as told:
        done = reproduce(
            names, out=out, quick=quick, n_jobs=jobs, seed=seed, table=table, progress=told
        )
    report = write_report(done, out, quick=quick)
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


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "mu": "μ", "lambda": "λ",
    "kappa": "κ", "theta": "θ", "phi": "φ", "varphi": "φ",
}  # fmt: skip

LETTERS: dict[str, Any] = {
    r"\\(alpha|beta|gamma|delta|mu|lambda|kappa|theta|phi|varphi)(?![a-z])": lambda m: GREEK[m[1]],
    r"\\perp": "⊥",
    r"\\sqrt\{([^{}]*)\}": r"√(\1)",
    r"\\sqrt": "√",
    r"\\le\b": "≤",
    r"\\ge\b": "≥",
    r"\\to\b": "→",
    r"\\infty\b": "∞",
    r"\\(?:\||[lr]Vert)": "‖",
    r"\^2\b": "²",
    r"\\[,;!]": " ",
    r"[\\${}]": "",
}
"""Mathematics of the report, as a terminal can show it: patterns in this order."""


def in_letters(text: str) -> str:
    r"""Write the TeX of a sentence in letters.

    Examples
    --------
    >>> in_letters(r"noise of squared norm $\delta$; $d_k\to\infty$, $2\log n/\sqrt{2d_k}$")
    'noise of squared norm δ; d_k→∞, 2log n/√(2d_k)'
    """
    for pattern, letters in LETTERS.items():
        text = re.sub(pattern, letters, text)
    return text


def _document(figure: "Reproduced") -> dict[str, Any]:
    checks = [vars(c) | {"difference": c.difference, "verdict": c.verdict} for c in figure.checks]
    return vars(figure) | {"verdict": figure.verdict, "checks": checks}


class _progress:
    """A bar over the figures' expected cost, with the figures at work and the time left."""

    def __init__(self, cost: dict[str, float], out: Path) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.cost, self.out, self.running = cost, out, list[str]()
        self.bar = Progress(
            TextColumn("{task.percentage:3.0f} %"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
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
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.bar.stop()
        if kind is KeyboardInterrupt:
            click.echo(
                f"Stopped; the figures done so far are kept in {self.out}. "
                "Start the same command again to go on.",
                err=True,
            )
