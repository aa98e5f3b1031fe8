"""Atomic writing of release folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.engine.cells import WrittenParts
from hushtable.errors import ReleaseError
from hushtable.files.rows import write_parquet
from hushtable.files.writing import Claim, Scratch, sync, write_failures_as
from hushtable.release.statement import (
    SEEDED_MARK,
    STATEMENT,
    STATEMENT_FOR_PEOPLE,
    Statement,
    TableFile,
    sha256_of,
)
from hushtable.schema import Schema


class ReleaseWriter:
    """Writer of a release folder that appears complete or not at all.

    The writer puts all files into a hidden folder and renames it last. Only its owner can read the
    hidden folder, and it contains only what is to be published. If the process is killed, the next
    release of that name removes it. The writer claims the name first, so that only one of several
    runs for one name is charged.
    """

    def __init__(self, folder: str | Path, *, seeded: bool = False) -> None:
        self.folder = Path(folder)
        self._mark = f"{SEEDED_MARK}-" if seeded else ""
        self._require_new()
        failed = f"cannot write beside {str(self.folder)!r}"
        with write_failures_as(ReleaseError, failed), ExitStack() as undo:
            claim = Claim(self.folder)
            undo.callback(claim.close)
            self._require_new()  # another run may have finished just before the claim
            scratch = Scratch(self.folder.parent, f".{self.folder.name}-part-")
            undo.callback(scratch.close)
            self._scratch = scratch.folder
            self._part = scratch.folder / "release"
            self._part.mkdir()
            self._open = undo.pop_all()

    def _require_new(self) -> None:
        if self.folder.exists() or self.folder.is_symlink():
            raise ReleaseError(
                f"{str(self.folder)!r} exists and was not changed; choose another folder."
            )

    def __enter__(self) -> ReleaseWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add_tables(
        self, tables: Mapping[str, pa.Table | WrittenParts], schema: Schema
    ) -> dict[str, TableFile]:
        """Write the tables: a single one as ``data.parquet``, several to ``data/``.

        With seeded noise, file names start with ``seeded-``. A table that executors write is a
        folder of that name.
        """
        files = {}
        for name, table in tables.items():
            place = "data" if list(tables) == ["data"] else f"data/{name}"
            file = f"{self._mark}{place}.parquet"
            path = self._part / file
            with write_failures_as(ReleaseError, f"cannot write {file}"):
                path.parent.mkdir(exist_ok=True)
                if isinstance(table, WrittenParts):
                    files[name] = self._written_by_executors(table, path, file)
                    continue
                write_parquet(table, path, schema)
            files[name] = TableFile(file=file, sha256=sha256_of(path), rows=table.num_rows)
        return files

    def _written_by_executors(self, table: WrittenParts, folder: Path, file: str) -> TableFile:
        """Have executors write a table, and move its files into the release.

        Executors do not know the folder of the release, so nothing else that they write is
        published.
        """
        staged = self._scratch / f"by-executors-{folder.stem}"
        names = table.write(staged)
        folder.mkdir()
        for name in names:
            (staged / name).rename(folder / name)
        rows = sum(pq.read_metadata(folder / name).num_rows for name in names)
        parts = {name: sha256_of(folder / name) for name in names}
        unsigned = TableFile(file=file, sha256="0" * 64, rows=rows, parts=parts)
        return unsigned.model_copy(update={"sha256": unsigned.digest_of_parts()})

    def add_attachments(self, attachments: Mapping[str, str]) -> dict[str, str]:
        """Write drawings and texts next to the tables."""
        for file, text in attachments.items():
            with write_failures_as(ReleaseError, f"cannot write {file}"):
                (self._part / file).write_text(text, encoding="utf-8", newline="")
        return {file: sha256_of(self._part / file) for file in attachments}

    def add_statement(self, statement: Statement) -> None:
        """Write the statement, as JSON and as text."""
        text = json.dumps(
            statement.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False
        )
        with write_failures_as(ReleaseError, "cannot write the statement"):
            (self._part / STATEMENT).write_text(text + "\n", encoding="utf-8", newline="")
            (self._part / STATEMENT_FOR_PEOPLE).write_text(
                statement.for_people(), encoding="utf-8", newline=""
            )

    def make_durable(self) -> None:
        """Flush all files to disk, readable by all users and writable by the owner."""
        with write_failures_as(ReleaseError, f"cannot write {str(self.folder)!r}"):
            for path in (*self._part.rglob("*"), self._part):
                path.chmod(0o755 if path.is_dir() else 0o644)
                sync(path)

    def move_into_place(self) -> None:
        """Rename the complete folder to its final name."""
        with write_failures_as(ReleaseError, f"cannot finish {str(self.folder)!r}"):
            self._part.rename(self.folder)
        with suppress(OSError):  # the folder is complete; only a power failure could undo it
            sync(self.folder.parent)
