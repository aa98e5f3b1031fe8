"""A release: a folder with data and a written promise, loaded without the private table."""

from __future__ import annotations

import hashlib
import html
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from hushtable.errors import (
    DataError,
    HushtableError,
    HushtableWarning,
    ParameterError,
    ReleaseError,
    TooLarge,
)
from hushtable.estimate import Estimate, Estimator
from hushtable.estimate.answers import Answers, Family
from hushtable.estimate.base import Scope
from hushtable.estimate.combine import combine, drawn_frame, generator, some_rows
from hushtable.estimate.drawing import Generator
from hushtable.estimate.estimate_table import EstimateTable
from hushtable.estimate.published import Published
from hushtable.file_format import FileFormat
from hushtable.files.memory import physical_memory
from hushtable.files.no_formula import no_formula
from hushtable.files.notebook import html_list, html_table
from hushtable.files.scratch import Scratch, why_not_written
from hushtable.files.stored_rows import stored_rows
from hushtable.files.whole_file import sync
from hushtable.files.written_rows import write_parquet
from hushtable.methods.registry import estimator_for
from hushtable.privacy.decision import Decision
from hushtable.privacy.guarantee import AnyGuarantee, NoGuarantee, Unit
from hushtable.recoding import Recoding
from hushtable.schema import Schema

STATEMENT = "statement.json"
STATEMENT_FOR_PEOPLE = "STATEMENT.md"
SEEDED = "none (seeded)"
SEEDED_MARK = "seeded"  # stands in the name of every file of rows that seeded noise made
NOT_PRIVATE = (
    "this release is not private: it was made with seeded noise, which anybody can subtract; it is "
    "for tests only."
)
UNCOUNTED = (
    "This ledger also takes releases that it cannot count: others of the same data may have been "
    "published beside what it adds up."
)

_DECIDED = {"responsible": "Responsible", "reason": "Reason", "review_by": "To be reviewed by"}

AttachmentName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+\.(svg|md)$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SeededReleaseWarning(HushtableWarning):
    """Say that a release is not private because its noise came from a seed."""


PartName = Annotated[str, Field(pattern=r"^part-[0-9]{5,9}\.parquet$")]


class TableFile(BaseModel):
    """Name a table of the release and the digest of its file, or of each of its parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^(seeded-)?(data|data/[A-Za-z0-9_.-]+)\.parquet$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rows: int = Field(ge=0)
    parts: dict[PartName, Digest] = Field(
        {},
        description="Where the table is large: the files it is split into, with their digests. "
        "`file` is then their folder, and `sha256` the digest of this list.",
    )

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each file."""
        if not self.parts:
            return {self.file: self.sha256}
        return {f"{self.file}/{name}": digest for name, digest in self.parts.items()}

    def digest_of_parts(self) -> str:
        """Give one digest for all parts."""
        return hashlib.sha256(json.dumps(sorted(self.parts.items())).encode()).hexdigest()


