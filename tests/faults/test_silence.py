"""Failing runs on every engine: nothing that a run prints or raises contains a cell.

Each engine has its own process, which fails in many ways. All that it and its children (Java,
and the workers of Python functions) write is searched, with every logger at its lowest level and
every warning shown, and so is each raised error, with its chain and its variables.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushtable.engine.output_guard as silence_module
from hushtable.engine.output_guard import silenced
from hushtable.errors import DataError, HushtableWarning, InternalError, OwnNote, TooLarge

MARK, NUMBER = "CANARY", "7340033"
# Tables are tiny: Spark's tasks and Java's compilation would take most of the time.
QUICK = """
spark.master local[1]
spark.sql.shuffle.partitions 1
spark.default.parallelism 1
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.sql.adaptive.enabled false
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""
CONTROL = "AFTERWARDS"  # printed on purpose after the runs, to show that the search works

SCENE = '''
import json, logging, os, resource, signal, sys, threading, traceback, warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import hushtable
from hushtable import NoisyCounts, Schema, publish
from hushtable.engine import sql_engine as sql
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan

ENGINE, ROOT = sys.argv[1], Path(sys.argv[2])
MARK, NUMBER, CONTROL = "CANARY", "7340033", "AFTERWARDS"
SCHEMA = Schema.from_dict({"name": "t", "columns": {
    "id": {"role": "identifier"},
    "age": {"type": "integer", "low": 0, "high": 99, "missing": "forbid", "outside": "refuse"},
    "town": {"type": "categorical", "values": ["Ayre", "Brill"],
             "missing": "forbid", "outside": "refuse"},
}})
METHOD = NoisyCounts(epsilon=1, delta="1e-6", k=2)
logging.basicConfig(level=1, stream=sys.stderr)
warnings.simplefilter("always")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts behind ignores it
GOOD = {"id": [f"{MARK}-{n}" for n in range(40)], "age": [30] * 40, "town": ["Ayre"] * 40}
outcomes = {}

class Unlucky(NoisyCounts):
    """Fail in the middle of a run with a private value at hand."""
    def plan(self, schema):
        return UnluckyPlan(**vars(super().plan(schema)))

class UnluckyPlan(NoisyCountsPlan):
    def release(self, source, noise):
        private = f"{MARK}{NUMBER}"
        logging.getLogger("library").critical(private)
        logging.getLogger("library").log(10**6, private)
        warnings.warn(private, RuntimeWarning)
        def background():
            raise KeyError(private)
        thread = threading.Thread(target=background)
        thread.start()
        thread.join()
        class Dropped:
            def __del__(self):
                raise ValueError(private)
        Dropped()
        try:
            raise OSError(private)
        except OSError as cause:
            error = ValueError(f"could not convert {private}")
            error.add_note(private)
            HOW(error, cause)

def internal(error, cause):
    raise error from cause

def in_context(error, cause):
    raise error

def interrupt(error, cause):
    signal.raise_signal(signal.SIGINT)

def noted_interrupt(error, cause):
    stop = KeyboardInterrupt(*[])
    stop.add_note(str(error))
    raise stop from error

def memory(error, cause):
    raise MemoryError(str(error))

def attempt(name, data, method=METHOD, engine=ENGINE, book=ROOT / "ledger", **options):
    try:
        publish(data, SCHEMA, method, out=ROOT / f"out-{name}", engine=engine,
                ledger=book, **options)
        outcomes[name] = "published"
    except BaseException as error:
        outcomes[name] = type(error).__name__
        traceback.print_exc()
        seen, link = [], error
        while link is not None:  # also what a traceback leaves out
            seen.append(repr(link) + str(getattr(link, "__notes__", "")))
            link = link.__cause__ or link.__context__
        print(seen)
        tracked = traceback.TracebackException.from_exception(error, capture_locals=True)
        for frame in tracked.stack:
            if "hushtable" in frame.filename and frame.locals:
                print(frame.filename, frame.lineno, frame.locals)

def given(table, name):
    """Return the rows as this engine takes them."""
    path = ROOT / f"{name}.parquet"
    pq.write_table(table, path)
    return path

hushtable.Ledger.create(ROOT / "ledger", epsilon=100, delta="1e-3", name="t")
bad = {
    "text-for-number": pa.table(GOOD | {"age": [f"{MARK} old"] + ["30"] * 39}),
    "number-outside": pa.table(GOOD | {"age": [int(NUMBER)] + [30] * 39}),
    "text-outside": pa.table(GOOD | {"town": [f"{MARK}-town"] + ["Ayre"] * 39}),
    "missing": pa.table(GOOD | {"town": [None] + ["Ayre"] * 39}),
    "nested": pa.table(GOOD | {"age": [[int(NUMBER)]] * 40, "town": [{"a": MARK}] * 40}),
    "bytes": pa.table(GOOD | {"town": [MARK.encode() + b"\\xff"] * 40}),
    "decimal": pa.table(GOOD | {"age": pa.array([7340033.5] * 40)}),
}
for name, table in bad.items():
    attempt(name, given(table, name))
    if ENGINE != "spark":
        attempt(f"{name}-frame", table)

for HOW in (internal, in_context, interrupt, noted_interrupt, memory):
    attempt(HOW.__name__, given(pa.table(GOOD), "good"),
            Unlucky(epsilon=1, delta="1e-6", k=2))

broken = given(pa.table(GOOD), "broken")
content = bytearray(broken.read_bytes())
content[40:400] = bytes(360)
broken.write_bytes(content)
attempt("broken-parquet", broken)

most = sql.MAX_CELLS
sql.MAX_CELLS = 1
wide = pa.table(GOOD | {"age": list(range(40))})
if ENGINE == "duckdb":  # executors of Spark would publish them
    attempt("too-many-cells", given(wide, "wide"))
sql.MAX_CELLS = most

before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
attempt("full-disk", ROOT / "good.parquet", book=None)
resource.setrlimit(resource.RLIMIT_FSIZE, before)

if ENGINE != "spark":
    rows = f"{MARK}1,30,Ayre\\n" * 20
    lines = {
        "csv-fields": f"{MARK}2,30,Ayre,{MARK},{NUMBER}\\n".encode(),
        "csv-quote": f'{MARK}2,"30,{MARK}\\n{MARK},{NUMBER}'.encode(),
        "csv-utf8": f"{MARK}2,30,caf\\xe9{MARK}\\n".encode("latin-1"),
        "csv-number": f"{MARK}2,{NUMBER * 20},{MARK}\\n".encode(),
    }
    for name, line in lines.items():
        (ROOT / f"{name}.csv").write_bytes(b"id,age,town\\n" + rows.encode() + line)
        attempt(name, ROOT / f"{name}.csv")
if ENGINE == "duckdb":
    (ROOT / "big.csv").write_text("id,age,town\\n" + f"{MARK}{NUMBER},30,Ayre\\n" * 400_000)
    attempt("memory-limit", ROOT / "big.csv", memory_limit="1MB")
if ENGINE == "spark":
    from pyspark.sql import SparkSession, functions
    SparkSession.getActiveSession().stop()
    spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    raw = spark.createDataFrame(
        [(f"{MARK}1", f"{MARK} old", "Ayre")] * 3, "id string, age string, town string")
    cast = raw.select("id", functions.col("age").cast("int").alias("age"), "town")
    attempt("cast", cast, engine="auto")
    attempt("cast-by-sql", raw.selectExpr("id", "int(age) AS age", "town"), engine="auto")
    attempt("raise-error", raw.select(
        "id", functions.raise_error(functions.col("age")).cast("int").alias("age"), "town"),
        engine="auto")

    @functions.udf("int")
    def raising(value):
        raise ValueError(f"could not convert {value}")

    @functions.udf("int")
    def killed(value):
        os.kill(os.getpid(), 9)

    attempt("udf", raw.select("id", raising("age").alias("age"), "town"), engine="auto")
    attempt("killed-udf", raw.select("id", killed("age").alias("age"), "town"), engine="auto")

print(CONTROL, "stdout")
logging.getLogger("library").error(CONTROL + " logged")
warnings.warn(CONTROL + " warned")
(ROOT / "outcomes.json").write_text(json.dumps(outcomes))
'''

