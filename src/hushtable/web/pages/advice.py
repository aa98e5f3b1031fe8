"""Recommendation of a method from five questions, without data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushtable.schema import Categorical, Schema

QUESTIONS: dict[str, tuple[str, ...]] = {
    "use": ("rows", "counts", "predict", "numbers"),
    "who": ("public", "partners", "inside"),
    "rows": (),
    "one_row": ("yes", "no"),
    "formal": ("yes", "no"),
}
"""Questions and possible answers; their texts are in `hushtable.web.words`."""

_EPSILON = {"public": "1", "partners": "2", "inside": "3"}
_FEW_CELLS = 500  # limit for counting all cells directly
_SMALL = 2_000  # rows


@dataclass(frozen=True)
class Advice:
    """A recommended method."""

    method: str
    parameters: Mapping[str, Any]  # as plain data
    reasons: tuple[str, ...]  # keys of `hushtable.web.words.REASONS`
    others: tuple[str, ...]  # alternatives, best first


def advise(answers: Mapping[str, str], schema: Schema) -> Advice:
    """Recommend a method for the given answers.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> answers = {"use": "rows", "who": "public", "rows": "12000", "formal": "yes"}
    >>> advise(answers, sample_schema()).method
    'quilt'
    """
    use, who = answers.get("use", "rows"), answers.get("who", "public")
    rows = rows_of(answers.get("rows", ""))
    budget = {"epsilon": _EPSILON.get(who, "1"), "delta": _delta(rows)}
    reasons = [f"who_{who}"]
    others: tuple[str, ...] = ("noisy-counts", "partition")
    method, parameters = "quilt", dict[str, Any](budget)
    listed = [name for name, c in schema.attributes.items() if isinstance(c, Categorical)]
    has_numbers = len(listed) < len(schema.attributes)
    if use == "numbers" and answers.get("formal") == "no" and has_numbers:
        method, parameters = "uncertain", {"k": "10"}
        if listed:  # categorical columns cannot be perturbed, and are published unchanged
            parameters["carry"] = listed
        reasons = ["uncertain_for_numbers", "no_formal_promise"]
        others = ("quilt",)
    elif use == "counts" and schema.domain.size <= _FEW_CELLS:
        method = "noisy-counts"
        parameters = {**budget, "k": "10"}
        reasons.insert(0, "few_cells")
        others = ("quilt", "partition")
    elif use == "predict" and schema.target is not None:
        parameters["target"] = schema.target
        reasons.insert(0, "predict_target")
        others = ("diffgen", "noisy-counts")
    elif use == "predict":
        reasons[:0] = ["no_target", "rows_and_counts"]
        others = ("diffgen", "noisy-counts")
    elif use == "counts":
        reasons.insert(0, "many_cells")
    else:
        reasons.insert(0, "rows_and_counts")
    if answers.get("formal") == "no" and method != "uncertain":
        reasons.append("formal_anyway")
    if answers.get("one_row") == "no" and schema.unit.kind == "row":
        reasons.append("several_rows")
    if rows is not None and rows < _SMALL:
        reasons.append("small_table")
    return Advice(method, parameters, tuple(reasons), others)


def rows_of(text: str) -> int | None:
    """Parse a number of rows as people write it; None if it is not a number.

    Examples
    --------
    >>> rows_of("12,000"), rows_of("12 000"), rows_of("many")
    (12000, 12000, None)
    """
    digits = re.sub(r"[\s,_']", "", text)
    return int(digits) if digits.isdecimal() and len(digits) <= 15 else None


def _delta(rows: int | None) -> str:
    """Return a delta of at most 0.000001 and at most 1 / (100 * rows).

    Examples
    --------
    >>> _delta(None), _delta(12_000), _delta(10**9)
    ('0.000001', '0.0000001', '0.00000000001')
    """
    zeros = 5  # between the decimal point and the 1
    while rows is not None and rows > 10 ** (zeros - 1):
        zeros += 1
    return f"0.{'0' * zeros}1"
