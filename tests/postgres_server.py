"""A small PostgreSQL server for all tests of a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ibis
import pytest

# To this collation, texts are equal if their letters are: no case, no accents, no normal form.
ALIKE = "text COLLATE alike"


def running_server() -> Iterator[Any]:
    """Start a server that listens only on a socket in its own folder.

    Yield a connection of ibis.
    """
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


def add_collation(server: Any) -> None:
    """Add a collation that equates different texts."""
    with server.con.cursor() as cursor:
        cursor.execute(
            "CREATE COLLATION IF NOT EXISTS alike (provider = icu, "
            "locale = 'und-u-ka-shifted-ks-level1', deterministic = false)"
        )
        cursor.execute(f"SELECT 'e' = 'É'::{ALIKE}")
        assert cursor.fetchall() == [(True,)]
    server.con.commit()


def _programs() -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb")
    if found is None and not installed:
        pytest.skip("no PostgreSQL server: apt install postgresql")
    return Path(found).resolve().parent if found else installed[-1].parent