# With the user's own session, whose Java process prints to the same terminal.
OWN_SESSION = '''
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession, functions
from hushtable import NoisyCounts, Schema, publish
from hushtable.engine.spark import writing as spark_writing
from hushtable.engine import sql_engine as sql

ROOT = Path(sys.argv[1])
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "1g")
    .config("spark.log.level", "INFO").getOrCreate()
)
log4j = spark._jvm.org.apache.logging.log4j
log4j.core.config.Configurator.setLevel("org.apache.spark.executor", log4j.Level.DEBUG)

def levels():
    loggers = log4j.LogManager.getContext(False).getConfiguration().getLoggers()
    return {name: loggers[name].getLevel().toString() for name in loggers}

schema = Schema.parse("""
name: t
columns:
  id: {role: identifier}
  age: {type: integer, low: 0, high: 99, missing: forbid, outside: refuse}
  town: {type: categorical, values: [Ayre, Brill], missing: forbid, outside: refuse}
""")
method = NoisyCounts(epsilon=1, delta="1e-6", k=2)

def frame(mark):
    raw = spark.createDataFrame(
        [(mark, f"{mark} old", "Ayre")] * 3, "id string, age string, town string")
    return raw, raw.select("id", functions.col("age").cast("int").alias("age"), "town")

@functions.udf("int")
def raising(value):
    raise ValueError(f"could not convert {value}")

before, failed = levels(), 0
raw, cast = frame("CANARY")
for data in (cast, raw.select("id", raising("age").alias("age"), "town"), raw):
    try:
        publish(data, schema, method, out=ROOT / "out")
    except Exception as error:
        failed += 1

# Noise that executors draw, in a task that fails with a cell at hand.
sql.MAX_CELLS = 1
class Unlucky(spark_writing._Task):
    def _rows(self, cells):
        raise ValueError(f"CANARY{cells.codes.tolist()}")
spark_writing._Task = Unlucky
good = spark.createDataFrame(
    [("CANARY", 30 + n % 40, "Ayre") for n in range(90)], "id string, age int, town string")
try:
    publish(good, schema, method, out=ROOT / "out")
except Exception as error:
    failed += 1
after = levels()
_, control = frame("AFTERWARDS")
try:
    control.collect()
except Exception:
    pass
(ROOT / "seen.json").write_text(json.dumps([failed, before, after]))
'''

