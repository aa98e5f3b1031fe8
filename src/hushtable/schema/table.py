"""Schema of a private table: columns, domains, roles, missing values, unit of privacy.

The custodian writes the schema; it is public. Nothing in it may come from the private data unless a
person confirms that it is public: see `hushtable.drafting`.

By default every cell has a code, whatever it contains. A number beyond the bounds is recorded as
the nearest bound. Any other out-of-domain value is recorded as missing if that is a category and
the column has no ``other`` value, and otherwise as ``other``, which is by default the first value
or the low bound. So every table can be published, and with unit ``row``, adding or removing
one row changes every count by at most one. Tables are refused only with ``missing: forbid`` or
``outside: refuse``. In a schema file, missing is a category unless the file sets something else, so
that an empty cell is not recorded as a value because a line was forgotten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Annotated, Any, Self, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from hushtable.domain import Domain
from hushtable.errors import SchemaError, TaxonomyError, Unconfirmed, shown
from hushtable.files.html import html_list, html_table
from hushtable.privacy.unit import Unit
from hushtable.schema.calendar import CalendarColumn, Date, Time, Timestamp
from hushtable.schema.categorical import Boolean, Categorical
from hushtable.schema.column import LEFT_OUT, RECOGNIZED, FrozenModel, Identifier, Text
from hushtable.schema.file_format import FileFormat
from hushtable.schema.numeric import Decimal, Duration, GridColumn, Integer, Number
from hushtable.schema.taxonomy import Taxonomy

# Reading of schema files: taxonomies in separate files, and validation errors as sentences.


def schema_text(path: Path) -> str:
    """Return the text of a schema file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaError(f"cannot read schema {str(path)!r}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SchemaError(f"schema {str(path)!r} is not UTF-8 text.") from error


def schema_content(text: str) -> Any:
    """Parse the YAML of a schema."""
    from hushtable.files.yaml_text import read_yaml  # noqa: PLC0415 - slow to import

    try:
        return read_yaml(text)
    except ValueError as error:
        raise SchemaError(f"the schema is not valid YAML: {error}") from None


def with_taxonomy_files(content: dict[str, Any], folder: Path | None) -> dict[str, Any]:
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
        # Only files below the schema's folder: a foreign schema must not read arbitrary files.
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
    SchemaError.raise_if_any(problems)
    return {**content, "columns": filled}


def with_missing_stated(content: dict[str, Any]) -> dict[str, Any]:
    """Add ``missing: category`` to columns that set neither `missing` nor `other`.

    An empty cell is then never recorded as a value because a line was forgotten. The category
    exists whether or not cells are empty, so it reveals nothing about the table.
    """
    columns = content.get("columns")
    if not isinstance(columns, dict):
        return content
    filled = {
        name: {**column, "missing": "category"}
        if isinstance(column, dict)
        and "type" in column
        and column.get("role") not in _UNPUBLISHED
        and not {"missing", "other"} & set(column)
        else column
        for name, column in columns.items()
    }
    return {**content, "columns": filled}


def sentences(error: ValidationError) -> list[str]:
    """Return each validation error as a sentence that names the column."""
    said = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"]]
        if problem["type"] == "default_factory_not_called":
            continue  # this default depends on a field that is reported separately
        if problem["type"] in {"too_short", "string_too_short"}:
            if problem["input"]:
                continue  # each invalid item is reported separately
            said.append(f"{_where(place)}{place[-1]} is empty; fill it in.")
            continue
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "missing":
            message = f"{place[-1]} is missing"
            place = place[:-1]
        elif problem["type"] == "extra_forbidden":
            message = _unknown_key(place.pop())
        elif problem["type"] == "column_type" and isinstance(problem["input"], Mapping):
            unknown = [key for key in map(str, problem["input"]) if key not in _known_keys()]
            message = "; ".join([message, *map(_unknown_key, unknown)])
        elif place and problem["type"] not in {"value_error", "column_type"}:
            message = f"{place[-1]}: {message[0].lower()}{message[1:]}"
        said.append(f"{_where(place)}{message.rstrip('.')}{'' if message.endswith('?') else '.'}")
    return said


def _known_keys() -> set[str]:
    kinds = (Schema, Categorical, Number, Date, FileFormat)
    return {key for kind in kinds for key in kind.model_fields}


def _unknown_key(key: str) -> str:
    """Return a message about an unknown key, with the known key that is most similar."""
    close = get_close_matches(key, _known_keys(), n=1, cutoff=0.6)
    meant = f"did you mean {close[0]!r}?" if close else "remove it or correct the spelling"
    return f"{key!r} is not a known key; {meant}"


def _where(place: Sequence[str]) -> str:
    inside_column = len(place) > 1 and place[0] == "columns"
    return f"column {place[1]!r}: " if inside_column else "schema: "


def _column_kind(value: Any) -> str | None:
    if isinstance(value, Identifier) or (
        isinstance(value, Mapping) and value.get("role") in _UNPUBLISHED
    ):
        return "identifier"
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


def _identifier_only(value: Any) -> Any:
    # Identifiers are dropped, so their domain does not matter.
    if not isinstance(value, Mapping):
        return value
    return {key: value[key] for key in ("role", "label", "confirm") if key in value}


Column = Categorical | Integer | Number | Date | Timestamp | Time
"""A published column. Booleans are categorical, durations are integers, decimals are numbers."""

_KINDS = ("categorical", "boolean", "integer", "number", "decimal", "date", "timestamp", "time",
          "duration")  # fmt: skip
ColumnField = Annotated[
    Annotated[Identifier, BeforeValidator(_identifier_only), Tag("identifier")]
    | Annotated[Categorical, Tag("categorical")]
    | Annotated[Boolean, Tag("boolean")]
    | Annotated[Integer, Tag("integer")]
    | Annotated[Number, Tag("number")]
    | Annotated[Decimal, Tag("decimal")]
    | Annotated[Date, Tag("date")]
    | Annotated[Timestamp, Tag("timestamp")]
    | Annotated[Time, Tag("time")]
    | Annotated[Duration, Tag("duration")],
    Discriminator(
        _column_kind,
        custom_error_type="column_type",
        custom_error_message=(
            f"type must be {', '.join(_KINDS[:-1])} or {_KINDS[-1]}, or role: identifier or left "
            "out"
        ),
    ),
]


class Schema(FrozenModel):
    """Public description of a private table.

    Parameters
    ----------
    rows
        Number of rows; set it only if that number is public.
    missing_values
        Texts that mark a missing value.
    reading
        Format of the table's file.
    confirm
        Parts that were derived from the data; delete this line to confirm them.
    derived
        Columns computed from another, such as weekday(admission) or band(age): not read, but
        added to published rows and available in WHERE clauses.
    rules
        Conditions between columns, as WHERE clauses, that every published row satisfies.

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
    rows: int | None = Field(None, ge=0)
    missing_values: tuple[Text, ...] = ("",)
    reading: FileFormat = FileFormat()
    confirm: tuple[str, ...] = ()
    columns: dict[str, ColumnField] = Field(min_length=1)
    derived: dict[str, Text] = Field(default_factory=dict)
    rules: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if not self.attributes:
            problems.append("all columns are identifiers; nothing is left to publish")
        if sum(column.role == "target" for column in self.attributes.values()) > 1:
            problems.append("more than one column has role: target")
        labels = [
            text
            for column in self.columns.values()
            for text in (column.label, *getattr(column, "labels", {}).values())
        ]
        for name in (self.name, *self.columns, *self.derived, *labels):
            if not name.isprintable():
                problems.append(f"name {shown(name)} contains characters that cannot be printed")
        lowered: dict[str, str] = {}
        for name in (*self.columns, *self.derived):
            twin = lowered.setdefault(name.lower(), name)
            if twin != name:
                problems.append(f"columns {twin!r} and {name!r} differ only in case")
        both = [name for name in self.derived if name in self.columns]
        problems += [f"column {name!r} is both derived and read; remove one" for name in both]
        if self.unit.kind == "person" and self.unit.column not in self.columns:
            problems.append(f"the unit's column {self.unit.column!r} is not among the columns")
        elif (
            self.unit.kind == "person" and self.columns[str(self.unit.column)].role != "identifier"
        ):
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
        """Published columns, in order: all except identifiers."""
        return {
            name: column
            for name, column in self.columns.items()
            if not isinstance(column, Identifier)
        }

    def _repr_html_(self) -> str:
        rows = (
            (name, column.type, column.role, column.in_short, column.missing)
            for name, column in self.attributes.items()
        )
        left_out = [name for name in self.columns if name not in self.attributes]
        said = [f"One {self.unit.kind} is protected."]
        said += [f"Not published: {', '.join(left_out)}."] if left_out else []
        header = ["column", "type", "role", "values", "missing"]
        return f"<h4>{escape(self.name)}</h4>{html_list(said)}{html_table(header, rows)}"

    @cached_property
    def target(self) -> str | None:
        """Name of the column with role target, or None."""
        return next((n for n, column in self.attributes.items() if column.role == "target"), None)

    @property
    def counted_rows(self) -> int | None:
        """Number of rows that enter the counts if it is public, or None.

        If the unit is a person, only some of a person's rows may be used, so the public number does
        not apply.
        """
        return self.rows if self.unit.kind == "row" else None

    @cached_property
    def domain(self) -> Domain:
        """Product domain of the published columns."""
        return Domain({name: column.size for name, column in self.attributes.items()})

    def of_rows(self, names: Iterable[str]) -> Schema:
        """Return the schema of rows with some of the published columns, such as those of a release.

        Synthetic rows belong to no person, so the unit is a row. To publish some columns of a
        private table, use `columns` of `hushtable.publish` instead, which keeps the unit.
        """
        return Schema(
            name=self.name,
            missing_values=self.missing_values,
            columns={name: self.attributes[name] for name in names},
        )

    @property
    def unconfirmed(self) -> dict[str, tuple[str, ...]]:
        """Parts derived from the data and not confirmed, by place: the schema or a column."""
        marks = {"schema": self.confirm}
        marks |= {f"column {name!r}": column.confirm for name, column in self.columns.items()}
        return {where: parts for where, parts in marks.items() if parts}

    def require_confirmed(self) -> None:
        """Raise `Unconfirmed` if parts were derived from the data and not confirmed."""
        open_parts = [
            f"{where}: its public domain was chosen by its name and the fit of its values. Check "
            "that it is the right one, then delete the line 'confirm'."
            if parts == (RECOGNIZED,)
            else f"{where}: {', '.join(parts)} came from the data. Check that it is public "
            "knowledge, correct it if needed, then delete the line 'confirm'."
            for where, parts in self.unconfirmed.items()
        ]
        Unconfirmed.raise_if_any(open_parts)

    @property
    def digest(self) -> str:
        """Digest that identifies the table: its name, its columns and their values.

        It ignores what may change while the table stays the same: layout and comments of the file,
        the order of columns and values, the public number of rows, taxonomies, bins, derived
        columns, rules, the choice of the target, and the treatment of missing and out-of-domain
        values. It also ignores the columns of a graph, which follow from the method's parameters,
        and the unit: a ledger is for one unit and refuses all others.

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
        values = {name: _values_for_digest(column) for name, column in columns.items()}
        text = json.dumps({"name": self.name, "columns": values}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions on the table that the promise assumes; empty if no column refuses tables.

        Examples
        --------
        >>> Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 9}}}").conditions
        ()
        """
        columns = [name for name, column in self.attributes.items() if column.refuses]
        if not columns:
            return ()
        return (
            f"Tables with out-of-domain values. {_listed(columns)} (missing: forbid or outside: "
            "refuse) causes a table to be refused if a cell does not match. The promise holds for "
            "tables whose rows all match; anyone who learns that a release failed learns that some "
            "row of this table does not.",
        )

    def expected_rows(self, given: int | None) -> int | None:
        """Return the given number of rows, or else the public one, or None.

        Examples
        --------
        >>> public = Schema.parse(
        ...     "{name: t, rows: 5, columns: {age: {type: integer, low: 0, high: 9}}}"
        ... )
        >>> public.expected_rows(None), public.expected_rows(7)
        (5, 7)
        """
        return self.rows if given is None else given

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a YAML file; taxonomies may be files in its folder."""
        path = Path(path)
        return cls.parse(schema_text(path), folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, folder: Path | None = None) -> Schema:
        """Read a schema from YAML text; taxonomy files are relative to `folder`.

        A column that sets neither `missing` nor `other` gets ``missing: category``.
        """
        content = schema_content(text)
        if not isinstance(content, dict):
            raise SchemaError("the schema must be a mapping with name and columns.")
        return cls.from_dict(with_missing_stated(with_taxonomy_files(content, folder)))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """Validate a schema given as plain data; the error lists all problems."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise SchemaError(sentences(error)) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, without default values except `missing` and `outside`.

        The treatment of out-of-domain values is part of the promise, so it is always written, even
        if defaults change later.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        if self.confirm:  # write parts that await confirmation even if they have default values
            columns, marks = content.pop("columns"), content.pop("confirm")
            said = {
                "unit": self.unit.model_dump(mode="json", exclude_none=True),
                "missing_values": list(self.missing_values),
                "reading": {"decimal": self.reading.decimal, **content.get("reading", {})},
            }
            content |= {part: said[part] for part in said if part in marks}
            content |= {"confirm": marks, "columns": columns}
        for name, column in content["columns"].items():
            if name in self.attributes:
                rules = self.attributes[name]
                column |= {"missing": rules.missing, "outside": rules.outside}
                if "special" in column:  # with numbers as keys
                    column["special"] = dict(cast(GridColumn, rules).special_codes)
            in_order = sorted(column.items(), key=lambda item: _KEY_ORDER.get(item[0], 0))
            content["columns"][name] = dict(in_order)
        return content

    def to_yaml(self) -> str:
        """Return the schema as YAML text.

        Examples
        --------
        >>> text = "{name: t, columns: {age: {type: integer, low: 0, high: 9}}}"
        >>> Schema.parse(Schema.parse(text).to_yaml()) == Schema.parse(text)
        True
        """
        from hushtable.files.yaml_text import OneLine, write_yaml  # noqa: PLC0415 - slow to import

        content = self.to_dict()
        for part in (content, *content["columns"].values()):
            if part.get("confirm"):
                part["confirm"] = OneLine(part["confirm"])  # one line, easy to delete by hand
        return write_yaml(content)


_UNPUBLISHED = ("identifier", LEFT_OUT)


# Readers look for the type first and for what is left to confirm last.
_KEY_ORDER = {"type": -2, "role": -1} | {
    key: place
    for place, key in enumerate(
        ("special", "label", "labels", "bins", "missing", "outside", "other", "confirm"), 1
    )
}


def _values_for_digest(column: Identifier | Column) -> str | list[str]:
    if isinstance(column, Identifier):
        return "identifier"
    if isinstance(column, Categorical):
        return sorted(column.values)
    grid = [column.type, *(str(n) for n in (column.exact_low, column.exact_step, column.n_values))]
    if isinstance(column, CalendarColumn | Duration):
        grid.append(column.step)
    return [*grid, *(f"{code}: special" for code in column.special_codes)]


def _listed(names: Sequence[str]) -> str:
    shown_names = ", ".join(map(repr, names))
    return f"Column {shown_names}" if len(names) == 1 else f"Each of the columns {shown_names}"
