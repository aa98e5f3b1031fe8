"""Commands for analysts: ``hushtable show``, ``query`` and ``export``."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hushtable as ht
from hushtable.cli.options import AsJson, named_files
from hushtable.cli.plain import print_folded, print_json, print_line
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from hushtable.query.answers.estimator import Scope
    from hushtable.query.answers.table import EstimateTable


def show_answer(answer: ht.Estimate | EstimateTable, *, as_json: bool) -> None:
    """Print an answer as JSON, or as text with its notes."""
    if as_json:
        print_json(answer.to_dict())
        return
    print_line(str(answer))
    for note in answer.notes:
        print_folded(f"  {note}")


def write(answer: ht.Estimate | EstimateTable, csv: Path | None, plot: Path | None) -> None:
    """Write an answer to a new CSV file, and plot it to a new SVG file, if paths are given."""
    from hushtable.files.writing import write_whole  # noqa: PLC0415
    from hushtable.query.answers.estimator import Estimate  # noqa: PLC0415 - slow to import
    from hushtable.query.answers.table import EstimateTable  # noqa: PLC0415

    if csv is not None:
        table = EstimateTable((), ((),), (answer,)) if isinstance(answer, Estimate) else answer
        write_whole(csv, table.to_csv())
    if plot is not None:
        answer.plot().save(plot)


def show(release: Path, as_json: AsJson = False) -> None:
    """Show the statement of a release."""
    statement = _load(release).statement
    if as_json:
        print_json(statement.model_dump(mode="json", by_alias=True))
    else:
        from rich.markdown import Markdown  # noqa: PLC0415 - slow to import

        from hushtable.cli.screen import console  # noqa: PLC0415

        console.print(Markdown(statement.for_people()))


def query(
    release: Path,
    where: str | None = None,
    *,
    by: list[str] | None = None,
    mean: str | None = None,
    quantile: str | None = None,
    regress: str | None = None,
    logistic: bool = False,
    share: str | None = None,
    sql: str | None = None,
    population: bool = False,
    table: list[str] | None = None,
    of: str | None = None,
    csv: Path | None = None,
    plot: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Estimate a count, mean, quantile or regression from a release, with 95% intervals.

    Parameters
    ----------
    where : [WHERE]
        SQL WHERE clause. Required unless another question is given.
    by : COLUMN
        Answer separately for each value of COLUMN. Repeatable; not with --regress.
    mean : COLUMN
        Estimate the mean of COLUMN.
    quantile : COLUMN:P
        Estimate quantile P of COLUMN, such as age:0.5 for the median.
    regress : FORMULA
        Fit a linear regression, such as 'pay ~ age + C(region)'.
    logistic
        With --regress: fit a logistic regression (binary outcome).
    share : CONDITION
        Estimate the share of rows with CONDITION.
    sql : QUERY
        Answer 'SELECT column, avg(column) FROM release WHERE ... GROUP BY column'.
    population
        Include sampling error: intervals for the population behind the table.
    table : NAME=FILE
        Public CSV or Parquet file, for IN (SELECT column FROM NAME ...). Repeatable.
    of : TABLE
        Linked tables: ask about the rows of this table.
    csv
        Write the answer to a new CSV file.
    plot
        Draw the answer and its interval to a new SVG file.
    """
    kinds = {"mean": mean, "quantile": quantile, "share": share, "regress": regress, "sql": sql}
    asked = [name for name, given in kinds.items() if given]
    of_column, _, probability = (quantile or "").rpartition(":")
    problems = {
        f"--{' and --'.join(asked)} cannot be combined; choose one.": len(asked) > 1,
        "--logistic requires --regress; give a formula.": logistic and not regress,
        "--by cannot be combined with --regress; put the column in the formula as C(column).": (
            regress and by
        ),
        "--sql cannot be combined with a WHERE clause, --by or --population; write WHERE and GROUP "
        "BY in the query.": sql and (by or where or population),
        "no question is given; add a WHERE clause, --by, --mean, --quantile, --share, --regress or "
        "--sql.": where is None and not asked and not by,
        f"--quantile is {quantile!r}; it must be COLUMN:PROBABILITY, such as age:0.5.": (
            quantile and not (of_column and _is_number(probability))
        ),
    }
    _require(problems, csv, plot)
    opened = _load(release) if of is None else _load(release).of(of)
    if where is not None and table:
        from hushtable.query.where.lookup import look_up  # noqa: PLC0415 - slow to import

        where = look_up(where, opened.schema, _public_tables(table))
    scope: Scope = "population" if population else "people"
    groups = tuple(by or ())
    answer: ht.Estimate | EstimateTable
    if share:
        answer = opened.share(share, where, by=groups, scope=scope)
    elif sql:
        answer = opened.sql(sql)
    elif mean:
        answer = opened.mean(mean, where, by=groups, scope=scope)
    elif quantile:
        answer = opened.quantile(of_column, float(probability), where, by=groups, scope=scope)
    elif regress:
        answer = opened.regression(regress, where, logistic=logistic, scope=scope)
    else:
        answer = opened.count(where, by=groups, scope=scope)
    write(answer, csv, plot)
    show_answer(answer, as_json=as_json)


