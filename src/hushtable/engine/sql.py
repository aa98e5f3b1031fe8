"""Counts from a table that stays where it is: DuckDB, Spark, or whatever ibis speaks to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import ibis
import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.engine.base import Cells, Counts, RuleBreak
from hushtable.engine.encode import Expression, encode, encodes_cheaply, is_missing
from hushtable.engine.rules import (
    N_RULES,
    person_break,
    refuse_broken,
    require_columns,
    require_dense,
    rule_breaks,
)
from hushtable.engine.source import Source
from hushtable.errors import TooLarge
from hushtable.recoding import Recoding, recoded_domain
from hushtable.schema import Schema

MAX_CELLS = 20_000_000  # occupied cells fetched in one answer


class SqlEngine:
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

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self._schema

    @cached_property
    def _places(self) -> dict[str, str]:
        return {name: f"c{position}" for position, name in enumerate(self._schema.attributes)}

    @cached_property
    def _all(self) -> Expression:
        """All rows, raw, columns renamed."""
        return self._source.select({place: name for name, place in self._places.items()})

    @cached_property
    def _rows(self) -> Expression:
        """The rows that count, raw; chosen once, so that all answers are about the same rows."""
        person, max_rows = self._schema.unit.column, self._schema.unit.max_rows
        if person is None or max_rows is None:
            return self._all
        n_nobody = self._n_nobody()
        if n_nobody:
            refuse_broken([person_break(self._schema, n_nobody)])
        raw = self._source.select(
            {"person": person, **{place: name for name, place in self._places.items()}}
        )
        # The engine's own random numbers suffice: the promise holds for every outcome of coins
        # that do not depend on the data, and a person's rows are ranked among themselves only.
        drawn = raw.mutate(coin=ibis.random())
        ranked = drawn.mutate(
            place=ibis.row_number().over(group_by=drawn.person, order_by=drawn.coin)
        )
        kept = ranked.filter(ranked.place < max_rows)
        return self._source.cached(kept.select(*self._places.values()))

    def _n_nobody(self) -> int:
        person = self._schema.unit.column
        if person is None:
            return 0
        raw = self._source.select({"person": person})
        nobody = raw.filter(is_missing(raw.person, self._schema.missing_values))
        return _one(self._source, nobody)

    def n_rows(self) -> int:
        """Count the rows."""
        return _one(self._source, self._rows)

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Counts]:
        """Count each value of each column; with `by`, an array (value, value of `by`)."""
        require_columns(self._schema, columns, by=by)
        require_dense(self._schema, columns, by=by)
        asked = [[name] if by is None else [name, by] for name in columns]
        sizes = self._schema.domain.sizes
        answer: dict[str, Counts] = {}
        broken: dict[tuple[str, int], int] = {}
        for names, keys, counts in self._tallies(self._rows, asked):
            codes = _unpack(_wide(Domain({n: sizes[n] for n in dict.fromkeys(names)})), keys)
            _note_broken(broken, list(dict.fromkeys(names)), codes, counts)
            shape = [sizes[name] for name in names]
            histogram = np.zeros(shape, np.int64)
            fine = (codes >= 0).all(axis=1)
            places = [codes[fine, 0], codes[fine, -1]][: len(names)]
            histogram[tuple(places)] = counts[fine]
            answer[names[0]] = histogram
        self._refuse(broken)
        return answer

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> Cells:
        """Count the occupied cells of some columns, recoded first where a recoding is given."""
        require_columns(self._schema, columns)
        domain = recoded_domain(self._schema, columns, recode)
        places = {self._places[name]: name for name in columns}
        rows = encode(self._rows.select(*places), self._schema, places, recode=recode)
        wide = _wide(domain)
        keys = _packed(rows, list(places), wide)
        tally = rows.select(**keys).group_by(list(keys)).agg(n=ibis._.count())
        table = self._source.fetch(tally.limit(MAX_CELLS + 1))
        if len(table) > MAX_CELLS:
            raise TooLarge(
                f"more than {MAX_CELLS} cells are occupied; generalize, or ask for fewer columns."
            )
        packed = np.stack([table[key].to_numpy() for key in keys], axis=1)
        order = np.lexsort(packed.T[::-1]) if len(keys) > 1 else np.argsort(packed[:, 0])
        codes, counts = _unpack(wide, packed[order]), table["n"].to_numpy()[order]
        broken: dict[tuple[str, int], int] = {}
        _note_broken(broken, columns, codes, counts)
        self._refuse(broken)
        return Cells(domain, codes, counts.astype(np.int64))

    def rule_breaks(self) -> list[RuleBreak]:
        """List every broken rule of the whole table, for the custodian."""
        broken: dict[tuple[str, int], int] = {}
        asked = [[name] for name in self._schema.attributes]
        for (name,), keys, counts in self._tallies(self._all, asked, only_broken=True):
            _note_broken(broken, [name], keys - N_RULES, counts)
        breaks = rule_breaks(self._schema, [(*key, n) for key, n in broken.items()])
        n_nobody = self._n_nobody()
        return [*breaks, person_break(self._schema, n_nobody)] if n_nobody else breaks

    def _refuse(self, broken: Mapping[tuple[str, int], int]) -> None:
        refuse_broken(rule_breaks(self._schema, [(*key, n) for key, n in broken.items()]))

    def _tallies(
        self, rows: Expression, asked: Sequence[Sequence[str]], *, only_broken: bool = False
    ) -> list[tuple[Sequence[str], NDArray[np.int64], Counts]]:
        """Count the (packed) codes of several small sets of columns, in one query."""
        branches = []
        for position, names in enumerate(asked):
            tally = self._tally(rows, list(dict.fromkeys(names)))
            if only_broken:
                tally = tally.filter(tally.key < N_RULES)
            branches.append(tally.mutate(question=ibis.literal(position, "int32")))
        query = branches[0] if len(branches) == 1 else ibis.union(*branches)
        table = self._source.fetch(query)
        questions = table["question"].to_numpy()
        keys = table["key"].to_numpy().astype(np.int64)
        counts = table["n"].to_numpy().astype(np.int64)
        return [
            (names, keys[questions == position][:, None], counts[questions == position])
            for position, names in enumerate(asked)
        ]

    def _tally(self, rows: Expression, names: Sequence[str]) -> Expression:
        places = {self._places[name]: name for name in names}
        raw = rows.select(*places)
        attributes = self._schema.attributes
        cheap = all(
            encodes_cheaply(raw[place].type(), attributes[name]) for place, name in places.items()
        )
        grouped = (
            raw.mutate(n=ibis.literal(1, "int64"))
            if cheap
            else raw.group_by(list(places)).agg(n=ibis._.count())
        )
        codes = encode(grouped, self._schema, places)
        wide = _wide(self._schema.domain.project(names))
        (key,) = _packed(codes, list(places), wide).values()  # small enough to be dense: one limb
        codes = codes.select("n", key=key)
        return codes.group_by("key").agg(n=codes.n.sum().cast("int64"))


def _one(source: Source, rows: Expression) -> int:
    return int(source.fetch(rows.agg(n=ibis._.count()))["n"][0].as_py())


def _wide(domain: Domain) -> Domain:
    """Make room below zero for the codes of broken rules."""
    return Domain({name: size + N_RULES for name, size in domain.sizes.items()})


def _packed(rows: Expression, places: Sequence[str], wide: Domain) -> dict[str, Expression]:
    """Pack codes into one 63-bit key per limb: grouping by one number is fastest."""
    keys = {}
    for number, run in enumerate(wide.limbs):
        key = None
        for position in range(run.start, run.stop):
            code = rows[places[position]] + N_RULES
            key = code if key is None else key * wide.shape[position] + code
        keys[f"key{number}"] = key
    return keys


def _unpack(wide: Domain, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    return wide.unpack(keys) - N_RULES


def _note_broken(
    broken: dict[tuple[str, int], int],
    names: Sequence[str],
    codes: NDArray[np.int64],
    counts: Counts,
) -> None:
    for position, name in enumerate(names):
        for rule in range(-N_RULES, 0):
            n_rows = int(counts[codes[:, position] == rule].sum())
            # The same rows are seen again where a column is asked for twice, as with `by`.
            broken[name, rule] = max(broken.get((name, rule), 0), n_rows)
