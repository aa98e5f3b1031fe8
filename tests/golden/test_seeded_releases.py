"""Digests of releases published with seeded noise: a change of code must not change them.

`seeded_releases.json` has a SHA-256 for every published table of every method and baseline, of
linked tables, a series of three waves, a panel and a graph, on both local engines. A digest covers
column names, types and values, not the bytes of the files. Processors round floating-point sums
differently, so a column of floats is stored as two weighted sums, compared to six digits. If a
digest changes on purpose, explain why in the commit and record all of them again:

``PYTHONPATH=tests python tests/golden/test_seeded_releases.py``
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.examples import EXAMPLES, schema, table
from hushtable import Columns, Degrees, Release, Schema, SeededNoise, publish
from hushtable.engine import connect
from hushtable.engine.edges import read_graph
from hushtable.methods import METHODS, Method, Quilt
from hushtable.methods.degrees.hay import HayDegrees
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.linked.linked import Linked
from hushtable.publishing.publish import publish_graph, publish_linked
from hushtable.schema.linked_schema import LinkedSchema
from hushtable.series import Series, SeriesPlan

RECORD = Path(__file__).with_name("seeded_releases.json")
N_ROWS = 600
SEED = 8
"""A fixed seed: the stored digests do not depend on the seed of the test run."""

EngineName = Literal["memory", "duckdb"]
ENGINES: tuple[EngineName, ...] = ("memory", "duckdb")

CLINIC = LinkedSchema.parse("""
name: clinic
tables:
  persons:
    key: id
    columns:
      old: {type: boolean, missing: other}
      region: {type: categorical, values: [N, E, S], missing: other}
  visits:
    parent: persons
    key: visit
    foreign_key: person
    max_children: 3
    order: day
    facts: {any_icu: ward = 'icu'}
    columns:
      day: {type: integer, low: 0, high: 99, missing: other}
      ward: {type: categorical, values: [er, icu, ob], missing: other}
""")
PEOPLE = Schema.from_dict(
    {
        "name": "people",
        "unit": {"kind": "person", "column": "id", "max_rows": 1},
        "columns": {
            "id": {"role": "identifier"},
            "age": {"type": "integer", "low": 0, "high": 9},
            "sex": {"type": "categorical", "values": ["f", "m"]},
            "job": {"type": "categorical", "values": ["none", "day", "night"]},
        },
    }
)
MOVIES = [f"m{number}" for number in range(6)]
RATINGS = Schema.from_dict(
    {
        "name": "ratings",
        "unit": {"kind": "person", "column": "user", "max_rows": 6},
        "columns": {
            "user": {"role": "identifier"},
            "movie": {"type": "categorical", "values": MOVIES},
            "rating": {"type": "integer", "low": 1, "high": 5},
        },
    }
)


class SeededAsPrivate(SeededNoise):
    """Seeded noise that the ledger of a series accepts."""

    is_private = True


def digest(published: pa.Table) -> list[Any]:
    """Return the SHA-256 of a table without its floats, then two weighted sums of all floats."""
    state, floats = hashlib.sha256(), [np.zeros(0)]
    for name, column in zip(published.column_names, published.columns, strict=True):
        values = column.to_pylist()
        if any(isinstance(value, float) for value in values):
            floats.append(np.array([np.nan if value is None else value for value in values]))
            values = np.isfinite(floats[-1]).tolist()
        elif any(isinstance(value, list) for value in values):
            flat = [value for row in values for value in row or ()]
            if any(isinstance(value, float) for value in flat):
                floats.append(np.array(flat, dtype=np.float64))
                values = [None if row is None else len(row) for row in values]
        state.update(json.dumps([name, str(column.type), values], default=str).encode())
    numbers = np.nan_to_num(np.concatenate(floats), posinf=0, neginf=0)
    weights = np.cos(np.arange(len(numbers)))  # so that swapped values are detected
    sums = [float(np.abs(numbers).sum()), float(weights @ numbers)] if len(numbers) else []
    return [state.hexdigest(), *sums]


def assert_same(found: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Compare digests; sums of floats may differ by a millionth of the sum of absolute values."""
    assert found.keys() == recorded.keys()
    for name in found:
        assert found[name][0] == recorded[name][0], name
        scale = max(found[name][1:2], default=0)
        np.testing.assert_allclose(found[name][1:], recorded[name][1:], rtol=0, atol=1e-6 * scale)


