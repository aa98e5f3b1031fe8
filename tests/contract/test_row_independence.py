"""The code of a row, and whose row it is, depend on that row alone.

Whatever the engine, the file format and the options of the writer: a table is encoded as a whole
and in parts, and every code and identity is compared with those of
`hushtable.engine.reference_encoder`. A case is a row that one engine reads from one format. The
long suite has about 30,000 cases, and at least `LEAST_ROWS` in each test with each engine.
Formats are listed in `raw_formats.py`; Spark and PostgreSQL have files of their own.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import random
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from hushtable.engine import connect
from hushtable.engine.linked_tables import open_linked
from hushtable.engine.open_table import as_arrow
from hushtable.engine.reference_encoder import ReferenceColumn, plain, reference_identity
from hushtable.engine.sources import arrow_rows, database, source
from hushtable.engine.sources.spelling import is_rewritten, rewrite
from hushtable.engine.two_waves import open_waves, previous
from hushtable.errors import DataError
from hushtable.schema import Schema
from hushtable.schema.linked_schema import LinkedSchema
from raw_formats import FORMATS, Format, Written, arrow
from raw_values import (
    KINDS,
    PERSON,
    ROW,
    RawTable,
    array_of,
    hard_values,
    rules_for,
    values_of,
    with_policy,
)
from seeds import shifted

N_COLUMNS = 2
N_ROWS, LONG_ROWS = 20, 60  # of a drawn table; dictionaries with indices of 8 bits have no more
POLICIES = [("category", "missing"), ("category", "clip"), ("other", "clip"), ("other", "other")]
EXAMPLES, LONG_EXAMPLES = 1, 7  # tables drawn for each format and check
LEAST_ROWS = 20  # that each test of the long suite compares with each engine
BATCHES = (1, 2, 5)  # parts in which the rows of a table are encoded, at least


@st.composite
def raw_tables(draw: Any, chosen: Format, most: int, *, person: bool = False) -> RawTable:
    """Draw a table that a format can represent, with columns of a schema that read it."""
    n_rows = draw(st.sampled_from([1, 3, most // 2, most, most]))
    arrays: dict[str, pa.Array] = {ROW: pa.array(range(n_rows), pa.int32())}
    columns = {}
    for place in range(draw(st.integers(1, 1 if person else N_COLUMNS))):
        kind = _kind(draw, chosen)
        rules = draw(st.sampled_from(rules_for(kind)))
        arrays[f"x{place}"] = _array(draw, chosen, kind, n_rows)
        columns[f"x{place}"] = with_policy(rules, *draw(st.sampled_from(POLICIES)))
    if person:
        arrays[PERSON] = _array(draw, chosen, _kind(draw, chosen, person=True), n_rows)
    return RawTable(pa.table(arrays), columns)


def _kind(draw: Any, chosen: Format, *, person: bool = False) -> pa.DataType:
    by_family = chosen.kinds(person=person)
    return draw(st.sampled_from(by_family[draw(st.sampled_from(list(by_family)))]))


def _array(draw: Any, chosen: Format, kind: pa.DataType, n_rows: int) -> pa.Array:
    def fits(value: Any) -> bool:
        return value is None or chosen.fits(plain(array_of([value], kind)[0]), kind)

    # Few values, so that some occur in several rows.
    values = draw(st.lists(values_of(kind).filter(fits), min_size=1, max_size=n_rows))
    return array_of([draw(st.sampled_from(values)) for _ in range(n_rows)], kind)


@contextlib.contextmanager
def in_batches(data: pa.Table, rng: random.Random) -> Iterator[None]:
    """Encode the rows of a table in parts of equal size; few rows may be encoded one by one."""
    n_rows = max(1, data.num_rows // rng.choice(BATCHES))
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((arrow_rows, "BATCH_ROWS"), (source, "BATCH_ROWS")):
            patch.setattr(module, name, n_rows)
        patch.setattr(database, "BATCH", n_rows)
        yield


def taken(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Return some rows; `Table.take` has no string views."""
    return pa.concat_tables([table.slice(row, 1) for row in rows])


