"""Counts from a table that DuckDB or Spark reads; both are asked through ibis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.engine.arrow_codes import Encoded
from hushtable.engine.base import RuleBreak
from hushtable.engine.baskets import (
    ItemColumns,
    ItemGroups,
    Pairs,
    Tuples,
    listed_sizes,
    missing_codes,
)
from hushtable.engine.cells import Cells, Counts
from hushtable.engine.checked import CheckedEngine
from hushtable.engine.published import Keys, Parts, RowsOf, Whole
from hushtable.engine.rules import (
    N_RULES,
    person_break,
    refuse_broken,
    require_columns,
    rule_breaks,
)
from hushtable.engine.source import POSITION, Source
from hushtable.engine.spark.source import SparkSource
from hushtable.engine.spark.writing import publish_on_executors
from hushtable.engine.sql import baskets as sql_baskets
from hushtable.engine.sql.blocks import add_up, cover
from hushtable.engine.sql.encode import (
    Expression,
    RuleCodes,
    as_text,
    encode,
    is_missing,
    listed_codes,
    numeric_code,
    read_number,
)
from hushtable.privacy.noise import Noise
from hushtable.recoding import Recoding, recoded_domain
from hushtable.schema import Categorical, Column, Integer, Number, Schema

ibis = lazy_loader.load("ibis")

MAX_CELLS = 20_000_000  # occupied cells fetched in one answer
BLOCKS_PER_QUERY = 16  # a query of more is slow to plan


class SqlEngine(CheckedEngine):
    """Count where the rows are; only codes and counts travel.

    Parameters
    ----------
    source : Source
        The opened table.
    schema : Schema
        The rules.
    """

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._schema = source, schema
        self._elements: dict[object, Source] = {}

    @cached_property
    def _all(self) -> Source:
        """All rows, of one moment."""
        source = self._source.here(self._wanted)
        if not source.copied:
            return source
        places = {f"c{position}": name for position, name in enumerate(self._wanted)}
        kept = {name: place for place, name in places.items()}
        return source.keep(source.select(places), kept, drawn=True)

    @property
    def _wanted(self) -> list[str]:
        person = self._schema.unit.column
        return [*self._schema.attributes, *([] if person is None else [person])]

    @cached_property
    def _rows(self) -> Source:
        """The rows that count; chosen once, so that all answers are about the same rows."""
        person, max_rows = self._schema.unit.column, self._schema.unit.max_rows
        if person is None or max_rows is None:
            return self._all
        if not self._n_nobody() and self._most_rows(person) <= max_rows:
            return self._all  # ranking the rows would keep them all, and cost more than counting
        places = {f"c{position}": name for position, name in enumerate(self._schema.attributes)}
        # The engine's own random numbers suffice: the promise holds for every outcome of coins
        # that do not depend on the data, and a person's rows are ranked among themselves only.
        rows = self._all.select({"person": person, **places})
        rows = rows.filter(~is_missing(rows.person, self._schema.missing_values))
        drawn = rows.mutate(coin=ibis.random())
        ranked = drawn.mutate(
            place=ibis.row_number().over(group_by=drawn.person, order_by=drawn.coin)
        )
        kept = ranked.filter(ranked.place < max_rows).select("person", *places)
        columns = {name: place for place, name in places.items()}
        return self._all.keep(kept, {**columns, person: "person"}, drawn=True)

    def _most_rows(self, person: str) -> int:
        """Count the rows of the person who has most; for the engine's own use."""
        sizes = self._all.select({"person": person}).group_by("person").agg(n=ibis._.count())
        return int(self._all.fetch(sizes.agg(most=sizes.n.max()))["most"][0].as_py() or 0)

    def _n_nobody(self) -> int:
        person = self._schema.unit.column
        if person is None:
            return 0
        raw = self._all.select({"person": person})
        nobody = is_missing(raw.person, self._schema.missing_values)
        return _n_rows(self._all, raw.filter(nobody))

    def n_rows(self) -> int:
        """Count the rows."""
        return self._n_counted

    @cached_property
    def _n_counted(self) -> int:
        return _n_rows(self._rows, self._rows.table)

    def _histograms(self, columns: Sequence[str], by: str | None) -> dict[str, Counts]:
        sizes = self._schema.domain.sizes
        broken = Broken()
        answer: dict[str, Counts] = {}
        for name, codes, counts in self._one_way(self._rows, columns, by=by):
            names = [name] if by is None else [name, by]
            fine = broken.set_aside(names, codes, counts)
            answer[name] = np.zeros([sizes[n] for n in names], np.int64)
            answer[name][tuple(codes[fine].T)] = counts[fine]
        refuse_broken(broken.breaks(self._schema))
        return answer

    def _counts(self, columns: Sequence[str], recode: Mapping[str, Recoding]) -> Cells:
        domain = recoded_domain(self._schema, columns, recode)
        codes, counts = self._cells(columns, domain, recode)
        broken = Broken()
        broken.set_aside(columns, codes, counts)
        refuse_broken(broken.breaks(self._schema))
        return Cells(domain, codes, counts)

    def publish_cells(
        self,
        columns: Sequence[str],
        rows_of: RowsOf,
        noise: Noise,
        *,
        recode: Mapping[str, Recoding] | None = None,
        also: Keys | Whole | None = None,
    ) -> pa.Table | Parts:
        """Make the rows to be published from the occupied cells, each with noise of its own."""
        require_columns(self._schema, columns)
        domain = recoded_domain(self._schema, columns, recode)
        # A seeded run is for comparing engines: one machine, one order of draws.
        if not (isinstance(self._source, SparkSource) and noise.is_private) or (
            domain.size <= MAX_CELLS
        ):
            return super().publish_cells(columns, rows_of, noise, recode=recode, also=also)
        broken = Broken()
        for name, codes, counts in self._one_way(self._rows, columns, only_broken=True):
            broken.set_aside([name], codes, counts)
        refuse_broken(broken.breaks(self._schema))
        tally, wide = self._tally(columns, domain, recode)
        rows = self._rows
        assert isinstance(rows, SparkSource)  # noqa: S101 - what is kept of one is one
        return publish_on_executors(
            rows, tally, rows_of, noise, domain=domain, wide=wide, also=also, n_rows=self.n_rows
        )

    def _marginals(
        self,
        groups: Sequence[Sequence[str]],
        shapes: Sequence[tuple[int, ...]],
        recode: Mapping[str, Recoding],
    ) -> list[Counts]:
        """Count several groups in each scan.

        Rows are encoded once. Groups are covered by few blocks of columns whose occupied cells
        are counted, several blocks in one query, and added up here.
        """
        columns = list(dict.fromkeys(name for group in groups for name in group))
        sizes = recoded_domain(self._schema, columns, recode).sizes
        places = {f"c{position}": name for position, name in enumerate(columns)}
        place_of = {name: place for place, name in places.items()}
        coded = encode(self._rows.select(places), self._schema, places, recode=recode)
        kept = self._rows.keep(_narrowed(coded, places, sizes), {})
        rows, broken = kept.table, Broken()
        answers: list[Counts] = [np.empty(0, np.int64)] * len(groups)
        blocks = cover(groups, sizes)
        for start in range(0, len(blocks), BLOCKS_PER_QUERY):
            batch = blocks[start : start + BLOCKS_PER_QUERY]
            # Room below zero for the codes of broken rules.
            wide = [Domain({name: sizes[name] + N_RULES for name in b.columns}) for b in batch]
            parts = []
            for number, (block, domain) in enumerate(zip(batch, wide, strict=True)):
                key = _packed(rows, [place_of[name] for name in block.columns], domain.shape)
                tally = rows.select(key=key).group_by("key").agg(n=ibis._.count())
                parts.append(tally.select("key", "n", number=ibis.literal(number, "int32")))
            answer = kept.fetch(_union(parts))
            of_block, counts = _integers(answer["number"]), _integers(answer["n"])
            keys = _integers(answer["key"])
            for number, (block, domain) in enumerate(zip(batch, wide, strict=True)):
                mine = of_block == number
                codes = domain.unpack(keys[mine, None]) - N_RULES
                fine = broken.set_aside(block.columns, codes, counts[mine])
                for group in block.groups:
                    answers[group] = add_up(
                        block.columns, codes[fine], counts[mine][fine], groups[group], shapes[group]
                    )
        refuse_broken(broken.breaks(self._schema))
        return answers

    def _wide_tuples(
        self, groups: ItemGroups, recode: Mapping[str, Recoding], *, max_groups: int, at_least: int
    ) -> Tuples:
        elements = self._wide_elements(groups, recode)
        n_items, n_values = len(self._schema.attributes), missing_codes(self._schema, recode)[1]
        counted = sql_baskets.count_tuples(
            elements, elements.table, groups, max_groups=max_groups, at_least=at_least,
            n_items=n_items, n_values=n_values,
        )  # fmt: skip
        return replace(counted, n_records=self.n_rows())

    def _listed_tuples(
        self,
        groups: ItemGroups,
        listing: ItemColumns,
        max_values: int | None,
        recode: Mapping[str, Recoding],
        *,
        max_groups: int,
        at_least: int,
    ) -> Tuples:
        elements = self._listed_elements(listing, max_values, recode)
        n_items, n_values = listed_sizes(self._schema, listing, recode)
        return sql_baskets.count_tuples(
            elements, elements.table, groups, max_groups=max_groups, at_least=at_least,
            n_items=n_items, n_values=n_values,
        )  # fmt: skip

    def _pairs(
        self,
        listing: ItemColumns,
        items: Sequence[int] | None,
        max_values: int | None,
        recode: Mapping[str, Recoding],
    ) -> Pairs:
        elements = self._listed_elements(listing, max_values, recode)
        n_items = self._schema.attributes[listing.item].n_values
        return sql_baskets.count_pairs(elements, elements.table, n_items=n_items, items=items)

    def _listed_elements(
        self, listing: ItemColumns, max_values: int | None, recode: Mapping[str, Recoding]
    ) -> Source:
        """Give the elements of people: chosen once, for all questions with the same bounds."""
        asked = (listing, max_values, tuple(recode.items()))
        if asked not in self._elements:
            self._elements[asked] = self._choose_elements(listing, max_values, recode)
        return self._elements[asked]

    def _choose_elements(
        self, listing: ItemColumns, max_values: int | None, recode: Mapping[str, Recoding]
    ) -> Source:
        places = {"item": listing.item, "value": listing.value}
        broken = Broken()
        for name, codes, counts in self._one_way(self._rows, [*places.values()], only_broken=True):
            broken.set_aside([name], codes, counts)
        refuse_broken(broken.breaks(self._schema))
        rows = self._rows.select({"owner": self._schema.unit.column or "", **places})
        for place, name in places.items():
            # A table of few different values is encoded, and rows look their codes up. NULL finds
            # none: it is no value, and has the code of that.
            distinct = rows.select(**{f"{place}_raw": rows[place], place: rows[place]}).distinct()
            codes = encode(distinct, self._schema, {place: name}, recode=recode)
            missing = (recode.get(name) or self._schema.attributes[name]).missing_code
            if missing is not None:
                codes = codes.filter(codes[place] != missing)
            rows = rows.rename({f"{place}_raw": place})
            if missing is not None:
                rows = rows.join(codes, f"{place}_raw")
                continue
            rows = rows.left_join(codes, f"{place}_raw")
            rules, recoding = RuleCodes.of(self._schema.attributes[name]), recode.get(name)
            rules = rules if recoding is None else rules.recoded(recoding)
            rows = rows.mutate(**{place: rows[place].fill_null(rules.no_value)})
        rows = rows.select("owner", *places)
        kept = sql_baskets.at_most(sql_baskets.each_item_once(rows), max_values)
        return self._rows.keep(kept, {}, drawn=max_values is not None)

    def _wide_elements(self, groups: ItemGroups, recode: Mapping[str, Recoding]) -> Source:
        """Give the elements of rows, which are numbered once."""
        names = list(self._schema.attributes)
        missing, _ = missing_codes(self._schema, recode)
        items = sorted({item for group in groups for item in group})
        places = {f"c{item}": names[item] for item in items}
        coded = encode(self._rows.select(places), self._schema, places, recode=recode)
        numbered = self._rows.keep_numbered(coded, "owner")
        rows = numbered.table
        parts = []
        for item in items:
            part = rows.select("owner", item=ibis.literal(item, "int64"), value=rows[f"c{item}"])
            parts.append(part.filter(part.value != int(missing[item])))
        elements = _union(parts)
        wrong = elements.filter(elements.value < 0).group_by(["item", "value"])
        found = numbered.fetch(wrong.agg(n=ibis._.count()))
        broken = Broken()
        for item in items:
            here = _integers(found["item"]) == item
            codes = _integers(found["value"])[here, None]
            broken.set_aside([names[item]], codes, _integers(found["n"])[here])
        refuse_broken(broken.breaks(self._schema))
        return numbered.keep(elements, {})

    def rule_breaks(self) -> list[RuleBreak]:
        """List every broken rule, and rows of nobody, of the whole table, for the custodian."""
        broken = Broken()
        everything = list(self._schema.attributes)
        for name, codes, counts in self._one_way(self._all, everything, only_broken=True):
            broken.set_aside([name], codes, counts)
        n_nobody = self._n_nobody()
        breaks = broken.breaks(self._schema)
        return [*breaks, person_break(self._schema, n_nobody)] if n_nobody else breaks

    def _cells(
        self, columns: Sequence[str], domain: Domain, recode: Mapping[str, Recoding] | None
    ) -> tuple[NDArray[np.int64], Counts]:
        """Count combinations of codes, those of broken rules included, in order.

        Rows are encoded first and then grouped by packed keys: measured on nine columns of text,
        this takes a third of the time of grouping by the texts.
        """
        tally, wide = self._tally(columns, domain, recode)
        table = self._rows.fetch(tally, most=MAX_CELLS if wide.size > MAX_CELLS else None)
        packed = np.stack([_integers(table[f"key{at}"]) for at in range(len(wide.limbs))], axis=1)
        order = np.lexsort(packed.T[::-1]) if packed.shape[1] > 1 else np.argsort(packed[:, 0])
        return wide.unpack(packed[order]) - N_RULES, _integers(table["n"])[order]

    def _tally(
        self, columns: Sequence[str], domain: Domain, recode: Mapping[str, Recoding] | None
    ) -> tuple[Expression, Domain]:
        """Give a query for keys and counts, and the domain that packs the keys."""
        places = {f"c{position}": name for position, name in enumerate(columns)}
        rows = encode(self._rows.select(places), self._schema, places, recode=recode)
        # Room below zero for the codes of broken rules.
        wide = Domain({name: size + N_RULES for name, size in domain.sizes.items()})
        keys = {
            f"key{limb}": _packed(rows, list(places)[run], wide.shape[run])
            for limb, run in enumerate(wide.limbs)
        }
        return rows.select(**keys).group_by(list(keys)).agg(n=ibis._.count()), wide

    def _one_way(
        self,
        rows: Source,
        columns: Sequence[str],
        *,
        by: str | None = None,
        only_broken: bool = False,
    ) -> list[tuple[str, NDArray[np.int64], Counts]]:
        """Count the codes of each column, or its pairs of codes with `by`, in one query.

        Raw values are grouped first, which engines do fastest, and only the groups are encoded.
        The groups of all columns are encoded together, with the rules as a table: an expression
        of its own for each column would take longer to compile than a million rows to count.
        """
        attributes, missing_values = self._schema.attributes, self._schema.missing_values
        texts, coded = [], []
        wholes: dict[Any, list[Expression]] = {}  # by type, so that each type is read once
        with_by: dict[str, Expression] = {}
        if by is not None:
            with_by["by"], by_measured = self._groupable(rows, by)
        for number, name in enumerate(columns):
            column = attributes[name]
            raw, measured = self._groupable(rows, name)
            groups = rows.table.group_by(raw=raw, **with_by).agg(n=ibis._.count())
            asked = {"number": ibis.literal(number, "int32"), "n": groups.n}
            asked |= {key: groups[key] for key in with_by}
            if measured:
                coded.append(groups.select(**asked, code=groups.raw))
            elif isinstance(column, Number):
                code = numeric_code(groups.raw, column, missing_values)
                coded.append(groups.select(**asked, code=code))
            elif isinstance(column, Integer):
                same = wholes.setdefault(groups.raw.type(), [])
                same.append(groups.select(**asked, raw=groups.raw))
            else:
                listed = (*column.values, *missing_values)
                texts.append(groups.select(**asked, text=as_text(groups.raw, listed)))

        rules = _rules_table([attributes[name] for name in columns])
        if texts:
            known = _known_table([attributes[name] for name in columns], missing_values)
            joined = _union(texts).join(rules, "number").left_join(known, ["number", "text"])
            code = _rules_of(joined).listed_code(joined.text, joined.known)
            coded.append(joined.select("number", "n", *with_by, code=code))
        for same in wholes.values():
            joined = _union(same).join(rules, "number")
            code = _rules_of(joined).integer_code(read_number(joined.raw, missing_values))
            coded.append(joined.select("number", "n", *with_by, code=code))
        codes = _union([part.select("number", "n", "code", *with_by) for part in coded])
        if by is not None and not by_measured:
            codes = encode(codes, self._schema, {"by": by})
        if only_broken:
            codes = codes.filter(codes.code < 0)
        keys = ["code", *with_by]
        tally = codes.group_by(["number", *keys]).agg(n=codes.n.sum().cast("int64"))
        answer = rows.fetch(tally)
        numbers, counts = _integers(answer["number"]), _integers(answer["n"])
        found = np.stack([_integers(answer[key]) for key in keys], axis=1)
        of_column = [numbers == number for number in range(len(columns))]
        return [
            (name, found[part], counts[part]) for name, part in zip(columns, of_column, strict=True)
        ]

    def _groupable(self, rows: Source, name: str) -> tuple[Expression, bool]:
        """Give a raw column, or its codes where too many raw values would differ; and which."""
        column, raw = self._schema.attributes[name], rows.table[rows.columns[name]]
        if isinstance(column, Number) and not raw.type().is_string():
            # Grouping measurements as they are would make nearly as many groups as rows.
            return numeric_code(raw, column, self._schema.missing_values), True
        return raw, False


