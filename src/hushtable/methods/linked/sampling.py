"""Synthetic rows of linked tables, drawn from quilts: parents first, then their children.

The quilt of a child table describes the dependence between its columns, and with those of the
parent. Given parents that are already drawn, the right number of children for each is drawn from
that model by Gibbs sweeps over the children's own columns, so keys match by construction. Each
child is drawn several times, and one of these draws is picked so that counts match the model's
expectation rather than vary by chance (`hushtable.methods.linked.balance`). If rows have an order,
they are sorted by it and then arranged (`hushtable.methods.linked.steps`). All of it is
post-processing of noisy tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Codes16, Integers
from hushtable.kernels.sequence import Siblings
from hushtable.methods.linked.balance import balanced, n_draws
from hushtable.methods.linked.steps import TransitionTable, arranged
from hushtable.methods.quilt import particles
from hushtable.methods.quilt.coins import PostprocessingRng
from hushtable.methods.quilt.one_way import OneWayModel
from hushtable.methods.quilt.patchwork import FitState
from hushtable.methods.quilt.prior_weight import PriorRows
from hushtable.methods.quilt.quilt import codes_drawn
from hushtable.query.where.linked_facts import LinkedFact
from hushtable.schema.linked_schema import LinkedSchema

N_SWEEPS = 10
"""Gibbs sweeps over the columns of a child, starting from independent columns."""

_EXTRA_ROWS = 60_000  # particles of the last fit


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """Synthetic rows of one table."""

    codes: dict[str, Integers]  # of its own columns and of those about its child tables
    parent: Integers  # index of each row's parent; empty for persons

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.codes.values())))


def draw_persons(quilt: FitState, n_rows: int) -> LinkedRows:
    """Draw the persons."""
    rows = quilt.model.draw(n_rows)
    names = [known.counted.values.name for known in quilt.columns]
    codes = {name: codes_drawn(quilt, rows, place) for place, name in enumerate(names)}
    return LinkedRows(codes, np.empty(0, np.int64))


def seen_below(
    schema: LinkedSchema, drawn: Mapping[str, LinkedRows], name: str
) -> dict[str, Integers]:
    """Return columns of drawn rows and of their ancestors, by the names used in child tables."""
    mine, above = drawn[name], schema.tables[name].parent
    codes = {f"{name}.{column}": codes for column, codes in mine.codes.items()}
    if above is not None:
        seen = seen_below(schema, drawn, above)
        codes |= {column: of_parents[mine.parent] for column, of_parents in seen.items()}
    return codes


def n_drawn(schema: LinkedSchema, drawn: Mapping[str, LinkedRows], name: str) -> Integers:
    """Return the number of child rows of each parent, at most the bound."""
    table = schema.tables[name]
    told = drawn[table.parent or ""].codes[f"n_{name}"]
    return np.minimum(told, table.max_children or 1)


def draw_children(  # noqa: PLR0917 - what is drawn, from what, and what must hold
    quilt: FitState,
    schema: LinkedSchema,
    drawn: Mapping[str, LinkedRows],
    name: str,
    facts: Mapping[str, LinkedFact],
    steps: Sequence[TransitionTable] = (),
) -> LinkedRows:
    """Draw the rows of a child table for drawn parents, consistent with the parents' facts."""
    table = schema.tables[name]
    sizes = n_drawn(schema, drawn, name)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    turns = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    quilt.model.grow(_EXTRA_ROWS)
    if quilt.model.is_lost:
        quilt.model.restart()
    fixed = seen_below(schema, drawn, table.parent or "")
    codes = {
        column: np.empty(len(owners), np.int64)
        for column in (*table.attributes, *schema.child_columns(name))
    }
    # Successive rows share random numbers (`hushtable.kernels.log_linear.gibbs`), so children of
    # one parent must not be adjacent.
    apart = np.argsort(turns, kind="stable")
    given = {column: seen[owners[apart]] for column, seen in fixed.items()}
    for column, found in _given(quilt, given, [*codes], len(apart)).items():
        codes[column][apart] = found
    children = LinkedRows(codes, owners)
    keep_facts(children, drawn[table.parent or ""], facts, quilt.model.rng)
    if table.order is None:
        return children
    order = np.lexsort((turns, codes[table.order], owners))
    codes = {column: found[order] for column, found in codes.items()}
    if not len(owners):
        return LinkedRows(codes, owners)
    known = {column.counted.values.name: column for column in quilt.columns}
    places = arranged(
        steps,
        {step.column: _buckets(known[step.column], codes[step.column]) for step in steps},
        {column: _buckets(known[column], seen[owners]) for column, seen in fixed.items()},
        Siblings(turns, sizes[owners], _marks(codes, facts, table.order)),
        quilt.model.rng,
    )
    codes = {
        column: found[places[:, 0 if column == table.order else 1]]
        for column, found in codes.items()
    }
    # Within a bucket of the ordering column, rows may be out of order.
    moments = codes[table.order]
    codes[table.order] = moments[np.lexsort((moments, owners))]
    return LinkedRows(codes, owners)


