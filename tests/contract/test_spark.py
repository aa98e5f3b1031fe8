"""Spark: the same answers as other engines, and one draw for each row that executors publish.

All tests share one small session of Spark, hence one worker (``--dist loadgroup``).
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import gc
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

import clinic
import hushtable
from contract.engine_checks import (
    ALIKE_CHECKS,
    CHECKS,
    Make,
    check_a_row_of_any_kind_changes_answers_by_that_row,
    check_broken_rules,
    check_far_bounds,
    check_items_and_persons_that_are_alike,
    check_one_row_is_one_row_in_each_answer,
    check_random_tables,
    check_random_tables_with_other_values,
    check_recoding_by_taxonomy,
    check_recodings,
    check_small_tables,
    persons_schema,
    persons_table,
    random_table,
)
from contract.examples import COARSE
from hushtable import engine as engines
from hushtable.datasets import sample, sample_schema
from hushtable.domain import Domain
from hushtable.engine import SqlEngine, connect
from hushtable.engine import sql_engine as sql
from hushtable.engine.cells import OccupiedCells
from hushtable.engine.linked_tables import open_linked
from hushtable.engine.rule_breaks import N_RULES
from hushtable.engine.spark import writing as spark_writing
from hushtable.engine.two_waves import open_waves
from hushtable.errors import DataError, ParameterError, ReleaseError, TooLarge
from hushtable.methods import (
    AlphaBeta,
    Columns,
    Condensation,
    DiffGen,
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    Partition,
    Uncertain,
)
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.release.release import Release
from hushtable.schema import Schema
from seeds import shifted
from spark_session import start

pytestmark = pytest.mark.xdist_group("spark")
ALPHA = 1e-6  # false alarms of each statistical test


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start Spark once."""
    running = start(tmp_path_factory.mktemp("spark"))
    yield running
    running.stop()


