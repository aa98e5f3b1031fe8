"""Columns with a public list of values: categories and truth values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from hushtable.errors import TaxonomyError, shown
from hushtable.schema.columns import OTHER, OUTSIDE, AnyColumn, Outside, Text
from hushtable.taxonomy import Taxonomy


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
    """Choose what an unlisted value counts as, from the fields before."""
    has_missing = said.get("missing") == "category"
    return "missing" if has_missing and said.get("other") is None else "other"


class Categorical(AnyColumn):
    """A column with a public list of values, in a public order."""

    type: Literal["categorical"]
    values: tuple[Text, ...] = Field(min_length=1)
    ordered: bool = Field(False, description="Whether the order of the values means something.")
    taxonomy: TaxonomyField | None = None
    other: Text | None = Field(None, description=f"{OTHER}the first of the list.")
    outside: Outside = Field(
        default_factory=_listed_default,
        description=f"{OUTSIDE} By default missing where that is a category and there is no "
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

    @property
    def is_line(self) -> bool:
        """Whether the order of the list means something."""
        return self.ordered

    @property
    def spellings(self) -> dict[str, int]:
        """The code of each text that a cell may hold."""
        return {value: code for code, value in enumerate(self.values)}


TRUTHS = ("false", "true")
_SPELLED = (("false", "f", "no", "n", "0"), ("true", "t", "yes", "y", "1"))


class Boolean(Categorical):
    """A column of truth values.

    Texts are read in lower case, in capitals and with a capital first: true and false, t and f, yes
    and no, y and n, 1 and 0.

    Examples
    --------
    >>> smoker = Boolean(type="boolean")
    >>> smoker.spellings["Yes"], smoker.value(0)
    (1, 'false')
    """

    type: Literal["boolean"]  # type: ignore[assignment]
    values: tuple[Text, ...] = Field(TRUTHS, description="Always false and true.")

    @model_validator(mode="after")
    def _is_plain(self) -> Self:
        if self.values != TRUTHS or self.ordered or self.taxonomy is not None:
            raise ValueError(
                "a truth value is false or true, in no order; take out values, ordered and "
                "taxonomy, or say type: categorical"
            )
        return self

    @property
    def spellings(self) -> dict[str, int]:
        """The code of each text that a cell may hold."""
        return {
            spelled: code
            for code, words in enumerate(_SPELLED)
            for word in words
            for spelled in (word, word.upper(), word.capitalize())
        }
