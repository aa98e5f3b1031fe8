"""What every column is: a public list of codes, and what cells count as that do not fit.

The codes of a column come in one order: its values, then its special values, then missing. Special
values and missing are *apart*: they have no place among the values, and nothing is grouped with
them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hushtable.errors import shown

Value = str | int | float | None

Outside = Literal["clip", "other", "missing", "refuse"]

MAX_COLUMN_SIZE = 2**31 - 1  # a column's codes, those apart included, fit 32 bits
_FEW = 8  # values that are all named where a column is shown

CONFIRM = "Parts that were taken from the data; delete this line to confirm them."
OUTSIDE = (
    "What a cell outside the public domain counts as: the nearest bound (clip), the value `other`, "
    "or missing. With refuse, a table with such a cell is refused."
)
OTHER = "The value that a cell counts as which holds none of the column's values; by default "


def _text(value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError(
            f"value {shown(value)} is a truth value, as YAML reads yes, no, true and false; put it "
            "in quotes"
        )
    if not isinstance(value, str | int):
        raise ValueError(f"value {shown(value)} is not text; put it in quotes")
    return str(value)


Text = Annotated[str, BeforeValidator(_text)]


class Model(BaseModel):
    """Plain data that is checked once and never changes."""

    model_config = ConfigDict(
        frozen=True, defer_build=True, extra="forbid", arbitrary_types_allowed=True
    )


class Identifier(Model):
    """A column that points at a person and never leaves the private table."""

    role: Literal["identifier"]
    confirm: tuple[str, ...] = Field((), description=CONFIRM)


class AnyColumn(Model):
    """What the kinds of columns have in common."""

    role: Literal["attribute", "target"] = "attribute"
    missing: Literal["other", "category", "forbid"] = Field(
        "other",
        description="What a cell without a value counts as: a category of its own, or the value "
        "`other`. With forbid, a table with such a cell is refused. In a schema file, the default "
        "is category, unless the column has a value `other`.",
    )
    confirm: tuple[str, ...] = Field((), description=CONFIRM)
    if TYPE_CHECKING:  # each kind of column declares these in its own terms
        outside: Outside
        other: Value

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of codes of values: without special values, and without missing."""

    @abstractmethod
    def value(self, code: int) -> Value:
        """Give the value behind a code, as it stands in a table; a missing value is None."""

    @property
    def special_names(self) -> tuple[str, ...]:
        """What the special values are called, in the order of their codes."""
        return ()

    @property
    def n_apart(self) -> int:
        """Number of codes apart from the values: special ones, and missing."""
        return self.size - self.n_values

    @property
    def size(self) -> int:
        """Number of codes; the last one means missing where missing is a category."""
        return self.n_values + len(self.special_names) + (self.missing == "category")

    @property
    def missing_code(self) -> int | None:
        """The code that means missing, if the column has one."""
        return self.size - 1 if self.missing == "category" else None

    @property
    @abstractmethod
    def is_line(self) -> bool:
        """Whether values have an order, so that neighbors are alike and cuts lie between them."""

    @property
    @abstractmethod
    def other_code(self) -> int:
        """The code of the value `other`: by default the first."""

    @property
    def refuses(self) -> bool:
        """Whether a cell of this column can make a table be refused."""
        return self.missing == "forbid" or self.outside == "refuse"

    def name(self, code: int) -> str:
        """Name a code for people: special values and missing by their names."""
        if code < self.n_values:
            return str(self.value(code))
        return (*self.special_names, "missing")[code - self.n_values]

    @property
    def in_short(self) -> str:
        """The values, or the first and the last of many."""
        if self.n_values <= _FEW:
            return ", ".join(map(self.name, range(self.n_values)))
        return f"{self.name(0)} to {self.name(self.n_values - 1)} ({self.n_values:,} values)"

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