def to_spark(session: Any, table: pa.Table, folder: Path) -> Any:
    """Write a table as Parquet and have Spark read it."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table, path)
    return session.read.parquet(str(path))


def maker(session: Any, folder: Path) -> Make:
    def make(table: pa.Table, schema: Schema) -> Any:
        return connect(to_spark(session, table, folder), schema)

    return make


def test_tables_that_belong_together_are_joined(session: Any, tmp_path: Path) -> None:
    data = {name: to_spark(session, table, tmp_path) for name, table in clinic.DATA.items()}
    clinic.check_wide_rows(open_linked(data, clinic.SCHEMA))


@pytest.mark.parametrize("check", ALIKE_CHECKS, ids=lambda check: check.__name__)
def test_texts_with_a_collation(
    session: Any, check: Callable[[Make], None], tmp_path: Path
) -> None:
    from pyspark.sql import functions

    def make(table: pa.Table, schema: Schema) -> Any:
        frame = to_spark(session, table, tmp_path)
        texts = [f.name for f in frame.schema.fields if f.dataType.typeName() == "string"]
        alike = {name: functions.collate(name, "UNICODE_CI_AI") for name in texts}
        return connect(frame.withColumns(alike), schema)

    check(make)


# Each makes about a hundred queries, which Spark answers one by one.
SLOW = {
    check_a_row_of_any_kind_changes_answers_by_that_row,
    check_broken_rules,
    check_far_bounds,
    check_items_and_persons_that_are_alike,  # this and the next: with a collation, above
    check_one_row_is_one_row_in_each_answer,
    check_random_tables,  # smaller ones are compared with other engines below
    check_random_tables_with_other_values,
    check_recoding_by_taxonomy,
    check_recodings,
    check_small_tables,
}


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=[pytest.mark.long] if c in SLOW else []) for c in CHECKS],
    ids=lambda check: check.__name__,
)
def test_engine(session: Any, check: Callable[[Make], None], tmp_path: Path) -> None:
    check(maker(session, tmp_path))


# ---- ways to Spark -------------------------------------------------------------------------------

ONE = Schema.from_dict(
    {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 3},
                              "sex": {"type": "categorical", "values": ["F", "M"]}}}
)  # fmt: skip
TWO_ROWS = pa.table({"x": [1, 3], "sex": ["F", "M"]})


def test_ways_to_spark(session: Any, tmp_path: Path) -> None:
    pq.write_table(TWO_ROWS, tmp_path / "a.parquet")
    pq.write_table(TWO_ROWS, tmp_path / "b.parquet")
    frame = session.read.parquet(str(tmp_path))
    made = session.createDataFrame([(1, "F"), (3, "M"), (1, "F"), (3, "M")], "x int, sex string")
    table = ibis.pyspark.connect(session).read_parquet(str(tmp_path))
    for data, engine in (
        (tmp_path, "spark"), (str(tmp_path / "*.parquet"), "spark"), (frame, "auto"),
        (frame, "spark"), (made, "auto"), (table, "auto"), (frame, "memory"),
    ):  # fmt: skip
        engines.open(frame).check(ONE)
        asked = connect(data, ONE, engine=engine)
        assert isinstance(asked, SqlEngine) == (engine != "memory")
        assert asked.histograms(["x"], by="sex")["x"].tolist() == [[0, 0], [2, 0], [0, 0], [0, 2]]


def test_what_spark_cannot_take_is_refused(session: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,sex\n1,F\n")
    for data, words in (
        (tmp_path / "t.csv", "reads Parquet files"),
        (TWO_ROWS, "give the path of Parquet files"),
    ):
        with pytest.raises(ParameterError, match=words):
            connect(data, ONE, engine="spark")
    with pytest.raises(DataError, match="does not exist"):
        connect(tmp_path / "no.parquet", ONE, engine="spark")
    (tmp_path / "bad.parquet").write_text("x")
    with pytest.raises(DataError, match="is not a Parquet file"):
        connect(tmp_path / "bad.parquet", ONE, engine="spark")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        connect((tmp_path / "bad.parquet").as_uri(), ONE, engine="spark")
    frame = session.createDataFrame([(1, "F")], "x int, gender string")
    with pytest.raises(DataError, match="'gender' is in the data but not"):
        connect(frame, ONE)
    with pytest.raises(ParameterError, match="cannot count a table that is in pyspark"):
        connect(frame, ONE, engine="duckdb")
    with pytest.raises(ParameterError, match="but a session is running"):
        connect(tmp_path, ONE, engine="spark", memory_limit="1GB")


def test_files_with_other_types_are_refused(session: Any, tmp_path: Path) -> None:
    pq.write_table(TWO_ROWS, tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["1"], "sex": ["F"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="does not have the same columns and types"):
        connect(tmp_path, ONE, engine="spark")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        connect(tmp_path.as_uri(), ONE, engine="spark")


def test_spark_reads_the_files_that_the_other_engines_read(session: Any, tmp_path: Path) -> None:
    """The files that a path matches must not depend on the engine."""
    for number, name in enumerate(
        [
            "a[1].parquet",
            "a1.parquet",
            "b",
            "c.parq",
            "_d.parquet",
            "deep/x=2/e.parquet",
            "{f}.parquet",
        ]
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        rows = pa.table({"x": [3] * 2**number, "sex": ["F"] * 2**number})
        pq.write_table(rows, tmp_path / name)
    for path, n_rows in (("a[1].parquet", 1), ("{f}.parquet", 64), ("", 1 + 2 + 32 + 64)):
        for engine in ("memory", "duckdb", "spark"):
            found = connect(tmp_path / path, ONE, engine=engine)
            assert found.n_rows() == n_rows, (path, engine)
    address = (tmp_path / "deep").as_uri()  # Spark alone lists these paths
    assert connect(address, ONE, engine="spark").n_rows() == 32


def test_speculation_is_refused_before_anything_is_charged(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = type(session.sparkContext.getConf())
    monkeypatch.setattr(conf, "get", lambda _, name, *default: str(name == "spark.speculation"))
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1)
    frame = session.createDataFrame([(1, "F")], "x int, sex string")
    with pytest.raises(ParameterError, match=r"spark\.speculation=false"):
        hushtable.publish(
            frame, ONE, NoisyCounts(epsilon=1, mechanism="pure"), out=tmp_path / "o", ledger=ledger
        )
    assert not ledger.entries()


OTHERS = {  # the first problem of an executor's Python, and its message
    "No module named 'hushtable'": (
        "hushtable.py", "raise ModuleNotFoundError(\"No module named 'hushtable'\")",
    ),
    "they have version 0.0.1": (
        "sitecustomize.py",
        "import importlib.metadata as m; m.version = lambda name: '0.0.1'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", OTHERS)
def test_executors_without_this_hushtable_are_refused_before_anything_is_charged(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    file, content = OTHERS[why]
    (tmp_path / file).write_text(content)
    python = tmp_path / "python"
    path = f'PYTHONPATH="{tmp_path}:$PYTHONPATH"'
    python.write_text(f'#!/bin/sh\n{path} exec "{sys.executable}" "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(session.sparkContext, "pythonExec", str(python))
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1)
    frame = to_spark(session, TWO_ROWS, tmp_path)
    with pytest.raises(ParameterError) as error:
        hushtable.publish(
            frame, ONE, NoisyCounts(epsilon=1, mechanism="pure"), out=tmp_path / "o", ledger=ledger
        )
    assert f"{why}); install it" in str(error.value)
    assert "docs/how-to/run-on-a-cluster.md" in str(error.value)
    assert not ledger.entries()
    assert not (tmp_path / "o").exists()


def test_every_type_of_column(session: Any, tmp_path: Path) -> None:
    number = {"type": "integer", "low": 0, "high": 3, "outside": "clip", "missing": "category"}
    listed = {"type": "categorical", "values": ["1", "2.5", "true", "2024-12-31"],
              "missing": "category", "outside": "missing"}  # fmt: skip
    real = {"type": "number", "low": 0, "high": 3, "step": 1, "outside": "clip",
            "missing": "category"}  # fmt: skip
    cases: list[tuple[pa.Array, dict[str, Any], list[int]]] = [
        (pa.array([1, 2**64 - 1, None], pa.uint64()), number, [0, 1, 0, 1, 1]),
        (pa.array([1, 10**30, -(10**30)], pa.decimal128(38, 0)), number, [1, 1, 0, 1, 0]),
        (pa.array([1, 300, None], pa.int16()), number, [0, 1, 0, 1, 1]),
        (pa.array([True, False, None]), number, [1, 1, 0, 0, 1]),
        (pa.array([1.0, math.inf, math.nan], pa.float32()), number, [0, 1, 0, 1, 1]),
        (pa.array(["1", "x1", None]).dictionary_encode(), listed, [1, 0, 0, 0, 2]),
        (pa.array([1.0, 2.5, math.nan]), listed, [1, 1, 0, 0, 1]),
        (pa.array([1, 2, 2]), listed, [1, 0, 0, 0, 2]),
        (pa.array([True, False, True]), listed, [0, 0, 2, 0, 1]),
        (pa.array([datetime.date(2024, 12, 31)] * 3), listed, [0, 0, 0, 3, 0]),
        (pa.array([Decimal("1.49"), Decimal("1.50"), None]), real, [0, 1, 1, 0, 1]),
        (pa.array([0.5, 2.4999, 1e300], pa.float64()), real, [0, 1, 1, 1, 0]),
    ]
    schema = Schema.from_dict(
        {"name": "t", "columns": {f"x{i}": column for i, (_, column, _) in enumerate(cases)}}
    )
    table = pa.table({f"x{i}": values for i, (values, _, _) in enumerate(cases)})
    answer = connect(to_spark(session, table, tmp_path), schema).histograms(list(schema.columns))
    for name, (values, _, expected) in zip(answer, cases, strict=True):
        assert answer[name].tolist() == expected, (name, values.type)


def test_randomized_tables_agree_with_memory_and_duckdb(session: Any, tmp_path: Path) -> None:
    for seed, outside in ((21, "missing"), (22, "clip")):
        table, schema = random_table(seed, outside=outside, missing="category", n_rows=2000)
        names = list(schema.attributes)
        memory, duck = (connect(table, schema, engine=e) for e in ("memory", "duckdb"))  # type: ignore[arg-type]
        here = connect(to_spark(session, table, tmp_path), schema)
        histograms, counts = here.histograms(names, by="listed"), here.counts(names)
        for other in (memory, duck):
            theirs = other.histograms(names, by="listed")
            assert all((histograms[name] == theirs[name]).all() for name in names)
            cells = other.counts(names)
            assert (counts.codes == cells.codes).all()
            assert (counts.counts == cells.counts).all()


# ---- a user's own session: everything is left as it was ------------------------------------------


def test_nothing_stays_in_the_session(session: Any) -> None:
    rows = persons_table([5] * 5)
    frame = session.createDataFrame(rows.to_pandas())
    settings = {k: session.conf.get(k) for k in ("spark.sql.session.timeZone",)}
    gc.collect()  # objects of earlier tests must not be collected during this one
    kept_before = session.sparkContext._jsc.getPersistentRDDs().size()
    engine = connect(frame, persons_schema(2))
    assert engine.n_rows() == 10
    assert engine.histograms(["person"])["person"][:5].tolist() == [2] * 5
    assert session.sparkContext._jsc.getPersistentRDDs().size() > kept_before
    del engine
    gc.collect()
    assert not session.sql("SHOW VIEWS LIKE 'hushtable_*'").collect()
    assert session.sparkContext._jsc.getPersistentRDDs().size() == kept_before
    assert settings == {k: session.conf.get(k) for k in settings}


def test_what_may_come_out_differently_is_computed_once(session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    files = to_spark(session, TWO_ROWS, tmp_path)
    odd = functions.udf(lambda x: x, "int")
    for frame, kept in (
        (files, False),
        (files.select("sex", "x").filter("x > 1"), False),
        (files.filter(functions.rand() > 0.5), True),
        (files.sample(0.5), True),
        (files.withColumn("x", odd("x")), True),
        (files.join(files.select("x"), "x"), True),
        (session.createDataFrame([(1, "F")], "x int, sex string"), True),
    ):
        assert isinstance(connect(frame, ONE), SqlEngine)
        assert engines.open(frame).source().copied == kept
    drawn = connect(session.range(4000).selectExpr("int(rand() * 4) AS x", "'F' AS sex"), ONE)
    first, second = (drawn.histograms(["x"])["x"].tolist() for _ in range(2))
    assert first == second  # by chance with probability below 1e-4 if it were drawn again


def test_rows_chosen_at_random_are_not_chosen_twice(session: Any, tmp_path: Path) -> None:
    engine = connect(to_spark(session, persons_table([9] * 20), tmp_path), persons_schema(3))
    assert engine.n_rows() == 60
    for rdd in dict(session.sparkContext._jsc.getPersistentRDDs()).values():
        rdd.unpersist(True)  # as if the executors with the rows were lost
    with pytest.raises(DataError, match="not a second time"):
        engine.histograms(["visit"])


def test_coins_of_an_answer_fall_once(session: Any, tmp_path: Path) -> None:
    """A repeated task of a query would see other rows: a record in too many columns."""
    engine = connect(to_spark(session, persons_table([9] * 20), tmp_path), persons_schema(100))
    rows = engine._rows  # type: ignore[attr-defined]
    drawn = rows.draw(rows.table.select(coin=ibis.random()))
    first, second = (sorted(drawn.fetch(drawn.table)["coin"].to_pylist()) for _ in range(2))
    assert first == second
    for rdd in dict(session.sparkContext._jsc.getPersistentRDDs()).values():
        rdd.unpersist(True)  # as if the executors with the rows were lost
    with pytest.raises(DataError, match="not a second time"):
        drawn.fetch(drawn.table)


def test_too_many_cells_are_refused_and_do_not_travel(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "MAX_CELLS", 50)
    x = {"type": "integer", "low": 0, "high": 99}
    schema = Schema.from_dict({"name": "t", "columns": {"x": x}})
    fits, not_fits = pa.table({"x": range(50)}), pa.table({"x": range(51)})
    assert len(connect(to_spark(session, fits, tmp_path), schema).counts(["x"]).counts) == 50
    for data in (to_spark(session, not_fits, tmp_path), not_fits):
        with pytest.raises(TooLarge, match="more than 50 cells") as error:
            connect(data, schema, engine="auto" if data is not not_fits else "duckdb").counts(["x"])
        assert "51" not in str(error.value)


def test_pyspark_is_not_imported_before_it_is_asked_for() -> None:
    code = "import sys, hushtable.cli.app, hushtable.engine; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- methods: equal releases if the driver draws -------------------------------------------------

DRIVER_SIDE: list[Method] = [
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE, row_count_share="1/20"),
    DiffGen(epsilon=1, specializations=4),
    Partition(epsilon=1, max_depth=5),
    AlphaBeta(d="3/10", n_public=6000, gamma="1/2"),
    GeneralizeSuppress(k=5, generalize=COARSE),
    Columns(
        epsilon=2, delta="1e-6", k=10, max_columns=2, generalize=COARSE,
        columns=[["age", "sex", "region"], ["region", "smoker", "diagnosis"]],
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:this release is not private")
@pytest.mark.parametrize("method", DRIVER_SIDE, ids=lambda method: method.name)
def test_seeded_releases_of_spark_and_duckdb_are_equal(
    session: Any, method: Method, tmp_path: Path
) -> None:
    path = tmp_path / "sample.parquet"
    pq.write_table(sample(), path)
    releases = [
        hushtable.publish(
            path, sample_schema(), method, out=tmp_path / engine, engine=engine,  # type: ignore[arg-type]
            noise=SeededNoise(shifted(5)),
        )
        for engine in ("duckdb", "spark")
    ]  # fmt: skip
    for name in releases[0].statement.tables:
        assert releases[0].table(name).equals(releases[1].table(name))
    assert releases[0].statement.estimator == releases[1].statement.estimator


def test_one_machine_methods_say_so_before_anything_is_charged(
    session: Any, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, allow_uncounted=True)
    frame = session.createDataFrame([(1, "F")], "x int, sex string")
    for method in (Uncertain(k=2, carry=["sex"]), Condensation(k=2, carry=["sex"])):
        with pytest.raises(ParameterError, match=r"one machine.*records"):
            hushtable.publish(frame, ONE, method, out=tmp_path / "out", ledger=ledger)
    assert not ledger.entries()


# ---- rows that executors write -------------------------------------------------------------------

WIDE = Schema.from_dict(
    {"name": "wide", "columns": {
        "cell": {"type": "integer", "low": 0, "high": 9_999, "missing": "category"},
        "kind": {"type": "categorical", "values": ["a", "b"], "missing": "category"},
    }}
)  # fmt: skip


def wide_table(counts: dict[tuple[int, str | None], int]) -> pa.Table:
    cells = [cell for cell, n in counts.items() for _ in range(n)]
    return pa.table(
        {"cell": pa.array([c for c, _ in cells], pa.int64()),
         "kind": pa.array([k for _, k in cells], pa.string())}
    )  # fmt: skip


@pytest.fixture
def on_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make executors publish domains that would fit on the driver."""
    monkeypatch.setattr(sql, "MAX_CELLS", 10)


