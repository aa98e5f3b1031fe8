"""Observable features of a release: a flat mapping of names to numbers.

A row of a published table is identified by its values in the schema's columns; its multiplicity and
its other numbers are features. A table without any of these columns is read by position. Settings
are features named by their path. A text becomes a feature ``path=text``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.engine.output_guard import silenced
from hushtable.errors import HushtableWarning
from hushtable.files.rows import without_metadata
from hushtable.methods.base import Released
from hushtable.schema import Schema

Features = dict[str, float]

_WHOLE = 2**53
"""Largest integer up to which floats represent all integers."""

_HUGE = 2**1000

_PROSE = {"notes"}  # sentences derived from other published values
_NAMES = {"column", "view"}  # numbers that identify rows, like the schema's columns


def features(released: Released, attributes: Collection[str]) -> Features:
    """Return the features of a release; `attributes` are the columns that identify rows.

    Examples
    --------
    >>> table = pa.table({"sex": ["F", "M"], "count": [3, 1]})
    >>> features(Released({"data": table}, {"total": 4}), {"sex"})  # doctest: +NORMALIZE_WHITESPACE
    {'data rows': 2.0, 'data[F]': 1.0, 'data[F].count': 3.0, 'data[M]': 1.0, 'data[M].count': 1.0,
     'data sum of count': 4.0, 'total': 4.0}
    """
    found: Features = {}
    for name, table in released.tables.items():
        _read_table(name, table, attributes, found)
    for name, value in released.settings.items():
        if name not in _PROSE:
            _read_setting(name, value, found)
    return found


def _read_table(name: str, table: pa.Table, attributes: Collection[str], found: Features) -> None:
    columns = table.to_pydict()
    keys = [column for column in columns if column in attributes]
    keys += [column for column in columns if keys and column in _NAMES]
    found[f"{name} rows"] = float(table.num_rows)
    for row in range(table.num_rows):
        shown = ",".join(str(columns[key][row]) for key in keys) if keys else str(row)
        place = f"{name}[{shown}]"
        if keys:
            found[place] = found.get(place, 0.0) + 1.0
        for column, values in columns.items():
            if column not in keys:
                read_value(f"{place}.{column}", values[row], found)
    for column, values in columns.items():
        if column not in keys and pa.types.is_integer(table.schema.field(column).type):
            found[f"{name} sum of {column}"] = as_float(sum(v for v in values if v is not None))


def read_value(path: str, value: Any, found: Features) -> None:
    """Add the features of a single value.

    Examples
    --------
    >>> found: Features = {}
    >>> read_value("total", 2**60 + 1, found)
    >>> read_value("made", "today", found)
    >>> list(found)
    ['total=1152921504606846977', 'total, last bits', 'total', 'made=today']
    """
    is_whole = isinstance(value, (int, Integral)) and not isinstance(value, bool)
    if not is_whole and (not isinstance(value, float) or math.isnan(value)):
        found[f"{path}={value}"] = 1.0
        return
    if is_whole and abs(value) > _WHOLE:
        # A float cannot represent all digits.
        found[f"{path}={value}"] = 1.0
        found[f"{path}, last bits"] = float(value % _WHOLE)
    found[path] = found.get(path, 0.0) + as_float(value)
    if isinstance(value, float) and math.isfinite(value):
        # The set of reachable doubles reveals the starting point of a float sampler.
        found[f"{path}, lowest bit"] = _lowest_bit(value)


def as_float(value: Any) -> float:
    """Convert a number of any size to a float."""
    if isinstance(value, (int, Integral)):
        return float(max(-_HUGE, min(int(value), _HUGE)))
    return float(value)


def _lowest_bit(value: float) -> float:
    """Return the exponent of the lowest set bit, 0 for 0.

    Examples
    --------
    >>> _lowest_bit(12.0), _lowest_bit(0.75), _lowest_bit(0.1)
    (2.0, -2.0, -55.0)
    """
    numerator, denominator = value.as_integer_ratio()
    if denominator > 1:
        return float(1 - denominator.bit_length())
    return float((numerator & -numerator).bit_length() - 1) if numerator else 0.0


def _read_setting(path: str, value: Any, found: Features) -> None:
    if isinstance(value, Mapping):
        for name, part in value.items():
            _read_setting(f"{path}.{name}", part, found)
    elif isinstance(value, list):
        found[f"length of {path}"] = float(len(value))
        if value and all(type(part) is int for part in value):
            found[f"largest of {path}"] = as_float(max(value))
            found[f"sum of {path}"] = as_float(sum(value))
        elif value:
            found[f"{path}={json.dumps(value)}"] = 1.0
        for place, part in enumerate(value):
            _read_setting(f"{path}[{place}]", part, found)
    else:
        read_value(path, value, found)


# Capture of what a run prints or warns, in its own thread and the threads that it starts.
#
# An audit may share its process with a server, a notebook or a second audit, whose output must go
# where it always goes. So the standard streams are replaced while any capture is active, and each
# thread writes to its own capture or to the original stream.

_listening: dict[int, io.StringIO] = {}
"""By thread ID: the buffer of its captured output."""


class _Stream:
    """A standard stream that redirects captured threads to their buffers."""

    def __init__(self, real: Any) -> None:
        self.real = io.StringIO() if real is None else real

    def __getattr__(self, name: str) -> Any:
        return getattr(_listening.get(threading.get_ident(), self.real), name)


class _OutputCapture:
    """Replacement of the standard streams and of thread starting, while any capture is active."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_listening = 0
        self._before: tuple[Any, Any, Any, Any] = (None, None, None, None)
        self._streams: tuple[Any, Any] = (None, None)
        self._shown: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_listening == 0:
                self._before = (sys.stdout, sys.stderr, threading.Thread.start,
                                warnings.showwarning)  # fmt: skip
                self._streams = _Stream(sys.stdout), _Stream(sys.stderr)
                sys.stdout, sys.stderr = self._streams
                threading.Thread.start = _starting(self._before[2])  # type: ignore[assignment, method-assign]
                warnings.showwarning = self._shown = _warned(self._before[3])
                warnings.filters.insert(0, _ALWAYS)  # type: ignore[attr-defined] # a list
            self._n_listening += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_listening -= 1
            if self._n_listening:
                return
            # Keep a stream that other code has installed in the meantime.
            if sys.stdout is self._streams[0]:
                sys.stdout = self._before[0]
            if sys.stderr is self._streams[1]:
                sys.stderr = self._before[1]
            threading.Thread.start = self._before[2]  # type: ignore[method-assign]
            if warnings.showwarning is self._shown:
                warnings.showwarning = self._before[3]
            with contextlib.suppress(ValueError):
                warnings.filters.remove(_ALWAYS)  # type: ignore[attr-defined] # a list


