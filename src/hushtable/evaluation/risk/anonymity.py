"""k-anonymity, l-diversity and t-closeness of a table.

Rows that agree in all quasi-identifiers (what an attacker may know) form a group.

- k: number of rows in the smallest group.
- l: smallest number of distinct values of a sensitive column in a group (distinct l-diversity).
- t: largest distance between the distribution of a sensitive column in a group and in the table
  (t-closeness). The distance is the earth mover's distance, with ground distance |i - j| / (m - 1)
  between the i-th and the j-th of the m ordered values that occur, and 0 or 1 between unordered
  values.

Missing is a value like any other; among ordered values it comes last. None of the three measures
limits what an attacker with other knowledge can learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushtable.arrays import Floats, Integers
from hushtable.errors import DataError, ParameterError
from hushtable.evaluation.findings import Plain
from hushtable.privacy.rational import as_rational
from hushtable.schema import Categorical, Schema
from hushtable.schema.recoding import Recoding


@dataclass(frozen=True, kw_only=True)
class Anonymity(Plain):
    """k-anonymity of a table, and l-diversity and t-closeness of each sensitive column."""

    k: int
    l: Mapping[str, int]  # noqa: E741 - the standard name
    t: Mapping[str, float]
    n_groups: int
    n_rows: int
    quasi: tuple[str, ...]
    sensitive: tuple[str, ...]


def measure(
    table: pa.Table,
    *,
    quasi: Sequence[str],
    sensitive: Sequence[str] = (),
    schema: Schema | None = None,
    recode: Mapping[str, Recoding] | None = None,
) -> Anonymity:
    """Measure k-anonymity, and l-diversity and t-closeness of each sensitive column.

    Parameters
    ----------
    table : table
        Any table, one row per person.
    quasi : sequence of str
        Quasi-identifiers: columns that an attacker may know.
    sensitive : sequence of str
        Columns that an attacker wants to learn.
    schema : Schema, optional
        Schema that defines which categories are ordered. Numbers are ordered unless their column
        is categorical.
    recode : mapping of str to Recoding, optional
        Generalization of columns, which defines the order of their labels.

    Examples
    --------
    >>> table = pa.table({"age": ["20-29"] * 3 + ["30-39"] * 2, "pay": [1, 2, 3, 1, 1]})
    >>> found = measure(table, quasi=["age"], sensitive=["pay"])
    >>> found.k, dict(found.l), {name: round(t, 3) for name, t in found.t.items()}
    (2, {'pay': 1}, {'pay': 0.3})
    """
    _require_columns(table, [*quasi, *sensitive])
    if not table.num_rows:
        raise DataError("the table has no rows; pass a table with at least one row.")
    groups = _groups([_codes(table.column(name))[0] for name in quasi], table.num_rows)
    sizes = np.bincount(groups)
    distinct, distance = {}, {}
    for name in sensitive:
        codes, values = _codes(table.column(name))
        order = _order(name, values, schema, recode or {})
        ranks = codes if order is None else order[codes]
        pairs = _Pairs.of(groups, ranks, sizes)
        distinct[name] = int(np.bincount(pairs.group).min())
        distance[name] = pairs.unordered() if order is None else pairs.ordered()
    return Anonymity(
        k=int(sizes.min()),
        n_groups=len(sizes),
        n_rows=table.num_rows,
        l=distinct,
        t=distance,
        quasi=tuple(quasi),
        sensitive=tuple(sensitive),
    )


def _require_columns(table: pa.Table, names: Sequence[str]) -> None:
    problems = [
        f"column {name!r} is not in the table; it has {', '.join(table.column_names)}."
        for name in dict.fromkeys(names)
        if name not in table.column_names
    ]
    ParameterError.raise_if_any(problems)


def _codes(values: pa.ChunkedArray) -> tuple[Integers, list[Any]]:
    """Return a code for each row, and the values by code; missing is None and comes last."""
    column = values.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    if pa.types.is_nested(column.type):
        column = pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string())
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = np.asarray(encoded.indices.fill_null(len(names)), np.int64)
    return codes, [*names, None] if encoded.null_count else names


def _order(
    name: str, values: list[Any], schema: Schema | None, recode: Mapping[str, Recoding]
) -> Integers | None:
    """Return the rank of each value, or None if the values are not ordered."""
    column = None if schema is None else schema.attributes.get(name)
    held = [value for value in values if value is not None]
    places: dict[Any, Any]
    if isinstance(column, Categorical):
        if not column.ordered or name in recode:
            return None
        places = {value: place for place, value in enumerate(column.values)}
    elif name in recode:
        places = {label: place for place, label in enumerate(recode[name].labels)}
    elif all(isinstance(v, int | float | Fraction) and not isinstance(v, bool) for v in held):
        places = {value: value for value in held}
    elif column is not None and (numbers := _numbers(held)) is not None:
        places = dict(zip(held, numbers, strict=True))
    else:
        return None
    if any(value not in places for value in held):
        return None
    ranked = sorted(range(len(held)), key=lambda place: places[held[place]])
    ranks = np.empty(len(values), np.int64)
    ranks[ranked] = np.arange(len(held))
    ranks[len(held) :] = len(held)
    return ranks


def _numbers(texts: Sequence[str]) -> list[float] | None:
    try:
        return [float(text) for text in texts]
    except (TypeError, ValueError):
        return None


def _groups(columns: Sequence[Integers], n_rows: int) -> Integers:
    """Return group numbers; rows that agree in all columns are in the same group."""
    groups = np.zeros(n_rows, np.int64)
    for codes in columns:
        # Renumbering keeps numbers below the number of rows, so that products fit 64 bits.
        keys = groups * (int(codes.max()) + 1) + codes
        groups = np.unique(keys, return_inverse=True)[1].reshape(-1)
    return groups


@dataclass(frozen=True)
class _Pairs:
    """Shares of each sensitive value in each group, sorted by group and value."""

    group: Integers
    value: Integers
    share: Floats  # share of the value among the rows of its group
    overall: Floats  # share of each value in the table

    @classmethod
    def of(cls, groups: Integers, values: Integers, sizes: Integers) -> _Pairs:
        n_values = int(values.max()) + 1
        keys = np.sort(groups * n_values + values)
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        counts = np.diff(np.append(starts, len(keys)))
        group, value = np.divmod(keys[starts], n_values)
        overall = np.bincount(values, minlength=n_values) / len(values)
        return cls(group, value, counts / sizes[group], overall)

    def unordered(self) -> float:
        """Return the largest total variation distance of a group from the table."""
        above = np.maximum(self.share - self.overall[self.value], 0.0)
        return float(np.bincount(self.group, above).max())

    def ordered(self) -> float:
        """Return the largest earth mover's distance of a group from the table.

        It is the area between the two distribution functions, divided by m - 1.
        """
        m = len(self.overall)
        if m < 2:
            return 0.0
        cumulative = np.cumsum(self.overall)
        area = np.append(0.0, np.cumsum(cumulative))  # under the table's function, up to each value
        # A group's distribution function is constant between its values: one piece per pair, and
        # one before the first value of each group, where it is 0.
        first = np.diff(self.group, prepend=-1) != 0
        running = np.cumsum(self.share)
        before = (running - self.share)[first][self.group]
        height = running - before
        stop = np.append(self.value[1:], m - 1)
        stop[np.append(first[1:], True)] = m - 1
        distance = np.bincount(self.group, self._piece(cumulative, area, height, stop))
        distance += area[self.value[first]]
        return float(distance.max() / (m - 1))

    def _piece(self, cumulative: Floats, area: Floats, height: Floats, stop: Integers) -> Floats:
        """Integrate |height - cumulative| from each value up to `stop`."""
        start = self.value
        cross = np.clip(np.searchsorted(cumulative, height, side="left"), start, stop)
        under = height * (cross - start) - (area[cross] - area[start])
        over = (area[stop] - area[cross]) - height * (stop - cross)
        return np.asarray(under + over)


# --- requirements ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """A minimum k or l, or a maximum t."""

    name: Literal["k", "l", "t"]
    limit: Fraction

    def __str__(self) -> str:
        return f"{self.name}={float(self.limit):g}"


@dataclass(frozen=True, kw_only=True)
class RequirementCheck(Plain):
    """Result of checking a requirement, with the measure of the worst group."""

    requirement: Requirement
    column: str | None
    found: float
    holds: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain data."""
        return super().to_dict() | {"requirement": str(self.requirement)}

    def __str__(self) -> str:
        of = f" of {self.column}" if self.column else ""
        worst = {"k": "smallest group: {:,.0f} rows", "l": "fewest values in a group: {:,.0f}"}
        text = worst.get(self.requirement.name, "farthest group: {:.4g}").format(self.found)
        return f"{self.requirement}{of}: {'true' if self.holds else 'false'} ({text})"


