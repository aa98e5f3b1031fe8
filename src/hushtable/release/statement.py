"""The statement of a release: its promise, and what an analyst needs to use the data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from hushtable.errors import ReleaseError
from hushtable.privacy.guarantee import AnyGuarantee, NoGuarantee
from hushtable.privacy.ledger.records import Decision
from hushtable.schema.column import FrozenModel, with_label

FORMAT: Final = 2
"""Version of the statement format that this version of hushtable writes and reads."""

STATEMENT = "statement.json"
STATEMENT_FOR_PEOPLE = "STATEMENT.md"
SEEDED = "none (seeded)"
SEEDED_MARK = "seeded"  # in the name of every file of rows with seeded noise
NOT_PRIVATE = (
    "this release is not private: its noise came from a seed, so anyone can subtract it. Use it "
    "for tests only."
)
UNCOUNTED = (
    "This ledger also accepts releases whose cost it cannot count. The same data may have been "
    "published in releases that are not part of its total."
)

_DECIDED = {"responsible": "Responsible", "reason": "Reason", "review_by": "Review by"}

AttachmentName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+\.(svg|md)$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


PartName = Annotated[str, Field(pattern=r"^part-[0-9]{5,9}\.parquet$")]


class TableFile(FrozenModel):
    """A table of the release: its file or part files, with their digests.

    Parameters
    ----------
    parts
        Files of a large table that is split, with their digests. `file` is then their folder,
        and `sha256` the digest of this list.
    """

    file: str = Field(pattern=r"^(seeded-)?(data|data/[A-Za-z0-9_.-]+)\.parquet$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rows: int = Field(ge=0)
    parts: dict[PartName, Digest] = Field({})

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 digest of each file of the table, by path."""
        if not self.parts:
            return {self.file: self.sha256}
        return {f"{self.file}/{name}": digest for name, digest in self.parts.items()}

    def digest_of_parts(self) -> str:
        """Return one digest for all parts."""
        return hashlib.sha256(json.dumps(sorted(self.parts.items())).encode()).hexdigest()


class LedgerReceipt(FrozenModel):
    """Evidence that the cost is recorded in a ledger: a digest that the ledger's owner can verify.

    The receipt has no serial number, which would reveal how many charges came before, failed ones
    included.

    Parameters
    ----------
    uncounted
        Whether the ledger also accepts releases whose cost it cannot count.
    """

    receipt: str
    uncounted: bool = False


