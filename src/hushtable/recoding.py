"""Public recodings: how the values of a column are grouped before anything is counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import ParameterError, TaxonomyError
from hushtable.schema import Categorical, Column, OnCalendar, OnGrid, Schema, Value
from hushtable.schema.bins import starts_of

Rule = int | float | str | Sequence[int | float | str] | Mapping[str, str]


@dataclass(frozen=True)
class Recoding(ABC):
    """Map the codes of one column to fewer codes; special values and missing stay, last.

    Parameters
    ----------
    labels : sequence
        What each new code is called, without those that are apart.
    n_values : int
        Number of old codes, without those that are apart.
    has_missing : bool
        Whether the column has a code for missing.
    special : tuple of str
        The names of the column's special values, which have codes of their own.
    """

    labels: Sequence[Value]
    n_values: int
    has_missing: bool
    special: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def n_apart(self) -> int:
        """Number of codes that are apart, before and after."""
        return len(self.special) + self.has_missing

    @property
    def size(self) -> int:
        """Number of new codes, those apart included."""
        return len(self.labels) + self.n_apart

    @property
    def missing_code(self) -> int | None:
        """The new code that means missing, if there is one."""
        return self.size - 1 if self.has_missing else None

    def apply(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map old codes to new ones."""
        values = self._map(np.minimum(codes, self.n_values - 1))
        if self.n_apart:
            moved = codes - self.n_values + len(self.labels)
            values = np.where(codes >= self.n_values, moved, values)
        return values

    @property
    def of_all(self) -> NDArray[np.int64]:
        """The new code of each old one, those apart included."""
        return self.apply(np.arange(self.n_values + self.n_apart))

    def label(self, code: int) -> Value:
        """Name a new code; missing is None."""
        return (*self.labels, *self.special, None)[code]

    @cached_property
    def names(self) -> tuple[Value, ...]:
        """What the new codes are called, that of missing apart."""
        return (*self.labels, *self.special)

    @abstractmethod
    def _map(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map old value codes to new ones."""

    @property
    @abstractmethod
    def widths(self) -> NDArray[np.int64]:
        """Number of old codes behind each new one, those apart included."""


@dataclass(frozen=True)
class ValueGroups(Recoding):
    """Group the values of a list; ``groups[old]`` is the new code."""

    groups: tuple[int, ...]

    def _map(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(self.groups, np.int64)[codes]

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Number of old codes behind each new one."""
        counts = np.bincount(self.groups, minlength=len(self.labels)).astype(np.int64)
        return np.append(counts, np.ones(self.n_apart, np.int64))


@dataclass(frozen=True)
class Intervals(Recoding):
    """Cut an ordered column; ``starts[new]`` is the first old code of each interval."""

    starts: Sequence[int]

    def _map(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.starts), codes, side="right").astype(np.int64) - 1

    @property
    def of_all(self) -> NDArray[np.int64]:
        """The new code of each old one, those apart included."""
        return np.repeat(np.arange(self.size), self.widths)

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Number of old codes behind each new one."""
        counts = np.diff(np.append(np.asarray(self.starts, np.int64), self.n_values))
        return np.append(counts, np.ones(self.n_apart, np.int64))


def recode(name: str, column: Column, rule: Rule) -> Recoding:
    """Turn a rule into a recoding.

    Parameters
    ----------
    name : str
        The column's name, for messages.
    column : Column
        The column as the schema has it.
    rule : int, float, sequence or mapping
        A taxonomy level or a mapping from value to label for a categorical column; a bin width, a
        list of cut points (each the lowest value of an interval) or ``log`` for a numeric one; a
        coarser step such as ``month``, a number of steps or cut points for moments.

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
                [f"the mapping lacks {', '.join(lacking)}."] * bool(lacking)
                + [f"the mapping has unknown values {', '.join(unknown)}."] * bool(unknown)
            )
        mapping: Mapping[str, str] = rule
    elif isinstance(rule, int) and not isinstance(rule, bool):
        if column.taxonomy is None:
            raise ParameterError(
                f"level {rule} needs a taxonomy, and the schema gives none; add one or give a "
                "mapping from value to label."
            )
        mapping = column.taxonomy.level(rule)
    else:
        raise ParameterError(
            f"{rule!r} does not generalize a categorical column; give a taxonomy level or a "
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


def _intervals(column: OnGrid, rule: Rule) -> Intervals:
    if isinstance(column, OnCalendar) and isinstance(rule, str):
        starts = column.group_starts(rule)
        labels = tuple(column.group_name(start, rule) for start in starts)
        return _cut(column, starts, labels)
    return intervals_at(column, starts_of(column, rule))


def intervals_at(column: OnGrid, starts: tuple[int, ...]) -> Intervals:
    """Cut a column before some codes."""
    ends = (*[start - 1 for start in starts[1:]], column.n_values - 1)
    labels = tuple(_interval_label(column, *ends) for ends in zip(starts, ends, strict=True))
    return _cut(column, starts, labels)


def _cut(column: OnGrid, starts: tuple[int, ...], labels: tuple[str, ...]) -> Intervals:
    return Intervals(
        labels=labels,
        n_values=column.n_values,
        has_missing=column.missing_code is not None,
        starts=starts,
        special=column.special_names,
    )


def bins_of(column: Column) -> Intervals | None:
    """Give the public bins in which a column is counted, if its schema declares any.

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
    if isinstance(column, OnCalendar) and isinstance(column.bins, str):
        return _intervals(column, column.bins)
    return intervals_at(column, column.bin_starts)


def _interval_label(column: OnGrid, first: int, last: int) -> str:
    if first == last:
        return f"{column.value(first)}"
    return f"{column.value(first)} to {column.value(last)}"


def recodings(
    schema: Schema, rules: Mapping[str, Rule], found: Sequence[str] = ()
) -> dict[str, Recoding]:
    """Turn one rule per column into recodings, or tell every problem: those found before, too.

    A column without a rule is counted in its public bins, where the schema declares any.
    """
    problems = list(found)
    done: dict[str, Recoding] = {
        name: bins for name, column in schema.attributes.items() if (bins := bins_of(column))
    }
    for name, rule in rules.items():
        if name not in schema.attributes:
            problems.append(
                f"column {name!r} is not a published column; the schema has "
                f"{', '.join(schema.attributes)}."
            )
            continue
        try:
            done[name] = recode(name, schema.attributes[name], rule)
        except ParameterError as error:
            problems += error.problems
    if problems:
        raise ParameterError(problems)
    return done


def recoded_domain(
    schema: Schema, columns: Sequence[str], recode: Mapping[str, Recoding] | None = None
) -> Domain:
    """Give the domain of some columns after recoding."""
    recode = recode or {}
    return Domain(
        {
            name: recode[name].size if name in recode else schema.attributes[name].size
            for name in columns
        }
    )
