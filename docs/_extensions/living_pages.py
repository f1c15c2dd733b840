"""What our pages promise, kept while they are built: a broken promise is a warning.

- Every example on a page runs as printed (`tests/support/page_examples.py` says how), and every
  page has at least one, or a figure that it computes.
- Every public name of the package is in the reference, and every public method says what it does.
- The comment beside a field of a result, its symbol and meaning, is there for readers, too.
"""

import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from page_examples import run_page
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import attnlaw
from attnlaw.cli import COMMANDS

logger = logging.getLogger(__name__)

MODULES = [
    "laws",
    "theory",
    "simulation",
    "estimators",
    "diagnostics",
    "sweeps",
    "figures",
    "style",
]
CHAPTERS = {  # of the notes from which the code was written, and their derivations here
    "1": "laws",
    "2.2": "bulk",
    "2.3": "alignment",
    "2.4": "bulk",
    "2": "pooled-covariance",
    "3.4": "weights-from-data",
    "3": "weights",
    "4": "classification",
    "5": "classes",
    "6": "attention",
    "7": "tables",
    "9": "simulation",
}
CHAPTER = re.compile(r"theory\.md §([\d.]*\d)")
FIELD = re.compile(r"^    (\w+): [^#\n]*  # (.+)$", re.MULTILINE)
SESSION = re.compile(r"^(```python\n(?:(?!```).*\n)*?)\n+(```)$", re.MULTILINE)
PLOT = re.compile(r"^\.\. plot::\n", re.MULTILINE)


def run_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Run a page's examples; complain about the first that fails, or when there are none."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    try:
        n_run = run_page(path)
    except Exception as failure:
        place = (docname, getattr(getattr(failure, "example", None), "line", None))
        logger.warning("%s: %s", type(failure).__name__, failure, location=place)
        return
    computes = n_run or "```{toctree}" in source[0] or PLOT.search(source[0])
    if not computes:
        logger.warning("no example on this page was run", location=docname)


def name_plots(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give each figure of a page a file of its own; in Markdown all would be number 1."""
    blocks = PLOT.split(source[0])
    stem = docname.replace("/", "-")
    for i, block in enumerate(blocks[1:], start=1):
        blocks[i] = f".. plot::\n   :filename-prefix: {stem}-{i}\n{block}"
    source[0] = SESSION.sub(r"\1\2", "".join(blocks))  # and drop blank lines at the end of code


def list_commands(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put every command of the program, as click knows it, where a page asks for them."""
    block = "```{{eval-rst}}\n.. click:: attnlaw.cli.{0}:command\n   :prog: attnlaw {0}\n```\n"
    source[0] = source[0].replace("<!-- commands -->", "\n".join(map(block.format, COMMANDS)))


def documented_objects(env: BuildEnvironment) -> list[Any]:
    """Return what the names in the reference stand for."""
    found = []
    for name in env.domains["py"].objects:  # type: ignore[attr-defined]
        package, *rest = name.split(".")
        value: Any = import_module(package)
        for part in rest:
            value = getattr(value, part, None)
        found.append(value)
    return found


def check_names(app: Sphinx, env: BuildEnvironment) -> None:
    """Complain about public names without a page, and public methods without a word."""
    found = documented_objects(env)
    for module in [attnlaw, *(import_module(f"attnlaw.{name}") for name in MODULES)]:
        for name in module.__all__:
            value = getattr(module, name)
            full = f"{module.__name__}.{name}"
            if isinstance(value, ModuleType):
                continue
            if not callable(value):
                if full not in env.domains["py"].objects:  # type: ignore[attr-defined]
                    logger.warning("%s is not in the reference", full, location="reference/api")
            elif not any(value is other for other in found):
                logger.warning("%s is not in the reference", full, location="reference/api")
            if inspect.isclass(value):
                for member, thing in vars(value).items():
                    is_code = callable(thing) or isinstance(thing, property)
                    if is_code and not member.startswith("_") and not inspect.getdoc(thing):
                        logger.warning("%s.%s has no docstring", full, member)


def list_fields(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Make a section of attributes from the comments beside the fields of a dataclass."""
    if what != "class" or not dataclasses.is_dataclass(value) or "Attributes" in lines:
        return
    if "Parameters" in lines:
        return
    found = dict(FIELD.findall(inspect.getsource(value)))
    fields = [field.name for field in dataclasses.fields(value) if field.name in found]
    section = [part for field in fields for part in (field, "    " + found[field])]
    if section:
        ends = [i for i, line in enumerate(lines) if set(line) == {"-"}]
        start = ends[0] - 1 if ends else len(lines)
        lines[start:start] = ["", "Attributes", "----------", *section, ""]


def translate(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Keep |x| an absolute value, which is markup otherwise, and link sections to their pages."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = CHAPTER.sub(_chapter, line.replace("|", r"\|"))


def _chapter(found: re.Match[str]) -> str:
    """Return a link to the derivation that a docstring names by its section."""
    section = found[1]
    page = CHAPTERS.get(section) or CHAPTERS[section.partition(".")[0]]
    return f":doc:`derivation </theory/{page}>`"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", run_examples, priority=100)
    app.connect("source-read", name_plots)
    app.connect("source-read", list_commands)
    app.connect("autodoc-process-docstring", list_fields, priority=100)
    app.connect("autodoc-process-docstring", translate, priority=110)
    app.connect("env-check-consistency", check_names)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