_ALWAYS = ("always", None, HushtableWarning, None, 0)
"""Warning filter: by default, Python shows a repeated warning only once per line."""


def _warned(show: Callable[..., None]) -> Callable[..., None]:
    """Return a function that writes warnings of captured threads to their buffers."""

    def shown(message: Any, category: Any, *given: Any, **named: Any) -> None:
        heard = _listening.get(threading.get_ident())
        if heard is None:
            show(message, category, *given, **named)
        else:
            heard.write(f"{category.__name__}: {message}\n")

    return shown


_EARS = _OutputCapture()


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Return a function that starts threads and captures the children of captured threads."""

    def started(thread: threading.Thread) -> None:
        heard = _listening.get(threading.get_ident())
        if heard is not None:
            run = thread.run

            def listened() -> None:
                with _kept_in(heard):
                    run()

            thread.run = listened  # type: ignore[method-assign]
        start(thread)

    return started


@contextlib.contextmanager
def _kept_in(heard: io.StringIO) -> Iterator[None]:
    mine = threading.get_ident()
    before = _listening.get(mine)
    _listening[mine] = heard
    try:
        yield
    finally:
        if before is None:
            del _listening[mine]
        else:
            _listening[mine] = before


@contextlib.contextmanager
def capture_output() -> Iterator[io.StringIO]:
    r"""Capture what this thread and the threads that it starts print, until the block ends.

    Examples
    --------
    >>> with capture_output() as heard:
    ...     print("read 12 rows")
    >>> heard.getvalue()
    'read 12 rows\n'
    """
    heard = io.StringIO()
    with _EARS, _kept_in(heard):
        yield heard


# Everything observable of a release as features: values, order, texts, files and metadata.
#
# `hushtable.audit.differences` tests each feature for a certain difference between two inputs.
# Tables are read in the form in which they are written (`hushtable.files.rows`), so that details
# that never reach a file cause no alarm. Folders are also compared byte by byte.

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

MOST_NUMBERS = 300
"""Limit on the numbers in a text that become features; a digest covers the whole text."""

MOST_PLACES = 300
"""Maximum number of rows of a table, or entries of a JSON list, whose positions become features.

A digest covers all rows.
"""

JUST_NOW = 3600.0
"""Age in seconds above which a file's modification time must have been set explicitly."""


def everything(released: Released, schema: Schema) -> Features:
    """Return the features of a release before it is written: rows, order, settings and texts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> content = {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 9}}}
    >>> released = Released({"data": pa.table({"x": [7, 3]})}, {"notes": ["12 rows were read."]})
    >>> found = everything(released, Schema.from_dict(content))
    >>> found["place of data[3]"], found["notes[0], number 1"]
    (1.0, 12.0)
    """
    found = features(released, schema.attributes)
    for name, table in released.tables.items():
        written = without_metadata(table, schema)
        found[f"{name}: {_types(written)}"] = 1.0
        # A digest of all values in order detects what no other feature does.
        found[f"all of {name}={_digest(repr(written.to_pydict()).encode())}"] = 1.0
        _read_order(name, written, schema, found)
    settings = json.dumps(released.settings, default=repr)
    found[f"all settings, in their order={_digest(settings.encode())}"] = 1.0
    for place, note in enumerate(released.settings.get("notes", ())):
        _read_text(f"notes[{place}]", str(note), found)
    for place, warning in enumerate(released.warnings):
        _read_text(f"warnings[{place}]", warning, found)
    for file, text in released.attachments.items():
        _read_text(file, text, found)
    return found


