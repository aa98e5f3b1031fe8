"""Folders of the workbench: projects, and the tables that may be read.

A project is a folder of plain files that the command line also reads::

    PROJECT/
      project.json     location of the private table, and the plan
      schema.yaml      public description of the table
      history/         earlier versions of the schema, for undo
      table.ledger     privacy budget spent so far
      releases/        release folders
      reports/         comparisons with the private table: internal
      dry-runs/        reports of dry runs on a surrogate table, without private rows
      jobs/            running and finished jobs, with their results

The workbench reads tables only in allowed folders. It writes only to projects, except for uploads,
which go to a temporary folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from hushtable.engine.sources.header import ENDINGS, is_address
from hushtable.engine.sources.urls import DATABASES, name_at
from hushtable.errors import HushtableError, ParameterError, ReleaseError
from hushtable.files.writing import replace_own, spill_folder
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import Quote
from hushtable.release.release import STATEMENT, Release
from hushtable.schema import Schema

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TABLES = ENDINGS
_MAX_LISTED = 200
_MAX_DEPTH = 3


def require_name(name: str, what: str) -> str:
    """Return a name if it is valid for a new folder or file; raise an error otherwise."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            f"{what} is {name!r}; use 1 to 64 letters without accents, digits, dots, dashes and "
            "underscores, starting with a letter or digit."
        )
    return name


def fingerprint(schema: Schema) -> str:
    """Return a digest of the complete schema, including parts that do not identify the table."""
    return sha256(json.dumps(schema.to_dict(), sort_keys=True, default=str).encode()).hexdigest()


def file_of(data: str) -> Path | None:
    """Return the file of a table, which may be in a database; None for a database server.

    Examples
    --------
    >>> file_of("sqlite:////data/people.db?table=visits").name
    'people.db'
    """
    if not is_address(data):
        return Path(data)
    parts = urlsplit(data)
    return None if "postgres" in parts.scheme else Path(unquote(parts.path.removeprefix("/")))