def cells_of(release: Release, column: str = "count") -> dict[tuple[Any, Any], int]:
    table = release.table()
    counts = table[column].to_pylist() if column in table.column_names else [1] * table.num_rows
    cells = zip(table["cell"].to_pylist(), table["kind"].to_pylist(), strict=True)
    return dict(zip(cells, counts, strict=True))


@pytest.mark.usefixtures("on_executors")
@pytest.mark.parametrize("mechanism", ["tight", "paper"])
def test_noise_of_executors_has_the_right_distribution(
    session: Any, tmp_path: Path, mechanism: Any
) -> None:
    # 4,000 tuples of the same count each get their own draw; so do those of a second count. A
    # chi-square test on the published counts; outcomes below 20 are merged.
    method = NoisyCounts(epsilon=1, delta="1e-3", k=5, mechanism=mechanism)
    sizes = {n: range(n * 100, n * 100 + 4000) for n in (9,)} | {13: range(5000, 9000)}
    table = wide_table({(c, "a"): n for n, cells in sizes.items() for c in cells})
    release = hushtable.publish(
        to_spark(session, table, tmp_path), WIDE, method, out=tmp_path / "out"
    )
    file = release.statement.tables["data"]
    assert file.file == "data.parquet"
    assert list(file.parts) == ["part-00000.parquet", "part-00001.parquet"]
    published = cells_of(release)
    assert len(published) == release.table().num_rows == file.rows  # no tuple twice
    for count, cells in sizes.items():
        found = collections.Counter(published.get((c, "a"), 0) for c in cells)
        mass = method.of_one_row.mass(count)
        assert set(found) <= set(mass)
        observed, expected = [0.0], [0.0]
        for outcome, chance in mass.items():
            observed[-1] += found[outcome]
            expected[-1] += chance * len(cells)
            if expected[-1] >= 20:
                observed.append(0.0)
                expected.append(0.0)
        observed[-2:] = [sum(observed[-2:])]
        expected[-2:] = [sum(expected[-2:])]
        distance = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
        assert scipy.stats.chi2.sf(distance, len(observed) - 1) > ALPHA / 2


