"""How commands answer: one JSON document, or tables for people."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from attnlaw._store import atomic_path
from attnlaw.cli.program import LATE_CONTROLS, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "describe_model",
    "print_json",
    "print_table",
    "progress_bar",
    "save_json",
    "save_picture",
    "shown",
    "working",
]


def print_json(document: Any) -> None:
    """Print one JSON document; numbers that are not finite become null."""
    text = json.dumps(_jsonable(document), indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(re.sub(f"[{LATE_CONTROLS}]", lambda c: f"\\u{ord(c[0]):04x}", text))


def save_json(path: Path, document: Any) -> None:
    """Write the same document to a file."""
    text = json.dumps(_jsonable(document), indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def save_picture(path: Path, picture: "Figure", dpi: int = 150) -> None:
    """Write a matplotlib figure to a file, and free it."""
    import matplotlib.pyplot as plt

    with atomic_path(path) as partial:
        picture.savefig(partial, dpi=dpi)
    plt.close(picture)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on the terminal, not in the output, that something goes on, and for how long."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    if not console.is_terminal:
        yield
        return
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while people watch; what it yields takes the number done so far."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _jsonable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _jsonable(asdict(value))
    if hasattr(value, "_asdict"):  # fields of a named tuple keep their names
        return _jsonable(value._asdict())
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table and an empty line; words to the left, numbers to the right."""
    columns = []
    for heading, *values in zip(headings, *rows, strict=True):
        cells = [heading, *map(shown, values)]
        width = max(map(len, cells))
        cells.insert(1, "─" * width)
        has_numbers = any(map(_is_number, values))
        columns.append([c.rjust(width) if has_numbers else c.ljust(width) for c in cells])
    for line in zip(*columns, strict=True):
        click.echo("  ".join(line).rstrip())
    click.echo()


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def shown(value: Any) -> str:
    """Write a cell: six digits of a number, a word for a truth value, a dash for what is not."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "–" if math.isnan(value) else f"{value:.6g}".replace("inf", "∞")
    return visible(str(value))


def describe_model(model: Any) -> dict[str, Any]:
    """Return what a document says of its model: the parameters and the gains of the weights."""
    names = ("vocab_ratio", "sample_ratio", "signal_norm", "sampling", "centred", "length")
    gains = ("signal_gain", "noise_gain", "snr", "effective_length")
    described = {name: getattr(model, name) for name in (*names, *gains)}
    words = getattr(model, "vocabulary", None)
    if words is not None:
        described |= {"n_vocab": words.n_tokens, "effective_vocabulary": words.effective_size}
    return described
