"""Random clauses against two independent implementations of SQL: plain Python and DuckDB."""

# ruff: noqa: S311, S608 - clauses are drawn from a seed, and put into the tests' own queries
from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from hushtable.errors import ParameterError
from hushtable.query.where import Predicate, formula, parse
from hushtable.query.where import tensor_network as network_module
from hushtable.schema import Schema
from hushtable.schema.recoding import recodings
from seeds import shifted

Row = dict[str, Fraction | str | None]

SCHEMA = Schema.from_dict(
    {
        "name": "small",
        "columns": {
            "a": {"type": "integer", "low": 0, "high": 3, "missing": "category"},
            "b": {"type": "integer", "low": -2, "high": 2},
            "c": {"type": "categorical", "values": ["x", "y", "zz"], "missing": "category"},
            "d": {"type": "integer", "low": 0, "high": 5},
            "e": {"type": "number", "low": 0.1, "high": 0.5, "step": 0.2, "missing": "category"},
            "g": {
                "type": "categorical",
                "values": ["low", "mid", "high"],
                "ordered": True,
                "missing": "category",
            },
            "h": {"type": "categorical", "values": ["y", "x"]},
        },
    }
)
GRID = SCHEMA.domain.grid()
CODES = {name: GRID[:, place] for place, name in enumerate(SCHEMA.domain.names)}
ORDER = ["low", "mid", "high"]


def values(name: str) -> list[Fraction | str | None]:
    """Decode a column without the code under test."""
    column = SCHEMA.attributes[name]
    found = [column.value(code) for code in range(column.size)]
    return [v if v is None or isinstance(v, str) else Fraction(str(v)) for v in found]


VALUES = {name: values(name) for name in SCHEMA.attributes}


def row(codes: np.ndarray) -> Row:
    return {name: VALUES[name][code] for name, code in zip(SCHEMA.attributes, codes, strict=True)}


@dataclass
class Clause:
    """A clause for hushtable, the same for DuckDB, and its meaning."""

    sql: str
    oracle: str
    meaning: Callable[[Row], object]


def null_safe(function: Callable[..., object], *parts: Clause) -> Callable[[Row], object]:
    def meaning(record: Row) -> object:
        given = [part.meaning(record) for part in parts]
        return None if None in given else function(*given)

    return meaning


def remainder(x: Fraction, y: Fraction) -> Fraction | None:
    if y == 0:
        return None
    size = abs(x) % abs(y)
    return -size if x < 0 else size


