"""Decisions on privacy spending: who is responsible, why, and when to review it."""

from __future__ import annotations

from datetime import date

from pydantic import field_validator

from hushtable.errors import ParameterError
from hushtable.privacy.values import FrozenValue

MAX_TEXT = 1000


class Decision(FrozenValue):
    """Decision on a budget or a release: the responsible person, the reason, the review date.

    All parts are optional. The decision is recorded in the ledger, which only its owner reads, and
    in a release only on request.

    Parameters
    ----------
    responsible : str
        Who is responsible: a person, a role or a board.
    reason : str
        Justification of the amount.
    review_by : str
        Date by which to review the decision, such as ``"2027-06-30"``.

    Examples
    --------
    >>> Decision(responsible="data board", review_by="2027-06-30").to_dict()
    {'responsible': 'data board', 'review_by': '2027-06-30'}
    """

    responsible: str = ""
    reason: str = ""
    review_by: str = ""

    @field_validator("responsible", "reason")
    @classmethod
    def _short(cls, text: str) -> str:
        if len(text) > MAX_TEXT:
            raise ParameterError(
                f"responsible and reason must have at most {MAX_TEXT} characters; the given text "
                f"has {len(text)}."
            )
        return text.strip()

    @field_validator("review_by")
    @classmethod
    def _day(cls, text: str) -> str:
        try:
            return date.fromisoformat(text).isoformat() if text else ""
        except ValueError:
            raise ParameterError(
                f"review_by is {text!r}; write a date as YEAR-MONTH-DAY, such as 2027-06-30."
            ) from None

    @property
    def is_stated(self) -> bool:
        """True if any part is given."""
        return bool(self.responsible or self.reason or self.review_by)

    def to_dict(self) -> dict[str, str]:
        """Return the given parts, ready for JSON."""
        return {name: text for name, text in self.model_dump().items() if text}

    def is_overdue(self, today: date) -> bool:
        """Return whether the review date has passed."""
        return bool(self.review_by) and date.fromisoformat(self.review_by) < today


UNSTATED = Decision()
