"""Checks of an engine: its answers against counting in plain Python.

`check_engine(make)` runs the whole battery; ``make(table, schema)`` opens an Arrow table with the
engine under test (from a file, a frame or a database).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine.baskets import ItemColumns, ItemGroups, Tuples
from hushtable.engine.engine import Engine
from hushtable.engine.rule_breaks import MISSING, OUTSIDE, UNREADABLE
from hushtable.errors import DataError, ParameterError, TooLarge
from hushtable.schema import Categorical, Column, Integer, Schema
from hushtable.schema.recoding import Recoding, recoded_domain, recodings
from seeds import shifted

Make = Callable[[pa.Table, Schema], Engine]

RULE_WORDS = {MISSING: "have no value", UNREADABLE: "cannot be read", OUTSIDE: "lie outside"}
MISSING_VALUES = ("", "?")


def code_by_hand(  # noqa: PLR0911, PLR0912 - one case after the other, as it is documented
    value: Any, column: Column, missing_values: Sequence[str]
) -> int:
    """Encode one value as documented in `hushtable.engine.encode`."""
    other = 0
    if column.other is not None:
        other = next(i for i in range(column.n_values) if column.value(i) == column.other)
    nothing = {"forbid": MISSING, "category": column.n_values, "other": other}[column.missing]
    unreadable = {
        "refuse": UNREADABLE,
        "clip": UNREADABLE if column.missing == "forbid" else nothing,
        "missing": nothing,
        "other": other,
    }[column.outside]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return nothing
    if isinstance(column, Categorical):
        if value in column.values:
            return column.values.index(value)
        if value in missing_values:
            return nothing
        return {"missing": nothing, "other": other, "refuse": OUTSIDE}[column.outside]
    if value in missing_values:
        return nothing
    number = value
    if isinstance(value, str):
        text = value.strip(" ")
        if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            number = int(text)
        elif re.fullmatch(r"[+-]?nan", text, re.IGNORECASE):
            return nothing
        elif re.fullmatch(r"[+-]?inf(inity)?", text, re.IGNORECASE) or re.fullmatch(
            r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII
        ):
            number = float(text)
        else:
            return unreadable
    if isinstance(column, Integer):
        if isinstance(number, float) and math.isfinite(number):
            if number != int(number):
                return unreadable
            number = int(number)
        if isinstance(number, float):  # infinite
            place = -1 if number < 0 else column.n_values
        else:
            place = number - column.low
    else:
        number = float(number)
        place = (number - column.low) / column.step + 0.5
        if math.isfinite(place):
            place = math.floor(place)
    if 0 <= place < column.n_values:
        return int(place)
    ends = 0 if place < 0 else column.n_values - 1
    return {"refuse": OUTSIDE, "clip": ends, "missing": nothing, "other": other}[column.outside]


def codes_by_hand(table: pa.Table, schema: Schema) -> dict[str, list[int]]:
    """Encode a whole table."""
    return {
        name: [code_by_hand(v, column, schema.missing_values) for v in table[name].to_pylist()]
        for name, column in schema.attributes.items()
    }


def assert_answers(
    engine: Engine,
    table: pa.Table,
    schema: Schema,
    *,
    by: str | None = None,
    recode: dict[str, Recoding] | None = None,
) -> None:
    """Compare every kind of answer with a count in plain Python."""  # fmt: skip
    codes = codes_by_hand(table, schema)
    names = list(schema.attributes)
    assert engine.schema == schema
    assert engine.rule_breaks() == []
    assert engine.n_rows() == table.num_rows

    histograms = engine.histograms(names)
    assert list(histograms) == names
    for name in names:
        expected = Counter(codes[name])
        assert histograms[name].dtype == np.int64
        assert histograms[name].tolist() == [
            expected[code] for code in range(schema.attributes[name].size)
        ]
    if by is not None:
        for name, answer in engine.histograms(names, by=by).items():
            pairs = Counter(zip(codes[name], codes[by], strict=True))
            sizes = schema.attributes[name].size, schema.attributes[by].size
            assert answer.shape == sizes
            assert answer.tolist() == [[pairs[i, j] for j in range(sizes[1])]
                                       for i in range(sizes[0])]  # fmt: skip

    for columns in (names[-1:], names[:3], names[::-1]):
        _assert_cells(engine, codes, columns, recode or {})
    small = [name for name in names if schema.attributes[name].size < 1000]
    if small:
        _assert_marginals(engine, codes, [small[-1:], small[:2], small[1::-1], small[:3]], recode)


def _assert_cells(
    engine: Engine,
    codes: dict[str, list[int]],
    columns: Sequence[str],
    recode: dict[str, Recoding],
) -> None:
    recoded = [
        recode[n].apply(np.array(codes[n], np.int64)).tolist() if n in recode else codes[n]
        for n in columns
    ]
    expected = sorted(Counter(zip(*recoded, strict=True)).items())
    cells = engine.counts(columns, recode=recode)
    assert cells.domain.names == tuple(columns)
    assert cells.codes.dtype == cells.counts.dtype == np.int64
    assert cells.codes.shape == (len(expected), len(columns))
    assert list(zip(map(tuple, cells.codes.tolist()), cells.counts.tolist(), strict=True)) == (
        expected
    )


def _assert_marginals(
    engine: Engine,
    codes: dict[str, list[int]],
    groups: Sequence[Sequence[str]],
    recode: dict[str, Recoding] | None,
) -> None:
    recode = recode or {}
    tables = engine.marginals(groups, recode=recode)
    assert len(tables) == len(groups)
    for group, table in zip(groups, tables, strict=True):
        columns = [
            recode[n].apply(np.array(codes[n], np.int64)).tolist() if n in recode else codes[n]
            for n in group
        ]
        expected = Counter(zip(*columns, strict=True))
        domain = recoded_domain(engine.schema, group, recode)
        assert table.shape == domain.shape
        assert table.dtype == np.int64
        assert table.sum() == len(codes[group[0]])
        assert all(table[cell] == n for cell, n in expected.items())


def assert_breaks(engine: Engine, table: pa.Table, schema: Schema) -> None:
    """Compare the broken rules with a count in plain Python, in lists and in errors."""
    expected = {
        (name, rule): column.count(rule)
        for name, column in codes_by_hand(table, schema).items()
        for rule in RULE_WORDS
        if rule in column
    }
    found = {
        (item.column, next(r for r, words in RULE_WORDS.items() if words in item.rule)): item.n_rows
        for item in engine.rule_breaks()
    }
    assert found == expected
    names = list(schema.attributes)
    broken = {name for name, _ in expected}
    for ask in (engine.histograms, engine.counts):
        with pytest.raises(DataError) as error:
            ask(names)
        assert list(error.value.problems) == [str(item) for item in engine.rule_breaks()]
    small = [name for name in names if schema.attributes[name].size < 1000]
    for ask in (
        lambda: engine.histograms(names, by=names[0]),
        lambda: engine.marginals([small[:2], *([name] for name in small)]),
    ):
        with pytest.raises(DataError) as error:
            ask()
        assert list(error.value.problems) == [str(item) for item in engine.rule_breaks()]
    for name in set(names) - broken:  # other columns can still be queried
        assert engine.histograms([name])[name].sum() == table.num_rows


# ---- the tables ---------------------------------------------------------------------------------

NUMBER_TEXTS = ["3", "-2", "07", "+4", " 5 ", "3.0", "2.50", "1e1", "1E400", "-1e400", ".5", "7.",
                "9223372036854775807", "9223372036854775808", "-9223372036854775809", "9" * 60,
                "inf", "-Infinity", "nan", "", "?", None, "0", "4.4999", "-0.5"]  # fmt: skip
JUNK_TEXTS = ["x", "1_000", "0x1F", "1,5", "1 2", "--1", "1e", "e1", ".", "+", "٣", "NULL", "true"]


def random_table(
    seed: int, *, outside: str, missing: str, n_rows: int = 300, other: bool = False
) -> tuple[pa.Table, Schema]:
    """Make a table with every value that the given rules accept.

    With `other`, out-of-domain values are recorded as a value other than the first.
    """
    draw = np.random.default_rng(shifted(seed))

    def pick(values: Sequence[Any]) -> list[Any]:
        return [values[i] for i in draw.integers(len(values), size=n_rows)]

    rules = {"outside": outside, "missing": missing}
    texts = {"outside": "refuse" if outside == "clip" else outside, "missing": missing}
    others = dict[str, Any](zip(["listed", "whole", "real"], ["ç", 3, 0.5], strict=True))
    others = {key: {"other": value} if other else {} for key, value in others.items()}
    listed = ["a", "b b", "ç", "'; --", '"', "?x", "a,b", "l\nm", "ﬀ", "A"]
    gaps = [None, "", "?"] if missing != "forbid" else []
    # A text that is not a number cannot be clipped: it counts as missing, which may be refused.
    lenient = outside in ("missing", "other") or (outside == "clip" and missing != "forbid")
    numbers = [t for t in NUMBER_TEXTS if lenient or t not in ("2.50", ".5", "4.4999", "-0.5")]
    numbers = [t for t in numbers if missing != "forbid" or t not in (None, "", "?", "nan")]
    strangers = ["zz", "b", "a "] if outside in ("missing", "other") else []
    junk = JUNK_TEXTS if lenient else []
    reals = [-1e308, -0.26, -0.25, -0.2, 0.0, 0.1, 0.25, 0.3, 0.74, 0.75, 1.0, 1.24, 1.25, 1.3,
             7e15, math.inf, -math.inf, 5e-324]  # fmt: skip
    none = [None] if missing != "forbid" else []
    wholes = [*range(-4, 13), 2**62, -(2**63), 2**63 - 1, *none]
    columns = {
        "listed": pa.array(pick(listed + gaps + strangers), pa.string()),
        "whole": pa.array(pick(wholes), pa.int64()),
        "whole text": pa.array(pick(numbers + junk), pa.string()),
        "real": pa.array(pick(reals + none + ([math.nan] if none else [])), pa.float64()),
        "real text": pa.array(pick([t for t in numbers if t != "4.4999"] + junk), pa.string()),
    }  # fmt: skip
    schema = Schema.from_dict(
        {
            "name": "random",
            "missing_values": MISSING_VALUES,
            "columns": {
                "whole text": {"type": "integer", "low": -2, "high": 7, **rules, **others["whole"]},
                "listed": {"type": "categorical", "values": listed, **texts, **others["listed"]},
                "real": {"type": "number", "low": 0, "high": 1, "step": 0.5, **rules,
                         **others["real"]},
                "whole": {"type": "integer", "low": -2, "high": 7, **rules, **others["whole"]},
                "real text": {"type": "number", "low": -1, "high": 5, "step": 0.25, **rules,
                              **others["real"]},
            },
        }
    )  # fmt: skip
    return pa.table(columns), schema


def check_random_tables_with_other_values(make: Make) -> None:
    for seed, missing in ((31, "other"), (32, "category")):
        table, schema = random_table(seed, outside="other", missing=missing, other=True)
        assert_answers(make(table, schema), table, schema, by="listed" if seed == 31 else None)
    recode = recodings(schema, {"listed": {v: v[:1] for v in schema.attributes["listed"].values},
                                "whole": 3, "real text": [0, 0.25, 2.5]})  # type: ignore[union-attr] # fmt: skip
    assert_answers(make(table, schema), table, schema, recode=recode)


def hostile_rows() -> tuple[Schema, list[dict[str, str | None]]]:
    """Return a schema with default rules, and rows that are out of its domain in every way."""
    schema = Schema.from_dict(
        {
            "name": "defaults",
            "unit": {"kind": "person", "column": "who", "max_rows": 2},
            "columns": {
                "who": {"role": "identifier"},
                "age": {"type": "integer", "low": 1, "high": 9},
                "weight": {"type": "number", "low": 0, "high": 2, "step": 0.5},
                "sex": {"type": "categorical", "values": ["F", "M"]},
                "smoker": {"type": "categorical", "values": ["yes", "no"], "missing": "category"},
                "town": {"type": "categorical", "values": ["Ayre", "else"], "other": "else"},
            },
        }
    )
    plain: dict[str, str | None] = {
        "who": "new", "age": "5", "weight": "1.5", "sex": "M", "smoker": "no", "town": "Ayre",
    }  # fmt: skip
    cells = (
        None,
        "",
        "nan",
        "inf",
        "-inf",
        "junk",
        "99",
        "-99",
        "2.6",
        "9" * 60,
        "1e300",
        "F ",
        "f",
    )
    rows = [plain | {name: cell} for name in plain for cell in cells]
    return schema, [*rows, *(dict.fromkeys(plain, cell) for cell in cells), plain | {"who": "old"}]


def check_a_row_of_any_kind_changes_answers_by_that_row(make: Make) -> None:
    """Check the default rules: every row has a code, none is refused, and none counts twice."""
    schema, rows = hostile_rows()
    plain = {"age": "5", "weight": "1.5", "sex": "M", "smoker": "no", "town": "Ayre"}
    base = [{"who": who, **plain} for who in ("old", "old", "young")]
    names = list(schema.attributes)

    def answers(rows: list[dict[str, Any]]) -> list[Any]:
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string())
                          for name in ("who", *names)})  # fmt: skip
        engine = make(table, schema)
        cells = engine.counts(names)
        histograms = engine.histograms(names)
        return [engine.n_rows(), cells.counts.sum(), *engine.marginals([names[:2], names[2:]]),
                *histograms.values()]  # fmt: skip

    # All hostile rows at once; then without one that is a person's only row, and so on.
    persons = [{**row, "who": row["who"] and f"{row['who']}{i}"} for i, row in enumerate(rows)]
    whole, before = answers([*base, *persons]), answers(base)
    n_nobody = sum(row["who"] in (None, "") for row in persons)
    assert n_nobody == 4
    assert whole[0] == len(base) + len(persons) - n_nobody
    assert all(np.sum(answer) == whole[0] for answer in whole)
    assert all(np.sum(answer) == len(base) for answer in before)
    for row in persons[:: len(persons) // 8]:
        with_row = answers([*base, row])
        steps = [np.abs(a - b).sum() for a, b in zip(with_row, before, strict=True)]
        assert steps == [row["who"] not in (None, "")] * len(steps)
    # A third row of a person does not count.
    assert answers([*base, {**base[0]}])[0] == len(base)


def check_elements_of_hostile_rows(make: Make) -> None:
    """Check long tables: a missing item or value becomes `other`, unless missing is a category."""
    columns = {
        "who": {"role": "identifier"},
        "movie": {"type": "categorical", "values": ["m0", "m1", "else"], "other": "else"},
        "rating": {"type": "integer", "low": 1, "high": 5, "other": 3},
    }
    schema = Schema.from_dict(
        {"name": "t", "unit": {"kind": "person", "column": "who", "max_rows": 9},
         "columns": columns}
    )  # fmt: skip
    table = pa.table(
        {
            "who": ["a", "b", "c", "d", None, "f"],
            "movie": ["m0", None, "zz", "", "m0", "m1"],
            "rating": pa.array([None, 5, 99, -9, 1, 4], pa.int64()),
        }
    )
    for columns_missing in (False, True):
        if columns_missing:
            kept = {
                n: {**c, "missing": "category"} if "type" in c else c for n, c in columns.items()
            }
            kept["rating"].pop("other")
            schema = Schema.from_dict(schema.to_dict() | {"columns": kept})
        pairs = make(table, schema).pairs(RATINGS)
        found = make(table, schema).tuples([[0], [1], [2]], max_groups=3, item_columns=RATINGS)
        elements = list(zip(found.items.tolist(), found.values.tolist(), found.counts.tolist(),
                            strict=True))  # fmt: skip
        if columns_missing:
            assert pairs.support.tolist() == [0, 1, 1]
            assert elements == [(1, 3, 1), (2, 4, 1)]
        else:
            assert pairs.support.tolist() == [1, 1, 3]
            assert elements == [(0, 2, 1), (1, 3, 1), (2, 0, 1), (2, 4, 2)]


def check_random_tables(make: Make) -> None:
    for seed, (outside, missing) in enumerate(
        [("clip", "category"), ("clip", "forbid"), ("missing", "category"), ("other", "other")]
    ):
        table, schema = random_table(seed, outside=outside, missing=missing)
        assert_answers(make(table, schema), table, schema, by="listed" if seed == 2 else None)


def check_recodings(make: Make) -> None:
    table, schema = random_table(7, outside="missing", missing="category")
    values = schema.attributes["listed"].values  # type: ignore[union-attr]
    recode = recodings(
        schema,
        {
            "listed": {value: "one" if value < "b" else "two" for value in values},
            "whole": 3,
            "real text": [0, 0.25, 2.5],
            "real": [0.5],
        },
    )
    assert_answers(make(table, schema), table, schema, recode=recode)


def check_recoding_by_taxonomy(make: Make) -> None:
    city = {
        "type": "categorical",
        "values": ["Bonn", "Köln", "Lyon"],
        "taxonomy": {"World": {"DE": ["Bonn", "Köln"], "FR": ["Lyon"]}},
    }
    schema = Schema.from_dict({"name": "t", "columns": {"city": city}})
    table = pa.table({"city": ["Lyon", "Köln", "Bonn", "Köln"]})
    for level in (0, 1, 2):
        assert_answers(
            make(table, schema), table, schema, recode=recodings(schema, {"city": level})
        )


def check_broken_rules(make: Make) -> None:
    table, _ = random_table(5, outside="missing", missing="category")
    for outside in ("refuse", "clip"):
        _, strict = random_table(5, outside=outside, missing="forbid")
        assert_breaks(make(table, strict), table, strict)


def check_errors_keep_values_secret(make: Make) -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "age": {"type": "integer", "low": 0, "high": 9, "outside": "refuse"},
            "sex": {"type": "categorical", "values": ["F", "M"], "outside": "refuse"},
        }}
    )  # fmt: skip
    table = pa.table({"age": ["1", "271828"], "sex": ["F", "secretword"]})
    engine = make(table, schema)
    for ask in (engine.histograms, engine.counts):
        with pytest.raises(DataError) as error:
            ask(["age", "sex"])
        assert "271828" not in str(error.value)
        assert "secretword" not in str(error.value)
        assert "column 'age': 1 rows lie outside" in str(error.value)


def _clinic() -> Schema:
    return Schema.from_dict(
        {"name": "clinic", "columns": {
            "age": {"type": "integer", "low": 0, "high": 3, "missing": "category"},
            "sex": {"type": "categorical", "values": ["F", "M"], "missing": "category"},
            "bmi": {"type": "number", "low": 0, "high": 1, "step": 0.5, "missing": "category"},
        }}
    )  # fmt: skip


def _clinic_rows(age: list[Any], sex: list[Any], bmi: list[Any]) -> pa.Table:
    return pa.table(
        {"age": pa.array(age, pa.int32()), "sex": pa.array(sex, pa.string()),
         "bmi": pa.array(bmi, pa.float64())}
    )  # fmt: skip


def check_small_tables(make: Make) -> None:
    schema = _clinic()
    for table in (
        _clinic_rows([], [], []),
        _clinic_rows([2], ["F"], [0.5]),
        _clinic_rows([None] * 4, [None] * 4, [None] * 4),
        _clinic_rows([1] * 50, ["M"] * 50, [1.0] * 50),
    ):
        assert_answers(make(table, schema), table, schema, by="sex")


def check_single_column_with_gaps(make: Make) -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {
            "x": {"type": "categorical", "values": ["a", "b"], "missing": "category"}}}
    )  # fmt: skip
    table = pa.table({"x": pa.array(["a", None, "b", None, None], pa.string())})
    assert_answers(make(table, schema), table, schema)


def check_large_domain(make: Make) -> None:
    draw = np.random.default_rng(shifted(3))
    names = [f"x{i}" for i in range(9)]
    schema = Schema.from_dict(
        {"name": "large", "columns": {
            name: {"type": "integer", "low": 0, "high": 9_999} for name in names}}
    )  # fmt: skip
    rows = draw.integers(0, 10_000, size=(200, len(names)))
    rows[100:] = rows[:100]  # every cell twice
    rows[:3] = 9_999
    rows[1, -1] = rows[2, 0] = 5  # neighbors whose keys differ at one end only
    table = pa.table({name: rows[:, i] for i, name in enumerate(names)})
    assert schema.domain.size > 2**63
    assert_answers(make(table, schema), table, schema)


def check_far_bounds(make: Make) -> None:
    low = 2**62 + 1  # not a double
    column = {"type": "integer", "low": low, "high": low + 3, "outside": "refuse"}
    schema = Schema.from_dict({"name": "far", "columns": {"x": column, "y": column}})
    values = [low, low + 3, low + 1, low + 1]
    table = pa.table({"x": values, "y": [str(value) for value in values]})
    assert_answers(make(table, schema), table, schema)
    outside = pa.table({"x": [low - 1, low + 4], "y": [str(low - 1), str(low + 4)]})
    assert_breaks(make(outside, schema), outside, schema)
    column.pop("outside")
    clipped = Schema.from_dict({"name": "far", "columns": {"x": column, "y": column}})
    assert_answers(make(outside, clipped), outside, clipped)


def check_weird_names(make: Make) -> None:
    names = ['"', "'; DROP TABLE x; --", "two words", "ünï", "select", "c0", "n", "raw", "number",
             "a.b", "{x}", "%s", "key0", "code", "*", "\\", "text", "person", "#1"]  # fmt: skip
    schema = Schema.from_dict(
        {"name": "weird", "columns": {
            name: {"type": "integer", "low": 0, "high": 30} for name in names}}
    )  # fmt: skip
    table = pa.table({name: [i, i, 30 - i] for i, name in enumerate(names)})
    assert_answers(make(table, schema), table, schema, by=names[1])


def check_order_of_columns(make: Make) -> None:
    schema = _clinic()
    table = _clinic_rows([1, 2], ["F", "M"], [0.0, 1.0]).select(["bmi", "age", "sex"])
    assert_answers(make(table, schema), table, schema)


def check_marginals(make: Make) -> None:
    # More groups than fit in one query, blocks of several groups, and one group alone.
    names = [f"x{i}" for i in range(12)]
    sizes = [2, 3, 200, 5, 2, 40, 3, 7, 90, 2, 2, 300]
    schema = Schema.from_dict(
        {"name": "many", "columns": {
            name: {"type": "integer", "low": 0, "high": size - 1}
            for name, size in zip(names, sizes, strict=True)}}
    )  # fmt: skip
    draw = np.random.default_rng(shifted(11))
    rows = {name: draw.integers(0, size, 400) for name, size in zip(names, sizes, strict=True)}
    groups = [[a, b] for i, a in enumerate(names) for b in names[i + 1 :]]
    groups += [[name] for name in names] + [["x11", "x2", "x8"], ["x4", "x0", "x9", "x10"]]
    codes = {name: column.tolist() for name, column in rows.items()}
    engine = make(pa.table(rows), schema)
    _assert_marginals(engine, codes, groups, None)
    _assert_marginals(engine, codes, groups, recodings(schema, {"x2": 30, "x11": [150], "x5": 39}))


def check_questions(make: Make) -> None:
    engine = make(_clinic_rows([1], ["F"], [0.5]), _clinic())
    for groups in ([], [["age"], []], [["age"], ["nobody"]], [["age", "age"]]):
        with pytest.raises(ParameterError):
            engine.marginals(groups)
    for ask in (engine.histograms, engine.counts):
        for columns in ([], ["nobody"], ["age", "age"]):
            with pytest.raises(ParameterError):
                ask(columns)
    with pytest.raises(ParameterError, match="nobody"):
        engine.histograms(["age"], by="nobody")
    wide = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 20_000_000}}}
    )
    engine_of_wide = make(pa.table({"x": [1]}), wide)
    for ask in (engine_of_wide.histograms, lambda columns: engine_of_wide.marginals([columns])):
        with pytest.raises(TooLarge, match="'x'"):
            ask(["x"])


def persons_schema(max_rows: int) -> Schema:
    """Return the schema of visits, numbered within each person."""
    return Schema.from_dict(
        {
            "name": "visits",
            "unit": {"kind": "person", "column": "who", "max_rows": max_rows},
            "columns": {
                "who": {"role": "identifier"},
                "person": {"type": "integer", "low": 0, "high": 99},
                "visit": {"type": "integer", "low": 0, "high": 99},
            },
        }
    )


def persons_table(sizes: Sequence[int]) -> pa.Table:
    """Make visits of each person, in mixed order."""
    rows = [(person, visit) for person, size in enumerate(sizes) for visit in range(size)]
    rows = [rows[i] for i in np.random.default_rng(shifted(1)).permutation(len(rows))]
    return pa.table(
        {"who": [f"p{person}" for person, _ in rows], "person": [p for p, _ in rows],
         "visit": [v for _, v in rows]}
    )  # fmt: skip


def check_persons_are_bounded(make: Make) -> None:
    sizes = [1, 2, 3, 4, 10, 60]
    for max_rows in (1, 3, 100):
        engine = make(persons_table(sizes), persons_schema(max_rows))
        assert engine.rule_breaks() == []
        kept = [min(size, max_rows) for size in sizes]
        assert engine.n_rows() == sum(kept)
        assert engine.histograms(["person"])["person"][: len(sizes)].tolist() == kept
        # The same rows in every answer, no row twice, and all rows of persons below the bound.
        first, second = (engine.counts(["person", "visit"]) for _ in range(2))
        assert first.codes.tolist() == second.codes.tolist()
        assert first.counts.tolist() == [1] * sum(kept)
        histogram = engine.histograms(["visit"])["visit"]
        assert np.bincount(first.codes[:, 1], minlength=100).tolist() == histogram.tolist()


def check_no_persons(make: Make) -> None:
    table = persons_table([1]).slice(0, 0)
    engine = make(table, persons_schema(2))
    assert engine.n_rows() == 0
    assert engine.counts(["person", "visit"]).codes.shape == (0, 2)


def check_persons_are_sampled_evenly(make: Make) -> None:
    # 99 persons with 4 visits, 2 kept: each of the 4 is kept with probability 1/2, so a visit is
    # kept Binomial(99, 1/2) times. Outside 15..84 with probability 2e-13 each; 4 visits: 1e-12.
    engine = make(persons_table([4] * 99), persons_schema(2))
    kept = engine.histograms(["visit"])["visit"][:4]
    assert kept.sum() == 198
    assert ((kept > 14) & (kept < 85)).all()


def check_nobody_does_not_count(make: Make) -> None:
    table = pa.table({"who": ["a", None, "", "b"], "person": [1, 2, 3, 4], "visit": [1, 1, 1, 1]})
    engine = make(table, persons_schema(1))
    assert [(item.column, item.n_rows) for item in engine.rule_breaks()] == [("who", 2)]
    assert engine.n_rows() == 2
    assert engine.counts(["person"]).codes.ravel().tolist() == [1, 4]
    assert engine.histograms(["visit"])["visit"][1] == 2
    crowded = pa.concat_tables([table, table])
    assert make(crowded, persons_schema(1)).histograms(["person"])["person"][:5].tolist() == (
        [0, 1, 0, 0, 1]
    )


# --- tuples and pairs -----------------------------------------------------------------------------

GROUPS = [[0, 1, 2], [3, 4, 5, 6], [9, 7, 8], [0, 5, 11], [3, 4, 5, 6]]  # the last one twice
RATINGS = ItemColumns("movie", "rating")


def ratings_schema(max_rows: int = 50, **rules: str) -> Schema:
    """Return the schema of ratings of twelve movies."""
    return Schema.from_dict(
        {
            "name": "ratings",
            "unit": {"kind": "person", "column": "who", "max_rows": max_rows},
            "columns": {
                "who": {"role": "identifier"},
                "movie": {"type": "categorical", "values": [f"m{i}" for i in range(12)], **rules},
                "rating": {"type": "integer", "low": 1, "high": 3, "missing": "category", **rules},
            },
        }
    )


def ratings_by_hand(n: int = 800) -> dict[int, dict[int, int]]:
    """Return the ratings of each person: movie to code of the rating."""
    draw = np.random.default_rng(shifted(8))
    people: dict[int, dict[int, int]] = {}
    for person, movie, rating in zip(
        draw.integers(0, 200, n), draw.integers(0, 12, n), draw.integers(0, 3, n), strict=True
    ):
        people.setdefault(int(person), {})[int(movie)] = int(rating)
    return people


def ratings_table(people: dict[int, dict[int, int]]) -> pa.Table:
    """Write ratings as a long table: some rows again with a lower rating, some without a rating."""
    rows = [(p, m, r + 1) for p, mine in people.items() for m, r in mine.items()]
    rows += [(p, m, 1) for p, m, _ in rows[::7]]
    rows += [(p, (m + 1) % 12, None) for p, m, _ in rows[::5]]
    order = np.random.default_rng(shifted(2)).permutation(len(rows))
    who, movie, rating = zip(*(rows[i] for i in order), strict=True)
    return pa.table(
        {"who": [f"p{p}" for p in who], "movie": [f"m{m}" for m in movie],
         "rating": pa.array(rating, pa.int64())}
    )  # fmt: skip


def tuples_by_hand(records: Sequence[dict[int, int]], groups: ItemGroups) -> Counter[Any]:
    """Count tuples: a record without any value in a group has none there."""
    found: Counter[Any] = Counter()
    for record in records:
        for number, group in enumerate(groups):
            held = tuple((item, record[item]) for item in sorted(group) if item in record)
            if held:
                found[number, held] += 1
    return found


def as_counter(tuples: Tuples) -> Counter[Any]:
    """Return the tuples with their counts; check that each occurs once, in order."""
    elements = list(zip(tuples.items.tolist(), tuples.values.tolist(), strict=True))
    bounds = zip(tuples.starts.tolist(), tuples.starts.tolist()[1:], strict=False)
    listed = [
        (group, tuple(elements[a:b]))
        for group, (a, b) in zip(tuples.groups.tolist(), bounds, strict=True)
    ]
    assert len(set(listed)) == len(listed)
    assert listed == sorted(listed, key=lambda entry: (entry[0], len(entry[1]), entry[1]))
    return Counter(dict(zip(listed, tuples.counts.tolist(), strict=True)))


def check_tuples_of_a_long_table(make: Make) -> None:
    people = ratings_by_hand()
    engine = make(ratings_table(people), ratings_schema())
    expected = tuples_by_hand(list(people.values()), GROUPS)
    for at_least in (1, 3, 10**6):
        answer = engine.tuples(GROUPS, max_groups=5, at_least=at_least, item_columns=RATINGS)
        wanted = {held: n for held, n in expected.items() if n >= at_least}
        assert as_counter(answer) == Counter(wanted)
        assert answer.n_records == len(people)


def check_tuples_of_a_wide_table(make: Make) -> None:
    schema = _clinic()
    draw = np.random.default_rng(shifted(4))
    age, sex, bmi = draw.integers(0, 5, 300), draw.integers(0, 3, 300), draw.integers(0, 4, 300)
    table = _clinic_rows(
        [None if a == 4 else int(a) for a in age], [(None, "F", "M")[s] for s in sex],
        [None if b == 3 else b / 2 for b in bmi],
    )  # fmt: skip
    codes = codes_by_hand(table, schema)
    missing = [column.missing_code for column in schema.attributes.values()]
    records = [
        {i: code for i, code in enumerate(row) if code != missing[i]}
        for row in zip(*codes.values(), strict=True)
    ]
    groups = [[2, 0], [1], [1]]
    engine = make(table, schema)
    everything = engine.tuples(groups, max_groups=3)
    assert as_counter(everything) == tuples_by_hand(records, groups)
    assert everything.n_records == 300
    bounded = engine.tuples(groups, max_groups=2)
    kept = as_counter(bounded)
    covered = [sum(any(i in record for i in group) for group in groups) for record in records]
    assert sum(kept.values()) == sum(min(2, n) for n in covered)
    assert all(kept[held] <= n for held, n in as_counter(everything).items())
    assert bounded.n_records == 300


def check_tuples_are_bounded_per_person(make: Make) -> None:
    people = ratings_by_hand()
    engine = make(ratings_table(people), ratings_schema())
    reached = [
        sum(any(item in mine for item in group) for group in GROUPS) for mine in people.values()
    ]
    for most in (1, 2):
        answer = engine.tuples(GROUPS, max_groups=most, item_columns=RATINGS)
        assert answer.counts.sum() == sum(min(most, n) for n in reached)
    answer = engine.tuples([list(range(12))], max_groups=1, max_values=2, item_columns=RATINGS)
    assert answer.lengths.max() == 2
    kept = (answer.lengths * answer.counts).sum()
    assert kept == sum(min(2, len(mine)) for mine in people.values())


def check_tuples_are_drawn_evenly(make: Make) -> None:
    # 200 people with values in 4 groups, 2 kept: each group is kept Binomial(200, 1/2) times.
    # Outside 50..150 with probability 1e-12 each.
    people = {p: {0: 0, 3: 1, 7: 2, 11: 0} for p in range(200)}
    engine = make(ratings_table(people), ratings_schema())
    groups = [[0], [3], [7], [11]]
    for bounds in ({"max_groups": 2}, {"max_groups": 4, "max_values": 2}):
        kept = engine.tuples(groups, item_columns=RATINGS, **bounds)
        assert kept.counts.sum() == 400
        assert ((kept.counts > 50) & (kept.counts < 150)).all()


def check_pairs(make: Make) -> None:
    people = ratings_by_hand()
    engine = make(ratings_table(people), ratings_schema())
    pairs = engine.pairs(RATINGS)
    n = 12
    order = [(i, j) for i in range(n) for j in range(i + 1, n)]
    both = [[(m[i], m[j]) for m in people.values() if i in m and j in m] for i, j in order]
    assert pairs.support.tolist() == [sum(i in m for m in people.values()) for i in range(n)]
    assert pairs.agree.tolist() == [sum(a == b for a, b in pair) for pair in both]
    assert pairs.differ.tolist() == [sum(a != b for a, b in pair) for pair in both]
    some = engine.pairs(RATINGS, items=[1, 4, 7])
    assert some.support.tolist() == pairs.support.tolist()
    chosen = [order.index(pair) for pair in ((1, 4), (1, 7), (4, 7))]
    assert some.agree.tolist() == pairs.agree[chosen].tolist()
    assert some.differ.tolist() == pairs.differ[chosen].tolist()
    assert engine.pairs(RATINGS, items=[]).agree.tolist() == []
    few = engine.pairs(RATINGS, max_values=2)
    assert few.support.sum() == sum(min(2, len(m)) for m in people.values())
    assert few.agree.sum() + few.differ.sum() == sum(len(m) > 1 for m in people.values())


def check_sizes(make: Make) -> None:
    people = ratings_by_hand()
    engine = make(ratings_table(people), ratings_schema())
    sizes = engine.sizes(RATINGS).tolist()
    assert sizes == [sum(len(mine) == n for mine in people.values()) for n in range(1, 13)]
    assert sum(sizes) == engine.tuples(GROUPS, max_groups=2, item_columns=RATINGS).n_records


def check_tuples_of_nobody(make: Make) -> None:
    engine = make(ratings_table(ratings_by_hand()).slice(0, 0), ratings_schema())
    assert engine.sizes(RATINGS).tolist() == [0] * 12
    assert engine.tuples(GROUPS, max_groups=2, item_columns=RATINGS).counts.tolist() == []
    assert engine.pairs(RATINGS).support.tolist() == [0] * 12
    assert make(_clinic_rows([], [], []), _clinic()).tuples([[0], [1]], max_groups=1).n_records == 0


def check_tuples_refuse(make: Make) -> None:
    schema = ratings_schema(outside="refuse")
    table = pa.table({"who": ["a", "b"], "movie": ["m1", "secretword"], "rating": [271828, 1]})
    engine = make(table, schema)
    for ask in (lambda: engine.tuples(GROUPS, max_groups=2, item_columns=RATINGS),
                lambda: engine.pairs(RATINGS)):  # fmt: skip
        with pytest.raises(DataError) as error:
            ask()
        assert "secretword" not in str(error.value)
        assert "271828" not in str(error.value)
        assert "column 'movie': 1 rows lie outside" in str(error.value)
        assert "column 'rating': 1 rows lie outside" in str(error.value)
    for groups in ([], [[]], [[0, 0]], [[12]]):
        with pytest.raises(ParameterError, match="each group"):
            engine.tuples(groups, max_groups=1, item_columns=RATINGS)
    clinic = make(_clinic_rows([1], ["F"], [0.5]), _clinic())
    with pytest.raises(ParameterError, match="unit person"):
        clinic.tuples([[0]], max_groups=1, item_columns=ItemColumns("sex", "age"))
    broken = Schema.from_dict(
        {"name": "t", "columns": {
            "sex": {"type": "categorical", "values": ["F"], "outside": "refuse"},
            "age": {"type": "integer", "low": 0, "high": 9, "missing": "forbid"}}}
    )  # fmt: skip
    outside = pa.table({"sex": ["F", "secretword"], "age": [1, 2]})
    missing = pa.table({"sex": ["F", "F"], "age": [1, None]})
    for table, problem in (
        (outside, "column 'sex': 1 rows lie outside"),
        (missing, "column 'age': 1 rows have no value"),
    ):
        wide = make(table, broken)
        for max_groups in (1, 2):
            with pytest.raises(DataError, match=problem):
                wide.tuples([[0], [1]], max_groups=max_groups)


# --- one row, one cell ----------------------------------------------------------------------------

# Equal in a database that ignores case, accents, trailing spaces or Unicode composition.
ALIKE = ("b24", "B24", "b24 ", "é", "É", "e", "e\u0301", "ß", "ss", "SS", "ﬀ", "ff", "I", "ı", "")


def alike_schema(*, missing_values: Sequence[str] = ("NA",), outside: str = "missing") -> Schema:
    """Return a schema of four columns with texts that some collations consider equal."""
    listed = {"type": "categorical", "missing": "category", "outside": outside}
    return Schema.from_dict(
        {"name": "alike", "missing_values": missing_values, "columns": {
            "x": {**listed, "values": ALIKE},
            "y": {**listed, "values": ALIKE[:2]},
            "z": {**listed, "values": ["na", "nA"]},
            "n": {"type": "number", "low": -1, "high": 1, "step": 1, "missing": "category"},
        }}
    )  # fmt: skip


def alike_table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Write rows of `alike_schema`."""
    kinds = {"x": pa.string(), "y": pa.string(), "z": pa.string(), "n": pa.float64()}
    return pa.table(
        {name: pa.array([row[at] for row in rows], kind)
         for at, (name, kind) in enumerate(kinds.items())}
    )  # fmt: skip