@pytest.mark.usefixtures("on_executors")
def test_executors_noise_the_whole_domain_for_pure(session: Any, tmp_path: Path) -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {"cell": {"type": "integer", "low": 0, "high": 999},
                                  "kind": {"type": "categorical", "values": ["a", "b"]}}}
    )  # fmt: skip
    table = wide_table({(3, "a"): 500, (999, "b"): 700})
    release = hushtable.publish(
        to_spark(session, table, tmp_path), schema,
        NoisyCounts(epsilon=1, mechanism="pure"), out=tmp_path / "out",
    )  # fmt: skip
    noisy = cells_of(release, "noisy_count")
    assert release.table().num_rows == 2000  # each once
    assert set(noisy) == {(c, k) for c in range(1000) for k in "ab"}
    # |Z| > 40 has probability 2 e**-41 / (1 + 1/e) = 2e-18 for each of 2,000 tuples.
    assert abs(noisy.pop((3, "a")) - 500) <= 40
    assert abs(noisy.pop((999, "b")) - 700) <= 40
    assert max(map(abs, noisy.values())) <= 40
    zeros = sum(n == 0 for n in noisy.values())  # P[Z = 0] = (1 - 1/e) / (1 + 1/e)
    assert scipy.stats.binomtest(zeros, 1998, math.tanh(0.5)).pvalue > ALPHA