def digests(folder: Path) -> dict[str, list[Any]]:
    """Compute the digest of every table below a folder, by file name."""
    found = {
        str(path.relative_to(folder)): digest(pq.read_table(path))
        for path in sorted(folder.rglob("*.parquet"))
    }
    assert found
    return found


def small(method: Method) -> Method:
    """Return the method with few particles, if it is quilt."""
    if not isinstance(method, Quilt):
        return method
    return type(method)(**{**method.parameters(), "particles": 2000})


def of_method(method: Method, engine: EngineName, folder: Path) -> dict[str, list[Any]]:
    """Publish some rows of the example table."""
    rows = table(method).slice(0, N_ROWS)
    release = publish(
        rows, schema(method), small(method), out=folder / "release", engine=engine,
        noise=SeededNoise(SEED), anyway=True,
    )  # fmt: skip
    return digests(release.folder)


def of_items(engine: EngineName, folder: Path) -> dict[str, list[Any]]:
    """Publish ratings, with several rows per person."""
    rng = np.random.default_rng(7)
    user, movie = np.nonzero(rng.random((400, 6)) < 0.5)
    rows = {"user": user, "movie": np.array(MOVIES)[movie], "rating": rng.integers(1, 6, len(user))}
    method = Columns(
        epsilon=20, delta="1e-4", k=5, max_columns=2, item="movie", value="rating",
        max_values=6, count_share="1/20", columns=[["m0", "m1", "m2"], ["m3", "m4", "m5"]],
    )  # fmt: skip
    release = publish(
        pa.table(rows), RATINGS, method, out=folder / "release", engine=engine,
        noise=SeededNoise(SEED), anyway=True,
    )  # fmt: skip
    return digests(release.folder)


def of_linked(engine: EngineName, folder: Path) -> dict[str, list[Any]]:
    """Publish persons and their visits."""
    rng = np.random.default_rng(5)
    old = rng.random(500) < 0.4
    owner = np.repeat(np.arange(500), rng.integers(0, 3, 500) + old)
    n_visits = len(owner)
    data = {
        "persons": pa.table(
            {"id": np.arange(500), "old": old, "region": np.array(list("NES"))[np.arange(500) % 3]}
        ),
        "visits": pa.table(
            {
                "visit": np.arange(n_visits),
                "person": owner,
                # Different for each visit of a person, because engines break ties differently.
                "day": (np.arange(n_visits) * 7 + old[owner] * 30) % 100,
                "ward": np.array(["er", "icu", "ob"])[rng.integers(0, 2, n_visits) + old[owner]],
            }
        ),
    }
    release = publish_linked(
        data, CLINIC, Linked(epsilon=5, delta="1e-6", particles=1000), out=folder / "release",
        engine=engine, noise=SeededNoise(SEED), anyway=True,
    )  # fmt: skip
    return digests(release.folder)


def wave(number: int) -> pa.Table:
    """Return the rows of a wave: 30 people leave and 30 join, and more work at night."""
    ids = np.arange(30 * number, 30 * number + N_ROWS)
    job = np.where(ids % 10 <= number, 2, np.where(ids % 10 > 4, 1, 0))
    jobs = np.array(["none", "day", "night"])[job]
    return pa.table({"id": ids, "age": ids % 10, "sex": np.where(ids % 3, "m", "f"), "job": jobs})


def of_waves(engine: EngineName, folder: Path, *, panel: bool) -> dict[str, list[Any]]:
    """Publish three waves, followed from wave to wave if they are a panel."""
    plan = SeriesPlan(epsilon=8, delta="1e-6", waves=4, panel=panel)
    series = Series.create(folder / "series", PEOPLE, plan)
    for number in (1, 2, 3):
        before = wave(number - 1) if panel and number > 1 else None
        series.publish(
            wave(number), before=before, engine=engine, noise=SeededAsPrivate(SEED + number),
            anyway=True,
        )  # fmt: skip
    return digests(series.folder)