def describe(release: Path, columns: list[str] | None = None, *, as_json: AsJson = False) -> None:
    """Describe columns of a release: type, values, and distribution with 95% intervals.

    Parameters
    ----------
    columns : [COLUMN]...
        Default: all columns.
    """
    described = _load(release).describe(*(columns or ()))
    if as_json:
        print_json(described.to_dict())
    else:
        print_line(str(described))


def export(release: Path, *, out: Path, as_json: AsJson = False) -> None:
    """Write the microdata rows of a release to a file.

    Parameters
    ----------
    out
        New .csv, .parquet, .dta (Stata) or .sav (SPSS) file.
    """
    from hushtable.cli.screen import tell  # noqa: PLC0415 - slow to import

    opened = _load(release)
    opened.export(out)
    tell(f"Wrote {out}: {opened.n_rows:,} rows.", as_json=as_json, file=str(out),
         rows=opened.n_rows)  # fmt: skip


def tables(
    release: Path,
    columns: list[str],
    *,
    out: Path | None = None,
    of: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Estimate tables that add up exactly, with all margins and levels of taxonomies.

    Parameters
    ----------
    columns : A,B...
        Columns of a table, such as region,sex. Several.
    out
        New file: .json (JSON-stat), .csv (SDMX-CSV) or .xlsx.
    of : TABLE
        Linked tables: count the rows of this table.
    """
    from hushtable.cli.screen import console, tell  # noqa: PLC0415 - slow to import

    opened = _load(release) if of is None else _load(release).of(of)
    found = opened.tables(*([name.strip() for name in one.split(",")] for one in columns))
    if out is not None:
        found.export(out)
        tell(f"Wrote {out}.", as_json=as_json, file=str(out))
    elif as_json:
        print_json(found.to_json_stat())
    else:
        for table in found.tables:
            console.print(str(table), markup=False)
        console.print(
            f"All counts add up. Rounding changed a count by {found.rounding:.1f} at most."
        )


def metadata(
    release: Path,
    *,
    out: Path | None = None,
    publisher: str = "",
    license: str = "",
    url: str = "",
    as_json: AsJson = False,
) -> None:
    """Write metadata for archives and portals: Croissant, Data Package, DDI-Codebook and DCAT-AP.

    Paths in the files are relative to the release.

    Parameters
    ----------
    out
        Folder of the files. Default: the release.
    publisher
        Name of the publishing organization.
    license : URL
        Address of the license.
    url
        Address of the page that offers the release.
    """
    from hushtable.cli.screen import tell  # noqa: PLC0415 - slow to import
    from hushtable.release.metadata import FILES, write_metadata  # noqa: PLC0415

    folder = out or release
    write_metadata(_load(release), folder, publisher=publisher, license=license, url=url)
    tell(f"Wrote {', '.join(FILES)} to {folder}.", as_json=as_json, files=list(FILES))


def _load(folder: Path) -> ht.Release:
    """Load a release without garbage collection, which would only slow down the imports."""
    gc.disable()
    try:
        return ht.Release.load(folder)
    finally:
        if not gc.get_freeze_count():  # the first load has imported everything
            gc.freeze()
        gc.enable()


def _require(problems: Mapping[str, object], csv: Path | None, plot: Path | None) -> None:
    """Refuse a question with problems, and output files that cannot be written."""
    from hushtable.files.writing import require_new  # noqa: PLC0415 - slow to import

    found = [said for said, holds in problems.items() if holds]
    for path, suffixes in ((csv, ()), (plot, (".svg",))):
        try:
            if path is not None:
                require_new(path, *suffixes)
        except ParameterError as error:
            found += error.problems
    ParameterError.raise_if_any(found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _public_tables(given: list[str]) -> dict[str, pa.Table]:
    """Read public files as tables, from ``NAME=FILE``."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.csv as pa_csv  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables: dict[str, pa.Table] = {}
    problems: list[str] = []
    for name, file in named_files(given, problems).items():
        read = pq.read_table if file.endswith(".parquet") else pa_csv.read_csv
        try:
            tables[name] = read(file)
        except (OSError, pa.ArrowInvalid) as error:
            problems.append(f"table {name!r}: cannot read {file!r}: {error}.")
    ParameterError.raise_if_any(problems)
    return tables
