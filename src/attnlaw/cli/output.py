"""How commands answer: one JSON document, one table of CSV, or tables for people."""

import csv
import io
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from attnlaw._store import atomic_path
from attnlaw.cli.program import LATE_CONTROLS, say, visible
from attnlaw.theory import first_order_smoothing
from attnlaw.weights import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from attnlaw.models import PooledSequences

__all__ = [
    "RunBar",
    "describe_model",
    "in_letters",
    "print_csv",
    "print_json",
    "print_model",
    "print_table",
    "progress_bar",
    "save_axes",
    "save_json",
    "save_picture",
    "save_text",
    "shown",
    "working",
]

LINE_SECONDS = 60  # between lines of a log


def print_json(document: Any) -> None:
    """Print one JSON document; numbers that are not finite become null."""
    text = _written(_jsonable(document))
    click.echo(re.sub(f"[{LATE_CONTROLS}]", lambda c: json.dumps(c[0])[1:-1], text))


def print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows with the same keys as CSV; numbers with all digits, nothing for what is not."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow(row)
        cells = [_jsonable(value) for value in row.values()]
        writer.writerow(["" if cell is None else cell for cell in cells])
    click.echo(text.getvalue(), nl=False)


def save_json(path: Path, document: Any) -> None:
    """Write the same document to a file."""
    save_text(path, _written(_jsonable(document)) + "\n")


def save_text(path: Path, text: str) -> None:
    """Write a text to a file, whole or not at all."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8")


def save_picture(path: Path, picture: "Figure") -> None:
    """Write a matplotlib figure to a file, and free it."""
    import matplotlib.pyplot as plt

    with atomic_path(path) as partial:
        picture.savefig(partial, dpi=150)
    plt.close(picture)


def save_axes(path: Path, axes: "Axes") -> None:
    """Write the picture that axes belong to; its name says the format."""
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.figure import Figure

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".") not in known:
        forms = ", ".join(f".{form}" for form in known)
        raise ValueError(f"plot must be a file that ends with one of {forms}, got {path.name!r}.")
    picture = axes.figure
    assert isinstance(picture, Figure)
    save_picture(path, picture)
    click.echo(f"attnlaw: note: picture in {path}", err=True)


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


class RunBar:
    """The cells done and the time left on stderr: a bar, or now and then a line in a log."""

    def __init__(self, n_cells: int | None, what: str = "cells") -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        self.n_done, self._what = 0, what
        self._begun: tuple[float, int] | None = None  # when, with how many cells done
        self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("· left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=600,  # cells differ in size
        )
        self._task = self._progress.add_task(what, total=n_cells)

    def show(self, n_done: int, n_cells: int) -> None:
        """Show how far the run is."""
        if n_done < self.n_done:  # another pass
            self._begun = None
        self.n_done = n_done
        if self._begun is None:  # what an earlier run has done says nothing about the time left
            self._progress.reset(self._task, completed=n_done, total=n_cells)
        else:
            self._progress.update(self._task, completed=n_done)
        now = time.monotonic()
        begun, n_before = self._begun = self._begun or (now, n_done)
        if self._progress.disable and now > self._last_line + LINE_SECONDS and n_done > n_before:
            left = timedelta(
                seconds=round((now - begun) * (n_cells - n_done) / (n_done - n_before))
            )
            say(f"attnlaw: {n_done:,} of {n_cells:,} {self._what} done, {left} left", err=True)
            self._last_line = now

    def __enter__(self) -> None:
        if not self._progress.disable:  # else older versions of rich print an empty line
            self._progress.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._progress.disable:
            self._progress.stop()


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


def _written(value: Any, indent: str = "") -> str:
    """Write JSON, a line for each item; lists of numbers and words take a single line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        names = (json.dumps(name, ensure_ascii=False) for name in value)
        items = [f"{n}: {_written(v, deeper)}" for n, v in zip(names, value.values(), strict=True)]
    elif isinstance(value, list) and any(isinstance(v, list | dict) for v in value):
        items = [_written(v, deeper) for v in value]
    else:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{last}"


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "mu": "μ", "lambda": "λ",
    "kappa": "κ", "theta": "θ", "phi": "φ", "varphi": "φ",
}  # fmt: skip

