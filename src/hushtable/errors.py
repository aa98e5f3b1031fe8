"""Exceptions and warnings that hushtable raises on purpose.

::

    HushtableError
    ├── InvalidInput              invalid input: correct it and try again
    │   ├── SchemaError           the schema file
    │   ├── TaxonomyError         a value hierarchy
    │   ├── DataError             the private table does not match its schema (custodian only)
    │   ├── ParameterError        a parameter of a method, or an argument of a function
    │   └── PredicateError        a WHERE clause
    ├── Refused                   valid input, but the result would break a promise or a limit
    │   ├── Unconfirmed           the schema still has parts marked ``confirm``
    │   ├── BudgetExceeded        the ledger's cap does not allow it
    │   ├── CompositionError      these promises do not compose
    │   └── TooLarge              more cells, rows or memory than the stated limit
    ├── SealedError               a method used counts without paying, or paid the wrong amount
    ├── InternalError             an unexpected error; the message of other libraries is withheld
    ├── LedgerError               the ledger cannot be read or written, or was tampered with
    └── ReleaseError              a release folder is missing, incomplete or already exists

Each has ``problems``, a tuple of sentences; ``str()`` joins them, one per line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any


class HushtableError(Exception):
    """Base class of all errors, with one or more problems: what was given and what to do.

    Examples
    --------
    >>> print(InvalidInput(["column 'age': low 9 is above high 3.", "column 'sex': no values."]))
    column 'age': low 9 is above high 3.
    column 'sex': no values.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))

    @classmethod
    def raise_if_any(cls, problems: Sequence[str]) -> None:
        """Raise this error if there are problems."""
        if problems:
            raise cls(problems)


class InvalidInput(HushtableError, ValueError):  # noqa: N818 - reads as what happened
    """Invalid input; correct it and try again."""


class SchemaError(InvalidInput):
    """Invalid schema."""


class TaxonomyError(InvalidInput):
    """Invalid value hierarchy."""


class DataError(InvalidInput):
    """Private table that does not match its schema."""


class ParameterError(InvalidInput):
    """Invalid parameter of a method or argument of a function."""


class PredicateError(InvalidInput):
    """WHERE clause that is invalid or asks for something that is not allowed."""


class Refused(HushtableError):  # noqa: N818 - reads as what happened
    """Valid request whose result would break a promise or a limit."""


class Unconfirmed(Refused):
    """Schema with parts that were derived from the data and not yet confirmed."""


class BudgetExceeded(Refused):
    """Spending that the ledger's cap does not allow."""


class CompositionError(Refused):
    """Promises that do not compose."""


class TooLarge(Refused):
    """Request that needs more cells, rows or memory than the stated limit."""


class SealedError(HushtableError):
    """Method that used private counts without paying, or did not spend what it promised."""


class InternalError(HushtableError):
    """Unexpected failure while private rows were read.

    The traceback shows where. The message of the library that failed may quote private values, so
    it is neither shown nor stored.
    """


class LedgerError(HushtableError):
    """Ledger that cannot be read or written, or was tampered with."""


class ReleaseError(HushtableError):
    """Release folder that is missing, incomplete or already exists."""


class HushtableWarning(UserWarning):
    """Base class of hushtable's own warnings, so that they can be filtered."""


class OwnNote(str):
    """Note written by hushtable that quotes no private value."""

    __slots__ = ()


def unpublished(
    names: Iterable[str], published: Collection[str], what: str = "column"
) -> list[str]:
    """Return a problem for each name that is not among the published columns.

    Examples
    --------
    >>> unpublished(["age", "agee"], ["age", "sex"])
    ["column 'agee' is not a published column; published columns are age, sex."]
    """
    listed = ", ".join(published)
    return [
        f"{what} {name!r} is not a published column; published columns are {listed}."
        for name in dict.fromkeys(names)
        if name not in published
    ]


def shown(value: Any) -> str:
    """Format a value for a message: containers by type only, others shortened to 60 characters."""
    if isinstance(value, dict | list | tuple | set):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."
