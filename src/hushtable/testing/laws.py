"""The laws that every method keeps, each as a check of one example.

A check takes an `Example` and an empty folder, and raises `ContractError` where a law is broken.
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
from hushtable.pipeline import publish
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.secure_noise import SecureNoise
from hushtable.privacy.seeded_noise import SeededNoise
from hushtable.release import Release
from hushtable.schema import Categorical, Schema
from hushtable.statement import SEEDED
from hushtable.testing.estimator import check_estimator
from hushtable.testing.example import Example
from hushtable.testing.expect import ContractError, expect, expect_raised

CANARY = "zebra-4711"
"""A value that stands in no schema, and must not be found anywhere."""

FEW = 600
"""Rows of an example that are enough where a check publishes several times."""

_FIXED = ("parameters", "guarantees", "unprotected", "schema", "split", "method")


def check_promise(example: Example, folder: Path) -> None:
    """Law 1: the promise sees no data, says what it is and what it leaves out."""
    method, schema = example.method, example.schema
    takes = list(inspect.signature(method.guarantee).parameters)
    expect(takes == ["schema"], f"guarantee takes {takes}; it takes the schema alone")
    promised = method.guarantee(schema)
    expect(promised, "guarantee gives no promise; give NoGuarantee where nothing is promised")
    expect(promised == method.guarantee(schema), "guarantee gives another promise when asked again")
    for promise in promised:
        expect(promise.explain().endswith("."), f"explain() is no sentence: {promise.explain()}")
        expect(promise.unprotected, f"unprotected is empty: what does {promise} leave out?")


def check_charge(example: Example, folder: Path) -> None:
    """Law 4: spending is recorded before data is read, and stands when reading fails."""
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
        expect_raised(DataError, "the table is not opened by its engine"),
    ):
        _publish(example, folder / "out", ledger=ledger)
    expect(seen == [["charged"]], f"the ledger holds {seen} when the table is opened, not a charge")
    left = [entry.status for entry in ledger.entries()]
    expect(left == ["charged"], f"after a failure the ledger holds {left}, not the charge")
    expect(not (folder / "out").exists(), "a run that failed left a release behind")


def check_errors(example: Example, folder: Path) -> None:
    """Law 5: an error about data names column and rows, and shows no value."""
    columns = example.schema.attributes
    listed = [name for name, column in columns.items() if isinstance(column, Categorical)]
    name = listed[0] if listed else next(iter(columns))
    some = example.table.slice(0, 50)
    place = some.column_names.index(name)
    broken = some.set_column(place, name, pa.array([CANARY] * some.num_rows))
    strict = example.schema.to_dict()
    strict["columns"][name]["outside"] = "refuse"
    if not listed:  # a text is no number, and so missing
        strict["columns"][name]["missing"] = "forbid"
    changed = dataclasses.replace(example, schema=Schema.from_dict(strict), table=broken)
    with expect_raised(DataError, f"values of {name!r} that the schema refuses are taken") as said:
        _publish(changed, folder / "out")
    expect(CANARY not in said[0], f"an error quotes a value of {name!r}")
    for part in (repr(name), f"{some.num_rows} rows"):
        expect(part in said[0], f"an error about data does not say {part}: {said[0]}")
    _expect_nothing_left(folder)


def check_every_row(example: Example, folder: Path) -> None:
    """Whatever one row holds, there is a release, and nothing but its rows depends on the row."""
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
        expect(CANARY not in "".join(texts_of), "a private value stands in the statement")
    expect(
        all(one == seen[0] for one in seen),
        "odd rows change what a release looks like: its columns, its parameters or its promise",
    )


def check_shape(example: Example, folder: Path) -> None:
    """Laws 6 and 8: columns, parameters and promise come from the schema, whatever the rows."""
    whole = _publish(example, folder / "all")
    first = whole.statement
    expect(first.parameters == example.method.parameters(), "the statement has other parameters")
    for n_rows in (1, 0):
        few = dataclasses.replace(example, table=example.table.slice(0, n_rows))
        out = folder / str(n_rows)
        if example.refuses_few:
            with expect_raised(Refused, f"a table of {n_rows} rows is published") as said:
                _publish(few, out)
            told = re.search(example.refuses_few, said[0])
            expect(told, f"the refusal does not say {example.refuses_few!r}: {said[0]}")
            expect([path.name for path in folder.iterdir()] == ["all"], "a refusal left something")
            continue
        release = _publish(few, out)
        for part in ("parameters", "split", "guarantees", "unprotected"):
            same = getattr(release.statement, part) == getattr(first, part)
            expect(same, f"{part} of the statement change with the rows")
        for name in first.tables:
            same = release.table(name).schema == whole.table(name).schema
            expect(same, f"the columns of table {name!r} change with the rows")
        expect(
            set(release.statement.estimator) == set(first.estimator),
            "what the estimator is told changes with the rows",
        )


def check_seed(example: Example, folder: Path) -> None:
    """Law 7: a seeded release says that it is not private, and is the same again."""
    ledger = Ledger.create(
        folder / "ledger",
        epsilon=100,
        delta="1e-3",
        unit=example.schema.unit,
        allow_uncounted=True,
    )
    release = _publish(example, folder / "a", noise=SeededNoise(example.seed), ledger=ledger)
    expect(release.statement.guarantee == SEEDED, "a seeded release does not say so")
    families = [promise.family for promise in release.statement.guarantees]
    expect(families == ["none"], f"a seeded release promises {families}")
    told = "not private" in (folder / "a" / "STATEMENT.md").read_text()
    expect(told, "STATEMENT.md of a seeded release does not say that it is not private")
    again = _publish(example, folder / "b", noise=SeededNoise(example.seed))
    for name in release.statement.tables:
        same = release.table(name).equals(again.table(name))
        expect(same, f"table {name!r} differs with the same seed: what else draws?")
    fields = [field.name for field in dataclasses.fields(example.method)]
    expect(not any("seed" in name for name in fields), "a method takes no seed")


def check_parameters(example: Example, folder: Path) -> None:
    """Parameters are frozen, explained, and survive the statement."""
    method, kind = example.method, type(example.method)
    fields = dataclasses.fields(method)
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{kind.__name__} is not frozen")
    for field in fields:
        expect(field.kw_only, f"{field.name} is not keyword-only")
        expect(kind.help().get(field.name), f"the docstring does not say what {field.name} is")
    read = kind(**json.loads(json.dumps(method.parameters())))
    expect(read == method, f"{method} comes back from its statement as {read}")
    known = estimator_kinds()
    expect(
        method.estimator_kind in known,
        f"no listing names the estimator {method.estimator_kind!r}; there are {', '.join(known)}",
    )


def check_forecast(example: Example, folder: Path) -> None:
    """Forecast without data, by a split that adds up to the promise."""
    forecast = example.method.forecast(example.schema, example.table.num_rows)
    expect(forecast.n_cells >= 1, f"n_cells is {forecast.n_cells}")
    expect(forecast.memory_mb > 0, f"memory_mb is {forecast.memory_mb}")
    expect(forecast.lines, "a forecast says nothing")
    spent = [promise.epsilon for promise in _counted(example)] or [Fraction(0)]
    shares = sum(forecast.split.values())
    expect([shares] == spent, f"the split adds up to {shares}; promised is {spent}")
    example.method.forecast(example.schema)  # where nobody knows how many rows


def check_account(example: Example, folder: Path) -> None:
    """Pay for what is opened as was promised, and no less where the plan spends all."""
    plan = example.method.plan(example.schema)
    engine = connect(example.table, example.schema)
    account = plan.accounted(engine, SecureNoise()).account
    expect(account.openings, "a run opens nothing: where does what it publishes come from?")
    if example.method.opens_bare:
        prices = [opening.price for opening in account.openings]
        expect(prices == [None], f"a method that opens bare pays {prices}")
        expect(account.promise is None, "a method that opens bare promises differential privacy")
        return
    promise, spent = account.promise, account.spent()
    expect(promise is not None and promise.covers(spent), f"{spent} is spent of {promise}")
    if promise is not None and plan.spends_all:
        expect(spent.epsilon == promise.epsilon, f"epsilon {spent.epsilon} of {promise.epsilon}")
        least = promise.delta * (1 - Fraction(1, 2**40))
        expect(least <= spent.delta <= promise.delta, f"delta {spent.delta} of {promise.delta}")
    for opening in account.openings:
        price = opening.mechanism.price(opening.sensitivity)
        expect(opening.price == price, f"{opening} was booked at another price than {price}")


def check_release(example: Example, folder: Path) -> None:
    """Answer an analyst who has the folder alone."""
    made = _publish(example, folder / "made")
    made.folder.rename(folder / "copy")
    check_estimator(Release.load(folder / "copy"), example)


def check_full_disk(example: Example, folder: Path) -> None:
    """Nothing is left behind when a release cannot be written."""
    full = OSError(28, "No space left on device")
    with (
        mock.patch("pyarrow.parquet.write_table", side_effect=full),
        expect_raised(HushtableError, "a full disk is not noticed") as said,
    ):
        _publish(example, folder / "out")
    expect("disk is full" in said[0], f"a full disk is told as: {said[0]}")
    _expect_nothing_left(folder)


Check = Callable[[Example, Path], None]

CHECKS: tuple[Check, ...] = (
    *(check_promise, check_parameters, check_forecast, check_account, check_charge, check_errors),
    *(check_every_row, check_shape, check_seed, check_release, check_full_disk),
)
"""All laws that are about one example, in the order in which they are tried."""


def check_method(example: Example) -> None:
    """Try all laws on an example; whatever does not hold is in one `ContractError`.

    Parameters
    ----------
    example : Example
        The method with its parameters, and what it is tried by. It must be listed: by hushtable,
        or by an entry point of an installed package.

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
    """Give the promises that a ledger counts."""
    promised = example.method.guarantee(example.schema)
    return [promise for promise in promised if isinstance(promise, PureDP | ApproxDP)]


def _expect_nothing_left(folder: Path) -> None:
    left = [path.name for path in folder.iterdir()]
    expect(not left, f"a run that failed left {', '.join(left)} behind")
