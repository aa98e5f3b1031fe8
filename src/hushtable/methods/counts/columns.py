"""Columns: cut sparse records into groups of attributes and publish each with noisy counts.

The promise, the algorithm and the proofs are in ``columns.md`` beside this file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_labels
from hushtable.engine.base import Engine
from hushtable.engine.baskets import Listing, Tuples
from hushtable.errors import ParameterError, Refused, TooLarge
from hushtable.methods.base import CountError, Forecast, Method, Released
from hushtable.methods.count_error import mechanism_error
from hushtable.methods.counts.column_choice import (
    PairNoise,
    attribute_distances,
    cluster,
    item_groups,
    most_compared,
)
from hushtable.methods.counts.noisy_counts import QUANTILES, delta_per_row
from hushtable.methods.parameters import read_numbers
from hushtable.privacy.composition import shares_of
from hushtable.privacy.count_mechanisms import CountMechanism, make_count_mechanism
from hushtable.privacy.guarantee import (
    ApproxDP,
    Guarantee,
    Threshold,
)
from hushtable.privacy.noise import Noise
from hushtable.recoding import Recoding, Rule, recoded_domain, recodings
from hushtable.schema import Categorical, Schema

Mechanism = Literal["tight", "paper"]
Similarity = Literal["union", "cosine", "phi2"]

COLUMN, TUPLE, COUNT = "column", "tuple", "count"
"""Columns that are published beside the schema's own."""

MAX_PAIR_COUNTS = 20_000_000
"""Noisy counts of pairs that a private choice of columns may take."""

TYPICAL_ROWS = 1_000_000
"""What the forecast of memory takes for the number of rows where it is not told."""