def _union(tables: Sequence[Expression]) -> Expression:
    return tables[0] if len(tables) == 1 else ibis.union(*tables)


def _rules_table(columns: Sequence[Column]) -> Expression:
    """Write the rules of columns as a table, one row for each."""
    rules = [RuleCodes.of(column) for column in columns]
    content = {
        field.name: pa.array([getattr(rule, field.name) for rule in rules], pa.int64())
        for field in fields(RuleCodes)
    }
    content["number"] = pa.array(range(len(columns)), pa.int32())
    return ibis.memtable(pa.table(content))


def _rules_of(joined: Expression) -> RuleCodes:
    return RuleCodes(**{field.name: joined[field.name] for field in fields(RuleCodes)})


def _known_table(columns: Sequence[Column], missing_values: Sequence[str]) -> Expression:
    """Write the codes of listed texts as a table."""
    known = [
        (number, text, code)
        for number, column in enumerate(columns)
        if isinstance(column, Categorical)
        for text, code in listed_codes(column, missing_values).items()
    ]
    numbers, texts, codes = zip(*known, strict=True)
    return ibis.memtable(
        pa.table(
            {
                "number": pa.array(numbers, pa.int32()),
                "text": pa.array(texts, pa.string()),
                "known": pa.array(codes, pa.int64()),
            }
        )
    )


