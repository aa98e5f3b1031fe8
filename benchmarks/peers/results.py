"""File of finished runs, replaced atomically."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Results:
    """Entries of finished runs in a JSON file.

    A run is identified by its table, epsilon, method and seed. Several processes may add to one
    file: each locks it and reads it again before it writes. The file is created by the first `add`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries in the order of their keys."""
        found = self._read()
        return (found[key] for key in sorted(found))

    def __contains__(self, run: Mapping[str, Any]) -> bool:
        return _key(run) in self._read()

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an entry, or replace the entry of the same run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = {**self._read(), _key(entry): dict(entry)}
            made = self.path.with_suffix(".new")
            made.write_text(json.dumps(found, indent=1))
            made.replace(self.path)

    def _read(self) -> dict[str, Entry]:
        found: dict[str, Entry] = json.loads(self.path.read_text()) if self.path.exists() else {}
        return found


def _key(run: Mapping[str, Any]) -> str:
    return f"{run['table']} {run['epsilon']} {run['method']} {run['seed']}"
