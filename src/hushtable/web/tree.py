"""Editing of a taxonomy: move values and groups; create, rename and dissolve groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hushtable.errors import ParameterError
from hushtable.schema.taxonomy import Taxonomy, TaxonomyNode


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
            raise ParameterError(
                "this move is not possible; move a value or group into another group."
            )
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
            raise ParameterError(
                "only groups can be renamed here; change values in the list of values."
            )
        node.label = _checked(label)

    def remove_group(self, place: str) -> None:
        """Dissolve a group; its members move to its parent."""
        node = self._at(place)
        if node is self.root or not node.is_group:
            raise ParameterError(
                "the root and single values cannot be dissolved; choose another group."
            )
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