@pytest.mark.usefixtures("on_executors")
def test_executors_delete_and_the_driver_inserts(session: Any, tmp_path: Path) -> None:
    method = AlphaBeta(alpha="1/4", beta="1/4")
    held = {(c, None): 1 + c % 3 for c in range(0, 8000, 2)}
    release = hushtable.publish(
        to_spark(session, wide_table(held), tmp_path), WIDE, method, out=tmp_path / "out"
    )
    table = release.table()
    published = set(zip(table["cell"].to_pylist(), table["kind"].to_pylist(), strict=True))
    assert len(published) == table.num_rows  # a tuple of the table that was also inserted: once
    kept = sum(cell in published for cell in held)
    inserted = len(published) - kept
    domain = 10_001 * 3
    assert scipy.stats.binomtest(kept, len(held), 0.5).pvalue > ALPHA / 2
    assert scipy.stats.binomtest(inserted, domain - len(held), 0.25).pvalue > ALPHA / 2
    assert release.count("kind IS NULL").value > 0


def test_spark_and_duckdb_releases_are_equal_in_distribution(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same counts in; 3,000 tuples each out. Two samples of one distribution, by chi-square.
    method = NoisyCounts(epsilon="1/2", delta="1e-2", k=3)
    table = wide_table({(c, "b"): 8 for c in range(3000)})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    from_duck = hushtable.publish(path, WIDE, method, out=tmp_path / "duck")
    monkeypatch.setattr(sql, "MAX_CELLS", 10)
    from_spark = hushtable.publish(path, WIDE, method, out=tmp_path / "spark", engine="spark")
    assert from_spark.statement.tables["data"].parts
    tallies = []
    for release in (from_duck, from_spark):
        found = cells_of(release)
        tallies.append(collections.Counter(found.get((c, "b"), 0) for c in range(3000)))
    outcomes = [o for o in set(tallies[0]) | set(tallies[1]) if sum(t[o] for t in tallies) >= 20]
    rest = [3000 - sum(t[o] for o in outcomes) for t in tallies]
    rows = [[t[o] for o in outcomes] for t in tallies]
    if sum(rest):
        rows = [[*row, left] for row, left in zip(rows, rest, strict=True)]
    assert scipy.stats.chi2_contingency(rows).pvalue > ALPHA


@pytest.mark.usefixtures("on_executors")
def test_every_executor_draws_its_own_noise(session: Any, tmp_path: Path) -> None:
    # Were two tasks to share a stream, the i-th tuples of both files would have the same noise.
    method = NoisyCounts(epsilon="1/50", mechanism="pure")
    schema = Schema.from_dict(
        {"name": "t", "columns": {"cell": {"type": "integer", "low": 0, "high": 1999}}}
    )
    table = pa.table({"cell": [1]})
    release = hushtable.publish(
        to_spark(session, table, tmp_path), schema, method, out=tmp_path / "out"
    )
    first, second = (
        pq.read_table(release.folder / file)["noisy_count"].to_numpy()[:900]
        for file in release.statement.tables["data"].digests
    )
    # P[Z = Z'] <= P[Z = 0] = tanh(1/100) < 0.01 for independent draws: 9 expected of 900.
    assert np.sum(first == second) < 60


@pytest.mark.usefixtures("on_executors")
@pytest.mark.parametrize("end", ["raises after a part", "raises after all", "dies after a part"])
def test_a_task_that_is_tried_again_publishes_its_second_draws_alone(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    from pyspark import TaskContext

    task, seen, out = spark_writing._Task, tmp_path / "seen", tmp_path / "published" / "out"
    seen.mkdir()
    out.parent.mkdir()

    class Unlucky(task):  # type: ignore[misc, valid-type]
        """Fail the first attempt of every task, after it wrote rows to its file."""

        def __call__(self, batches: Any) -> Any:
            context = TaskContext.get()
            attempt, partition = context.attemptNumber(), context.partitionId()
            for number, batch in enumerate(task.__call__(self, batches)):
                pq.write_table(pa.table(batch), seen / f"{attempt}-{partition}-{number}.parquet")
                yield batch
                if number == 7 and attempt == 0 and "part" in end:
                    break
            if attempt == 0:
                file, patience = f"attempt_*/part-{partition:05}-*.parquet", time.monotonic() + 300
                while time.monotonic() < patience:
                    with contextlib.suppress(OSError):  # files of the other task vanish meanwhile
                        if any(path.stat().st_size > 4096 for path in out.parent.rglob(file)):
                            (seen / f"{partition}-on-disk").touch()
                            break
                    time.sleep(0.01)
                if "dies" in end:
                    os._exit(1)
                raise RuntimeError

    def drawn(attempt: int) -> dict[int, list[int]]:
        found = pa.concat_tables(map(pq.read_table, sorted(seen.glob(f"{attempt}-*.parquet"))))
        draws: dict[int, list[int]] = {}
        for row in found.to_pylist():
            draws.setdefault(row["cell"], []).append(row["noisy_count"])
        return draws

    monkeypatch.setattr(spark_writing, "_Task", Unlucky)
    schema = Schema.from_dict(
        {"name": "t", "columns": {"cell": {"type": "integer", "low": 0, "high": 19_999}}}
    )
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000", "parquet.block.size": "999"}
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():  # so that rows are written to disk while others are drawn
        session.conf.set(name, value)
    try:
        release = hushtable.publish(
            to_spark(session, pa.table({"cell": [1]}), tmp_path), schema,
            NoisyCounts(epsilon="1/50", mechanism="pure"), out=out,
        )  # fmt: skip
    finally:
        for name, former in before.items():
            session.conf.unset(name) if former is None else session.conf.set(name, former)
    first, second = drawn(0), drawn(1)
    assert len(first) == (20_000 if "all" in end else 16_000)
    assert len(list(seen.glob("*-on-disk"))) == 2
    table = Release.load(out).table()
    published = {row["cell"]: [row["noisy_count"]] for row in table.to_pylist()}
    assert table.num_rows == len(published) == 20_000
    assert published == second
    # The first draws were others: P[Z = Z'] < 0.01, so at most 200 are expected to be equal.
    assert sum(second[cell] == first[cell] for cell in first) < len(first) / 10
    assert sorted(str(path.relative_to(out.parent)) for path in out.parent.rglob("*")) == [
        "out", "out/STATEMENT.md", "out/data.parquet", "out/data.parquet/part-00000.parquet",
        "out/data.parquet/part-00001.parquet", "out/statement.json",
    ]  # fmt: skip
    assert release.statement.tables["data"].rows == 20_000


@pytest.mark.usefixtures("on_executors")
def test_a_task_that_fails_for_good_publishes_nothing(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(cells: Any, noise: Any) -> pa.Table:
        if len(cells.counts):
            raise RuntimeError("secretword")
        return pa.table({"cell": pa.array([], pa.int64())})

    engine = connect(to_spark(session, wide_table({(1, "a"): 3}), tmp_path), WIDE)
    parts = engine.publish_cells(["cell", "kind"], fails, SecureNoise())
    with pytest.raises(DataError) as error:
        parts.write(tmp_path / "parts")
    assert "secretword" not in str(error.value)
    assert not list(tmp_path.glob("parts/part-*"))


@pytest.mark.usefixtures("on_executors")
def test_counts_of_executors_that_do_not_add_up_are_not_published(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqlEngine, "n_rows", lambda _: 1999)
    method = NoisyCounts(epsilon=1, delta="1e-3", k=5)
    table = wide_table({(c, "a"): 40 for c in range(50)})
    with pytest.raises(DataError, match="do not add up"):
        hushtable.publish(to_spark(session, table, tmp_path), WIDE, method, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("on_executors")
def test_rows_that_did_not_arrive_are_missed(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = spark_writing._tidied

    def lost(folder: Path, n_rows: int) -> Any:
        next(folder.glob("part-*.parquet")).unlink()
        return real(folder, n_rows)

    monkeypatch.setattr(spark_writing, "_tidied", lost)
    method = NoisyCounts(epsilon=1, delta="1e-3", k=5)
    table = wide_table({(c, "a"): 40 for c in range(50)})
    with pytest.raises(ReleaseError, match="all executors share"):
        hushtable.publish(to_spark(session, table, tmp_path), WIDE, method, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("on_executors")
def test_broken_rules_are_refused_before_executors_draw(session: Any, tmp_path: Path) -> None:
    method = NoisyCounts(epsilon=1, delta="1e-3", k=5)
    table = pa.table({"cell": [1, 271828], "kind": ["a", "secretword"]})
    strict = WIDE.to_dict()
    strict["columns"]["cell"]["outside"] = "refuse"
    strict_schema = Schema.from_dict(strict)
    frame = to_spark(session, table, tmp_path)
    with pytest.raises(DataError) as error:
        hushtable.publish(frame, strict_schema, method, out=tmp_path / "out")
    assert "column 'cell': 1 rows lie outside" in str(error.value)
    assert "271828" not in str(error.value)
    assert "secretword" not in str(error.value)
    assert hushtable.publish(frame, WIDE, method, out=tmp_path / "out").table().num_rows == 0


def test_a_task_refuses_codes_of_broken_rules() -> None:
    # Such rows were refused earlier; if the rows changed since, no noise is drawn for them.
    domain, wide = Domain({"cell": 4}), Domain({"cell": 4 + N_RULES})

    def rows_of(cells: OccupiedCells, _: Any) -> pa.Table:
        return pa.table({"cell": cells.codes[:, 0]})

    schema = pa.schema({"cell": pa.int64()})
    task = spark_writing._Task(domain, wide, rows_of, SecureNoise(), schema)

    def rows(code: int) -> list[int]:
        key = wide.pack(np.array([[code + N_RULES]]))[:, 0]
        batch = pa.record_batch({"key0": key, "n": np.array([1])})
        return [made for part in task(iter([batch])) for made in part["cell"].to_pylist()]

    assert [rows(code) for code in (0, 3)] == [[0], [3]]
    for code in range(-N_RULES, 0):
        with pytest.raises(DataError, match="after the rules were checked"):
            rows(code)


@pytest.mark.usefixtures("on_executors")
def test_persons_are_bounded_before_executors_draw(session: Any, tmp_path: Path) -> None:
    schema = persons_schema(2)
    method = NoisyCounts(epsilon=20, delta="1e-3", k=1, row_count_share="1/2")
    release = hushtable.publish(
        to_spark(session, persons_table([60] * 3), tmp_path), schema, method, out=tmp_path / "out"
    )
    assert release.table().num_rows <= 6
    # Three persons, two rows each; noise of scale 2/10 is beyond 5 with probability below 1e-10.
    assert abs(release.statement.estimator["row_total"]["value"] - 6) <= 5


@pytest.mark.usefixtures("on_executors")
def test_parts_are_checked_when_a_release_is_loaded(session: Any, tmp_path: Path) -> None:
    method = NoisyCounts(epsilon=1, delta="1e-3", k=5)
    table = wide_table({(c, "a"): 60 for c in range(50)})
    release = hushtable.publish(
        to_spark(session, table, tmp_path), WIDE, method, out=tmp_path / "out"
    )
    loaded = Release.load(release.folder)
    assert loaded.statement == release.statement
    assert loaded.count("cell < 25").value > 1000
    assert loaded.frame().num_rows > 2000
    part = release.folder / "data.parquet" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(ReleaseError, match=r"part-00001\.parquet was changed"):
        Release.load(release.folder)


def test_the_layout_does_not_depend_on_the_data(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One occupied cell, and a domain of 10,001 * 3: the domain decides.
    frame = to_spark(session, wide_table({(1, "a"): 1}), tmp_path)
    method = NoisyCounts(epsilon=1, delta="1e-3", k=5)
    for limit, parts in ((30_002, ["part-00000.parquet"]), (30_003, [])):
        monkeypatch.setattr(sql, "MAX_CELLS", limit)
        release = hushtable.publish(frame, WIDE, method, out=tmp_path / str(limit))
        assert release.table().num_rows == 0
        assert list(release.statement.tables["data"].parts) == parts
        assert release.table().schema.names == ["cell", "kind", "count"]


@pytest.mark.parametrize("in_spark", [(True, False), (False, True), (True, True)])
def test_waves_of_a_panel_are_refused(
    session: Any, tmp_path: Path, in_spark: tuple[bool, bool]
) -> None:
    table = pa.table({"id": ["a", "b"], "age": [1, 2]})
    waves = [to_spark(session, table, tmp_path) if there else table for there in in_spark]
    with pytest.raises(ParameterError, match="cannot read tables of Spark"):
        open_waves(*waves)
