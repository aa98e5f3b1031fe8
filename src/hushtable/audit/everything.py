"""Everything observable of a release as features: values, order, texts, files and metadata.

`hushtable.audit.differences` tests each feature for a certain difference between two inputs. Tables
are read in the form in which they are written (`hushtable.files.rows`), so that details
that never reach a file cause no alarm. Folders are also compared byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hushtable.audit.features import Features, features, read_value
from hushtable.audit.hearing import capture_output
from hushtable.engine.output_guard import silenced
from hushtable.files.rows import without_metadata
from hushtable.methods.base import Released
from hushtable.schema import Schema

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

MOST_NUMBERS = 300
"""Numbers of one text that become features; its digest covers the whole text."""

MOST_PLACES = 300
"""Rows of one table whose positions become features; a digest covers all rows."""

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
    if hasattr(os, "listxattr"):  # not available on other systems
        for attribute in os.listxattr(file, follow_symlinks=False):
            value = os.getxattr(file, attribute, follow_symlinks=False)
            found[f"{attribute} of {name}={_digest(value)}"] = 1.0


def seen_of(act: Callable[[], Features]) -> Features:
    """Return the features of an action, including what it prints and how it fails.

    Output of other threads is not captured, and output that is silenced in a release is silenced
    here.
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
