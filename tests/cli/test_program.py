"""The program around the commands: help, speed of start, and failures in one line."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import warnings

import numpy as np
import psutil
import pytest
from interruptible import heed_interrupts

import attnlaw as al
from attnlaw._machine import MissingExtra
from attnlaw.cli import COMMANDS


def test_help_lists_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    for name, summary in COMMANDS.items():
        assert name in out
        assert summary.split()[0] in out


def test_no_command_shows_the_help(run):
    assert run() == run("--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"  attnlaw {name}" in out.split("Examples:")[1]


@pytest.mark.parametrize(
    "name", ["predict", "simulate", "plan", "weights", "law", "mixture", "multi-head", "attention"]
)
def test_every_example_runs(run, name, tmp_path, monkeypatch):
    """As printed, but for fewer and smaller trials."""
    monkeypatch.chdir(tmp_path)
    _, out, _ = run(name, "--help")
    for line in out.split("Examples:")[1].strip().splitlines():
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
        is_drawn = name == "simulate" or "--trials" in words
        small = ["--trials", "2"] if is_drawn else []
        small += ["--dimension", "40"] if is_drawn and name != "attention" else []
        code, answer, err = run(*words[1:], *small)
        assert code == 0, err
        assert answer


def test_version_is_printed(run):
    assert run("--version") == (0, f"attnlaw {al.__version__}\n", "")


def test_help_imports_no_command():
    script = "import sys\nfrom attnlaw.cli import main\ntry: main(['--help'])\nexcept SystemExit: "
    script += "print([m for m in sys.modules if m.startswith('attnlaw.cli.') or m == 'rich'])"
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "['attnlaw.cli.program']"


BAD = {
    "no-such-command": "No such command 'no-such-command'; choose from predict, ",
    "predct": "No such command 'predct'; did you mean predict?",
    "predict --no-such-option": "No such option",
    "predict --vocab-ratio x": "--vocab-ratio must be numbers separated by commas, a range 0.5:",
    "predict --vocab-ratio -0.5": "--vocab-ratio must be at least 0, got -0.5.",
    "predict --sample-ratio nan": "--sample-ratio must be finite, got nan.",
    "predict --signal-norm inf": "--signal-norm must be finite, got inf.",
    "predict --signal-norm 1,-2": "--signal-norm must be at least 0, got an array of shape (2,).",
    "predict --weights 1,2,x": "--weights must be numbers separated by commas, a range",
    "predict --weights 1,2 --length 3": "--weights must be of length 3, like the correlation, go",
    "predict --weights optmal": "--weights must be one of mean, causal, last, optimal, direction",
    "predict --zipf 1 --importance siff": "Invalid value for '--importance': 'siff' is not one of",
    "predict --sampling gausian": "Invalid value for '--sampling': 'gausian' is not one of 'token'"
    ", 'gaussian'; did you mean gaussian?",
    "predict --zipf -1": "--zipf must be at least 0, got -1.0.",
    "predict --zipf 1 --importance sif --smoothing 0": "--smoothing must be above 0, got 0.0.",
    "predict --signal-norm 1:2": "--signal-norm must be numbers separated by commas, a range 0.5:",
    "predict --signal-norm 1:2:1": "--signal-norm must be numbers separated by commas, a range 0",
    "predict --signal-norm 1,2 --vocab-ratio 0.1,0.2": "only one of --vocab-ratio and --signal-n",
    "predict --plot law.txt": "--plot must be a file that ends with one of",
    "mixture": "Missing option '--kind'.",
    "mixture --kind size=3": "--kind must be made of length=, prefix=",
    "mixture --kind length=3,length=4": "--kind must be made of different parts, got",
    "heads .": ". is a model: give it a --text or a --text-file.",
    "explore --host 999.1.1.1": "--host must be an address of this machine, got '999.1.1.1'.",
    "reproduce alignement": "figure must be one of model, phase_diagram, bulk, alignment",
    "multi-head --head mena": "--head must be one of mean",
    "attention --n-tokens 1": "--n-tokens must be a whole number of at least 2, got 1.",
    "predict --weights 0,0": "--weights must be different from zero, got [0.0, 0.0].",
    "predict --weights missing.npy": "No such file or folder: missing.npy",
    "predict --prefix 21": "--prefix must be at most the length 20, got 21.",
    "predict --within 2": "--within must be between 0 and 1, got 2.0.",
    "predict --prefix 2 --autoregressive 0.5": "--prefix and --autoregressive exclude each other",
    "predict --autoregressive 2": "--autoregressive must be between -1 and 1, got 2.0.",
    "predict --autoregressive 0.5 --within 1": "--within belongs to --prefix, and excludes --auto",
    "predict --spiked -5 --direction 1,1": "--spiked must be at least 0, got -5.0.",
    "predict --spiked 3 --direction 1,1 --length 5": "--length is 5, but --direction has 2 posit",
    "predict --csv --json": "--csv and --json exclude each other; give one of them.",
    "predict --spiked 3": "--spiked and --direction belong together; give both or neither.",
    "predict --spiked 3 --direction 0,0": "--direction must be different from zero, got",
    "predict --weights optimal --spiked 3 --direction 1,-1": "--correlation must be a matrix",
    "predict --length 10000000": "--length must be small enough for 2.98e+06 GiB of correlations",
    "predict --autoregressive 0.5 --ridge 1": "--correlation must be made of 0, 1 and -1 for an",
    "predict --ridge 0": "--ridge must be above 0, got 0.0.",
    "simulate --dimension 3000000": "--dimension must be small enough for",
    "simulate --dimension 1": "Invalid value for '--dimension': 1 is not in the range",
    f"simulate --dimension {10**400}": "Invalid value for '--dimension':",
    "simulate --sample-ratio 0": "--sample-ratio must be above 0 when sizes are asked for, got",
    "simulate --jobs 0": "--jobs must be a whole number of at least 1, got 0.",
    "simulate --seed -1": "Invalid value for '--seed': -1 is not in the range x>=0.",
    "simulate --vocab-ratio 0.1,0.2": "--vocab-ratio must be a single number in a simulation.",
    "plan --squared-overlap 1": "--squared-overlap must be below 1, got 1.0.",
    "plan --signal-norm 1,2": "--signal-norm must be a single number for a plan.",
    "law": "a law needs an EXPRESSION, --mp, --atoms or --semicircle.",
    "law --mp -1": "--mp must be at least 0, got -1.0.",
    "law --mp=-1": "--mp must be at least 0, got -1.0.",
    "law MP(-1)": "in 'MP(-1)', ratio must be at least 0, got -1.0.",
    "law 1e400*MP(1)": "in '1e400*MP(1)', scale must be finite, got inf.",
    "law --semicircle 0": "--semicircle must be above 0, got 0.0.",
    "law MP(0.5) --mp 1": "a law is given by an EXPRESSION or by options, not by both.",
    "law --mp 1 --scale inf": "--scale must be finite, got inf.",
    "weights --weights mean,median": "--weights must be one of mean, causal, last, optimal, dir",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments):
    code, out, err = run(*arguments.split(" "))
    assert code == 2
    assert out == ""
    assert err.startswith("attnlaw: " + BAD[arguments])
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "--correlation must be symmetric to 1e-10"),
        ([[1.0, 1.5], [1.5, 1.0]], "--correlation must be positive semi-definite"),
        ([[1.0, np.nan], [np.nan, 1.0]], "{path} must hold finite numbers"),
        ([[1.0, 0.5]], "--correlation must be a square matrix"),
        ([1.0, 0.5], "{path} must hold an array with 2 axes"),
        ([[{}]], "{path} must hold numbers, got pickled Python objects"),
    ],
)
def test_bad_matrices_are_one_line_too(run, tmp_path, matrix, sentence):
    path = tmp_path / "R.npy"
    np.save(path, np.array(matrix), allow_pickle=True)
    code, _, err = run("predict", "--correlation", str(path))
    assert code == 2
    assert err.startswith(f"attnlaw: {sentence.format(path=path)}")
    assert err.count("\n") == 1


def test_the_option_is_named_as_it_is_typed(run):
    _, _, err = run("simulate", "--jobs", "0")
    assert err.startswith("attnlaw: --jobs must be a whole number")
    _, _, err = run("law", "--mp", "-1")
    assert err.startswith("attnlaw: --mp must be at least 0")
    _, _, err = run("law", "MP(-1)")  # no option is meant
    assert err.startswith("attnlaw: in 'MP(-1)', ratio must be at least 0")


def test_a_missing_file_is_named_with_its_whole_path(run, tmp_path):
    path = tmp_path / ("long" * 30) / "missing.npy"
    code, _, err = run("predict", "--correlation", str(path))
    assert (code, err) == (2, f"attnlaw: No such file or folder: {path}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["heads", ""],
        ["table", " "],
        ["pool", ""],
        ["predict", "--plot", ""],
        ["reproduce", "--out", ""],
    ],
)
def test_an_empty_path_is_not_this_folder(run, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.endswith(": the path is empty.\n")


def test_completion_lists_commands_without_importing_them():
    script = "import sys\nfrom attnlaw.cli import main\ntry: main([])\nexcept SystemExit: "
    script += "print('numpy' in sys.modules)"
    words = {"_ATTNLAW_COMPLETE": "bash_complete", "COMP_WORDS": "attnlaw p", "COMP_CWORD": "1"}
    script = script.replace("main([])", "main([], prog_name='attnlaw')")
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | words
    )
    assert out.stdout.split() == ["plain,predict", "plain,plan", "plain,pool", "False"]


@pytest.mark.slow
def test_warmup_compiles_and_says_so(run, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr("attnlaw.simulation._matrix_free.plan._seconds", 0.0)
    code, out, _ = run("warmup")
    assert code == 0
    assert out.startswith("Compiled and kept, in ")


def test_warnings_are_notes_on_stderr(run):
    code, out, err = run("predict", "--weights", "last", "--sample-ratio", "3")
    assert code == 0
    assert out
    assert re.fullmatch(r"attnlaw: note: the weights use only 1 positions.*\n", err)


def test_deprecations_of_packages_are_no_notes(run, monkeypatch):
    """Those of pyparsing are user warnings as well, and came with every picture."""

    class Deprecated(UserWarning, DeprecationWarning):
        pass

    def warn(*_, **__):
        warnings.warn("'oneOf' deprecated", Deprecated, stacklevel=1)
        raise ValueError("over.")

    monkeypatch.setattr(al, "predict", warn)
    assert run("predict") == (2, "", "attnlaw: over.\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError("Unable to allocate 9 TiB"), "Unable to allocate 9 TiB"),
        (MemoryError(), "the sizes asked for do not fit in memory"),
        (ModuleNotFoundError("…", name="yaml"), "yaml is not installed, and this"),
        (MissingExtra("dash", "explorer"), "This needs dash, which is not installed: pip install"),
        (OSError("no space\nleft"), "no space left"),
        (OverflowError("too large"), "too large"),
    ],
)
def test_other_failures_are_one_line_too(run, monkeypatch, error, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(al, "predict", fail)
    code, _, err = run("predict")
    assert code == 2
    assert err.startswith(f"attnlaw: {line}")
    assert err.count("\n") == 1


def test_a_defect_of_ours_keeps_its_traceback(monkeypatch, run):
    """Only input is blamed on the user."""
    monkeypatch.setattr(al, "predict", lambda _: {}["gone"])
    code, _, _ = run("predict")
    assert code == 1


def test_interruption_exits_130(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(al, "simulate", interrupt)
    code, out, err = run("simulate")
    assert (code, out, err.strip()) == (130, "", "attnlaw: interrupted")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interruption_of_several_workers_is_quiet_too():
    command = [sys.executable, "-m", "attnlaw", "simulate", "--dimension", "200"]
    process = subprocess.Popen(
        [*command, "--trials", "100000", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    while len(psutil.Process(process.pid).children()) < 2:
        time.sleep(0.1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "attnlaw: interrupted")


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_reader_that_stops_early_is_no_failure():
    shell = f"{sys.executable} -m attnlaw law --mp 0.5 --points 20000 | head -2"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MarchenkoPastur(0.5)")
    assert done.stderr == ""


HOSTILE = "wte\x1b]0;owned\x07\x1b[2J\nattnlaw: all is well\x9b31m\u202e\u200b\u2066\U000e0041txt"


@pytest.mark.parametrize("options", [(), ("--json",), ("--list",), ("--tensor", "none")])
def test_names_in_files_do_not_steer_the_terminal(run, tmp_path, options):
    names = (HOSTILE, HOSTILE + "2") if options else (HOSTILE,)
    data, header = b"", {}
    table = np.random.default_rng(0).standard_normal((60, 24)).astype("f4")
    for name in names:
        header[name] = {"dtype": "F32", "shape": [60, 24]}
        header[name]["data_offsets"] = [len(data), len(data) + table.nbytes]
        data += table.tobytes()
    text = json.dumps(header).encode()
    file = tmp_path / "x\x1b[31m.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    (tmp_path / "vocab.json").write_text(json.dumps({HOSTILE + str(k): k for k in range(60)}))
    _, out, err = run("table", str(file), *options)
    shown = out + err
    assert "\\x1b" in shown or "\\u001b" in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b\u2066\U000e0041]", shown)
    assert "\nattnlaw: all is well" not in shown


def test_names_of_columns_do_not_steer_the_terminal(run, tmp_path):
    (tmp_path / "x.csv").write_text(HOSTILE.replace("\n", "") + ",label\na,b\n", encoding="utf-8")
    code, out, err = run(
        "pool", str(tmp_path / "x.csv"), "--text", "text", "--model", str(tmp_path)
    )
    assert code == 2
    assert "\\x1b]0;owned" in err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b\u2066\U000e0041]", out + err)


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the output")
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_an_output_that_takes_nothing_gets_a_sentence(redirection):
    if redirection != ">&-" and not os.path.exists("/dev/full"):
        pytest.skip("there is no full device")
    line = f"{sys.executable} -m attnlaw predict {redirection}"
    done = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("attnlaw: ")