def schema_of(raw: RawTable, written: Written, *, person: bool = False) -> Schema:
    """Return the schema that reads a table in the dialect that it was written in."""
    schema = raw.schema(person=person)
    if not written.reading:
        return schema
    return Schema.from_dict({**schema.to_dict(), "reading": dict(written.reading)})


def codes_of(data: Any, schema: Schema, engine: str) -> list[dict[str, int]]:
    """Return the codes of each row that counts, in the order of their numbers."""
    names = list(schema.attributes)
    cells = connect(data, schema, engine=engine).counts(names)  # type: ignore[arg-type]
    assert set(cells.counts.tolist()) <= {1}  # rows differ in their numbers
    return [dict(zip(names, codes, strict=True)) for codes in cells.codes.tolist()]


def expected_codes(written: Written, schema: Schema) -> list[dict[str, int]]:
    """Encode all cells by the reference encoder."""
    by_column = {}
    for name, column in schema.attributes.items():
        reference = ReferenceColumn(column, schema.missing_values)
        cells = written.cells[name]
        if written.reading and is_rewritten(column, schema.reading):
            cells = [rewrite(cell, column, schema.reading) for cell in cells]
        by_column[name] = [reference.code(cell) for cell in cells]
    return [dict(zip(by_column, row, strict=True)) for row in zip(*by_column.values(), strict=True)]


def persons_of(written: Written, schema: Schema) -> list[str | None]:
    """Return who each row belongs to."""
    return [reference_identity(cell, schema.missing_values) for cell in written.cells[PERSON]]


def check_codes(
    raw: RawTable, chosen: Format, engine: str, folder: Path, rng: random.Random
) -> Counter[str]:
    """Compare codes of a table and of a part of it with the reference; return the cases.

    The part is one row, or the rows on one side of a cut.
    """
    n_rows = raw.table.num_rows
    start = rng.randrange(n_rows)
    length = 1 if rng.random() < 0.5 else rng.randint(1, n_rows - start)
    for part in (raw.table, raw.table.slice(start, length)):
        written = chosen.write(part, folder, rng)
        schema = schema_of(raw, written)
        with in_batches(part, rng):
            found = codes_of(written.data, schema, engine)
        assert found == expected_codes(written, schema)
    return Counter(tables=2, rows=n_rows + length)


def check_persons(
    raw: RawTable, chosen: Format, engine: str, folder: Path, rng: random.Random
) -> Counter[str]:
    """Check that one row of each person counts, with its codes; return the cases."""
    n_rows = raw.table.num_rows
    for part in (raw.table, raw.table.slice(rng.randrange(n_rows), 1)):
        written = chosen.write(part, folder, rng)
        schema = schema_of(raw, written, person=True)
        persons = persons_of(written, schema)
        expected = {codes[ROW]: codes for codes in expected_codes(written, schema)}
        person_of = dict(zip(expected, persons, strict=True))
        with in_batches(part, rng):
            found = codes_of(written.data, schema, engine)
        assert Counter(person_of[row[ROW]] for row in found) == Counter({*persons} - {None})
        assert found == [expected[row[ROW]] for row in found]
    return Counter(tables=2, rows=n_rows + 1)


