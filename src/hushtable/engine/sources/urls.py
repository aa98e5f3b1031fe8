"""Tables given by a URL: database tables, and files on other machines."""

from __future__ import annotations

import shutil
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit
from urllib.request import Request, build_opener

from hushtable.errors import DataError, HushtableError, ParameterError
from hushtable.extras import needing
from hushtable.files.writing import spill_folder

DATABASES = {"duckdb": "duckdb", "sqlite": "sqlite", "postgres": "postgres",
             "postgresql": "postgres"}  # fmt: skip

WEB = ("http", "https")
WEB_TIMEOUT = 60.0  # seconds that a web server may be silent

_QUERY = "hushtable_query"  # name of the temporary view of a query


def name_at(address: str) -> str:
    """Return the table or file name in a URL, without other parts, which may hold a password.

    Examples
    --------
    >>> name_at("postgres://me:secret@host?table=visits"), name_at("https://me@host/a/visits.csv")
    ('visits', 'visits.csv')
    """
    parts = urlsplit(address)
    if parts.scheme in DATABASES:
        return dict(parse_qsl(parts.query)).get("table", "")
    return Path(unquote(parts.path)).name


def at_address(address: str) -> Any:
    """Return the ibis table of a URL, or the path of a local copy of its file; parse no row.

    A table of a database is named by ``?table=NAME``, or by ``?query=SELECT ...``.
    """
    parts = urlsplit(address)
    if parts.scheme in DATABASES:
        return _table(address)
    if parts.scheme == "file":
        return unquote(parts.path)
    return _copy(address)


def _table(address: str) -> Any:
    import ibis  # noqa: PLC0415 - slow to import

    parts = urlsplit(address)
    given = dict(parse_qsl(parts.query))
    table, query = given.pop("table", None), given.pop("query", None)
    if (table is None) == (query is None):
        raise ParameterError(
            f"{parts.scheme}://: name what to read, either ?table=NAME or ?query=SELECT ...; for "
            "example sqlite:///people.db?table=visits."
        )
    where = urlunsplit((DATABASES[parts.scheme], parts.netloc, parts.path, urlencode(given), ""))
    try:
        if parts.scheme in ("duckdb", "sqlite"):
            file = _database_file(unquote(parts.netloc + parts.path).removeprefix("/"))
            connection = (
                ibis.duckdb.connect(file, read_only=True)
                if parts.scheme == "duckdb"
                else ibis.sqlite.connect(file)
            )
        else:
            connection = ibis.connect(where)
        if table is not None:
            return connection.table(table)
        if parts.scheme != "sqlite":  # ibis cannot find the types of a view there
            connection.con.execute(f"CREATE TEMP VIEW {_QUERY} AS {query}")
            if DATABASES[parts.scheme] == "postgres":
                connection.con.commit()  # a later error would roll it back
            return connection.table(_QUERY)
        return connection.sql(query)
    except DataError:
        raise
    except Exception as error:  # of any type; its message may contain a password
        raise DataError(
            f"{parts.scheme}://: the database or the table cannot be opened "
            f"({type(error).__name__}); check the address, and that the driver is installed."
        ) from None


def _database_file(path: str) -> Path:
    """Return the path of a database file, relative to the current folder or to the root."""
    places = [Path(path), Path("/") / path]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        listed = " nor ".join(dict.fromkeys(repr(str(place)) for place in places))
        raise DataError(f"there is no database {listed}.")
    return found


def _copy(address: str) -> Path:
    """Copy a file to a private temporary folder, which is removed even if the process is killed."""
    file = Path(spill_folder()) / (Path(urlsplit(address).path).name or "data")
    scheme = urlsplit(address).scheme
    fetch = _opened_web if scheme in WEB else _opened_elsewhere
    try:
        with fetch(address) as there, file.open("wb") as here:
            shutil.copyfileobj(there, here)
    except HushtableError:
        raise
    except Exception as error:  # of any type; its message may contain a password
        what = type(error).__name__ + (f" {error.code}" if isinstance(error, HTTPError) else "")
        raise DataError(
            f"{scheme}://: the file cannot be fetched ({what}); check the address, and that you "
            "may read it."
        ) from None
    return file


def _opened_web(address: str) -> Any:
    """Open a file on a web server; credentials in the URL are sent only to that server."""
    parts = urlsplit(address)
    head = {}
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        head["Authorization"] = "Basic " + b64encode(credentials.encode()).decode()
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, host, quote(parts.path, safe="/%"), parts.query, ""))
    asked = Request(plain)  # noqa: S310 - http or https
    for name, value in head.items():
        asked.add_unredirected_header(name, value)
    # In newer Python versions, the shared opener keeps the certificates of its first use.
    return build_opener().open(asked, timeout=WEB_TIMEOUT)


def _opened_elsewhere(address: str) -> Any:
    scheme = urlsplit(address).scheme
    with needing("files", f"{scheme}://"):
        import fsspec  # noqa: PLC0415 - an extra
    try:
        fsspec.get_filesystem_class(scheme)
    except (
        ImportError,
        ValueError,
    ) as error:  # the message names the missing package
        raise DataError(f"{scheme}://: the file cannot be fetched: {error}.") from None
    return fsspec.open(address, "rb")
