"""The report: one HTML page with everything inside, to read, print and send to colleagues."""

import base64
import platform
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from html import escape
from pathlib import Path

import numpy as np

import attnlaw
from attnlaw._extras import require
from attnlaw._store import atomic_path
from attnlaw.figures.figure import Verdict
from attnlaw.figures.reproduction import Reproduced

__all__ = ["typeset", "write_report"]

CLASSES: dict[Verdict, str] = {"agrees": "good", "differs as known": "known", "unexpected": "bad"}
"""The page's style of each verdict."""


def write_report(figures: Sequence[Reproduced], out: Path, *, quick: bool) -> Path:
    """Write ``out/report.html``; pictures, style and mathematics are inline.

    Parameters
    ----------
    figures : sequence of Reproduced
        What `reproduce` returned; their pictures are read from `out`.
    out : path
        The folder given to `reproduce`.
    quick : bool
        Said at the top of the page, since quick numbers are not the last word.
    """
    for module in ("jinja2", "latex2mathml"):
        require(module, extra="figures", purpose="The report")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["typeset"] = lambda text: Markup(typeset(text))
    environment.filters["number"] = lambda x: f"{x:.4g}"
    environment.filters["inline_svg"] = lambda path: _data_address(out / path)
    checks = [check for figure in figures for check in figure.checks]
    page = environment.get_template("report.html.j2").render(
        figures=figures,
        quick=quick,
        n_checks=len(checks),
        counts=Counter(check.verdict for check in checks),
        classes=CLASSES,
        seconds=sum(figure.seconds for figure in figures),
        today=date.today().isoformat(),
        versions=f"attnlaw {attnlaw.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}",
    )
    path = out / "report.html"
    with atomic_path(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def typeset(text: str) -> str:
    r"""Turn plain words with $…$ formulas into HTML with MathML, which browsers draw offline.

    Examples
    --------
    >>> typeset("a < b").startswith("a &lt; b")
    True
    >>> "<math" in typeset(r"edge $\lambda_+$")
    True
    """
    from latex2mathml.converter import convert

    parts = re.split(r"\$(.+?)\$", text)
    return "".join(
        convert(part) if i % 2 else re.sub(r"\*(.+?)\*", r"<em>\1</em>", escape(part))
        for i, part in enumerate(parts)
    )


def _data_address(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
