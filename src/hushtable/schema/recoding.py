"""Public recodings: grouping of a column's values before anything is counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hushtable.arrays import Integers
from hushtable.domain import Domain
from hushtable.errors import ParameterError, TaxonomyError, unpublished
from hushtable.schema import CalendarColumn, Categorical, Column, GridColumn, Schema, Value
from hushtable.schema.numeric import starts_of

Rule = int | float | str | Sequence[int | float | str] | Mapping[str, str]


@dataclass(frozen=True)
class Recoding(ABC):
    """Map from a column's codes to fewer codes.

    Special values and missing are never grouped; their codes follow those of the groups.
    """

    labels: Sequence[Value]  # names of the new codes, without special values and missing
    n_values: int  # number of old codes, without special values and missing
    has_missing: bool  # whether the column has a code for missing
    special: tuple[str, ...] = field(default=(), kw_only=True)  # names of special values

    @cached_property
    def n_special(self) -> int:
        """Number of codes for special values and missing, which recoding does not change."""
        return len(self.special) + self.has_missing

    @cached_property
    def size(self) -> int:
        """Number of new codes, special values and missing included."""
        return len(self.labels) + self.n_special

    @cached_property
    def missing_code(self) -> int | None:
        """New code of missing, or None if the column has none."""
        return self.size - 1 if self.has_missing else None

    def apply(self, codes: Integers) -> Integers:
        """Map old codes to new ones."""
        values = self._map(np.minimum(codes, self.n_values - 1))
        if self.n_special:
            moved = codes - self.n_values + len(self.labels)
            values = np.where(codes >= self.n_values, moved, values)
        return values

    @property
    def of_all(self) -> Integers:
        """New code of each old one, special values and missing included."""
        return self.apply(np.arange(self.n_values + self.n_special))

    def label(self, code: int) -> Value:
        """Return the name of a new code; missing is None."""
        return (*self.labels, *self.special, None)[code]

    @cached_property
    def names(self) -> tuple[Value, ...]:
        """Names of the new codes, without missing."""
        return (*self.labels, *self.special)

    @abstractmethod
    def _map(self, codes: Integers) -> Integers:
        """Map old codes of values to new ones."""

    @property
    @abstractmethod
    def widths(self) -> Integers:
        """Number of old codes per new one, special values and missing included."""


@dataclass(frozen=True)
class ValueGroups(Recoding):
    """Groups of listed values; ``groups[old]`` is the new code."""

    groups: tuple[int, ...]

    def _map(self, codes: Integers) -> Integers:
        return np.asarray(self.groups, np.int64)[codes]

    @cached_property
    def widths(self) -> Integers:
        """Number of old codes per new one."""
        counts = np.bincount(self.groups, minlength=len(self.labels)).astype(np.int64)
        return np.append(counts, np.ones(self.n_special, np.int64))


@dataclass(frozen=True)
class Intervals(Recoding):
    """Intervals of an ordered column; ``starts[new]`` is the first old code of each."""

    starts: Sequence[int]

    def _map(self, codes: Integers) -> Integers:
        return np.searchsorted(np.asarray(self.starts), codes, side="right").astype(np.int64) - 1

    @property
    def of_all(self) -> Integers:
        """New code of each old one, special values and missing included."""
        return np.repeat(np.arange(self.size), self.widths)

    @cached_property
    def widths(self) -> Integers:
        """Number of old codes per new one."""
        counts = np.diff(np.append(np.asarray(self.starts, np.int64), self.n_values))
        return np.append(counts, np.ones(self.n_special, np.int64))


def recode(name: str, column: Column, rule: Rule) -> Recoding:
    """Return the recoding that a rule defines.

    Parameters
    ----------
    name : str
        The column's name, for messages.
    column : Column
        The column in the schema.
    rule : int, float, str, sequence or mapping
        For a categorical column: a taxonomy level, or a mapping from value to label. For a numeric
        column: a bin width, a list of cut points (each the lowest value of an interval) or ``log``.
        For dates and times: a coarser step such as ``month``, a number of steps, or cut points.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> age = Integer(type="integer", low=0, high=99)
    >>> recode("age", age, [18, 65]).labels
    ('0 to 17', '18 to 64', '65 to 99')
    >>> recode("age", age, 25).apply(np.array([0, 24, 25, 99])).tolist()
    [0, 0, 1, 3]
    """
    try:
        if isinstance(column, Categorical):
            return _groups(column, rule)
        return _intervals(column, rule)
    except (ParameterError, TaxonomyError) as error:
        raise ParameterError(
            [f"column {name!r}: {problem}" for problem in error.problems]
        ) from None


def _groups(column: Categorical, rule: Rule) -> ValueGroups:
    if isinstance(rule, Mapping):
        lacking = [value for value in column.values if value not in rule]
        unknown = [str(value) for value in rule if value not in column.values]
        if lacking or unknown:
            raise ParameterError(
                [f"the mapping does not contain {', '.join(lacking)}."] * bool(lacking)
                + [f"the mapping contains unknown values {', '.join(unknown)}."] * bool(unknown)
            )
        mapping: Mapping[str, str] = rule
    elif isinstance(rule, int) and not isinstance(rule, bool):
        if column.taxonomy is None:
            raise ParameterError(
                f"level {rule} needs a taxonomy, and the schema has none; add one or use a "
                "mapping from value to label."
            )
        mapping = column.taxonomy.level(rule)
    else:
        raise ParameterError(
            f"{rule!r} does not generalize a categorical column; use a taxonomy level or a "
            "mapping from value to label."
        )
    labels = tuple(dict.fromkeys(str(mapping[value]) for value in column.values))
    position = {label: code for code, label in enumerate(labels)}
    return ValueGroups(
        labels=labels,
        n_values=column.n_values,
        has_missing=column.missing_code is not None,
        groups=tuple(position[str(mapping[value])] for value in column.values),
    )


def _intervals(column: GridColumn, rule: Rule) -> Intervals:
    if isinstance(column, CalendarColumn) and isinstance(rule, str):
        starts = column.group_starts(rule)
        labels = tuple(column.group_name(start, rule) for start in starts)
        return _cut(column, starts, labels)
    return intervals_at(column, starts_of(column, rule))


def intervals_at(column: GridColumn, starts: tuple[int, ...]) -> Intervals:
    """Return the recoding to intervals that start at the given codes."""
    ends = (*[start - 1 for start in starts[1:]], column.n_values - 1)
    labels = tuple(_interval_label(column, *ends) for ends in zip(starts, ends, strict=True))
    return _cut(column, starts, labels)


def _cut(column: GridColumn, starts: tuple[int, ...], labels: tuple[str, ...]) -> Intervals:
    return Intervals(
        labels=labels,
        n_values=column.n_values,
        has_missing=column.missing_code is not None,
        starts=starts,
        special=column.special_names,
    )


def bins_of(column: Column) -> Intervals | None:
    """Return the public bins in which a column is counted, or None if the schema declares none.

    Examples
    --------
    >>> from hushtable.schema import Date
    >>> stay = Date(type="date", low="2024-01-01", high="2024-12-31", bins="quarter")
    >>> bins = bins_of(stay)
    >>> bins.labels
    ('2024-Q1', '2024-Q2', '2024-Q3', '2024-Q4')
    """
    if isinstance(column, Categorical) or column.bin_starts is None:
        return None
    if isinstance(column, CalendarColumn) and isinstance(column.bins, str):
        return _intervals(column, column.bins)
    return intervals_at(column, column.bin_starts)


def _interval_label(column: GridColumn, first: int, last: int) -> str:
    if first == last:
        return f"{column.value(first)}"
    return f"{column.value(first)} to {column.value(last)}"


def recodings(
    schema: Schema, rules: Mapping[str, Rule], found: Sequence[str] = ()
) -> dict[str, Recoding]:
    """Return a recoding for each rule; the error lists all problems, including those in `found`.

    A column without a rule is counted in its public bins if the schema declares any.
    """
    problems = [*found, *unpublished(rules, schema.attributes)]
    done: dict[str, Recoding] = {
        name: bins for name, column in schema.attributes.items() if (bins := bins_of(column))
    }
    for name, rule in rules.items():
        if name not in schema.attributes:
            continue
        try:
            done[name] = recode(name, schema.attributes[name], rule)
        except ParameterError as error:
            problems += error.problems
    ParameterError.raise_if_any(problems)
    return done


def recoded_domain(
    schema: Schema, columns: Sequence[str], recode: Mapping[str, Recoding] | None = None
) -> Domain:
    """Return the domain of some columns after recoding."""
    recode = recode or {}
    return Domain(
        {
            name: recode[name].size if name in recode else schema.attributes[name].size
            for name in columns
        }
    )
