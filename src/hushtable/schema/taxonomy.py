"""Value hierarchies: trees whose leaves are the values of a column.

A taxonomy is public. It can be read from an ARX CSV file or from nested YAML or JSON, and be
written again.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hushtable.errors import TaxonomyError, shown

ROOT = "*"
MAX_LEVELS = 50  # functions here are recursive
_TOO_DEEP = f"the hierarchy has more than {MAX_LEVELS} levels; make it coarser."


@dataclass(frozen=True)
class TaxonomyNode:
    """Node of the tree; a node without children is a value of the column."""

    label: str
    children: tuple[TaxonomyNode, ...] = ()

    def leaves(self) -> Iterator[str]:
        """Yield the values below this node, left to right."""
        if not self.children:
            yield self.label
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True)
class Taxonomy:
    """Value hierarchy in which every value occurs once and every level is nested in the next.

    Examples
    --------
    >>> tree = Taxonomy.from_nested({"any": {"EU": ["FR", "DE"], "America": ["US"]}})
    >>> tree.values
    ('FR', 'DE', 'US')
    >>> tree.depth
    2
    >>> tree.level(1)
    {'FR': 'EU', 'DE': 'EU', 'US': 'America'}
    """

    root: TaxonomyNode

    def __post_init__(self) -> None:
        for level in range(self.depth + 1):
            _check_labels_differ(self._cut(level), level)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Leaves, left to right."""
        return tuple(self.root.leaves())

    @cached_property
    def depth(self) -> int:
        """Number of generalization steps from the deepest leaf to the root."""

        def below(node: TaxonomyNode) -> int:
            return 1 + max(map(below, node.children)) if node.children else 0

        return below(self.root)

    def _cut(self, level: int) -> list[TaxonomyNode]:
        """Return the nodes that partition the values ``level`` steps above the deepest leaves.

        Counting from the root keeps the cut a partition when branches differ in depth.
        """
        if not 0 <= level <= self.depth:
            raise TaxonomyError(
                f"level {level} does not exist; this taxonomy has levels 0 (values) to "
                f"{self.depth} (root)."
            )
        cut = [self.root]
        for _ in range(self.depth - level):
            cut = [below for node in cut for below in (node.children or (node,))]
        return cut

    def level(self, level: int) -> dict[str, str]:
        """Return the label of every value at a level; 0 is the values, `depth` the root."""
        return {leaf: node.label for node in self._cut(level) for leaf in node.leaves()}

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]]) -> Taxonomy:
        """Build from rows ``value, parent, grandparent, ..., root``, as ARX writes them.

        Rows may differ in length. If they do not share one root, a root ``*`` is added.
        """
        paths = [tuple(cell.strip() for cell in row) for row in rows if any(row)]
        problems = []
        if not paths:
            raise TaxonomyError("the hierarchy is empty; it needs one row per value.")
        if any("" in path for path in paths):
            problems.append("a row has an empty cell; write every label out.")
        if max(map(len, paths)) > MAX_LEVELS:
            problems.append(_TOO_DEEP)
        if len({len(path) for path in paths}) == 1:
            problems += _nesting_problems(paths)
        TaxonomyError.raise_if_any(problems)
        if len({path[-1] for path in paths}) > 1:
            paths = [(*path, ROOT) for path in paths]
        return cls(_grow([tuple(reversed(path)) for path in paths]))

    @classmethod
    def from_csv(cls, path: str | Path) -> Taxonomy:
        """Read an ARX hierarchy file (``;`` or ``,`` between cells)."""
        text = _text_of(Path(path), encoding="utf-8-sig")
        delimiter = ";" if ";" in text else ","
        try:
            return cls.from_rows(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        except csv.Error as error:
            raise TaxonomyError(f"hierarchy {Path(path).name!r} is not CSV: {error}.") from None

    @classmethod
    def from_nested(cls, tree: Mapping[str, Any] | Sequence[Any]) -> Taxonomy:
        """Build from nested mappings (label to children) with lists of values at the bottom."""
        children = _nested_children(tree)
        if isinstance(tree, Mapping) and len(children) == 1:
            return cls(children[0])
        return cls(TaxonomyNode(ROOT, children))

    @classmethod
    def load(cls, path: str | Path) -> Taxonomy:
        """Read a hierarchy from a ``.csv``, ``.txt``, ``.yaml``, ``.yml`` or ``.json`` file."""
        path = Path(path)
        if path.suffix in {".csv", ".txt"}:
            return cls.from_csv(path)
        if path.suffix not in {".yaml", ".yml", ".json"}:
            raise TaxonomyError(
                f"hierarchy file {path.name!r}: expected .csv, .txt, .yaml, .yml or .json."
            )
        from hushtable.files.yaml_text import read_yaml  # noqa: PLC0415 - slow to import

        text = _text_of(path, encoding="utf-8")
        try:
            return cls.from_nested(read_yaml(text))
        except TaxonomyError:
            raise
        except ValueError as error:
            raise TaxonomyError(f"hierarchy {path.name!r} is not valid YAML: {error}") from None

    def to_rows(self) -> list[tuple[str, ...]]:
        """Return rows ``value, ..., root``, all of the same length."""
        levels = [self.level(level) for level in range(self.depth + 1)]
        return [tuple(level[value] for level in levels) for value in self.values]

    def to_csv(self, path: str | Path) -> None:
        """Write an ARX hierarchy file."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=";").writerows(self.to_rows())

    def to_nested(self) -> dict[str, Any]:
        """Return nested mappings with lists of values at the bottom."""

        def write(node: TaxonomyNode) -> Any:
            if all(not child.children for child in node.children):
                return [child.label for child in node.children]
            return [
                {child.label: write(child)} if child.children else child.label
                for child in node.children
            ]

        return {self.root.label: write(self.root)}


def _text_of(path: Path, *, encoding: str) -> str:
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError:
        raise TaxonomyError(f"hierarchy {path.name!r} is not UTF-8 text.") from None
    except OSError as error:
        raise TaxonomyError(f"cannot read hierarchy {path.name!r}: {error.strerror}.") from None


def _listing(values: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")


def _check_labels_differ(cut: list[TaxonomyNode], level: int) -> None:
    counts = Counter(node.label for node in cut)
    twice = sorted(label for label, count in counts.items() if count > 1)
    if twice:
        raise TaxonomyError(
            f"level {level} has the same label more than once: {_listing(twice)}; list every "
            "value once, and give each group its own label."
        )


def _nesting_problems(paths: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for level in range(len(paths[0]) - 1):
        parents: dict[str, set[str]] = {}
        for path in paths:
            parents.setdefault(path[level], set()).add(path[level + 1])
        torn = sorted(label for label, above in parents.items() if len(above) > 1)
        if torn:
            yield f"level {level} is not nested: {_listing(torn)} has more than one parent."


def _grow(paths: Sequence[tuple[str, ...]]) -> TaxonomyNode:
    """Join paths that start at the root into a tree."""
    branches: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        if len(path) > 1:
            branches.setdefault(path[1], []).append(path[1:])
        elif len(paths) > 1:
            raise TaxonomyError(f"value {path[0]!r} is listed twice, or is also a group.")
    return TaxonomyNode(paths[0][0], tuple(_grow(below) for below in branches.values()))


def _nested_children(tree: Any, level: int = 1) -> tuple[TaxonomyNode, ...]:
    if level > MAX_LEVELS:
        raise TaxonomyError(_TOO_DEEP)
    if not tree and isinstance(tree, Mapping | list):
        raise TaxonomyError("a group of the hierarchy has no values; remove it or fill it.")
    if isinstance(tree, Mapping):
        return tuple(
            TaxonomyNode(_label(label), _nested_children(below, level + 1))
            for label, below in tree.items()
        )
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        nodes: list[TaxonomyNode] = []
        for item in tree:
            nodes.extend(
                _nested_children(item, level)
                if isinstance(item, Mapping)
                else [TaxonomyNode(_label(item))]
            )
        return tuple(nodes)
    raise TaxonomyError(
        f"a hierarchy must be nested mappings with lists of values; found {shown(tree)}."
    )


def _label(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TaxonomyError(f"label {shown(value)} is not text; put it in quotes.")
    return str(value)
