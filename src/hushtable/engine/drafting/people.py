"""Whose rows they are: a column that names persons, and how many rows each of them has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.engine.drafting.profile import Profile

_NAMES_PERSONS = re.compile(
    r"(^|[_ .-])(id|pid|uid|person|patient|subject|participant|respondent|customer|client|user"
    r"|member|student|household|hh|case|ssn|dupersid|persnr|nr)([_ .-]?(id|no|nr|num|number|key))?"
    r"($|[_ .-])|[a-z](ID|Id)$",
)
_FEW = 20  # fewer persons than that are not many
_TIMES = 1.05  # rows of a person, on average, from which on they are several
_MOST_TIMES = 1000


@dataclass(frozen=True)
class Person:
    """Name the column that tells persons apart, and how many rows they have.

    Parameters
    ----------
    column : str
        The column.
    rows_each : float
        Rows of a person, on average.
    max_rows : int
        How many of them to use: all, unless very few persons have very many.
    """

    column: str
    rows_each: float
    max_rows: int

    @property
    def question(self) -> str:
        """What the custodian has to answer."""
        return (
            f"{self.column!r} repeats {self.rows_each:.2g} times: is this a person? Then a person "
            "has several rows, and the promise must be about all of them (unit). If not, say unit "
            "row."
        )


def whose_rows(profiles: Sequence[Profile]) -> Person | None:
    """Find the column that seems to name persons who have several rows each."""
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
