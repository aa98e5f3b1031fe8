"""The command line: its commands, and what becomes of errors.

A command is a function in a file of its own, and a group of commands a `typer.Typer`; both join the
lists below. What is slow to import is imported by the command that needs it, so that help and
everything small come at once.
"""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

# The names of the package are imported when they are first used: most commands need few of them.
import hushtable as ht
from hushtable.cli.audit import audit_group
from hushtable.cli.compare import compare
from hushtable.cli.demo import demo
from hushtable.cli.dossier import dossier_group
from hushtable.cli.evaluate import evaluate
from hushtable.cli.exit_codes import INTERRUPTED, REFUSED, WRONG_USAGE
from hushtable.cli.graph import graph_group
from hushtable.cli.ledger import ledger_group
from hushtable.cli.linked import linked_group
from hushtable.cli.methods import methods
from hushtable.cli.plan import plan_group
from hushtable.cli.publish import publish_group
from hushtable.cli.release import export, query, show
from hushtable.cli.schema import schema_group
from hushtable.cli.screen import errors, visible
from hushtable.cli.selftest import selftest
from hushtable.cli.series import series_group
from hushtable.cli.web import serve, workbench
from hushtable.errors import (
    HushtableError,
    HushtableWarning,
    InternalError,
    OwnNote,
    ParameterError,
)

COMMANDS = (methods, demo, show, query, export, evaluate, compare, workbench, serve, selftest)
GROUPS = (
    *(schema_group, plan_group, publish_group, audit_group, graph_group, ledger_group),
    *(dossier_group, linked_group, series_group),
)

app = typer.Typer(
    name="hushtable",
    help="Publish tables about people with a promise that is written down and checked.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _command in COMMANDS:
    app.command()(_command)
for _group in GROUPS:
    app.add_typer(_group)


VERBOSE = ("-v", "--verbose")


class _OnScreen(logging.Handler):
    """Write what is logged to standard error, above a bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        told = f"hushtable: {record.getMessage()}"
        if errors.is_terminal:
            errors.print(told, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(f"{told}\n")


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
    try:
        app()
    except ParameterError as error:
        _fail(str(error), WRONG_USAGE)
    except InternalError as error:
        if debug:
            traceback.print_tb(error.__traceback__)
        _fail(f"{error}\nRun again with --debug to see where, and report it.", REFUSED)
    except HushtableError as error:
        _fail(str(error), REFUSED)
    except KeyboardInterrupt as error:
        _fail("\n".join(["interrupted.", *_notes(error)]), INTERRUPTED)
    except Exception as error:
        # The message of a foreign error may quote private values, so only its kind is shown.
        if debug:
            traceback.print_tb(error.__traceback__)
        told = f"internal error ({type(error).__name__}). Run again with --debug to see where, and "
        _fail("\n".join([f"{told}report it.", *_notes(error)]), REFUSED)


def _notes(error: BaseException) -> list[str]:
    """Give what the pipeline added to an error; notes of other libraries may quote values."""
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]


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
        sys.stderr.write(f"hushtable: {message}\n")


def _fail(message: str, code: int) -> None:
    # Names from files are quoted in messages, and a terminal must not obey them.
    sys.stderr.write(f"hushtable: {visible(message)}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
