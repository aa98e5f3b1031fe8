"""What is public about a private table: columns, domains, roles, missing values, unit of privacy.

The schema is written by the custodian and read by everybody. Nothing in it may be taken from the
private data without a person confirming that it is public: see `hushtable.engine.drafting`.

By default every cell has a code, whatever is in it: a number beyond the bounds counts as the
nearest bound, and what is no value of the column counts as missing where that is a category, else
as the column's ``other`` value. So every table can be published, and one row more or less changes
every count by at most one row. Only with ``missing: forbid`` or ``outside: refuse`` are there
tables that are refused.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    ValidationError,
    model_validator,
)

from hushtable.domain import Domain
from hushtable.errors import SchemaError, TaxonomyError, Unconfirmed
from hushtable.file_format import FileFormat
from hushtable.files.yaml_text import OneLine, read_yaml, shown, write_yaml
from hushtable.privacy.guarantee import Unit
from hushtable.taxonomy import Taxonomy

Value = str | int | float | None

Outside = Literal["clip", "other", "missing", "refuse"]

MAX_COLUMN_SIZE = 2**31 - 1  # a column's codes, that of missing included, fit 32 bits

_CONFIRM = "Parts that were taken from the data; delete this line to confirm them."
_OUTSIDE = (
    "What a cell outside the public domain counts as: the nearest bound (clip), the value `other`, "
    "or missing. With refuse, a table with such a cell is refused."
)
_OTHER = "The value that a cell counts as which holds none of the column's values; by default "


def _exact(value: float) -> Fraction:
    """Read a bound as the decimal number the custodian wrote, not its binary neighbor."""
    return Fraction(str(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError(
            f"value {shown(value)} is a truth value, as YAML reads yes, no, true and false; put it "
            "in quotes"
        )
    if not isinstance(value, str | int):
        raise ValueError(f"value {shown(value)} is not text; put it in quotes")
    return str(value)


def _taxonomy(value: Any) -> Taxonomy:
    if isinstance(value, Taxonomy):
        return value
    try:
        return Taxonomy.from_nested(value)
    except TaxonomyError as error:
        raise ValueError(str(error)) from error


Text = Annotated[str, BeforeValidator(_text)]
TaxonomyField = Annotated[
    Taxonomy,
    BeforeValidator(_taxonomy, json_schema_input_type=dict[str, Any] | list[Any] | str),
    PlainSerializer(lambda taxonomy: taxonomy.to_nested(), return_type=dict[str, Any]),
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Identifier(_Model):
    """A column that points at a person and never leaves the private table."""

    role: Literal["identifier"]
    confirm: tuple[str, ...] = Field((), description=_CONFIRM)


class _Column(_Model):
    role: Literal["attribute", "target"] = "attribute"
    missing: Literal["other", "category", "forbid"] = Field(
        "other",
        description="What a cell without a value counts as: the value `other`, or a category of "
        "its own. With forbid, a table with such a cell is refused.",
    )
    confirm: tuple[str, ...] = Field((), description=_CONFIRM)
    if TYPE_CHECKING:  # each kind of column declares these in its own terms
        outside: Outside
        other: Value

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of codes without the one for missing."""

    @abstractmethod
    def value(self, code: int) -> Value:
        """Give the value behind a code; a missing value is None."""

    @property
    def size(self) -> int:
        """Number of codes; the last one means missing where missing is a category."""
        return self.n_values + (self.missing == "category")

    @property
    def missing_code(self) -> int | None:
        """The code that means missing, if the column has one."""
        return self.n_values if self.missing == "category" else None

    @property
    @abstractmethod
    def other_code(self) -> int:
        """The code of the value `other`: by default the first."""

    @property
    def refuses(self) -> bool:
        """Whether a cell of this column can make a table be refused."""
        return self.missing == "forbid" or self.outside == "refuse"

    @model_validator(mode="after")
    def _cells_go_somewhere(self) -> Self:
        if self.outside == "missing" and self.missing != "category":
            raise ValueError("outside: missing needs missing: category")
        if self.other is not None and "other" not in (self.missing, self.outside):
            raise ValueError(
                f"other {shown(self.other)} is the value of no cell; say missing: other or "
                "outside: other, or take it out"
            )
        return self