class LedgerReceipt(BaseModel):
    """Say that the spending is recorded, by a digest that proves it to the ledger's owner.

    It has no number: that would tell how many charges came before, failed ones included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    receipt: str
    uncounted: bool = Field(
        False,
        description="Whether the ledger also takes releases that it cannot count.",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_number(cls, given: Any) -> Any:
        # Statements of earlier versions have one.
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if name != "entry"}
        return given


class Statement(BaseModel):
    """Write down the promise and all that an analyst needs to use the data.

    Everything here is public: it is computed from the schema, the parameters and the released
    data, never from the private table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    format: Literal[1] = 1
    method: str
    paper: str
    parameters: dict[str, Any]
    guarantee: str = Field(description="The promise in short, or 'none (seeded)'.")
    guarantees: tuple[AnyGuarantee, ...] = Field(min_length=1)
    unprotected: tuple[str, ...]
    split: dict[str, str] = Field(description="How epsilon is divided over the steps.")
    public_schema: dict[str, Any] = Field(alias="schema")
    estimator: dict[str, Any]
    tables: dict[str, TableFile]
    attachments: dict[AttachmentName, Digest] = Field(
        {}, description="Drawings and texts beside the tables, with the digests of their files."
    )
    ledger: LedgerReceipt | None
    decision: Decision | None = Field(
        None, description="Who answers for the release and why, where that was to be said."
    )
    versions: dict[str, str]
    created: str

    # Without a return type: pydantic would publish that in place of the fields.
    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        # What is not to be said is written as it was before it could be.
        document = write(self)
        if self.decision is None:
            del document["decision"]
        return document

    @field_validator("estimator")
    @classmethod
    def _notes_are_texts(cls, estimator: dict[str, Any]) -> dict[str, Any]:
        notes = estimator.get("notes", [])
        if not isinstance(notes, list) or not all(
            isinstance(note, str) and note.isprintable() for note in notes
        ):
            raise ValueError("notes must be a list of printable texts")
        return estimator

    @field_validator("public_schema")
    @classmethod
    def _rules_are_written(cls, schema: dict[str, Any]) -> dict[str, Any]:
        """Write down the rules of statements from when what did not fit was refused unless said."""
        columns = schema.get("columns")
        if not isinstance(columns, dict):
            return schema
        before = {"missing": "forbid", "outside": "refuse"}
        return schema | {
            "columns": {
                name: before | column if isinstance(column, dict) and "type" in column else column
                for name, column in columns.items()
            }
        }

    @property
    def seeded(self) -> bool:
        """Whether the noise came from a seed, so that nothing is protected."""
        return self.guarantee == SEEDED

    def cells_in_words(self) -> list[str]:
        """Say what cells of the private table counted as that did not fit."""
        return _cells_in_words(self.public_schema)

    def for_people(self) -> str:
        """Say it in words, as Markdown."""
        promise = "\n".join(f"- {guarantee.explain()}" for guarantee in self.guarantees)
        left_out = "\n".join(f"- {sentence}" for sentence in self.unprotected)
        split = "\n".join(f"| {step} | {share} |" for step, share in self.split.items())
        parameters = "\n".join(
            f"| {name} | {_cell(value)} |" for name, value in self.parameters.items()
        )
        tables = "\n".join(
            f"| {name} | `{table.file}` | {table.rows:,} |" for name, table in self.tables.items()
        )
        spent = (
            f"Recorded in the custodian's ledger (receipt `{self.ledger.receipt[:16]}`)."
            if self.ledger
            else "Not recorded in a ledger: other releases of the same table are not counted."
        )
        if self.ledger and self.ledger.uncounted:
            spent += f"\n\n> **{UNCOUNTED}**"
        if self.decision:
            said = self.decision.to_dict().items()
            spent += "\n" + "".join(f"\n- {_DECIDED[n]}: {' '.join(t.split())}" for n, t in said)
        warning = f"> **{NOT_PRIVATE[0].upper()}{NOT_PRIVATE[1:]}**\n\n" if self.seeded else ""
        notes = "\n".join(f"- {note}" for note in self.estimator.get("notes", []))
        fits = "\n".join(f"- {sentence}" for sentence in self.cells_in_words())
        rules = "\n".join(f"- `{rule}`" for rule in self.public_schema.get("rules", []))
        text = (
            f"# {self.public_schema.get('name', '')}\n\n{warning}"
            f"Published with the method `{self.method}` ({self.paper}) on {self.created}.\n\n"
            f"## The promise\n\n{promise}\n\n"
            f"## What the promise leaves out\n\n{left_out}\n\n"
            f"## What was spent\n\n{spent}\n\n"
            + (f"| step | epsilon |\n|---|---|\n{split}\n\n" if split else "")
            + f"## Parameters\n\n| parameter | value |\n|---|---|\n{parameters}\n\n"
            f"## The data\n\n| table | file | rows |\n|---|---|---|\n{tables}\n\n"
            + (f"{notes}\n\n" if notes else "")
            + (f"Cells of the private table that did not fit:\n\n{fits}\n\n" if fits else "")
            + (
                f"Every published row keeps these rules; private rows that broke one counted as "
                f"they were:\n\n{rules}\n\n"
                if rules
                else ""
            )
            + "".join(f"![{file}]({file})\n\n" for file in self.attachments if file.endswith("svg"))
            + "Load it with `hushtable.Release.load(folder)`, ask it with "
            '`hushtable query FOLDER "WHERE clause"`.\n'
        )
        # A terminal must not be told what to do by the texts of a schema.
        return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def _cells_in_words(schema: Mapping[str, Any]) -> list[str]:
    """Say what cells counted as that did not fit, in one sentence for columns of the same rules."""
    alike: dict[str, list[str]] = {}
    for name, column in schema.get("columns", {}).items():
        if "type" not in column:
            continue
        is_list = column["type"] in ("categorical", "boolean")
        noun = "moment" if column["type"] in ("date", "timestamp", "time") else "number"
        other = "the first value of the list" if is_list else "the low bound"
        if "other" in column:
            other = f"`{column['other']}`"
        refused = "had the table refused"
        counted = {"other": f"counted as {other}", "clip": "counted as the nearest bound",
                   "missing": "counted as missing", "category": "counted as missing",
                   "forbid": refused, "refuse": refused}  # fmt: skip
        no_value, outside = counted[column["missing"]], counted[column["outside"]]
        unlisted = "an unlisted value" if is_list else f"a {noun} outside the bounds"
        said = f"no value {no_value}; {unlisted} {outside}."
        if not is_list:
            junk = no_value if column["outside"] == "clip" else outside
            said = f"{said[:-1]}; what is no such {noun} {junk}."
        alike.setdefault(said, []).append(f"`{name}`")
    return [f"{', '.join(names)}: {said}" for said, names in alike.items()]


