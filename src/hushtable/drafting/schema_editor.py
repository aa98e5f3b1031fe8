"""Edits of a schema file that preserve comments and order, with undo.

Every edit is applied to a copy and written only if the whole schema is still valid, so the file on
disk is always valid. The file may contain information from the data, so only its owner can read it.
The previous version is stored in the folder for history, if there is one.
"""

from __future__ import annotations

import getpass
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from hushtable.drafting.names import NAMES, say
from hushtable.errors import ParameterError, SchemaError
from hushtable.files.writing import replace_own
from hushtable.files.yaml_text import read_yaml
from hushtable.schema import Schema
from hushtable.schema.column import LEFT_OUT
from hushtable.schema.taxonomy import Taxonomy, TaxonomyNode

_MAX_HISTORY = 200
_CONFIRMED = re.compile(r"^\s*# confirmed [-0-9]+(?: by [^:]+)?: [a-z_, ]+\. (.+)$", re.MULTILINE)
BOUNDS = ("low", "high", "step")
CHOICES = ("type", "role", "missing", "outside", "ordered", "label")


class SchemaFile:
    """Editor of a project's schema file; `history` is the folder of earlier versions."""

    def __init__(self, path: Path, history: Path | None = None) -> None:
        self.path = path
        self._history = history

    def text(self) -> str:
        """Return the content of the file."""
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"cannot read the schema: {error.strerror}.") from None

    def remarks(self) -> dict[str, list[str]]:
        """Return the lines of comments directly above each column, such as a draft's remarks."""
        try:
            columns = YAML().load(self.text())["columns"]
            places = {str(name): columns.lc.key(name)[0] for name in columns}
        except (YAMLError, AttributeError, KeyError, TypeError):
            return {}  # errors in the file are reported elsewhere
        lines, found = self.text().splitlines(), {}
        for name, place in places.items():
            first = place
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            found[name] = [line.strip().lstrip("# ") for line in lines[first:place]]
        return found

    def reasons(self) -> list[str]:
        """Return the public sources given so far, the most recent first."""
        said = _CONFIRMED.findall(self.text())
        return list(dict.fromkeys(reversed(said)))

    def replace(self, text: str) -> None:
        """Replace the whole file, if the text is a valid schema."""
        Schema.parse(text, folder=self.path.parent)
        self._write(text)

    def set(self, column: str, fields: Mapping[str, str]) -> None:
        """Change fields of a column; an empty field is removed and gets its default."""
        self.set_all({column: fields})

    def set_table(self, fields: Mapping[str, str]) -> None:
        """Change the name, the public number of rows and the unit of privacy of the table."""

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
        """Remove marks of a column, or of the whole schema, that a person confirms as public."""
        self.confirm_all({column: reason}, parts)

    def confirm_all(
        self, reasons: Mapping[str | None, str], parts: Sequence[str] | None = None
    ) -> None:
        """Confirm columns as public; add date, person, parts and reason as comments.

        Parameters
        ----------
        reasons : mapping
            Public source of each column; None is the whole schema.
        parts : list of str, optional
            Marks to remove; by default all.
        """
        lines = {column: " ".join(reason.split()) for column, reason in reasons.items()}
        if any(not r.isprintable() or not 3 <= len(r) <= 300 for r in lines.values()):
            raise ParameterError(say("no public source"))
        if (parts is not None and not parts) or not lines:
            raise ParameterError("nothing is selected; tick the parts that you confirm.")

        def change(content: CommentedMap) -> None:
            for column, reason in lines.items():
                _confirm(content, column, parts, reason)

        self._edit(change)

    def set_all(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Change fields of several columns together."""

        def change(content: CommentedMap) -> None:
            for column, fields in changes.items():
                _set_fields(_column(content, column), fields)

        self._edit(change)

    def set_tree(self, column: str, nested: Any) -> None:
        """Replace the taxonomy of a column by nested groups; None removes it."""

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
        """Restore the previous version, and remove it from the history."""
        versions = self._versions()
        if not versions:
            raise ParameterError("no earlier version is available to undo.")
        replace_own(self.path, versions[-1].read_text(encoding="utf-8"))
        versions[-1].unlink()

    def _versions(self) -> list[Path]:
        return sorted(self._history.glob("schema-*.yaml")) if self._history else []

    def _edit(self, change: Callable[[CommentedMap], None]) -> None:
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 100
        try:
            content = yaml.load(self.text())
        except YAMLError:
            raise SchemaError("the schema file is not valid YAML; correct it as text.") from None
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
            if self._history is not None:
                self._keep(self._history, before)
        replace_own(self.path, text)

    def _keep(self, history: Path, before: str) -> None:
        versions = self._versions()
        number = int(versions[-1].stem.rpartition("-")[2]) + 1 if versions else 1
        history.mkdir(mode=0o700, exist_ok=True)
        replace_own(history / f"schema-{number:06d}.yaml", before)
        for old in versions[: -_MAX_HISTORY + 1]:
            old.unlink()


def _confirm(
    content: CommentedMap, column: str | None, parts: Sequence[str] | None, reason: str
) -> None:
    place = content if column is None else _column(content, column)
    marks = list(place.get("confirm", ()))
    done = marks if parts is None else list(parts)
    if unknown := [part for part in done if part not in marks]:
        raise ParameterError(say("not to confirm", parts=", ".join(unknown)))
    if not done:
        return
    _set_marks(place, [mark for mark in marks if mark not in done])
    today = datetime.now(UTC).date().isoformat()
    said = f"confirmed {today} by {_user()}: {', '.join(done)}. {reason}"
    if column is None:
        content.yaml_set_comment_before_after_key(next(iter(content)), before=said)
    else:
        content["columns"].yaml_set_comment_before_after_key(column, before=said, indent=2)


def _user() -> str:
    """Return the name of the person who is logged in, on one line and without a colon."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
    return " ".join(re.sub(r"[^\w .@-]", " ", name).split()) or "unknown"


def _column(content: CommentedMap, name: str) -> CommentedMap:
    column = content["columns"].get(name)
    if not isinstance(column, CommentedMap):
        raise ParameterError(f"the schema has no column {name!r}.")
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
            made = _bound(text) if name in BOUNDS else _text(text)
            place[name] = True if name == "ordered" else made
    _fit_type(place, was)
    # Removed fields need no confirmation; all other marks stay until a person removes them.
    gone = before - set(place)
    _set_marks(place, [mark for mark in place.get("confirm", ()) if mark not in gone])


def _set_special(place: CommentedMap, given: str) -> None:
    """Parse special values, one per line, such as ``-9 = refused``."""
    named = CommentedMap()
    for line in given.splitlines():
        value, sign, name = (part.strip() for part in line.partition("="))
        if sign and value and name:
            named[_bound(value)] = _text(name)
        elif line.strip():
            raise ParameterError(say("special values", line=line.strip()))
    if not named:
        _take_out(place, "special")
    elif place.get("special") != named:
        _put(place, "special", named, before="missing")


def _set_unit(content: CommentedMap, column: str, max_rows: str) -> None:
    """Set the unit of privacy: a row, or the person identified by a column."""
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
_NEEDED: dict[str, dict[str, Any]] = NAMES["initial_fields"]
"""Initial fields of each column type."""


def _fit_type(place: CommentedMap, was: str) -> None:
    """Remove fields that a column's new type does not have, and add those that it requires."""
    if place.get("role") in ("identifier", LEFT_OUT):
        return
    if "type" not in place:
        place["type"] = "categorical" if "values" in place else "integer"
    kind = str(place["type"])
    if kind not in _NEEDED:
        return  # schema validation reports it
    needed, listed = _NEEDED[kind], kind in {"categorical", "boolean"}
    foreign = [*(_LINE if listed else _LISTED), *(_LISTED if kind == "boolean" else ())]
    if kind == "integer":
        foreign.append("step")
    if kind != was and not {kind, was} <= _NUMBERS:
        foreign += _LINE  # bounds of another type are invalid
    for name in foreign:
        _take_out(place, name)
    for name, value in needed.items():
        place.setdefault(name, CommentedSeq(value) if isinstance(value, list) else value)
    no_missing = place.get("outside") == "missing" and place.get("missing") != "category"
    if no_missing or (listed and place.get("outside") == "clip"):
        _take_out(place, "outside")


def _set_marks(place: CommentedMap, marks: list[str]) -> None:
    """Write the remaining marks on one line, or remove the entry."""
    if marks == list(place.get("confirm", ())):
        return
    if not marks:
        _take_out(place, "confirm")
        return
    kept = CommentedSeq(marks)
    kept.fa.set_flow_style()
    place["confirm"] = kept


def _take_out(place: CommentedMap, name: str) -> None:
    """Remove an entry; keep a comment that follows it, which is about the next entry."""
    if name not in place:
        return
    names = list(place)
    position = names.index(name)
    trailing = place.ca.items.get(name)
    del place[name]
    kept = trailing[2] if trailing and len(trailing) > 2 else None
    if kept is None or position == 0:
        return
    # ruamel attaches following lines to an entry; move them to the entry before it.
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
    """Quote a text that YAML would read as another type, such as yes or 12."""
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
    """Parse a number; return anything else (a date, a time unit) as text."""
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return _text(text)


def _number(name: str, text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise ParameterError(f"{name} is {text!r}; it must be a number.") from None


# Editing of a taxonomy: move values and groups; create, rename and dissolve groups.


@dataclass(eq=False)
class TreeNode:
    """A node of the edited tree; `place` is its path from the root."""

    label: str
    is_group: bool
    children: list[TreeNode] = field(default_factory=list)
    place: str = ""


class TaxonomyEditor:
    """A taxonomy being edited.

    A place is a path from the root: ``""`` is the root, ``"0.2"`` the third child of its first
    child.

    Examples
    --------
    >>> tree = TaxonomyEditor.of_values(["FR", "DE", "US"])
    >>> tree.group(["0", "1"], "Europe")
    >>> tree.nested()
    {'any': [{'Europe': ['FR', 'DE']}, 'US']}
    >>> tree.move("1", "0")
    >>> tree.nested()
    {'any': [{'Europe': ['FR', 'DE', 'US']}]}
    """

    def __init__(self, root: TreeNode) -> None:
        self.root = root
        self._number()

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> TaxonomyEditor:
        """Create from a taxonomy."""

        def grow(node: TaxonomyNode) -> TreeNode:
            return TreeNode(
                node.label, bool(node.children), [grow(below) for below in node.children]
            )

        return cls(grow(taxonomy.root))

    @classmethod
    def of_values(cls, values: list[str]) -> TaxonomyEditor:
        """Create from values without groups."""
        root = "any" if "any" not in values else "*"
        return cls(TreeNode(root, True, [TreeNode(value, False) for value in values]))

    def move(self, place: str, to: str) -> None:
        """Move a value or group into another group; a group that becomes empty is removed."""
        node, group = self._at(place), self._at(to)
        if node is self.root or not group.is_group or self._is_below(node, group):
            raise ParameterError(say("impossible move"))
        self._parent(node).children.remove(node)
        group.children.append(node)
        self._tidy()

    def group(self, places: Sequence[str], label: str) -> None:
        """Move values or groups into a new group, at the position of the first of them."""
        nodes = [self._at(place) for place in places]
        label = _checked(label)
        if not nodes or self.root in nodes:
            raise ParameterError("the group has no members; choose at least one.")
        parent = self._parent(nodes[0])
        if any(self._is_below(node, parent) for node in nodes):
            raise ParameterError("a group cannot contain itself; choose other members.")
        made = TreeNode(label, True)
        parent.children.insert(parent.children.index(nodes[0]), made)
        for node in nodes:
            self._parent(node).children.remove(node)
            made.children.append(node)
        self._tidy()

    def rename(self, place: str, label: str) -> None:
        """Rename a group."""
        node = self._at(place)
        if not node.is_group:
            raise ParameterError(say("only groups"))
        node.label = _checked(label)

    def remove_group(self, place: str) -> None:
        """Dissolve a group; its members move to its parent."""
        node = self._at(place)
        if node is self.root or not node.is_group:
            raise ParameterError(say("nothing to dissolve"))
        parent = self._parent(node)
        position = parent.children.index(node)
        parent.children[position : position + 1] = node.children
        self._number()

    def nested(self) -> dict[str, Any]:
        """Return the taxonomy as nested data for a schema."""

        def write(branch: TreeNode) -> list[Any]:
            return [{b.label: write(b)} if b.is_group else b.label for b in branch.children]

        return {self.root.label: write(self.root)}

    def groups(self) -> list[TreeNode]:
        """Return all groups, starting with the root."""
        return [branch for branch in self._all() if branch.is_group]

    def _all(self) -> list[TreeNode]:
        found, waiting = [], [self.root]
        while waiting:
            branch = waiting.pop(0)
            found.append(branch)
            waiting[:0] = branch.children
        return found

    def _at(self, place: str) -> TreeNode:
        for branch in self._all():
            if branch.place == place:
                return branch
        raise ParameterError("the tree has changed in the meantime; reload the page.")

    def _parent(self, node: TreeNode) -> TreeNode:
        return next(b for b in self._all() if any(child is node for child in b.children))

    def _is_below(self, top: TreeNode, node: TreeNode) -> bool:
        return top is node or any(self._is_below(child, node) for child in top.children)

    def _tidy(self) -> None:
        empty = [b for b in self.groups() if not b.children and b is not self.root]
        for branch in empty:
            self._parent(branch).children.remove(branch)
        if empty:
            self._tidy()
        self._number()

    def _number(self) -> None:
        def name(branch: TreeNode, place: str) -> None:
            branch.place = place
            for n, child in enumerate(branch.children):
                name(child, f"{place}.{n}" if place else str(n))

        name(self.root, "")


def _checked(label: str) -> str:
    label = " ".join(label.split())
    if not label or len(label) > 100 or not label.isprintable():
        raise ParameterError("the name of a group must have 1 to 100 printable characters.")
    return label