def _listed_default(said: Mapping[str, Any]) -> Outside:
    """Choose what an unlisted value counts as, from the fields before."""
    has_missing = said.get("missing") == "category"
    return "missing" if has_missing and said.get("other") is None else "other"


class Categorical(_Column):
    """A column with a public list of values, in a public order."""

    type: Literal["categorical"]
    values: tuple[Text, ...] = Field(min_length=1)
    ordered: bool = Field(False, description="Whether the order of the values means something.")
    taxonomy: TaxonomyField | None = None
    other: Text | None = Field(None, description=f"{_OTHER}the first of the list.")
    outside: Outside = Field(
        default_factory=_listed_default,
        description=f"{_OUTSIDE} By default missing where that is a category and there is no "
        "`other`, else other.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if self.other is not None and self.other not in self.values:
            problems.append(f"other {shown(self.other)} is not one of the values; list it too")
        if len(set(self.values)) < len(self.values):
            twice = sorted(v for v, n in Counter(self.values).items() if n > 1)
            problems.append(f"values stand twice: {', '.join(twice)}")
        if self.outside == "clip":
            problems.append("outside: clip is for numbers; use other, missing or refuse")
        if self.taxonomy is not None:
            extra = set(self.taxonomy.values) - set(self.values)
            lacking = set(self.values) - set(self.taxonomy.values)
            if lacking:
                problems.append(f"the taxonomy does not cover: {', '.join(sorted(lacking))}")
            if extra:
                problems.append(
                    f"the taxonomy has values that are not in the list: {', '.join(sorted(extra))}"
                )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def n_values(self) -> int:
        """Number of listed values."""
        return len(self.values)

    def value(self, code: int) -> str | None:
        """Give the value behind a code."""
        return None if code == self.missing_code else self.values[code]

    @property
    def other_code(self) -> int:
        """The code of the value `other`: by default the first of the list."""
        return 0 if self.other is None else self.values.index(self.other)


class _Numeric(_Column):
    outside: Outside = Field("clip", description=_OUTSIDE)

    @property
    @abstractmethod
    def exact_low(self) -> Fraction:
        """The lowest value."""

    @property
    @abstractmethod
    def exact_step(self) -> Fraction:
        """The distance between neighboring values."""

    @abstractmethod
    def place(self, real: Any) -> Any:
        """Say where a number lies on the grid: its code is the whole part of that.

        In double precision, so a number goes to the nearest grid point, one in the middle to the
        upper, and it is inside the column if its place is at least 0 and below `n_values`. This is
        the one spelling of that rule: `real` may be a float, an array, or a column of a database.

        Examples
        --------
        >>> weight = Number(type="number", low=40, high=42, step=0.5)
        >>> [weight.place(kg) for kg in (39.75, 40.0, 41.5)]
        [0.0, 0.5, 3.5]
        """

    @property
    def other_code(self) -> int:
        """The code of the value `other`: by default that of the low bound."""
        return 0 if self.other is None else int(self._place_of_other())

    def _place_of_other(self) -> Fraction:
        return (_exact(cast(float, self.other)) - self.exact_low) / self.exact_step

    def _other_problem(self) -> str:
        if self.other is None:
            return ""
        place = self._place_of_other()
        if place.denominator == 1 and 0 <= place < self.n_values:
            return ""
        return f"other {self.other} is not one of the column's values"


class Integer(_Numeric):
    """A column of whole numbers between public bounds, both included."""

    type: Literal["integer"]
    low: int
    high: int
    other: int | None = Field(None, description=f"{_OTHER}low.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        if problem := self._other_problem():
            raise ValueError(problem)
        if self.high - self.low >= MAX_COLUMN_SIZE:
            raise ValueError(
                f"{self.high - self.low + 1} values are too many; use type: number "
                "with a coarser step"
            )
        return self

    @property
    def n_values(self) -> int:
        """Number of whole numbers between the bounds."""
        return self.high - self.low + 1

    @property
    def exact_low(self) -> Fraction:
        """The lowest value."""
        return Fraction(self.low)

    @property
    def exact_step(self) -> Fraction:
        """One."""
        return Fraction(1)

    def place(self, real: Any) -> Any:
        """Say where a number lies on the grid."""
        return real - float(self.low) + 0.5

    def value(self, code: int) -> int | None:
        """Give the number behind a code."""
        return None if code == self.missing_code else self.low + int(code)


class Number(_Numeric):
    """A column of numbers, rounded to a public grid between public bounds."""

    type: Literal["number"]
    low: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)
    step: float = Field(gt=0, allow_inf_nan=False)
    other: float | None = Field(None, allow_inf_nan=False, description=f"{_OTHER}low.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        cells = (_exact(self.high) - _exact(self.low)) / _exact(self.step)
        if cells.denominator != 1:
            raise ValueError(
                f"step {self.step} does not divide the range from {self.low} to {self.high}"
            )
        if cells >= MAX_COLUMN_SIZE:
            raise ValueError(f"{int(cells) + 1} grid points are too many; use a coarser step")
        if problem := self._other_problem():
            raise ValueError(problem)
        return self

    @property
    def n_values(self) -> int:
        """Number of grid points."""
        return int((_exact(self.high) - _exact(self.low)) / _exact(self.step)) + 1

    @property
    def exact_low(self) -> Fraction:
        """The lowest grid point."""
        return _exact(self.low)

    @property
    def exact_step(self) -> Fraction:
        """The distance between grid points."""
        return _exact(self.step)

    def place(self, real: Any) -> Any:
        """Say where a number lies on the grid."""
        return (real - self.low) / self.step + 0.5

    def value(self, code: int) -> float | None:
        """Give the grid point behind a code."""
        if code == self.missing_code:
            return None
        return float(self.exact_low + int(code) * self.exact_step)


def _column_kind(value: Any) -> str | None:
    if isinstance(value, Identifier) or (
        isinstance(value, Mapping) and value.get("role") == "identifier"
    ):
        return "identifier"
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


def _identifier_only(value: Any) -> Any:
    # An identifier is dropped, so whatever domain it was given does not matter.
    if not isinstance(value, Mapping):
        return value
    return {key: value[key] for key in ("role", "confirm") if key in value}


Column = Categorical | Integer | Number
ColumnField = Annotated[
    Annotated[Identifier, BeforeValidator(_identifier_only), Tag("identifier")]
    | Annotated[Categorical, Tag("categorical")]
    | Annotated[Integer, Tag("integer")]
    | Annotated[Number, Tag("number")],
    Discriminator(
        _column_kind,
        custom_error_type="column_type",
        custom_error_message="type must be categorical, integer or number, or role: identifier",
    ),
]


class Schema(_Model):
    """Say what is public about a private table.

    Examples
    --------
    >>> schema = Schema.model_validate({
    ...     "name": "clinic",
    ...     "columns": {
    ...         "age": {"type": "integer", "low": 0, "high": 99},
    ...         "sex": {"type": "categorical", "values": ["F", "M"], "missing": "category"},
    ...     },
    ... })
    >>> schema.domain.sizes
    {'age': 100, 'sex': 3}
    >>> schema.unit.kind
    'row'
    """

    name: str = Field(min_length=1)
    unit: Unit = Unit(kind="row")
    rows: int | None = Field(
        None, ge=0, description="Number of rows, only if that number is public."
    )
    missing_values: tuple[Text, ...] = Field(
        ("",), description="Texts that mean a value is missing."
    )
    reading: FileFormat = Field(
        FileFormat(), description="How the file of the table is to be read."
    )
    confirm: tuple[str, ...] = Field((), description=_CONFIRM)
    columns: dict[str, ColumnField] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if not self.attributes:
            problems.append("all columns are identifiers; nothing is left to publish")
        if sum(column.role == "target" for column in self.attributes.values()) > 1:
            problems.append("more than one column has role: target")
        for name in (self.name, *self.columns):
            if not name.isprintable():
                problems.append(f"name {shown(name)} has signs in it that cannot be printed")
        lowered: dict[str, str] = {}
        for name in self.columns:
            twin = lowered.setdefault(name.lower(), name)
            if twin != name:
                problems.append(f"columns {twin!r} and {name!r} differ only in case")
        if self.unit.kind == "person" and self.unit.column not in self.columns:
            problems.append(f"the unit's column {self.unit.column!r} is not among the columns")
        elif self.unit.kind == "person" and self.unit.column in self.attributes:
            problems.append(f"the unit's column {self.unit.column!r} must have role: identifier")
        for name, column in self.attributes.items():
            if isinstance(column, Categorical) and column.missing == "category":
                both = sorted(set(column.values) & set(self.missing_values))
                if both:
                    problems.append(f"column {name!r}: {both} is both a value and a missing value")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @cached_property
    def attributes(self) -> dict[str, Column]:
        """The columns that are published, in order: all but identifiers."""
        return {
            name: column
            for name, column in self.columns.items()
            if not isinstance(column, Identifier)
        }

    @cached_property
    def target(self) -> str | None:
        """The column with role target, if there is one."""
        return next((n for n, column in self.attributes.items() if column.role == "target"), None)

    @property
    def counted_rows(self) -> int | None:
        """The number of rows that are counted, if it is public.

        Of a person's rows only some may count, so the public number is not that of these.
        """
        return self.rows if self.unit.kind == "row" else None

    @cached_property
    def domain(self) -> Domain:
        """The product of the published columns."""
        return Domain({name: column.size for name, column in self.attributes.items()})

    def select(self, names: Iterable[str]) -> Schema:
        """Describe some of the published columns, row by row."""
        return Schema(
            name=self.name,
            missing_values=self.missing_values,
            columns={name: self.attributes[name] for name in names},
        )

    @property
    def unconfirmed(self) -> dict[str, tuple[str, ...]]:
        """What was taken from the data and not confirmed, by where: the schema, or a column."""
        marks = {"schema": self.confirm}
        marks |= {f"column {name!r}": column.confirm for name, column in self.columns.items()}
        return {where: parts for where, parts in marks.items() if parts}

    def require_confirmed(self) -> None:
        """Refuse a schema with parts that were taken from the data and not confirmed."""
        open_parts = [
            f"{where}: {', '.join(parts)} came from the data; check that it is public knowledge, "
            "correct it, then delete the line 'confirm'."
            for where, parts in self.unconfirmed.items()
        ]
        if open_parts:
            raise Unconfirmed(open_parts)

    @property
    def digest(self) -> str:
        """A digest of what tells the table from another: its name, its columns and their values.

        What may change while the table stays the same is left out: layout and comments of the file,
        the order of columns and values, the public number of rows, taxonomies, which column is the
        target, and how missing values and values outside the domain are treated. So are the columns
        of a graph, which follow from the method's parameters. The unit is not in it either: a
        ledger is for one unit, and refuses any other.

        Examples
        --------
        >>> text = "{name: %s, rows: %d, columns: {age: {type: integer, low: 0, high: 9}}}"
        >>> one, later, other = (
        ...     Schema.parse(text % given).digest
        ...     for given in (("visits", 5), ("visits", 6), ("tickets", 5))
        ... )
        >>> one == later, one == other
        (True, False)
        """
        columns = {} if self.unit.kind == "node" else self.columns
        told = {name: _values_told(column) for name, column in columns.items()}
        text = json.dumps({"name": self.name, "columns": told}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted about the table: nothing, unless a column refuses.

        Examples
        --------
        >>> Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 9}}}").conditions
        ()
        """
        columns = [name for name, column in self.attributes.items() if column.refuses]
        if not columns:
            return ()
        return (
            f"Tables that do not fit. {_listed(columns)} (missing: forbid or outside: refuse) "
            "makes a table be refused if one of its cells does not fit. The promise is for tables "
            "whose rows all fit; whoever learns that a release failed learns that some row of this "
            "table does not.",
        )

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a YAML file; taxonomies may be files beside it."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"cannot read schema {str(path)!r}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise SchemaError(f"schema {str(path)!r} is not UTF-8 text.") from error
        return cls.parse(text, folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, folder: Path | None = None) -> Schema:
        """Read a schema from YAML text; `folder` is where taxonomy files are looked for."""
        try:
            content = read_yaml(text)
        except ValueError as error:
            raise SchemaError(f"the schema is not valid YAML: {error}") from None
        if not isinstance(content, dict):
            raise SchemaError("the schema must be a mapping with name and columns.")
        return cls.from_dict(_with_taxonomy_files(content, folder))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """Check a schema given as plain data, reporting every problem at once."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise SchemaError(_problems(error)) from error

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data: what has its default value is left out, but for rules of cells.

        What becomes of a cell that does not fit is part of the promise, so it is written down, and
        means the same to whoever reads it later.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        if self.confirm:  # what is still to be confirmed is written down, whatever it is
            columns, marks = content.pop("columns"), content.pop("confirm")
            said = {
                "unit": self.unit.model_dump(mode="json", exclude_none=True),
                "missing_values": list(self.missing_values),
                "reading": {"decimal": self.reading.decimal, **content.get("reading", {})},
            }
            content |= {part: said[part] for part in said if part in marks}
            content |= {"confirm": marks, "columns": columns}
        for name, column in content["columns"].items():
            # The kind of a column is what one reads first, what is left to do last.
            first = {key: column.pop(key) for key in ("type", "role") if key in column}
            last = {key: column.pop(key) for key in ("confirm",) if key in column}
            if name in self.attributes:
                rules = self.attributes[name]
                said = {key: column.pop(key) for key in ("other",) if key in column}
                last = {"missing": rules.missing, "outside": rules.outside, **said, **last}
                for key in ("missing", "outside"):
                    column.pop(key, None)
            content["columns"][name] = first | column | last
        return content

    def to_yaml(self) -> str:
        """Write as YAML.

        Examples
        --------
        >>> text = "{name: t, columns: {age: {type: integer, low: 0, high: 9}}}"
        >>> Schema.parse(Schema.parse(text).to_yaml()) == Schema.parse(text)
        True
        """
        content = self.to_dict()
        for part in (content, *content["columns"].values()):
            if part.get("confirm"):
                part["confirm"] = OneLine(part["confirm"])  # it is deleted by hand
        return write_yaml(content)