def folder(path: Path) -> Features:
    """Return the features of a folder: files, sizes, bytes and Parquet metadata."""
    found: Features = {}
    _read_entry("the folder", path, found)
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        _read_entry(name, file, found)
        if file.is_symlink() or file.is_dir():
            continue
        content = file.read_bytes()
        found[f"size of {name}"] = float(len(content))
        found[f"bytes of {name}={_digest(content)}"] = 1.0
        if file.suffix == ".parquet":
            _read_parquet(name, file, found)
        elif file.suffix == ".json":
            _read_json(name, json.loads(content), found)
        else:
            _read_text(name, content.decode("utf-8", "replace"), found)
    return found


def _read_entry(name: str, file: Path, found: Features) -> None:
    """Add the metadata of a file, folder or link in the file system."""
    about = file.lstat()
    found[f"mode of {name}"] = float(about.st_mode)
    if abs(time.time() - about.st_mtime) > JUST_NOW:
        found[f"time of {name}"] = float(about.st_mtime)
    if file.is_symlink():
        _read_text(f"where {name} leads", str(file.readlink()), found)
    if hasattr(os, "listxattr"):  # available only on Linux
        for attribute in os.listxattr(file, follow_symlinks=False):
            value = os.getxattr(file, attribute, follow_symlinks=False)
            found[f"{attribute} of {name}={_digest(value)}"] = 1.0


def seen_of(act: Callable[[], Features]) -> Features:
    """Return the features of an action, including what it prints and how it fails.

    Output of threads that the action did not start is not captured. Output that is silenced in a
    release is silenced here.
    """
    with capture_output() as printed:
        try:
            found = silenced(act)()
        except Exception as error:
            found = refused(error)
    if printed.getvalue():
        _read_text("what is printed", printed.getvalue(), found)
    return found


def refused(error: Exception) -> Features:
    """Return the features of an error: its type, message, notes and cause."""
    found: Features = {f"refused: {type(error).__name__}": 1.0}
    _read_text("refusal", str(error), found)
    for place, note in enumerate(getattr(error, "__notes__", ())):
        _read_text(f"note {place + 1} of the refusal", note, found)
    if error.__cause__ is not None:
        _read_text("cause of the refusal", str(error.__cause__), found)
    return found


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _types(table: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in table.schema)


def _read_order(name: str, table: Any, schema: Schema, found: Features) -> None:
    keys = [column for column in table.column_names if column in schema.attributes]
    if not keys:
        return
    rows = list(zip(*(table.column(key).to_pylist() for key in keys), strict=True))
    shown = [",".join(map(str, row)) for row in rows]
    found[f"order of {name}={_digest(json.dumps(shown).encode())}"] = 1.0
    for place, row in enumerate(shown[:MOST_PLACES]):
        found.setdefault(f"place of {name}[{row}]", float(place))


def _read_text(name: str, text: str, found: Features) -> None:
    found[f"length of {name}"] = float(len(text))
    found[f"text of {name}={_digest(text.encode())}"] = 1.0
    # Text without numbers detects sentences that are present only sometimes.
    found[f"words of {name}={_digest(_NUMBER.sub('', text).encode())}"] = 1.0
    for place, number in enumerate(_NUMBER.findall(text)[:MOST_NUMBERS]):
        found[f"{name}, number {place + 1}"] = float(number)


def _read_json(path: str, value: Any, found: Features) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            _read_json(f"{path}.{name}", part, found)
    elif isinstance(value, list):
        found[f"length of {path}"] = float(len(value))
        for place, part in enumerate(value[:MOST_PLACES]):
            _read_json(f"{path}[{place}]", part, found)
    elif isinstance(value, str):
        _read_text(path, value, found)
    else:
        read_value(path, value, found)


def _read_parquet(name: str, file: Path, found: Features) -> None:
    """Add the metadata of a Parquet file."""
    about = pq.read_metadata(file)
    found[f"{name}: rows"] = float(about.num_rows)
    found[f"{name}: row groups"] = float(about.num_row_groups)
    kept = {key.decode(): _digest(value) for key, value in (about.metadata or {}).items()}
    found[f"{name}: metadata {kept}"] = 1.0
    for group in range(about.num_row_groups):
        for number in range(about.num_columns):
            column = about.row_group(group).column(number)
            place = f"{name}[{group}].{column.path_in_schema}"
            found[f"{place}: encodings {column.encodings}"] = 1.0
            found[f"{place}: bytes"] = float(column.total_compressed_size)
            if column.has_dictionary_page:
                found[f"{place}: dictionary, bytes"] = float(
                    column.data_page_offset - (column.dictionary_page_offset or 0)
                )
            if column.is_stats_set:
                told = column.statistics
                found[f"{place}: from {told.min!r}"] = found[f"{place}: to {told.max!r}"] = 1.0
                found[f"{place}: missing"] = float(told.null_count or 0)
