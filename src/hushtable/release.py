"""A release: a folder with data and a written promise, loaded without the private table."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from hushtable.errors import (
    DataError,
    HushtableError,
    HushtableWarning,
    ParameterError,
    ReleaseError,
    TooLarge,
)
from hushtable.estimate import Estimate, Estimator
from hushtable.estimate.answers import Answer, Answers, Family
from hushtable.estimate.base import Scope
from hushtable.estimate.combine import combine, drawn_frame, generator, some_rows
from hushtable.estimate.drawing import Generator
from hushtable.estimate.estimate_table import EstimateTable
from hushtable.estimate.published import Published
from hushtable.file_format import FileFormat
from hushtable.files.exported_rows import export_rows
from hushtable.files.memory import physical_memory
from hushtable.files.notebook import html_list, html_table
from hushtable.files.stored_rows import stored_rows
from hushtable.files.whole_file import sha256_of
from hushtable.methods.registry import estimator_for
from hushtable.privacy.guarantee import Unit
from hushtable.recoding import Recoding
from hushtable.schema import Schema
from hushtable.statement import (
    NOT_PRIVATE,
    SEEDED,
    SEEDED_MARK,
    STATEMENT,
    STATEMENT_FOR_PEOPLE,
    LedgerReceipt,
    Statement,
    TableFile,
    check_seeded,
)

_Answer = TypeVar("_Answer", Estimate, EstimateTable, Estimate | EstimateTable)

__all__ = [
    "SEEDED",
    "SEEDED_MARK",
    "STATEMENT",
    "STATEMENT_FOR_PEOPLE",
    "LedgerReceipt",
    "Release",
    "SeededReleaseWarning",
    "Statement",
    "sha256_of",
]


By = str | Sequence[str]
"""A column whose groups are answered one by one, or several."""


class SeededReleaseWarning(HushtableWarning):
    """Say that a release is not private because its noise came from a seed."""


class Release:
    """Read a release folder.

    Parameters
    ----------
    folder : Path
        Where it lies.
    statement : Statement
        Its statement.
    """

    def __init__(self, folder: Path, statement: Statement) -> None:
        self.folder = folder
        self.statement = statement

    @classmethod
    def load(cls, folder: str | Path) -> Release:
        """Open a release folder and check that it is complete and unchanged.

        A release made with seeded noise gives a `SeededReleaseWarning`.
        """
        folder = Path(folder)
        try:
            text = _inside(folder, STATEMENT).read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise ReleaseError(
                f"{str(folder)!r} is not a release: it has no readable {STATEMENT}."
            ) from None
        try:
            statement = Statement.model_validate_json(text)
        except (ValidationError, HushtableError, RecursionError) as error:
            what = (
                "; ".join(
                    f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                    for problem in error.errors()[:5]
                )
                if isinstance(error, ValidationError)
                else str(error)
            )
            raise ReleaseError(f"{STATEMENT} of {str(folder)!r} is not valid: {what}.") from None
        check_seeded(statement)
        digests: dict[str, str] = {}
        for described in statement.tables.values():
            digests |= described.digests
            if described.parts and described.digest_of_parts() != described.sha256:
                raise ReleaseError(f"{STATEMENT}: the parts of {described.file} were changed.")
        for file, digest in (digests | statement.attachments).items():
            try:
                found = sha256_of(_inside(folder, file))
            except (OSError, ValueError):
                raise ReleaseError(
                    f"release {str(folder)!r} is incomplete: {file} is gone, or is not a file; get "
                    "a fresh copy."
                ) from None
            if found != digest:
                raise ReleaseError(
                    f"release {str(folder)!r}: {file} was changed after it was published; get a "
                    "fresh copy."
                )
        release = cls(folder, statement)
        try:
            _ = release.schema
        except HushtableError as error:
            raise ReleaseError(
                [f"{STATEMENT} of {str(folder)!r} has no valid schema:", *error.problems]
            ) from None
        if statement.seeded:
            warnings.warn(NOT_PRIVATE, SeededReleaseWarning, stacklevel=2)
        return release

    def _repr_html_(self) -> str:
        statement = self.statement
        warning = f"<p><b>{html.escape(NOT_PRIVATE)}</b></p>" if statement.seeded else ""
        promises = html_list(promise.explain() for promise in statement.guarantees)
        tables = ((name, f"{table.rows:,}") for name, table in statement.tables.items())
        return (
            f"<h4>{html.escape(str(statement.public_schema.get('name', '')))}</h4>{warning}"
            f"<p>Published with {html.escape(statement.method)}.</p>{promises}"
            f"{html_table(['table', 'rows'], tables)}"
            f"<p>Columns: {html.escape(', '.join(self.schema.attributes))}.</p>"
        )

    @cached_property
    def schema(self) -> Schema:
        """The public schema."""
        return Schema.from_dict(self.statement.public_schema)

    def table(self, name: str = "data") -> pa.Table:
        """Read one table as it was published."""
        if name not in self.statement.tables:
            known = ", ".join(self.statement.tables)
            raise ReleaseError(f"there is no table {name!r}; this release has {known}.")
        described = self.statement.tables[name]
        try:
            # One file after the other, never what a folder's name might say about more columns.
            files = [pq.ParquetFile(self.folder / file) for file in described.digests]
            if sum(map(stored_rows, files)) != described.rows:
                raise ReleaseError(f"{described.file} has other rows than the statement says.")
            _require_memory(described, files[0].metadata.num_columns)
            return pa.concat_tables([file.read() for file in files])
        except (OSError, pa.ArrowException, ValueError) as error:
            if isinstance(error, HushtableError):
                raise
            raise ReleaseError(f"{described.file} cannot be read as a table.") from error

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Say that tables do not fit the statement, at whatever question that turns up."""
        try:
            yield
        except HushtableError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError,
                pa.ArrowException) as error:  # fmt: skip
            raise ReleaseError(
                f"the tables of {str(self.folder)!r} do not fit its {STATEMENT}: it was not made "
                "by hushtable, or by another version."
            ) from error

    @cached_property
    def _estimator(self) -> Estimator:
        tables = {name: self.table(name) for name in self.statement.tables}
        with self._fitting():
            return estimator_for(
                self.statement.estimator, self.schema, self.statement.parameters, tables
            )

    def count(self, where: str, *, tables: Mapping[str, pa.Table] | None = None) -> Estimate:
        """Estimate how many rows of the private table satisfy a SQL WHERE clause.

        `tables` are public tables of your own that the clause may look values up in:
        ``country IN (SELECT name FROM regions WHERE continent = 'Africa')``.
        """
        if tables:
            from hushtable.predicate.lookup import look_up  # noqa: PLC0415 - slow to import

            where = look_up(where, self.schema, tables)
        with self._fitting():
            answer = self._impossible(where) or self._estimator.count(where)
        return self._about(replace(answer, what=self._estimator.counted))

    def _about(self, answer: _Answer) -> _Answer:
        """Say which rows an answer is about, where a person has several."""
        bounded = self._estimator.bounded
        if not bounded:
            return answer
        if isinstance(answer, EstimateTable):
            return replace(answer, estimates=tuple(map(self._about, answer.estimates)))
        return replace(answer, notes=(*answer.notes, bounded))

    def _impossible(self, where: str) -> Estimate | None:
        """Answer a question that the schema's rules answer."""
        if not self.schema.rules:
            return None
        from hushtable.predicate.rules import is_impossible  # noqa: PLC0415 - slow to import

        if not is_impossible(where, self.schema):
            return None
        said = "No row that keeps the schema's rules satisfies this condition."
        return Estimate(value=0.0, low=0.0, high=0.0, privacy_std=0.0, model_std=0.0, notes=(said,))

    # --- answers ----------------------------------------------------------------------------------

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self._estimator)

    def total(self, where: str | None = None, *, scope: Scope = "people") -> Estimate:
        """Count the rows of the private table, or those that satisfy a condition.

        Parameters
        ----------
        where : str, optional
            A SQL WHERE clause.
        scope : {"people", "population"}
            What the interval is about: the people in the table, or the population they were
            sampled from.
        """
        with self._fitting():
            return self._about(self._answers.total(where, scope))

    def share(
        self,
        where: str,
        *,
        of: str | None = None,
        by: By = (),
        scope: Scope = "people",
    ) -> Answer:
        """Estimate the share of rows that satisfy a condition, among all or among those of `of`."""
        with self._fitting():
            return self._about(self._answers.share(where, of, _names(by), scope))

    def crosstab(
        self,
        by: By,
        where: str | None = None,
        *,
        family: Family = "each",
        margins: bool = False,
        scope: Scope = "people",
    ) -> EstimateTable:
        """Count rows by the values of some columns.

        Parameters
        ----------
        by : str or sequence of str
            The columns.
        where : str, optional
            A SQL WHERE clause.
        family : {"each", "all"}
            Whether each interval holds with 95 %, or all of them together.
        margins : bool
            Whether to count rows of any value, too; these are then the sums of their cells.
        scope : {"people", "population"}
            What the intervals are about.
        """
        with self._fitting():
            return self._about(
                self._answers.crosstab(
                    _names(by), where, family=family, margins=margins, scope=scope
                )
            )

    def mean(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> Answer:
        """Estimate the mean of a numeric column, of all rows or of each group of `by`."""
        return self._statistic("mean", column, where, by, scope)

    def sum(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> Answer:
        """Estimate the sum of a numeric column."""
        return self._statistic("sum", column, where, by, scope)

    def variance(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> Answer:
        """Estimate the variance of a numeric column."""
        return self._statistic("variance", column, where, by, scope)

    def _statistic(self, name: str, column: str, where: str | None, by: By, scope: Scope) -> Answer:
        with self._fitting():
            return self._about(self._answers.statistic(name, column, where, _names(by), scope))

    def quantile(
        self,
        column: str,
        probability: float,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
    ) -> Answer:
        """Estimate the least value that at least this share of the rows do not exceed."""
        with self._fitting():
            return self._about(
                self._answers.quantile(column, probability, where, _names(by), scope)
            )

    def median(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> Answer:
        """Estimate the median of a numeric column."""
        return self.quantile(column, 0.5, where, by=by, scope=scope)

    def correlation(
        self,
        one: str,
        other: str,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
    ) -> Answer:
        """Estimate the correlation of two numeric columns."""
        with self._fitting():
            return self._about(self._answers.correlation(one, other, where, _names(by), scope))

    def regression(
        self,
        formula: str,
        where: str | None = None,
        *,
        logistic: bool = False,
        scope: Scope = "people",
    ) -> EstimateTable:
        """Regress a column on others: ``release.regression("pay ~ age + C(region)")``.

        Parameters
        ----------
        formula : str
            The outcome, ``~``, and the columns that explain it, with C() around those that stand
            for groups; the first value of a group is what its others are compared with.
        where : str, optional
            A SQL WHERE clause.
        logistic : bool
            Whether the outcome is a list of two values, of which the second is explained.
        scope : {"people", "population"}
            What the intervals are about.
        """
        with self._fitting():
            return self._about(
                self._answers.regression(formula, where, logistic=logistic, scope=scope)
            )

    # --- rows -------------------------------------------------------------------------------------

    def frame(
        self,
        *,
        drawn: bool = False,
        n: int | None = None,
        where: str | None = None,
        seed: int | None = None,
    ) -> pa.Table:
        """Give microdata as an Arrow table: what is published, row by row.

        Whatever the method, the columns are those of the schema that are published, in its order;
        before them stands the one that numbers people, where a person has several rows. What a
        method publishes beside them, such as counts and errors, is in `table`. No row breaks a rule
        of the schema, and derived columns stand after the others.

        Parameters
        ----------
        drawn : bool
            Whether generalized values are replaced by values drawn evenly from inside them, so that
            the rows look like those of the private table.
        n : int, optional
            How many rows; all that there are, unless it is said. Where it is more, rows repeat.
        where : str, optional
            A SQL WHERE clause that rows must satisfy; of generalized rows this needs `drawn`.
        seed : int, optional
            Chooses the same rows again.
        """
        with self._fitting():
            rows = self._estimator.drawn_frame() if drawn else self._estimator.frame()
            named = [self.schema.unit.column, *self.schema.attributes]
            rows = rows.select([name for name in named if name in rows.column_names])
            rows = self._keeping_rules(rows, {} if drawn else self.recode)
            if n is None and where is None:
                return rows
            if where is not None and self._estimator.recode and not drawn:
                raise ParameterError(
                    "rows of this release have generalized values, which a condition cannot be "
                    "tried on; add drawn=True."
                )
            return some_rows(self._estimator.asked, rows, n, where, generator(seed))

    def _keeping_rules(self, rows: pa.Table, recode: Mapping[str, Recoding]) -> pa.Table:
        if not (self.schema.rules or self.schema.derived):
            return rows
        from hushtable.predicate.rules import kept_rows, with_derived  # noqa: PLC0415 - slow

        kept = kept_rows(rows, self.schema, recode)
        if kept is not None and not kept.all():
            rows = rows.filter(pa.array(kept))
        return with_derived(rows, self.schema, recode)

    def frames(
        self, m: int = 20, *, n: int | None = None, seed: int | None = None
    ) -> list[pa.Table]:
        """Draw several frames from the uncertainty of the release, for tools of your own.

        What they give is put together by `combine`.
        """
        if m < 2:
            raise ParameterError(f"several frames are at least 2, not {m}.")
        rng = generator(seed)
        with self._fitting():
            return [drawn_frame(self._estimator, rng, n) for _ in range(m)]

    def combine(
        self,
        compute: Callable[[pa.Table], Any],
        *,
        m: int = 20,
        seed: int | None = None,
        scope: Scope = "people",
    ) -> Answer:
        """Compute something from several frames and give it with an interval.

        Parameters
        ----------
        compute : callable
            Takes a frame; gives a number with its variance, as a pair, or a mapping of names to
            such pairs. The variance is the one that would hold if the rows were a sample of people.
        m : int
            How many frames.
        seed : int, optional
            Draws the same frames again.
        scope : {"people", "population"}
            What the interval is about.
        """
        return combine(self.frames(m, seed=seed), compute, scope=scope)

    @cached_property
    def n_rows(self) -> int:
        """How many rows `frame` gives."""
        with self._fitting():
            return self._estimator.n_rows

    @property
    def rows_out(self) -> int | None:
        """How many rows came out; None where a release has none, or they lie in many files."""
        if any(table.parts for table in self.statement.tables.values()):
            return None
        try:
            return self.n_rows
        except HushtableError:
            return None

    def published(self, rng: Generator) -> Published:
        """Say what is published, to be laid beside the original; see `Estimator.published`."""
        with self._fitting():
            return self._estimator.published(rng)

    @property
    def recode(self) -> Mapping[str, Recoding]:
        """How columns were made coarser before they were published, for those that were."""
        return self._estimator.recode

    def generalize(self, frame: Any) -> pa.Table:
        """Write any table of the schema's columns, or some of them, in the released values.

        This is how a model that was learned from generalized rows is tried on other rows.
        """
        return self._estimator.generalize(_codes_of(frame, self.schema))

    def export(self, path: str | Path) -> None:
        """Write the microdata to a new ``.csv`` or ``.parquet`` file."""
        path = Path(path)
        if self.statement.seeded and SEEDED_MARK not in path.name:
            raise ReleaseError(
                f"{NOT_PRIVATE[0].upper()}{NOT_PRIVATE[1:]} Rows of it go only into a file whose "
                f"name says so, such as {f'{SEEDED_MARK}-{path.name}'!r}."
            )
        export_rows(self.frame, path, self.schema)


def _names(by: By) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _codes_of(frame: Any, schema: Schema) -> dict[str, NDArray[np.int64]]:
    """Encode rows of a table that is not the private one, in the columns that the schema knows."""
    from hushtable.engine import connect  # noqa: PLC0415 - other questions need no engine
    from hushtable.engine.frames import as_arrow  # noqa: PLC0415
    from hushtable.engine.memory import MemoryEngine  # noqa: PLC0415

    table = as_arrow(frame)
    if not isinstance(table, pa.Table):
        raise DataError("only a table in memory can be generalized: Arrow, pandas or polars.")
    known = [name for name in schema.attributes if name in table.column_names]
    if not known:
        raise DataError(
            f"the table has none of the release's columns: {', '.join(schema.attributes)}."
        )
    columns = {name: schema.columns[name] for name in known}
    own = {"columns": columns, "unit": Unit(kind="row"), "reading": FileFormat()}
    public = Schema.from_dict(schema.model_copy(update=own).to_dict())
    engine = connect(table.select(known), public, engine="memory")
    assert isinstance(engine, MemoryEngine)  # noqa: S101 - asked for
    return dict(engine.codes(known))


def _inside(folder: Path, file: str) -> Path:
    """Give a regular file of the folder; a link could point anywhere, a pipe never ends."""
    path = folder / file
    if path.resolve() != folder.resolve() / file or not path.is_file():
        raise FileNotFoundError(file)
    return path


def _require_memory(table: TableFile, n_columns: int) -> None:
    """Refuse a table that this machine cannot hold; a few bytes can stand for many rows."""
    needed, there = 8 * table.rows * n_columns, physical_memory()
    if needed > there:
        raise TooLarge(
            f"{table.file} has {table.rows:,} rows and {n_columns} columns, which need about "
            f"{needed / 2**30:,.0f} GB of memory; this machine has {there / 2**30:,.0f} GB."
        )