def alike_rows(seed: int, n_rows: int) -> list[tuple[Any, ...]]:
    """Draw rows: each of the texts, similar texts, and markers of missing values."""
    draw = np.random.default_rng(seed)
    z = ["na", "nA", "NA", "Na", "na ", None]
    n = [0.0, -0.0, 1.0, -1.0, math.nan, None]
    # No None in the first: a text file cannot distinguish it from the listed empty text.
    columns = ([*ALIKE, "Ss", "NA", "na"], ["b24", "B24", "b24 ", "B24 ", None], z, n)
    places = [draw.integers(len(column), size=n_rows) for column in columns]
    return [
        tuple(column[at] for column, at in zip(columns, row, strict=True))
        for row in zip(*places, strict=True)
    ]


def all_answers(engine: Engine) -> dict[str, Counter[Any]]:
    """Return the count of each cell in every kind of answer about a wide table."""
    names = list(engine.schema.attributes)
    answers = {}
    for name, histogram in engine.histograms(names).items():
        answers[f"histogram {name}"] = _occupied(histogram)
    for name, histogram in engine.histograms(names, by="y").items():
        answers[f"histogram {name} by y"] = _occupied(histogram)
    groups = [["x", "y"], ["z"], names]
    for group, table in zip(groups, engine.marginals(groups), strict=True):
        answers[f"marginal {group}"] = _occupied(table)
    for group in groups:
        cells = engine.counts(group)
        found = zip(map(tuple, cells.codes.tolist()), cells.counts.tolist(), strict=True)
        answers[f"cells {group}"] = Counter(dict(found))
    answers["rows"] = Counter({"rows": engine.n_rows()})
    return answers