def requirements(texts: Sequence[str]) -> list[Requirement]:
    """Parse requirements such as ``k=5``, ``l=3``, ``t=0.2``, alone or separated by commas.

    Examples
    --------
    >>> [str(wanted) for wanted in requirements(["k=5,l=3", "t=0.2"])]
    ['k=5', 'l=3', 't=0.2']
    >>> requirements(["k=0", "m=2"])
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: k is 0; it must be an integer of at least 1.
    'm=2' is not a requirement; write k=5, l=3 or t=0.2, separated by commas.
    """
    problems: list[str] = []
    read: list[Requirement] = []
    for text in (part.strip() for whole in texts for part in whole.split(",")):
        name, _, number = (part.strip() for part in text.partition("="))
        try:
            if name not in ("k", "l", "t"):
                raise ParameterError(
                    f"{text!r} is not a requirement; write k=5, l=3 or t=0.2, separated by commas."
                )
            limit = as_rational(number, name=name)
            if name == "t" and not 0 <= limit <= 1:
                raise ParameterError(f"t is {number}; it must be between 0 and 1.")
            if name != "t" and (limit < 1 or limit.denominator != 1):
                raise ParameterError(f"{name} is {number}; it must be an integer of at least 1.")
            read.append(Requirement(name=name, limit=limit))  # type: ignore[arg-type]  # checked
        except ParameterError as error:
            problems += error.problems
    ParameterError.raise_if_any(problems)
    return read


def check(found: Anonymity, wanted: Sequence[Requirement]) -> list[RequirementCheck]:
    """Check whether a table meets each requirement.

    Examples
    --------
    >>> table = pa.table({"zip": ["a", "a", "b"], "ill": ["flu", "cold", "flu"]})
    >>> found = measure(table, quasi=["zip"], sensitive=["ill"])
    >>> for verdict in check(found, requirements(["k=2,l=1"])):
    ...     print(verdict)
    k=2: false (smallest group: 1 rows)
    l=1 of ill: true (fewest values in a group: 1)
    """
    if any(asked.name != "k" for asked in wanted) and not found.sensitive:
        raise ParameterError("l and t need a sensitive column; name it with --sensitive.")
    verdicts = []
    for asked in wanted:
        values: dict[str | None, float] = {None: found.k}
        if asked.name != "k":
            by_column: Mapping[str, float] = found.l if asked.name == "l" else found.t
            values = dict(by_column.items())
        for column, value in values.items():
            # Sums of rounded shares have rounding errors.
            holds = value <= asked.limit + 1e-12 if asked.name == "t" else value >= asked.limit
            verdicts.append(
                RequirementCheck(requirement=asked, column=column, found=value, holds=bool(holds))
            )
    return verdicts
