"""Fuzz targets: each reads hostile input and may fail only with a `HushtableError`.

The same targets serve hypothesis (`test_hypothesis.py`) and atheris (`test_atheris.py`).
"""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushtable import NoisyCounts, Release, Schema, publish
from hushtable.engine import connect
from hushtable.engine.edges import inspect_graph, read_graph
from hushtable.errors import HushtableError
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.where import parse
from hushtable.query.where.lookup import look_up
from hushtable.release.release import SeededReleaseWarning
from hushtable.schema.taxonomy import Taxonomy

SCHEMA_TEXT = """\
name: people
unit: {kind: row}
missing_values: ["", "?"]
columns:
  id: {role: identifier}
  age: {type: integer, low: 0, high: 9, missing: category, outside: clip}
  price: {type: number, low: 0, high: 1, step: 0.5, missing: forbid, outside: refuse}
  "Marital status": {type: categorical, values: [never, ever, "it's"], ordered: true,
    missing: forbid, outside: refuse}
  town:
    type: categorical
    values: [Gent, Brugge, Ayre]
    taxonomy: {any: {Flanders: [Gent, Brugge], Man: [Ayre]}}
    missing: category
    role: target
"""
SCHEMA = Schema.parse(SCHEMA_TEXT)
ROWS = pa.table(
    {
        "id": ["a", "b", "c", "d"] * 10,
        "age": ["1", "2", "", "9"] * 10,
        "price": ["0", "0.5", "1", "1.0"] * 10,
        "Marital status": ["never", "ever", "it's", "ever"] * 10,
        "town": ["Gent", "Brugge", "?", "Ayre"] * 10,
    }
)
CSV_TEXT = "id,age,price,Marital status,town\n" + "".join(
    ",".join(row.values()) + "\n" for row in ROWS.slice(0, 4).to_pylist()
)
LOOKUP_TABLE = pa.table({"name": ["Gent", "Ayre", None], "size": [3, 1, 2]})
METHOD = NoisyCounts(epsilon=1, delta="1e-3", k=2)


@cache
def folder() -> Path:
    """Folder of this process for input files."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def release() -> Path:
    """Publish once; copies of this release are fuzzed."""
    path = folder() / "release"
    # A fixed seed, so that a failing input can be reproduced.
    publish(ROWS, SCHEMA, METHOD, out=path, noise=SeededNoise(1))
    return path


def schema(data: bytes) -> None:
    (folder() / "schema.yaml").write_bytes(data)
    found = Schema.load(folder() / "schema.yaml")
    assert Schema.parse(found.to_yaml()) == found
    METHOD.guarantee(found)
    METHOD.forecast(found, 100)


def taxonomy_csv(data: bytes) -> None:
    (folder() / "tree.csv").write_bytes(data)
    tree = Taxonomy.load(folder() / "tree.csv")
    assert Taxonomy.from_rows(tree.to_rows()).values == tree.values


def taxonomy_nested(data: bytes) -> None:
    (folder() / "tree.yaml").write_bytes(data)
    tree = Taxonomy.load(folder() / "tree.yaml")
    for level in range(tree.depth + 1):
        assert set(tree.level(level)) == set(tree.values)


def where(data: bytes) -> None:
    predicate = parse(data.decode("utf-8", "replace"), SCHEMA)
    codes = {name: np.zeros(2, np.int64) for name in SCHEMA.attributes}
    assert predicate.mask(codes).shape == (2,)
    assert 0 <= predicate.count() <= SCHEMA.domain.size
    assert parse(str(predicate), SCHEMA).count() == predicate.count()


def lookup(data: bytes) -> None:
    clause = data.decode("utf-8", "replace")
    parse(look_up(clause, SCHEMA, {"towns": LOOKUP_TABLE}), SCHEMA).count()


def csv(data: bytes) -> None:
    (folder() / "data.csv").write_bytes(data)
    engine = connect(folder() / "data.csv", SCHEMA)
    engine.rule_breaks()
    engine.counts(list(SCHEMA.attributes))


def gzipped_csv(data: bytes) -> None:
    (folder() / "data.csv.gz").write_bytes(data)
    connect(folder() / "data.csv.gz", SCHEMA).rule_breaks()


def parquet(data: bytes) -> None:
    (folder() / "data.parquet").write_bytes(data)
    connect(folder() / "data.parquet", SCHEMA).rule_breaks()


def edges(data: bytes) -> None:
    for name in ("edges.txt", "edges.csv"):
        (folder() / name).write_bytes(data)
        with suppress(HushtableError):
            inspect_graph(folder() / name)
            read_graph(folder() / name)


def ledger(data: bytes) -> None:
    path = folder() / "people.ledger"
    path.write_bytes(data)
    Ledger.open(path, timeout=0.1).show()


def statement(data: bytes) -> None:
    _use_release(lambda place: (place / "statement.json").write_bytes(data))


def released_table(data: bytes) -> None:
    """Read a table whose digest matches the statement, whatever it contains."""

    def put(place: Path) -> None:
        file = place / "statement.json"
        content = json.loads(file.read_text())
        table = content["tables"]["data"]
        (place / table["file"]).write_bytes(data)
        table["sha256"] = hashlib.sha256(data).hexdigest()
        with suppress(pa.ArrowException, OSError, ValueError):
            table["rows"] = pq.read_metadata(place / table["file"]).num_rows
        file.write_text(json.dumps(content))

    _use_release(put)


def _use_release(change: Callable[[Path], object]) -> None:
    place = folder() / "changed"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(release(), place)
    change(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededReleaseWarning)
        found = Release.load(place)
    found.statement.for_people()
    for act in (lambda: found.count("age > 3"), found.frame, lambda: found.table("data")):
        with suppress(HushtableError):
            act()


TARGETS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (
        schema, taxonomy_csv, taxonomy_nested, where, lookup, csv, gzipped_csv, parquet, edges,
        ledger, statement, released_table,
    )
}  # fmt: skip


def run(name: str, data: bytes) -> bool:
    """Run a target and return whether it accepted the input. Any other error is a finding."""
    try:
        TARGETS[name](data)
    except HushtableError as error:
        text = str(error)
        assert text.strip(), "a refusal says what is wrong"
        assert len(text) < 20_000, "a refusal can be read"
        return False
    return True