def check_waves(
    raw: RawTable, chosen: Format, engine: str, folder: Path, rng: random.Random
) -> Counter[str]:
    """Check that the joined people of two waves are those in both; return the cases."""
    rows = list(range(raw.table.num_rows))
    dialect = rng.random()  # of both waves
    waves = [
        chosen.write(part, folder, random.Random(dialect))  # noqa: S311 - draws options of writers
        for part in (
            taken(raw.table, rng.sample(rows, rng.randint(1, len(rows)))) for _ in range(2)
        )
    ]
    schema = schema_of(raw, waves[0], person=True)
    people, codes = [], []
    for wave in waves:
        codes.append({row[ROW]: row for row in expected_codes(wave, schema)})
        people.append(dict(zip(codes[-1], persons_of(wave, schema), strict=True)))
    opened = open_waves(*(wave.data for wave in waves), engine=engine)  # type: ignore[arg-type]
    with in_batches(raw.table, rng):
        followed = opened.connect(schema).followed
        assert followed is not None
        names = [*schema.attributes, *map(previous, schema.attributes)]
        found = [
            dict(zip(names, row, strict=True)) for row in followed.counts(names).codes.tolist()
        ]
    pairs = [(row[ROW], row[previous(ROW)]) for row in found]
    both = {*people[0].values()} & {*people[1].values()} - {None}
    assert Counter((people[0][now], people[1][before]) for now, before in pairs) == Counter(
        (person, person) for person in both
    )
    for row, (now, before) in zip(found, pairs, strict=True):
        last = {previous(name): code for name, code in codes[1][before].items()}
        assert row == {**codes[0][now], **last}
    return Counter(tables=2, rows=sum(map(len, people)))


def check_linked(
    raw: RawTable, chosen: Format, engine: str, folder: Path, rng: random.Random
) -> Counter[str]:
    """Check that child rows belong to the parent with their key; return the cases."""
    dialect, n_rows = rng.random(), raw.table.num_rows
    down = chosen.write(raw.table, folder, random.Random(dialect))  # noqa: S311
    own = schema_of(raw, down, person=True)
    first: dict[str | None, int] = {}  # of each key
    for row, person in enumerate(persons_of(down, own)):
        first.setdefault(person, row)
    parents = taken(raw.table, rng.sample([*first.values()], rng.randint(1, len(first))))
    up = chosen.write(parents, folder, random.Random(dialect))  # noqa: S311
    columns = {
        name: content for name, content in own.to_dict()["columns"].items() if name != PERSON
    }
    reading = own.to_dict().get("reading", {})
    schema = LinkedSchema.from_dict(
        {
            "name": "raw",
            "missing_values": list(own.missing_values),
            "tables": {
                "up": {"key": PERSON, "columns": columns, "reading": reading},
                "down": {
                    "parent": "up", "foreign_key": PERSON, "max_children": n_rows,
                    "columns": columns, "reading": reading,
                },
            },
        }
    )  # fmt: skip
    parent_of = dict(zip(persons_of(up, own), expected_codes(up, own), strict=True))
    parent_of.pop(None, None)
    expected, n_children = [], Counter[int]()
    for person, codes in zip(persons_of(down, own), expected_codes(down, own), strict=True):
        if person in parent_of:
            above = {f"up.{name}": code for name, code in parent_of[person].items()}
            expected.append({**codes, **above})
            n_children[parent_of[person][ROW]] += 1
    opened = open_linked({"up": up.data, "down": down.data}, schema, engine=engine)  # type: ignore[arg-type]
    with in_batches(raw.table, rng):
        engines = opened.connect(schema)
        names = [*own.attributes, *(f"up.{name}" for name in own.attributes)]
        found = engines.engine("down").counts(names).codes.tolist()
        above = engines.engine("up").counts([ROW, "n_down"]).codes.tolist()
    assert [dict(zip(names, row, strict=True)) for row in found] == expected
    assert above == sorted([c[ROW], n_children[c[ROW]]] for c in parent_of.values())
    return Counter(tables=2, rows=n_rows + parents.num_rows)


Check = Callable[[RawTable, Format, str, Path, random.Random], Counter[str]]


