"""Entry point of the command line: the list of commands, and error handling.

Each command is a function in its own module; a group of commands is a `typer.Typer`. Both are
listed in `COMMANDS`. A command's module is imported when the command is used, and slow imports are
delayed until they are needed, so that help and small commands start quickly.
"""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_group

# The package imports its names on first use; most commands need only a few of them.
import hushtable as ht
from hushtable.cli.ending import Stopped, listen, own_notes, stopped, warn
from hushtable.cli.lazy import as_command, lazy_group
from hushtable.cli.plain import REFUSED, WRONG_USAGE
from hushtable.errors import HushtableError, HushtableWarning, InternalError, ParameterError

COMMANDS = {
    **{name: name for name in ("methods", "demo", "start")},
    **dict.fromkeys(("show", "describe", "query", "tables", "export", "metadata"), "release"),
    **{name: name for name in ("evaluate", "compare")},
    **dict.fromkeys(("workbench", "serve", "explore", "mcp"), "web"),
    **{name: name for name in ("selftest", "schema", "plan", "publish", "audit", "graph")},
    **{name: name for name in ("ledger", "dossier", "linked", "series", "reproduce")},
}
"""Command name to module name, in the order of the help."""


def _made(name: str) -> Any:
    """Return the command or command group called `name`."""
    module = import_module(f"hushtable.cli.{COMMANDS[name]}")
    group = getattr(module, f"{name}_group", None)
    return as_command(name, getattr(module, name)) if group is None else get_group(group)


app = lazy_group(
    "hushtable",
    lambda: COMMANDS,
    _made,
    help_text="Publish microdata under a stated and tested privacy guarantee.",
)


VERBOSE = ("-v", "--verbose")


class _OnScreen(logging.Handler):
    """Handler that logs to standard error, above any progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        from hushtable.cli.screen import errors  # noqa: PLC0415 - slow to import

        if errors.is_terminal:
            errors.print(f"hushtable: {record.getMessage()}", soft_wrap=True)
        else:
            warn(record.getMessage())


def _print_log(asked: bool) -> None:
    if asked:
        log = logging.getLogger("hushtable")
        log.setLevel(logging.INFO)
        log.addHandler(_OnScreen())


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"hushtable {ht.__version__}\n")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            *VERBOSE,
            callback=_print_log,
            help="Log phases and their durations to standard error; allowed anywhere in a command.",
        ),
    ] = False,
) -> None:
    """Declare the options common to all commands."""


def main() -> None:
    """Run the command line; turn every error into one message and an exit code."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    if any(word in VERBOSE for word in sys.argv[1:]):  # allowed anywhere in a command
        sys.argv[1:] = ["-v", *(word for word in sys.argv[1:] if word not in VERBOSE)]
    warnings.showwarning = _show_warning
    listen()
    try:
        app()
    except (Stopped, KeyboardInterrupt, Exception) as error:
        message, code = stopped(error) or _failed(error)
        if debug and (isinstance(error, InternalError) or not isinstance(error, HushtableError)):
            traceback.print_tb(error.__traceback__)
        warn(message)
        raise SystemExit(code) from None


def _failed(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of a command that failed."""
    if isinstance(error, ParameterError):
        return str(error), WRONG_USAGE
    if isinstance(error, InternalError):
        return f"{error}\nRun again with --debug to see where, and report it.", REFUSED
    if isinstance(error, HushtableError):
        return str(error), REFUSED
    # Messages of other libraries may quote private values, so only the type is shown.
    told = f"internal error ({type(error).__name__}). Run again with --debug to see where, and "
    return "\n".join([f"{told}report it.", *own_notes(error)]), REFUSED


def _show_warning(  # noqa: PLR0917 - as `warnings` calls it
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    # Warnings of other libraries may quote private values, and only matter to developers.
    if issubclass(category, HushtableWarning):
        warn(str(message))


if __name__ == "__main__":
    main()
