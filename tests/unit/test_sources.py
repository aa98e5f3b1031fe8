"""Sources: every file, frame and URL gives the same table, and no row before a query."""

from __future__ import annotations

import datetime
import importlib.util
import json
import sqlite3
import ssl
import threading
from decimal import Decimal
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import duckdb
import openpyxl
import pandas
import polars
import pyarrow as pa
import pyarrow.feather
import pyreadstat
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import hushtable as ht
from hushtable.engine import connect, open_table
from hushtable.engine.sources.urls import name_at
from hushtable.errors import DataError, ParameterError, SchemaError
from hushtable.schema import Schema
from hushtable.schema.file_format import FileFormat

AGES, SEXES, WEIGHTS = [41, 7, 58, 41], ["F", "M", "F", "M"], [70.5, 20.0, 81.5, 70.5]
SCHEMA = Schema.parse(
    """
name: t
columns:
  age: {type: integer, low: 0, high: 99, missing: other}
  sex: {type: categorical, values: [F, M], missing: other}
  weight: {type: number, low: 0, high: 100, step: 0.5, missing: other}
"""
)


def frame():
    return pa.table({"age": AGES, "sex": SEXES, "weight": WEIGHTS})


def text(delimiter=",", point="."):
    rows = [
        f"{a}{delimiter}{s}{delimiter}{w}" for a, s, w in zip(AGES, SEXES, WEIGHTS, strict=True)
    ]
    body = "\n".join(rows).replace(".", point)
    return f"age{delimiter}sex{delimiter}weight\n{body}\n"


def write(kind, folder):
    file = folder / f"t.{kind}"
    if kind == "tsv":
        file.write_text(text("\t"))
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        book.active.append(["age", "sex", "weight"])
        for row in zip(AGES, SEXES, WEIGHTS, strict=True):
            book.active.append(list(row))
        book.save(file)
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in frame().to_pylist()))
    elif kind == "feather":
        pyarrow.feather.write_feather(frame(), file)
    elif kind == "dta":
        pyreadstat.write_dta(frame().to_pandas(), file)
    elif kind == "sav":
        pyreadstat.write_sav(frame().to_pandas(), file)
    elif kind == "xpt":
        pyreadstat.write_xport(frame().to_pandas(), file)
    elif kind.startswith("duckdb"):
        asked = kind.endswith("query")
        with duckdb.connect(str(file)) as base:
            base.register("there", frame())
            base.execute("CREATE TABLE t AS SELECT * FROM there")
        return f"duckdb:///{file}?{'query=SELECT * FROM t' if asked else 'table=t'}"  # noqa: S608 - our own
    elif kind == "sqlite":
        with sqlite3.connect(file) as base:
            base.execute("CREATE TABLE t (age INTEGER, sex TEXT, weight REAL)")
            base.executemany(
                "INSERT INTO t VALUES (?, ?, ?)", zip(AGES, SEXES, WEIGHTS, strict=True)
            )
        return f"sqlite:///{file}?query=SELECT * FROM t"  # noqa: S608 - our own file
    elif kind == "csv by URL":
        (folder / "t.csv").write_text(text())
        return f"local://{folder / 't.csv'}"
    return file