def check_examples(
    check: Check,
    chosen: Format,
    folder: Path,
    n_examples: int = EXAMPLES,
    *,
    person: bool = True,
    most: int = N_ROWS,
) -> Counter[str]:
    """Run a check on drawn tables; return the number of cases.

    These are rows, and the tables that they are in, as a whole or in part. Several tables are read
    by every engine of the format, and a single one by one of them.
    """
    cases = Counter[str]()
    own_seed = zlib.crc32(f"{check.__name__} {chosen.write.__name__}".encode())
    engines = chosen.engines if n_examples > 1 else [chosen.engines[own_seed % len(chosen.engines)]]

    # Without shrinking, which takes minutes, and without Hypothesis's first example, in which
    # everything is 0. Every test draws other tables.
    @seed(shifted(own_seed))
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(st.integers(0, 2**32).filter(bool), raw_tables(chosen, most, person=person))
    def run(number: int, raw: RawTable) -> None:
        for engine in engines:
            rng = random.Random(number)  # noqa: S311 - draws options of writers
            cases.update(check(raw, chosen, engine, folder, rng))

    run()
    print(f"\n{cases['rows']} rows in {cases['tables']} tables")
    return cases


def check_many(check: Check, chosen: Format, folder: Path, *, person: bool = True) -> Counter[str]:
    """Run a check on the tables of the long suite; return the number of cases."""
    cases = check_examples(check, chosen, folder, LONG_EXAMPLES, person=person, most=LONG_ROWS)
    assert cases["rows"] >= LEAST_ROWS * len(chosen.engines)
    return cases


OF_PERSONS = {"persons": check_persons, "waves": check_waves, "linked tables": check_linked}


@pytest.mark.parametrize("name", FORMATS)
def test_codes(name: str, tmp_path: Path) -> None:
    assert check_examples(check_codes, FORMATS[name], tmp_path, person=False)


