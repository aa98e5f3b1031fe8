"""Who answers for a spending, why it may be so much, and when to look at it again."""

from __future__ import annotations

from datetime import date

from pydantic import field_validator

from hushtable.errors import ParameterError
from hushtable.privacy.values import Value

MAX_TEXT = 1000


class Decision(Value):
    """Put on record who decided on a budget or a release, why, and until when it is to hold.

    All parts may be left out; what is left out is not stated. It goes into the ledger, where only
    its owner reads it, and into a release only if asked for.

    Parameters
    ----------
    responsible : str
        Who answers for it: a person, a role or a board.
    reason : str
        Why it may be so much.
    review_by : str
        The day by which it is to be looked at again, such as ``"2027-06-30"``.

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
                f"responsible and reason must have at most {MAX_TEXT} characters; {len(text)} were "
                "given."
            )
        return text.strip()

    @field_validator("review_by")
    @classmethod
    def _day(cls, text: str) -> str:
        try:
            return date.fromisoformat(text).isoformat() if text else ""
        except ValueError:
            raise ParameterError(
                f"review_by is {text!r}; write a day as YEAR-MONTH-DAY, such as 2027-06-30."
            ) from None

    @property
    def is_stated(self) -> bool:
        """Whether anything was said."""
        return bool(self.responsible or self.reason or self.review_by)

    def to_dict(self) -> dict[str, str]:
        """Return what was said, ready for JSON."""
        return {name: text for name, text in self.model_dump().items() if text}

    def is_overdue(self, today: date) -> bool:
        """Tell whether the day by which to look at it again is past."""
        return bool(self.review_by) and date.fromisoformat(self.review_by) < today


UNSTATED = Decision()
