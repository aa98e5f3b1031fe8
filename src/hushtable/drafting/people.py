"""Detection of a column that identifies persons with several rows each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.drafting.profile import Profile

_NAMES_PERSONS = re.compile(
    r"(^|[_ .-])(id|pid|uid|person|patient|subject|participant|respondent|customer|client|user"
    r"|member|student|household|hh|case|ssn|dupersid|persnr|nr)([_ .-]?(id|no|nr|num|number|key))?"
    r"($|[_ .-])|[a-z](ID|Id)$",
)
_FEW = 20  # minimum number of persons
_TIMES = 1.05  # minimum mean rows per person
_MOST_TIMES = 1000


@dataclass(frozen=True)
class Person:
    """Column that seems to identify persons."""

    column: str
    rows_each: float  # mean rows per person
    max_rows: int  # proposed limit: all rows, unless very few persons have very many

    @property
    def question(self) -> str:
        """The question to the custodian."""
        return (
            f"Values of {self.column!r} occur {self.rows_each:.2g} times on average. Does it "
            "identify a person? If so, the promise must cover all rows of a person: keep unit. If "
            "not, set unit: {kind: row}."
        )


def find_person_column(profiles: Sequence[Profile]) -> Person | None:
    """Return the column that seems to identify persons with several rows each, or None."""
    found = [profile for profile in profiles if _names_persons(profile)]
    if not found:
        return None
    profile = max(found, key=lambda one: len(one.values))
    most, usual = int(profile.counts.max()), int(np.quantile(profile.counts, 0.99))
    return Person(
        column=profile.name,
        rows_each=profile.n_values / len(profile.values),
        max_rows=most if most <= 3 * usual else usual,
    )


def _names_persons(profile: Profile) -> bool:
    if not profile.complete or profile.n_missing or len(profile.values) < _FEW:
        return False
    times = profile.n_values / len(profile.values)
    by_name = _NAMES_PERSONS.search(profile.name) or _NAMES_PERSONS.search(profile.name.lower())
    return bool(by_name) and _TIMES <= times <= _MOST_TIMES
