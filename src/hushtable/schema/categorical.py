"""Columns with a public list of values: categorical and boolean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from hushtable.errors import TaxonomyError, shown
from hushtable.schema.column import BaseColumn, Outside, Text
from hushtable.schema.taxonomy import Taxonomy


def _taxonomy(value: Any) -> Taxonomy:
    if isinstance(value, Taxonomy):
        return value
    try:
        return Taxonomy.from_nested(value)
    except TaxonomyError as error:
        raise ValueError(str(error)) from error


TaxonomyField = Annotated[
    Taxonomy,
    BeforeValidator(_taxonomy, json_schema_input_type=dict[str, Any] | list[Any] | str),
    PlainSerializer(lambda taxonomy: taxonomy.to_nested(), return_type=dict[str, Any]),
]


def _listed_default(said: Mapping[str, Any]) -> Outside:
    """Return the default of `outside`, which depends on `missing` and `other`."""
    has_missing = said.get("missing") == "category"
    return "missing" if has_missing and said.get("other") is None else "other"


class Categorical(BaseColumn):
    """Column with a public list of values, in a public order.

    Parameters
    ----------
    ordered
        True if the order of the values is meaningful.
    other
        The value that replaces out-of-domain values; by default the first of the list.
    outside
        Replacement for out-of-domain values: the nearest bound (clip), the value `other`, or
        missing. With refuse, a table with such a value is refused. By default missing if that
        is a category and the column has no `other`, otherwise other.
    """

    arrow_name: ClassVar[str] = "string"

    type: Literal["categorical"]
    values: tuple[Text, ...] = Field(min_length=1)
    ordered: bool = False
    taxonomy: TaxonomyField | None = None
    other: Text | None = None
    outside: Outside = Field(default_factory=_listed_default)

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if self.other is not None and self.other not in self.values:
            problems.append(f"other {shown(self.other)} is not one of the values; add it to them")
        if len(set(self.values)) < len(self.values):
            twice = sorted(v for v, n in Counter(self.values).items() if n > 1)
            problems.append(f"values are listed twice: {', '.join(twice)}")
        if self.outside == "clip":
            problems.append("outside: clip is for numbers; use other, missing or refuse")
        if unknown := sorted(self.labels.keys() - set(self.values)):
            problems.append(f"labels has {', '.join(unknown)}, which is not one of the values")
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

    def __hash__(self) -> int:
        """Hash most fields; the mapping of labels is not hashable."""
        return hash((self.type, self.values, self.ordered, self.missing, self.outside))

    @cached_property
    def n_values(self) -> int:
        """Number of listed values."""
        return len(self.values)

    def value(self, code: int) -> str | None:
        """Return the value of a code; None for missing."""
        return None if code == self.missing_code else self.values[code]

    @cached_property
    def other_code(self) -> int:
        """Code of the value `other`; by default the first of the list."""
        return 0 if self.other is None else self.values.index(self.other)

    @property
    def is_line(self) -> bool:
        """True if the order of the list is meaningful."""
        return self.ordered

    @cached_property
    def spellings(self) -> dict[str, int]:
        """Code of each text that a cell may contain."""
        return {value: code for code, value in enumerate(self.values)}


TRUTHS = ("false", "true")
_SPELLED = (("false", "f", "no", "n", "0"), ("true", "t", "yes", "y", "1"))


class Boolean(Categorical):
    """Column of truth values.

    Accepts true and false, t and f, yes and no, y and n, 1 and 0, each in lower case, in upper
    case or capitalized.

    Parameters
    ----------
    values
        Always false and true.

    Examples
    --------
    >>> smoker = Boolean(type="boolean")
    >>> smoker.spellings["Yes"], smoker.value(0)
    (1, 'false')
    """

    arrow_name: ClassVar[str] = "bool"

    type: Literal["boolean"]  # type: ignore[assignment]
    values: tuple[Text, ...] = TRUTHS

    @model_validator(mode="after")
    def _is_plain(self) -> Self:
        if self.values != TRUTHS or self.ordered or self.taxonomy is not None:
            raise ValueError(
                "a boolean column has the values false and true, without order; remove values, "
                "ordered and taxonomy, or use type: categorical"
            )
        return self

    @staticmethod
    def stored(value: Any) -> Any:
        """Return True for the text true."""
        return value == "true"

    @cached_property
    def spellings(self) -> dict[str, int]:
        """Code of each text that a cell may contain."""
        return {
            spelled: code
            for code, words in enumerate(_SPELLED)
            for word in words
            for spelled in (word, word.upper(), word.capitalize())
        }
