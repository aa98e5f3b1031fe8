"""Labels of values in files of Stata and SPSS: 1 is "male", 2 is "female", -9 is "refused".

They stand in the file's head. A schema says of which columns they are read instead of the values
(``reading: {labels: [sex]}``), so that what a cell counts as does not hang on the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hushtable.errors import DataError

Labels = Mapping[float | str, str]
"""The label of each value of a column; numbers in rising order."""


def labels_of(meta: Any) -> dict[str, Labels]:
    """Take the labels of each column from what pyreadstat says of a file.

    Values that the file declares as missing are read as missing, so their labels are left out, as
    are those of Stata's missing values (``.a``), which are no numbers.
    """
    texts = {name for name, kind in meta.readstat_variable_types.items() if kind == "string"}
    found: dict[str, Labels] = {}
    for name, labels in meta.variable_value_labels.items():
        ranges = meta.missing_ranges.get(name, [])
        kept = {
            value: str(label).strip()
            for value, label in labels.items()
            if isinstance(value, str) == (name in texts)
            and not any(part["lo"] <= value <= part["hi"] for part in ranges)
        }
        if kept:
            found[name] = dict(sorted(kept.items()))
    return found


def require_labels(wanted: Sequence[str], known: Mapping[str, Labels]) -> None:
    """Refuse to read columns by labels that the file does not have."""
    without = [name for name in wanted if name not in known]
    if without:
        listed = ", ".join(map(repr, known)) or "none"
        raise DataError(
            f"reading: labels names {', '.join(map(repr, without))}, whose values have no labels "
            f"in the file; columns with labels: {listed}."
        )


def by_label(values: Sequence[Any], labels: Labels) -> list[str | None]:
    """Give the label of each value; of one without, its text.

    Examples
    --------
    >>> by_label([1.0, 2.0, 7.0, None], {1: "male", 2: "female"})
    ['male', 'female', '7', None]
    """
    return [None if value is None else labels.get(value) or _text(value) for value in values]


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