def _values_told(column: Identifier | Column) -> str | list[str]:
    if isinstance(column, Identifier):
        return "identifier"
    if isinstance(column, Categorical):
        return sorted(column.values)
    return [column.type, *(str(n) for n in (column.exact_low, column.exact_step, column.n_values))]


def _listed(names: Sequence[str]) -> str:
    shown_names = ", ".join(map(repr, names))
    return f"Column {shown_names}" if len(names) == 1 else f"Each of the columns {shown_names}"


def _with_taxonomy_files(content: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """Replace ``taxonomy: file.csv`` by the hierarchy in that file."""
    columns = content.get("columns")
    if not isinstance(columns, dict):
        return content
    problems, filled = [], {}
    for name, column in columns.items():
        filled[name] = column
        reference = column.get("taxonomy") if isinstance(column, dict) else None
        if not isinstance(reference, str):
            continue
        # Only files beside the schema: a schema from elsewhere must not read the disk at large.
        inside = (folder / reference).resolve() if folder is not None else None
        if inside is None or not inside.is_relative_to(folder.resolve()):  # type: ignore[union-attr]
            problems.append(
                f"column {name!r}: taxonomy {reference!r} must be a file in the "
                "folder of the schema or below it."
            )
            continue
        try:
            taxonomy = Taxonomy.load(inside)
        except TaxonomyError as error:
            problems += [f"column {name!r}: {problem}" for problem in error.problems]
            continue
        filled[name] = {**column, "taxonomy": taxonomy}
        if column.get("type") == "categorical" and "values" not in column:
            filled[name]["values"] = taxonomy.values
    if problems:
        raise SchemaError(problems)
    return {**content, "columns": filled}


def _problems(error: ValidationError) -> list[str]:
    """Say each problem in a sentence that names the column."""
    sentences = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"]]
        if problem["type"] == "default_factory_not_called":
            continue  # a default that depends on what is wrong, which is said by itself
        if problem["type"] in {"too_short", "string_too_short"}:
            if problem["input"]:
                continue  # what was given is wrong, which is said of each by itself
            sentences.append(f"{_where(place)}{place[-1]} is empty; fill it in.")
            continue
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "missing":
            message = f"{place[-1]} is missing"
            place = place[:-1]
        elif problem["type"] == "extra_forbidden":
            message = f"{place[-1]!r} is not known here; remove it or correct the spelling"
            place = place[:-1]
        elif place and problem["type"] not in {"value_error", "column_type"}:
            message = f"{place[-1]}: {message[0].lower()}{message[1:]}"
        sentences.append(f"{_where(place)}{message.rstrip('.')}.")
    return sentences


def _where(place: Sequence[str]) -> str:
    inside_column = len(place) > 1 and place[0] == "columns"
    return f"column {place[1]!r}: " if inside_column else "schema: "
