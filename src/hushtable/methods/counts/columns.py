"""Method columns: noisy counts of groups of attributes, for sparse records.

Nearly every record with many attributes is unique, so counts of whole records would all be
suppressed. This method puts the attributes into groups, the columns, and publishes each column
separately: the tuples of values that records have in it, with noisy counts and without rare tuples,
as in `NoisyCounts`.

A plan (`ColumnsPlan`) depends on parameters and schema only. A run has three steps. It chooses the
columns, if they are not public, from noisy counts of pairs of attributes (`column_choice`). The
engine counts the tuples of all columns at once. The run adds noise and writes the table
(`column_table`).

The influence of one record must not grow with the number of columns:

- A record without a value in a column is not counted there. Otherwise one record would change a
  count in every column (erratum li-2009-2).
- A record with values in more than `max_columns` columns is counted in a random subset of them. The
    limit is public, not the maximum in the data, and copies of a column count as columns too
    (li-2009-3).
- Choosing columns from the data costs budget, or the columns are public (li-2009-1).

The budget is divided top down. Each record of a unit gets an equal part of the unit's epsilon and
delta. This part first pays for the number of records, the distribution of values per person, and
the choice of columns. The rest is divided among the columns of one record, by the composition
theorem under which most tuples are published.

Guarantee, algorithm and proofs: ``columns.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import sqrt
from typing import Any, ClassVar, Literal

from hushtable.engine.baskets import ItemColumns, most_listed
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError, Refused, TooLarge, unpublished
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released, schema_problems
from hushtable.methods.count_error import left_out_line, mechanism_error
from hushtable.methods.counts.cell_table import QUANTILES, TYPICAL_ROWS, commonest, describe_noise
from hushtable.methods.counts.column_choice import (
    PairMechanism,
    attribute_distances,
    cluster,
    item_groups,
    most_compared,
)
from hushtable.methods.counts.column_table import (
    COLUMN,
    COUNT,
    READING_LONG,
    READING_WIDE,
    TUPLE,
    class_of_sizes,
    size_ends,
    write_tuples,
)
from hushtable.methods.parameters import MAX_K, parameter, said, whole
from hushtable.privacy.accounting.run_account import SpendingLimit
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.composition import delta_per_row, shares_of
from hushtable.privacy.guarantee import ApproxDP, Guarantee, Threshold
from hushtable.privacy.mechanisms.cells import TupleCounts
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.single_counts import CountMechanism, make_count_mechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Schema
from hushtable.schema.recoding import Recoding, Rule, recoded_domain, recodings

# Plan and run of method columns. The parameters are the fields of `Columns`, below.


@dataclass(frozen=True, kw_only=True)
class ColumnsPlan(Plan[SealedTable]):
    """Plan of method columns: how the columns are chosen, counted and noised.

    One record has values in up to `n_reached` columns and is counted in up to `n_touched`. One unit
    of privacy has `n_units` records. `groups` are the columns as positions of attributes; None if
    they are chosen from the data.
    """

    method: Columns
    schema: Schema
    recode: Mapping[str, Recoding]
    item_columns: ItemColumns | None
    attribute_names: Sequence[str]
    groups: list[list[int]] | None
    n_columns: int
    max_values: int
    n_reached: int
    n_touched: int
    n_units: int
    columns_epsilon: Fraction
    count_epsilon: Fraction
    size_epsilon: Fraction
    pair_noise: PairMechanism | None
    mechanism: CountMechanism

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed unit, and the threshold."""
        method, unit = self.method, self.schema.unit
        return (
            ApproxDP(epsilon=method.epsilon, delta=method.delta, unit=unit, neighbors="add-remove"),
            Threshold(k=method.k),
        )

    # --- forecast ---------------------------------------------------------------------------------

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast which counts will be published, and their noise."""
        rows = self.schema.expected_rows(rows)
        rows_held = TYPICAL_ROWS if rows is None else rows
        if self.item_columns or self.method.clusters:
            width = 1 if self.item_columns else len(self.schema.attributes)
            values = rows_held * max(1, len(self.method.clusters)) * width
        else:  # distinct tuples of each group of columns
            values = sum(
                len(names) * min(rows_held, recoded_domain(self.schema, names, self.recode).size)
                for names in map(list, self.method.columns)
            )
        return Forecast(
            lines=self._lines(rows),
            split=self._split(),
            n_cells=self._n_elements,
            memory_mb=(values * 64 + self.n_pair_counts * 32) / 1e6 + 1,
        )

    def _lines(self, rows: int | None) -> dict[str, str | float | int]:
        mechanism = self.mechanism
        half = mechanism.release_count(0.5)
        lines: dict[str, str | float | int] = {
            "columns": self.n_columns,
            "columns in which one record is counted, at most": self.n_touched,
        }
        for chance in QUANTILES:
            name = f"records from which a tuple is published with probability {chance:g}"
            lines[name] = mechanism.release_count(chance)
        lines["standard deviation of a published count"] = mechanism.std
        lines["epsilon for one column"] = float(mechanism.epsilon)
        if self.pair_noise is not None:
            kind = "Gaussian" if self.pair_noise.is_gaussian else "Laplace"
            lines["noise on the counts for choosing columns"] = kind
            lines["standard deviation of that noise"] = self.pair_noise.std
        if rows is not None and rows < half * self.n_touched:
            lines["warning"] = said("few rows for a tuple", rows=rows, half=half)
        if rows and not self.item_columns and self.method.columns:
            most = max(
                recoded_domain(self.schema, list(names), self.recode).size
                for names in self.method.columns
            )
            lines |= left_out_line((half - 1) * most / rows)
        return lines

    def _split(self) -> dict[str, Fraction]:
        """Return the epsilon of each step, for all records of a unit together."""
        split = {"tuples of the columns": self.columns_epsilon * self.n_units}
        if self.pair_noise is not None:
            split["choice of the columns"] = self.pair_noise.epsilon * self.n_units
        if self.count_epsilon:
            split["number of records"] = self.count_epsilon * self.n_units
        if self.size_epsilon:
            split["how many values people have"] = self.size_epsilon
        return split

    @property
    def _n_elements(self) -> int:
        """Total number of values of all attributes."""
        if self.item_columns is None:
            return sum(recoded_domain(self.schema, self.attribute_names, self.recode).shape)
        of_one = recoded_domain(self.schema, [self.item_columns.value], self.recode).size
        return len(self.attribute_names) * of_one

    @cached_property
    def n_pair_counts(self) -> int:
        """Number of noisy counts that a choice of columns needs."""
        if not self.method.clusters:
            return 0
        if self.item_columns is not None:
            return most_compared(len(self.attribute_names), self.method.clusters) ** 2
        sizes = recoded_domain(self.schema, self.attribute_names, self.recode).shape
        return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2

    @property
    def follows_paper(self) -> bool:
        """See `Plan`."""
        return self.method.mechanism == "paper"

    def uninformative(self, rows: int) -> str:
        """Return the reason if no tuple is expected to be published, or an empty text."""
        needed = self.mechanism.release_count(0.5)
        columns = self.groups or ((item,) for item in range(len(self.attribute_names)))
        likely = (
            rows
            if self.item_columns is not None
            else max(
                commonest(
                    rows, recoded_domain(self.schema, self._names_of(column), self.recode).shape
                )
                for column in columns
            )
        )
        if likely >= needed:
            return ""
        return said("empty columns", rows=rows, needed=needed)

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, from the noise of the column with most tuples."""
        if self.groups is None:
            raise Refused(said["chosen columns"])
        if self.item_columns is not None or self.n_touched < self.n_reached:
            raise Refused(said["left out values"])
        sizes = [
            recoded_domain(self.schema, self._names_of(group), self.recode).size
            for group in self.groups
        ]
        return mechanism_error(
            self.mechanism,
            rows=self.schema.expected_rows(rows),
            n_cells=max(sizes),
            share=share,
            assumes=said["one column asked"],
        )

    def _names_of(self, group: Sequence[int]) -> list[str]:
        return [self.attribute_names[place] for place in group]

    # --- the run ----------------------------------------------------------------------------------

    @cached_property
    def promise(self) -> SpendingLimit | None:
        """Budget of one record, such that all records of a unit together keep the promise."""
        promised = SpendingLimit.among(self.guarantees)
        if promised is None or self.pair_noise is None or not self.pair_noise.is_gaussian:
            return None if promised is None else promised.for_each_of(self.n_units)
        aside = self.pair_noise.epsilon, self.pair_noise.delta
        return replace(promised.for_each_of(self.n_units), aside=aside)

    @property
    def spends_all(self) -> bool:
        """False: noise is rounded up, and Laplace noise leaves its delta unspent."""
        return False

    @property
    def counts(self) -> TupleCounts:
        """Mechanism that publishes the tuples of all columns."""
        spared = (self.n_touched - self.columns_epsilon / self.mechanism.epsilon) / 2
        return TupleCounts(self.mechanism, int(spared))

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Choose the columns if they are not public, count their tuples once, and add noise."""
        groups = self.choose(source, noise) if self.groups is None else self.groups
        tuples = source.tuples(
            groups,
            max_groups=self.method.max_columns,
            at_least=self.method.k,  # rarer tuples are never published
            item_columns=self.item_columns,
            max_values=self.method.max_values,
            recode=self.recode,
        )
        shown, noisy = noise.open(tuples, self.counts, "tuples of the columns")
        table = write_tuples(self.schema, self.recode, self.item_columns, shown, noisy)
        return Released(
            tables={"data": table},
            settings={
                "columns": [self._names_of(sorted(group)) for group in groups],
                "n_records": self._noisy_total(tuples.n_records, noise),
                "sizes": self._noisy_sizes(source, noise),
                **describe_noise(self.mechanism, per="tuple"),
                "notes": [READING_LONG if self.item_columns else READING_WIDE],
            },
        )

    def choose(self, source: SealedTable, noise: Noise) -> list[list[int]]:
        """Choose the columns from noisy counts of pairs."""
        method, recode, pair_noise = self.method, self.recode, self.pair_noise
        assert pair_noise is not None  # noqa: S101 - there are clusters
        if self.item_columns is None:
            distances = attribute_distances(source, noise, recode=recode, pair_noise=pair_noise)
            return cluster(distances, method.clusters)
        return item_groups(
            source,
            noise,
            item_columns=self.item_columns,
            max_values=self.max_values,
            recode=recode,
            similarity=method.similarity or "union",
            sizes=method.clusters,
            pair_noise=pair_noise,
        )

    def _noisy_sizes(self, source: SealedTable, noise: Noise) -> dict[str, Any] | None:
        """Publish a noisy histogram of values per person, if some values may not be used."""
        if self.item_columns is None or not self.size_epsilon:
            return None
        ends = size_ends(self.max_values, most_listed(self.schema, self.item_columns))
        classes = source.basket_sizes(self.item_columns, recode=self.recode).merged(
            class_of_sizes(ends), len(ends)
        )
        mechanism = Laplace(1 / self.size_epsilon)
        drawn = noise.open(classes, mechanism, "how many values people have")
        std = sqrt(2) * float(mechanism.scale)  # that of continuous noise, which is larger
        return {"ends": ends, "counts": drawn.tolist(), "std": std}

    def _noisy_total(self, n_records: SealedCounts, noise: Noise) -> dict[str, Any] | None:
        """Publish the number of records with noise, if it has a share of epsilon."""
        if not self.count_epsilon:
            return None
        mechanism = make_count_mechanism("pure", epsilon=self.count_epsilon)
        drawn = noise.open(n_records, mechanism, "number of records")
        return {
            "value": max(0, int(drawn[0])),
            "scale": str(1 / mechanism.epsilon),
            "epsilon": str(self.count_epsilon * self.n_units),
        }


ColumnsMechanism = Literal["tight", "paper"]
Similarity = Literal["union", "cosine", "phi2"]

MAX_PAIR_COUNTS = 20_000_000
"""Maximum number of noisy pair counts in a private choice of columns."""


def _names(name: str, given: Any) -> tuple[tuple[str, ...], ...]:
    """Read the attributes of each column: lists of names, or comma-separated names."""
    try:
        columns = tuple(
            tuple(part.strip() for part in column.split(","))
            if isinstance(column, str)
            else tuple(str(attribute) for attribute in column)
            for column in given
        )
    except TypeError:
        raise ParameterError(f"{name} must be a list of lists of names.") from None
    problems = []
    for number, column in enumerate(columns):
        twice = sorted({attribute for attribute in column if column.count(attribute) > 1})
        if twice:
            problems.append(
                f"column {number} names {', '.join(twice)} more than once; name each once."
            )
        if not any(column):
            problems.append(f"column {number} is empty; name at least one attribute.")
    ParameterError.raise_if_any(problems)
    return columns


def _numbers(name: str, given: Any) -> tuple[int, ...]:
    """Read numbers of clusters: integers, or texts of comma-separated integers."""
    try:
        numbers = tuple(
            int(number)
            for entry in given
            for number in (entry.split(",") if isinstance(entry, str) else [entry])
        )
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be a list of whole numbers.") from None
    if any(number < 1 for number in numbers):
        raise ParameterError(f"{name} is {list(numbers)}; each number must be at least 1.")
    return numbers


@dataclass(frozen=True, kw_only=True)
class Columns(Method):
    """Publish groups of attributes, each with the noisy counts of its tuples.

    A wide table has one record per row, and its columns are the attributes. A long table has one
    record per person, and each of the person's rows names an `item` and its `value`; the items are
    the attributes.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1 or ln(5).
    delta : number or str
        Delta of the whole release, such as 1e-6.
    k : int
        Minimum number of records of a published tuple.
    max_columns : int
        Maximum number of columns in which one record is counted. A record with values in more
        columns is counted in a random subset of them.
    columns : sequence of sequences of str
        Attributes of each column, if they are public (on the command line NAME,NAME for one column;
        repeatable). They must be chosen without the private table. A column may be listed more than
        once, and attributes may be in several columns or in none.
    clusters : sequence of int
        Number of columns to choose privately, by clustering the attributes (repeatable). An
        alternative to `columns`; with several numbers, one clustering for each.
    schema_share : number or str
        Share of epsilon and delta for choosing columns; only with `clusters`.
    similarity : {"union", "cosine", "phi2"}, optional
        Similarity for clustering: ``union`` (default) or ``cosine`` for a long table, ``phi2`` for
        a wide one.
    item : str, optional
        Column of a long table that contains the item.
    value : str, optional
        Column of a long table that contains the item's value.
    max_values : int, optional
        Maximum number of values per person of a long table. If a person has more, a random subset
        is used. By default, all that the schema's ``max_rows`` allows.
    mechanism : {"tight", "paper"}
        Noise mechanism for the counts of a column: ``tight`` publishes most, ``paper`` is the
        matrix of Li and Li. See `NoisyCounts`.
    generalize : mapping of str to rule
        Rules that generalize columns of the table before counting: a level, a width or cuts by
        column (on the command line COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT). Rules are public.
    count_share : number or str
        Share of epsilon for a noisy number of records, from 0 to below 1. It is not spent on a wide
        table whose number of rows is public.
    size_share : number or str
        Share of epsilon for the distribution of the number of values per person, from 0 to below 1.
        Answers then allow for values beyond `max_values`. It is spent only if people may have more
        than that; with 0, answers refer to the values that are used.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> method = Columns(epsilon=1, delta="1e-6", k=10, max_columns=2,
    ...                  columns=[["age", "sex"], ["smoker", "diagnosis"]])
    >>> method.guarantee(sample_schema())[0].explain()[:26]
    'Adding or removing one row'
    >>> Columns(epsilon=1, delta="1e-6", k=10, max_columns=2)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: neither columns nor clusters is given; name the attributes of \