@dataclass(frozen=True)
class Project:
    """The files of one project."""

    folder: Path
    # Folders whose tables may be read (None: all), since a copied project may refer to others.
    readable: tuple[Path, ...] | None = None

    @property
    def name(self) -> str:
        """Name of the project's folder."""
        return self.folder.name

    @property
    def schema_path(self) -> Path:
        """Path of the schema."""
        return self.folder / "schema.yaml"

    @property
    def ledger_path(self) -> Path:
        """Path of the ledger."""
        return self.folder / "table.ledger"

    def subfolder(self, name: str) -> Path:
        """Return a subfolder, created with access for its owner only if it does not exist."""
        path = self.folder / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def made(self, subfolder: str, name: str) -> Path:
        """Return the path of an item in a subfolder; raise an error if it is a link."""
        top = (self.folder / subfolder).resolve()
        path = top / require_name(name, f"the name in {subfolder}")
        if path.resolve() != path:
            raise ParameterError(f"{name!r} in {subfolder} is a link, which is not allowed.")
        return path

    # --- settings ---------------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """Saved settings; empty if the file cannot be read."""
        try:
            found = json.loads((self.folder / "project.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def choose(self, **chosen: Any) -> None:
        """Save settings in addition to earlier ones."""
        content = self.settings | chosen
        replace_own(self.folder / "project.json", json.dumps(content, indent=2) + "\n")

    @property
    def data(self) -> str | None:
        """Path of the private table, if one was chosen, exists and may be read; otherwise None."""
        path = self.settings.get("data")
        if not isinstance(path, str):
            return None
        if (file := file_of(path)) is None:
            return path
        inside = self.readable is None or _is_inside(file.resolve(), self.readable)
        return path if inside and file.is_file() else None

    def require_data(self) -> str:
        """Return the path of the private table; raise an error if it is not available."""
        path = self.data
        if path is None:
            raise ParameterError(
                "no table is available: none was chosen, it was deleted (uploads are deleted when "
                "the workbench stops), or it is outside of the allowed folders. Choose one under "
                "Data."
            )
        return path

    def schema(self) -> Schema:
        """Read the schema."""
        return Schema.load(self.schema_path)

    def schema_or_none(self) -> Schema | None:
        """Read the schema; None if it is missing or invalid."""
        try:
            return self.schema()
        except HushtableError:
            return None

    def ledger(self) -> Ledger | None:
        """Open the ledger; None if there is none."""
        return Ledger.open(self.ledger_path) if self.ledger_path.exists() else None

    def quote(self, promised: Sequence[Guarantee], schema: Schema) -> tuple[Quote, bool] | None:
        """Return the charge that the ledger would record, and a flag; None without a ledger.

        The flag is True if the schema has changed since the ledger was created, so that a
        person must first confirm that it describes the same people.
        """
        book = self.ledger()
        if book is None:
            return None
        plain = book.quote(promised, schema=schema)
        if plain.fits:
            return plain, False
        said = book.quote(promised, schema=schema, same_people="to be confirmed")
        return (said, True) if said.problems != plain.problems else (plain, False)

    # --- releases and reports ---------------------------------------------------------------------

    def releases(self) -> list[str]:
        """Return the names of the releases, newest last."""
        return _by_age(p.parent for p in (self.folder / "releases").glob(f"*/{STATEMENT}"))

    def release(self, name: str) -> Release:
        """Open a release of this project."""
        return Release.load(self.release_folder(name))

    def release_folder(self, name: str) -> Path:
        """Return the folder of a release of this project."""
        path = self.made("releases", name)
        if not (path / STATEMENT).is_file():
            raise ReleaseError(f"this project has no release {name!r}.")
        return path

    def reports(self) -> list[str]:
        """Return the names of the reports, newest last."""
        return _by_age((self.folder / "reports").glob("*.html"))


def _is_inside(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _by_age(paths: Iterator[Path]) -> list[str]:
    return [path.name for path in sorted(paths, key=lambda path: path.stat().st_mtime)]


class Workbench:
    """The folder of projects, and the folders of tables that may be read.

    Parameters
    ----------
    folder : path
        Folder of projects; created if it does not exist.
    data_folders : sequence of path
        Other folders with private tables.
    """

    def __init__(self, folder: str | Path, *, data_folders: Sequence[str | Path] = ()) -> None:
        self.folder = Path(folder).resolve()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError(f"cannot use {str(folder)!r}: {error.strerror}.") from None
        self.data_folders = [self.folder, *(Path(path).resolve() for path in data_folders)]
        missing = [str(path) for path in self.data_folders if not path.is_dir()]
        if missing:
            raise ParameterError([f"the folder {path!r} does not exist." for path in missing])
        self._uploads: Path | None = None

    def projects(self) -> list[Project]:
        """Return the projects, sorted by name."""
        names = sorted(path.name for path in self.folder.iterdir())
        return [self.project(name) for name in names if self._is_project(name)]

    def _is_project(self, name: str) -> bool:
        path = self.folder / name
        return (
            _NAME.fullmatch(name) is not None
            and (path / "project.json").is_file()
            and _is_inside(path.resolve(), self.data_folders)
        )

    def create(self, name: str) -> Project:
        """Create a new project."""
        path = self.folder / require_name(name, "the project name")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if (path / "project.json").exists() or not path.is_dir():
                raise ParameterError(f"{name!r} already exists; choose another name.") from None
        except OSError as error:
            raise ParameterError(f"cannot create {name!r}: {error.strerror}.") from None
        made = Project(path)
        for subfolder in ("releases", "reports"):  # commands write to these folders
            made.subfolder(subfolder)
        made.choose()
        return self.project(name)

    def project(self, name: str) -> Project:
        """Open a project."""
        if not self._is_project(name):
            raise ParameterError(f"the workbench has no project {name!r}.")
        return Project(self.folder / name, self._readable)

    @property
    def _readable(self) -> tuple[Path, ...]:
        return (*self.data_folders, *([self._uploads] if self._uploads else []))

    # --- private tables ---------------------------------------------------------------------------

    def tables(self) -> list[Path]:
        """Return up to 200 tables that may be chosen, without files that the workbench wrote."""
        found: list[Path] = []
        for top in dict.fromkeys(self.data_folders):
            for folder, inside, files in os.walk(top):
                here = Path(folder)
                depth = len(here.relative_to(top).parts)
                inside[:] = sorted(
                    name for name in inside
                    if depth < _MAX_DEPTH and not name.startswith(".")
                    and name not in {"releases", "dry-runs", "jobs", "history", "reports"}
                )  # fmt: skip
                found += [here / name for name in sorted(files) if name.endswith(_TABLES)]
        return list(dict.fromkeys(found))[:_MAX_LISTED]

    def require_table(self, given: str) -> str:
        """Return the path or address of a table, if it is in an allowed folder or on a server."""
        if is_address(given):
            return self._require_database(given)
        path = self.require_inside(given)
        if not path.is_file() or not path.name.endswith(_TABLES):
            raise ParameterError(
                f"{given!r} is not a supported table; choose a file that ends in "
                f"{', '.join(_TABLES)}, or a database such as sqlite:///people.db?table=visits."
            )
        return str(path)

    def _require_database(self, given: str) -> str:
        parts, problems = urlsplit(given), []
        if parts.scheme not in DATABASES:
            problems.append(f"the address must start with {', '.join(DATABASES)} and ://.")
        if not name_at(given) or {name for name, _ in parse_qsl(parts.query)} != {"table"}:
            problems.append("the address must end in ?table= and the name of a table or view.")
        if parts.password is not None:
            problems.append("the address contains a password; store it in ~/.pgpass instead.")
        ParameterError.raise_if_any(problems)
        if (file := file_of(given)) is None:
            return given
        path = quote(str(self.require_inside(str(file))))
        return f"{parts.scheme}:///{path}?{parts.query}"

    def require_inside(self, given: str) -> Path:
        """Return the resolved path of a file; raise an error if it is not in an allowed folder."""
        try:
            path = Path(given).expanduser()
            path = (path if path.is_absolute() else self.folder / path).resolve()
        except (OSError, ValueError, RuntimeError):
            raise ParameterError(f"{given!r} is not a path.") from None
        if not _is_inside(path, self._readable):
            listed = ", ".join(str(folder) for folder in self.data_folders)
            raise ParameterError(
                f"{given!r} is outside of the allowed folders: {listed}. To allow another, start "
                "the workbench with --data FOLDER."
            )
        return path

    def upload_place(self, name: str) -> Path:
        """Return a path for an upload, private to the user and deleted when the program ends.

        Special characters in the name are replaced; path separators are refused.
        """
        if not {"/", "\\"} & set(name):
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).replace("-.", ".")
        require_name(name, "the file name")
        if not name.endswith(_TABLES):
            raise ParameterError(f"the file name is {name!r}; it must end in {', '.join(_TABLES)}.")
        own = Path(spill_folder()).resolve()
        self._uploads = own.parent
        return own / name


def next_step(project: Project) -> str:
    """Return the name of the screen on which the user continues a project."""
    if project.data is None and not project.releases():
        return "data"
    schema = project.schema_or_none()
    if schema is None or schema.unconfirmed:
        return "schema"
    if not project.ledger_path.exists():
        return "ledger"
    if not isinstance(project.settings.get("method"), str):
        return "plan"
    return "publish" if not project.releases() else "report"


def done_steps(project: Project) -> Mapping[str, bool]:
    """Return which screens are complete."""
    schema = project.schema_or_none()
    return {
        "data": project.data is not None,
        "schema": schema is not None and not schema.unconfirmed,
        "ledger": project.ledger_path.exists(),
        "plan": isinstance(project.settings.get("method"), str),
        "dry-run": any((project.folder / "dry-runs").glob("*/report.html")),
        "publish": bool(project.releases()),
        "report": bool(project.reports()),
    }
