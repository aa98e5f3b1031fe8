"""Value labels of Stata and SPSS files, such as 1 for "male", 2 for "female", -9 for "refused".

The labels are in the file's metadata. A schema lists the columns whose values are replaced by their
labels (``reading: {labels: [sex]}``), so that the code of a cell does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hushtable.errors import DataError

Labels = Mapping[float | str, str]
"""The label of each value of a column; numbers in ascending order."""


def labels_of(meta: Any) -> dict[str, Labels]:
    """Return the labels of each column from the metadata that pyreadstat returns.

    Values that the file declares as missing are read as missing, so their labels are omitted, as
    are those of Stata's extended missing values (``.a``).
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
    """Raise an error if the schema asks for labels that the file does not have."""
    without = [name for name in wanted if name not in known]
    if without:
        listed = ", ".join(map(repr, known)) or "none"
        raise DataError(
            f"reading: labels lists {', '.join(map(repr, without))}, but the file has no labels "
            f"for their values; columns with labels: {listed}."
        )


def by_label(values: Sequence[Any], labels: Labels) -> list[str | None]:
    """Return the label of each value, or its text if it has none.

    Examples
    --------
    >>> by_label([1.0, 2.0, 7.0, None], {1: "male", 2: "female"})
    ['male', 'female', '7', None]
    """
    return [None if value is None else labels.get(value) or _text(value) for value in values]


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
