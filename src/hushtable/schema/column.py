"""Base class of columns: a public list of codes, and the treatment of out-of-domain values.

The codes of a column have a fixed order: values, then special values, then missing. Special values
and missing have no order relative to the values and are never grouped with them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hushtable.docstrings import describe_fields
from hushtable.errors import shown

Value = str | int | float | None

Outside = Literal["clip", "other", "missing", "refuse"]

MAX_COLUMN_SIZE = 2**31 - 1  # so that all codes, special values and missing included, fit 32 bits
_FEW = 8  # columns with up to this many values are shown in full


def _text(value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError(
            f"value {shown(value)} is a truth value (YAML reads yes, no, true and false as such); "
            "put it in quotes"
        )
    if not isinstance(value, str | int):
        raise ValueError(f"value {shown(value)} is not text; put it in quotes")
    return str(value)


Text = Annotated[str, BeforeValidator(_text)]


class FrozenModel(BaseModel):
    """Frozen pydantic model that allows no extra fields."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        json_schema_extra=describe_fields,
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a changed copy without cached properties, which may depend on what changed."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


LEFT_OUT = "left out"
RECOGNIZED = "recognized"
"""Mark of a column whose public domain was chosen by its name and the fit of its values."""


def with_label(text: str, labels: Mapping[str, str]) -> str:
    """Return a name or value with its label, shortened to 60 characters.

    Examples
    --------
    >>> with_label("1", {"1": "Male"}), with_label("3", {"1": "Male"})
    ('1: Male', '3')
    """
    label = shorten(labels.get(text, ""), 60, placeholder=" ...")
    return f"{text}: {label}" if label else text


class Identifier(FrozenModel):
    """Column that is never published: it identifies a person, or is left out.

    Parameters
    ----------
    label
        Description of the column, such as the text of the question; shown to readers.
    confirm
        Parts that were derived from the data; delete this line to confirm them.
    """

    role: Literal["identifier", "left out"]
    label: Text = ""
    confirm: tuple[str, ...] = ()


class BaseColumn(FrozenModel):
    """Base class of all published columns.

    Parameters
    ----------
    label
        Description of the column, such as the text of the question; shown to readers.
    labels
        Labels of values, such as {1: male, 2: female}, by the value or by the name of a special
        value: shown to readers instead of the codes. Clauses use the codes.
    missing
        Treatment of empty cells: a category of their own, or the value `other`. With forbid, a
        table with such a cell is refused. In a schema file, the default is category, unless the
        column has a value `other`.
    confirm
        Parts that were derived from the data; delete this line to confirm them.
    """

    role: Literal["attribute", "target"] = "attribute"
    label: Text = ""
    labels: dict[Text, Text] = Field(default_factory=dict)
    missing: Literal["other", "category", "forbid"] = "other"
    confirm: tuple[str, ...] = ()
    arrow_name: ClassVar[str]
    """Name of the Arrow type in which the column is published."""

    if TYPE_CHECKING:  # each subclass declares these with its own type and default
        outside: Outside
        other: Value

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of values, without special values and missing."""

    @abstractmethod
    def value(self, code: int) -> Value:
        """Return the value of a code as written in a table; None for missing."""

    @staticmethod
    def stored(value: Any) -> Any:
        """Return a value as Arrow stores it, such as a date for its text."""
        return value

    @property
    def special_names(self) -> tuple[str, ...]:
        """Names of the special values, in the order of their codes."""
        return ()

    @cached_property
    def n_special(self) -> int:
        """Number of codes that are not values: special values and missing."""
        return self.size - self.n_values

    @cached_property
    def size(self) -> int:
        """Number of codes; if missing is a category, the last one is missing."""
        return self.n_values + len(self.special_names) + (self.missing == "category")

    @cached_property
    def missing_code(self) -> int | None:
        """Code of missing, or None if missing is not a category."""
        return self.size - 1 if self.missing == "category" else None

    @property
    @abstractmethod
    def is_line(self) -> bool:
        """True if the values are ordered, so that ranges of them are meaningful."""

    @property
    @abstractmethod
    def other_code(self) -> int:
        """Code of the value `other`; by default 0, the first value."""

    @property
    def refuses(self) -> bool:
        """True if some cell of this column can cause a table to be refused."""
        return self.missing == "forbid" or self.outside == "refuse"

    def name(self, code: int) -> str:
        """Return the display name of a code, including special values and missing."""
        if code < self.n_values:
            return str(self.value(code))
        return (*self.special_names, "missing")[code - self.n_values]

    @property
    def in_short(self) -> str:
        """The values, or the first, the last and their number if there are more than 8."""
        if self.n_values <= _FEW:
            return ", ".join(map(self.name, range(self.n_values)))
        return f"{self.name(0)} to {self.name(self.n_values - 1)} ({self.n_values:,} values)"

    @model_validator(mode="after")
    def _check_other_is_used(self) -> Self:
        if self.outside == "missing" and self.missing != "category":
            raise ValueError("outside: missing needs missing: category")
        if self.other is not None and "other" not in (self.missing, self.outside):
            raise ValueError(
                f"other {shown(self.other)} is never used; set missing: other or outside: other, "
                "or remove it"
            )
        return self
