"""Singling out: a predicate that matches one published record and one person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.evaluation.findings import TEXTS, metric_named
from hushtable.evaluation.risk.attack import AttackTables, Outcome, Rate

N_GUESSES = 500
N_TRIES_PER_GUESS = 4
"""Maximum number of predicates sampled per guess that is wanted."""

EXACT = 0.5
"""Probability that a predicate tests an ordered column for equality, not for an inequality."""

EQUAL, AT_MOST, AT_LEAST = range(3)

_ATTACKER = TEXTS["attacker who singles out"]
_KINDS = {
    "one column": "a value of one column",
    "several columns": "a combination of values of several columns",
}

ON_ALL_ROWS = metric_named("singled out among all rows")


@dataclass(frozen=True)
class Description:
    """A predicate on records: columns, relations and values (NaN for missing)."""

    columns: tuple[int, ...]
    relations: tuple[int, ...]
    values: tuple[float, ...]

    def count(self, table: Floats, *, most: int = 2) -> int:
        """Count the matching rows, up to `most`; column-major order of the table is faster."""
        rows: Integers | None = None
        for column, relation, value in zip(self.columns, self.relations, self.values, strict=True):
            held = table[:, column] if rows is None else table[rows, column]
            if np.isnan(value):
                fits = np.isnan(held)
            elif relation == EQUAL:
                fits = held == value
            else:
                fits = held <= value if relation == AT_MOST else held >= value
            rows = np.flatnonzero(fits) if rows is None else rows[fits]
            if not len(rows):
                return 0
        return most if rows is None else min(len(rows), most)


def run(scene: AttackTables) -> list[Outcome]:
    """Run the attack with one column and with several."""
    by_columns = np.asfortranarray(scene.published)
    found = {"one column": _single_columns(scene, by_columns)}
    if len(scene.names) > 1:
        found["several columns"] = _combinations(scene, by_columns)
    # Uniqueness depends on the number of rows, so all tables have the same number.
    n = len(scene.original)
    n_rows = n if scene.control is None else min(n, len(scene.control))
    everyone = np.asfortranarray(scene.original)
    original = everyone if n_rows == n else _sample(scene, scene.original, n_rows)
    control = None if scene.control is None else _sample(scene, scene.control, n_rows)
    return [
        _outcome(kind, guesses, scene, original=original, everyone=everyone, control=control)
        for kind, guesses in found.items()
    ]


def _outcome(
    kind: str,
    guesses: list[Description],
    scene: AttackTables,
    *,
    original: Floats,
    everyone: Floats,
    control: Floats | None,
) -> Outcome:
    notes, details = [], []
    if not guesses:
        notes.append(TEXTS["no predicates"])
    if len(original) < len(everyone):
        notes.append(TEXTS["as many rows as the control"].format(n=len(original)))
        whole = _rate(guesses, everyone)
        details.append(ON_ALL_ROWS.at(whole.value, of=kind, low=whole.low, high=whole.high))
    return Outcome(
        name="singling out",
        of=kind,
        attacker=_ATTACKER.format(what=_KINDS[kind]),
        attack=_rate(guesses, original),
        control=None if control is None else _rate(guesses, control),
        naive=_rate([_blind(guess, scene) for guess in guesses], original),
        note=" ".join(notes),
        details=tuple(details),
    )


def _rate(guesses: list[Description], table: Floats) -> Rate:
    return Rate.of(sum(guess.count(table) == 1 for guess in guesses), len(guesses))


def _sample(scene: AttackTables, table: Floats, n_rows: int) -> Floats:
    return np.asfortranarray(table[scene.rng.choice(len(table), n_rows, replace=False)])


def _single_columns(scene: AttackTables, published: Floats) -> list[Description]:
    """Return predicates for values that occur once, and for unique extremes of ordered columns."""
    found: dict[tuple[int, int, float], Description] = {}
    for column in range(len(scene.names)):
        for relation, value in _rare(published[:, column], bool(scene.ordered[column])):
            key = (column, relation, -1.0 if np.isnan(value) else value)
            found[key] = Description((column,), (relation,), (value,))
    guesses = list(found.values())
    if len(guesses) > N_GUESSES:
        chosen = scene.rng.choice(len(guesses), N_GUESSES, replace=False)
        guesses = [guesses[place] for place in chosen]
    return guesses


def _rare(values: Floats, is_ordered: bool) -> Iterator[tuple[int, float]]:
    missing = np.isnan(values)
    if np.count_nonzero(missing) == 1:
        yield EQUAL, np.nan
    held = np.sort(values[~missing])
    starts = np.flatnonzero(np.diff(held, prepend=-np.inf))
    alone = held[starts[np.diff(np.append(starts, len(held))) == 1]].tolist()
    if is_ordered and alone:
        if alone[0] == held[0]:
            yield AT_MOST, alone[0]
        if alone[-1] == held[-1]:
            yield AT_LEAST, alone[-1]
    for value in alone:
        yield EQUAL, value


def _combinations(scene: AttackTables, published: Floats) -> list[Description]:
    """Return predicates on random columns of random records that match exactly one record."""
    n, d = published.shape
    if not n:
        return []
    rng = scene.rng
    with np.errstate(all="ignore"):
        middle = np.array(
            [np.median(c[~np.isnan(c)]) if not np.isnan(c).all() else 0.0 for c in published.T]
        )
    found: dict[tuple[object, ...], Description] = {}
    for _ in range(N_GUESSES * N_TRIES_PER_GUESS):
        record = published[rng.integers(n)]
        # Unordered columns first: they leave the fewest rows to check.
        columns = sorted(
            rng.choice(d, rng.integers(2, d + 1), replace=False).tolist(),
            key=lambda column: (bool(scene.ordered[column]), column),
        )
        exact = rng.random(len(columns)) < EXACT
        outward = np.where(record >= middle, AT_LEAST, AT_MOST)
        relations = [
            EQUAL if not scene.ordered[column] or same else int(outward[column])
            for column, same in zip(columns, exact, strict=True)
        ]
        guess = Description(tuple(columns), tuple(relations), tuple(record[columns].tolist()))
        key = (guess.columns, guess.relations, str(guess.values))
        if key not in found and guess.count(published) == 1:
            found[key] = guess
            if len(found) == N_GUESSES:
                break
    return list(found.values())


def _blind(guess: Description, scene: AttackTables) -> Description:
    """Return a predicate of the same form with random values of the public domain."""
    values = []
    for column in guess.columns:
        code = float(scene.rng.integers(scene.sizes[column]))
        scale = max(int(scene.sizes[column]) - 1, 1) if scene.ordered[column] else 1
        values.append(code / scale)
    return Description(guess.columns, guess.relations, tuple(values))