COMMANDS = """
import sys
from hushtable.cli import app as cli

root = sys.argv[1]
codes = []
for name in ("text", "outside", "nested", "broken"):
    sys.argv = ["hushtable", "--debug", "publish", "noisy-counts", f"{root}/{name}.parquet",
                f"{root}/schema.yaml", "--out", f"{root}/out", "--epsilon", "1", "--delta", "1e-6",
                "--k", "2", "--engine", "spark"]
    try:
        cli.main()
    except SystemExit as stop:
        codes.append(stop.code)
print("AFTERWARDS", codes)
"""


def run(script: str, *arguments: object) -> str:
    """Run a script and return all output of it and its children."""
    settings = Path(str(arguments[-1])) / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(QUICK)
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", script, *map(str, arguments)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(settings)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=900,
    )  # fmt: skip
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-3000:]
    return said


def assert_silent(said: str) -> None:
    for mark in (MARK, NUMBER):
        at = said.find(mark)
        assert at < 0, said[max(0, at - 300) : at + 300]


def require_spark() -> None:
    pytest.importorskip("pyspark", reason="no Spark: pip install 'hushtable[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt install openjdk-17-jre-headless (or set JAVA_HOME and PATH)")


@pytest.mark.parametrize("engine", ["memory", "duckdb", "spark"])
def test_a_failing_run_prints_no_cell(engine: str, tmp_path: Path) -> None:
    if engine == "spark":
        require_spark()
    said = run(SCENE, engine, tmp_path)
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    assert_silent(said)
    assert "published" not in outcomes.values(), outcomes
    assert "hushtable: an error in the background (KeyError)" in said
    for name, kind in {
        "internal": "InternalError", "in_context": "InternalError", "memory": "TooLarge",
        "interrupt": "KeyboardInterrupt", "noted_interrupt": "KeyboardInterrupt",
        "full-disk": "ReleaseError", "number-outside": "DataError",
    }.items():  # fmt: skip
        assert outcomes[name] == kind, outcomes
    for words in ("stdout", "logged", "warned"):  # restored, and the search finds it
        assert f"{CONTROL} {words}" in said


def test_a_session_of_the_users_own_is_silent_and_then_as_it_was(tmp_path: Path) -> None:
    require_spark()
    said = run(OWN_SESSION, tmp_path)
    failed, before, after = json.loads((tmp_path / "seen.json").read_text())
    assert_silent(said)
    assert failed == 4
    assert before == after
    assert "DEBUG" in before.values()
    assert CONTROL in said  # PySpark's own logger, and Java's