class Statement(FrozenModel):
    """The promise of a release, and what an analyst needs to use the data.

    All content is public: it is computed from the schema, the parameters and the published data,
    never from the private table.

    Parameters
    ----------
    guarantee
        The promise in short, or 'none (seeded)'.
    split
        Epsilon of each step of the method.
    attachments
        Drawings and texts, with the digests of their files.
    decision
        Person responsible for the release and justification, if stated.
    """

    model_config = ConfigDict(populate_by_name=True)

    format: Literal[2] = FORMAT
    method: str
    paper: str
    parameters: dict[str, Any]
    guarantee: str
    guarantees: tuple[AnyGuarantee, ...] = Field(min_length=1)
    unprotected: tuple[str, ...]
    split: dict[str, str]
    public_schema: dict[str, Any] = Field(alias="schema")
    estimator: dict[str, Any]
    tables: dict[str, TableFile]
    attachments: dict[AttachmentName, Digest] = Field({})
    ledger: LedgerReceipt | None
    decision: Decision | None = None
    versions: dict[str, str]
    created: str

    @field_validator("estimator")
    @classmethod
    def _notes_are_texts(cls, estimator: dict[str, Any]) -> dict[str, Any]:
        notes = estimator.get("notes", [])
        if not isinstance(notes, list) or not all(
            isinstance(note, str) and note.isprintable() for note in notes
        ):
            raise ValueError("notes must be a list of printable strings")
        return estimator

    @classmethod
    def parse(cls, text: str) -> Statement:
        """Parse a statement; raise `ReleaseError` if it is invalid or has another format."""
        try:
            document = json.loads(text)
            if isinstance(document, dict) and document.get("format") != FORMAT:
                raise ReleaseError(
                    f"the statement has format {document.get('format')!r}; this version of "
                    f"hushtable reads only format {FORMAT}. Publish the release again, or use the "
                    "version that wrote it"
                )
            statement = cls.model_validate_json(text)
        except ValidationError as error:
            raise ReleaseError(
                "; ".join(
                    f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                    for problem in error.errors()[:5]
                )
            ) from None
        except ValueError:  # malformed, or an integer of thousands of digits
            raise ReleaseError("it is not JSON") from None
        check_seeded(statement)
        return statement

    @property
    def seeded(self) -> bool:
        """True if the noise came from a seed, so that nothing is protected."""
        return self.guarantee == SEEDED

    def cells_in_words(self) -> list[str]:
        """Return sentences that state how out-of-domain values were handled."""
        return _cells_in_words(self.public_schema)

    def for_people(self) -> str:
        """Return the statement as Markdown text for readers (``STATEMENT.md``)."""
        schema = self.public_schema
        spent = (
            f"Recorded in the custodian's ledger (receipt {_code(self.ledger.receipt[:16])})."
            if self.ledger
            else "Not recorded in a ledger, so the cost of other releases of this table is unknown."
        )
        if self.ledger and self.ledger.uncounted:
            spent += f"\n\n> **{UNCOUNTED}**"
        if self.decision:
            said = self.decision.to_dict().items()
            spent += f"\n\n{_listed(f'{_DECIDED[name]}: {_text(text)}' for name, text in said)}"
        columns = schema.get("columns", {})
        fits = _listed(self.cells_in_words())
        rules = _listed(_code(str(rule)) for rule in schema.get("rules", []))
        parts = _questions(columns) | {
            "name": _text(str(schema.get("name", ""))),
            "warning": f"> **{NOT_PRIVATE[0].upper()}{NOT_PRIVATE[1:]}**" if self.seeded else "",
            "method": _code(self.method),
            "paper": _text(self.paper.removesuffix(".")),
            "created": _text(self.created),
            "promise": _listed(_text(guarantee.explain()) for guarantee in self.guarantees),
            "left_out": _listed(map(_text, self.unprotected)),
            "spent": spent,
            "split": _rows((_text(step), _text(share)) for step, share in self.split.items()),
            "parameters": _rows((_text(n), _cell(value)) for n, value in self.parameters.items()),
            "tables": _rows(
                (_text(name), f"`{table.file}`", f"{table.rows:,}")
                for name, table in self.tables.items()
            ),
            "notes": _listed(map(_text, self.estimator.get("notes", []))),
            "columns": _rows(
                map(_text, (with_label(name, {name: c.get("label", "")}), c["type"], _values(c)))
                for name, c in columns.items()
                if "type" in c
            ),
            "fits": fits and f"How out-of-domain values were handled, if there were any:\n\n{fits}",
            "rules": rules and f"{_RULES}\n\n{rules}",
            "drawings": "\n\n".join(f"![{f}]({f})" for f in self.attachments if f.endswith("svg")),
        }
        template = (files("hushtable.release") / "statement_template.txt").read_text("utf-8")
        # A paragraph without content is left out.
        kept = [
            block
            for block in template.split("\n\n")
            if all(parts[name] for name in _PART.findall(block))
        ]
        text = _PART.sub(lambda mark: parts[mark[1]], "\n\n".join(kept))
        # Texts of a schema must not send control characters to a terminal.
        return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


_PART = re.compile(r"\{(\w+)\}")
_RULES = (
    "Every published row satisfies these rules. Private rows that broke a rule were counted "
    "unchanged:"
)


