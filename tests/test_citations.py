"""Every derivation that the code cites is a section of a page in this repository."""

import re

import pytest
from citations import CITATION, ROOT, cited, citing_files, problems

NAMED = 'docs/theory/{}.md, "{}"'


def test_every_cited_section_exists():
    files = {path.relative_to(ROOT): path.read_text() for path in citing_files()}
    wrong = [f"{path}: {words}" for path, text in files.items() for words in problems(text)]
    assert not wrong, "\n".join(wrong)
    assert sum(len(CITATION.findall(text)) for text in files.values()) > 60


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NAMED.format("nowhere", "Derivation"), "does not exist"),
        (NAMED.format("bulk", "Derivations"), 'cited for "Derivations"'),
        (NAMED.format("bulk", "Derivation").partition(",")[0], 'cited for ""'),
        (NAMED.format("bulk", "import attnlaw as al"), "cited for"),
        ("theory.md " + "§2.2", "a section of nothing"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text, problem):
    (words,) = problems(text)
    assert problem in words


@pytest.mark.parametrize("end", ["\n    ", "\n    # "])
def test_a_citation_may_go_over_the_end_of_a_line(end):
    text = NAMED.format("bulk", "How far a fixed length is from the limit").replace(
        " fixed", end + "fixed"
    )
    (found,) = CITATION.finditer(text)
    assert cited(found) == ("bulk", "How far a fixed length is from the limit")
    assert not list(problems(text))


def test_every_attack_of_the_threat_model_names_a_test_that_exists():
    page = (ROOT / "docs" / "reference" / "threat-model.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 40
    assert len(named) == page.count("::")
    missing = [
        f"{file}::{name}"
        for file, name in named
        if f"def {name}(" not in (ROOT / file).read_text("utf-8")
    ]
    assert not missing