each column if they are public, or pass the number of clusters to choose privately.
    """

    name: ClassVar[str] = "columns"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction = parameter(read=parameters.delta)
    k: int = parameter(read=whole(1, MAX_K))
    max_columns: int = parameter(read=whole())
    columns: tuple[tuple[str, ...], ...] = parameter(read=_names, default=())
    clusters: tuple[int, ...] = parameter(read=_numbers, default=())
    schema_share: Fraction = parameter(read=parameters.share, default=Fraction(1, 5))
    similarity: Similarity | None = parameter(default=None)
    item: str | None = parameter(default=None)
    value: str | None = parameter(default=None)
    max_values: int | None = parameter(read=whole(), default=None)
    mechanism: ColumnsMechanism = parameter(default="tight")
    generalize: Mapping[str, Rule] = parameter(
        read=parameters.rules, default_factory=dict, hash=False
    )
    count_share: Fraction = parameter(read=parameters.share, default=Fraction(0))
    size_share: Fraction = parameter(read=parameters.share, default=Fraction(1, 20))

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check that columns have one source, and that a long table is described completely."""
        problems = []
        if self.columns and self.clusters:
            problems.append("columns and clusters are both given; pass only one of them.")
        if not self.columns and not self.clusters:
            problems.append(said["no columns"])
        if self.clusters and self.schema_share == 0:
            problems.append(said["no share for columns"])
        if (self.item is None) != (self.value is None):
            problems.append("item and value must be given together; pass both or neither.")
        if self.max_values is not None and self.item is None:
            problems.append("max_values applies to long tables; pass item and value too.")
        of_wide, of_long = ("phi2",), ("union", "cosine")
        shape, fitting, others = (
            ("wide", of_wide, of_long) if self.item is None else ("long", of_long, of_wide)
        )
        if self.similarity in others:
            problems.append(
                said(
                    "unfit similarity",
                    similarity=self.similarity,
                    shape=shape,
                    fitting=" or ".join(fitting),
                )
            )
        return problems

    def plan(self, schema: Schema) -> ColumnsPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        recode = self._recode_or_refuse(schema)
        item_columns, names = self._item_columns, self._attribute_names(schema)
        position = {name: number for number, name in enumerate(names)}
        max_values = self._most_values(schema, len(names))
        n_columns = len(self.columns) or sum(self.clusters)
        copies = len(self.clusters) or max(Counter(chain(*self.columns)).values())
        # A record is in at most as many columns as exist or as its values can occupy.
        n_reached = min(n_columns, max_values * copies)
        n_touched = min(self.max_columns, n_reached)
        # A row of a wide table is a record, and a person may have several.
        n_units = 1 if item_columns is not None else schema.unit.max_rows or 1
        epsilon = self.epsilon / n_units
        delta = delta_per_row(self.epsilon, self.delta, n_units)
        is_public = item_columns is None and schema.counted_rows is not None
        count_epsilon = Fraction(0) if is_public else epsilon * self.count_share
        may_lose = item_columns is not None and max_values < most_listed(schema, item_columns)
        size_epsilon = epsilon * self.size_share if may_lose else Fraction(0)
        left = epsilon - count_epsilon - size_epsilon
        pair_noise = self._pair_noise(left, delta, len(names), max_values)
        if pair_noise is not None:
            left -= pair_noise.epsilon
            if pair_noise.is_gaussian:
                delta -= pair_noise.delta
        plan = ColumnsPlan(
            method=self,
            schema=schema,
            recode=recode,
            item_columns=item_columns,
            attribute_names=names,
            groups=[sorted(position[name] for name in column) for column in self.columns] or None,
            n_columns=n_columns,
            max_values=max_values,
            n_reached=n_reached,
            n_touched=n_touched,
            n_units=n_units,
            columns_epsilon=left,
            count_epsilon=count_epsilon,
            size_epsilon=size_epsilon,
            pair_noise=pair_noise,
            mechanism=_best_mechanism(self.mechanism, left, delta, self.k, n_touched),
        )
        if plan.n_pair_counts > MAX_PAIR_COUNTS:
            raise TooLarge(
                said(
                    "many pair counts",
                    n_pair_counts=plan.n_pair_counts,
                    limit=MAX_PAIR_COUNTS,
                )
            )
        return plan

    @property
    def _item_columns(self) -> ItemColumns | None:
        """Item and value columns of a long table; None for a wide one."""
        return ItemColumns(self.item, self.value) if self.item and self.value else None

    def _attribute_names(self, schema: Schema) -> tuple[str, ...]:
        """Return the attributes: the columns of a wide table, or the items of a long one."""
        if self._item_columns is None:
            return tuple(schema.attributes)
        column = schema.attributes[self._item_columns.item]
        return column.values if isinstance(column, Categorical) else ()

    def _most_values(self, schema: Schema, n_attributes: int) -> int:
        """Return the maximum number of values of one record that are used."""
        bounds = [n_attributes]
        if self._item_columns is not None:
            bounds += [most for most in (self.max_values, schema.unit.max_rows) if most is not None]
        return min(bounds)

    def _pair_noise(
        self, epsilon: Fraction, delta: Fraction, n_attributes: int, max_values: int
    ) -> PairMechanism | None:
        """Return the noise of a private choice of columns, from its share of a record's budget."""
        if not self.clusters:
            return None
        # A record of a wide table is in one cell of each pair of attributes. A person of a long
        # table is in the support of each of their items and in the count of each pair of them.
        n_pairs = n_attributes * (n_attributes - 1) // 2
        if self._item_columns is not None:
            n_pairs = max_values * (max_values + 1) // 2
        return PairMechanism(
            n_touched=max(1, n_pairs),
            epsilon=epsilon * self.schema_share,
            delta=delta * self.schema_share,
        )

    # --- schema checks ----------------------------------------------------------------------------

    def _recode_or_refuse(self, schema: Schema) -> dict[str, Recoding]:
        """Return the recodings of columns; raise one error that lists all problems."""
        unfit = (
            self._wrong_columns(schema)
            or self._no_long_table(schema)
            or self._unknown_names(schema)
        )
        return recodings(schema, self.generalize, unfit)

    def _wrong_columns(self, schema: Schema) -> list[str]:
        problems = [
            said("taken name", name=name)
            for name in (COLUMN, TUPLE, COUNT)
            if name in schema.columns
        ]
        problems += schema_problems(schema, self.name)
        for what, name in (("item", self.item), ("value", self.value)):
            if name is not None:
                problems += unpublished([name], schema.attributes, what)
        return problems

    def _no_long_table(self, schema: Schema) -> list[str]:
        if self.item is None:
            return []
        problems = []
        if self.item == self.value:
            problems.append(f"item and value are both {self.item!r}; name two different columns.")
        if schema.unit.kind != "person":
            problems.append(said("no persons", unit=schema.unit.kind))
        if not isinstance(schema.attributes[self.item], Categorical):
            problems.append(f"column {self.item!r}: the item column must be categorical.")
        if self.item in self.generalize:
            problems.append(f"column {self.item!r} contains the items and cannot be generalized.")
        return problems

    def _unknown_names(self, schema: Schema) -> list[str]:
        problems = []
        names = self._attribute_names(schema)
        unknown = sorted({name for column in self.columns for name in column} - set(names))
        if unknown:
            shown = ", ".join(map(repr, unknown[:10])) + (" and more" if len(unknown) > 10 else "")
            where = f"values of {self.item!r}" if self.item else "published columns"
            problems.append(f"columns: {shown} are not {where}.")
        if any(number > len(names) for number in self.clusters):
            problems.append(
                f"clusters is {list(self.clusters)}; there are only {len(names)} attributes."
            )
        return problems


def _best_mechanism(
    kind: str, epsilon: Fraction, delta: Fraction, k: int, n_touched: int
) -> CountMechanism:
    """Divide the budget among the columns of a record so that most tuples are published."""
    candidates = [
        make_count_mechanism(kind, epsilon=each, delta=chance, k=k)
        for each, chance in shares_of(epsilon, delta, n_touched)
    ]
    return min(candidates, key=lambda mechanism: (mechanism.release_count(0.5), mechanism.std))
