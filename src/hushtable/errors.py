"""Everything hushtable raises on purpose.

::

    HushtableError
    ├── InvalidInput              what was given is wrong: fix it and try again
    │   ├── SchemaError           the schema file
    │   ├── TaxonomyError         a value hierarchy
    │   ├── DataError             the private table does not fit its schema (custodian only)
    │   ├── ParameterError        a parameter of a method
    │   └── PredicateError        a WHERE clause
    ├── Refused                   the input is fine, but doing it would break a promise or a limit
    │   ├── Unconfirmed           the schema still has parts marked ``confirm``
    │   ├── BudgetExceeded        the ledger's cap does not allow it
    │   ├── CompositionError      these promises cannot be added up
    │   └── TooLarge              more cells, rows or memory than the stated limit
    ├── SealedError               a method looked at counts without paying, or paid wrongly
    ├── InternalError             nobody foresaw it; what another library said is withheld
    ├── LedgerError               the ledger cannot be read or written, or was tampered with
    └── ReleaseError              a release folder is missing, incomplete or in the way

Every one carries ``problems``, a tuple of sentences; ``str()`` joins them, one per line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class HushtableError(Exception):
    """Carry one or more problems, each a sentence that says what was given and what to do.

    Examples
    --------
    >>> print(InvalidInput(["column 'age': low 9 is above high 3.", "column 'sex': no values."]))
    column 'age': low 9 is above high 3.
    column 'sex': no values.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class InvalidInput(HushtableError, ValueError):  # noqa: N818 - reads as what happened
    """What was given is wrong."""


class SchemaError(InvalidInput):
    """The schema is wrong."""


class TaxonomyError(InvalidInput):
    """A value hierarchy is wrong."""


class DataError(InvalidInput):
    """The private table does not fit its schema."""


class ParameterError(InvalidInput):
    """A parameter of a method is wrong."""


class PredicateError(InvalidInput):
    """A WHERE clause is wrong or asks for something that is not allowed."""


class Refused(HushtableError):  # noqa: N818 - reads as what happened
    """The input is fine, but doing it would break a promise or a limit."""


class Unconfirmed(Refused):
    """The schema still has parts that were taken from the data and not confirmed."""


class BudgetExceeded(Refused):
    """The ledger's cap does not allow this spending."""


class CompositionError(Refused):
    """These promises cannot be added up."""


class TooLarge(Refused):
    """The request needs more cells, rows or memory than the stated limit."""


class SealedError(HushtableError):
    """A method looked at private counts without paying, or did not pay what it promised."""


class InternalError(HushtableError):
    """Something failed that nobody foresaw, while private rows were read.

    The traceback shows where. What the library said that failed may quote private values, and is
    nowhere.
    """


class LedgerError(HushtableError):
    """The ledger cannot be read or written, or was tampered with."""


class ReleaseError(HushtableError):
    """A release folder is missing, incomplete or in the way."""


class HushtableWarning(UserWarning):
    """What hushtable warns of, apart from all that other libraries do."""


class OwnNote(str):
    """A note that hushtable wrote, which quotes no private value."""

    __slots__ = ()


def shown(value: Any) -> str:
    """Quote a value in a message, shortened; what holds others is named, not written out."""
    if isinstance(value, dict | list | tuple | set):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."
