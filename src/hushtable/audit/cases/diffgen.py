"""Worst cases of DiffGen and of its baselines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from hushtable.audit.cases.case import Case, no_pairs, planned
from hushtable.audit.cases.made_up import copies, counted_schema, predicted_schema, rows_by_name
from hushtable.audit.events import Within
from hushtable.audit.neighbors import Pair, with_and_without
from hushtable.audit.subject import Prepared
from hushtable.engine.base import Engine
from hushtable.methods.base import Released
from hushtable.methods.diffgen.contingency_table import ContingencyTable
from hushtable.methods.diffgen.diffgen import DiffGen
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.diffgen.top_down_specialization import TopDownSpecialization
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Schema


def predicted_pairs(method: DiffGen | DpC45, schema: Schema) -> Iterator[Pair]:
    """Yield a new extreme value (003-1), an empty group (003-2) and a decisive row (003-5)."""
    target = str(method.target or schema.target)
    row, sizes = rows_by_name(schema), schema.domain.sizes
    names = [name for name in schema.attributes if name != target]
    low, high = dict.fromkeys(names, 0), {name: sizes[name] - 1 for name in names}
    middle = {name: (sizes[name] - 1) // 2 for name in names}
    yes, no = {target: 0}, {target: 1}
    inner = [row(middle | yes)] * 3 + [row(low | no)] * 3
    hints = [
        Within(f"largest of columns.{name}.starts", low=middle[name] + 1)
        for name in names
        if not isinstance(schema.attributes[name], Categorical)
    ]
    yield with_and_without(schema, "a new extreme value (003-1)", inner, [row(high | yes)], *hints)
    full = [row(low | yes)] * 3 + [row(high | yes)] * 2 + [row(high | no)]
    yield with_and_without(schema, "a row in an empty group (003-2)", full, [row(low | no)])
    if len(names) > 1:
        far = {names[0]: sizes[names[0]] - 1}
        even = [row(low | yes)] * 4 + [row(low | {names[1]: sizes[names[1]] - 1} | yes)] * 4
        yield with_and_without(
            schema, "a row that changes the choice (003-5)", even, [row(low | far | no)]
        )


def contingency_pairs(method: ContingencyTable, schema: Schema) -> Iterator[Pair]:
    """Yield an empty cell, which must have noise like any other, and a full one."""
    yield from copies(schema, (0, 5))


def grown(method: DpC45, schema: Schema) -> Prepared:
    """Prepare the fit of a tree, which is all that is published."""

    def run(engine: Engine, noise: Noise) -> Released:
        return Released(tables={}, settings={"tree": asdict(method.fit(engine, noise))})

    return Prepared(method.guarantee(schema), run)


DP_C45: Case[DpC45] = Case(lambda method: predicted_schema(method.target), predicted_pairs, grown)
DIFFGEN: Case[DiffGen] = Case(
    lambda method: predicted_schema(method.target), predicted_pairs, planned
)
CONTINGENCY_TABLE: Case[ContingencyTable] = Case(
    lambda _: counted_schema({}), contingency_pairs, planned
)
TOP_DOWN_SPECIALIZATION: Case[TopDownSpecialization] = Case(
    lambda method: predicted_schema(method.target), no_pairs, planned
)
