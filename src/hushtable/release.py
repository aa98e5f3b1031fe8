"""A release: a folder with data and a written promise, loaded without the private table."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hushtable.errors import HushtableError, ReleaseError
from hushtable.estimate import Estimate, Estimator, estimator_for
from hushtable.predicate.lookup import look_up
from hushtable.privacy.guarantee import AnyGuarantee, NoGuarantee
from hushtable.schema import Schema

STATEMENT = "statement.json"
STATEMENT_FOR_PEOPLE = "STATEMENT.md"
SEEDED = "none (seeded)"

AttachmentName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+\.(svg|md)$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TableFile(BaseModel):
    """Name a table of the release and the digest of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^(data|data/[A-Za-z0-9_.-]+)\.parquet$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rows: int = Field(ge=0)


class LedgerReceipt(BaseModel):
    """Say where the spending is recorded: the entry, and the digest that proves it later."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entry: int
    receipt: str


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
    versions: dict[str, str]
    created: str

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
            f"Recorded as entry {self.ledger.entry} of the custodian's ledger "
            f"(receipt `{self.ledger.receipt[:16]}`)."
            if self.ledger
            else "Not recorded in a ledger: other releases of the same table are not counted."
        )
        warning = (
            "> **This release is not private.** It was made with seeded noise, which anybody can "
            "subtract. It is for tests only.\n\n"
            if self.guarantee == SEEDED
            else ""
        )
        notes = "\n".join(f"- {note}" for note in self.estimator.get("notes", []))
        return (
            f"# {self.public_schema['name']}\n\n{warning}"
            f"Published with the method `{self.method}` ({self.paper}) on {self.created}.\n\n"
            f"## The promise\n\n{promise}\n\n"
            f"## What the promise leaves out\n\n{left_out}\n\n"
            f"## What was spent\n\n{spent}\n\n"
            + (f"| step | epsilon |\n|---|---|\n{split}\n\n" if split else "")
            + f"## Parameters\n\n| parameter | value |\n|---|---|\n{parameters}\n\n"
            f"## The data\n\n| table | file | rows |\n|---|---|---|\n{tables}\n\n"
            + (f"{notes}\n\n" if notes else "")
            + "".join(f"![{file}]({file})\n\n" for file in self.attachments if file.endswith("svg"))
            + "Load it with `hushtable.Release.load(folder)`, ask it with "
            '`hushtable query FOLDER "WHERE clause"`.\n'
        )


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
        """Open a release folder and check that it is complete and unchanged."""
        folder = Path(folder)
        try:
            text = (folder / STATEMENT).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ReleaseError(
                f"{str(folder)!r} is not a release: it has no readable {STATEMENT}."
            ) from None
        try:
            statement = Statement.model_validate_json(text)
        except (ValidationError, HushtableError) as error:
            what = (
                "; ".join(
                    f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                    for problem in error.errors()[:5]
                )
                if isinstance(error, ValidationError)
                else str(error)
            )
            raise ReleaseError(f"{STATEMENT} of {str(folder)!r} is not valid: {what}.") from None
        seeded = any(isinstance(promise, NoGuarantee) for promise in statement.guarantees)
        if (statement.guarantee == SEEDED) and not seeded:
            raise ReleaseError(f"{STATEMENT} says {SEEDED!r} and promises something all the same.")
        digests = {table.file: table.sha256 for table in statement.tables.values()}
        for file, digest in (digests | statement.attachments).items():
            path = folder / file
            if not path.is_file():
                raise ReleaseError(f"release {str(folder)!r} is incomplete: {file} is gone.")
            if _digest(path) != digest:
                raise ReleaseError(
                    f"release {str(folder)!r}: {file} was changed after it was published; get a "
                    "fresh copy."
                )
        return cls(folder, statement)

    @cached_property
    def schema(self) -> Schema:
        """The public schema."""
        return Schema.from_dict(self.statement.public_schema)

    def table(self, name: str = "data") -> pa.Table:
        """Read one table as it was published."""
        try:
            return pq.read_table(self.folder / self.statement.tables[name].file)
        except KeyError:
            known = ", ".join(self.statement.tables)
            raise ReleaseError(f"there is no table {name!r}; this release has {known}.") from None

    @cached_property
    def _estimator(self) -> Estimator:
        tables = {name: self.table(name) for name in self.statement.tables}
        return estimator_for(
            self.statement.estimator, self.schema, self.statement.parameters, tables
        )

    def count(self, where: str, *, tables: Mapping[str, pa.Table] | None = None) -> Estimate:
        """Estimate how many rows of the private table satisfy a SQL WHERE clause.

        `tables` are public tables of your own that the clause may look values up in:
        ``country IN (SELECT name FROM regions WHERE continent = 'Africa')``.
        """
        return self._estimator.count(look_up(where, self.schema, tables) if tables else where)

    def frame(self, *, drawn: bool = False) -> pa.Table:
        """Give microdata, one row per published person, as an Arrow table.

        With `drawn`, generalized values are replaced by values drawn evenly from inside them, so
        that the rows look like those of the private table.
        """
        return self._estimator.drawn_frame() if drawn else self._estimator.frame()

    def generalize(self, frame: Any) -> pa.Table:
        """Write any table of the schema's columns, or some of them, in the released values.

        This is how a model that was learned from generalized rows is tried on other rows.
        """
        return self._estimator.generalize(frame)

    def export(self, path: str | Path) -> None:
        """Write the microdata to a new ``.csv`` or ``.parquet`` file."""
        path = Path(path)
        if path.suffix not in {".csv", ".parquet"}:
            raise ReleaseError(f"cannot export to {path.name!r}: use a .csv or .parquet file.")
        if path.exists():
            raise ReleaseError(f"{str(path)!r} exists; choose another name or remove it.")
        frame = self.frame()
        with _whole_file(path) as part:
            if path.suffix == ".parquet":
                pq.write_table(frame, part)
            else:
                pa_csv.write_csv(_formula_safe(frame), part)


def _formula_safe(frame: pa.Table) -> pa.Table:
    """Quote texts that a spreadsheet would run as a formula."""
    for position, field in enumerate(frame.schema):
        if not pa.types.is_string(field.type):
            continue
        values = [
            "'" + value if value and value[0] in "=+-@\t\r" else value
            for value in frame.column(position).to_pylist()
        ]
        frame = frame.set_column(position, field.name, pa.array(values, pa.string()))
    return frame


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Write beside the target and rename, so that a file is there whole or not at all."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".hushtable-") as folder:
            part = Path(folder) / path.name
            yield part
            part.rename(path)
    except OSError as error:
        raise ReleaseError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error


class ReleaseWriter:
    """Write a release folder at once: everything goes to a hidden folder that is renamed last."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists():
            raise ReleaseError(
                f"{str(self.folder)!r} exists; choose another folder, nothing was overwritten."
            )
        try:
            self._part = Path(
                tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}-part-")
            )
        except OSError as error:
            raise ReleaseError(
                f"cannot write beside {str(self.folder)!r}: {error.strerror}."
            ) from error

    def __enter__(self) -> ReleaseWriter:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._part, ignore_errors=True)

    def add_tables(self, tables: Mapping[str, pa.Table]) -> dict[str, TableFile]:
        """Write the tables; a single one is ``data.parquet``, several go into ``data/``."""
        files = {}
        for name, table in tables.items():
            file = "data.parquet" if list(tables) == ["data"] else f"data/{name}.parquet"
            path = self._part / file
            try:
                path.parent.mkdir(exist_ok=True)
                pq.write_table(table.replace_schema_metadata(), path, compression="zstd")
            except OSError as error:
                raise ReleaseError(f"cannot write {file}: {error}.") from error
            files[name] = TableFile(file=file, sha256=_digest(path), rows=table.num_rows)
        return files

    def add_attachments(self, attachments: Mapping[str, str]) -> dict[str, str]:
        """Write drawings and texts beside the tables."""
        for file, text in attachments.items():
            try:
                (self._part / file).write_text(text, encoding="utf-8")
            except OSError as error:
                raise ReleaseError(f"cannot write {file}: {error}.") from error
        return {file: _digest(self._part / file) for file in attachments}

    def add_statement(self, statement: Statement) -> None:
        """Write the statement, for machines and for people."""
        text = json.dumps(
            statement.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False
        )
        try:
            (self._part / STATEMENT).write_text(text + "\n", encoding="utf-8")
            (self._part / STATEMENT_FOR_PEOPLE).write_text(statement.for_people(), encoding="utf-8")
        except OSError as error:
            raise ReleaseError(f"cannot write the statement: {error}.") from error

    def move_into_place(self) -> None:
        """Make the complete folder appear under its name."""
        try:
            self._part.chmod(0o755)  # a release is public; the hidden folder was owner-only
            self._part.rename(self.folder)
        except OSError as error:
            raise ReleaseError(f"cannot finish {str(self.folder)!r}: {error}.") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
