"""Engine that counts in DuckDB or Spark, through ibis.

Rows stay in the database: a request becomes one or a few queries over codes, and only codes and
counts are fetched. Every request is processed in the same way:

- *encoded once* (`SqlEngine._all`): at the first question, so that all answers are about the same
  rows, whatever becomes of the table meanwhile, and no later query sees a raw value;
- *the rows that count* (`SqlEngine._rows`): with unit ``person`` at most ``max_rows`` of each;
- *counted by packed codes*: columns one by one in `one_way`, cells in `packing`, many small tables
  in `blocks`, tuples and pairs of items in `elements` and `baskets`;
- *broken rules set aside*: a row that the schema refuses has a negative code and is counted like
  any other, so that the error can name every broken rule at once (`answers.Broken`).

That each row was counted once is checked above this, for all engines: see `Engine`.
Where the cells might be too many for one machine, executors of Spark publish them themselves: see
`hushtable.engine.spark.writing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import lazy_loader
import numpy as np

from hushtable.engine.baskets import (
    ItemGroups,
    ItemPairs,
    LongTableQuery,
    TupleLimits,
    Tuples,
    listed_sizes,
    missing_codes,
)
from hushtable.engine.cells import Counts, OccupiedCells, WrittenParts
from hushtable.engine.engine import Engine, not_once, person_break
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.engine.sources.source import PERSON, TableSource
from hushtable.engine.spark.spark_source import SparkSource
from hushtable.engine.spark.writing import publish_on_executors
from hushtable.engine.sql.baskets import (
    count_pairs,
    count_sizes,
    count_tuples,
    listed_elements,
    wide_elements,
)
from hushtable.engine.sql.marginals import broken_rules, count_each, count_groups
from hushtable.engine.sql.results import (
    RuleBreakCounts,
    check_some_rows,
    count_cells,
    n_rows,
    tally,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, recoded_domain

ibis = lazy_loader.load("ibis")

MAX_CELLS = 20_000_000  # occupied cells fetched in one answer


class SqlEngine(Engine):
    """Engine that counts in DuckDB or Spark; only codes and counts are fetched.

    `coded` reads the table and encodes its rows: codes, and the person of each row (`PERSON`).
    """

    def __init__(self, coded: Callable[[], TableSource], schema: Schema) -> None:
        super().__init__(schema)
        self._coded = coded
        self._elements: dict[object, TableSource] = {}

    # --- the rows that count ----------------------------------------------------------------------

    @cached_property
    def _all(self) -> TableSource:
        """All rows, encoded; raises an error if a lookup lost or duplicated one."""
        coded = self._coded()
        if coded.origin is None:
            return coded
        n_raw = n_rows(coded.origin, coded.origin.table)
        # What Spark counts is compared with the raw rows (`n_rows`), which saves a scan.
        compared_later = isinstance(coded, SparkSource) and self.schema.unit.column is None
        if not compared_later and n_rows(coded, coded.table) != n_raw:
            raise not_once(list(self.schema.attributes))
        check_some_rows(coded.origin, self.schema, n_raw)
        return coded if compared_later else replace(coded, origin=None)

    @cached_property
    def _rows(self) -> TableSource:
        """The rows that count; chosen once, so that all answers are about the same rows."""
        person, max_rows = self.schema.unit.column, self.schema.unit.max_rows
        if person is None or max_rows is None:
            return self._all
        if not self._n_nobody() and self._most_rows() <= max_rows:
            return self._all  # no person has too many rows, and ranking is slower than counting
        return self._chosen(max_rows)

    def _chosen(self, max_rows: int) -> TableSource:
        """Choose at most `max_rows` rows of each person; drop rows without a person.

        The engine's own random numbers suffice: the promise holds for every outcome of random
        numbers that do not depend on the data, and rows are only ranked within a person.
        """
        places = {f"c{position}": name for position, name in enumerate(self.schema.attributes)}
        rows = self._all.select({"person": PERSON, **places})
        rows = rows.filter(rows.person.notnull())
        drawn = rows.mutate(coin=ibis.random())
        ranked = drawn.mutate(
            place=ibis.row_number().over(group_by=drawn.person, order_by=drawn.coin)
        )
        kept = ranked.filter(ranked.place < max_rows).select("person", *places)
        columns = {name: place for place, name in places.items()}
        return self._all.keep(kept, {**columns, PERSON: "person"}, drawn=True)

    def _most_rows(self) -> int:
        """Return the maximum number of rows of a person; private, for internal use."""
        sizes = self._all.select({"person": PERSON}).group_by("person").agg(n=ibis._.count())
        return int(self._all.fetch(sizes.agg(most=sizes.n.max()))["most"][0].as_py() or 0)

    def _n_nobody(self) -> int:
        if self.schema.unit.column is None:
            return 0
        rows = self._all.select({"person": PERSON})
        return n_rows(self._all, rows.filter(rows.person.isnull()))

    def n_rows(self) -> int:
        """Count the rows."""
        return self._n_counted

    @cached_property
    def _n_counted(self) -> int:
        rows = self._rows.origin or self._rows
        return n_rows(rows, rows.table)

    # --- cells ------------------------------------------------------------------------------------

    def _histograms(self, columns: Sequence[str], by: str | None) -> dict[str, Counts]:
        sizes, broken = self.schema.domain.sizes, RuleBreakCounts(self.schema)
        answer: dict[str, Counts] = {}
        for name, codes, counts in count_each(self._rows, columns, by=by):
            names = [name] if by is None else [name, by]
            fine = broken.set_aside(names, codes, counts)
            answer[name] = np.zeros([sizes[n] for n in names], np.int64)
            answer[name][tuple(codes[fine].T)] = counts[fine]
        broken.refuse()
        return answer

    def _counts(self, columns: Sequence[str], recode: Mapping[str, Recoding]) -> OccupiedCells:
        domain = recoded_domain(self.schema, columns, recode)
        codes, counts = count_cells(self._rows, domain, recode, most=MAX_CELLS)
        broken = RuleBreakCounts(self.schema)
        broken.set_aside(columns, codes, counts)
        broken.refuse()
        return OccupiedCells(domain, codes, counts)

    def _executors(
        self, columns: Sequence[str], recode: Mapping[str, Recoding], noise: Noise
    ) -> Callable[..., WrittenParts] | None:
        domain = recoded_domain(self.schema, columns, recode)
        # A seeded run is for comparing engines: one machine, one order of draws.
        if domain.size <= MAX_CELLS or not noise.is_private:
            return None
        rows = self._rows
        if not isinstance(rows, SparkSource):
            return None
        broken_rules(rows, self.schema, columns).refuse()
        query, wide = tally(rows, domain, recode)
        return partial(
            publish_on_executors, rows, query, domain=domain, wide=wide, n_rows=self.n_rows
        )

    def _marginals(
        self,
        groups: Sequence[Sequence[str]],
        shapes: Sequence[tuple[int, ...]],
        recode: Mapping[str, Recoding],
    ) -> list[Counts]:
        return count_groups(self._rows, self.schema, groups, shapes, recode)

    # --- tuples and pairs of items ----------------------------------------------------------------

    def _wide_tuples(
        self, groups: ItemGroups, recode: Mapping[str, Recoding], bounds: TupleLimits
    ) -> Tuples:
        elements = wide_elements(self._rows, self.schema, groups, recode)
        sizes = len(self.schema.attributes), missing_codes(self.schema, recode)[1]
        counted = count_tuples(elements, groups, bounds, sizes)
        return replace(counted, n_records=self.n_rows())

    def _listed_tuples(
        self, groups: ItemGroups, listed: LongTableQuery, bounds: TupleLimits
    ) -> Tuples:
        sizes = listed_sizes(self.schema, listed.item_columns, listed.recode)
        return count_tuples(self._listed_elements(listed), groups, bounds, sizes)

    def _pairs(self, listed: LongTableQuery, items: Sequence[int] | None) -> ItemPairs:
        elements = self._listed_elements(listed)
        n_items = self.schema.attributes[listed.item_columns.item].n_values
        return count_pairs(elements, elements.table, n_items=n_items, items=items)

    def _sizes(self, listed: LongTableQuery) -> Counts:
        elements = self._listed_elements(listed)
        return count_sizes(elements, elements.table)

    def _listed_elements(self, listed: LongTableQuery) -> TableSource:
        """Return the elements of persons, chosen once for all queries with the same bounds."""
        asked = (listed.item_columns, listed.max_values, tuple(listed.recode.items()))
        if asked not in self._elements:
            self._elements[asked] = listed_elements(self._rows, self.schema, *listed)
        return self._elements[asked]

    # --- for the custodian ------------------------------------------------------------------------

    def rule_breaks(self) -> list[RuleBreak]:
        """Return all broken rules, and the rows without a person, for the custodian."""
        breaks = broken_rules(self._all, self.schema, list(self.schema.attributes)).breaks()
        n_nobody = self._n_nobody()
        return [*breaks, person_break(self.schema, n_nobody)] if n_nobody else breaks
