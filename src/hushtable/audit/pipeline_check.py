"""Tests of what is around a method: engines, the identity of persons, and the ledger.

All promises assume that engines count the rows that are in the table, that two persons are never
counted as one, and that the ledger records what is promised. Each is compared with a computation of
the auditor on generated tables. None of the comparisons depends on chance.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.audit.cases import made_schema, whole, words
from hushtable.audit.inputs import GraphInput, Input, TableInput
from hushtable.audit.report import Finding
from hushtable.audit.subject import Clock, Subject, scratch
from hushtable.audit.sweep import ENGINES, variants
from hushtable.engine.engine import Engine
from hushtable.engine.open_table import EngineName, connect
from hushtable.errors import HushtableError
from hushtable.methods.base import GraphMethod, Method
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.privacy.values import MAX_DELTA
from hushtable.publishing.run import PublishRun
from hushtable.schema import Schema
from hushtable.schema.codes import to_values

COUNTED = "Every engine counts the rows of the table, at most max_rows of each person."
CHARGED = "The ledger records at least what a release promises, and admits no more than its cap."

SPELLED_IN_SQL = ("texts", "decimals", "reals")
"""Types of identifiers that are also counted by the SQL engine; both engines convert them alike."""

SIZES = (0, 60, 2_000)
"""Rows of tables that are counted by every engine."""

MANY_PERSONS = 1 << 19
"""Persons among whom two share an identity of 32 bits, except with a probability below 1e-13."""


def checked(subject: Subject, clock: Clock) -> list[Finding]:
    """Compare engines and the ledger with what is expected."""
    faults = _engine_faults(subject, clock)
    found = [_finding(COUNTED, "any difference in counts or identities", faults)]
    promises = [p for p in subject.prepared.guarantees if isinstance(p, PureDP | ApproxDP)]
    if promises and subject.noise.is_private and hasattr(subject.method, "plan"):
        found.append(_finding(CHARGED, "any charge below the promise", _ledger_faults(subject)))
    return found


def _finding(promise: str, would_see: str, faults: Iterator[str]) -> Finding:
    try:
        fault = next(faults, None)
    except HushtableError as error:
        fault = f"A generated table that fits its schema is refused: {error}"
    if fault is not None:
        return Finding(promise=promise, verdict="VIOLATION", notes=(fault,))
    return Finding(
        promise=promise, verdict="NO VIOLATION FOUND", would_see=would_see, about_runs=False
    )


# --- engines --------------------------------------------------------------------------------------


def _engine_faults(subject: Subject, clock: Clock) -> Iterator[str]:
    with scratch() as place:
        for name, spelled in _identifiers():
            clock.report("comparing identities")
            for engine in ENGINES if name in SPELLED_IN_SQL else ENGINES[:1]:
                yield from _miscounted_persons(name, spelled, engine, place)
        many = pa.array([f"person {n}" for n in range(MANY_PERSONS)])
        yield from _miscounted_persons("many texts", many, ENGINES[0], place, each=1)
        schemas = [made_schema(_COLUMNS)]
        if isinstance(subject.method, Method) and subject.schema.unit.kind == "row":
            schemas.append(subject.schema)
        for schema in schemas:
            for n in SIZES:
                clock.report("comparing engines")
                table = _random_table(schema, n)
                for engine in ENGINES:
                    yield from _miscounted_rows(table, engine, place)


_COLUMNS = {
    "kind": words("a", "A", " a", "a ", "\u00e9", "e\u0301", "NULL", "nan", missing="category"),
    "whole": whole(4, special={-9: "unknown"}, missing="category"),
    "real": {"type": "number", "low": -1, "high": 1, "step": 0.25},
    "day": {"type": "date", "low": "1969-12-30", "high": "1970-01-03"},
    "moment": {"type": "timestamp", "low": "2024-02-28T22:00:00", "high": "2024-03-01T02:00:00",
               "step": "hour"},
    "is": {"type": "boolean"},
}  # fmt: skip


def _identifiers() -> Iterator[tuple[str, Any]]:
    """Yield different identifiers of one type that a conversion may confuse."""
    texts = ["ann", "Ann", "ANN", " ann", "ann ", "ann\t", "a nn", "an\u0301n", "\u00e1nn", "a\0nn",
             "1", "01", "1.0", "+1", "1e0", "\uff11", "stra\u00dfe", "strasse", "\u0130", "i", "I",
             "-", "nan", "NaN", "null", "x" * 300 + "1", "x" * 300 + "2", "\u200bann", "ann;",
             "12345678901234567890123", "12345678901234567890124"]  # fmt: skip
    yield "texts", pa.array(texts)
    yield "texts in a dictionary", pa.array(texts).dictionary_encode()
    yield (
        "whole numbers",
        pa.array([0, 1, -1, *(2**k + d for k in (31, 32, 53, 62) for d in (-1, 0, 1))]),
    )
    yield (
        "reals",
        pa.array([0.1, float(np.nextafter(0.1, 1)), 1e300, 1e-300, 5e-324, 2.0**53, 2.0**53 + 2]),
    )
    long = decimal.Context(prec=76)
    yield (
        "decimals",
        pa.array([long.create_decimal(10**38 - d) for d in range(3)], pa.decimal256(39, 0)),
    )
    moment = 1_700_000_000_000_000_000
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "America/New_York"), pa.duration("ns")):
        yield str(kind), pa.array([moment + d for d in (0, 1, 999, 1000, 10**9)], kind)
    yield "times", pa.array([0, 1, 1000], pa.time64("ns"))
    yield "days", pa.array([datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)])
    yield "bytes", pa.array([b"a", b"a\0", b"A", b"\xff"])


def _connected(table: pa.Table, schema: Schema, engine: EngineName, place: Path) -> Engine:
    """Open a table: for memory as a frame, otherwise as a file."""
    if engine == "memory":
        return connect(table, schema, engine=engine, noise=SeededNoise(1))
    pq.write_table(table, place / "table.parquet")
    return connect(place / "table.parquet", schema, engine=engine, noise=SeededNoise(1))


def _miscounted_persons(
    name: str, spelled: Any, engine: EngineName, place: Path, *, max_rows: int = 3, each: int = 5
) -> Iterator[str]:
    """Give every person more equal rows than are used; each must count `max_rows` times."""
    n = len(spelled)
    unit = {"kind": "person", "column": "who", "max_rows": max_rows}
    columns = {"who": {"role": "identifier"}, "x": whole(min(n, 50))}
    owners = np.tile(np.arange(n), each)
    table = pa.table({"who": spelled.take(pa.array(owners)), "x": owners % 50})
    found = _connected(table, made_schema(columns, unit), engine, place).histograms(["x"])["x"]
    expected = np.bincount(np.arange(n) % 50, minlength=min(n, 50)) * min(max_rows, each)
    if not np.array_equal(found, expected):
        yield (
            f"Engine {engine} uses {found.sum():,} rows of {n:,} persons with {each} rows each, "
            f"identified by {name}; with max_rows {max_rows} it must use {expected.sum():,}, "
            "the same number of each."
        )


def _random_table(schema: Schema, n: int) -> TableInput:
    codes = np.random.default_rng(n).integers(schema.domain.shape, size=(n, len(schema.attributes)))
    return TableInput(schema, tuple(map(tuple, codes.tolist())))


def _raw(table: TableInput) -> pa.Table:
    """Return a table as a custodian has it."""
    codes = np.array(table.rows, np.int64).reshape(-1, len(table.schema.attributes))
    return pa.table({
        name: to_values(column, codes[:, place])
        for place, (name, column) in enumerate(table.schema.attributes.items())
    })  # fmt: skip


def _miscounted_rows(table: TableInput, engine: EngineName, place: Path) -> Iterator[str]:
    names = list(table.schema.attributes)
    opened = _connected(_raw(table), table.schema, engine, place)
    cells = opened.counts(names)
    found = Counter(dict(zip(map(tuple, cells.codes.tolist()), cells.counts.tolist(), strict=True)))
    pairs = [names[at : at + 2] for at in range(max(1, len(names) - 1))]
    sums = [int(marginal.sum()) for marginal in opened.marginals(pairs)]
    codes = np.array(table.rows, np.int64).reshape(-1, len(names))
    histograms = opened.histograms(names)
    if (
        found != Counter(table.rows)
        or opened.n_rows() != len(table.rows)
        or sums != [len(table.rows)] * len(pairs)
        or any(
            not np.array_equal(histograms[name], np.bincount(codes[:, at], minlength=size))
            for at, (name, size) in enumerate(table.schema.domain.sizes.items())
        )
    ):
        yield (
            f"Engine {engine} counts {opened.n_rows():,} rows in {len(found):,} cells of a random "
            f"table of {len(table.rows):,} rows with columns {', '.join(names)}, or other cells "
            "than those of the table."
        )


# --- the ledger -----------------------------------------------------------------------------------


def _ledger_faults(subject: Subject) -> Iterator[str]:
    """Publish twice from a ledger for one release, and three times from a ledger for four.

    If the method allows it, the second ledger is about persons with several rows.
    """
    method: Any = subject.method
    is_graph = isinstance(method, GraphMethod)
    schemas = [subject.schema]
    if not is_graph and subject.schema.rows is None:
        schemas += [
            schema for _, schema in itertools.islice(variants(subject.schema, method.plan), 1)
        ]
    for schema, admitted, wanted in ((schemas[0], 1, 2), (schemas[-1], 4, 3)):
        given: Input = GraphInput(("a", "b"), (("a", "b"),))
        if not is_graph:
            given = _random_table(schema, SIZES[1] if schema.rows is None else schema.rows)
        plan = method.plan("audit" if is_graph else schema)
        promise = next(p for p in plan.guarantees if isinstance(p, PureDP | ApproxDP))
        with scratch() as place:
            ledger = Ledger.create(
                place / "ledger",
                epsilon=admitted * promise.epsilon,
                delta=max(promise.delta, min(admitted * promise.delta, MAX_DELTA)),
                unit=promise.unit,
                neighbors=promise.neighbors,
                name="audit",
            )
            for number in range(wanted):
                run = PublishRun(
                    plan, noise=subject.noise, out=place / f"{number}", paying={"ledger": ledger}
                )
                refused = False
                try:
                    run.refuse(anyway=True)
                    run.publish(lambda given=given: given.open(subject.noise))  # type: ignore[misc]
                except HushtableError:
                    refused = True
                paid = [(one.cost.epsilon, one.cost.delta) for one in ledger.entries()[number:]]
                asked = (promise.epsilon, promise.delta)
                if not refused and not any(e >= asked[0] and d >= asked[1] for e, d in paid):
                    yield (
                        f"After release {number + 1}, which promises epsilon {asked[0]} and delta "
                        f"{asked[1]}, the ledger has no new entry of at least that cost."
                    )
                if number >= admitted and not refused:
                    yield "A second release was admitted by a ledger whose cap is a single release."
