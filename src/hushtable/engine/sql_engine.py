"""Engine that counts in DuckDB or Spark, through ibis.

Rows stay in the database: each request becomes one or a few queries over codes. Only codes and
counts are fetched, and a few random rows to check their codes. All requests are processed in the
same way:

- *Encode* (`SqlEngine._all`). DuckDB encodes the rows once, at the first query. So all answers are
  about the same rows even if the table changes, and no later query sees a raw value. Spark encodes
  them in each query, from files or from rows that were copied once (`SparkSource.coded`).
- *Select the rows that count* (`SqlEngine._rows`). With unit ``person``, at most ``max_rows`` rows
  of each person count.
- *Count packed codes* (`hushtable.engine.sql_counting`).
- *Report broken rules*. A row that the schema refuses has a negative code and is counted like any
  other, so that one error can list every broken rule (`RuleBreakCounts`).

`Engine` checks for all engines that each row was counted once. If the cells might be too many for
one machine, Spark executors publish them: see `hushtable.engine.spark.writing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

import lazy_loader

from hushtable.engine.baskets import (
    ItemGroups,
    ItemPairs,
    ItemQuery,
    TupleLimits,
    Tuples,
    listed_sizes,
    missing_codes,
)
from hushtable.engine.cells import ColumnGroups, Counts, OccupiedCells, Recodings, WrittenParts
from hushtable.engine.engine import Engine, not_once
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.engine.sources.source import PERSON, TableSource
from hushtable.engine.spark.spark_source import SparkSource
from hushtable.engine.spark.writing import publish_on_executors
from hushtable.engine.sql_counting import (
    broken_rules,
    check_some_rows,
    count_cells,
    count_groups,
    count_pairs,
    count_sizes,
    count_tuples,
    listed_elements,
    tally,
    wide_elements,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import recoded_domain

ibis = lazy_loader.load("ibis")

MAX_CELLS = 20_000_000  # occupied cells fetched in one answer


class SqlEngine(Engine):
    """Engine that counts in DuckDB or Spark.

    `coded` reads the table and encodes its rows: codes, and the person of each row (`PERSON`).
    """

    def __init__(self, coded: Callable[[], TableSource], schema: Schema) -> None:
        super().__init__(schema)
        self._coded = coded
        self._elements: dict[object, TableSource] = {}

    # --- the rows that count ----------------------------------------------------------------------

    @cached_property
    def _all(self) -> TableSource:
        """All rows, encoded; it is an error if a lookup lost or duplicated one."""
        coded = self._coded()
        if coded.origin is None:
            return coded
        # For Spark, each count is compared with the number of raw rows instead (`n_rows`), which
        # saves a scan.
        compared_later = isinstance(coded, SparkSource) and self.schema.unit.column is None
        if not compared_later:
            n_coded, n_raw = (one.scalar(one.table.count()) for one in (coded, coded.origin))
            if n_coded != n_raw:
                raise not_once(list(self.schema.attributes))
        check_some_rows(coded.origin, self.schema)
        return coded if compared_later else replace(coded, origin=None)

    @cached_property
    def _rows(self) -> TableSource:
        """The rows that count; chosen once, so that all answers are about the same rows."""
        person, max_rows = self.schema.unit.column, self.schema.unit.max_rows
        if person is None or max_rows is None:
            return self._all
        sizes = self._all.select({"person": PERSON}).group_by("person").agg(n=ibis._.count())
        if not self._n_nobody() and self._all.scalar(sizes.n.max()) <= max_rows:
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

    def _n_nobody(self) -> int:
        if self.schema.unit.column is None:
            return 0
        rows = self._all.select({"person": PERSON})
        return self._all.scalar(rows.filter(rows.person.isnull()).count())

    def n_rows(self) -> int:
        """Return the number of rows that count, after the limit per person."""
        return self._n_counted

    @cached_property
    def _n_counted(self) -> int:
        rows = self._rows.origin or self._rows
        return rows.scalar(rows.table.count())

    # --- cells ------------------------------------------------------------------------------------

    def _counts(self, columns: Sequence[str], recode: Recodings) -> OccupiedCells:
        return count_cells(self._rows, self.schema, columns, recode, most=MAX_CELLS)

    def _executors(
        self, columns: Sequence[str], recode: Recodings, noise: Noise
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
        self, groups: ColumnGroups, shapes: Sequence[tuple[int, ...]], recode: Recodings
    ) -> list[Counts]:
        return count_groups(self._rows, self.schema, groups, shapes, recode)

    # --- tuples and pairs of items ----------------------------------------------------------------

    def _tuples(self, groups: ItemGroups, query: ItemQuery, limits: TupleLimits) -> Tuples:
        if query.item_columns is None:
            elements = wide_elements(self._rows, self.schema, groups, query.recode)
            sizes = len(self.schema.attributes), missing_codes(self.schema, query.recode)[1]
        else:
            elements = self._listed_elements(query)
            sizes = listed_sizes(self.schema, query.item_columns, query.recode)
        return count_tuples(elements, groups, limits, sizes)

    def _pairs(self, query: ItemQuery, items: Sequence[int] | None) -> ItemPairs:
        assert query.item_columns is not None  # noqa: S101 - a long table
        n_items = self.schema.attributes[query.item_columns.item].n_values
        return count_pairs(self._listed_elements(query), n_items, items)

    def _sizes(self, query: ItemQuery) -> Counts:
        return count_sizes(self._listed_elements(query))

    def _listed_elements(self, query: ItemQuery) -> TableSource:
        """Return the elements of persons, chosen once for all queries with the same bounds."""
        asked = (query.item_columns, query.max_values, tuple(query.recode.items()))
        if asked not in self._elements:
            self._elements[asked] = listed_elements(self._rows, self.schema, query)
        return self._elements[asked]

    # --- for the custodian ------------------------------------------------------------------------

    def rule_breaks(self) -> list[RuleBreak]:
        """Return all broken rules, and the rows without a person, for the custodian."""
        broken = broken_rules(self._all, self.schema, list(self.schema.attributes))
        return broken.breaks(n_nobody=self._n_nobody())
