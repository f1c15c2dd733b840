"""The papers of the project say what the code does."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import attnlaw as al
from attnlaw.cli import COMMANDS

ROOT = Path(__file__).parent.parent


def test_commands_in_the_readme_exist():
    commands = re.findall(r"(?:^|/bin/)attnlaw (\w+)", (ROOT / "README.md").read_text(), re.M)
    assert len(commands) >= 5
    assert set(commands) <= set(COMMANDS)


def test_options_named_in_the_documentation_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("[!_]*/*.md"), *ROOT.glob("docs/*.md")]
    for page in pages:
        for line in re.findall(r"attnlaw (\w+ [^`\n|]*--[^`\n|]*)", page.read_text()):
            name, *words = line.partition("  #")[0].split()
            if name not in COMMANDS:
                continue
            options = import_module(f"attnlaw.cli.{name}").command.params
            known = {flag for each in options for flag in (*each.opts, *each.secondary_opts)}
            given = {re.match(r"--[\w-]*", word)[0] for word in words if word.startswith("--")}
            assert given <= known | {"--help"}, f"{page.name}: attnlaw {line}"


def test_citation_has_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {al.__version__}\n" in text


def test_every_public_name_exists():
    listed = re.findall(r'^    "(\w+)",', (ROOT / "src/attnlaw/__init__.pyi").read_text(), re.M)
    assert sorted(listed) == sorted(al.__all__)
    assert all(hasattr(al, name) for name in listed)


def test_import_stays_light():
    heavy = ("matplotlib", "numba", "dask", "sklearn", "xarray", "scipy", "pandas", "rich")
    script = f"import sys, attnlaw; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
