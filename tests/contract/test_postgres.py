"""PostgreSQL counts as the other engines do, through ibis; a server is started for the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest

from contract import engine_checks
from contract.engine_checks import CHECKS, Make
from hushtable import DiffGen, publish
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import DataError
from hushtable.privacy.noise import SeededNoise
from hushtable.schema import Schema
from seeds import shifted

pytestmark = pytest.mark.xdist_group("postgres")


def _programs() -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb")
    if found is None and not installed:
        pytest.skip("no PostgreSQL server: apt install postgresql")
    return Path(found).resolve().parent if found else installed[-1].parent


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """Start a server that listens on a socket in a folder of its own, and nowhere else."""
    pytest.importorskip("psycopg", reason="no driver: pip install 'ibis-framework[postgres]'")
    programs = _programs()
    # The server refuses to run as root, and must be able to reach its folder.
    owner: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="hushtable-postgres-")
    if owner:
        shutil.chown(folder, **owner)
    place = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **owner}
    try:
        data = f"{folder}/data"
        command = [f"{programs}/initdb", "-D", data, "-U", "test", "-E", "UTF8", "--no-sync"]
        subprocess.run([*command, "--locale=C"], check=True, **place)
        control = [f"{programs}/pg_ctl", "-D", data, "-w", "-t", "120"]
        options = f"-c listen_addresses= -c fsync=off -k {folder}"
        subprocess.run([*control, "-o", options, "start"], check=True, **place)
        try:
            connection = ibis.postgres.connect(host=folder, user="test", database="postgres")
            connection.con.commit()  # ibis's own functions; the next error would roll them back
            yield connection
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, **place)
    finally:
        shutil.rmtree(folder)


TYPES = {pa.int64(): "bigint", pa.int32(): "integer", pa.float64(): "float8", pa.string(): "text"}


def to_postgres(server: Any, table: pa.Table) -> ibis.Table:
    """Copy a table into the server."""
    name = f"t{uuid.uuid4().hex}"
    columns = [
        '"{}" {}'.format(field.name.replace('"', '""'), TYPES[field.type]) for field in table.schema
    ]
    with server.con.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        with cursor.copy(f"COPY {name} FROM STDIN") as rows:
            for row in zip(*(column.to_pylist() for column in table), strict=True):
                rows.write_row(row)
    server.con.commit()
    return server.table(name)


def maker(server: Any) -> Make:
    def make(table: pa.Table, schema: Schema) -> Any:
        return connect(to_postgres(server, table), schema)

    return make


BEYOND = {"1E400", "-1e400", "9223372036854775808", "-9223372036854775809", "9" * 60}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_engine(
    server: Any, check: Callable[[Make], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [text for text in engine_checks.NUMBER_TEXTS if text not in BEYOND]
    monkeypatch.setattr(engine_checks, "NUMBER_TEXTS", numbers)
    check(maker(server))


@pytest.mark.parametrize("text", sorted(BEYOND))
def test_texts_beyond_64_bits_are_refused(server: Any, text: str) -> None:
    # Other engines take them for outside. PostgreSQL stops, and so do we, without quoting them.
    column = {"type": "integer", "low": 0, "high": 1, "outside": "clip"}
    schema = Schema.from_dict({"name": "t", "columns": {"x": column}})
    with pytest.raises(DataError) as error:
        connect(to_postgres(server, pa.table({"x": [text]})), schema).histograms(["x"])
    assert text not in str(error.value)
    server.con.rollback()


@pytest.mark.filterwarnings("ignore:this release is not private")
def test_release_is_the_same(server: Any, tmp_path: Path) -> None:
    table = to_postgres(server, sample())
    releases = [
        publish(
            data, sample_schema(), DiffGen(epsilon=1, specializations=4), out=tmp_path / name,
            noise=SeededNoise(shifted(5)),
        )
        for name, data in (("postgres", table), ("memory", sample()))
    ]  # fmt: skip
    assert releases[0].table().equals(releases[1].table())
