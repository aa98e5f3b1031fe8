"""What every method must keep: the laws of the house and good manners."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest

from contract.examples import EXAMPLES, is_numeric, label, n_counted, questions, schema, table
from hushtable import engine as engines
from hushtable.errors import DataError, HushtableError, PredicateError, Refused
from hushtable.methods import METHODS, Method, Mondrian
from hushtable.methods.listing import Listing
from hushtable.methods.registry import estimator_kinds, listings
from hushtable.pipeline import publish
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.noise import SeededNoise
from hushtable.release import Release, Statement
from hushtable.schema import Schema
from seeds import shifted

METHODS_FOLDER = Path(inspect.getfile(Method)).parent
SOURCES = sorted(METHODS_FOLDER.rglob("*.py"))
FORBIDDEN = {"random", "secrets", "pandas", "duckdb", "ibis", "pyspark"}

every_method = pytest.mark.parametrize("method", EXAMPLES, ids=label)


def test_every_registered_method_is_tried() -> None:
    assert {method.name for method in EXAMPLES} == set(METHODS)


@every_method
def test_law_1_the_promise_sees_no_data(method: Method) -> None:
    assert list(inspect.signature(method.guarantee).parameters) == ["schema"]
    promised = method.guarantee(schema(method))
    assert promised
    assert promised == method.guarantee(schema(method))
    for promise in promised:
        assert promise.explain().endswith(".")
        assert promise.unprotected


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_law_2_methods_reach_neither_for_randomness_nor_for_data(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        for name in names:
            assert name.split(".")[0] not in FORBIDDEN, f"{path.name} uses {name}"
            assert not name.startswith(("numpy.random", "np.random")), f"{path.name} uses {name}"


@pytest.mark.parametrize("listing", listings().values(), ids=lambda listing: listing.name)
def test_law_3_the_proof_lies_beside_the_code(listing: Listing) -> None:
    path = Path(inspect.getfile(listing.load(listing.method)))
    proof = path.with_suffix(".md")
    assert proof.is_file(), f"{path.name} has no proof beside it"
    text = proof.read_text().lower()
    for part in ("promise", "checks", "custodian", "algorithm", "proof", "paper"):
        assert part in text, f"{proof.name} does not speak of: {part}"


@every_method
def test_law_4_spending_is_recorded_before_data_is_read(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relation = next(
        (p.neighbors for p in method.guarantee(schema(method)) if p.counted), "add-remove"
    )
    ledger = Ledger.create(
        tmp_path / "ledger",
        epsilon=10,
        delta="1e-3",
        neighbors=relation,
        allow_uncounted=not any(p.counted for p in method.guarantee(schema(method))),
    )
    seen = []

    def read(*args: object, **kwargs: object) -> None:
        seen.append([entry.status for entry in ledger.entries()])
        raise DataError("stop here")

    monkeypatch.setattr(engines.PrivateTable, "connect", read)
    with pytest.raises(DataError):
        publish(table(method), schema(method), method, out=tmp_path / "out", ledger=ledger)
    assert seen == [["charged"]]
    assert [entry.status for entry in ledger.entries()] == ["charged"]
    assert not (tmp_path / "out").exists()


@every_method
def test_law_5_errors_about_data_show_no_values(method: Method, tmp_path: Path) -> None:
    canary = "zebra-4711"
    broken = table(method).slice(0, 50).set_column(2, "sex", pa.array([canary] * 50))
    strict = schema(method).to_dict()
    strict["columns"]["sex"]["outside"] = "refuse"
    with pytest.raises(DataError) as caught:
        publish(broken, Schema.from_dict(strict), method, out=tmp_path / "out")
    assert canary not in str(caught.value)
    assert "'sex'" in str(caught.value)
    assert "50 rows" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@every_method
def test_every_row_is_published_by_default(method: Method, tmp_path: Path) -> None:
    """Whatever one row holds, there is a release, and nothing but its rows depends on the row."""
    rows = table(method).slice(0, 600)
    texts = pa.table({name: rows[name].cast(pa.string()) for name in rows.column_names})
    hostile = dict.fromkeys(texts.column_names, "zebra-4711")
    cells = [None, "", "nan", "-inf", "1e300", "2.55", "zebra-4711"]
    odd = [hostile | {name: cell} for name, cell in zip(texts.column_names, cells, strict=False)]
    odd += [dict.fromkeys(texts.column_names, cell) for cell in cells]
    hostile_rows = pa.Table.from_pylist(odd, texts.schema)
    tables = {"plain": texts, "odd": pa.concat_tables([texts, hostile_rows])}
    seen = []
    for name, private in tables.items():
        for engine in ("memory",) if name == "plain" else ("memory", "duckdb"):
            out = tmp_path / f"{name}-{engine}"
            release = publish(private, schema(method), method, out=out, engine=engine)
            statement = release.statement.model_dump(mode="json", by_alias=True)
            kinds = [release.table(of).schema for of in release.statement.tables]
            fixed = ("parameters", "guarantees", "unprotected", "schema", "split", "method")
            seen.append((kinds, sorted(statement["estimator"]), [statement[key] for key in fixed]))
            files = "".join(path.read_text() for path in out.rglob("*.md"))
            assert "zebra" not in files + (out / "statement.json").read_text()
    assert all(one == seen[0] for one in seen)


@every_method
def test_laws_6_and_8_shape_and_parameters_come_from_the_schema(
    method: Method, tmp_path: Path
) -> None:
    tables = {"all": table(method)}
    few = {"one": table(method).slice(0, 1), "none": table(method).slice(0, 0)}
    # Nobody can hide among so few: refused, and nothing is left behind.
    if is_numeric(method) or isinstance(method, Mondrian):
        for name, rows in few.items():
            with pytest.raises(Refused, match=r"hoose a smaller k|Lower k"):
                publish(rows, schema(method), method, out=tmp_path / name)
            assert list(tmp_path.iterdir()) == []
    else:
        tables |= few
    releases = {
        name: publish(rows, schema(method), method, out=tmp_path / name)
        for name, rows in tables.items()
    }
    first = releases["all"].statement
    for release in releases.values():
        assert release.statement.parameters == first.parameters == method.parameters()
        assert release.statement.split == first.split
        assert release.statement.guarantees == first.guarantees
        assert release.statement.unprotected == first.unprotected
        for name in first.tables:
            assert release.table(name).schema == releases["all"].table(name).schema
        assert set(release.statement.estimator) == set(first.estimator)


@every_method
def test_law_7_a_seeded_release_says_so(method: Method, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", epsilon=10, delta="1e-3", allow_uncounted=True)
    release = publish(
        table(method),
        schema(method),
        method,
        out=tmp_path / "a",
        noise=SeededNoise(shifted(7)),
        ledger=ledger,
    )
    assert release.statement.guarantee == "none (seeded)"
    assert [promise.family for promise in release.statement.guarantees] == ["none"]
    assert "not private" in (tmp_path / "a" / "STATEMENT.md").read_text()
    again = publish(
        table(method), schema(method), method, out=tmp_path / "b", noise=SeededNoise(shifted(7))
    )
    for name in release.statement.tables:
        assert release.table(name).equals(again.table(name))
    assert not any("seed" in field.name for field in dataclasses.fields(method))


@every_method
def test_parameters_are_frozen_explained_and_survive_the_statement(method: Method) -> None:
    fields = dataclasses.fields(method)
    assert type(method).__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(field.kw_only for field in fields)
    assert all(type(method).help().get(field.name) for field in fields)
    assert type(method)(**json.loads(json.dumps(method.parameters()))) == method
    assert method.estimator_kind in estimator_kinds()


@every_method
def test_forecast_needs_no_data_and_its_split_is_the_promise(method: Method) -> None:
    public = schema(method)
    forecast = method.forecast(public, 12000)
    assert forecast.n_cells >= 1
    assert forecast.memory_mb > 0
    assert forecast.lines
    spent = [promise.epsilon for promise in method.guarantee(public) if promise.counted]
    assert [sum(forecast.split.values())] == (spent or [0])
    method.forecast(public)


@every_method
def test_the_analyst_needs_the_folder_alone(method: Method, tmp_path: Path) -> None:
    made = publish(table(method), schema(method), method, out=tmp_path / "made")
    made.folder.rename(tmp_path / "copy")
    release = Release.load(tmp_path / "copy")
    document = json.loads((tmp_path / "copy" / "statement.json").read_text())
    jsonschema.validate(document, Statement.model_json_schema(by_alias=True))
    check_estimator(release, method)


def check_estimator(release: Release, method: Method) -> None:
    """Check what every estimator must do with any release of an example's table."""
    everyone = release.count("TRUE")
    # Not the interval, which fails 5 times in 100: noise beyond 12 standard deviations has a
    # probability below 1e-6 even with the exponential tails of Laplace noise.
    assert abs(everyone.value - n_counted(method)) <= 12 * everyone.std + 1
    for where in questions(method):
        estimate = release.count(where)
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.low >= 0
        assert estimate.privacy_std >= 0
        assert estimate.model_std >= 0
        assert json.loads(json.dumps(estimate.to_dict()))["value"] == estimate.value
    nobody = release.count("FALSE")
    assert nobody.value == nobody.low == nobody.high == 0
    for wrong in ("visit = 'v00001'", "salary > 3", "age >", "age > (SELECT 1)", "1; DROP TABLE x"):
        with pytest.raises(PredicateError):
            release.count(wrong)
    frame = release.frame()
    names = [name for name in frame.column_names if not name.endswith("_std")]
    assert names == list(release.schema.attributes)
    assert set(frame.column_names) <= {*names, *(f"{name}_std" for name in names)}


@every_method
def test_nothing_is_left_behind_when_a_release_fails(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hushtable.release.pq.write_table", fail)
    with pytest.raises(HushtableError, match="disk is full"):
        publish(table(method), schema(method), method, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
