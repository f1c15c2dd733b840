"""Where the code says that a formula is derived, and whether it really is there.

A citation names a page and one of its headings, `docs/theory/<page>.md, "Heading"`. It may go over
the end of a line, in a docstring or in a comment. Tests and the build of the pages use this.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CITING = ["src", "tests", "benchmarks", "examples", "docs/_extensions"]

CITATION = re.compile(r'docs/theory/([\w-]+)\.md(?:,\s+(?:#\s+)?"([^"]+)")?')
HEADING = re.compile(r"^##+ +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(r"[\w-]+\.md §")


@cache
def headings(page: str) -> frozenset[str]:
    """Return the headings below the title of a page of theory; none if there is no such page."""
    path = ROOT / "docs" / "theory" / f"{page}.md"
    return (
        frozenset(HEADING.findall(FENCED.sub("", path.read_text())))
        if path.exists()
        else frozenset()
    )


def cited(found: re.Match[str]) -> tuple[str, str]:
    """Return page and heading of a match of CITATION, the heading on one line."""
    return found[1], re.sub(r"\s+(?:#\s+)?", " ", found[2] or "")


def problems(text: str) -> Iterator[str]:
    """Say which citations in a text lead nowhere."""
    for found in CITATION.finditer(text):
        page, heading = cited(found)
        known = headings(page)
        if not known:
            yield f"docs/theory/{page}.md is cited and does not exist"
        elif heading not in known:
            yield f'docs/theory/{page}.md is cited for "{heading}" and has {sorted(known)}'
    for found in ELSEWHERE.finditer(text):
        yield f"{found[0]} is a section of nothing that a reader has"


def citing_files() -> list[Path]:
    """Return the files in which a derivation may be cited."""
    code = [path for folder in CITING for path in (ROOT / folder).rglob("*.py")]
    return sorted([*code, ROOT / "CONTRIBUTING.md"])