KINDS = ["tsv", "xlsx", "jsonl", "feather", "dta", "sav", "xpt", "duckdb", "duckdb by query",
         "sqlite", "csv by URL"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_addresses(kind, tmp_path):
    data = write(kind, tmp_path)
    counted = connect(data, SCHEMA).histograms(["age", "sex", "weight"])
    assert counted["age"][[41, 7, 58]].tolist() == [2, 1, 1]
    assert counted["sex"].tolist() == [2, 2]
    assert counted["weight"][[141, 40, 163]].tolist() == [2, 1, 1]
    drafted = ht.draft(data)
    assert list(drafted.columns) == ["age", "sex", "weight"]
    assert drafted.columns["sex"].values == ("F", "M", "X")


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_database_that_is_not_there_is_named_where_it_was_looked_for(scheme):
    with pytest.raises(DataError, match=r"no database 'none/x\.db' nor '/none/x\.db'"):
        ht.draft(f"{scheme}:///none/x.db?table=t")


@pytest.mark.parametrize("make", [
    lambda: polars.from_arrow(frame()).lazy(),
    lambda: duckdb.connect().from_arrow(frame()),
    lambda: frame().to_reader(),
    lambda: frame().to_pandas(),
], ids=["polars lazy", "duckdb relation", "arrow stream", "pandas"])  # fmt: skip
def test_frames(make):
    assert connect(make(), SCHEMA).histograms(["sex"])["sex"].tolist() == [2, 2]


def test_decimals_of_a_frame_keep_their_own_digits():
    """A row with more digits, or with fewer, does not change how others are spelled."""
    schema = Schema.parse("{name: t, columns: {x: {type: categorical, values: ['1.5', '2']}}}")
    plain = [Decimal("1.5"), 2, Decimal("2"), None]
    for more in ([], [Decimal("2.250")], [Decimal("1e2")], [Decimal("NaN")]):
        frame = pandas.DataFrame({"x": pandas.Series([*plain, *more], dtype=object)})
        counted = connect(frame, schema).histograms(["x"])["x"].tolist()
        assert counted == [1, 2, 1 + len(more)]


def test_several_text_files(tmp_path):
    (tmp_path / "a.csv").write_text(text())
    (tmp_path / "b.csv").write_text(text())
    for engine in ("memory", "duckdb"):
        counted = connect(str(tmp_path / "*.csv"), SCHEMA, engine=engine).histograms(["sex"])
        assert counted["sex"].tolist() == [4, 4]
    (tmp_path / "c.csv").write_text("age,other\n1,2\n")
    with pytest.raises(DataError, match="does not have the same columns as"):
        connect(str(tmp_path / "*.csv"), SCHEMA)


def test_delimiter_decimal_mark_and_encoding_are_in_the_schema(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(text("|", ",").replace("F", "Müller").encode("latin-1"))
    assert ht.draft(tmp_path / "t.csv").reading.encoding == "cp1252"
    told = FileFormat(delimiter="|", encoding="latin-1")
    made = ht.draft(file, reading=told)
    assert made.reading == told.model_copy(update={"decimal": ","})
    assert made.columns["sex"].values == ("M", "Müller")
    content = SCHEMA.to_dict()
    content["columns"]["sex"]["values"] = ["Müller", "M"]
    content["reading"] = {"delimiter": "|", "decimal": ",", "encoding": "latin-1"}
    schema = Schema.from_dict(content)
    assert Schema.parse(schema.to_yaml()) == schema
    counted = connect(file, schema).histograms(["sex", "weight"])
    assert counted["sex"].tolist() == [2, 2]
    assert counted["weight"][141] == 2


def test_several_text_files_of_another_encoding(tmp_path):
    content = SCHEMA.to_dict() | {"reading": {"encoding": "latin-1"}}
    content["columns"]["sex"]["values"] = ["Müller", "M"]
    schema = Schema.from_dict(content)
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_bytes(text().replace("F", "Müller").encode("latin-1"))
    for engine in ("memory", "duckdb"):
        counted = connect(str(tmp_path / "*.csv"), schema, engine=engine).histograms(["sex"])
        assert counted["sex"].tolist() == [4, 4]
    (tmp_path / "c.csv").write_text("age,other\n1,2\n")
    with pytest.raises(DataError, match="does not have the same columns as"):
        connect(str(tmp_path / "*.csv"), schema)


TYPED = Schema.parse(
    """
name: t
columns:
  listed: {type: categorical, values: ['1', '2', 'true', 'false', '2024-01-31 00:00:00']}
  truth: {type: boolean}
  whole: {type: integer, low: 0, high: 9}
  number: {type: number, low: 0, high: 9, step: 0.5}
  day: {type: date, low: 2024-01-01, high: 2024-12-31, step: month}
  hour: {type: time, low: '00:00', high: '23:59', step: hour}
  stay: {type: duration, low: 0, high: 90, step: hour}
"""
)
NOON, DAY, STAY = datetime.time(12), datetime.datetime(2024, 1, 31), datetime.timedelta(days=2)
ODD = ["odd", True, 1.0, 7, 2.5, "nan", "2 days", "#N/A"]
FILES = {
    "jsonl": (
        [[1.0, True, 3.0, 3, "2024-01-31", "12:00", 3], [2, False, 4, 0.5, None, None, 1.0]],
        [*ODD, 1e300, float("nan"), [1], {"a": None}, "\ud800", "DIGITS"],
    ),
    "xlsx": (
        [[True, True, 3.0, 3, DAY, NOON, STAY], [1.0, False, 4, 0.5, DAY, NOON, STAY],
         [DAY, None, 5, 1, DAY, NOON, STAY]],
        [*ODD, DAY, NOON, STAY],
    ),
}  # fmt: skip


def write_rows(kind, file, rows):
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(TYPED.columns, row, strict=True))) + "\n" for row in rows]
        # Python does not write integers with this many digits, but others do.
        file.write_text("".join(lines).replace('"DIGITS"', "1" + "0" * 5000))
    else:
        book = openpyxl.Workbook()
        for row in (list(TYPED.columns), *rows):
            book.active.append(row)
        book.save(file)