class Broken:
    """Gather the rows that break rules, over the parts of an answer."""

    def __init__(self) -> None:
        self._n_rows: dict[tuple[str, int], int] = {}

    def set_aside(
        self, names: Sequence[str], codes: NDArray[np.int64], counts: Counts
    ) -> NDArray[np.bool_]:
        """Note the cells that break rules; give back which ones do not."""
        fine: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
        codes, counts = codes[~fine], counts[~fine]
        for position, name in enumerate(names):
            for rule in range(-N_RULES, 0):
                # A column that is part of several answers (`by`) has the same rows in each.
                self._n_rows[name, rule] = int(counts[codes[:, position] == rule].sum())
        return fine

    def breaks(self, schema: Schema) -> list[RuleBreak]:
        """List the broken rules."""
        return rule_breaks(schema, [(*key, n_rows) for key, n_rows in self._n_rows.items()])


def _n_rows(source: Source, rows: Expression) -> int:
    return int(source.fetch(rows.agg(n=ibis._.count()))["n"][0].as_py())


def _packed(rows: Expression, places: Sequence[str], sizes: Sequence[int]) -> Expression:
    """Pack codes into one 63-bit key: grouping by one number is fastest."""
    key = rows[places[0]].cast("int64") + N_RULES
    for place, size in zip(places[1:], sizes[1:], strict=True):
        key = key * size + (rows[place].cast("int64") + N_RULES)
    return key.cast("int64")