@pytest.mark.long  # the run above, through the command line
def test_a_failing_command_on_spark_prints_no_cell(tmp_path: Path) -> None:
    require_spark()
    good = {"id": [MARK] * 40, "age": [30] * 40, "town": ["Ayre"] * 40}
    tables: dict[str, dict[str, Any]] = {
        "text": {"age": [f"{MARK} old"] * 40},
        "outside": {"age": [int(NUMBER)] * 40, "town": [f"{MARK}-town"] * 40},
        "nested": {"age": [[int(NUMBER)]] * 40},
        "broken": {},
    }
    for name, wrong in tables.items():
        pq.write_table(pa.table({**good, **wrong}), tmp_path / f"{name}.parquet")
    content = bytearray((tmp_path / "broken.parquet").read_bytes())
    content[40:300] = bytes(260)
    (tmp_path / "broken.parquet").write_bytes(content)
    (tmp_path / "schema.yaml").write_text(
        "name: t\ncolumns:\n  id: {role: identifier}\n"
        "  age: {type: integer, low: 0, high: 99, missing: forbid, outside: refuse}\n"
        "  town: {type: categorical, values: [Ayre, Brill], missing: forbid, outside: refuse}\n"
    )
    said = run(COMMANDS, tmp_path)
    assert_silent(said)
    assert f"{CONTROL} [1, 1, 1, 1]" in said


# --- the parts ------------------------------------------------------------------------------------


def test_errors_of_others_become_one_of_ours_with_its_place() -> None:
    def inner() -> None:
        secret = MARK
        raise ValueError(secret) from OSError(secret)

    with pytest.raises(InternalError, match=r"internal error \(ValueError\)") as raised:
        silenced(inner)()
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    frames = [frame for frame in raised.traceback if frame.name == "inner"]
    assert frames
    assert "secret" not in frames[0].frame.raw.f_locals


def test_ours_keep_what_we_wrote_and_lose_what_others_did() -> None:
    def inner() -> None:
        try:
            try:
                raise ValueError(MARK)
            except ValueError as error:
                raise DataError("first.") from error
        except DataError as error:
            raise TooLarge("second.") from error

    with pytest.raises(TooLarge) as raised:
        silenced(inner)()
    first = raised.value.__cause__
    assert isinstance(first, DataError)
    assert first.__cause__ is None
    assert first.__context__ is None

    def interrupted() -> None:
        stop = KeyboardInterrupt()
        stop.add_note(MARK)
        stop.add_note(OwnNote("Entry 1 was charged."))
        raise stop

    with pytest.raises(KeyboardInterrupt) as stopped:
        silenced(interrupted)()
    assert stopped.value.__notes__ == ["Entry 1 was charged."]


def test_own_warnings_pass_as_the_user_wants_them() -> None:
    def warn() -> None:
        warnings.warn("ours", HushtableWarning, stacklevel=2)
        warnings.warn(MARK, RuntimeWarning, stacklevel=2)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        silenced(warn)()
    assert [str(warning.message) for warning in seen] == ["ours"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(HushtableWarning):
            silenced(lambda: warnings.warn("ours", HushtableWarning, stacklevel=2))()
        silenced(lambda: warnings.warn(MARK, RuntimeWarning, stacklevel=2))()


def test_runs_in_several_threads_are_silent_until_the_last_is_over() -> None:
    """The end of the first run must not enable output of the second, or of disabled loggers."""
    started, over = threading.Event(), threading.Event()
    during: list[int] = []
    before = logging.root.manager.disable, list(warnings.filters), sys.unraisablehook

    @silenced
    def first() -> None:
        started.set()
        over.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    started.wait(10)

    @silenced
    def second() -> None:
        over.set()
        thread.join()
        during.append(logging.root.manager.disable)

    second()
    assert during == [sys.maxsize]
    assert silence_module._SILENCE._n_runs == 0
    assert (logging.root.manager.disable, list(warnings.filters), sys.unraisablehook) == before


def test_what_hangs_on_an_error_of_our_own_stays_behind() -> None:
    """Values in an attribute of the error, in an earlier error of the chain, and in a log line."""

    @silenced
    def refuse() -> None:
        logging.getLogger("hushtable.methods").error(MARK)
        try:
            raise DataError(f"{NUMBER} rows")
        except DataError:
            error = DataError("these rows are too much alike.")
            error.rows = NUMBER  # type: ignore[attr-defined]
            raise error  # noqa: B904 - the mistake itself

    with pytest.raises(DataError) as caught:
        refuse()
    assert vars(caught.value) == {"problems": ("these rows are too much alike.",)}
    assert caught.value.__context__ is None
