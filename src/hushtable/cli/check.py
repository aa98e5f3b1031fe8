"""``hushtable evaluate --check``: check a table for k-anonymity, l-diversity and t-closeness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer

from hushtable.cli.plain import print_json
from hushtable.cli.screen import console
from hushtable.engine.output_guard import silenced
from hushtable.errors import DataError, ParameterError
from hushtable.evaluation.risk.anonymity import check, measure, requirements
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding


def check_table(
    path: str,
    wanted: Sequence[str],
    *,
    quasi: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    schema: Schema | None = None,
    as_json: bool = False,
) -> None:
    """Print whether a table or release meets each requirement; exit with 1 if it misses one.

    `wanted` has requirements such as ``k=5`` or ``k=5,l=3,t=0.2``. By default, the schema's target
    is sensitive and all other columns are quasi-identifiers. The schema of a plain table defines
    its columns and the order of their values; a release has its own.
    """
    asked = requirements(wanted)
    table, schema, recode = silenced(_read)(path, schema)
    named = list(schema.attributes) if schema is not None else table.column_names
    columns = [name for name in named if name in table.column_names]
    if not sensitive and schema is not None and schema.target in columns:
        sensitive = [str(schema.target)]
    known = list(quasi) or [name for name in columns if name not in sensitive]
    both = [name for name in known if name in sensitive]
    if both:
        raise ParameterError(
            f"{', '.join(both)}: a column is either a quasi-identifier (--quasi) or sensitive "
            "(--sensitive), not both."
        )
    found = silenced(measure)(table, quasi=known, sensitive=sensitive, schema=schema, recode=recode)
    verdicts = check(found, asked)
    holds = all(verdict.holds for verdict in verdicts)
    if as_json:
        content = {
            "holds": holds,
            "verdicts": [verdict.to_dict() for verdict in verdicts],
            "anonymity": found.to_dict(),
        }
        print_json(content)
    else:
        for verdict in verdicts:
            console.print(str(verdict), soft_wrap=True)
        console.print(
            f"{found.n_rows:,} rows in {found.n_groups:,} groups with equal "
            f"{', '.join(found.quasi)}.",
            soft_wrap=True,
        )
    if not holds:
        raise typer.Exit(1)


def _read(path: str, schema: Schema | None) -> tuple[pa.Table, Schema | None, dict[str, Recoding]]:
    """Read a table, or a release with its schema and recoding."""
    if Path(path).is_dir():
        release = Release.load(path)
        if schema is not None:
            raise ParameterError("a release has its own schema; leave out --schema.")
        return release.frame(), release.schema, dict(release.recode)
    try:
        if path.endswith(".parquet"):
            return pq.read_table(path), schema, {}
        return pa_csv.read_csv(path), schema, {}
    except FileNotFoundError:
        raise DataError(f"cannot read {path!r}: there is no such file.") from None
    except (OSError, pa.ArrowInvalid):
        # The reader's message may quote private values.
        raise DataError(f"cannot read {path!r}: it is not a CSV or Parquet table.") from None
