"""Run what a Markdown page prints: its Python, its sessions and its shell commands, in order.

A page is one conversation: later blocks see the names of earlier ones, and all commands run in
one empty folder that belongs to the page. What follows a prompt is compared with what is printed,
numbers to the digits shown. `<!-- skip: next "why" -->` leaves a block out and has to say why;
`<!-- invisible-code-block: python ... -->` prepares what the reader is assumed to have.
"""

import contextlib
import doctest
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

from sybil import Document, Example
from sybil.evaluators.doctest import NUMBER, OutputChecker
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | NUMBER


def run_console(example: Example) -> str | None:
    """Run the lines after `$ `, and compare the lines between them with what is printed."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONWARNINGS": "default"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in f"\n{example.parsed}".split("\n$ ")[1:]:
        command, _, expected = block.partition("\n")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        if done.returncode:
            return f"$ {command}\nended with {done.returncode}:\n{done.stdout}"
        if expected.strip() and not OutputChecker().check_output(expected, done.stdout, FLAGS):
            return f"$ {command}\nshould print\n{expected}\nand printed\n{done.stdout}"
    return None


def run_shell(example: Example) -> str | None:
    """Run a block without prompts, line by line."""
    lines = [line for line in example.parsed.splitlines() if line.strip()]
    example.parsed = "".join(f"$ {line}\n" for line in lines)
    return run_console(example)


def parse_page(path: Path) -> Document:
    """Find the examples of a page."""
    return Document.parse(
        str(path),
        PythonCodeBlockParser(doctest_optionflags=FLAGS),
        CodeBlockParser("console", run_console),
        CodeBlockParser("sh", run_shell),
        SkipParser(),
    )


@contextlib.contextmanager
def page_folder() -> Iterator[Path]:
    """Work in an empty folder with `examples` of the repository and a `.venv` in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        (Path(folder) / ".venv").symlink_to(sys.prefix)
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def run_page(path: Path) -> int:
    """Run a page to its end or its first failure, and count the blocks that ran."""
    n_run = 0
    page = parse_page(path)
    quiet = contextlib.redirect_stdout(io.StringIO())
    with page_folder(), quiet, warnings.catch_warnings(action="error"):
        for example in page.examples():
            with contextlib.suppress(SkipTest):
                example.evaluate()
                n_run += isinstance(example.parsed, str | doctest.Example)
    return n_run