LETTERS: dict[str, Any] = {
    r"\\(alpha|beta|gamma|delta|mu|lambda|kappa|theta|phi|varphi)(?![a-z])": lambda m: GREEK[m[1]],
    r"\\perp": "⊥",
    r"\\sqrt\{([^{}]*)\}": r"√(\1)",
    r"\\sqrt\s*": "√",
    r"\s*\\le\b\s*": " ≤ ",
    r"\s*\\ge\b\s*": " ≥ ",
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


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table and an empty line; words to the left, numbers to the right.

    On a terminal, words that are too long are cut, and columns that do not fit go below, beside
    the first column again.
    """
    width, columns = _terminal_width(), list[list[str]]()
    for heading, *values in zip(headings, *rows, strict=True):
        has_numbers = any(map(_is_number, values))
        room = width if has_numbers else max(20, width - sum(len(c[0]) + 2 for c in columns))
        cells = [_cut(cell, room) for cell in (heading, *map(shown, values))]
        wide = max(map(len, cells))
        cells.insert(1, "─" * wide)
        columns.append([c.rjust(wide) if has_numbers else c.ljust(wide) for c in cells])
    for part in _parts(columns, width):
        for line in zip(*part, strict=True):
            click.echo("  ".join(line).rstrip())
        click.echo()


def _parts(columns: list[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Cut a table into parts that fit, each of them with the first column."""
    first, part = columns[0], columns[:1]
    for column in columns[1:]:
        if len(part) > 1 and sum(len(c[0]) + 2 for c in (*part, column)) - 2 > width:
            yield part
            part = [first]
        part.append(column)
    yield part


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _terminal_width() -> int:
    """Return the width of the terminal; without one, or without COLUMNS, all that is needed."""
    has_terminal = sys.stdout is not None and sys.stdout.isatty()
    is_known = has_terminal or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if is_known else 10**6


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


def describe_model(model: "PooledSequences", settings: dict[str, Any]) -> dict[str, Any]:
    """Return what a document says of its model: the inputs, and the gains of the weights."""
    names = ("vocab_ratio", "sample_ratio", "signal_norm", "sampling", "centred", "length")
    gains = ("signal_gain", "noise_gain", "snr", "effective_length")
    described = {name: getattr(model, name) for name in names}
    described["weights"] = {"name": _weights_name(settings), "values": model.weights}
    kind = _described_correlation(settings, model.length)
    described["correlation"] = kind | {"values": model.correlation}
    described |= {name: getattr(model, name) for name in gains}
    words = model.vocabulary
    if words is not None:
        described |= {name: settings[name] for name in ("zipf", "importance", "smoothing")}
        if settings["importance"] == "sif" and settings["smoothing"] is None:
            described["smoothing"] = first_order_smoothing(model)  # as `model_from` does
        described |= {"n_vocab": words.n_tokens, "effective_vocabulary": words.effective_size}
    return described


def print_model(model: "PooledSequences", settings: dict[str, Any]) -> None:
    """Print the inputs of a model in two lines, with their symbols."""
    ratios = [
        f"{symbol} = {_listed(getattr(model, name))}"
        for symbol, name in (("δ", "vocab_ratio"), ("γ", "sample_ratio"), ("‖μ‖", "signal_norm"))
    ]
    kind = _described_correlation(settings, model.length)
    R = ", ".join(f"{k} {shown(v)}" for k, v in kind.items() if k not in ("kind", "length"))
    words = f"{kind['kind']} ({R})" if R else str(kind["kind"])
    tokens = "tokens of a table" if model.sampling == "token" else "idealised population"
    say(f"{', '.join(ratios)}; {tokens}{'' if model.centred else ', not centred'}")
    say(
        f"L = {model.length}, R: {words}; w: {_weights_name(settings) or 'given'}, "
        f"SNR α/κ = {model.signal_gain:.4g}/{model.noise_gain:.4g} = {model.snr:.4g}"
    )
    click.echo()


def _weights_name(settings: dict[str, Any]) -> str | None:
    return settings["weights"] if settings["weights"] in NAMES else None


def _described_correlation(settings: dict[str, Any], length: int) -> dict[str, Any]:
    """Return which correlation was asked for, and its parameters."""
    if settings["correlation"] is not None:
        return {"kind": "file", "path": settings["correlation"], "length": length}
    if settings["spiked"] is not None:
        parts = {"eta": settings["spiked"], "direction": settings["direction"]}
        return {"kind": "spiked", **parts, "length": length}
    if settings["autoregressive"] is not None:
        return {"kind": "autoregressive", "A": settings["autoregressive"], "length": length}
    prefix = min(5, length) if settings["prefix"] is None else settings["prefix"]
    within = 1.0 if settings["within"] is None else settings["within"]
    return {"kind": "prefix", "prefix": prefix, "within": within, "length": length}


def _listed(value: Any) -> str:
    """Write one number or a few; of many the first and the last."""
    values = [f"{x:g}" for x in np.atleast_1d(value)]
    return ", ".join(values) if len(values) <= 4 else f"{values[0]} … {values[-1]}"
