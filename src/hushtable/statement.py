"""The statement of a release: its promise, and all that an analyst needs to use the data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from hushtable.errors import ReleaseError
from hushtable.privacy.decision import Decision
from hushtable.privacy.guarantee import AnyGuarantee, NoGuarantee

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


PartName = Annotated[str, Field(pattern=r"^part-[0-9]{5,9}\.parquet$")]


class TableFile(BaseModel):
    """Name a table of the release and the digest of its file, or of each of its parts."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")

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

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")

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

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid", populate_by_name=True)

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
            f"Published with the method `{self.method}` ({self.paper.removesuffix('.')}) on "
            f"{self.created}.\n\n"
            f"## The promise\n\n{promise}\n\n"
            f"## What the promise leaves out\n\n{left_out}\n\n"
            f"## What was spent\n\n{spent}\n\n"
            + (f"| step | epsilon |\n|---|---|\n{split}\n\n" if split else "")
            + f"## Parameters\n\n| parameter | value |\n|---|---|\n{parameters}\n\n"
            f"## The data\n\n| table | file | rows |\n|---|---|---|\n{tables}\n\n"
            + (f"{notes}\n\n" if notes else "")
            + (
                f"Cells of the private table that did not fit, if there were any:\n\n{fits}\n\n"
                if fits
                else ""
            )
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


def check_seeded(statement: Statement) -> None:
    """Refuse a statement whose parts disagree about whether the noise came from a seed."""
    promises_nothing = all(isinstance(p, NoGuarantee) for p in statement.guarantees)
    if statement.seeded and not promises_nothing:
        raise ReleaseError(f"{STATEMENT} says {SEEDED!r} and promises something all the same.")
    if any(t.file.startswith(SEEDED_MARK) != statement.seeded for t in statement.tables.values()):
        raise ReleaseError(
            f"{STATEMENT} and the names of its files disagree on whether the noise was seeded."
        )


def digest_of(statement: Statement) -> str:
    """Return one digest for all tables of the release, which a ledger records."""
    files = sorted((name, table.sha256) for name, table in statement.tables.items())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()
