"""The program around the commands: it finds them, and turns failures into one line."""

import importlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from attnlaw._extras import MissingExtra

__all__ = ["Program"]

BAD_INPUT, INTERRUPTED = 2, 130


class Program(click.Group):
    """A group of commands that are imported when they are used.

    Bad input (a ValueError of the library, a wrong option, a file that cannot be read, a size
    that does not fit in memory) is one line on stderr and exit code 2; Ctrl-C is exit code 130.
    """

    def __init__(self, summaries: Mapping[str, str], **settings: Any) -> None:
        settings["context_settings"] = {"help_option_names": ["-h", "--help"]}
        super().__init__(
            **settings, callback=_show_help, invoke_without_command=True, no_args_is_help=False
        )
        self.summaries = summaries
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
        command = importlib.import_module(f"attnlaw.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run the command line and exit."""
        settings["standalone_mode"] = False
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal without ᵀ shows a question mark
                stream.reconfigure(errors="replace")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("default", UserWarning)  # RegimeWarning among them
                warnings.showwarning = _show_warning
                _show_logs()
                code = super().main(*args, **settings)
            sys.stdout.flush()
            sys.exit(code if isinstance(code, int) else 0)
        except click.ClickException as error:
            _fail(error.format_message(), BAD_INPUT)
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
        except (ValueError, TypeError, OSError, OverflowError) as error:
            _fail(str(error), BAD_INPUT)


def _fail(message: str, code: int) -> NoReturn:
    """Say in one line what is wrong, and exit."""
    click.echo("attnlaw: " + " ".join(message.split()), err=True)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning as a remark, without the line of code that it comes from."""
    click.echo("attnlaw: note: " + " ".join(str(message).split()), err=True)


class _Remarks(logging.Handler):
    """Shows what the library logs as remarks on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one remark."""
        click.echo("attnlaw: note: " + record.getMessage(), err=True)


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
