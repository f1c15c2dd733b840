"""The program around the commands: it finds them, and turns failures into one line."""

import importlib
import io
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from attnlaw._machine import MissingExtra

__all__ = ["LATE_CONTROLS", "Program", "say", "visible"]

BAD_INPUT, INTERRUPTED = 2, 130

SPELLED = {
    "rng": "--seed",
    "class_shares": "--shares",
    "exponent": "--zipf",
    "a": "--smoothing",
    "coefficient": "--autoregressive",
    "strength": "--spiked",
    "ratio": "--mp",
    "variance": "--semicircle",
    "goal": "--for",
}
"""Options whose names differ from the arguments that they set."""


LATE_CONTROLS = (
    "\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
"""Characters that steer a terminal or text, are not seen, or are none; JSON spells the earlier."""


def visible(text: str) -> str:
    r"""Spell out what would steer a terminal: names in files may hold any character.

    Examples
    --------
    >>> print(visible("wte\x1b[2J\nforged"))
    wte\x1b[2J\x0aforged
    """
    return re.sub(f"[\x00-\x1f{LATE_CONTROLS}]", _spelled, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else json.dumps(found[0])[1:-1]


def say(line: str, err: bool = False) -> None:
    """Print one line of text that may quote a file."""
    click.echo(visible(line), err=err)


class Program(click.Group):
    """A group of commands that are imported when they are used.

    Bad input (a ValueError of the library, a wrong option, a file that cannot be read, a size
    that does not fit in memory) is one line on stderr and exit code 2; Ctrl-C is exit code 130.
    """

    def __init__(
        self, summaries: Mapping[str, str], places: Mapping[str, str], **settings: Any
    ) -> None:
        settings["context_settings"] = {"help_option_names": ["-h", "--help"]}
        super().__init__(
            **settings, callback=_show_help, invoke_without_command=True, no_args_is_help=False
        )
        self.summaries, self.places = summaries, places
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_show_version,
                help="Show the version and exit.",
            )
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of their registration."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command."""
        if cmd_name not in self.summaries:
            return None
        module, _, name = self.places.get(cmd_name, f"{cmd_name}:command").partition(":")
        command = getattr(importlib.import_module(f"attnlaw.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for, or say which one may have been meant."""
        if args and args[0] not in self.summaries and not args[0].startswith("-"):
            ctx.fail(_unknown_command(args[0], list(self.summaries)))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run the command line and exit."""
        settings["standalone_mode"] = False
        given = next((a for a in (*args, settings.get("args")) if a is not None), None)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal without ᵀ shows a question mark
                stream.reconfigure(errors="replace")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("default", UserWarning)  # RegimeWarning among them
                # deprecations of packages, also those that are user warnings as well
                warnings.simplefilter("ignore", DeprecationWarning)
                warnings.showwarning = _Notes()
                _show_logs()
                code = super().main(*args, **settings)
            if sys.stdout is None:
                raise OSError("standard output must be open for the answer, got a closed one.")
            sys.stdout.flush()
            sys.exit(code if isinstance(code, int) else 0)
        except click.ClickException as error:
            _fail(self._as_typed(_with_suggestion(error.format_message()), given), BAD_INPUT)
        except (KeyboardInterrupt, click.Abort):
            _fail("interrupted", INTERRUPTED)
        except BrokenPipeError:  # the reader (head, less) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(0)
        except MemoryError as error:
            _fail(str(error) or "the sizes asked for do not fit in memory", BAD_INPUT)
        except MissingExtra as error:
            _fail(str(error), BAD_INPUT)
        except ModuleNotFoundError as error:
            _fail(f"{error.name} is not installed, and this command needs it", BAD_INPUT)
        except OSError as error:
            _fail(_file_trouble(error), BAD_INPUT)
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            _fail(self._as_typed(str(error), given), BAD_INPUT)

    def _as_typed(self, message: str, arguments: Sequence[str] | None) -> str:
        """Call the argument that a sentence of the library begins with by its option."""
        typed_words = sys.argv[1:] if arguments is None else arguments
        words = [w.partition("=")[0] if w.startswith("--") else w for w in typed_words]
        name = next((word for word in words if word in self.summaries), None)
        found = re.match(r"(\w+) must be ", message)
        if name is None or found is None:
            return message
        command = self.get_command(click.Context(self), name)
        spelled: dict[str, str] = {}
        for option in command.params if command else ():
            typed = next((flag for flag in option.opts if flag in words), option.opts[0])
            spelled |= {flag.strip("-").replace("-", "_"): typed for flag in option.opts}
            spelled |= {f"n_{option.name}": typed}  # n_jobs is --jobs
        spelled |= {k: v for k, v in SPELLED.items() if v in spelled.values() and v in words}
        return spelled.get(found[1], found[1]) + message[found.end(1) :]


def _unknown_command(name: str, known: list[str]) -> str:
    """Say that there is no such command, and which are near or which there are."""
    near = get_close_matches(name, known, n=2)
    words = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(known)}."
    return f"No such command {name!r}; {words}"


def _with_suggestion(message: str) -> str:
    """Add to a sentence of click the choice that a misspelt one may stand for."""
    found = re.search(r"'([^']*)' is not one of (.*)\.$", message)
    near = get_close_matches(found[1], re.findall(r"'([^']*)'", found[2]), n=1) if found else []
    return f"{message[:-1]}; did you mean {near[0]}?" if near else message


def _file_trouble(error: OSError) -> str:
    """Say what is wrong with a file, with its whole path."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.strerror[0].lower()}{error.strerror[1:]}: {os.fsdecode(error.filename)}"


def _fail(message: str, code: int) -> NoReturn:
    """Say in one line what is wrong, and exit."""
    say("attnlaw: " + " ".join(message.split()), err=True)
    sys.exit(code)


class _Notes:
    """Shows warnings as remarks, each once, without the line of code that it comes from."""

    def __init__(self) -> None:
        self.shown = set[str]()

    def __call__(self, message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in self.shown:
            say("attnlaw: note: " + text, err=True)
        self.shown.add(text)


class _Remarks(logging.Handler):
    """Shows what the library logs as remarks on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one remark."""
        say("attnlaw: note: " + record.getMessage(), err=True)


def _show_logs() -> None:
    """Show what the library says while it works, such as that it compiles."""
    logger = logging.getLogger("attnlaw")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _Remarks) for handler in logger.handlers):
        logger.addHandler(_Remarks())


@click.pass_context
def _show_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from attnlaw import __version__

        click.echo(f"attnlaw {__version__}")
        ctx.exit()
