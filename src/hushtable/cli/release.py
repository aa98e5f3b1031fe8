"""Commands for analysts: ``hushtable show``, ``query`` and ``export``."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hushtable as ht
from hushtable.cli.options import AsJson, ReleasePath
from hushtable.cli.plain import print_json
from hushtable.cli.question import QueryOptions, require, write
from hushtable.cli.question import show as show_answer
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa


def show(release: ReleasePath, as_json: AsJson = False) -> None:
    """Show the statement of a release."""
    statement = _load(release).statement
    if as_json:
        print_json(statement.model_dump(mode="json", by_alias=True))
    else:
        from rich.markdown import Markdown  # noqa: PLC0415 - slow to import

        from hushtable.cli.screen import console  # noqa: PLC0415

        console.print(Markdown(statement.for_people()))


def query(  # noqa: PLR0917 - the options of a command
    release: ReleasePath,
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHERE]", help="SQL WHERE clause. Required unless another question is given."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Answer separately for each value of COLUMN. Repeatable; not with --regress.",
        ),
    ] = None,
    mean: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Estimate the mean of COLUMN.")
    ] = None,
    quantile: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN:P",
            help="Estimate quantile P of COLUMN, such as age:0.5 for the median.",
        ),
    ] = None,
    regress: Annotated[
        str | None,
        typer.Option(
            metavar="FORMULA",
            help="Fit a linear regression, such as 'pay ~ age + C(region)'.",
        ),
    ] = None,
    logistic: Annotated[
        bool,
        typer.Option(
            "--logistic", help="With --regress: fit a logistic regression (binary outcome)."
        ),
    ] = False,
    population: Annotated[
        bool,
        typer.Option(
            "--population",
            help="Include sampling error: intervals for the population behind the table.",
        ),
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Public CSV or Parquet file, for IN (SELECT column FROM NAME ...). Repeatable.",
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the answer to a new CSV file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the answer and its interval to a new SVG file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate a count, mean, quantile or regression from a release, with 95% intervals."""
    asked = QueryOptions(
        where=where,
        by=tuple(by or ()),
        mean=mean,
        quantile=quantile,
        regress=regress,
        logistic=logistic,
        scope="population" if population else "people",
    )
    require(asked, csv, plot)
    answer = asked.ask(_load(release), _public_tables(table or []))
    write(answer, csv, plot)
    show_answer(answer, as_json=as_json)


def export(
    release: ReleasePath,
    out: Annotated[Path, typer.Option(help="New .csv or .parquet file.")],
    as_json: AsJson = False,
) -> None:
    """Write the microdata rows of a release to a file."""
    from hushtable.cli.screen import tell  # noqa: PLC0415 - slow to import

    opened = _load(release)
    opened.export(out)
    tell(f"Wrote {out}: {opened.n_rows:,} rows.", as_json=as_json, file=str(out),
         rows=opened.n_rows)  # fmt: skip


def _load(folder: Path) -> ht.Release:
    """Load a release without garbage collection, which would only slow down the imports."""
    gc.disable()
    try:
        return ht.Release.load(folder)
    finally:
        if not gc.get_freeze_count():  # the first load has imported everything
            gc.freeze()
        gc.enable()


def _public_tables(given: list[str]) -> dict[str, pa.Table]:
    """Read the tables given as NAME=FILE."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.csv as pa_csv  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables: dict[str, pa.Table] = {}
    problems = []
    for item in given:
        name, sign, file = item.partition("=")
        if not name or not sign:
            problems.append(f"{item!r} is not NAME=FILE.")
            continue
        if name in tables:
            problems.append(f"table {name!r} is given twice; give each name once.")
            continue
        try:
            tables[name] = (
                pq.read_table(file) if file.endswith(".parquet") else pa_csv.read_csv(file)
            )
        except (OSError, pa.ArrowInvalid) as error:
            problems.append(f"table {name!r}: cannot read {file!r}: {error}.")
    if problems:
        raise ParameterError(problems)
    return tables
