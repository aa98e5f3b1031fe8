"""Edit a schema's file as a person would: comments and order stay, and steps can be undone.

Every edit is tried on a copy, checked as a whole, and written only if the schema is still valid, so
the file on disk always is. It may hold what came from the data, so it is its owner's alone. The
version before goes into ``history/``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from hushtable.errors import ParameterError, SchemaError
from hushtable.files.whole_file import replace_own
from hushtable.files.yaml_text import read_yaml
from hushtable.schema import Schema

_MAX_HISTORY = 200
_CONFIRMED = re.compile(r"^\s*# confirmed [-0-9]+: [a-z_, ]+\. (.+)$", re.MULTILINE)
BOUNDS = ("low", "high", "step")
CHOICES = ("type", "role", "missing", "outside", "ordered")


class SchemaFile:
    """Edit the schema of a project.

    Parameters
    ----------
    path : Path
        The file.
    history : Path
        Folder for earlier versions.
    """

    def __init__(self, path: Path, history: Path) -> None:
        self.path = path
        self._history = history

    def text(self) -> str:
        """Read the file."""
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"there is no schema yet: {error.strerror}.") from None

    def remarks(self) -> dict[str, list[str]]:
        """Give the comments right above each column, such as a draft's remarks, without marks."""
        try:
            columns = YAML().load(self.text())["columns"]
            places = {str(name): columns.lc.key(name)[0] for name in columns}
        except (YAMLError, AttributeError, KeyError, TypeError):
            return {}  # what is wrong with it is said elsewhere
        lines, found = self.text().splitlines(), {}
        for name, place in places.items():
            first = place
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            found[name] = [line.strip().lstrip("# ") for line in lines[first:place]]
        return found

    def reasons(self) -> list[str]:
        """Give the public reasons that were given so far, the last one first."""
        said = _CONFIRMED.findall(self.text())
        return list(dict.fromkeys(reversed(said)))

    def replace(self, text: str) -> None:
        """Write the whole file anew, if it is a valid schema."""
        Schema.parse(text, folder=self.path.parent)
        self._write(text)

    def set(self, column: str, fields: Mapping[str, str]) -> None:
        """Change fields of a column; an empty one is taken out, and gets its default."""
        self._edit(lambda content: _set_fields(_column(content, column), fields))

    def set_table(self, fields: Mapping[str, str]) -> None:
        """Change what is said of the whole table: name, public row count, who is protected."""

        def change(content: CommentedMap) -> None:
            if name := fields.get("name", "").strip():
                content["name"] = _text(name)
            rows = fields.get("rows", "").strip()
            if rows:
                _put(content, "rows", _number("rows", rows), before="columns")
            else:
                _take_out(content, "rows")
            if "unit" in fields:
                _set_unit(content, fields["unit"], fields.get("max_rows", "").strip())

        self._edit(change)

    def confirm(self, column: str | None, parts: list[str], reason: str) -> None:
        """Take marks away from what a person knows to be public; the reason stays as a comment.

        Parameters
        ----------
        column : str or None
            The column, or None for what is marked of the whole schema.
        parts : list of str
            The marks that are ticked.
        reason : str
            Where it is public.
        """
        reason = " ".join(reason.split())
        if len(reason) < 3 or not reason.isprintable() or len(reason) > 300:
            raise ParameterError(
                "give the public reason in a few words (3 to 300 letters): how anybody could know "
                "this without the table."
            )
        if not parts:
            raise ParameterError("tick what you confirm.")

        def change(content: CommentedMap) -> None:
            place = content if column is None else _column(content, column)
            marks = list(place.get("confirm", ()))
            unknown = [part for part in parts if part not in marks]
            if unknown:
                raise ParameterError(f"not marked: {', '.join(unknown)}.")
            _set_marks(place, [mark for mark in marks if mark not in parts])
            today = datetime.now(UTC).date().isoformat()
            said = f"confirmed {today}: {', '.join(parts)}. {reason}"
            if column is None:
                content.yaml_set_comment_before_after_key(next(iter(content)), before=said)
            else:
                columns = content["columns"]
                columns.yaml_set_comment_before_after_key(column, before=said, indent=2)

        self._edit(change)

    def set_tree(self, column: str, nested: Any) -> None:
        """Give a column another taxonomy, as nested groups; None takes it out."""

        def change(content: CommentedMap) -> None:
            place = _column(content, column)
            if nested is None:
                _take_out(place, "taxonomy")
            else:
                _put(place, "taxonomy", _texts(nested), before="missing")

        self._edit(change)

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier version."""
        return bool(self._versions())

    def undo(self) -> None:
        """Go back to the version before; that one is then gone from the history."""
        versions = self._versions()
        if not versions:
            raise ParameterError("there is nothing to undo.")
        replace_own(self.path, versions[-1].read_text(encoding="utf-8"))
        versions[-1].unlink()

    def _versions(self) -> list[Path]:
        return sorted(self._history.glob("schema-*.yaml"))

    def _edit(self, change: Callable[[CommentedMap], None]) -> None:
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 100
        try:
            content = yaml.load(self.text())
        except YAMLError:
            raise SchemaError("the schema's file is not valid YAML; correct it as text.") from None
        if not isinstance(content, CommentedMap) or "columns" not in content:
            raise SchemaError("the schema must be a mapping with name and columns.")
        change(content)
        out = io.StringIO()
        yaml.dump(content, out)
        self.replace(out.getvalue())

    def _write(self, text: str) -> None:
        if self.path.exists():
            before = self.text()
            if before == text:
                return
            versions = self._versions()
            number = int(versions[-1].stem.rpartition("-")[2]) + 1 if versions else 1
            self._history.mkdir(mode=0o700, exist_ok=True)
            replace_own(self._history / f"schema-{number:06d}.yaml", before)
            for old in versions[: -_MAX_HISTORY + 1]:
                old.unlink()
        replace_own(self.path, text)


def _column(content: CommentedMap, name: str) -> CommentedMap:
    column = content["columns"].get(name)
    if not isinstance(column, CommentedMap):
        raise ParameterError(f"there is no column {name!r} in the schema.")
    return column


def _set_fields(place: CommentedMap, fields: Mapping[str, str]) -> None:
    before, was = set(place), str(place.get("type"))
    for name, given in fields.items():
        text = given.strip()
        if name == "values":
            lines = [line.strip() for line in given.splitlines() if line.strip()]
            if list(map(str, place.get("values", ()))) != lines:
                place["values"] = CommentedSeq(map(_text, lines))
        elif name == "special":
            _set_special(place, given)
        elif name not in (*BOUNDS, *CHOICES):
            raise ParameterError(f"{name!r} is not a field of a column.")
        elif not text or (name == "ordered" and text != "true"):
            _take_out(place, name)
        elif str(place.get(name)) != text:
            place[name] = True if name == "ordered" else _bound(text) if name in BOUNDS else text
    _fit_type(place, was)
    # What is gone needs no word; every other mark stays until a person takes it away.
    gone = before - set(place)
    _set_marks(place, [mark for mark in place.get("confirm", ()) if mark not in gone])


def _set_special(place: CommentedMap, given: str) -> None:
    """Name values that stand for something else, one in a line: ``-9 = refused``."""
    named = CommentedMap()
    for line in given.splitlines():
        value, sign, name = (part.strip() for part in line.partition("="))
        if sign and value and name:
            named[_bound(value)] = _text(name)
        elif line.strip():
            raise ParameterError(
                f"special values: {line.strip()!r} is not of the form VALUE = NAME, such as "
                "-9 = refused."
            )
    if not named:
        _take_out(place, "special")
    elif place.get("special") != named:
        _put(place, "special", named, before="missing")


def _set_unit(content: CommentedMap, column: str, max_rows: str) -> None:
    """Say who is protected: a row, or the person that a column tells."""
    if not column:
        _take_out(content, "unit")
        return
    unit = CommentedMap(kind="person", column=_text(column))
    unit["max_rows"] = _number("max_rows", max_rows or "1")
    if content.get("unit") != unit:
        _put(content, "unit", unit, before="columns")


_LISTED = ("values", "taxonomy", "ordered")
_NUMBERS = {"integer", "number", "decimal"}
_LINE = ("low", "high", "step", "special", "bins")
_NEEDED: dict[str, dict[str, Any]] = {
    "categorical": {"values": ["other"]},
    "boolean": {},
    "integer": {"low": 0, "high": 100},
    "number": {"low": 0, "high": 100, "step": 1},
    "decimal": {"low": 0, "high": 100, "step": 1},
    "duration": {"low": 0, "high": 100, "step": "day"},
    "date": {"low": "2000-01-01", "high": "2030-12-31"},
    "timestamp": {"low": "2000-01-01", "high": "2030-12-31", "step": "day"},
    "time": {"step": "hour"},
}
"""What each type of column begins with where nothing is said."""


def _fit_type(place: CommentedMap, was: str) -> None:
    """Take out what belongs to another type of column, and fill in what this one needs."""
    if place.get("role") == "identifier":
        return
    if "type" not in place:
        place["type"] = "categorical" if "values" in place else "integer"
    kind = str(place["type"])
    if kind not in _NEEDED:
        return  # the schema's own check says so
    needed, listed = _NEEDED[kind], kind in {"categorical", "boolean"}
    foreign = [*(_LINE if listed else _LISTED), *(_LISTED if kind == "boolean" else ())]
    if kind == "integer":
        foreign.append("step")
    if kind != was and not {kind, was} <= _NUMBERS:
        foreign += _LINE  # bounds of one kind mean nothing to another
    for name in foreign:
        _take_out(place, name)
    for name, value in needed.items():
        place.setdefault(name, CommentedSeq(value) if isinstance(value, list) else value)
    no_missing = place.get("outside") == "missing" and place.get("missing") != "category"
    if no_missing or (listed and place.get("outside") == "clip"):
        _take_out(place, "outside")


def _set_marks(place: CommentedMap, marks: list[str]) -> None:
    """Write what is left to confirm, on one line; nothing if nothing is."""
    if marks == list(place.get("confirm", ())):
        return
    if not marks:
        _take_out(place, "confirm")
        return
    kept = CommentedSeq(marks)
    kept.fa.set_flow_style()
    place["confirm"] = kept


def _take_out(place: CommentedMap, name: str) -> None:
    """Remove an entry; a comment that follows it is about what comes next, and stays."""
    if name not in place:
        return
    names = list(place)
    position = names.index(name)
    trailing = place.ca.items.get(name)
    del place[name]
    kept = trailing[2] if trailing and len(trailing) > 2 else None
    if kept is None or position == 0:
        return
    # ruamel hangs the lines that follow an entry on it; they go to the last line before it.
    holder: Any = place
    key: Any = names[position - 1]
    while isinstance(holder[key], CommentedMap | CommentedSeq) and holder[key]:
        if holder[key].fa.flow_style():
            break
        holder = holder[key]
        key = list(holder)[-1] if isinstance(holder, CommentedMap) else len(holder) - 1
    slot = 2 if isinstance(holder, CommentedMap) else 0
    slots = holder.ca.items.setdefault(key, [None, None, None, None])
    if slots[slot] is None:
        slots[slot] = kept
    else:
        slots[slot].value = slots[slot].value.rstrip("\n") + "\n" + kept.value.lstrip("\n")


def _put(place: CommentedMap, name: str, value: Any, *, before: str) -> None:
    if name in place:
        place[name] = value
    elif before in place:
        place.insert(list(place).index(before), name, value)
    else:
        place[name] = value


def _text(text: str) -> str:
    """Quote a text that a reader of YAML would take for something else, such as yes or 12."""
    try:
        plain = read_yaml(text) == text
    except ValueError:
        plain = False
    return text if plain else DoubleQuotedScalarString(text)


def _texts(nested: Any) -> Any:
    if isinstance(nested, Mapping):
        return CommentedMap((_text(label), _texts(below)) for label, below in nested.items())
    if isinstance(nested, list):
        return CommentedSeq(map(_texts, nested))
    return _text(nested)


def _bound(text: str) -> int | float | str:
    """Read a number as one, and anything else (a moment, a period) as text."""
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return _text(text)


def _number(name: str, text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise ParameterError(f"{name} is {text!r}; it must be a number.") from None