def _narrowed(rows: Expression, places: Mapping[str, str], sizes: Mapping[str, int]) -> Expression:
    """Keep codes in as few bytes as they need."""
    return rows.select(
        **{
            place: rows[place].cast("int8" if sizes[name] < 1 << 7 else "int32")
            for place, name in places.items()
        }
    )


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), np.int64)


def encoded_rows(source: Source, schema: Schema) -> Encoded:
    """Have all rows encoded where they are, and fetch their codes."""
    places = {f"c{position}": name for position, name in enumerate(schema.attributes)}
    person = schema.unit.column
    wanted = places if person is None else {**places, "person": person}
    source = source.here(list(dict.fromkeys(wanted.values())))
    raw = source.select(wanted, in_order=True)
    if person is not None:
        raw = raw.mutate(nobody=is_missing(raw.person, schema.missing_values))
    coded = encode(raw, schema, places)
    table = source.fetch(coded.mutate(**{place: coded[place].cast("int32") for place in places}))
    if POSITION in table.column_names:
        table = table.take(np.argsort(table[POSITION].to_numpy(), kind="stable"))
    codes = {name: np.asarray(table[place].to_numpy(), np.int32) for place, name in places.items()}
    if person is None:
        return Encoded(codes, None)
    names = table["person"].combine_chunks()
    if pa.types.is_floating(names.type):
        names = pa.array(names.to_numpy(zero_copy_only=False) + 0.0)  # -0.0 and 0.0 are one person
    numbers = names.dictionary_encode().indices
    persons = np.where(table["nobody"].to_numpy(), -1, numbers.fill_null(-1).to_numpy())
    return Encoded(codes, persons.astype(np.int32))