def _listed(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _questions(columns: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return how to query a release, with its own columns where they fit."""
    plain = {n: c for n, c in columns.items() if n.isascii() and n.isidentifier() and "type" in c}
    lists = [name for name, column in plain.items() if column.get("values")]
    numbers = [n for n, c in plain.items() if c["type"] in ("integer", "decimal", "number")]
    group, other = (*lists, "column", "other")[:2]
    number = numbers[0] if numbers else "number"
    value = str(plain[group]["values"][0]) if lists else "value"
    condition = f"{group} = '{value}'"
    if not re.fullmatch(r"[\w .,-]+", value):
        condition = "condition"
    return {"condition": condition, "group": group, "other": other, "number": number}


def _cells_in_words(schema: Mapping[str, Any]) -> list[str]:
    """Return how out-of-domain values were handled: one sentence per group of columns alike."""
    alike: dict[str, list[str]] = {}
    for name, column in schema.get("columns", {}).items():
        if "type" not in column:
            continue
        is_list = column["type"] in ("categorical", "boolean")
        noun = column["type"] if column["type"] in ("date", "timestamp", "time") else "number"
        other = "the first value of the list" if is_list else "the minimum"
        if "other" in column:
            other = _code(str(column["other"]))
        refused = "were not allowed"
        counted = {"other": f"were recorded as {other}", "clip": "were set to the nearest bound",
                   "missing": "were recorded as missing", "category": "were recorded as missing",
                   "forbid": refused, "refuse": refused}  # fmt: skip
        no_value, outside = counted[column["missing"]], counted[column["outside"]]
        unlisted = "unlisted values" if is_list else f"{noun}s outside the bounds"
        said = f"empty cells {no_value}; {unlisted} {outside}."
        if not is_list:
            junk = no_value if column["outside"] == "clip" else outside
            said = f"{said[:-1]}; values that are not valid {noun}s {junk}."
        alike.setdefault(said, []).append(_code(name))
    return [f"{', '.join(names)}: {said}" for said, names in alike.items()]


def _values(column: Mapping[str, Any]) -> str:
    """Return the values of a column with their labels; of more than 60, the first ones."""
    labels = column.get("labels", {})
    special = [str(name) for name in column.get("special", {}).values()]
    values = [*map(str, column.get("values", [])), *special]
    listed = [with_label(value, labels) for value in values[:_MAX_LISTED]]
    if "low" in column:
        listed = [f"{column['low']} to {column['high']}", *listed]
    if column["missing"] == "category":
        listed.append("may be missing")
    more = len(values) - _MAX_LISTED
    return "; ".join(listed) + (f"; and {more:,} more" if more > 0 else "")


def _cell(value: Any) -> str:
    return _text(value if isinstance(value, str) else json.dumps(value))


_MAX_LISTED = 60  # values of a column

_MARKUP = re.compile(
    r"<(?=[a-zA-Z/!?])|&(?=#?\w+;)|\\|\||\](?=[(\[:])|//|(?<=www)\."
    r"|^(?:[#+*-]+(?=\s|$)|>|[=~_*-]{3})"
)


def _text(text: str) -> str:
    """Escape HTML, links, images and the marks of tables, headings and lists for Markdown."""
    entities = {"<": "&lt;", "&": "&amp;"}
    return _MARKUP.sub(lambda m: entities.get(m[0], f"\\{m[0]}"), " ".join(text.split()))


def _code(text: str) -> str:
    """Return a code span, or escaped text if the span could end early or contain HTML."""
    safe = _text(text) == text and "`" not in text
    return f"`{text}`" if safe else _text(text)


def check_seeded(statement: Statement) -> None:
    """Raise `ReleaseError` if a statement contradicts itself about seeded noise."""
    promises_nothing = all(isinstance(p, NoGuarantee) for p in statement.guarantees)
    if statement.seeded and not promises_nothing:
        raise ReleaseError(f"{STATEMENT} says {SEEDED!r} but also states a guarantee.")
    if any(t.file.startswith(SEEDED_MARK) != statement.seeded for t in statement.tables.values()):
        raise ReleaseError(
            f"{STATEMENT} and the names of its files disagree on whether the noise was seeded."
        )


def digest_of(statement: Statement) -> str:
    """Return one digest for all tables of the release, which a ledger records."""
    files = sorted((name, table.sha256) for name, table in statement.tables.items())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
