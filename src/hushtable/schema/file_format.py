"""File format of a private table: public, and part of the schema."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from hushtable.schema.column import FrozenModel

ANOTHER_ENCODING = (
    "set its encoding in the schema, such as reading: {encoding: latin-1} (for a draft, --encoding "
    "latin-1), or convert it first."
)


THOUSANDS = ("", ",", ".", "'", "\u2019", " ", "\u00a0", "\u202f")
DATE_ORDERS = {
    "year-month-day": (1, 2, 3),
    "day-month-year": (3, 2, 1),
    "month-day-year": (3, 1, 2),
}
"""Places of year, month and day in each order."""


class FileFormat(FrozenModel):
    r"""Format of a file; settings that are not given are detected.

    Parameters
    ----------
    delimiter
        Separator of the fields of a text file: one character; \t is a tab.
    decimal
        The decimal separator of numbers.
    thousands
        The separator of groups of three digits, such as a comma in 47,113.
    dates
        The order of the parts of a date in texts, separated by points, slashes, dashes or
        blanks; iso is 2024-12-31.
    encoding
        The encoding of a text file, such as latin-1.
    sheet
        The sheet of a workbook; by default the first.
    labels
        Columns of a Stata or SPSS file that are read by their value labels, such as male for 1;
        by their names in the file.
    rename
        New names of columns, by position in the file (1 is the first): for names that are
        duplicate, differ only in case, are empty, or are reserved for methods.

    Examples
    --------
    >>> FileFormat(rename={3: "age_2"}).names(["age", "sex", "age"])
    ('age', 'sex', 'age_2')
    """

    delimiter: str | None = None
    decimal: str = Field(".", pattern=r"^[.,]$")
    thousands: str = Field("", json_schema_extra={"enum": list(THOUSANDS)})
    dates: Literal["iso", "year-month-day", "day-month-year", "month-day-year"] = "iso"
    encoding: str = "utf-8"
    sheet: str | None = None
    labels: tuple[str, ...] = ()
    rename: dict[int, str] = Field(default_factory=dict)

    @field_validator("delimiter")
    @classmethod
    def _one_sign(cls, given: str | None) -> str | None:
        sign = {"\\t": "\t", "tab": "\t"}.get(given or "", given)
        if sign is not None and (len(sign) != 1 or sign in '"\r\n'):
            raise ValueError("delimiter must be one character, and not a quote or a line end")
        return sign

    @field_validator("thousands")
    @classmethod
    def _separates_groups(cls, given: str) -> str:
        if given not in THOUSANDS:
            allowed = "a comma, a point, an apostrophe or a blank"
            raise ValueError(f"thousands is {given!r}; it must be {allowed}, or empty for none")
        return given

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, given: str) -> str:
        try:
            codecs.lookup(given)
        except LookupError:
            raise ValueError(f"encoding {given!r} is not known") from None
        return given

    @field_validator("rename")
    @classmethod
    def _are_places(cls, given: dict[int, str]) -> dict[int, str]:
        if any(place < 1 for place in given):
            raise ValueError("rename: positions of columns start at 1")
        return given

    @model_validator(mode="after")
    def _marks_differ(self) -> Self:
        if self.delimiter == self.decimal:
            raise ValueError("delimiter and decimal are the same character; change one")
        if self.thousands == self.decimal:
            raise ValueError("thousands and decimal are the same character; change one")
        return self

    @property
    def is_utf8(self) -> bool:
        """True if the encoding needs no conversion."""
        return codecs.lookup(self.encoding).name in {"utf-8", "ascii"}

    def names(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the column names after renaming."""
        return tuple(self.rename.get(place, name) for place, name in enumerate(found, 1))


METHODS_OWN = ("count", "noisy_count")
"""Reserved names of columns that several methods add to the published ones."""


def proposed_names(found: Sequence[str]) -> dict[int, str]:
    """Propose new names, by position, for columns whose name is empty, duplicate or reserved.

    Names that differ only in case are duplicates. The names in `METHODS_OWN` are reserved.

    Examples
    --------
    >>> proposed_names(["count", "COUNT", "", "count"])
    {1: 'count_1', 2: 'COUNT_2', 3: 'column_3', 4: 'count_3'}
    """
    taken = {name.lower() for name in found}
    seen: Counter[str] = Counter()
    new = {}
    for place, name in enumerate(found, 1):
        seen[name.lower()] += 1
        if name and seen[name.lower()] == 1 and name not in METHODS_OWN:
            continue
        stem, number = (name, seen[name.lower()]) if name else ("column", place)
        while f"{stem}_{number}".lower() in taken:
            number += 1
        new[place] = f"{stem}_{number}"
        taken.add(new[place].lower())
    return new
