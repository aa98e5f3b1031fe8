"""``hushtable selftest``: checks of the installation on this machine."""

from __future__ import annotations

import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

import hushtable as ht
from hushtable.cli.options import AsJson
from hushtable.cli.plain import REFUSED, print_json
from hushtable.cli.screen import console, one_bar, print_whole

if TYPE_CHECKING:
    from hushtable.selftest import CheckRow

_LIBRARIES = ("numpy", "scipy", "numba", "pyarrow")


def selftest(as_json: AsJson = False) -> None:
    """Check noise, published figures, promises and the ledger on this machine (about a minute)."""
    from hushtable.selftest import run_checks  # noqa: PLC0415 - slow to import

    with one_bar("noise") as progress:
        rows = run_checks(progress=progress)
    where = _where()
    failed = [row for row in rows if row.word == "FAILS"]
    if as_json:
        checks = [asdict(row) for row in rows]
        print_json({**where, "holds": not failed, "checks": checks})
    else:
        _show(rows, where)
    if failed:
        raise typer.Exit(REFUSED)


def _where() -> dict[str, Any]:
    """Return the versions, machine and time of the checks."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to import

    return {
        "version": ht.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "libraries": {name: version(name) for name in _LIBRARIES},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _show(rows: list[CheckRow], where: dict[str, Any]) -> None:
    table = Table(box=None, header_style="bold")
    table.add_column("about")
    table.add_column("check")
    table.add_column("", no_wrap=True)
    table.add_column("found")
    table.add_column("s", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.group, row.name, row.word, row.said, f"{row.seconds:.1f}")
    print_whole(table)
    libraries = ", ".join(f"{name} {number}" for name, number in where["libraries"].items())
    n_held = sum(row.word == "holds" for row in rows)
    console.print(
        f"{n_held} of {len(rows)} checks hold; hushtable {where['version']}, Python "
        f"{where['python']}, {where['machine']}, {libraries}; {where['time']}."
    )
    for row in rows:
        if row.word != "holds":
            console.print(f"{row.word}: {row.name}: {row.said}")
