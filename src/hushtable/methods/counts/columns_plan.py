"""A plan of columns: what to expect of a run, and the run.

The method and its parameters are in ``columns.py``, the promise, the algorithm and the proofs in
``columns.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

from hushtable.engine.baskets import ItemColumns, most_listed
from hushtable.engine.sealed import SealedTable
from hushtable.errors import Refused
from hushtable.methods.base import CountError, Forecast, Plan, Released
from hushtable.methods.count_error import left_out_line, mechanism_error
from hushtable.methods.counts.basket_sizes import class_of_sizes, size_ends
from hushtable.methods.counts.cells import QUANTILES, TYPICAL_ROWS, commonest, describe_noise
from hushtable.methods.counts.column_choice import (
    PairMechanism,
    attribute_distances,
    cluster,
    item_groups,
    most_compared,
)
from hushtable.methods.counts.column_table import READING_LONG, READING_WIDE, write_tuples
from hushtable.privacy.count_mechanisms import CountMechanism, make_count_mechanism
from hushtable.privacy.guarantee import ApproxDP, Guarantee, Threshold
from hushtable.privacy.mechanism import Laplace
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Sealed
from hushtable.privacy.spending import Promise
from hushtable.privacy.tuple_counts import TupleCounts
from hushtable.recoding import Recoding, recoded_domain
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.methods.counts.columns import Columns


@dataclass(frozen=True, kw_only=True)
class ColumnsPlan(Plan[SealedTable]):
    """Hold how the columns are found, counted and noised.

    `n_touched` is how many columns the values of one record are published in at most, `n_reached`
    in how many it may have values. `n_units` records belong to one unit of privacy. `groups` are
    the columns as places of attributes, None where they are chosen from the data.
    """

    method: Columns
    schema: Schema
    recode: Mapping[str, Recoding]
    listing: ItemColumns | None
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

    # --- what to expect ---------------------------------------------------------------------------

    def forecast(self, rows: int | None = None) -> Forecast:
        """Say which counts will be published and how noisy."""
        rows = self.schema.expected_rows(rows)
        held = (TYPICAL_ROWS if rows is None else rows) * max(1, len(self.method.clusters))
        width = 1 if self.listing else len(self.schema.attributes)
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
            "columns that one record is in, at most": self.n_touched,
        }
        for chance in QUANTILES:
            name = f"records from which a tuple is published with probability {chance:g}"
            lines[name] = mechanism.release_count(chance)
        lines["standard deviation of a published count"] = mechanism.std
        lines["epsilon for one column"] = float(mechanism.epsilon)
        if self.pair_noise is not None:
            kind = "Gaussian" if self.pair_noise.is_gaussian else "Laplace"
            lines["noise on the counts that columns are chosen by"] = kind
            lines["standard deviation of that noise"] = self.pair_noise.std
        if rows is not None and rows < half * self.n_touched:
            lines["warning"] = (
                f"{rows:,} rows are too few: a tuple is published half of the time if {half:,} "
                "records have it. Lower max_columns, publish fewer columns, or spend more."
            )
        if rows and not self.listing and self.method.columns:
            most = max(
                recoded_domain(self.schema, list(names), self.recode).size
                for names in self.method.columns
            )
            lines |= left_out_line((half - 1) * most / rows)
        return lines

    def _split(self) -> dict[str, Fraction]:
        """Say what each step costs a unit, all of its records together."""
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
        """Count the values that attributes may have, all attributes together."""
        if self.listing is None:
            return sum(recoded_domain(self.schema, self.attribute_names, self.recode).shape)
        of_one = recoded_domain(self.schema, [self.listing.value], self.recode).size
        return len(self.attribute_names) * of_one

    @cached_property
    def n_pair_counts(self) -> int:
        """How many noisy counts a choice of the columns takes."""
        if not self.method.clusters:
            return 0
        if self.listing is not None:
            return most_compared(len(self.attribute_names), self.method.clusters) ** 2
        sizes = recoded_domain(self.schema, self.attribute_names, self.recode).shape
        return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2

    def hollow(self, rows: int) -> str:
        """Expect the commonest tuple of some column to be published."""
        needed = self.mechanism.release_count(0.5)
        columns = self.groups or ((item,) for item in range(len(self.attribute_names)))
        likely = (
            rows
            if self.listing is not None
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
        """Add up the noise of the tuples of the column that has most of them."""
        if self.groups is None:
            raise Refused(
                "which columns there will be is chosen from the private rows, and with it how many "
                "tuples a question takes. Name the columns to know the error before."
            )
        if self.listing is not None or self.n_touched < self.n_reached:
            raise Refused(
                "records with values in more columns than max_columns lose some at random, and how "
                "many those are depends on the private rows. Raise max_columns to the number of "
                "columns of a wide table to know the error before."
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
            assumes="The question is about attributes of one column, the one with most tuples, and "
            "takes the same share of its tuples as of the rows, which are spread evenly over them.",
        )

    def _names_of(self, group: Sequence[int]) -> list[str]:
        return [self.attribute_names[place] for place in group]

    # --- the run ----------------------------------------------------------------------------------

    @cached_property
    def promise(self) -> Promise | None:
        """What one record may spend, so that all records of a unit together keep the promise."""
        promised = Promise.among(self.guarantees)
        if promised is None or self.pair_noise is None or not self.pair_noise.is_gaussian:
            return None if promised is None else promised.for_each_of(self.n_units)
        aside = self.pair_noise.epsilon, self.pair_noise.delta
        return replace(promised.for_each_of(self.n_units), aside=aside)

    @property
    def spends_all(self) -> bool:
        """Noise is rounded up, Laplace noise leaves its delta, and the theorem is not tight."""
        return False

    @property
    def counts(self) -> TupleCounts:
        """How the tuples of all columns are published."""
        spared = (self.n_touched - self.columns_epsilon / self.mechanism.epsilon) / 2
        return TupleCounts(self.mechanism, int(spared))

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Choose the columns if they are not public, count their tuples once, add noise."""
        groups = self.choose(source, noise) if self.groups is None else self.groups
        tuples = source.tuples(
            groups,
            max_groups=self.method.max_columns,
            at_least=self.method.k,  # rarer tuples are never published: no need to look at them
            listing=self.listing,
            max_values=self.method.max_values,
            recode=self.recode,
        )
        shown, noisy = noise.open(tuples, self.counts, "tuples of the columns")
        table = write_tuples(self.schema, self.recode, self.listing, shown, noisy)
        return Released(
            tables={"data": table},
            settings={
                "columns": [self._names_of(sorted(group)) for group in groups],
                "n_records": self._noisy_total(tuples.n_records, noise),
                "sizes": self._noisy_sizes(source, noise),
                **describe_noise(self.mechanism, per="tuple"),
                "notes": [READING_LONG if self.listing else READING_WIDE],
            },
        )

    def choose(self, source: SealedTable, noise: Noise) -> list[list[int]]:
        """Choose the columns from noisy counts of pairs."""
        method, recode, pair_noise = self.method, self.recode, self.pair_noise
        assert pair_noise is not None  # noqa: S101 - there are clusters
        if self.listing is None:
            distances = attribute_distances(source, noise, recode=recode, pair_noise=pair_noise)
            return cluster(distances, method.clusters)
        return item_groups(
            source, noise, listing=self.listing, max_values=self.max_values, recode=recode,
            similarity=method.similarity or "union", sizes=method.clusters, pair_noise=pair_noise,
        )  # fmt: skip

    def _noisy_sizes(self, source: SealedTable, noise: Noise) -> dict[str, Any] | None:
        """Publish how many people have how many values, if some of them may not count."""
        if self.listing is None or not self.size_epsilon:
            return None
        ends = size_ends(self.max_values, most_listed(self.schema, self.listing))
        classes = source.basket_sizes(self.listing, recode=self.recode).merged(
            class_of_sizes(ends), len(ends)
        )
        mechanism = Laplace(1 / self.size_epsilon)
        drawn = noise.open(classes, mechanism, "how many values people have")
        std = sqrt(2) * float(mechanism.scale)  # that of continuous noise, which is larger
        return {"ends": ends, "counts": drawn.tolist(), "std": std}

    def _noisy_total(self, n_records: Sealed, noise: Noise) -> dict[str, Any] | None:
        """Publish the number of records with noise, if a share of epsilon was set aside for it."""
        if not self.count_epsilon:
            return None
        mechanism = make_count_mechanism("pure", epsilon=self.count_epsilon)
        drawn = noise.open(n_records, mechanism, "number of records")
        return {
            "value": max(0, int(drawn[0])),
            "scale": str(1 / mechanism.epsilon),
            "epsilon": str(self.count_epsilon * self.n_units),
        }