def _cell(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value)).replace("|", "\\|")


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
        _check_seeded(statement)
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
        answer = replace(answer, what=self._estimator.counted)
        bounded = self._estimator.bounded
        return replace(answer, notes=(*answer.notes, bounded)) if bounded else answer

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
            return self._answers.total(where, scope)

    def share(
        self,
        where: str,
        *,
        of: str | None = None,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the share of rows that satisfy a condition, among all or among those of `of`."""
        with self._fitting():
            return self._answers.share(where, of, _names(by), scope)

    def crosstab(
        self,
        by: str | Sequence[str],
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
            return self._answers.crosstab(
                _names(by), where, family=family, margins=margins, scope=scope
            )

    def mean(
        self,
        column: str,
        where: str | None = None,
        *,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the mean of a numeric column, of all rows or of each group of `by`."""
        with self._fitting():
            return self._answers.statistic("mean", column, where, _names(by), scope)

    def sum(
        self,
        column: str,
        where: str | None = None,
        *,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the sum of a numeric column."""
        with self._fitting():
            return self._answers.statistic("sum", column, where, _names(by), scope)

    def variance(
        self,
        column: str,
        where: str | None = None,
        *,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the variance of a numeric column."""
        with self._fitting():
            return self._answers.statistic("variance", column, where, _names(by), scope)

    def quantile(
        self,
        column: str,
        probability: float,
        where: str | None = None,
        *,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the least value that at least this share of the rows do not exceed."""
        with self._fitting():
            return self._answers.quantile(column, probability, where, _names(by), scope)

    def median(
        self,
        column: str,
        where: str | None = None,
        *,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the median of a numeric column."""
        return self.quantile(column, 0.5, where, by=by, scope=scope)

    def correlation(
        self,
        one: str,
        other: str,
        where: str | None = None,
        *,
        by: str | Sequence[str] = (),
        scope: Scope = "people",
    ) -> Estimate | EstimateTable:
        """Estimate the correlation of two numeric columns."""
        with self._fitting():
            return self._answers.correlation(one, other, where, _names(by), scope)

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
            return self._answers.regression(formula, where, logistic=logistic, scope=scope)

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
    ) -> Estimate | EstimateTable:
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


def export_rows(rows: Callable[[], pa.Table], path: Path, schema: Schema) -> None:
    """Write rows to a new ``.csv`` or ``.parquet`` file; they are made once it can be written."""
    if path.suffix not in {".csv", ".parquet"}:
        raise ReleaseError(f"cannot export to {path.name!r}: use a .csv or .parquet file.")
    if path.exists():
        raise ReleaseError(f"{str(path)!r} exists; choose another name or remove it.")
    frame = rows()
    with _whole_file(path) as part:
        if path.suffix == ".parquet":
            write_parquet(frame, part, schema)
        else:
            pa_csv.write_csv(_formula_safe(frame), part)


def _names(by: str | Sequence[str]) -> tuple[str, ...]:
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


def _check_seeded(statement: Statement) -> None:
    """Refuse a statement whose parts disagree about whether the noise came from a seed."""
    promises_nothing = all(isinstance(p, NoGuarantee) for p in statement.guarantees)
    if statement.seeded and not promises_nothing:
        raise ReleaseError(f"{STATEMENT} says {SEEDED!r} and promises something all the same.")
    if any(t.file.startswith(SEEDED_MARK) != statement.seeded for t in statement.tables.values()):
        raise ReleaseError(
            f"{STATEMENT} and the names of its files disagree on whether the noise was seeded."
        )


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


def _formula_safe(frame: pa.Table) -> pa.Table:
    """Quote texts and names of columns that a spreadsheet would run as a formula."""
    for position, field in enumerate(frame.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        values = [value and no_formula(value) for value in frame.column(position).to_pylist()]
        frame = frame.set_column(position, field.name, pa.array(values, field.type))
    return frame.rename_columns([no_formula(name) for name in frame.column_names])


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Write beside the target and rename, so that a file is there whole or not at all."""
    try:
        scratch = Scratch(path.parent, f".{path.name}-part-")
        try:
            part = scratch.folder / path.name
            yield part
            sync(part)
            part.rename(path)
        finally:
            scratch.close()
    except OSError as error:
        raise ReleaseError(f"cannot write {str(path)!r}: {why_not_written(error)}.") from error


def sha256_of(path: Path) -> str:
    """Give the digest of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
