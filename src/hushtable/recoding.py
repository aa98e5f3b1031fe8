"""Public recodings: how the values of a column are grouped before anything is counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import ParameterError, TaxonomyError
from hushtable.schema import Categorical, Column, Integer, Number, Schema, Value

Rule = int | float | Sequence[int | float] | Mapping[str, str]


@dataclass(frozen=True)
class Recoding(ABC):
    """Map the codes of one column to fewer codes; a missing value stays missing, last.

    Parameters
    ----------
    labels : tuple
        What each new code is called, without the one for missing.
    n_values : int
        Number of old codes, without the one for missing.
    has_missing : bool
        Whether the column has a code for missing.
    """

    labels: tuple[Value, ...]
    n_values: int
    has_missing: bool

    @property
    def size(self) -> int:
        """Number of new codes, the one for missing included."""
        return len(self.labels) + self.has_missing

    @property
    def missing_code(self) -> int | None:
        """The new code that means missing, if there is one."""
        return len(self.labels) if self.has_missing else None

    def apply(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map old codes to new ones."""
        values = self._map(np.minimum(codes, self.n_values - 1))
        if self.has_missing:
            values = np.where(codes == self.n_values, len(self.labels), values)
        return values

    def label(self, code: int) -> Value:
        """Name a new code; missing is None."""
        return None if code == self.missing_code else self.labels[code]

    @abstractmethod
    def _map(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map old value codes to new ones."""

    @property
    @abstractmethod
    def widths(self) -> NDArray[np.int64]:
        """Number of old codes behind each new one, the one for missing included."""


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
        return np.append(counts, 1) if self.has_missing else counts


@dataclass(frozen=True)
class Intervals(Recoding):
    """Cut an ordered column; ``starts[new]`` is the first old code of each interval."""

    starts: tuple[int, ...]

    def _map(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.starts), codes, side="right").astype(np.int64) - 1

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Number of old codes behind each new one."""
        counts = np.diff(np.append(np.asarray(self.starts, np.int64), self.n_values))
        return np.append(counts, 1) if self.has_missing else counts


def recode(name: str, column: Column, rule: Rule) -> Recoding:
    """Turn a rule into a recoding.

    Parameters
    ----------
    name : str
        The column's name, for messages.
    column : Column
        The column as the schema has it.
    rule : int, float, sequence or mapping
        A taxonomy level or a mapping from value to label for a categorical column; a bin width or
        a list of cut points (each the lowest value of an interval) for a numeric one.

    Examples
    --------
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


def _intervals(column: Integer | Number, rule: Rule) -> Intervals:
    low, step = column.exact_low, column.exact_step
    if isinstance(rule, bool | Mapping | str):
        raise ParameterError(f"{rule!r} is neither a bin width nor a list of cut points.")
    if isinstance(rule, int | float):
        width = _grid_steps(rule, step, "bin width")
        if width < 1:
            raise ParameterError(f"bin width {rule} must be at least the step {float(step):g}.")
        starts = tuple(range(0, column.n_values, width))
    else:
        cuts = [_grid_steps(float(cut), step, "cut point", low) for cut in rule]
        if sorted(set(cuts)) != cuts:
            raise ParameterError(f"cut points {list(rule)} must rise.")
        outside = [
            cut for cut, code in zip(rule, cuts, strict=True) if not 0 <= code < column.n_values
        ]
        if outside:
            raise ParameterError(f"cut points {outside} lie outside {column.low} to {column.high}.")
        starts = tuple(cuts) if cuts and cuts[0] == 0 else (0, *cuts)
    ends = (*[start - 1 for start in starts[1:]], column.n_values - 1)
    return Intervals(
        labels=tuple(_interval_label(column, *ends) for ends in zip(starts, ends, strict=True)),
        n_values=column.n_values,
        has_missing=column.missing_code is not None,
        starts=starts,
    )


def _grid_steps(value: float, step: Fraction, what: str, origin: Fraction = Fraction(0)) -> int:
    try:
        steps = (Fraction(str(value)) - origin) / step
    except ValueError:
        raise ParameterError(f"{what} {value} is not a number.") from None
    if steps.denominator != 1:
        raise ParameterError(f"{what} {value} does not lie on the grid of step {float(step):g}.")
    return int(steps)


def _interval_label(column: Integer | Number, first: int, last: int) -> str:
    if first == last:
        return f"{column.value(first)}"
    return f"{column.value(first)} to {column.value(last)}"


def recodings(
    schema: Schema, rules: Mapping[str, Rule], found: Sequence[str] = ()
) -> dict[str, Recoding]:
    """Turn one rule per column into recodings, or tell every problem: those found before, too."""
    problems, done = list(found), {}
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
