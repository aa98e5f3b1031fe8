"""Worst cases of the alpha-beta algorithm and of FRAPP."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hushtable.audit.cases.case import Case, planned
from hushtable.audit.cases.made_up import counted_schema, made_schema, whole
from hushtable.audit.events import Several, Within
from hushtable.audit.inputs import TableInput
from hushtable.audit.neighbors import Pair, corner_cells, with_and_without
from hushtable.audit.subject import Prepared
from hushtable.engine.base import Engine
from hushtable.methods.alpha_beta.alpha_beta import AlphaBeta
from hushtable.methods.alpha_beta.frapp import Frapp
from hushtable.methods.base import Released
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema

_MEMORY = Path("/dev/shm")  # noqa: S108 - new folders there are private to the user
_MOST_TUPLES = 1000  # of the domain: each run inserts some of them


def set_schema(method: AlphaBeta) -> Schema:
    """Return a schema with a domain of some tuples, or with the columns that have a source."""
    columns = {name: whole(len(weights)) for name, weights in method.source.items()}
    if method.d is None:
        return made_schema(columns or {"x": whole(8)})
    # Large enough that, given the number of tuples, each has prior probability at most d.
    size = math.ceil((method.n_public or 1) / method.d)
    schema = made_schema({"x": whole(min(max(size, 8), _MOST_TUPLES))})
    return schema if method.n_public else schema.model_copy(update={"rows": 1})


def set_pairs(method: AlphaBeta, schema: Schema) -> Iterator[Pair]:
    """Yield tables with and without a tuple, alone and with others (004-1).

    With several views, the tuple may be in all or in none (004-2). If rows are counted, the table
    may already contain the tuple: one time less than the maximum, or as often.
    """
    one, *others = corner_cells(schema, 3)
    hints: list[Several] = []
    if method.views > 1:
        columns = schema.attributes.values()
        shown = ",".join(str(column.value(code)) for column, code in zip(columns, one, strict=True))
        seen = tuple(Within(f"data[{shown},{view}]") for view in range(1, method.views + 1))
        hints = [Several(method.views, seen), Several(1, seen)]
    copies = [[one] * n for n in (method.max_copies - 1, method.max_copies) if n > 1]
    for base in ([], others, [others[0]] * 5, *copies):
        yield with_and_without(schema, f"a tuple and {len(base)} rows", base, [one], *hints)


def exchanged_pairs(method: Frapp, schema: Schema) -> Iterator[Pair]:
    """Yield tables in which one row replaces another."""
    one, two, *_ = corner_cells(schema)
    for others in ((), (one, two)):
        yield Pair(
            f"a replaced row and {len(others)} others",
            TableInput(schema, (one, *others)),
            TableInput(schema, (two, *others)),
        )


def all_views(method: AlphaBeta, schema: Schema) -> Prepared:
    """Prepare all views of a table that does not change, with their own stored random bits."""
    plan = method.plan(schema)
    if method.views == 1:
        return Prepared(plan.guarantees, plan.run)

    def run(engine: Engine, noise: Noise) -> Released:
        # These random bits need not survive a power failure, so memory is used if possible.
        with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
            remembering = replace(plan, method=replace(method, coins=Path(folder) / "coins"))
            for _ in range(method.views):
                released = remembering.run(engine, noise)
            return released

    return Prepared(plan.guarantees, run)


ALPHA_BETA = Case(set_schema, set_pairs, all_views)
FRAPP: Case[Frapp] = Case(lambda _: counted_schema({}), exchanged_pairs, planned)