@pytest.mark.parametrize("kind", FILES)
def test_reading_of_a_row_does_not_depend_on_other_rows(kind, tmp_path):
    """More rows add the same number of rows to each column, even with cells of other types."""
    (plain, odd), file, counted = FILES[kind], tmp_path / f"t.{kind}", []
    for more in ([], [[cell] * len(TYPED.columns) for cell in odd]):
        write_rows(kind, file, 20 * plain + more)
        counted.append(connect(file, TYPED).histograms(list(TYPED.columns)))
    for name in TYPED.columns:
        added = counted[1][name] - counted[0][name]
        assert added.min() >= 0
        assert added.sum() == len(odd)


@pytest.mark.parametrize(("reading", "words"), [
    ({"delimiter": "ab"}, "one character"), ({"encoding": "klingon"}, "not known"),
    ({"decimal": "x"}, "decimal"), ({"delimiter": ",", "decimal": ","}, "same character"),
    ({"rename": {0: "a"}}, "rename"),
])  # fmt: skip
def test_bad_reading_is_refused(reading, words):
    with pytest.raises(SchemaError, match=words):
        Schema.from_dict({**SCHEMA.to_dict(), "reading": reading})


@pytest.mark.parametrize("kind", ["xlsx", "jsonl", "feather", "dta", "sav"])
def test_no_row_is_read_before_the_charge(kind, tmp_path, monkeypatch):
    table = open_table.open(write(kind, tmp_path))
    loads = []
    load = table.data.load
    object.__setattr__(table.data, "load", lambda: loads.append(1) or load())
    table.check(SCHEMA)
    assert loads == []
    table.connect(SCHEMA)
    assert loads == [1]


@pytest.mark.parametrize(("data", "error", "words"), [
    ("sqlite:///nowhere.db?table=t", DataError, "there is no database"),
    ("duckdb:///nowhere.db", ParameterError, "table=NAME"),
    ("nofs://x/y.csv", DataError, "cannot be fetched"),
])  # fmt: skip
def test_bad_addresses_are_refused(data, error, words):
    with pytest.raises(error, match=words):
        open_table.open(data)


