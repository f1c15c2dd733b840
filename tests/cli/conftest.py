"""Commands run in this process, through the same door as from a shell."""

import json

import pytest
from click.testing import CliRunner

from attnlaw.cli import main


@pytest.fixture
def run():
    """Run `attnlaw …`; give exit code, stdout and stderr."""

    def runner(*arguments):
        result = CliRunner().invoke(main, list(arguments), prog_name="attnlaw")
        return result.exit_code, result.stdout, result.stderr

    return runner


@pytest.fixture
def run_json(run):
    """Run `attnlaw … --json`, which must succeed in silence; give the document."""

    def runner(*arguments):
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=pytest.fail)  # NaN and Infinity are not JSON

    return runner
