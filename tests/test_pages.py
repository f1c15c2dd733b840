"""The README does what it says, and so would any page: the build of docs/ runs its own."""

import doctest
import inspect
import os
import re
import sys
from pathlib import Path

import pytest
from page_examples import ROOT, run_page

import attnlaw as al


def test_the_readme_runs_as_printed():
    assert run_page(ROOT / "README.md") > 10


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```python\nassert 1 == 2, 'no'\n```\n", "no"),
        ("```console\n$ echo 1.25\n1.35\n```\n", "should print"),
        ("```console\n$ false\n```\n", "ended with 1"),
        ("```sh\necho one\nexit 3\n```\n", "ended with 3"),
    ],
)
def test_a_page_with_a_wrong_output_is_found(tmp_path: Path, text: str, problem: str):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=problem):
        run_page(page)


def test_later_blocks_see_earlier_ones_and_digits_count_as_shown(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 3.14159\n```\n\n```python\n>>> x\n3.14\n```\n"
        '\n<!-- skip: next "no network" -->\n\n```console\n$ false\n```\n'
    )
    before = os.getcwd(), sys.path[:]
    assert run_page(page) == 2
    assert (os.getcwd(), sys.path) == before


def test_formulas_of_docstrings_are_typeset(monkeypatch):
    """What is left of the reference's first pages has no symbols but those of code."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    import typeset

    assert doctest.testmod(typeset).failed == 0
    found = 0
    for name in ("PooledSequences", "Vocabulary", "optimal_importance", "squared_overlap"):
        lines = inspect.getdoc(getattr(al, name)).splitlines()
        before = "\n".join(lines)
        typeset.typeset_docstring(None, "class", name, None, None, lines)
        after = "\n".join(lines)
        formulas = re.findall(r":math:`(.*?)`|&(.*?) \\\\\\\\", after)
        assert all(f.count("{") == f.count("}") for pair in formulas for f in pair)
        prose = re.sub(r":math:`.*?`|\.\. math::(.|\n)*?end.align|(?s:Examples\n.*)", "", after)
        assert not re.search("[‖²ᵀζγ]", prose), prose
        assert ">>> import attnlaw as al" not in before or ">>> import attnlaw as al" in after
        found += len(formulas)
    assert found > 20