def _marks(codes: Mapping[str, Integers], facts: Mapping[str, LinkedFact], order: str) -> Integers:
    """Return codes of the facts that hold for each row's ordering column and other columns."""
    marks = np.zeros((len(codes[order]), 2), np.int64)
    for fact in facts.values():
        part = 0 if fact.column == order else 1
        marks[:, part] = 2 * marks[:, part] + fact.truth[codes[fact.column]]
    return marks


def _given(
    quilt: FitState, given: Mapping[str, Integers], free: list[str], n_rows: int
) -> dict[str, Integers]:
    """Draw the free columns of rows whose other columns are given."""
    place_of = {known.counted.values.name: place for place, known in enumerate(quilt.columns)}
    rows: Codes16 = np.empty((n_rows, len(quilt.columns)), np.int16)
    for column, codes in given.items():
        rows[:, place_of[column]] = _buckets(quilt.columns[place_of[column]], codes)
    places = [place_of[column] for column in free]
    draws = []
    for _ in range(n_draws(n_rows)):
        draws.append(rows.copy())
        for place in places:
            draws[-1][:, place] = quilt.model.rng.systematic_sample(
                quilt.columns[place].masses, n_rows
            )
        quilt.model.draw_given(draws[-1], places, N_SWEEPS)
    drawn = particles.SampledParticles(balanced(quilt.model, draws, places), np.arange(n_rows))
    return {column: codes_drawn(quilt, drawn, place_of[column]) for column in free}


def _buckets(known: OneWayModel, codes: Integers) -> Integers:
    """Return the buckets of codes of the schema."""
    values = known.counted.values
    counted = PriorRows({values.name: codes}).values(values)
    assert counted is not None  # noqa: S101 - it has the column
    return known.buckets[counted]


# --- facts ----------------------------------------------------------------------------------------


def keep_facts(
    children: LinkedRows,
    parents: LinkedRows,
    facts: Mapping[str, LinkedFact],
    rng: PostprocessingRng,
) -> None:
    """Change as few drawn children as possible until the facts of their parents hold, in place.

    Replace a disallowed child's value by an allowed one; if a fact requires a child, give one child
    a value that satisfies it. Then recompute the facts of parents from their children, since facts
    may contradict each other or have no matching value.
    """
    for column in dict.fromkeys(fact.column for fact in facts.values()):
        mine = {name: fact for name, fact in facts.items() if fact.column == column}
        _balance(children, parents, column, mine, rng)
    for name, fact in facts.items():
        holds = np.zeros(parents.n_rows, np.int64)
        holds[children.parent[fact.truth[children.codes[fact.column]]]] = 1
        parents.codes[name][:] = holds


def _balance(
    children: LinkedRows,
    parents: LinkedRows,
    column: str,
    facts: Mapping[str, LinkedFact],
    rng: PostprocessingRng,
) -> None:
    """Change one column of children to satisfy the facts about it."""
    codes, owners = children.codes[column], children.parent
    pool = codes.copy()
    pattern = np.zeros(parents.n_rows, np.int64)
    for name in facts:
        pattern = 2 * pattern + parents.codes[name]
    for kind in np.unique(pattern[owners]):
        rows = np.flatnonzero(pattern[owners] == kind)
        flags = [bool(kind >> place & 1) for place in reversed(range(len(facts)))]
        truths = [fact.truth for fact in facts.values()]
        barred = np.zeros(len(truths[0]), bool)
        for flag, truth in zip(flags, truths, strict=True):
            barred |= truth & (not flag)
        _replace(codes, rows[barred[codes[rows]]], pool[~barred[pool]], rng)
        for flag, truth in zip(flags, truths, strict=True):
            if not flag:
                continue
            wanted = truth & ~barred
            has = np.zeros(parents.n_rows, bool)
            has[owners[rows[wanted[codes[rows]]]]] = True
            # Choose one random child of each parent without a match.
            lacking = rng.shuffle(rows[~has[owners[rows]]])
            one = lacking[np.unique(owners[lacking], return_index=True)[1]]
            _replace(codes, one, pool[wanted[pool]], rng)


def _replace(codes: Integers, rows: Integers, pool: Integers, rng: PostprocessingRng) -> None:
    """Replace the values of rows by values from a pool, if it has any."""
    if len(rows) and len(pool):
        codes[rows] = pool[rng.systematic_sample(np.ones(len(pool)), len(rows))]
