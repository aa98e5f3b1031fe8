"""The command line: its commands, and what becomes of errors.

A command is a function in a file of its own, and a group of commands a `typer.Typer`; both join the
list below. A command is imported when it is asked for, and what is slow to import only where it is
needed, so that help and everything small come at once.
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

# The names of the package are imported when they are first used: most commands need few of them.
import hushtable as ht
from hushtable.cli.ending import Stopped, listen, own_notes, stopped, warn
from hushtable.cli.exit_codes import REFUSED, WRONG_USAGE
from hushtable.cli.lazy import as_command, lazy_group
from hushtable.errors import (
    HushtableError,
    HushtableWarning,
    InternalError,
    ParameterError,
)

COMMANDS = {
    **{name: name for name in ("methods", "demo")},
    **dict.fromkeys(("show", "query", "export"), "release"),
    **{name: name for name in ("evaluate", "compare")},
    **dict.fromkeys(("workbench", "serve"), "web"),
    **{name: name for name in ("selftest", "schema", "plan", "publish", "audit", "graph")},
    **{name: name for name in ("ledger", "dossier", "linked", "series")},
}
"""The module of each command, in the order of the help."""


def _made(name: str) -> Any:
    """Make a command of the function of its name, or of the group that is called after it."""
    module = import_module(f"hushtable.cli.{COMMANDS[name]}")
    group = getattr(module, f"{name}_group", None)
    return as_command(name, getattr(module, name)) if group is None else get_group(group)


app = lazy_group(
    "hushtable",
    lambda: COMMANDS,
    _made,
    help_text="Publish tables about people with a promise that is written down and checked.",
)


VERBOSE = ("-v", "--verbose")


class _OnScreen(logging.Handler):
    """Write what is logged to standard error, above a bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        from hushtable.cli.screen import errors  # noqa: PLC0415 - slow to import

        if errors.is_terminal:
            errors.print(f"hushtable: {record.getMessage()}", highlight=False, soft_wrap=True)
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
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            *VERBOSE,
            callback=_print_log,
            help="Tell phases and how long they took, on standard error; anywhere in a command.",
        ),
    ] = False,
) -> None:
    """Take the options that stand before every command."""


def main() -> None:
    """Run the command line; every refusal is one message and an exit code."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    if any(word in VERBOSE for word in sys.argv[1:]):  # an option of all commands, wherever
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
    # The message of a foreign error may quote private values, so only its kind is shown.
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
    # Warnings of other libraries may quote values, and are for those who develop.
    if issubclass(category, HushtableWarning):
        warn(str(message))


if __name__ == "__main__":
    main()
