"""Synthetic rows of linked tables, drawn from quilts: parents first, then their children.

The quilt of a child table describes the dependence of its columns on each other and on those of its
ancestors. Each drawn parent has a number of children. They are drawn from that model by Gibbs
sweeps over the children's own columns, so keys match by construction. Each child is drawn several
times, and one of these draws is picked so that counts match the model's expectation rather than
vary by chance (`balanced`). If rows have an order, they are sorted by it and then swapped to match
the measured transitions (`arranged`).

`measure_steps` measures transitions with noise. Everything else is post-processing of noisy tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.kernels import row_exchange
from hushtable.kernels.row_exchange import Siblings
from hushtable.methods.quilt import particles
from hushtable.methods.quilt.budget import BudgetShares, TableNoise
from hushtable.methods.quilt.fit import FitState, divided
from hushtable.methods.quilt.model import LogLinearModel
from hushtable.methods.quilt.one_way import OneWayModel
from hushtable.methods.quilt.particles import PostprocessingRng
from hushtable.methods.quilt.prior_weight import PriorRows
from hushtable.methods.quilt.quilt import codes_drawn
from hushtable.privacy.noise.noise import Noise
from hushtable.query.where.rules import LinkedFact
from hushtable.schema.linked_schema import PREVIOUS, LinkedSchema

# Choice among several draws of child rows, so that counts match the model given the parents.
#
# Counts of independently drawn rows vary by chance, by the square root of each count, which is as
# large as the noise of a table if rows are few. So each row is drawn several times, and one of
# these draws is picked: counts of pairs of its own columns, and of these with its parent's, come
# close to the model's expectation. Every draw was made for this parent.

N_DRAWS = 4
"""Number of draws of each row, unless there are very many rows."""

MANY = 1_000_000
"""If there are more rows, chance matters less than noise: each is drawn once."""

_N_SWEEPS = 3


def n_draws(n_rows: int) -> int:
    """Return the number of draws of each row."""
    return N_DRAWS if 0 < n_rows <= MANY else 1


def balanced(field: LogLinearModel, draws: Sequence[Codes16], own: Sequence[int]) -> Codes16:
    """Pick one of several draws for each row.

    Parameters
    ----------
    field : LogLinearModel
        The model.
    draws : sequence of int arrays (row, column)
        Draws of all rows, which differ only in the columns `own`.
    own : sequence of int
        The rows' own columns; the others are the parents'.
    """
    above = [column for column in range(len(field.sizes)) if column not in own]
    pairs = [*combinations(own, 2), *product(own, above)]
    if len(draws) == 1 or not pairs:
        return draws[0]
    found = particles.tables_of(draws[0], np.ones(len(draws[0])), field.sizes, pairs)
    wanted = []
    for pair, seen, expected in zip(pairs, found, field.answers(pairs), strict=True):
        if pair[1] in own:
            wanted.append(expected * (seen.sum() / max(float(expected.sum()), 1e-300)))
        else:  # the parents determine the number of children by parent column
            share = expected / np.maximum(expected.sum(axis=0), 1e-300)
            wanted.append(share * seen.sum(axis=0))
    flat = np.concatenate([table.ravel() for table in wanted])
    first, second = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    tables = row_exchange.PairTables(
        first,
        second,
        np.array(field.sizes, np.int64)[second],
        np.cumsum([0, *(table.size for table in wanted)])[:-1].astype(np.int64),
        1 / (flat + 1.0),  # inverse of the sampling variance
    )
    excess = np.concatenate([table.ravel() for table in found]) - flat
    together = np.stack(draws)
    picked = np.zeros(len(draws[0]), np.int64)
    order = np.arange(len(picked))
    for _ in range(_N_SWEEPS):
        field.rng.shuffle(order)
        row_exchange.pick(together, picked, order, excess, tables)
    chosen: Codes16 = together[picked, np.arange(len(picked))]
    return chosen


# Transitions between successive rows of one parent: measurement, and arrangement of drawn rows.
#
# For a table with an order, each of its columns is counted jointly with the same column of the
# previous row, in the buckets of the table's quilt, over the rows that have a previous one. A
# person has no more such rows than counted rows, so the sensitivity is the same (``linked.md``).
#
# Drawn rows are then swapped, two at a time, between parents and among siblings. A swap is kept if
# it brings these counts closer to the measured ones than it moves others away from those drawn (of
# two columns of a row, and of a column and one of the parent), in squared excess divided by the
# wanted count. All columns of a row except the ordering column are swapped together, so the
# dependence between them does not change.

STEP_SHARE = 0.2
"""Share of a table's budget for transitions, if it has an order."""

TRIES_PER_ROW = 60
MAX_TRIES = 6_000_000


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """A noisy table of a column by the same column of the previous row."""

    column: str
    counts: Integers  # noisy, by bucket and previous bucket
    noise: TableNoise

    def target(self, rows: Integers, before: Integers) -> Floats:
        """Return the wanted number of rows in each cell, from the measured counts.

        Both one-way marginals are those of the drawn rows. The deviation of the measured counts
        from independence is shrunk as far as noise explains it (James and Stein 1961).
        """
        shape = self.counts.shape
        margins = (np.bincount(side, minlength=shape[0]) for side in (rows, before))
        n = float(len(rows))
        independent = np.outer(*margins) / max(n, 1.0)
        scale = n / max(float(self.counts.sum()), 1.0)
        gap = self.counts * scale - independent
        gap -= gap.mean(axis=0, keepdims=True)
        gap -= gap.mean(axis=1, keepdims=True)
        free = (shape[0] - 1) * (shape[1] - 1)
        squares = float(np.square(gap).sum())
        kept = max(0.0, 1 - (self.noise.std * scale) ** 2 * free / max(squares, 1e-300))
        wanted: Floats = np.maximum(independent + kept * gap, 0.0)
        return wanted