def _occupied(table: Any) -> Counter[Any]:
    return Counter({place: int(table[place]) for place in zip(*table.nonzero(), strict=True)})


def assert_one_more(before: Engine, after: Engine) -> None:
    """Check that one more row adds one to one cell of each answer."""
    old, new = all_answers(before), all_answers(after)
    for question, cells in new.items():
        more = cells.copy()
        more.subtract(old[question])
        changed = {cell: n for cell, n in more.items() if n}
        assert list(changed.values()) == [1], question


def check_one_row_is_one_row_in_each_answer(make: Make) -> None:
    schema = alike_schema()
    rows = alike_rows(17, 60)
    added = [("B24", "b24", "nA", -0.0), ("e\u0301", "B24", "NA", 1.0), ("SS", None, "na", None)]
    before = make(alike_table(rows), schema)
    assert_answers(before, alike_table(rows), schema, by="x")
    for row in added:
        assert_one_more(before, make(alike_table([*rows, row]), schema))


def assert_added_row_is_one_more(make: Make, seed: int, n_rows: int) -> None:
    """Compare the answers on a random table with those on the same table with one more row."""
    *rows, row = alike_rows(seed, n_rows + 1)
    schema, more = alike_schema(), alike_table([*rows, row])
    after = make(more, schema)
    assert_answers(after, more, schema, by="z")
    assert_one_more(make(alike_table(rows), schema), after)


