"""A folder of projects, and the tables that may be read: nothing outside of them is touched.

A project is a folder of plain files that the command line understands as it is::

    PROJECT/
      project.json     where the private table is, and what is planned
      schema.yaml      what is public about it
      history/         earlier versions of the schema, for undo
      table.ledger     what has been spent
      releases/        release folders
      reports/         comparisons with the private table: internal
      rehearsals/      the same on a stand-in: no private row is in them
      jobs/            what runs or ran, and how it ended
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

from hushtable.engine.header import ENDINGS
from hushtable.errors import HushtableError, ParameterError, ReleaseError
from hushtable.files.scratch import spill_folder
from hushtable.files.whole_file import replace_own
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.ledger_records import Quote
from hushtable.release import STATEMENT, Release
from hushtable.schema import Schema

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TABLES = ENDINGS
_MAX_LISTED = 200
_MAX_DEPTH = 3


def require_name(name: str, what: str) -> str:
    """Refuse a name that is not that of a plain new folder or file."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            f"{what} is {name!r}; use 1 to 64 letters without accents, digits, dots, dashes and "
            "underscores, beginning with a letter or digit."
        )
    return name


def fingerprint(schema: Schema) -> str:
    """Give a digest of all that a schema says: of more than what tells its table from another."""
    return sha256(json.dumps(schema.to_dict(), sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Project:
    """Know the files of one project.

    Parameters
    ----------
    folder : Path
        Where they are.
    readable : tuple of Path, optional
        Folders whose tables may be read: a project that was made elsewhere may name another.
    """

    folder: Path
    readable: tuple[Path, ...] | None = None

    @property
    def name(self) -> str:
        """What it is called: the name of its folder."""
        return self.folder.name

    @property
    def schema_path(self) -> Path:
        """The schema's file."""
        return self.folder / "schema.yaml"

    @property
    def ledger_path(self) -> Path:
        """The ledger's file."""
        return self.folder / "table.ledger"

    def room(self, name: str) -> Path:
        """Give one of the project's folders, made for its owner alone where it is not there."""
        path = self.folder / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def made(self, room: str, name: str) -> Path:
        """Give the path of something in one of the project's folders; no link leads out of it."""
        top = (self.folder / room).resolve()
        path = top / require_name(name, f"the name in {room}")
        if path.resolve() != path:
            raise ParameterError(f"{name!r} in {room} is a link to somewhere else.")
        return path

    # --- what was chosen --------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """What was chosen so far; a file that cannot be read counts as nothing."""
        try:
            found = json.loads((self.folder / "project.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def choose(self, **chosen: Any) -> None:
        """Remember choices beside earlier ones."""
        content = self.settings | chosen
        replace_own(self.folder / "project.json", json.dumps(content, indent=2) + "\n")

    @property
    def data(self) -> str | None:
        """The path of the private table, if one was chosen, is there and may be read."""
        path = self.settings.get("data")
        if not isinstance(path, str) or not Path(path).is_file():
            return None
        inside = self.readable is None or _is_inside(Path(path).resolve(), self.readable)
        return path if inside else None

    def require_data(self) -> str:
        """Give the path of the private table, or say that it is missing."""
        path = self.data
        if path is None:
            raise ParameterError(
                "no table is chosen, or it is gone (an upload goes with the workbench that took "
                "it), or lies outside of the folders that this workbench was started for; choose "
                "it under Data."
            )
        return path

    def schema(self) -> Schema:
        """Read the schema."""
        return Schema.load(self.schema_path)

    def schema_or_none(self) -> Schema | None:
        """Read the schema, if there is a valid one."""
        try:
            return self.schema()
        except HushtableError:
            return None

    def ledger(self) -> Ledger | None:
        """Open the ledger, if there is one."""
        return Ledger.open(self.ledger_path) if self.ledger_path.exists() else None

    def quote(self, promised: Sequence[Guarantee], schema: Schema) -> tuple[Quote, bool] | None:
        """Say what the ledger would be charged, if there is one.

        And whether a person must say first that the schema is about the same people: it was changed
        since the ledger was started.
        """
        book = self.ledger()
        if book is None:
            return None
        plain = book.quote(promised, schema=schema)
        if plain.fits:
            return plain, False
        said = book.quote(promised, schema=schema, same_people="if it is said")
        return (said, True) if said.problems != plain.problems else (plain, False)

    # --- what was made ----------------------------------------------------------------------------

    def releases(self) -> list[str]:
        """Name the releases, newest last."""
        return _by_age(p.parent for p in (self.folder / "releases").glob(f"*/{STATEMENT}"))

    def release(self, name: str) -> Release:
        """Open a release of this project."""
        return Release.load(self.release_folder(name))

    def release_folder(self, name: str) -> Path:
        """Give the folder of a release of this project."""
        path = self.made("releases", name)
        if not (path / STATEMENT).is_file():
            raise ReleaseError(f"there is no release {name!r} in this project.")
        return path

    def reports(self) -> list[str]:
        """Name the reports, newest last."""
        return _by_age((self.folder / "reports").glob("*.html"))


def _is_inside(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _by_age(paths: Iterator[Path]) -> list[str]:
    return [path.name for path in sorted(paths, key=lambda path: path.stat().st_mtime)]


class Workbench:
    """Hold the folder of projects and say which tables may be read.

    Parameters
    ----------
    folder : path
        Where projects are; it is made if it is not there.
    data_folders : sequence of path
        Folders outside of it that hold private tables.
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
            raise ParameterError([f"there is no folder {path!r}." for path in missing])
        self._uploads: Path | None = None

    def projects(self) -> list[Project]:
        """Give the projects, by name."""
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
        """Make a new project."""
        path = self.folder / require_name(name, "the project's name")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if (path / "project.json").exists() or not path.is_dir():
                raise ParameterError(f"{name!r} exists; choose another name.") from None
        except OSError as error:
            raise ParameterError(f"cannot make {name!r}: {error.strerror}.") from None
        made = Project(path)
        for room in ("releases", "reports"):  # where commands write to
            made.room(room)
        made.choose()
        return self.project(name)

    def project(self, name: str) -> Project:
        """Open a project."""
        if not self._is_project(name):
            raise ParameterError(f"there is no project {name!r} here.")
        return Project(self.folder / name, self._readable)

    @property
    def _readable(self) -> tuple[Path, ...]:
        return (*self.data_folders, *([self._uploads] if self._uploads else []))

    # --- private tables ---------------------------------------------------------------------------

    def tables(self) -> list[Path]:
        """List tables that may be chosen; what the workbench wrote itself is left out."""
        found: list[Path] = []
        for top in dict.fromkeys(self.data_folders):
            for folder, inside, files in os.walk(top):
                here = Path(folder)
                depth = len(here.relative_to(top).parts)
                inside[:] = sorted(
                    name for name in inside
                    if depth < _MAX_DEPTH and not name.startswith(".")
                    and name not in {"releases", "rehearsals", "jobs", "history", "reports"}
                )  # fmt: skip
                found += [here / name for name in sorted(files) if name.endswith(_TABLES)]
        return list(dict.fromkeys(found))[:_MAX_LISTED]

    def require_inside(self, given: str) -> Path:
        """Refuse the path of a table that lies outside of the folders, links followed."""
        try:
            path = Path(given).expanduser()
            path = (path if path.is_absolute() else self.folder / path).resolve()
        except (OSError, ValueError, RuntimeError):
            raise ParameterError(f"{given!r} is not a path.") from None
        if not _is_inside(path, self._readable):
            listed = ", ".join(str(folder) for folder in self.data_folders)
            raise ParameterError(
                f"{given!r} is outside of the folders that the workbench was started for: {listed}."
                " Start it with --data FOLDER to allow another."
            )
        if not path.is_file() or not path.name.endswith(_TABLES):
            raise ParameterError(
                f"{given!r} is not a table that can be read; choose a file that ends in "
                f"{', '.join(_TABLES)}."
            )
        return path

    def upload_place(self, name: str) -> Path:
        """Give a new place for an upload, the owner's alone and gone when the program ends.

        Spaces, accents and the like are taken out of its name; what could be a way is refused.
        """
        if not {"/", "\\"} & set(name):
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).replace("-.", ".")
        require_name(name, "the file's name")
        if not name.endswith(_TABLES):
            raise ParameterError(
                f"the file's name is {name!r}; it must end in {', '.join(_TABLES)}."
            )
        own = Path(spill_folder()).resolve()
        self._uploads = own.parent
        return own / name


def next_step(project: Project) -> str:
    """Say what comes next, as the name of a screen."""
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
    """Say which screens have nothing left to do."""
    schema = project.schema_or_none()
    return {
        "data": project.data is not None,
        "schema": schema is not None and not schema.unconfirmed,
        "ledger": project.ledger_path.exists(),
        "plan": isinstance(project.settings.get("method"), str),
        "rehearse": any((project.folder / "rehearsals").glob("*/report.html")),
        "publish": bool(project.releases()),
        "report": bool(project.reports()),
    }
