"""Edit a taxonomy: move values and groups, make groups, name them, take them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hushtable.errors import ParameterError
from hushtable.taxonomy import Node, Taxonomy


@dataclass(eq=False)
class Branch:
    """One place of a tree under work; `place` says how to get there from the root."""

    label: str
    is_group: bool
    children: list[Branch] = field(default_factory=list)
    place: str = ""


class Tree:
    """Hold a taxonomy under work.

    A place is the way from the root: ``""`` is the root, ``"0.2"`` the third child of its first.

    Examples
    --------
    >>> tree = Tree.of_values(["FR", "DE", "US"])
    >>> tree.group(["0", "1"], "Europe")
    >>> tree.nested()
    {'any': [{'Europe': ['FR', 'DE']}, 'US']}
    >>> tree.move("1", "0")
    >>> tree.nested()
    {'any': [{'Europe': ['FR', 'DE', 'US']}]}
    """

    def __init__(self, root: Branch) -> None:
        self.root = root
        self._number()

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> Tree:
        """Take up a taxonomy."""

        def grow(node: Node) -> Branch:
            return Branch(node.label, bool(node.children), [grow(below) for below in node.children])

        return cls(grow(taxonomy.root))

    @classmethod
    def of_values(cls, values: list[str]) -> Tree:
        """Begin with values and no groups."""
        root = "any" if "any" not in values else "*"
        return cls(Branch(root, True, [Branch(value, False) for value in values]))

    def move(self, place: str, to: str) -> None:
        """Move a value or group into another group; a group that becomes empty is taken out."""
        node, group = self._at(place), self._at(to)
        if node is self.root or not group.is_group or self._is_below(node, group):
            raise ParameterError("a value or group moves into another group, not into itself.")
        self._parent(node).children.remove(node)
        group.children.append(node)
        self._tidy()

    def group(self, places: Sequence[str], label: str) -> None:
        """Put values or groups into a new group, which stands where the first of them stood."""
        nodes = [self._at(place) for place in places]
        label = _checked(label)
        if not nodes or self.root in nodes:
            raise ParameterError("choose what goes into the group.")
        parent = self._parent(nodes[0])
        if any(self._is_below(node, parent) for node in nodes):
            raise ParameterError("a group does not go into itself.")
        made = Branch(label, True)
        parent.children.insert(parent.children.index(nodes[0]), made)
        for node in nodes:
            self._parent(node).children.remove(node)
            made.children.append(node)
        self._tidy()

    def rename(self, place: str, label: str) -> None:
        """Name a group."""
        node = self._at(place)
        if not node.is_group:
            raise ParameterError("values are named in the list of values; only groups are here.")
        node.label = _checked(label)

    def remove_group(self, place: str) -> None:
        """Take a group out; what is in it goes up."""
        node = self._at(place)
        if node is self.root or not node.is_group:
            raise ParameterError("only a group below the root can be taken out.")
        parent = self._parent(node)
        position = parent.children.index(node)
        parent.children[position : position + 1] = node.children
        self._number()

    def nested(self) -> dict[str, Any]:
        """Write as a schema has it."""

        def write(branch: Branch) -> list[Any]:
            return [{b.label: write(b)} if b.is_group else b.label for b in branch.children]

        return {self.root.label: write(self.root)}

    def groups(self) -> list[Branch]:
        """Give all groups, from the root on."""
        return [branch for branch in self._all() if branch.is_group]

    def _all(self) -> list[Branch]:
        found, waiting = [], [self.root]
        while waiting:
            branch = waiting.pop(0)
            found.append(branch)
            waiting[:0] = branch.children
        return found

    def _at(self, place: str) -> Branch:
        for branch in self._all():
            if branch.place == place:
                return branch
        raise ParameterError("that place of the tree is gone; look at it again.")

    def _parent(self, node: Branch) -> Branch:
        return next(b for b in self._all() if any(child is node for child in b.children))

    def _is_below(self, top: Branch, node: Branch) -> bool:
        return top is node or any(self._is_below(child, node) for child in top.children)

    def _tidy(self) -> None:
        empty = [b for b in self.groups() if not b.children and b is not self.root]
        for branch in empty:
            self._parent(branch).children.remove(branch)
        if empty:
            self._tidy()
        self._number()

    def _number(self) -> None:
        def name(branch: Branch, place: str) -> None:
            branch.place = place
            for n, child in enumerate(branch.children):
                name(child, f"{place}.{n}" if place else str(n))

        name(self.root, "")


def _checked(label: str) -> str:
    label = " ".join(label.split())
    if not label or len(label) > 100 or not label.isprintable():
        raise ParameterError("name the group in 1 to 100 letters.")
    return label
