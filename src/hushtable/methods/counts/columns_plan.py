"""Plan and run of method columns.

Parameters are in ``columns.py``; guarantee, algorithm and proofs in ``columns.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

from hushtable.engine.baskets import ItemColumns, most_listed
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import Refused
from hushtable.methods.base import CountError, Forecast, Plan, Released
from hushtable.methods.count_error import left_out_line, mechanism_error
from hushtable.methods.counts.basket_sizes import class_of_sizes, size_ends
from hushtable.methods.counts.cell_table import QUANTILES, TYPICAL_ROWS, commonest, describe_noise
from hushtable.methods.counts.column_choice import (
    PairMechanism,
    attribute_distances,
    cluster,
    item_groups,
    most_compared,
)
from hushtable.methods.counts.column_table import READING_LONG, READING_WIDE, write_tuples
from hushtable.privacy.accounting.run_account import SpendingLimit
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.guarantee import ApproxDP, Guarantee, Threshold
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.single_counts import CountMechanism, make_count_mechanism
from hushtable.privacy.mechanisms.tuple_counts import TupleCounts
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, recoded_domain

if TYPE_CHECKING:
    from hushtable.methods.counts.columns import Columns


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
        held = (TYPICAL_ROWS if rows is None else rows) * max(1, len(self.method.clusters))
        width = 1 if self.item_columns else len(self.schema.attributes)
        return Forecast(
            lines=self._lines(rows),
            split=self._split(),
            n_cells=self._n_elements,
            memory_mb=(held * width * 64 + self.n_pair_counts * 32) / 1e6 + 1,
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
            lines["warning"] = (
                f"{rows:,} rows are too few: a tuple is published half of the time if {half:,} "
                "records have it. Lower max_columns, publish fewer columns, or spend more."
            )
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

    def uninformative(self, rows: int) -> str:
        """Refuse if not even the most frequent tuple of any column is expected to be published."""
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
        return (
            f"of {rows:,} rows no tuple is expected to have the {needed:,} at which half of them "
            "are published, so the release would be empty. Generalize more, publish fewer columns, "
            "or spend more."
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Sum the noise of the tuples of the column with most tuples."""
        if self.groups is None:
            raise Refused(
                "the columns are chosen from the private rows, so the number of tuples in a "
                "question is not known in advance. Name the columns to forecast the error."
            )
        if self.item_columns is not None or self.n_touched < self.n_reached:
            raise Refused(
                "records with values in more columns than max_columns lose some at random; "
                "their number depends on the private rows. Raise max_columns to the number of "
                "columns of a wide table to forecast the error."
            )
        sizes = [
            recoded_domain(self.schema, self._names_of(group), self.recode).size
            for group in self.groups
        ]
        return mechanism_error(
            self.mechanism,
            rows=self.schema.expected_rows(rows),
            n_cells=max(sizes),
            share=share,
            assumes="The question uses attributes of one column, the one with most tuples, and "
            "selects the same share of its tuples as of the rows; all tuples are equally frequent.",
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
        std = sqrt(2) * float(mechanism.scale)  # of continuous noise, which is larger
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