ARITHMETIC = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: None if y == 0 else x / y,
    "%": remainder,
}
COMPARE = {
    "=": lambda x, y: x == y,
    "<>": lambda x, y: x != y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


class Generator:
    """Generator of random clauses; `exact` restricts them to what DuckDB computes exactly."""

    def __init__(self, seed: int, *, exact: bool) -> None:
        self.rng = random.Random(shifted(seed))
        self.exact = exact

    def choose(self, options: str | list[str]) -> str:
        return self.rng.choice(options)

    def number(self, depth: int) -> Clause:
        draw = self.rng.random()
        if depth == 0 or draw < 0.5:
            if draw < 0.35:
                name = self.choose("abde")
                return Clause(name, name, lambda record: record[name])
            text = self.choose(["0", "1", "2", "3", "0.1", "0.3", "1.50", "NULL"])
            value = None if text == "NULL" else Fraction(text)
            return Clause(text, text, lambda _: value)
        if draw < 0.6:
            part = self.number(depth - 1)
            return Clause(f"-({part.sql})", f"-({part.oracle})", null_safe(lambda x: -x, part))
        sign = self.choose(list("+-*%") if self.exact else list("+-*/%"))
        left, right = self.number(depth - 1), self.number(depth - 1)
        divisor = f"NULLIF({right.oracle}, 0)" if sign in "/%" else f"({right.oracle})"
        return Clause(
            f"({left.sql}) {sign} ({right.sql})",
            f"({left.oracle}) {sign} {divisor}",
            null_safe(ARITHMETIC[sign], left, right),
        )

    def atom(self) -> Clause:
        kind = self.rng.randrange(9)
        if kind <= 2:
            left, right = self.number(2), self.number(2)
            sign = self.choose(list(COMPARE))
            return Clause(
                f"{left.sql} {sign} {right.sql}",
                f"{left.oracle} {sign} {right.oracle}",
                null_safe(COMPARE[sign], left, right),
            )
        if kind == 3:
            return self.between()
        if kind == 4:
            return self.member()
        if kind == 5:
            part = self.number(1)
            word = self.choose(["IS NULL", "IS NOT NULL"])
            return Clause(
                f"({part.sql}) {word}",
                f"({part.oracle}) {word}",
                lambda record: (part.meaning(record) is None) == (word == "IS NULL"),
            )
        if kind == 6:
            word = self.choose(["TRUE", "FALSE", "NULL"])
            return Clause(word, word, lambda _: {"TRUE": True, "FALSE": False}.get(word))
        return self.category()

    def between(self) -> Clause:
        parts = part, low, high = self.number(1), self.number(0), self.number(1)
        word = self.choose(["BETWEEN", "NOT BETWEEN"])

        def inside(x: Fraction | None, y: Fraction | None, z: Fraction | None) -> bool | None:
            sides = [None if None in (x, y) else x >= y, None if None in (x, z) else x <= z]
            return both(*sides)

        def meaning(record: Row) -> bool | None:
            found = inside(*(p.meaning(record) for p in parts))
            return found if word == "BETWEEN" or found is None else not found

        sql, oracle = (
            f"({p}) {word} ({q}) AND ({r})"
            for p, q, r in (
                (part.sql, low.sql, high.sql),
                (part.oracle, low.oracle, high.oracle),
            )
        )
        return Clause(sql, oracle, meaning)

    def member(self) -> Clause:
        part = self.number(1)
        listed = self.rng.sample(["0", "1", "-2", "0.3", "5", "NULL"], self.rng.randint(1, 4))
        numbers = [Fraction(text) for text in listed if text != "NULL"]
        word = self.choose(["IN", "NOT IN"])

        def meaning(record: Row) -> bool | None:
            value = part.meaning(record)
            if value is None:
                return None
            if value in numbers:
                return word == "IN"
            return None if "NULL" in listed else word != "IN"

        text = ", ".join(listed)
        return Clause(f"({part.sql}) {word} ({text})", f"({part.oracle}) {word} ({text})", meaning)

    def category(self) -> Clause:
        def rank(record: Row) -> int | None:
            return None if record["g"] is None else ORDER.index(str(record["g"]))

        def known(name: str, test: Callable[[str], bool | None]) -> Callable[[Row], bool | None]:
            return lambda record: None if record[name] is None else test(str(record[name]))

        pool = {
            "c = 'x'": known("c", lambda v: v == "x"),
            "'y' <> c": known("c", lambda v: v != "y"),
            "c IN ('x', NULL)": known("c", lambda v: True if v == "x" else None),
            "c NOT IN ('x', 'zz')": known("c", lambda v: v == "y"),
            "c LIKE '_'": known("c", lambda v: len(v) == 1),
            "c NOT LIKE '%z'": known("c", lambda v: not v.endswith("z")),
            "c IS NULL": lambda record: record["c"] is None,
            "c IS NOT NULL": lambda record: record["c"] is not None,
            "c = NULL": lambda record: None,
            "g < 'high'": known("g", lambda v: ORDER.index(v) < 2),
            "'mid' <= g": known("g", lambda v: ORDER.index(v) >= 1),
            "g BETWEEN 'low' AND 'mid'": known("g", lambda v: v != "high"),
            "g NOT BETWEEN 'mid' AND 'high'": known("g", lambda v: v == "low"),
            "c = h": lambda r: None if r["c"] is None else r["c"] == r["h"],
            "h <> c": lambda r: None if r["c"] is None else r["c"] != r["h"],
            "h = 'x'": known("h", lambda v: v == "x"),
            "g = g": lambda record: None if rank(record) is None else True,
        }
        text = self.choose(list(pool))
        # DuckDB compares an ENUM with a bare text as text, not by its order.
        return Clause(text, re.sub("'(low|mid|high)'", r"'\1'::level", text), pool[text])

    def clause(self, depth: int) -> Clause:
        draw = self.rng.random()
        if depth == 0 or draw < 0.15:
            return self.atom()
        if draw < 0.3:
            part = self.clause(depth - 1)
            return Clause(
                f"NOT ({part.sql})", f"NOT ({part.oracle})", null_safe(lambda x: not x, part)
            )
        if draw < 0.38:
            part = self.clause(depth - 1)
            word = self.choose(["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"])
            wanted = word.endswith("TRUE")
            return Clause(
                f"({part.sql}) {word}",
                f"({part.oracle}) {word}",
                lambda record: (part.meaning(record) is wanted) != ("NOT" in word),
            )
        parts = [self.clause(depth - 1) for _ in range(self.rng.randint(2, 3))]
        word = self.choose(["AND", "OR"])

        def meaning(record: Row) -> bool | None:
            found = [part.meaning(record) for part in parts]
            if word == "AND":
                return both(*found)
            return None if (some := both(*(invert(x) for x in found))) is None else not some

        return Clause(
            f" {word} ".join(f"({part.sql})" for part in parts),
            f" {word} ".join(f"({part.oracle})" for part in parts),
            meaning,
        )


def invert(x: object) -> bool | None:
    return None if x is None else not x


def both(*found: object) -> bool | None:
    if any(x is False for x in found):
        return False
    return None if None in found else True


def full_mask(predicate: Predicate) -> np.ndarray:
    return predicate.mask(CODES)


@pytest.mark.parametrize(
    ("seed", "word"), [(seed, None) for seed in range(6)] + [(seed, 4) for seed in range(2)]
)
def test_mask_matches_python(seed: int, word: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 random clauses on random rows; some once more with Python integers throughout."""
    if word is not None:
        monkeypatch.setattr(formula, "_WORD", word)
    generator = Generator(seed, exact=False)
    rng = np.random.default_rng(shifted(seed))
    n_true = 0
    for _ in range(100):
        clause = generator.clause(4)
        chosen = rng.choice(len(GRID), 40, replace=False)
        found = parse(clause.sql, SCHEMA).mask({n: c[chosen] for n, c in CODES.items()})
        meant = [clause.meaning(row(GRID[place])) is True for place in chosen]
        assert found.tolist() == meant, clause.sql
        n_true += sum(meant)
    assert 500 < n_true < 3500


@pytest.mark.parametrize(
    ("dense", "exact_float", "n_clauses"),
    [
        (2**14, 2**53, 250),
        (2**14, 1, 100),
        (16, 2**53, 100),
        (16, 1, 50),
        (1, 2**53, 50),
        (1, 1, 50),
    ],
)
def test_count_matches_enumeration(
    dense: int, exact_float: int, n_clauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 random clauses, by tables and by wires, in floats and modulo primes."""
    monkeypatch.setattr(network_module, "DENSE", dense)
    monkeypatch.setattr(network_module, "_EXACT_FLOAT", exact_float)
    generator = Generator(1000 + dense + exact_float % 7, exact=False)
    for _ in range(n_clauses):
        clause = generator.clause(4)
        predicate = parse(clause.sql, SCHEMA)
        names = predicate.columns or ("h",)
        own = SCHEMA.domain.project(names)
        matching = int(predicate.mask(dict(zip(names, own.grid().T, strict=True))).sum())
        assert predicate.count(names) == matching, clause.sql
        assert predicate.count() == matching * (len(GRID) // own.size), clause.sql


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    types = {"a": "INT", "b": "INT", "c": "VARCHAR", "d": "INT", "e": "DECIMAL(4, 1)"}
    types |= {"g": "level", "h": "VARCHAR"}
    connection.execute("CREATE TYPE level AS ENUM ('low', 'mid', 'high')")
    for name, kind in types.items():
        connection.execute(f"CREATE TABLE v_{name} (code INT, {name} {kind})")
        plain = [float(v) if isinstance(v, Fraction) else v for v in VALUES[name]]
        listed = list(enumerate(plain))
        connection.executemany(f"INSERT INTO v_{name} VALUES (?, ?)", listed)
    tables = " CROSS JOIN ".join(f"v_{name}" for name in types)
    order = ", ".join(f"v_{name}.code" for name in types)
    connection.execute(
        f"CREATE TABLE t AS SELECT row_number() OVER (ORDER BY {order}) - 1 AS place, "
        f"{', '.join(types)} FROM {tables}"
    )
    return connection


@pytest.mark.parametrize("seed", range(4))
def test_mask_matches_duckdb(seed: int, oracle: duckdb.DuckDBPyConnection) -> None:
    """400 random clauses on every row of the domain; the clause as written, and normalized."""
    generator = Generator(seed, exact=True)
    for _ in range(100):
        clause = generator.clause(3)
        predicate = parse(clause.sql, SCHEMA)
        rows = oracle.execute(f"SELECT place FROM t WHERE {clause.oracle} ORDER BY place")
        assert np.flatnonzero(full_mask(predicate)).tolist() == [p for (p,) in rows.fetchall()], (
            clause.sql
        )
        again = parse(str(predicate), SCHEMA)
        assert again.where == predicate.where
        assert again.formula == predicate.formula


@pytest.mark.parametrize(
    "where",
    [
        "a - b - d < 0",
        "a - b + d * 2 % 3 = 1",
        "-a % 3 = -b",
        "a * b % 4 = 2",
        "2 * a + 3 > b * d - 1",
        "NOT a = 1 AND b > 0 OR d < 2",
        "a = 1 OR b = 1 AND d = 1",
        "NOT a IS NULL AND NOT c IN ('x')",
        "d / 2 = 1.5",
        "(a + d) / 2 <= 2.5",
        "d / 4 * 2 = 1",
        "7 / 2 = 3.5 AND a >= 0",
        "-7 % 3 = -1",
        "e <= 0.3",
        "e * 3 = 0.9",
        "e + 0.2 IN (0.3, 0.5)",
        "e % 0.2 = 0.1",
        "1e0 = a AND .5 <= e AND 2. > b",
        "a BETWEEN 1 AND 2 AND b = 1",
        "a == 2",
        "+a = 2 AND - - b = 1",
        "a IN (1, (2), -1 + 1)",
        "a NOTNULL AND c ISNULL",
        "(a < 2 AND c = 'x') IS NOT FALSE",
        "a = 1 IS TRUE",
        "c LIKE '%' AND c LIKE '%%z%' OR c LIKE 'x%'",
    ],
)
def test_precedence_is_that_of_duckdb(where: str, oracle: duckdb.DuckDBPyConnection) -> None:
    rows = oracle.execute(f"SELECT place FROM t WHERE {where} ORDER BY place").fetchall()
    assert np.flatnonzero(full_mask(parse(where, SCHEMA))).tolist() == [place for (place,) in rows]


@pytest.mark.parametrize("dense", [1, 2**14])
def test_weigh_matches_enumeration(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "DENSE", dense)
    rng = random.Random(shifted(5))
    density = {}
    for name, size in SCHEMA.domain.sizes.items():
        parts = [rng.randint(0, 9) for _ in range(size - 1)] + [7]
        density[name] = np.array(parts) / sum(parts)
    joint = np.ones(len(GRID))
    for name, codes in CODES.items():
        joint *= density[name][codes]
    generator = Generator(77, exact=False)
    for _ in range(150):
        predicate = parse(generator.clause(3).sql, SCHEMA)
        weight = predicate.weigh(density)
        assert weight == pytest.approx(joint[full_mask(predicate)].sum(), abs=1e-12)
        rest = parse(f"({predicate}) IS NOT TRUE", SCHEMA).weigh(density)
        assert weight + rest == pytest.approx(1.0, abs=1e-12)


def test_weigh_refuses_invalid_densities() -> None:
    predicate = parse("a < 2 AND c = 'x'", SCHEMA)
    fifths, quarters = np.full(5, 0.2), np.full(4, 0.25)
    assert predicate.weigh({"a": fifths, "c": quarters}) == pytest.approx(0.1)
    assert predicate.weigh({"a": np.ones(5), "c": np.full(4, 3.0)}) == pytest.approx(6)
    with pytest.raises(
        ParameterError, match="'a': the density has 4 entries; it must have 5"
    ) as two:
        predicate.weigh({"a": quarters})
    assert len(two.value.problems) == 2
    with pytest.raises(ParameterError, match="non-negative"):
        predicate.weigh({"a": -fifths, "c": quarters})
    with pytest.raises(ParameterError, match="finite"):
        predicate.weigh({"a": np.full(5, np.nan), "c": quarters})


RECODE = recodings(
    SCHEMA,
    {
        "a": 2,
        "b": [-2, -1, 1],
        "c": {"x": "X or Z", "y": "Y", "zz": "X or Z"},
        "d": 4,
        "e": [0.3],
        "g": {"low": "any", "mid": "any", "high": "any"},
    },
)


@pytest.mark.parametrize("dense", [1, 2**14])
@pytest.mark.parametrize("exact_float", [1, 2**53])
def test_shares_match_enumeration(
    dense: int, exact_float: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 random clauses and random choices of recoded columns, all generalized cells."""
    monkeypatch.setattr(network_module, "DENSE", dense)
    monkeypatch.setattr(network_module, "_EXACT_FLOAT", exact_float)
    rng = random.Random(shifted(dense + exact_float))
    generator = Generator(dense + exact_float, exact=False)
    for _ in range(75):
        predicate = parse(generator.clause(4).sql, SCHEMA)
        recode = {name: rule for name, rule in RECODE.items() if rng.random() < 0.7}
        cells = {n: recode[n].apply(c) if n in recode else c for n, c in CODES.items()}
        sizes = [recode[n].size if n in recode else s for n, s in SCHEMA.domain.sizes.items()]
        flat = np.ravel_multi_index(list(cells.values()), sizes)
        matching = np.bincount(flat, weights=full_mask(predicate), minlength=math.prod(sizes))
        behind = np.bincount(flat, minlength=math.prod(sizes))
        every = np.unravel_index(np.arange(len(behind)), sizes)
        found = predicate.shares(recode, dict(zip(CODES, every, strict=True)))
        np.testing.assert_allclose(found, matching / behind, atol=1e-14, rtol=0)
        assert np.array_equal(found == 1, matching == behind), str(predicate)
        assert np.array_equal(found == 0, matching == 0), str(predicate)


def test_rows_are_aligned() -> None:
    predicate = parse("a < 2 AND c = 'x'", SCHEMA)
    with pytest.raises(ParameterError, match="codes must include column 'c'"):
        predicate.mask({"a": np.zeros(3, np.int64)})
    with pytest.raises(ParameterError, match="all must have the same"):
        predicate.mask({"a": np.zeros(3, np.int64), "c": np.zeros(2, np.int64)})
    assert predicate.mask({"a": np.zeros(0, np.int64), "c": np.zeros(0, np.int64)}).shape == (0,)
    assert parse("TRUE", SCHEMA).mask({"h": np.zeros(4, np.int64)}).tolist() == [True] * 4
    with pytest.raises(ParameterError, match="columns must include 'c'"):
        predicate.count(["a"])
