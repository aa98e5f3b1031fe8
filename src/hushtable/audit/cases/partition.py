"""Worst cases of recursive partitioning and of Mondrian."""

from __future__ import annotations

from collections.abc import Iterator

from hushtable.audit.cases.case import Case, no_pairs, planned
from hushtable.audit.cases.made_up import made_schema, predicted_schema, rows_by_name, words
from hushtable.audit.events import Within
from hushtable.audit.neighbors import Pair, with_and_without
from hushtable.methods.partition.mondrian import Mondrian
from hushtable.methods.partition.partition import Partition
from hushtable.schema import Schema

SIDE = 12
"""Rows of one side, and rows of the class on the other; the table has SIDE**2 rows."""


def cut_schema(method: Partition) -> Schema:
    """Return a schema with three ordered values and a class: the example of erratum 001-3.

    For class splits, there are two columns, one with ten times as many splits.
    """
    target = method.target or "class"
    if method.split == "class":
        return made_schema(
            {
                "few": words("low", "high"),
                "many": words(*(f"m{i}" for i in range(11)), ordered=True),
                target: words("+", "-", role="target"),
            }
        )
    return made_schema(
        {
            "v": words("v0", "v1", "v2", ordered=True),
            target: words("+", "-", role="target"),
        }
    )


def cut_pairs(method: Partition, schema: Schema) -> Iterator[Pair]:
    """Yield a choice between two cuts (001-3), and two equal halves (001-7, 001-8)."""
    target = method.target or schema.target
    if method.split == "class" and {"few", "many"} <= set(schema.attributes):
        yield telling_pair(schema)
    row, sizes = rows_by_name(schema), schema.domain.sizes
    first = next(name for name in schema.attributes if name != target)
    yes = {} if target is None else {target: 0}
    no = {} if target is None else {target: sizes[target] - 1}
    near, next_to, far = {first: 0}, {first: min(1, sizes[first] - 1)}, {first: sizes[first] - 1}
    yield with_and_without(
        schema, "a row that changes the cut (001-3)",
        [row(near | yes), row(next_to | no), row(next_to | no)], [row(near | yes)],
        Within("tree[0].cut", 2, 2),
    )  # fmt: skip
    # Among all tables with up to three equal rows, this one detects the printed weights fastest.
    yield with_and_without(
        schema, "a cut that one more row makes rare (001-3)",
        [row(next_to | no), row(next_to | no), row(far | yes)], [row(far | yes)],
        Within("tree[0].cut", 1, 1),
    )  # fmt: skip
    for count in (method.stop_count, 3):
        even = [row(near | yes)] * max(0, count) + [row(far | no)] * max(0, count)
        yield with_and_without(schema, "even halves (001-7, 001-8)", even, [row(near | yes)])


def telling_pair(schema: Schema) -> Pair:
    """Return neighbors with one row that changes one split's score by nearly the maximum.

    The row lowers the score of the split of "few" by nearly the maximum and raises that of ten
    others: the side "low" has no row of the class without it, and the class is absent from the
    first value of "many".
    """
    _, many, classes = schema.domain.sizes.values()
    rows = [(0, many - 1, classes - 1)] * SIDE
    rows += [(1, many - 1, 0)] * SIDE
    rows += [(1, many - 1, classes - 1)] * (SIDE**2 - 2 * SIDE)
    return with_and_without(
        schema, "a row that lowers one score and raises others", rows, [(0, 0, 0)],
        Within("tree[0].column=few", 1, 1),
    )  # fmt: skip


PARTITION = Case(cut_schema, cut_pairs, planned)
MONDRIAN: Case[Mondrian] = Case(lambda method: predicted_schema(method.target), no_pairs, planned)