def measure_steps(
    table: SealedTable, quilt: FitState, columns: Sequence[str], noise: Noise, budget: BudgetShares
) -> list[TransitionTable]:
    """Measure the transitions of each column, with equal shares."""
    merging = quilt.merging()
    sizes = {known.counted.values.name: known.n_buckets for known in quilt.columns}
    recode = {name: merging[name] for name in columns if name in merging}
    recode |= {f"{PREVIOUS}.{name}": merging[name] for name in columns if name in merging}
    sealed = table.marginals([[name, f"{PREVIOUS}.{name}"] for name in columns], recode=recode)
    made = []
    shares = divided(1.0, [1.0] * len(columns))
    for name, counts, share in zip(columns, sealed, shares, strict=True):
        what = f"steps of {name}"
        law = budget.count_noise(share)
        noisy = noise.open(counts.ravel(), law.law, what)
        made.append(TransitionTable(name, np.asarray(noisy).reshape(sizes[name], sizes[name]), law))
    return made


def arranged(
    steps: Sequence[TransitionTable],
    own: Mapping[str, Integers],
    above: Mapping[str, Integers],
    kin: row_exchange.Siblings,
    rng: PostprocessingRng,
) -> Integers:
    """Return the indices of the drawn rows that supply the values of each arranged row.

    The result has shape (row, 2): the row that supplies the value of the ordering column, and the
    one that supplies all other columns.

    Parameters
    ----------
    steps : sequence of TransitionTable
        The measured transitions, that of the ordering column first.
    own, above : mapping of str to int array
        Buckets of the rows' own columns, in the order of `steps`, and of their ancestors' columns;
        rows of one parent are contiguous and in order.
    kin : Siblings
        Position of each row among its siblings.
    rng : PostprocessingRng
        Random number generator.
    """
    columns = [*own.values(), *above.values()]
    rows = np.stack(columns, axis=1).astype(np.int16)
    n, n_own = len(rows), len(own)
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    for place, step in enumerate(steps):
        sizes[place] = step.counts.shape[0]
    after = np.flatnonzero(kin.turns > 0)
    beside = [(a, b) for a, b in product(range(n_own), range(n_own, len(columns)))]
    beside += [(0, b) for b in range(1, n_own)]
    kinds = [row_exchange.BESIDE] * len(beside) + [row_exchange.BEFORE] * n_own
    pairs = [*beside, *((place, place) for place in range(n_own))]
    wanted = [_cells(columns[a], columns[b], sizes[a], sizes[b]) for a, b in beside]
    excess = [np.zeros(len(cells)) for cells in wanted]
    for place, step in enumerate(steps):
        now, before = columns[place][after], columns[place][after - 1]
        wanted.append(step.target(now, before).ravel())
        excess.append(_cells(now, before, sizes[place], sizes[place]) - wanted[-1])
    first, second = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    counted = row_exchange.SequenceTables(
        np.array(kinds, np.int64),
        first,
        second,
        np.array(sizes, np.int64)[second],
        np.cumsum([0, *(len(cells) for cells in excess)])[:-1].astype(np.int64),
        1 / (np.concatenate(wanted) + 1.0),  # inverse of the sampling variance
    )
    places = np.stack([np.arange(n), np.arange(n)], axis=1)
    if len(after):
        tries = min(TRIES_PER_ROW * n, MAX_TRIES)
        flat = np.concatenate(excess)
        row_exchange.arrange(rows, kin, places, n_own, flat, counted, tries, rng.state)
    return places


def _cells(one: Integers, two: Integers, n_one: int, n_two: int) -> Floats:
    """Count pairs of codes; the result is flat, in C order."""
    return np.bincount(one * n_two + two, minlength=n_one * n_two).astype(np.float64)


N_SWEEPS = 10
"""Gibbs sweeps over the columns of a child, starting from independent columns."""

_EXTRA_ROWS = 60_000  # minimum number of particles of the last fit


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """Synthetic rows of one table."""

    codes: dict[str, Integers]  # codes of its own columns and of the columns about its child tables
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
    """Return the number of child rows of each drawn parent, at most `max_children`."""
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
    quilt.model.recover()
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
    """Encode which facts hold for each row; shape (row, 2).

    The first code is for facts about the ordering column, the second for those about the others.
    """
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
    """Change values of drawn children, in place, so that the facts of their parents hold.

    Replace a disallowed child's value by an allowed one; if a fact requires a child, give one child
    a value that satisfies it. Other children are not changed. Then recompute the facts of parents
    from their children, since facts may contradict each other or have no matching value.
    """
    for column in dict.fromkeys(fact.column for fact in facts.values()):
        mine = {name: fact for name, fact in facts.items() if fact.column == column}
        _balance(children, parents, column, mine, rng)
    set_facts(children, parents, facts)


def set_facts(children: LinkedRows, parents: LinkedRows, facts: Mapping[str, LinkedFact]) -> None:
    """Compute the facts of parents from their children, in place."""
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
