"""Contract checks of the laws that every method must keep, each on one example.

A check takes an `Example` and an empty folder, and raises `ContractError` if a law is violated.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from hushtable import engine as engines
from hushtable.engine import connect
from hushtable.errors import DataError, HushtableError, Refused
from hushtable.methods.registry import estimator_kinds
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.secure_noise import SecureNoise
from hushtable.privacy.noise.seeded_noise import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.release.statement import SEEDED
from hushtable.schema import Categorical, Schema
from hushtable.testing.estimator import check_estimator
from hushtable.testing.example import Example
from hushtable.testing.expect import ContractError, expect, expect_raised

CANARY = "zebra-4711"
"""A value that is in no schema, and must not appear in any output."""

FEW = 600
"""Number of rows for checks that publish several times."""

_FIXED = ("parameters", "guarantees", "unprotected", "schema", "split", "method")


def check_promise(example: Example, folder: Path) -> None:
    """Check law 1: the promise depends on the schema only, and states its terms and limits."""
    method, schema = example.method, example.schema
    takes = list(inspect.signature(method.guarantee).parameters)
    expect(
        takes == ["schema"], f"guarantee has the parameters {takes}; it must only take the schema"
    )
    promised = method.guarantee(schema)
    expect(promised, "guarantee returns no promise; return NoGuarantee if there is none")
    expect(
        promised == method.guarantee(schema), "guarantee returns a different promise on each call"
    )
    for promise in promised:
        expect(promise.explain().endswith("."), f"explain() is not a sentence: {promise.explain()}")
        expect(promise.unprotected, f"unprotected is empty: state what {promise} does not cover")


def check_charge(example: Example, folder: Path) -> None:
    """Check law 4: the charge is recorded before data is read, and remains if reading fails."""
    counted = _counted(example)
    ledger = Ledger.create(
        folder / "ledger",
        epsilon=100,
        delta="1e-3",
        unit=example.schema.unit,
        neighbors=counted[0].neighbors if counted else "add-remove",
        allow_uncounted=not counted,
    )
    seen: list[list[str]] = []

    def read(*args: object, **kwargs: object) -> None:
        seen.append([entry.status for entry in ledger.entries()])
        raise DataError("stop here")

    with (
        mock.patch.object(engines.PrivateTable, "connect", read),
        expect_raised(DataError, "the table is not opened with its engine"),
    ):
        _publish(example, folder / "out", ledger=ledger)
    expect(
        seen == [["charged"]], f"the ledger contains {seen} when the table is opened, not a charge"
    )
    left = [entry.status for entry in ledger.entries()]
    expect(left == ["charged"], f"after a failure, the ledger contains {left}, not the charge")
    expect(not (folder / "out").exists(), "a failed run left a release behind")


def check_errors(example: Example, folder: Path) -> None:
    """Check law 5: an error about data names the column and rows, but no value."""
    columns = example.schema.attributes
    listed = [name for name, column in columns.items() if isinstance(column, Categorical)]
    name = listed[0] if listed else next(iter(columns))
    some = example.table.slice(0, 50)
    place = some.column_names.index(name)
    broken = some.set_column(place, name, pa.array([CANARY] * some.num_rows))
    strict = example.schema.to_dict()
    strict["columns"][name]["outside"] = "refuse"
    if not listed:  # a text in a numeric column is missing
        strict["columns"][name]["missing"] = "forbid"
    changed = dataclasses.replace(example, schema=Schema.from_dict(strict), table=broken)
    with expect_raised(
        DataError, f"values of {name!r} that the schema refuses are accepted"
    ) as said:
        _publish(changed, folder / "out")
    expect(CANARY not in said[0], f"an error quotes a value of {name!r}")
    for part in (repr(name), f"{some.num_rows} rows"):
        expect(part in said[0], f"an error about data does not contain {part}: {said[0]}")
    _expect_nothing_left(folder)


def check_every_row(example: Example, folder: Path) -> None:
    """Check that any row can be published, and that only the rows of the release depend on it."""
    rows = example.table.slice(0, FEW)
    names = rows.column_names
    texts = pa.table({name: rows[name].cast(pa.string()) for name in names})
    cells = [None, "", "nan", "-inf", "1e300", "2.55", CANARY]
    hostile: dict[str, str | None] = dict.fromkeys(names, CANARY)
    odd = [hostile | {name: cell} for name, cell in zip(names, cells, strict=False)]
    odd += [dict.fromkeys(names, cell) for cell in cells]
    with_odd = pa.concat_tables([texts, pa.Table.from_pylist(odd, texts.schema)])
    seen = []
    for private, engine in ((texts, "memory"), (with_odd, "memory"), (with_odd, "duckdb")):
        out = folder / f"{private.num_rows}-{engine}"
        release = _publish(dataclasses.replace(example, table=private), out, engine=engine)
        statement = release.statement.model_dump(mode="json", by_alias=True)
        kinds = [release.table(of).schema for of in release.statement.tables]
        seen.append((kinds, sorted(statement["estimator"]), [statement[key] for key in _FIXED]))
        texts_of = [path.read_text() for path in (*out.rglob("*.md"), out / "statement.json")]
        expect(CANARY not in "".join(texts_of), "the statement contains a private value")
    expect(
        all(one == seen[0] for one in seen),
        "unusual rows change the columns, parameters or promise of a release",
    )


def check_shape(example: Example, folder: Path) -> None:
    """Check laws 6 and 8: columns, parameters and promise depend on the schema only."""
    whole = _publish(example, folder / "all")
    first = whole.statement
    expect(first.parameters == example.method.parameters(), "the statement has wrong parameters")
    for n_rows in (1, 0):
        few = dataclasses.replace(example, table=example.table.slice(0, n_rows))
        out = folder / str(n_rows)
        if example.refuses_few:
            with expect_raised(Refused, f"a table of {n_rows} rows is published") as said:
                _publish(few, out)
            told = re.search(example.refuses_few, said[0])
            expect(told, f"the error does not match {example.refuses_few!r}: {said[0]}")
            expect([path.name for path in folder.iterdir()] == ["all"], "a refused run left files")
            continue
        release = _publish(few, out)
        for part in ("parameters", "split", "guarantees", "unprotected"):
            same = getattr(release.statement, part) == getattr(first, part)
            expect(same, f"{part} in the statement depends on the rows")
        for name in first.tables:
            same = release.table(name).schema == whole.table(name).schema
            expect(same, f"the columns of table {name!r} depend on the rows")
        expect(
            set(release.statement.estimator) == set(first.estimator),
            "the names of estimator settings depend on the rows",
        )


def check_seed(example: Example, folder: Path) -> None:
    """Check law 7: a seeded release is marked as not private, and is reproducible."""
    ledger = Ledger.create(
        folder / "ledger",
        epsilon=100,
        delta="1e-3",
        unit=example.schema.unit,
        allow_uncounted=True,
    )
    release = _publish(example, folder / "a", noise=SeededNoise(example.seed), ledger=ledger)
    expect(release.statement.guarantee == SEEDED, "a seeded release is not marked as seeded")
    families = [promise.family for promise in release.statement.guarantees]
    expect(families == ["none"], f"a seeded release promises {families}; it must promise none")
    told = "not private" in (folder / "a" / "STATEMENT.md").read_text()
    expect(told, "STATEMENT.md of a seeded release does not say that it is not private")
    again = _publish(example, folder / "b", noise=SeededNoise(example.seed))
    for name in release.statement.tables:
        same = release.table(name).equals(again.table(name))
        expect(same, f"table {name!r} differs with the same seed: there is other randomness")
    fields = [field.name for field in dataclasses.fields(example.method)]
    expect(not any("seed" in name for name in fields), "a method must not have a seed")


def check_parameters(example: Example, folder: Path) -> None:
    """Check that parameters are frozen, documented, and preserved by the statement."""
    method, kind = example.method, type(example.method)
    fields = dataclasses.fields(method)
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{kind.__name__} is not frozen")
    for field in fields:
        expect(field.kw_only, f"{field.name} is not keyword-only")
        expect(kind.help().get(field.name), f"the docstring does not describe {field.name}")
    read = kind(**json.loads(json.dumps(method.parameters())))
    expect(read == method, f"{method} is read from its statement as {read}")
    known = estimator_kinds()
    expect(
        method.estimator_kind in known,
        f"no listing has the estimator {method.estimator_kind!r}; known are {', '.join(known)}",
    )


def check_forecast(example: Example, folder: Path) -> None:
    """Check that the forecast needs no data, and that its split adds up to the promise."""
    forecast = example.method.forecast(example.schema, example.table.num_rows)
    expect(forecast.n_cells >= 1, f"n_cells is {forecast.n_cells}; it must be at least 1")
    expect(forecast.memory_mb > 0, f"memory_mb is {forecast.memory_mb}; it must be above 0")
    expect(forecast.lines, "the forecast has no lines")
    spent = [promise.epsilon for promise in _counted(example)] or [Fraction(0)]
    shares = sum(forecast.split.values())
    expect([shares] == spent, f"the split adds up to {shares}; the promise is {spent}")
    example.method.forecast(example.schema)  # with an unknown number of rows


def check_account(example: Example, folder: Path) -> None:
    """Check that a run is charged as promised, and in full if the plan spends everything."""
    plan = example.method.plan(example.schema)
    engine = connect(example.table, example.schema)
    account = plan.accounted(engine, SecureNoise()).account
    expect(account.records, "a run opens no sealed counts, but publishes something")
    if example.method.sees_exact_counts:
        prices = [opening.cost for opening in account.records]
        expect(prices == [None], f"a method that sees exact counts is charged {prices}")
        expect(account.promise is None, "a method that sees exact counts promises DP")
        return
    promise, spent = account.promise, account.spent()
    expect(
        promise is not None and promise.covers(spent),
        f"the run spent {spent}; the promise is {promise}",
    )
    if promise is not None and plan.spends_all:
        expect(
            spent.epsilon == promise.epsilon, f"spent epsilon {spent.epsilon} of {promise.epsilon}"
        )
        least = promise.delta * (1 - Fraction(1, 2**40))
        expect(
            least <= spent.delta <= promise.delta, f"spent delta {spent.delta} of {promise.delta}"
        )
    for opening in account.records:
        price = opening.mechanism.cost(opening.sensitivity)
        expect(opening.cost == price, f"{opening} was recorded with a cost other than {price}")


def check_release(example: Example, folder: Path) -> None:
    """Check that the release folder alone is sufficient for analysis."""
    made = _publish(example, folder / "made")
    made.folder.rename(folder / "copy")
    check_estimator(Release.load(folder / "copy"), example)


def check_full_disk(example: Example, folder: Path) -> None:
    """Check that nothing is left behind if a release cannot be written."""
    full = OSError(28, "No space left on device")
    with (
        mock.patch("pyarrow.parquet.write_table", side_effect=full),
        expect_raised(HushtableError, "a full disk is not detected") as said,
    ):
        _publish(example, folder / "out")
    expect("disk is full" in said[0], f"the error does not say that the disk is full: {said[0]}")
    _expect_nothing_left(folder)


Check = Callable[[Example, Path], None]

CHECKS: tuple[Check, ...] = (
    *(check_promise, check_parameters, check_forecast, check_account, check_charge, check_errors),
    *(check_every_row, check_shape, check_seed, check_release, check_full_disk),
)
"""All checks of one example, in order."""


def check_method(example: Example) -> None:
    """Check all laws on an example; raise one `ContractError` with all violations.

    Parameters
    ----------
    example : Example
        The method with its parameters, and the inputs it is checked on. The method must be listed:
        by hushtable, or by an entry point of an installed package.

    Raises
    ------
    ContractError
        If any law is violated. All violations are listed.

    Examples
    --------
    >>> from hushtable import DiffGen, sample
    >>> check_method(Example(DiffGen(epsilon=1), table=sample().slice(0, 600)))
    """
    problems = []
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(example, Path(folder))
            except (ContractError, HushtableError) as error:
                problems.append(f"{check.__name__}: {error}")
    expect(not problems, "\n".join(problems))


def _publish(example: Example, out: Path, **options: Any) -> Release:
    return publish(example.table, example.schema, example.method, out=out, **options)


def _counted(example: Example) -> list[PureDP | ApproxDP]:
    """Return the promises that a ledger counts."""
    promised = example.method.guarantee(example.schema)
    return [promise for promise in promised if isinstance(promise, PureDP | ApproxDP)]


def _expect_nothing_left(folder: Path) -> None:
    left = [path.name for path in folder.iterdir()]
    expect(not left, f"a failed run left {', '.join(left)} behind")
