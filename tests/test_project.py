"""The papers of the project say what the code does."""

import re
import subprocess
import sys
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path

import click
import pytest

import attnlaw as al
from attnlaw.cli import COMMANDS, main

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("[RC]*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/[!_g]*/*.md")]
INTERNAL = {"correlations", "data", "models", "weights"}  # their public names are attnlaw's
MADE = {"docs/_build", "docs/_build/index.html", "src/attnlaw/cli/NAME.py"}  # by whoever reads


def test_commands_in_the_readme_exist():
    commands = re.findall(r"(?:^|/bin/)attnlaw (\w+)", (ROOT / "README.md").read_text(), re.M)
    assert len(commands) >= 5
    assert set(commands) <= set(COMMANDS)


def test_options_named_in_the_documentation_exist():
    for page in PAGES:
        for line in re.findall(r"attnlaw (\w+ [^`\n|]*--[^`\n|]*)", page.read_text()):
            name, *words = line.partition("  #")[0].split()
            if name not in COMMANDS:
                continue
            options = main.get_command(click.Context(main), name).params
            known = {flag for each in options for flag in (*each.opts, *each.secondary_opts)}
            given = {re.match(r"--[\w-]*", word)[0] for word in words if word.startswith("--")}
            assert given <= known | {"--help"}, f"{page.name}: attnlaw {line}"


def test_files_named_in_the_documentation_exist():
    named = r"\b(?:tests|benchmarks|examples|requirements|src|docs)/[\w./-]*\w"
    found = {(page.name, path) for page in PAGES for path in re.findall(named, page.read_text())}
    assert len(found) > 60
    assert not {
        (page, path) for page, path in found if path not in MADE and not (ROOT / path).exists()
    }


def test_names_of_the_library_in_the_documentation_exist():
    found = {
        (p.name, name)
        for p in PAGES
        for name in re.findall(r"\battnlaw[.][\w.]*\w", p.read_text())
    }
    assert len(found) > 60
    assert not {(page, name) for page, name in found if not exists(name)}


def exists(name):
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        return reduce(lambda v, part: getattr(v, part, None), parts[n:], value) is not None
    return False


def test_citation_has_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {al.__version__}\n" in text


def test_every_public_name_exists():
    listed = re.findall(r'^    "(\w+)",', (ROOT / "src/attnlaw/__init__.pyi").read_text(), re.M)
    assert sorted(listed) == sorted(al.__all__)
    assert all(hasattr(al, name) for name in listed)


def test_every_public_name_is_in_the_reference():
    module, found = "attnlaw", {}
    for line in (ROOT / "docs/reference/api.md").read_text().splitlines():
        if place := re.match(r"\.\. (?:currentmodule|module|automodule):: (\S+)", line):
            module = place[1]
        elif name := re.match(r"(?:   |\.\. autodata:: )([A-Za-z_.]+)$", line):
            full = f"{module}.{name[1]}"
            assert exists(full), full
            found[full] = reduce(getattr, name[1].split("."), import_module(module))
    packages = re.findall(
        r"^from \. import (\w+)", (ROOT / "src/attnlaw/__init__.pyi").read_text(), re.M
    )
    public = [al, *(getattr(al, name) for name in packages if name not in INTERNAL)]
    listed = {id(value) for value in found.values() if callable(value)}
    missing = [
        f"{package.__name__}.{name}"
        for package in public
        for name in package.__all__
        if callable(getattr(package, name)) and id(getattr(package, name)) not in listed
    ]
    assert missing == []


def test_import_stays_light():
    heavy = ("matplotlib", "numba", "dask", "sklearn", "xarray", "scipy", "pandas", "rich")
    script = f"import sys, attnlaw; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_lowest_versions_are_those_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]
    extras = ("data", "estimators", "explorer", "figures", "fast", "frames")
    extras = (*extras, "sweeps", "cluster", "corpora", "text", "test")
    declared = [*project["dependencies"], *(line for name in extras for line in wanted[name])]
    floors = {}
    for line in declared:
        name, _, floor = line.partition(">=")
        if floor:
            floors[name] = floor.partition(",")[0]
    pins = dict(
        line.split("==")
        for line in (ROOT / "requirements" / "lowest.txt").read_text().split("\n")
        if "==" in line
    )
    assert len(floors) > 25
    assert pins.keys() == floors.keys()
    for name, pin in pins.items():
        floor, pinned = ([*map(int, v.split(".")), 0, 0][:3] for v in (floors[name], pin))
        assert pinned == floor, f"{name}: {pin} is not the lowest of >={floors[name]}"


def test_a_misspelt_name_of_the_package_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match=r"no attribute 'predcit' \(did you mean 'predict'\?"):
        al.predcit  # noqa: B018
    assert not hasattr(al, "__wrapped__")