class Shelf(SimpleHTTPRequestHandler):
    """Server of a folder's files that requires a password, and redirects to other places."""

    seen: ClassVar[list[str | None]] = []

    def do_GET(self):
        self.seen.append(self.headers["Authorization"])
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
        elif self.path.startswith("/closed/") and self.seen[-1] != "Basic bWU6cMOkc3M=":
            self.send_error(401)
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Serve a folder on the loopback interface, by http and by https with a test certificate."""
    (tmp_path / "closed").mkdir()
    for place in (tmp_path, tmp_path / "closed"):
        (place / "the table.csv").write_text(text())
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(),
                                now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = tmp_path / "server.pem"
    whole = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(whole + made.public_bytes(Encoding.PEM))
    Shelf.seen.clear()
    servers = []
    for sealed in (False, True):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Shelf, directory=str(tmp_path)))
        if sealed:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    monkeypatch.setenv("no_proxy", "*")
    yield *(server.server_address[1] for server in servers), pem
    for server in servers:
        server.shutdown()
        server.server_close()


def test_files_on_web_servers(web, monkeypatch):
    plain, sealed, pem = web
    for address in (
        f"http://localhost:{plain}/the table.csv",
        f"http://localhost:{plain}/moved/the%20table.csv",
        f"http://me:p%C3%A4ss@localhost:{plain}/closed/the table.csv",
    ):
        assert connect(address, SCHEMA).histograms(["sex"])["sex"].tolist() == [2, 2]
    with pytest.raises(DataError, match="HTTPError 401") as caught:
        ht.draft(f"http://me:wrong@localhost:{plain}/closed/the table.csv")
    assert "wrong" not in str(caught.value)
    # The user name and password are sent to the named server, not to redirect targets.
    Shelf.seen.clear()
    connect(f"http://me:p%C3%A4ss@localhost:{plain}/moved/the%20table.csv", SCHEMA)
    assert Shelf.seen == ["Basic bWU6cMOkc3M=", None]
    with pytest.raises(DataError, match="HTTPError 404"):
        ht.draft(f"http://localhost:{plain}/nothing.csv")
    address = f"https://localhost:{sealed}/the table.csv"
    with pytest.raises(DataError, match="cannot be fetched"):  # untrusted certificate
        ht.draft(address)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    assert connect(address, SCHEMA).histograms(["sex"])["sex"].tolist() == [2, 2]
    assert ht.draft(address).columns["sex"].values == ("F", "M", "X")


def test_a_file_system_that_is_not_installed_is_named():
    if importlib.util.find_spec("s3fs"):
        pytest.skip("s3fs is installed")
    with pytest.raises(DataError, match="cannot be fetched: Install s3fs"):
        open_table.open("s3://bucket/t.csv")


def test_damaged_files_are_refused_without_their_content(tmp_path):
    for kind in ("xlsx", "jsonl", "feather", "dta", "sav", "xpt", "sas7bdat"):
        (tmp_path / f"t.{kind}").write_text("secret, not such a file")
        with pytest.raises(DataError, match="cannot be read") as caught:
            connect(tmp_path / f"t.{kind}", SCHEMA)
        assert "secret" not in str(caught.value)


def test_publish_some_columns_with_one_schema_and_one_ledger(tmp_path):
    ledger = ht.Ledger.create(tmp_path / "l", epsilon=3, delta=0, schema=SCHEMA)
    pure = ht.NoisyCounts(epsilon=1, mechanism="pure")
    one = ht.publish(frame(), SCHEMA, pure, out=tmp_path / "1", ledger=ledger, columns=["sex"])
    two = ht.publish(
        frame(), SCHEMA, pure, out=tmp_path / "2", ledger=ledger, columns=["age", "sex"]
    )
    assert list(one.schema.attributes) == ["sex"]
    assert list(two.schema.attributes) == ["age", "sex"]
    assert ledger.remaining().epsilon == 1
    with pytest.raises(ParameterError, match="'nobody' is not a published column"):
        ht.publish(frame(), SCHEMA, pure, out=tmp_path / "3", ledger=ledger, columns=["nobody"])


def test_rules_go_with_the_columns_that_they_are_about(tmp_path):
    content = SCHEMA.to_dict() | {"rules": ["weight >= 1 OR age < 3", "sex = 'F' OR sex = 'M'"]}
    schema = Schema.from_dict(content)
    pure = ht.NoisyCounts(epsilon=1, mechanism="pure")
    some = ht.publish(frame(), schema, pure, out=tmp_path / "1", columns=["age", "sex"])
    assert some.schema.rules == ("sex = 'F' OR sex = 'M'",)


def test_a_header_in_another_encoding_is_read_as_the_schema_says(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(text().replace("sex", "Größe").encode("utf-16"))
    with pytest.raises(DataError, match="not UTF-8"):
        connect(file, SCHEMA)
    made = ht.draft(file)
    assert made.reading.encoding == "utf-16"
    assert list(made.columns) == ["age", "Größe", "weight"]
    assert connect(file, made).histograms(["Größe"])["Größe"].tolist()[:2] == [2, 2]


def test_a_draft_is_not_named_by_a_password(tmp_path):
    assert ht.draft(write("sqlite", tmp_path)).name == "table"
    assert ht.draft(write("duckdb", tmp_path)).name == "t"
    assert name_at("postgres://me:secret@host?table=visits") == "visits"
    assert name_at("https://me:secret@host") == ""


def test_a_copy_from_elsewhere_is_gone_with_a_killed_run(tmp_path):
    """The file is in the folder of spilled private rows, which a watcher removes."""
    opened = open_table.open(write("csv by URL", tmp_path))
    assert opened.header.files[0].parent.parent.name.startswith("hushtable-spill-")
