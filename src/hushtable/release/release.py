"""A published release: a folder with data and a statement, read without the private table."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushtable.errors import (
    DataError,
    HushtableError,
    HushtableWarning,
    ParameterError,
    ReleaseError,
    TooLarge,
)
from hushtable.files.html import html_list, html_table
from hushtable.files.memory import require_memory
from hushtable.files.rows import export_rows, stored_rows, with_floats, write_workbook
from hushtable.files.writing import write_failures_as
from hushtable.methods.registry import estimator_for
from hushtable.privacy.unit import Unit
from hushtable.query.answers import Estimate, Estimator
from hushtable.release.statement import (
    NOT_PRIVATE,
    SEEDED,
    SEEDED_MARK,
    STATEMENT,
    STATEMENT_FOR_PEOPLE,
    LedgerReceipt,
    Statement,
    sha256_of,
)
from hushtable.schema import Schema
from hushtable.schema.codes import with_labels, with_missing
from hushtable.schema.file_format import FileFormat
from hushtable.schema.recoding import Recoding

if TYPE_CHECKING:  # loaded when a release is asked for more than counts
    from hushtable.query.answers.additive import AdditiveTables
    from hushtable.query.answers.describe import ReleaseDescription
    from hushtable.query.answers.estimator import Scope
    from hushtable.query.answers.published import ComparableRelease, Generator
    from hushtable.query.answers.questions import EstimateOrTable, Family, ReleaseQuestions
    from hushtable.query.answers.table import EstimateTable

_Answer = TypeVar("_Answer", bound="Estimate | EstimateTable")

__all__ = [
    "SEEDED",
    "SEEDED_MARK",
    "STATEMENT",
    "STATEMENT_FOR_PEOPLE",
    "LedgerReceipt",
    "Release",
    "SeededReleaseWarning",
    "Statement",
]


_MAX_STATEMENT = 2**26  # characters
_MAX_TEXT = 2**16  # bytes of a text in a table, besides lists of the schema's values

By = str | Sequence[str]
"""One column name, or several; a statistic is computed for each combination of their values."""


HOW_TO_ASK = (
    "ask: describe(), count('condition', by='column'), mean('column', by='column'), sql('SELECT "
    "...'), to_pandas()"
)


class SeededReleaseWarning(HushtableWarning):
    """Warning that a release is not private because its noise came from a seed."""


class Release:
    """A release folder: its tables, its statement, and estimates with 95% confidence intervals.

    Use `Release.load` to open a folder; it checks that all files are complete and unchanged.

    Parameters
    ----------
    folder : Path
        Folder of the release.
    statement : Statement
        Statement of the release.
    """

    def __init__(self, folder: Path, statement: Statement) -> None:
        self.folder = folder
        self.statement = statement

    @classmethod
    def load(cls, folder: str | Path) -> Release:
        """Open a release folder and check that it is complete and unchanged.

        Every file is compared with its digest in the statement.

        Parameters
        ----------
        folder : str or Path
            Folder of the release.

        Returns
        -------
        Release
            The release.

        Raises
        ------
        ReleaseError
            If the statement is missing or invalid, or if a file is missing or was changed.

        Warns
        -----
        SeededReleaseWarning
            If the noise came from a seed, so that the release is not private.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        """
        folder = Path(folder)
        try:
            with _inside(folder, STATEMENT).open(encoding="utf-8") as opened:
                text = opened.read(_MAX_STATEMENT + 1)
        except (OSError, ValueError):
            raise ReleaseError(
                f"{str(folder)!r} is not a release: it has no readable {STATEMENT}."
            ) from None
        if len(text) > _MAX_STATEMENT:
            raise ReleaseError(f"{STATEMENT} has more than {_MAX_STATEMENT:,} characters.")
        try:
            statement = Statement.parse(text)
        except (HushtableError, RecursionError) as error:
            why = str(error).removesuffix(".")
            raise ReleaseError(f"{STATEMENT} of {str(folder)!r} is not valid: {why}.") from None
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
                    f"release {str(folder)!r} is incomplete: {file} is missing or is not a regular "
                    "file; get a fresh copy."
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

    def __repr__(self) -> str:
        statement = self.statement
        warning = f"\n{NOT_PRIVATE}" if statement.seeded else ""
        texts = [
            f"published with {statement.method}",
            *(promise.explain() for promise in statement.guarantees),
            f"columns: {', '.join(self.schema.attributes)}",
            HOW_TO_ASK,
        ]
        wrapped = [fill(text, 100, initial_indent="  ", subsequent_indent="    ") for text in texts]
        title = f"Release {str(statement.public_schema.get('name', ''))!r} in {self.folder}"
        return "\n".join([title + warning, *wrapped])

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
            f"<p>{html.escape(HOW_TO_ASK)}</p>"
        )

    @cached_property
    def schema(self) -> Schema:
        """The public schema."""
        return Schema.from_dict(self.statement.public_schema)

    def table(self, name: str = "data") -> pa.Table:
        """Read one table of the release, as published.

        Parameters
        ----------
        name : str, default="data"
            Name of the table; `statement` lists all.

        Returns
        -------
        pyarrow.Table
            The table.

        Raises
        ------
        ReleaseError
            If the release has no table of this name, or if it cannot be read.
        TooLarge
            If the table does not fit in the memory of this machine.
        """
        if name not in self.statement.tables:
            known = ", ".join(self.statement.tables)
            raise ReleaseError(f"the release has no table {name!r}; it has {known}.")
        described = self.statement.tables[name]
        try:
            # Read each file by name: from a folder, pyarrow could infer further columns from the
            # path.
            files = [pq.ParquetFile(self.folder / file) for file in described.digests]
            if sum(map(stored_rows, files)) != described.rows:
                raise ReleaseError(
                    f"{described.file} does not have the number of rows in the statement."
                )
            # A generalized value may list many values of the schema.
            most = 8 * len(json.dumps(self.statement.public_schema)) + _MAX_TEXT
            require_readable([self.folder / f for f in described.digests], name, max_text=most)
            return pa.concat_tables([file.read() for file in files])
        except (OSError, pa.ArrowException, ValueError) as error:
            if isinstance(error, HushtableError):
                raise
            raise ReleaseError(f"{described.file} cannot be read as a table.") from error

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Turn errors that malformed tables or settings cause into a `ReleaseError`."""
        try:
            yield
        except HushtableError:
            raise
        except MemoryError:
            raise TooLarge("this needs more memory than this machine has; ask for less.") from None
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError,
                pa.ArrowException) as error:  # fmt: skip
            raise ReleaseError(
                f"the tables of {str(self.folder)!r} do not match its {STATEMENT}: another program "
                "or another version of hushtable made it."
            ) from error

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator that reads the tables of this release."""
        tables = {name: self.table(name) for name in self.statement.tables}
        with self._fitting():
            return estimator_for(
                self.statement.estimator, self.schema, self.statement.parameters, tables
            )

    def of(self, table: str) -> Release:
        """Return this release of linked tables, to be asked about the rows of one table.

        All questions and exports then refer to these rows, joined with the columns of their
        ancestors. Names of the latter contain a dot, so put them in double quotes.

        Parameters
        ----------
        table : str
            Name of the table.

        Returns
        -------
        Release
            The same release with the columns of these rows.

        Examples
        --------
        >>> release = Release.load("hospital")  # doctest: +SKIP
        >>> visits = release.of("visits")  # doctest: +SKIP
        >>> visits.mean("cost", where="ward = 'icu'", by="persons.sex")  # doctest: +SKIP
        EstimateTable(...)
        """
        found, estimator = Release(self.folder, self.statement), self.estimator.of(table)
        found.__dict__.update(estimator=estimator, schema=estimator.schema)
        return found

    @overload
    def count(
        self,
        where: str | None = None,
        *,
        scope: Scope = "people",
        tables: Mapping[str, pa.Table] | None = None,
    ) -> Estimate: ...

    @overload
    def count(
        self,
        where: str | None = None,
        *,
        by: By,
        scope: Scope = "people",
        tables: Mapping[str, pa.Table] | None = None,
    ) -> EstimateOrTable: ...

    def count(
        self,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
        tables: Mapping[str, pa.Table] | None = None,
    ) -> EstimateOrTable:
        """Estimate how many rows of the private table satisfy a condition.

        Parameters
        ----------
        where : str, optional
            SQL WHERE clause that selects the rows, such as ``"age >= 65 AND region = 'north'"``. By
            default, all rows.
        by : str or sequence of str, optional
            Columns; the rows are counted for each combination of their values. `crosstab` adds
            margins and joint intervals.
        scope : {"people", "population"}, default="people"
            What the interval refers to: the people in the table (error from noise and model only),
            or the population that they are an independent sample of (sampling error as well).
        tables : mapping of str to pyarrow.Table, optional
            Public tables that the clause may refer to in a subquery: ``country IN (SELECT name FROM
            regions WHERE continent = 'Africa')``.

        Returns
        -------
        Estimate or EstimateTable
            The estimate with its 95% interval, or one per group if `by` is given.

        Raises
        ------
        HushtableError
            If the clause cannot be parsed, or uses a column or value that the schema does not have.
        ReleaseError
            If the tables of the release do not match its statement.
        TooLarge
            If there are too many groups.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        >>> release.count("age >= 65")  # doctest: +SKIP
        120 rows (95% interval 112 to 128)
        """
        if tables and where:
            from hushtable.query.where.lookup import look_up  # noqa: PLC0415 - slow to import

            where = look_up(where, self.schema, tables)
        if by:
            return self.crosstab(*_names(by), where=where, scope=scope)
        if where is None or scope != "people":
            return self._answer(lambda asked: asked.count(where, scope))
        with self._fitting():  # without the imports of other questions
            answer = self._impossible(where) or self.estimator.count(where)
        return self._about(replace(answer, what=self.estimator.unit_text))

    def _about(self, answer: _Answer) -> _Answer:
        """Add labels of groups, and a note on the bound on rows per person, if there is one."""
        bounded = self.estimator.bounded
        if isinstance(answer, Estimate):
            return replace(answer, notes=(*answer.notes, bounded)) if bounded else answer
        known = self.schema.attributes
        labels = {name: known[name].labels for name in answer.by if name in known}
        if answer.by == ("term",) and "term" not in known:
            labels["term"] = {
                f"C({name})[{value}]": label
                for name, column in known.items()
                for value, label in column.labels.items()
            }
        if bounded:
            answer = replace(answer, estimates=tuple(map(self._about, answer.estimates)))
        return replace(answer, labels=labels) if any(labels.values()) else answer

    def _impossible(self, where: str) -> Estimate | None:
        """Return 0 if the schema's rules exclude the condition, else None."""
        if not self.schema.rules:
            return None
        from hushtable.query.where.rules import is_impossible  # noqa: PLC0415 - slow to import

        if not is_impossible(where, self.schema):
            return None
        said = "The rules of the schema exclude this condition."
        return Estimate(value=0.0, low=0.0, high=0.0, privacy_std=0.0, model_std=0.0, notes=(said,))

    # --- answers ----------------------------------------------------------------------------------

    @cached_property
    def _questions(self) -> ReleaseQuestions:
        from hushtable.query.answers.questions import ReleaseQuestions  # noqa: PLC0415 - slow

        return ReleaseQuestions(self.estimator)

    def _answer(self, ask: Callable[[ReleaseQuestions], _Answer]) -> _Answer:
        with self._fitting():
            return self._about(ask(self._questions))

    def share(
        self,
        condition: str,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
    ) -> EstimateOrTable:
        """Estimate the share of rows that satisfy a condition.

        Parameters
        ----------
        condition : str
            SQL WHERE clause whose share is estimated.
        where : str, optional
            SQL WHERE clause that selects the rows among which the share is computed. By default,
            all rows.
        by : str or sequence of str, optional
            Columns; the share is estimated within each combination of their values.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate between 0 and 1, or one per group if `by` is given.

        Raises
        ------
        ParameterError
            If a WHERE clause, column or scope is invalid. All problems are listed.
        Refused
            If this kind of release answers only counts or, without `by`, if noise leaves open
            whether there are such rows.
        ReleaseError
            If the tables of the release do not match its statement.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        >>> release.share("smoker = 'yes'", "age >= 65", by="region")  # doctest: +SKIP
        """
        return self._answer(lambda asked: asked.share(condition, where, _names(by), scope))

    def crosstab(
        self,
        *by: str,
        where: str | None = None,
        family: Family = "each",
        margins: bool = False,
        scope: Scope = "people",
    ) -> EstimateTable:
        """Estimate the number of rows for each combination of values of some columns.

        Parameters
        ----------
        *by : str
            Columns to count by.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        family : {"each", "all"}, default="each"
            Coverage of 95% for each interval alone, or jointly for all intervals of the table.
        margins : bool, default=False
            If True, add row counts over all values of a column (``all``). Each is an answer of its
            own, often from a more precise table, so it may differ from the sum of its cells;
            `tables` estimates counts that add up.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        EstimateTable
            One estimate per combination of values.

        Raises
        ------
        ParameterError
            If a column, the WHERE clause, `family` or `scope` is invalid. All problems are listed.
        ReleaseError
            If the tables of the release do not match its statement.
        TooLarge
            If the table would have too many cells.
        """
        return self._answer(
            lambda asked: asked.crosstab(by, where, family=family, margins=margins, scope=scope)
        )

    def tables(self, *tables: Sequence[str]) -> AdditiveTables:
        """Estimate tables of counts that add up to the last digit, with all their margins.

        Cells, margins, and groups of taxonomies agree across all tables. Counts are whole numbers
        of at least 0.

        Parameters
        ----------
        *tables : sequence of str
            The columns of each table.

        Returns
        -------
        AdditiveTables
            The tables; ``export`` writes JSON-stat, SDMX-CSV or Excel.

        Raises
        ------
        ParameterError
            If a column is not published, or if there are too many counts.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        >>> found = release.tables(["region", "sex"], ["region", "age"])  # doctest: +SKIP
        >>> found.export("yearbook.json")  # doctest: +SKIP
        """
        from hushtable.query.answers.additive import additive_tables  # noqa: PLC0415 - slow

        with self._fitting():
            return additive_tables(self.estimator, self.schema.name, tables)

    def mean(
        self,
        column: str,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
        clip: tuple[float, float] | None = None,
    ) -> EstimateOrTable:
        """Estimate the mean of a numeric, date or time column, ignoring missing values.

        Parameters
        ----------
        column : str
            Name of the column, or a function of a numeric column: ``"log(income)"``,
            ``"log1p(income)"``, ``"sqrt(income)"`` or ``"income**2"`` (up to 4). Rows where it is
            undefined are left out.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        by : str or sequence of str, optional
            Columns; the mean is estimated within each combination of their values.
        clip : pair of numbers, optional
            Bounds that replace smaller and larger values. A skewed number has a far narrower
            interval if its public range is cut to what is usual.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per group if `by` is given. If noise leaves the mean undetermined,
            the interval is the column's whole range and a note says so. If there may be no rows in
            a group, its value is NaN.

        Raises
        ------
        ParameterError
            If a column, the WHERE clause or scope is invalid. All problems are listed.
        Refused
            If this kind of release answers only counts or, without `by`, if noise leaves open
            whether there are such rows.
        ReleaseError
            If the tables of the release do not match its statement.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        >>> print(release.mean("wait"))  # doctest: +SKIP
        mean of wait: 1.50 (95% interval 1.31 to 1.69)
        """
        return self._answer(
            lambda asked: asked.statistic("mean", column, where, _names(by), scope, clip=clip)
        )

    def geometric_mean(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> EstimateOrTable:
        """Estimate the geometric mean of the positive values of a numeric column.

        It is the exponential of the mean of the logarithm. The arguments are those of `mean`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per group if `by` is given.
        """
        from hushtable.query.answers.moments import exponential  # noqa: PLC0415 - loads scipy late
        from hushtable.query.answers.questions import quoted  # noqa: PLC0415

        found = self.mean(f"log({quoted(column)})", where, by=by, scope=scope)
        name = f"geometric mean of {column}"
        if isinstance(found, Estimate):
            return exponential(found, name)
        return replace(found, estimates=tuple(exponential(one, name) for one in found.estimates))

    def total(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> EstimateOrTable:
        """Estimate the sum of a numeric column, ignoring missing values.

        Parameters
        ----------
        column : str
            Name of the column.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        by : str or sequence of str, optional
            Columns; the sum is estimated within each combination of their values.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per group if `by` is given.

        Raises
        ------
        ParameterError
            If a column, the WHERE clause or scope is invalid. All problems are listed.
        Refused
            If this kind of release answers only counts.
        ReleaseError
            If the tables of the release do not match its statement.
        """
        return self._statistic("total", column, where, by, scope)

    def variance(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> EstimateOrTable:
        """Estimate the variance of a numeric column, ignoring missing values.

        The sum of squared deviations is divided by the number of rows, not by that number minus 1.

        Parameters
        ----------
        column : str
            Name of the column.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        by : str or sequence of str, optional
            Columns; the variance is estimated within each combination of their values.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per group if `by` is given.

        Raises
        ------
        ParameterError
            If a column, the WHERE clause or scope is invalid. All problems are listed.
        Refused
            If this kind of release answers only counts or, without `by`, if noise leaves open
            whether there are such rows.
        ReleaseError
            If the tables of the release do not match its statement.
        """
        return self._statistic("variance", column, where, by, scope)

    def _statistic(
        self, name: str, column: str, where: str | None, by: By, scope: Scope
    ) -> EstimateOrTable:
        return self._answer(lambda asked: asked.statistic(name, column, where, _names(by), scope))

    def quantile(
        self,
        column: str,
        probability: float,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
    ) -> EstimateOrTable:
        """Estimate a quantile of a numeric, date or time column, ignoring missing values.

        The quantile of probability p is the smallest value that at least a share p of the rows do
        not exceed.

        Parameters
        ----------
        column : str
            Name of the column.
        probability : float
            From 0 to 1; 0.5 is the median.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        by : str or sequence of str, optional
            Columns; the quantile is estimated within each combination of their values.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per group if `by` is given.

        Raises
        ------
        ParameterError
            If a column, the probability, the WHERE clause or scope is invalid. All problems are
            listed.
        Refused
            If this kind of release answers only counts or, without `by`, if noise leaves open
            whether there are such rows.
        ReleaseError
            If the tables of the release do not match its statement.
        """
        return self._answer(
            lambda asked: asked.quantile(column, probability, where, _names(by), scope)
        )

    def median(
        self, column: str, where: str | None = None, *, by: By = (), scope: Scope = "people"
    ) -> EstimateOrTable:
        """Estimate the median of a numeric, date or time column, ignoring missing values.

        Parameters
        ----------
        column : str
            Name of the column.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        by : str or sequence of str, optional
            Columns; the median is estimated within each combination of their values.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per group if `by` is given.
        """
        return self.quantile(column, 0.5, where, by=by, scope=scope)

    def correlation(
        self,
        one: str,
        other: str,
        where: str | None = None,
        *,
        by: By = (),
        scope: Scope = "people",
    ) -> EstimateOrTable:
        """Estimate the Pearson correlation of two numeric columns.

        Rows with a missing value in either column are left out.

        Parameters
        ----------
        one, other : str
            Names of two different columns.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        by : str or sequence of str, optional
            Columns; the correlation is estimated within each combination of their values.
        scope : {"people", "population"}, default="people"
            What the intervals refer to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate between -1 and 1, or one per group if `by` is given.

        Raises
        ------
        ParameterError
            If a column, the WHERE clause or scope is invalid. All problems are listed.
        Refused
            If this kind of release answers only counts, or if noise leaves open whether a column
            varies at all (with `by`, only if all groups are refused).
        ReleaseError
            If the tables of the release do not match its statement.
        """
        return self._answer(lambda asked: asked.correlation(one, other, where, _names(by), scope))

    def regression(
        self,
        formula: str,
        where: str | None = None,
        *,
        logistic: bool = False,
        poisson: bool = False,
        weights: str | None = None,
        scope: Scope = "people",
    ) -> EstimateTable:
        """Fit a linear, logistic or Poisson regression, with 95% confidence intervals.

        Where the noisy tables of a release determine the fit, they are used instead of its rows, so
        that noise in the rows does not attenuate coefficients. Rows with a missing value in any
        column of the formula are left out.

        Parameters
        ----------
        formula : str
            Outcome and regressors, such as ``"pay ~ age + C(region)"``. ``C(column)`` enters a
            column as categories; its first value is the reference. The intercept is always
            included. Numbers may enter by a function (``log(pay) ~ age + I(age**2)``; also
            ``log1p`` and ``sqrt``), and terms may be products: ``age:C(sex)``, or ``age*tenure``
            for ``age + tenure + age:tenure``. Sums over three columns or more are wide, or unknown,
            unless the release measured these columns together.
        where : str, optional
            SQL WHERE clause that selects the rows. By default, all rows.
        logistic : bool, default=False
            If True, fit the log odds of the second value of a categorical outcome with two values.
            Otherwise the outcome must be numeric.
        poisson : bool, default=False
            If True, fit the log rate of a count.
        weights : str, optional
            Name of a nonnegative numeric column; each row counts by its value.
        scope : {"people", "population"}, default="people"
            What the intervals refer to: the people in the table (error from noise and model only),
            or the population that they are an independent sample of (sampling error as well).

        Returns
        -------
        EstimateTable
            One estimate per term: ``(intercept)``, ``age``, ``C(region)[south]``. In a linear
            regression, an interval is unbounded if noise may hide that a regressor does not vary by
            itself.

        Raises
        ------
        ParameterError
            If the formula, WHERE clause or scope is invalid. All problems are listed.
        Refused
            If the noise is too large to fit the model.
        ReleaseError
            If the tables of the release do not match its statement.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        >>> fit = release.regression("pay ~ age + C(region)")  # doctest: +SKIP
        >>> print(fit["age"])  # doctest: +SKIP
        coefficient of age: 498 (95% interval 489 to 507)
        """
        return self._answer(
            lambda asked: asked.regression(
                formula, where, logistic=logistic, poisson=poisson, weights=weights, scope=scope
            )
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that questions may use."""
        return tuple(self._questions.columns)

    def describe(self, *columns: str) -> ReleaseDescription:
        """Describe columns: type, values, and distribution with 95% intervals.

        Parameters
        ----------
        *columns : str
            Names of columns. By default, all.

        Returns
        -------
        ReleaseDescription
            Mean and quartiles of each numeric, date or time column, and counts of the values of
            each other column (the 8 most frequent ones if it has more). ``describe()["age"]``
            returns the estimates of one column, and `to_pandas` all of them.

        Raises
        ------
        ParameterError
            If a column is not published.
        """
        from hushtable.query.answers.describe import describe  # noqa: PLC0415 - slow to import

        with self._fitting():
            return describe(self._questions, columns or self.columns)

    def sql(self, query: str) -> EstimateOrTable:
        """Answer a SQL query with aggregates over the table ``release``.

        Parameters
        ----------
        query : str
            ``SELECT`` of columns and of count(*), count(column), avg(column), sum(column),
            median(column), var_pop(column), corr(column, column) or quantile_disc(column,
            probability), ``FROM release``, with ``WHERE`` and ``GROUP BY`` columns.

        Returns
        -------
        Estimate or EstimateTable
            One estimate per group. With several aggregates, the column ``statistic`` names them.

        Raises
        ------
        HushtableError
            If the query uses anything else. All problems are listed, each with its reason.

        Examples
        --------
        >>> release = Release.load("survey")  # doctest: +SKIP
        >>> release.sql("SELECT sex, avg(pay) FROM release GROUP BY sex")  # doctest: +SKIP
        """
        from hushtable.release.sql import answer_query  # noqa: PLC0415 - slow to import

        return answer_query(self, query)

    # --- rows -------------------------------------------------------------------------------------

    def frame(
        self,
        *,
        drawn: bool = False,
        labels: bool = False,
        n: int | None = None,
        where: str | None = None,
        seed: int | None = None,
    ) -> pa.Table:
        """Return the published microdata as an Arrow table.

        The columns are the published columns of the schema, in its order, then derived columns. If
        a person may have several rows, the column that numbers persons comes first. Rows that break
        a rule of the schema are left out; a generalized row stays if any row that it represents
        keeps the rule. Other output of a method, such as counts and errors, is in `table`.

        Parameters
        ----------
        drawn : bool, default=False
            If True, replace each generalized value by a value drawn uniformly from it, so that the
            rows look like those of the private table.
        labels : bool, default=False
            If True, replace values that have a label in the schema by their label.
        n : int, optional
            Number of rows, chosen at random. By default, all rows. If `n` exceeds their number,
            rows repeat.
        where : str, optional
            SQL WHERE clause that selects the rows. For generalized rows, it requires
            ``drawn=True``.
        seed : int, optional
            Seed of the random choice of `n` rows.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        ParameterError
            If the WHERE clause or `n` is invalid, or if no published row satisfies the clause and
            `n` is given.
        ReleaseError
            If the tables of the release do not match its statement, or if `drawn` is given for a
            release without generalized values.
        """
        with self._fitting():
            rows = self.estimator.drawn_frame() if drawn else self.estimator.frame()
            named = [self.schema.unit.column, *self.schema.attributes]
            rows = rows.select([name for name in named if name in rows.column_names])
            rows = self._keeping_rules(rows, {} if drawn else self.recode)
            if where is not None and self.estimator.recode and not drawn:
                raise ParameterError(
                    "the rows of this release have generalized values, to which a WHERE clause "
                    "does not apply; add drawn=True."
                )
            if n is not None or where is not None:
                from hushtable.query.answers.combine import (  # noqa: PLC0415 - slow
                    generator,
                    some_rows,
                )

                rows = some_rows(self.estimator.asked, rows, n, where, generator(seed))
            return with_labels(rows, self.schema) if labels else rows

    def _keeping_rules(self, rows: pa.Table, recode: Mapping[str, Recoding]) -> pa.Table:
        if not (self.schema.rules or self.schema.derived):
            return rows
        from hushtable.query.where.rules import keep_rules, with_derived  # noqa: PLC0415 - slow

        return with_derived(keep_rules(rows, self.schema, recode), self.schema, recode)

    def frames(
        self, m: int = 20, *, n: int | None = None, seed: int | None = None
    ) -> list[pa.Table]:
        """Sample several tables that reflect the release's uncertainty, for multiple imputation.

        Analyze each with any tool; `combine` does so and pools the results.

        Parameters
        ----------
        m : int, default=20
            Number of tables, at least 2.
        n : int, optional
            Rows per table. By default, the estimated number of rows of the private table.
        seed : int, optional
            Seed of the draws.

        Returns
        -------
        list of pyarrow.Table
            The tables.

        Raises
        ------
        ParameterError
            If `m` is less than 2.
        Refused
            If this kind of release cannot sample rows that reflect its uncertainty.
        ReleaseError
            If the tables of the release do not match its statement.
        """
        if m < 2:
            raise ParameterError(f"m is {m}; it must be at least 2.")
        from hushtable.query.answers.combine import drawn_frame, generator  # noqa: PLC0415 - slow

        rng = generator(seed)
        with self._fitting():
            return [drawn_frame(self.estimator, rng, n) for _ in range(m)]

    def combine(
        self,
        compute: Callable[[pa.Table], Any],
        *,
        m: int = 20,
        seed: int | None = None,
        scope: Scope = "people",
    ) -> EstimateOrTable:
        """Compute a statistic on several tables drawn from the release, and pool the results.

        The results are pooled as for multiple imputation, with Student's t distribution. The
        interval accounts for noise in the published tables. A statistic that depends on columns
        that no table contains together is refused.

        Parameters
        ----------
        compute : callable
            Function of a `pyarrow.Table` that returns a pair (number, variance), or a mapping of
            names to such pairs. The variance is the usual one, for rows that are a sample of
            people.
        m : int, default=20
            Number of tables, at least 2.
        seed : int, optional
            Seed of the draws.
        scope : {"people", "population"}, default="people"
            What the interval refers to, see `count`.

        Returns
        -------
        Estimate or EstimateTable
            One estimate, or one per name.

        Raises
        ------
        ParameterError
            If `m` is less than 2, or if `compute` returns something else.
        Refused
            If this kind of release cannot sample rows that reflect its uncertainty, or if the
            statistic depends on columns that were not measured together.
        ReleaseError
            If the tables of the release do not match its statement.
        """
        from hushtable.query.answers.combine import (  # noqa: PLC0415 - slow
            combine,
            generator,
            require_measured,
        )

        frames = self.frames(m, seed=seed)
        require_measured(frames[0], compute, self.estimator.is_measured, generator(seed))
        return combine(frames, compute, scope=scope)

    @cached_property
    def n_rows(self) -> int:
        """Number of published rows; `frame` returns fewer if some break a rule of the schema."""
        with self._fitting():
            return self.estimator.n_rows

    @property
    def rows_out(self) -> int | None:
        """Number of published rows; None if they cannot be counted or a table has several files."""
        if any(table.parts for table in self.statement.tables.values()):
            return None
        try:
            return self.n_rows
        except HushtableError:
            return None

    def published(self, rng: Generator) -> ComparableRelease:
        """Return the published data in a form comparable with the original table.

        See `Estimator.published`. `rng` samples values that the release does not determine.
        """
        with self._fitting():
            return self.estimator.published(rng)

    @property
    def recode(self) -> Mapping[str, Recoding]:
        """Recoding of each column that was generalized before publication."""
        return self.estimator.recode

    def generalize(self, frame: Any) -> pa.Table:
        """Generalize the values of another table like those of this release.

        Use it to test a model, fitted to generalized rows, on other rows.

        Parameters
        ----------
        frame : pyarrow.Table, pandas.DataFrame or polars.DataFrame
            Table with some or all of the schema's columns; others are ignored.

        Returns
        -------
        pyarrow.Table
            The rows, with generalized values.

        Raises
        ------
        DataError
            If the table is not in memory, or has none of the columns of the release.
        ReleaseError
            If the release has no generalized values.
        """
        return self.estimator.generalize(_codes_of(frame, self.schema))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the rows as an Arrow C stream."""
        return self.frame().__arrow_c_stream__(requested_schema)

    def to_arrow(self, **options: Any) -> pa.Table:
        """Return the published rows as an Arrow table; the options are those of `frame`."""
        return self.frame(**options)

    def to_pandas(self, **options: Any) -> Any:
        """Return the published rows as a pandas data frame; the options are those of `frame`.

        Decimal columns become floating point numbers.
        """
        return with_floats(self.frame(**options)).to_pandas()

    def to_polars(self, **options: Any) -> Any:
        """Return the published rows as a polars data frame; the options are those of `frame`."""
        import polars  # noqa: PLC0415 - optional dependency

        return polars.from_arrow(self.frame(**options))

    def to_excel(self, path: str | Path) -> None:
        """Write the rows, the columns' distributions and the promise to a new ``.xlsx`` file.

        Needs openpyxl.

        Parameters
        ----------
        path : str or Path
            The file, which must not exist.

        Raises
        ------
        ReleaseError
            If the noise was seeded and the file name does not contain ``seeded``, if there are too
            many rows for a sheet, or if the file cannot be written.
        """
        promises = [promise.explain() for promise in self.statement.guarantees]
        sheets = {
            "rows": self.frame(),
            "columns": self.describe().to_arrow(),
            "promise": pa.table({f"Published with {self.statement.method}": promises}),
        }
        write_workbook(self._marked(path), sheets)

    def export(self, path: str | Path) -> None:
        """Write the microdata to a new ``.csv``, ``.parquet``, ``.dta`` or ``.sav`` file.

        Stata (``.dta``) and SPSS (``.sav``) files contain the schema's labels.

        Parameters
        ----------
        path : str or Path
            The file, which must not exist. For linked tables, a path without suffix is a new folder
            with a ``.csv`` file for each table, whose keys match.

        Raises
        ------
        ReleaseError
            If the noise was seeded and the file name does not contain ``seeded``, or if the file
            cannot be written.
        """
        path = self._marked(path)
        linked = self.statement.estimator.get("linked")
        if path.suffix or not linked:
            export_rows(self.frame, path, self.schema)
            return
        with write_failures_as(ReleaseError, f"cannot create {str(path)!r}"):
            path.mkdir()
        for name in linked["tables"]:
            export_rows(partial(self.table, name), path / f"{name}.csv", self.schema)

    def _marked(self, path: str | Path) -> Path:
        """Return a path; raise an error if it does not say that the noise was seeded."""
        path = Path(path)
        if self.statement.seeded and SEEDED_MARK not in path.name:
            raise ReleaseError(
                f"{NOT_PRIVATE[0].upper()}{NOT_PRIVATE[1:]} The file name must contain "
                f"{SEEDED_MARK!r}, such as {f'{SEEDED_MARK}-{path.name}'!r}."
            )
        return path


def _names(by: By) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _codes_of(frame: Any, schema: Schema) -> dict[str, NDArray[np.int64]]:
    """Encode the columns of a public table that the schema also has."""
    from hushtable.engine import connect  # noqa: PLC0415 - other questions need no engine
    from hushtable.engine.memory_engine import MemoryEngine  # noqa: PLC0415
    from hushtable.engine.open_table import as_arrow  # noqa: PLC0415

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
    """Return the path of a regular file in the folder; refuse links and pipes."""
    path = folder / file
    if path.resolve() != folder.resolve() / file or not path.is_file():
        raise FileNotFoundError(file)
    return path


# Memory that reading Parquet files needs; neither their size nor their metadata bound it.


def require_readable(paths: Sequence[Path], name: str, *, max_text: int) -> None:
    """Raise an error if a table needs too much memory, or has a text of more than `max_text` bytes.

    Runs of equal values and repeated references to a long text make a small file a large table.
    Texts are therefore read as references first, and the lengths of what they refer to are summed.
    """
    needed, texts = 0, {}
    for path in paths:
        with pq.ParquetFile(path) as file:
            leaves = [file.schema.column(i) for i in range(len(file.schema))]
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        for i, leaf in enumerate(leaves):
            nested = leaf.max_repetition_level > 0
            n_values = sum(g.column(i).num_values if nested else g.num_rows for g in groups)
            needed += max(8, leaf.length) * n_values
        texts[path] = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    require_memory(needed, f"the table {name}")
    for path, columns in texts.items():
        if not columns:
            continue
        with pq.ParquetFile(path, read_dictionary=columns) as file:
            # Arrow cannot read nested dictionaries across row groups.
            for batch in chain.from_iterable(
                file.iter_batches(columns=columns, row_groups=[i])
                for i in range(file.num_row_groups)
            ):
                for coded in _innermost(batch.columns):
                    lengths = _lengths(coded.dictionary)
                    if lengths.max(initial=0) > max_text:
                        raise ReleaseError(
                            f"the table {name} has a text of more than {max_text:,} bytes, which "
                            "no release contains; get a fresh copy."
                        )
                    places, missing = with_missing(coded.indices)
                    needed += int(lengths[places[~missing]].sum())
                require_memory(needed, f"the table {name}")


def _lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Return the length of each text in bytes."""
    size = np.int64 if texts.type in (pa.large_string(), pa.large_binary()) else np.int32
    ends = np.frombuffer(texts.buffers()[1], size) if len(texts) else np.zeros(1, size)
    return np.diff(ends[texts.offset : texts.offset + len(texts) + 1]).astype(np.int64)


def _innermost(arrays: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Yield the arrays inside lists and records."""
    for array in arrays:
        if pa.types.is_struct(array.type):
            yield from _innermost(array.flatten())
        elif pa.types.is_nested(array.type):
            yield from _innermost([array.flatten()])
        else:
            yield array