@pytest.mark.parametrize("check", OF_PERSONS)
@pytest.mark.parametrize("name", FORMATS)
def test_persons(name: str, check: str, tmp_path: Path) -> None:
    assert check_examples(OF_PERSONS[check], FORMATS[name], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_many_codes(name: str, tmp_path: Path) -> None:
    check_many(check_codes, FORMATS[name], tmp_path, person=False)


@pytest.mark.long
@pytest.mark.parametrize("check", OF_PERSONS)
@pytest.mark.parametrize("name", FORMATS)
def test_many_persons(name: str, check: str, tmp_path: Path) -> None:
    check_many(OF_PERSONS[check], FORMATS[name], tmp_path)


# --- earlier bugs --------------------------------------------------------------------------------


def _parquet(table: pa.Table, folder: Path, rng: random.Random) -> Written:
    path = folder / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(table, path)
    return Written(path, {name: list(table[name]) for name in table.column_names})


PLAIN = {"arrow": Format(arrow, ()), "parquet": Format(_parquet, ())}
READ_BY = [("arrow", "memory"), ("parquet", "duckdb")]  # what was read otherwise by one of them
BESIDE = {"x1": pa.array([None], pa.decimal128(5, 2)), "x2": pa.array([None], pa.int64())}


def _with_beside(values: pa.Array, rules: dict[str, Any], beside: str) -> RawTable:
    """Build a table with a second column, whose type must not change how others are read."""
    n_rows = len(values)
    arrays = {
        ROW: pa.array(range(n_rows)),
        "x0": values,
        beside: pa.concat_arrays([BESIDE[beside]] * n_rows),
    }
    other = {"type": "number", "low": 0, "high": 1, "step": 1, "missing": "category"}
    return RawTable(pa.table(arrays), {"x0": rules, beside: other})


def _spread(values: Sequence[Any], n: int) -> list[Any]:
    return list(values)[:: max(1, len(values) // n)]


SECONDS_RULES = {
    "type": "timestamp", "low": "1969-12-31 23:59:50", "high": "1970-01-01 00:00:09",
    "step": "second", "missing": "category", "outside": "missing",
}  # fmt: skip
CLOCK_RULES = {"type": "time", "step": "second", "missing": "category"}
NUMBER_RULES = {"type": "number", "low": 0.0, "high": 9.0, "step": 1.0, "missing": "category"}
INSTANTS = [-1_000_000_001, -500_000_000, -1, 0, 499_999_999, 500_000_000, 999_999_999]
FAULTS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    # DuckDB computed isnan from the statistics of a Parquet file.
    "nan": (pa.array([math.nan, 1.0, 2.0]), NUMBER_RULES),
    "nan alone": (pa.array([math.nan]), NUMBER_RULES),
    "single nan": (pa.array([math.nan, 1.0], pa.float32()), NUMBER_RULES),
    # Fractions of a second from 0.5 on were rounded up.
    "instants": (array_of(INSTANTS, pa.timestamp("ns", "Europe/Berlin")), SECONDS_RULES),
    "timestamps": (array_of(INSTANTS, pa.timestamp("ns")), SECONDS_RULES),
    "microseconds": (
        array_of([i // 1000 for i in INSTANTS], pa.timestamp("us", "UTC")), SECONDS_RULES
    ),
    "times": (array_of([999_999_999, 86_399_999_999_999], pa.time64("ns")), CLOCK_RULES),
    # Integers above 2**53 were read as doubles.
    "special": (
        pa.array([2**53, 2**53 + 1]),
        {"type": "integer", "low": 0, "high": 9, "special": {2**53 + 1: "far"}},
    ),
    # DuckDB wrote .1 for a decimal without digits before the point.
    "shares": (
        pa.array([Decimal("0.1"), Decimal("-0.1"), Decimal("0.0")], pa.decimal128(1, 1)),
        {"type": "categorical", "values": ["0.1", "-0.1", "0.0"], "missing": "category"},
    ),
    "long decimals": (
        array_of([2**53, 2**53 + 1], pa.decimal256(50, 0)),
        {"type": "integer", "low": 2**53, "high": 2**53 + 2, "outside": "clip"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize(("name", "engine"), READ_BY)
@pytest.mark.parametrize("fault", FAULTS)
def test_codes_that_were_wrong(
    fault: str, name: str, engine: str, beside: str, tmp_path: Path
) -> None:
    raw = _with_beside(*FAULTS[fault], beside)
    check_codes(raw, PLAIN[name], engine, tmp_path, random.Random(0))  # noqa: S311


PERSONS = {
    "long decimals": array_of([2**60, 2**60 + 1, 2**60], pa.decimal256(50, 0)),
    "instants": array_of([1, 2, 1], pa.timestamp("ns", "UTC")),
    "timestamps": array_of([1, 2, 1], pa.timestamp("ns")),
    "times": array_of([1, 2, 1], pa.time64("ns")),
    "lengths": array_of([1, 2, 1], pa.duration("ns")),
    "zeros": pa.array([0.0, -0.0, 1.0, math.nan]),
    "texts": pa.array(["a", "A", "a ", "é", "e\u0301", "a\0", "a"]),
    "numbers": pa.array([999, 999, None]),
    "long numbers": array_of([999, 999, None], pa.decimal256(50, 0)),
}


@pytest.mark.parametrize(("name", "engine"), READ_BY)
@pytest.mark.parametrize("persons", PERSONS)
def test_persons_that_were_confused(persons: str, name: str, engine: str, tmp_path: Path) -> None:
    column = PERSONS[persons]
    arrays = {ROW: pa.array(range(len(column))), PERSON: column}
    raw = RawTable(pa.table(arrays), {})
    for check in OF_PERSONS.values():
        check(raw, PLAIN[name], engine, tmp_path, random.Random(0))  # noqa: S311


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_nanoseconds_of_a_database_are_not_rounded(engine: str, tmp_path: Path) -> None:
    """A nanosecond before a second, ibis counted the next second."""
    raw = _with_beside(array_of(INSTANTS, pa.timestamp("ns")), SECONDS_RULES, "x2")
    check_codes(raw, FORMATS["duckdb table"], engine, tmp_path, random.Random(0))  # noqa: S311


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_both_zeros_of_a_database_are_one_person(engine: str, tmp_path: Path) -> None:
    zeros = PERSONS["zeros"]
    raw = RawTable(pa.table({ROW: pa.array(range(len(zeros))), PERSON: zeros}), {})
    check_persons(raw, FORMATS["duckdb table"], engine, tmp_path, random.Random(0))  # noqa: S311


@pytest.mark.parametrize("check", ["waves", "linked tables"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")], ids=str)
@pytest.mark.parametrize("rules", [CLOCK_RULES, SECONDS_RULES], ids=["time", "seconds"])
def test_nanoseconds_of_joined_tables(
    kind: pa.DataType, rules: dict[str, Any], engine: str, check: str, tmp_path: Path
) -> None:
    """A timestamp in nanoseconds became a text, which a column of times cannot read."""
    values = array_of([*INSTANTS, 1_799_000_000_001], kind)
    arrays = {ROW: pa.array(range(len(values))), PERSON: pa.array(range(len(values)))}
    raw = RawTable(pa.table({**arrays, "x0": values}), {"x0": rules})
    OF_PERSONS[check](raw, PLAIN["arrow"], engine, tmp_path, random.Random(0))  # noqa: S311


# --- columns of Python objects --------------------------------------------------------------------

NOON = datetime.datetime(2024, 2, 29, 12)
OBJECTS: dict[str, list[Any]] = {
    "date and timestamps": [NOON.date(), NOON, NOON.replace(hour=13), None],
    "singles and doubles": [np.float32(0.1), 0.1, 1e300, math.nan],
    "decimals": [Decimal("1.5"), Decimal("1.50"), Decimal("1.2345678901234567890"), None],
    "nanoseconds": [pd.Timestamp(1), pd.Timestamp(2), pd.NaT],
    "instants": [NOON.replace(tzinfo=datetime.UTC), pd.Timestamp("2024-02-29", tz="Asia/Tokyo")],
    "whole numbers": [2**70, 2**70 + 1, 3],
    "numbers and texts": [1, "a", 2.5, pd.NA],
    "lengths and times": [datetime.timedelta(seconds=1), datetime.time(1, 2, 3), "a"],
}


@pytest.mark.parametrize("values", OBJECTS.values(), ids=OBJECTS)
def test_objects_of_pandas_are_read_one_by_one(values: list[Any]) -> None:
    """Arrow chose one type for all objects, so one row could change or merge others."""

    def read(objects: list[Any]) -> list[Any]:
        column = pd.Series(objects, dtype=object)
        found: list[Any] = as_arrow(pd.DataFrame({"x": column}))["x"].to_pylist()
        return found

    together = read(values)
    assert together == [one for value in values for one in read([value])]
    named = [text for text in together if text is not None]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("values", [["x62", b"b"], ["true", True], [1, np.True_]])
def test_bytes_and_booleans_among_other_objects_are_refused(values: list[Any]) -> None:
    """Their texts could be those of other values, or have other codes than they have alone."""
    with pytest.raises(DataError, match="mixes bytes or booleans"):
        as_arrow(pd.DataFrame({"x": pd.Series(values, dtype=object)}))


def test_types_of_duckdb_that_lose_digits_are_refused() -> None:
    """Arrow drops the offset of a time, and reads a large unsigned number as negative."""
    relation = duckdb.sql("SELECT '12:00:00+01'::TIMETZ AS a, 1 AS b, 7::UHUGEINT AS c")
    with pytest.raises(DataError) as caught:
        as_arrow(relation)
    assert [problem.split("'")[1] for problem in caught.value.problems] == ["a", "c"]


# --- types that are refused ----------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("kind", KINDS["refused"], ids=str)
def test_a_type_is_refused_whatever_the_rows_contain(kind: pa.DataType, engine: str) -> None:
    values = _spread(hard_values(kind), 4)
    messages = set()
    for rows in (values, values[:1], [None], []):
        raw = RawTable(
            pa.table({ROW: pa.array(range(len(rows)), pa.int64()), "x0": array_of(rows, kind)}),
            {"x0": NUMBER_RULES},
        )
        with pytest.raises(DataError) as caught:
            connect(raw.table, raw.schema(), engine=engine)  # type: ignore[arg-type]
        messages.add(str(caught.value))
    assert len(messages) == 1
