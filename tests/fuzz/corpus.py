"""Seed inputs to mutate, dangerous words, and hostile inputs that must be refused safely."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq

from hushtable.privacy.ledger.ledger import Ledger

from . import targets

# A file that nothing may read; its access time shows a read (see test_hostile.py).
BAIT = "BAIT"

WORDS: dict[str, list[str]] = {
    "schema": [
        "!!python/object/apply:os.system ['touch BAIT']", "!!python/name:os.system", "&a", "*a",
        "<<: *a", "{", "}", "[", "]", ": ", "- ", "\n", "\n  ", "'", '"', "null", "~", "yes",
        "1e400",
        ".inf", ".nan", "-1", "0x10", "2026-01-01", "9" * 400, "low: 5", "high: -5", "step: 0",
        "step: 1e-300", "role: target", "type: number", "taxonomy: ../../../../etc/passwd",
        "taxonomy: /etc/passwd", "taxonomy: BAIT", "taxonomy: []", "taxonomy: {a: {a: [a]}}",
        "values: []", "values: [1, true]", "unit: {kind: person, column: id, max_rows: 0}",
        "rows: -1", "confirm: [low]", "---", "...", "%YAML 9.9", "\x00", "\ud800", "? ", "| ", "> ",
        "!!set {a}", "!!binary xx", "!!timestamp x", "[[[[[[[[[[[[[[[[", "columns: 3",
        "columns: []",
    ],
    "taxonomy_csv": [";", ",", "\n", "\r", '"', "*", " ", "\x00", "a", "b;a", ";;", "a;a;a", "é"],
    "taxonomy_nested": [
        "{", "}", "[", "]", ": ", "- ", "\n", "\n  ", "null", "1.5", "true", "&a", "*a", "a", "b",
        "!!python/tuple [a]", "[[[[[[", "!!set {a}", "2026-01-01", "? [a]\n: b",
    ],
    "where": [
        "age", "price", "town", '"Marital status"', "id", "'Gent'", "'it''s'", "3", "0.5", "1e9",
        "1e400", "9" * 60, "NULL", "TRUE", "FALSE", "AND", "OR", "NOT", "IN (1, 2)", "IN (",
        "BETWEEN",
        "LIKE '%_%'", "IS NULL", "IS NOT NULL", "=", "<>", "<=", "%", "/ 0", "*", "-", "(", ")",
        ",",
        "'", '"', ";", "--", "/*", "*/", "$1", "?", ":x", "::int", "read_csv('/etc/passwd')",
        "read_text('BAIT')", "(SELECT 1)", "ATTACH 'x'", "COPY t TO 'BAIT'", "PRAGMA x",
        "INSTALL x",
        "glob('*')", "CASE WHEN", "||", "~", "\\", "\x00", "\ud800", "[1]", "{'a': 1}", "x -> 1",
        "\n",
        "EXISTS", "COLLATE", "CAST(", "INTERVAL", "DATE '2020-01-01'", "@", "#", "`", "$$",
        "E'\\n'",
    ],
    "csv": [
        ",", ";", "\t", "\n", "\r", "\r\n", '"', '""', "'", "\x00", "é", "NaN", "inf", "-inf",
        "1e400",
        "9" * 40, "0x10", "1_000", "?", " ", "\ufeff", "=1+1", "Gent", "it's", "\ud800", "1\n2",
    ],
    "edges": [",", ";", "\t", " ", "\n", "\r", '"', "#", "%", "\x00", "é", "source,target\n", "1"],
    "statement": [
        "null", "[]", "{}", "-1", "1e400", '"x"', "true", '"../BAIT"', '"/etc/passwd"', "\\u0000",
        '"data/../../BAIT.parquet"', '"none (seeded)"', "NaN", "Infinity", "9" * 400, ",", ":",
        "{", "}",
        "[" * 200, '"threshold"', '"kind"', '"cells"', '"regions"', '"columns"', '"uncertain"',
        '"generalized"', '"insertions"', '"retention"', '"degrees"', '"suppressed-cells"',
        "\x1b]0;x\x07",
        '"epsilon"', '"1/0"', '"k"', '"generalize"', '"age"', '"file"', '"rows"',
    ],
}  # fmt: skip
WORDS["lookup"] = [
    *WORDS["where"], "town IN (SELECT name FROM towns)", "SELECT", "FROM towns", "WHERE size > 1",
    "SELECT *", "FROM read_text('BAIT')", "FROM 'BAIT'", "JOIN towns", "UNION", "LIMIT 1", "towns",
    "FROM duckdb_settings()", "name", "size", "OVER ()", "FROM (SELECT", "TABLESAMPLE", "AT",
]  # fmt: skip


@cache
def seeds() -> dict[str, list[bytes]]:
    """Return valid inputs, by target."""
    parquet, table = io.BytesIO(), targets.release() / "seeded-data.parquet"
    pq.write_table(targets.ROWS, parquet)
    with tempfile.TemporaryDirectory() as folder:
        book = Ledger.create(Path(folder) / "a.ledger", epsilon=3, delta="1e-3")
        book.charge(targets.METHOD.guarantee(targets.SCHEMA), purpose="seed")
        ledger = (Path(folder) / "a.ledger").read_bytes()
    statement = (targets.release() / "statement.json").read_bytes()
    csv = targets.CSV_TEXT.encode()
    clauses = [
        "age > 3 AND town = 'Gent'", "NOT (age BETWEEN 1 AND 4) OR price * 2 < age % 3",
        "\"Marital status\" LIKE '%ver' AND town IN ('Gent', 'Ayre')", "town IS NULL", "TRUE",
    ]  # fmt: skip
    return {
        "schema": [targets.SCHEMA_TEXT.encode()],
        "taxonomy_csv": [b"a;x;*\nb;x;*\nc;y;*\n", b"a,x\nb,y\n"],
        "taxonomy_nested": [b"any: {x: [a, b], y: [c, {z: [d, e]}]}\n", b"[a, b]"],
        "where": [clause.encode() for clause in clauses],
        "lookup": [
            b"town IN (SELECT name FROM towns WHERE size > 1)",
            b"age IN (SELECT size FROM towns) AND town IS NOT NULL",
        ],
        "csv": [csv, csv.replace(b",", b";")],
        "gzipped_csv": [gzip.compress(csv, mtime=0)],
        "parquet": [parquet.getvalue()],
        "edges": [b"1 2\n2 3\n", b"source,target\n1,2\n2,3\n"],
        "ledger": [ledger],
        "statement": [statement],
        "released_table": [table.read_bytes()],
    }


def hostile() -> dict[str, list[bytes]]:
    """Return hostile inputs by target; none of them may be accepted."""
    statement = json.loads(seeds()["statement"][0])

    def changed(**parts: object) -> bytes:
        return json.dumps({**statement, **parts}).encode()

    table = statement["tables"]["data"]
    bomb = "n0: &n0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"n{n}: &n{n} [{', '.join([f'*n{n - 1}'] * 9)}]\n" for n in range(1, 9)
    )
    start = "name: x\ncolumns:\n  c: {type: categorical, values: [a], taxonomy: "
    tags = [
        "!!python/object/apply:os.system ['touch BAIT']", "!!python/name:os.system",
        "!!python/object/new:os.system ['touch BAIT']", "!!python/module:os", "!include BAIT",
    ]  # fmt: skip
    paths = [
        "../../../../etc/passwd",
        "/etc/passwd",
        "BAIT",
        "./../BAIT",
        "C:\\x.csv",
        "a\x00b.csv",
    ]
    sql = [
        "read_csv('BAIT')", "age IN (SELECT * FROM read_text('BAIT'))", "age = 1; ATTACH 'BAIT'",
        "age = (SELECT content FROM read_text('BAIT'))", "age = 1 UNION SELECT * FROM 'BAIT'",
        "COPY (SELECT 1) TO 'BAIT'", "PRAGMA database_list", "INSTALL httpfs", "LOAD 'BAIT'",
        "EXISTS (FROM 'BAIT')", "getenv('HOME') = 'x'", "town = getvariable('x')", "age = 1 --",
        "\"age\"; DROP TABLE t; --\" = 1", "current_setting('temp_directory') = 'x'",
        "(" * 5000 + "age" + ")" * 5000, "NOT " * 5000 + "TRUE", "age = " + "1 + " * 20_000 + "1",
        "age = " + "9" * 100_000, "age = 1e999999999", "-" * 3000 + "age = 1",
    ]  # fmt: skip
    lookups = [
        "town IN (SELECT name FROM read_csv('BAIT'))", "town IN (SELECT name FROM 'BAIT')",
        "town IN (SELECT name FROM towns WHERE read_text('BAIT') = 'x')",
        "town IN (SELECT name FROM towns, read_text('BAIT'))", "town IN (FROM 'BAIT')",
        "town IN (SELECT (SELECT content FROM read_text('BAIT')) FROM towns)",
        "town IN (SELECT name FROM towns UNION SELECT content FROM read_text('BAIT'))",
        "town IN (WITH x AS (SELECT * FROM read_text('BAIT')) SELECT name FROM x)",
        "town IN (SELECT COLUMNS('.*') FROM towns)", "town IN (SELECT getenv('HOME') FROM towns)",
    ]  # fmt: skip
    return {
        "schema": [
            bomb.encode(),
            *(f"{start}{tag}}}\n".encode() for tag in tags),
            *(f'{start}"{path}"}}\n'.encode() for path in paths),
            *(f"name: {tag}\ncolumns: {{a: {{type: integer, low: 0, high: 1}}}}\n".encode()
              for tag in tags),
            b"[" * 20_000, b"{a: " * 20_000, b"a: &x [*x]\n", b"columns: &c {a: *c}\nname: x\n",
            b"name: x\ncolumns: {a: {type: integer, low: 0, high: " + b"9" * 5000 + b"}}\n",
            b"name: x\ncolumns: {a: {type: number, low: 0, high: 1, step: 1e-320}}\n",
            b"name: x\ncolumns: {a: {type: number, low: -1e308, high: 1e308, step: 1e-308}}\n",
            b"name: x\ncolumns: {a: {type: categorical, values: [a], taxonomy: &t [*t]}}\n",
            b"\xff\xfe\x00", b"", b"3", b"name: x", b"name: x\ncolumns: {1: {type: integer}}",
            b"name: x\nunit: {0: row}\ncolumns: {a: {type: integer, low: 0, high: 1}}\n",
        ],
        "taxonomy_csv": [b"", b"\xff\xff", b";" * 100_000, b"a;x\na;y\n",
                         (";".join(f"n{n}" for n in range(20_000)) + "\n").encode() * 2],
        "taxonomy_nested": [b"[" * 20_000, b"&a [*a]", b"&a {a: *a}", b"{a: " * 5000, b"3", b"",
                            bomb.encode(), b"!!python/object/apply:os.system ['touch BAIT']"],
        "where": [clause.encode() for clause in sql],
        "lookup": [clause.encode() for clause in (*sql[:-6], *lookups)],
        "csv": [b"", b"\x00" * 100, b"\xff\xfe" * 50, b'"' * 10_001, b"id" * 5_000_000,
                b"id,age,price,Marital status,town\n" + b"," * 100_000 + b"\n",
                b'id,age,price,Marital status,town\n"' + b"x\n" * 10_000],
        "gzipped_csv": [b"", b"\x1f\x8b", gzip.compress(b"")[:-4],
                        gzip.compress(b"x" * 50_000_000, mtime=0)],
        "parquet": [b"", b"PAR1", b"PAR1" * 1000, seeds()["parquet"][0][:-9]],
        "ledger": [b"", b"SQLite format 3\x00", seeds()["ledger"][0][:5000], _other_database()],
        "statement": [
            b"", b"{}", b"[" * 100_000, b"\xff", b'{"format": 3}',
            *(changed(tables={"data": {**table, "file": file}})
              for file in ("../BAIT", "/etc/passwd", "data/../../x.parquet", "data//x.parquet",
                           "seeded-data/../../BAIT.parquet", "x.parquet", "data.parquet")),
            changed(tables={"data": {**table, "rows": -1}}), changed(tables={"data": None}),
            changed(attachments={"../BAIT.md": "0" * 64}), changed(schema={"name": "x"}),
            changed(attachments={"x.html": "0" * 64}), changed(schema={}), changed(guarantees=[]),
            changed(guarantee="differential privacy"), changed(estimator={"notes": 3}),
            changed(guarantees=[{"family": "pure-dp", "epsilon": "1/0"}]),
            changed(guarantees=[{"family": "os.system"}]), changed(format=3), changed(more=1),
        ],
    }  # fmt: skip


def _other_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE records (seq)")
        connection.close()
        return path.read_bytes()