def edges() -> list[tuple[int, int]]:
    """Return the edges of a random graph."""
    drawn = np.random.default_rng(1).integers(0, 200, (500, 2))
    return [(int(a), int(b)) for a, b in drawn if a != b]


def of_graph(folder: Path, method: Degrees) -> dict[str, list[Any]]:
    """Publish a degree distribution."""
    release: Release = publish_graph(
        edges(), method, nodes=range(200), out=folder / "release", noise=SeededNoise(SEED)
    )
    return digests(release.folder)


def of_degree_sequence() -> dict[str, list[Any]]:
    """Draw the degree sequence of the baseline, which publishes no release."""
    graph = read_graph(edges(), nodes=range(200))
    method = HayDegrees(epsilon=1, level="edge", n_nodes=200)
    return {"sequence": digest(pa.table({"degree": method.sequence(graph, SeededNoise(SEED))}))}


def of_decision_tree(engine: EngineName) -> dict[str, list[Any]]:
    """Predict classes with the baseline, which publishes no release."""
    rows = table(EXAMPLES[0]).slice(0, N_ROWS)
    public = schema(EXAMPLES[0])
    tree = DpC45(epsilon=5, depth=3).fit(connect(rows, public, engine=engine), SeededNoise(SEED))
    rng = np.random.default_rng(2)
    codes = {name: rng.integers(0, column.size, 500) for name, column in public.attributes.items()}
    return {"classes": digest(pa.table({"class": tree.predict(codes)}))}


def cases() -> Iterator[tuple[str, Any]]:
    """List every case with the function that publishes it."""
    for engine in ENGINES:
        for number, method in enumerate(EXAMPLES):
            if engine == "duckdb" and isinstance(method, Columns) and method.mechanism == "paper":
                continue  # draws depend on the order of tuples, which varies in DuckDB
            yield (
                f"{engine}: {number} {method.name}",
                lambda folder, method=method, engine=engine: of_method(method, engine, folder),
            )
        yield f"{engine}: items", lambda folder, engine=engine: of_items(engine, folder)
        yield f"{engine}: linked", lambda folder, engine=engine: of_linked(engine, folder)
        for kind in ("series", "panel"):
            yield (
                f"{engine}: {kind}",
                lambda folder, engine=engine, kind=kind: of_waves(
                    engine, folder, panel=kind == "panel"
                ),
            )
        yield f"{engine}: dp-c45", lambda folder, engine=engine: of_decision_tree(engine)
    for mechanism in ("cumulative", "partition"):
        yield (
            f"graph: {mechanism}",
            lambda folder, mechanism=mechanism: of_graph(
                folder,
                Degrees(epsilon=2, max_degree=20, mechanism=mechanism),  # type: ignore[arg-type]
            ),
        )
    yield "graph: hay-degrees", lambda folder: of_degree_sequence()


CASES = dict(cases())


def test_every_method_is_on_record() -> None:
    assert {method.name for method in EXAMPLES} == set(METHODS)
    assert set(json.loads(RECORD.read_text())) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_seeded_release_is_the_one_on_record(name: str, tmp_path: Path) -> None:
    assert_same(CASES[name](tmp_path), json.loads(RECORD.read_text())[name])


def test_a_changed_float_and_exchanged_floats_are_seen() -> None:
    before = {"table": digest(pa.table({"x": [1.0, 2.0, 3.0]}))}
    for other in ([1.0, 2.0, 3.001], [2.0, 1.0, 3.0], [1.0, 2.0, None]):
        with pytest.raises(AssertionError):
            assert_same({"table": digest(pa.table({"x": other}))}, before)


def record() -> None:
    """Write the digests of all cases."""
    found = {}
    for name, published in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = published(Path(folder))
    RECORD.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    record()