@dataclass(frozen=True, kw_only=True)
class Columns(Method):
    """Publish groups of attributes, each group with the noisy counts of its tuples.

    A wide table has one record per row, and its columns are the attributes. A long table has one
    record per person, and each of the person's rows names an `item` and its `value`; the items are
    the attributes.

    Parameters
    ----------
    epsilon, delta : number or str
        The promise, for the whole release.
    k : int
        Tuples of fewer records are never published.
    max_columns : int
        A record with values in more columns than this keeps those in a random part of them.
    columns : sequence of sequences of str
        The attributes of each column, where they are public: chosen without the private table.
        A column may stand there more than once, and attributes may be in several or in none.
    clusters : sequence of int
        Instead of `columns`: choose them privately, by clustering the attributes into so many
        columns; with several numbers, once for each of them.
    schema_share : number or str
        Share of epsilon and delta spent on that choice.
    similarity : {"union", "cosine", "phi2"}, optional
        By what attributes are clustered: ``union`` (the default) or ``cosine`` for a long table,
        ``phi2`` for a wide one.
    item, value : str, optional
        The columns of a long table that hold an item and its value.
    max_values : int, optional
        A person with more values than this in a long table keeps a random part of them. The
        default is all that the schema's ``max_rows`` allows.
    mechanism : {"tight", "paper"}
        How the counts of one column are noised, see `NoisyCounts`.
    generalize : mapping of str to rule
        How columns of the table are made coarser before counting; public.
    count_share : number or str
        Share of epsilon spent on a noisy number of records. It is not spent on a wide table whose
        number of rows is public.

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
each column if that is public knowledge, or say how many clusters are to be chosen privately.
    """

    name: ClassVar[str] = "columns"
    paper: ClassVar[str] = (
        "Li and Li, semantic k-anonymity and noisy count publishing (section 6), repaired."
    )
    summary: ClassVar[str] = "Publish groups of attributes of sparse records, each with counts."
    estimator: ClassVar[str] = "columns"

    epsilon: Fraction = field(
        metadata={"help": "Bound on the privacy loss of the whole release, such as 1 or ln(5)."}
    )
    delta: Fraction = field(metadata={"help": "Chance of exceeding epsilon, such as 1e-6."})
    k: int = field(metadata={"help": "Tuples of fewer records than this are never published."})
    max_columns: int = field(
        metadata={"help": "Most columns that one record's values are published in."}
    )
    columns: tuple[tuple[str, ...], ...] = field(
        default=(),
        metadata={"help": "Attributes of one public column: NAME,NAME,... (may be repeated)."},
    )
    clusters: tuple[int, ...] = field(
        default=(),
        metadata={"help": "Choose so many columns privately (may be repeated)."},
    )
    schema_share: Fraction = field(
        default=Fraction(1, 5),
        metadata={"help": "Share of the budget spent on choosing columns; only with clusters."},
    )
    similarity: Similarity | None = field(
        default=None,
        metadata={"help": "What is clustered by: union or cosine (long), phi2 (wide)."},
    )
    item: str | None = field(
        default=None, metadata={"help": "Column of a long table that holds the item."}
    )
    value: str | None = field(
        default=None, metadata={"help": "Column of a long table that holds the item's value."}
    )
    max_values: int | None = field(
        default=None, metadata={"help": "Most values of one person of a long table that count."}
    )
    mechanism: Mechanism = field(
        default="tight",
        metadata={"help": "tight publishes most; paper is the matrix of Li and Li."},
    )
    generalize: Mapping[str, Rule] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "Make a column coarser: COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT."},
    )
    count_share: Fraction = field(
        default=Fraction(0),
        metadata={"help": "Share of epsilon spent on a noisy number of records, 0 to below 1."},
    )

    def __post_init__(self) -> None:
        problems = read_numbers(
            self,
            ("epsilon", "delta", "k", "max_columns", "max_values", "schema_share", "count_share"),
        )
        for read in (self._read_columns, self._read_choices):
            try:
                read()
            except ParameterError as error:
                problems += error.problems
        if problems:
            raise ParameterError(problems)

    def _read_columns(self) -> None:
        try:
            columns = tuple(
                tuple(part.strip() for part in column.split(","))
                if isinstance(column, str)
                else tuple(str(name) for name in column)
                for column in self.columns
            )
            clusters = tuple(
                int(number)
                for entry in self.clusters
                for number in (entry.split(",") if isinstance(entry, str) else [entry])
            )
        except (TypeError, ValueError):
            raise ParameterError(
                "columns must be lists of names, and clusters whole numbers."
            ) from None
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "clusters", clusters)
        problems = []
        if columns and clusters:
            problems.append("columns and clusters are both given; give one of them.")
        if not columns and not clusters:
            problems.append(
                "neither columns nor clusters is given; name the attributes of each column if "
                "that is public knowledge, or say how many clusters are to be chosen privately."
            )
        for number, column in enumerate(columns):
            twice = sorted({name for name in column if column.count(name) > 1})
            if twice:
                problems.append(f"column {number} has {', '.join(twice)} more than once.")
            if not any(column):
                problems.append(f"column {number} is empty; name at least one attribute.")
        if any(number < 1 for number in clusters):
            problems.append(f"clusters is {list(clusters)}; each number must be at least 1.")
        if clusters and self.schema_share == 0:
            problems.append(
                "schema_share is 0, but choosing columns from the data costs budget; give it a "
                "share, or give public columns."
            )
        if problems:
            raise ParameterError(problems)

    def _read_choices(self) -> None:
        problems = []
        if self.mechanism not in get_args(Mechanism):
            problems.append(f"mechanism is {self.mechanism!r}; it must be tight or paper.")
        if (self.item is None) != (self.value is None):
            problems.append("item and value belong together: give both, or neither.")
        if self.max_values is not None and self.item is None:
            problems.append("max_values is for long tables; give item and value too.")
        fitting = ("phi2",) if self.item is None else ("union", "cosine")
        if self.similarity is not None and self.similarity not in fitting:
            shape = "wide" if self.item is None else "long"
            problems.append(
                f"similarity is {self.similarity!r}; for a {shape} table it must be "
                f"{' or '.join(fitting)}."
            )
        if isinstance(self.generalize, Mapping):
            rules = {
                name: list(rule) if isinstance(rule, tuple) else rule
                for name, rule in self.generalize.items()
            }
            object.__setattr__(self, "generalize", rules)
        else:
            problems.append(
                f"generalize is {self.generalize!r}; it must map column names to rules."
            )
        if problems:
            raise ParameterError(problems)

    # --- the method -------------------------------------------------------------------------------

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise differential privacy for one added or removed unit, and the threshold."""
        self.plan(schema)
        return (
            ApproxDP(
                epsilon=self.epsilon, delta=self.delta, unit=schema.unit, neighbors="add-remove"
            ),
            Threshold(k=self.k),
        )

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say which counts will be published and how noisy."""
        plan = self.plan(schema)
        rows = schema.rows if rows is None else rows
        mechanism = plan.mechanism
        lines: dict[str, str | float | int] = {
            "columns": plan.n_columns,
            "columns that one record is in, at most": plan.n_touched,
        }
        for chance in QUANTILES:
            name = f"records from which a tuple is published with probability {chance:g}"
            lines[name] = mechanism.release_count(chance)
        lines["standard deviation of a published count"] = mechanism.std
        lines["epsilon for one column"] = float(mechanism.epsilon)
        if plan.pair_noise is not None:
            kind = "Gaussian" if plan.pair_noise.is_gaussian else "Laplace"
            lines["noise on the counts that columns are chosen by"] = kind
            lines["standard deviation of that noise"] = plan.pair_noise.std
        if rows is not None and rows < mechanism.release_count(0.5) * plan.n_touched:
            lines["warning"] = (
                f"{rows:,} rows are too few: a tuple is published half of the time if "
                f"{mechanism.release_count(0.5):,} records have it. Lower max_columns, publish "
                "fewer columns, or spend more."
            )
        split = {"tuples of the columns": plan.times_units(plan.columns_epsilon)}
        if plan.pair_noise is not None:
            split["choice of the columns"] = plan.times_units(plan.pair_noise.epsilon)
        if plan.count_epsilon:
            split["number of records"] = plan.times_units(plan.count_epsilon)
        n_pairs = self._n_pair_counts(schema, plan.recode) if self.clusters else 0
        held = (TYPICAL_ROWS if rows is None else rows) * max(1, len(self.clusters))
        width = 1 if plan.listing else len(schema.attributes)
        return Forecast(
            lines=lines,
            split=split,
            n_cells=_n_elements(schema, plan),
            memory_mb=(held * width * 64 + n_pairs * 32) / 1e6 + 1,
        )

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Add up the noise of the tuples of the column that has most of them."""
        plan = self.plan(schema)
        if plan.groups is None:
            raise Refused(
                "which columns there will be is chosen from the private rows, and with it how many "
                "tuples a question takes. Name the columns to know the error before."
            )
        if plan.listing is not None or plan.n_touched < plan.n_reached:
            raise Refused(
                "records with values in more columns than max_columns lose some at random, and how "
                "many those are depends on the private rows. Raise max_columns to the number of "
                "columns of a wide table to know the error before."
            )
        names = plan.attribute_names
        sizes = [
            recoded_domain(schema, [names[item] for item in group], plan.recode).size
            for group in plan.groups
        ]
        return mechanism_error(
            plan.mechanism,
            rows=schema.rows if rows is None else rows,
            n_cells=max(sizes),
            share=share,
            assumes="The question is about attributes of one column, the one with most tuples, and "
            "takes the same share of its tuples as of the rows, which are spread evenly over them.",
        )

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Choose the columns if they are not public, count their tuples once, add noise."""
        schema = engine.schema
        plan = self.plan(schema)
        groups = plan.groups
        if groups is None:
            groups = self._choose(engine, noise, plan)
        tuples = engine.tuples(
            groups,
            max_groups=self.max_columns,
            at_least=self.k,  # rarer tuples are never published, so they need not be looked at
            listing=plan.listing,
            max_values=self.max_values,
            recode=plan.recode,
        )
        noisy = plan.mechanism.noisy(tuples.counts, noise)
        shown = tuples.take(noisy > 0)
        names = plan.attribute_names
        return Released(
            tables={"data": _table(schema, plan, shown, noisy[noisy > 0])},
            estimator={
                "columns": [[names[item] for item in sorted(group)] for group in groups],
                "n_records": _noisy_total(plan, tuples.n_records, noise),
                **plan.describe(),
                "notes": [_READING_LONG if plan.listing else _READING_WIDE],
            },
        )

    def _choose(self, engine: Engine, noise: Noise, plan: Plan) -> list[list[int]]:
        assert plan.pair_noise is not None  # noqa: S101 - there are clusters
        if plan.listing is None:
            distances = attribute_distances(
                engine, noise, recode=plan.recode, pair_noise=plan.pair_noise
            )
            return cluster(distances, self.clusters)
        return item_groups(
            engine, noise, listing=plan.listing, max_values=plan.max_values, recode=plan.recode,
            similarity=self.similarity or "union", sizes=self.clusters, pair_noise=plan.pair_noise,
        )  # fmt: skip

    # --- what follows from parameters and schema --------------------------------------------------

    def plan(self, schema: Schema) -> Plan:
        """Work out everything that is fixed before the data is read, or refuse."""
        problems = self._misfits(schema)
        recode: dict[str, Recoding] = {}
        try:
            recode = recodings(schema, self.generalize)
        except ParameterError as error:
            problems += error.problems
        if problems:
            raise ParameterError(problems)
        listing = Listing(self.item, self.value) if self.item and self.value else None
        names = _attribute_names(schema, listing)
        position = {name: number for number, name in enumerate(names)}
        groups = [sorted(position[name] for name in column) for column in self.columns] or None

        max_values = len(names)
        if listing is not None:
            bounds = (self.max_values, schema.unit.max_rows, len(names))
            max_values = min(bound for bound in bounds if bound is not None)
        n_columns = len(self.columns) or sum(self.clusters)
        copies = len(self.clusters) or max(Counter(chain(*self.columns)).values())
        # Nobody is in more columns than there are, or than the values one may have can reach.
        n_reached = min(n_columns, max_values * copies)
        n_touched = min(self.max_columns, n_reached)

        # A row of a wide table is a record, and a person may have several.
        n_units = 1 if listing is not None else schema.unit.max_rows or 1
        epsilon = self.epsilon / n_units
        delta = delta_per_row(self.epsilon, self.delta, n_units)
        is_public = listing is None and schema.counted_rows is not None
        count_epsilon = Fraction(0) if is_public else epsilon * self.count_share
        left = epsilon - count_epsilon
        pair_noise = None
        if self.clusters:
            n_pairs = len(names) * (len(names) - 1) // 2
            if listing is not None:
                n_pairs = max_values * (max_values + 1) // 2
            pair_noise = PairNoise(
                n_touched=max(1, n_pairs),
                epsilon=left * self.schema_share,
                delta=delta * self.schema_share,
            )
            left -= pair_noise.epsilon
            if pair_noise.is_gaussian:
                delta -= pair_noise.delta
        return Plan(
            recode=recode,
            listing=listing,
            attribute_names=names,
            groups=groups,
            n_columns=n_columns,
            max_values=max_values,
            n_reached=n_reached,
            n_touched=n_touched,
            n_units=n_units,
            columns_epsilon=left,
            count_epsilon=count_epsilon,
            pair_noise=pair_noise,
            mechanism=_best_mechanism(self.mechanism, left, delta, self.k, n_touched),
        )

    def _misfits(self, schema: Schema) -> list[str]:
        problems = [
            f"column {name!r}: the published table has a column of that name; rename the column in "
            "schema and data."
            for name in (COLUMN, TUPLE, COUNT)
            if name in schema.columns
        ]
        if schema.unit.kind == "node":
            problems.append(
                "unit is node: columns publishes tables. Use unit row or person, or a method for "
                "graphs."
            )
        problems += [
            f"{what} is {name!r}, which is not a published column; the schema has "
            f"{', '.join(schema.attributes)}."
            for what, name in (("item", self.item), ("value", self.value))
            if name is not None and name not in schema.attributes
        ]
        if problems:
            return problems
        if self.item is not None and self.value is not None:
            if self.item == self.value:
                problems.append(f"item and value are both {self.item!r}; they must differ.")
            if schema.unit.kind != "person":
                problems.append(
                    f"the unit is {schema.unit.kind}, but item and value are for a long table of "
                    "persons; say unit: {kind: person, column: ..., max_rows: ...}."
                )
            if not isinstance(schema.attributes[self.item], Categorical):
                problems.append(f"column {self.item!r}: items must be a categorical column.")
            if self.item in self.generalize:
                problems.append(f"column {self.item!r} holds the items and cannot be generalized.")
            if problems:
                return problems
        listing = Listing(self.item, self.value) if self.item and self.value else None
        names = _attribute_names(schema, listing)
        unknown = sorted({name for column in self.columns for name in column} - set(names))
        if unknown:
            shown = ", ".join(map(repr, unknown[:10])) + (" and more" if len(unknown) > 10 else "")
            where = f"values of {self.item!r}" if self.item else "published columns"
            problems.append(f"columns: {shown} are not among the {where}.")
        if any(number > len(names) for number in self.clusters):
            problems.append(
                f"clusters is {list(self.clusters)}; there are only {len(names)} attributes."
            )
        if self.clusters and not problems:
            n_counts = self._n_pair_counts(schema, recodings(schema, self.generalize))
            if n_counts > MAX_PAIR_COUNTS:
                raise TooLarge(
                    f"choosing columns takes {n_counts:,} noisy counts of pairs, over the limit of "
                    f"{MAX_PAIR_COUNTS:,}; list fewer items, generalize more, or give columns."
                )
        return problems

    def _n_pair_counts(self, schema: Schema, recode: Mapping[str, Recoding]) -> int:
        if self.item is not None:
            return most_compared(schema.attributes[self.item].n_values, self.clusters) ** 2
        sizes = recoded_domain(schema, list(schema.attributes), recode).shape
        return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Hold what is fixed before the data is read.

    `n_touched` is how many columns the values of one record are published in at most, `n_reached`
    in how many it may have values. `n_units` records belong to one unit of privacy.
    """

    recode: Mapping[str, Recoding]
    listing: Listing | None
    attribute_names: Sequence[str]
    groups: list[list[int]] | None
    n_columns: int
    max_values: int
    n_reached: int
    n_touched: int
    n_units: int
    columns_epsilon: Fraction
    count_epsilon: Fraction
    pair_noise: PairNoise | None
    mechanism: CountMechanism

    def times_units(self, epsilon: Fraction) -> Fraction:
        """Turn what one record costs into what a unit costs."""
        return epsilon * self.n_units

    @cached_property
    def count_mechanism(self) -> CountMechanism | None:
        """How the number of records is noised."""
        if not self.count_epsilon:
            return None
        return make_count_mechanism("pure", epsilon=self.count_epsilon)

    def describe(self) -> dict[str, Any]:
        """Say how a single count was noised, for analysts who use other tools."""
        mechanism = self.mechanism
        return {
            "epsilon_per_tuple": str(mechanism.epsilon),
            "delta_per_tuple": str(getattr(mechanism, "delta", 0)),
            "count_bias": mechanism.bias,
            "count_std": mechanism.std,
            "release_counts": {f"{p:g}": mechanism.release_count(p) for p in QUANTILES},
        }


_READING_WIDE = (
    "Each row is a tuple of one column: the attributes of that column, listed under 'columns' of "
    "the estimator in statement.json, and how many records have it. Other attributes are padded "
    "with null. Records without any value in a column are not counted there."
)
_READING_LONG = (
    "Rows with the same number in 'tuple' are one tuple: the items and values that 'count' people "
    "have among the items of that column, and no other item of it. The items of each column are "
    "listed in statement.json. People without any item of a column are not counted there."
)


def _best_mechanism(
    kind: str, epsilon: Fraction, delta: Fraction, k: int, n_touched: int
) -> CountMechanism:
    """Share the budget among the columns of a record so that most is published."""
    candidates = [
        make_count_mechanism(kind, epsilon=each, delta=chance, k=k)
        for each, chance in shares_of(epsilon, delta, n_touched)
    ]
    return min(candidates, key=lambda mechanism: (mechanism.release_count(0.5), mechanism.std))


def _attribute_names(schema: Schema, listing: Listing | None) -> tuple[str, ...]:
    if listing is None:
        return tuple(schema.attributes)
    column = schema.attributes[listing.item]
    return column.values if isinstance(column, Categorical) else ()


def _n_elements(schema: Schema, plan: Plan) -> int:
    """Count the values that attributes may have, all attributes together."""
    if plan.listing is None:
        return sum(recoded_domain(schema, list(schema.attributes), plan.recode).shape)
    value = plan.listing.value
    return len(plan.attribute_names) * recoded_domain(schema, [value], plan.recode).size


def _noisy_total(plan: Plan, n_records: int, noise: Noise) -> dict[str, Any] | None:
    if plan.count_mechanism is None:
        return None
    drawn = plan.count_mechanism.noisy(np.array([n_records], np.int64), noise)
    return {
        "value": max(0, int(drawn[0])),
        "scale": str(1 / plan.count_mechanism.epsilon),
        "epsilon": str(plan.times_units(plan.count_epsilon)),
    }


def _table(schema: Schema, plan: Plan, tuples: Tuples, noisy: NDArray[np.int64]) -> pa.Table:
    """Write the published tuples; their order says nothing beyond which ones are there."""
    lengths = tuples.lengths
    if plan.listing is not None:
        item, value = plan.listing.item, plan.listing.value
        return pa.table(
            {
                COLUMN: pa.array(np.repeat(tuples.groups, lengths), pa.int64()),
                TUPLE: pa.array(np.repeat(np.arange(len(lengths)), lengths), pa.int64()),
                item: to_labels(schema.attributes[item], tuples.items),
                value: to_labels(schema.attributes[value], tuples.values, plan.recode.get(value)),
                COUNT: pa.array(np.repeat(noisy, lengths), pa.int64()),
            }
        )
    of_tuple = np.repeat(np.arange(len(lengths)), lengths)
    table = {COLUMN: pa.array(tuples.groups, pa.int64())}
    for number, (name, column) in enumerate(schema.attributes.items()):
        codes = np.full(len(lengths), -1, np.int64)
        here = tuples.items == number
        codes[of_tuple[here]] = tuples.values[here]
        table[name] = to_labels(column, codes, plan.recode.get(name))
    table[COUNT] = pa.array(noisy, pa.int64())
    return pa.table(table)
