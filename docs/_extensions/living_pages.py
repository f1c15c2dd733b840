"""What our pages promise, kept while they are built: a broken promise is a warning.

- Every example on a page runs as printed (`tests/support/page_examples.py` says how), and every
  page has at least one, or a figure that it computes.
- Every public name of the package is in the reference, and every public method says what it does.
- The comment beside a field of a result, its symbol and meaning, is there for readers, too.
- A derivation that the code cites exists (`tests/support/citations.py`), and is a link here.
"""

import ast
import builtins
import dataclasses
import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from citations import CITATION, ROOT, cited, citing_files, problems
from docutils import nodes
from page_examples import run_page
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.roles import XRefRole
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

import attnlaw
from attnlaw.cli import COMMANDS, PLACES

logger = logging.getLogger(__name__)

MODULES = [
    "results",
    "laws",
    "theory",
    "simulation",
    "estimators",
    "diagnostics",
    "sweeps",
    "figures",
    "plotting",
]
FIELD = re.compile(r"^    (\w+): [^#\n]*  # (.+)$", re.MULTILINE)
SESSION = re.compile(r"^(```python\n(?:(?!```).*\n)*?)\n+(```)$", re.MULTILINE)
BLOCK = re.compile(
    r"^\.\. plot::\n((?:(?:   [^\n]*)?\n)+)|^```python\n(.*?)^```", re.MULTILINE | re.DOTALL
)
PLOT = re.compile(r"^\.\. plot::\n", re.MULTILINE)


def run_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Run a page's examples; report the first that fails, or when there are none."""
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


def check_imports(app: Sphinx, docname: str, source: list[str]) -> None:
    """Report names that a figure's code uses without a word of where they come from.

    The code of a figure is run after imports of ours; what readers see has to stand alone, or
    to follow from blocks before it on the page.
    """
    if not docname.startswith(("start/", "how-to/")):
        return
    known = set(dir(builtins))
    for block in BLOCK.finditer(source[0]):
        code, is_plot = _code(block)
        tree = list(ast.walk(ast.parse(code)))
        names = [node for node in tree if isinstance(node, ast.Name)]
        imports = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
        known |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
        known |= {a.asname or a.name.partition(".")[0] for node in imports for a in node.names}
        known |= {node.name for node in tree if isinstance(node, ast.FunctionDef)}
        known |= {node.arg for node in tree if isinstance(node, ast.arg)}
        unknown = sorted({n.id for n in names} - known)
        if is_plot and unknown:
            words = ", ".join(unknown)
            logger.warning("a figure uses %s, which is not imported", words, location=docname)


def _code(block: re.Match[str]) -> tuple[str, bool]:
    """Return the code of a block as a reader would type it, and whether it is a figure's."""
    if block[1] is None:
        lines = block[2].splitlines()
        prompts = [line[4:] for line in lines if line.startswith((">>>", "..."))]
        return "\n".join(prompts or lines), False
    code = textwrap.dedent(block[1])
    if ":include-source: false" in code:
        return "", True
    return "\n".join(line for line in code.splitlines() if not line.startswith(":")), True


def name_plots(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give each figure of a page a file of its own; in Markdown all would be number 1."""
    blocks = PLOT.split(source[0])
    stem = docname.replace("/", "-")
    for i, block in enumerate(blocks[1:], start=1):
        blocks[i] = f".. plot::\n   :filename-prefix: {stem}-{i}\n{block}"
    source[0] = SESSION.sub(r"\1\2", "".join(blocks))  # and drop blank lines at the end of code


def list_commands(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put every command of the program, as click knows it, where a page asks for them."""
    block = "```{{eval-rst}}\n.. click:: attnlaw.cli.{1}\n   :prog: attnlaw {0}\n```\n"
    blocks = [block.format(name, PLACES.get(name, f"{name}:command")) for name in COMMANDS]
    source[0] = source[0].replace("<!-- commands -->", "\n".join(blocks))


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
    """Warn of public names without a page, and public methods without a docstring."""
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
    """Keep |x| an absolute value, which is markup otherwise, and link what is cited."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = line.replace("|", r"\|")
    lines[:] = CITATION.sub(_derivation, "\n".join(lines)).split("\n")


def _derivation(found: re.Match[str]) -> str:
    """Return a role for a citation of a derivation, which `link_derivation` turns into a link."""
    return ":derivation:`{}#{}`".format(*cited(found))


def link_derivation(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, label: nodes.Element
) -> nodes.Element | None:
    """Link a section of a page of theory, named by page and heading; None is a warning."""
    page, _, heading = node["reftarget"].partition("#")
    name = f"theory/{page}"
    if node["reftype"] != "derivation" or name not in env.tocs:
        return None
    for entry in env.tocs[name].findall(nodes.reference):
        if entry.astext() == heading:
            words = nodes.inline(text=f"{env.titles[name].astext()}, “{heading}”")
            place = entry["anchorname"].lstrip("#")
            return make_refnode(app.builder, node["refdoc"], name, place, words)
    return None


def check_citations(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of citations that lead nowhere, also in modules without a page."""
    for path in citing_files():
        for words in problems(path.read_text()):
            logger.warning("%s: %s", path.relative_to(ROOT), words)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", run_examples, priority=100)
    app.connect("source-read", check_imports, priority=110)
    app.connect("source-read", name_plots)
    app.connect("source-read", list_commands)
    app.connect("autodoc-process-docstring", list_fields, priority=100)
    app.connect("autodoc-process-docstring", translate, priority=110)
    app.add_role("derivation", XRefRole(warn_dangling=True))
    app.connect("missing-reference", link_derivation)
    app.connect("env-check-consistency", check_names)
    app.connect("env-check-consistency", check_citations)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