def check_unlisted_texts_that_are_alike_are_outside(make: Make) -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {"x": {"type": "categorical", "values": ["b24", "é"], "outside": "refuse"}},
        }
    )
    table = pa.table({"x": ["b24", "B24", "b24 ", "é", "e", "e\u0301", "É"]})
    assert_breaks(make(table, schema), table, schema)


def check_persons_that_are_alike_are_several(make: Make) -> None:
    who = ["anna", "Anna", "anna ", "ánna", "anna", "ss", "ß"]
    table = pa.table({"who": who, "person": range(7), "visit": [1] * 7})
    engine = make(table, persons_schema(1))
    assert engine.n_rows() == 6
    assert engine.counts(["person", "visit"]).counts.sum() == 6
    assert make(table, persons_schema(2)).n_rows() == 7
    more = table.take([*range(7), 0, 0])
    assert make(more, persons_schema(1)).n_rows() == 6  # the same person again: no additional row


def check_items_and_persons_that_are_alike(make: Make) -> None:
    schema = Schema.from_dict(
        {"name": "ratings", "unit": {"kind": "person", "column": "who", "max_rows": 50},
         "columns": {
             "who": {"role": "identifier"},
             "movie": {"type": "categorical", "values": ["m", "M", "m ", "ß", "ss"]},
             "rating": {"type": "categorical", "values": ["a", "A", "á"], "missing": "category"},
         }}
    )  # fmt: skip
    listing = ItemColumns("movie", "rating")
    rows = [("p", "m", "a"), ("P", "m", "A"), ("p", "ss", "á"), ("p ", "ß", "A")]
    groups = [[0, 1], [2], [3, 4]]
    items, values = (schema.attributes[name].values for name in ("movie", "rating"))  # type: ignore[union-attr]

    def opened(rows: Sequence[tuple[str, ...]]) -> Engine:
        names = ("who", "movie", "rating")
        return make(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), schema)

    for more in ([], [("Q", "M", "a")], [("p", "M", "a")], [("p", "m ", "á")]):
        people: dict[str, dict[int, int]] = {}
        for who, movie, rating in [*rows, *more]:
            people.setdefault(who, {})[items.index(movie)] = values.index(rating)
        engine = opened([*rows, *more])
        answer = engine.tuples(groups, max_groups=3, item_columns=listing)
        assert as_counter(answer) == tuples_by_hand(list(people.values()), groups)
        assert answer.n_records == len(people)
        support = engine.pairs(listing).support
        assert support.tolist() == [sum(i in m for m in people.values()) for i in range(5)]


ALIKE_CHECKS = [
    check_one_row_is_one_row_in_each_answer,
    check_unlisted_texts_that_are_alike_are_outside,
    check_persons_that_are_alike_are_several,
    check_items_and_persons_that_are_alike,
]
CHECKS = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
# These depend on how a database treats texts and persons. Counting of cells does not depend on
# the source of the rows.
STORED_CHECKS = [*ALIKE_CHECKS, check_persons_are_bounded, check_weird_names]


def often(chosen: Sequence[Callable[[Make], None]]) -> list[Any]:
    """Return all checks, marked for the long suite except for the chosen ones."""
    return [c if c in chosen else pytest.param(c, marks=pytest.mark.long) for c in CHECKS]


def check_engine(make: Make) -> None:
    """Run all checks."""
    for check in CHECKS:
        check(make)
