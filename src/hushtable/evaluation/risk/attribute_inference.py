"""Attribute inference: guess an unknown value of a person from known values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.evaluation.findings import TEXTS
from hushtable.evaluation.risk.attack import MOST_TARGETS, AttackTables, Outcome, Rate, equal
from hushtable.kernels.nearest import nearest_without_each

TOLERANCE = 0.05
"""A guess in an ordered column is correct within this share of the public range."""

N_BINS = 20
"""Bins of an ordered column in the model."""

MOST_CELLS = 5_000_000
"""Pairs of columns with more combinations are left out of the model."""


_NEAREST = TEXTS["attacker with the nearest record"]
_MODEL = TEXTS["attacker with a model"]


def run(scene: AttackTables, step: Callable[[str], None]) -> Iterator[Outcome]:
    """Run the attack on each column, by nearest record and by model; report each by `step`."""
    if len(scene.names) < 2 or not len(scene.published):
        return
    # All columns are guessed for the same people, so one search finds the nearest records.
    people = scene.targets(scene.original)
    near = _by_nearest(scene, people)
    others = None if scene.control is None else scene.targets(scene.control)
    near_others = None if others is None else _by_nearest(scene, others)
    for place, name in enumerate(scene.names):
        step(f"attribute inference: {name}")
        yield _outcome(
            scene, place, people, near[:, place],
            None if others is None or near_others is None else (others, near_others[:, place]),
            of=f"{name}, nearest record", attacker=_NEAREST.format(name=name),
            sampled=scene.sampled(),
        )  # fmt: skip
        yield _by_model(scene, place)


def _by_model(scene: AttackTables, place: int) -> Outcome:
    model, name = _NaiveBayes(scene, place), scene.names[place]
    people = scene.targets(scene.original, MOST_TARGETS)
    others = None if scene.control is None else scene.targets(scene.control, MOST_TARGETS)
    return _outcome(
        scene, place, people, model.guess(people),
        None if others is None else (others, model.guess(others)),
        of=f"{name}, model", attacker=_MODEL.format(name=name),
        sampled=scene.sampled(MOST_TARGETS), note=model.note,
    )  # fmt: skip


def _outcome(
    scene: AttackTables,
    place: int,
    people: Floats,
    guesses: Floats,
    control: tuple[Floats, Floats] | None,
    *,
    of: str,
    attacker: str,
    sampled: str,
    note: str = "",
) -> Outcome:
    notes = [sampled]
    if scene.ordered[place]:
        notes.append(f"A guess within {TOLERANCE:.0%} of the range is correct.")
    return Outcome(
        name="attribute inference",
        of=of,
        attacker=attacker,
        attack=_hits(scene, place, people, guesses),
        control=None if control is None else _hits(scene, place, *control),
        naive=_constant_guess(scene, place, people),
        note=" ".join([*notes, note]).strip(),
    )


def _hits(scene: AttackTables, place: int, people: Floats, guesses: Floats) -> Rate:
    right = _is_right(people[:, place], guesses, bool(scene.ordered[place]))
    return Rate.of(int(np.count_nonzero(right)), len(people))


def _is_right(truth: Floats, guesses: Floats, is_ordered: bool) -> Bools:
    right = equal(truth, guesses)
    if is_ordered:
        right |= np.abs(truth - guesses) <= TOLERANCE + 1e-12
    return right


def _by_nearest(scene: AttackTables, people: Floats) -> Floats:
    """Guess every column from the record that is nearest in all other columns."""
    nearby = nearest_without_each(people, scene.published, ordered=scene.ordered, seed=scene.seed())
    return np.take_along_axis(scene.published, nearby, axis=0)


def _constant_guess(scene: AttackTables, place: int, people: Floats) -> Rate:
    """Return the success of the best constant guess, from the distribution of values alone.

    The distribution is that of the control group or, without one, of the private table.
    """
    known = scene.original if scene.control is None else scene.control
    values = known[:, place]
    n_missing = np.count_nonzero(np.isnan(values))
    held, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    best = float("nan")
    if len(held):
        reach = TOLERANCE + 1e-12 if scene.ordered[place] else 0.0
        total = np.append(0, np.cumsum(counts))
        first = np.searchsorted(held, held - reach, side="left")
        last = np.searchsorted(held, held + reach, side="right")
        covered = total[last] - total[first]
        if covered.max() >= n_missing:
            best = float(held[np.argmax(covered)])
    return _hits(scene, place, people, np.full(len(people), best))


class _NaiveBayes:
    """Naive Bayes model of a column given the others, fitted to the release."""

    def __init__(self, scene: AttackTables, place: int) -> None:
        self.scene, self.place = scene, place
        self.n_classes = self._n_values(place)
        classes = self._binned(scene.published, place)
        self.prior = np.log(np.bincount(classes, minlength=self.n_classes) + 1.0)
        self.tables: dict[int, Floats] = {}
        left_out = []
        for column in range(len(scene.names)):
            n_values = self._n_values(column)
            if column == place:
                continue
            if n_values * self.n_classes > MOST_CELLS:
                left_out.append(scene.names[column])
                continue
            pairs = self._binned(scene.published, column) * self.n_classes + classes
            counts = np.bincount(pairs, minlength=n_values * self.n_classes) + 1.0
            shares = counts.reshape(n_values, self.n_classes)
            self.tables[column] = np.log(shares / shares.sum(axis=0))
        self.note = (
            f"The model omits columns with too many values: {', '.join(left_out)}."
            if left_out
            else ""
        )

    def guess(self, people: Floats) -> Floats:
        """Return the most likely value of each person, NaN for missing."""
        guesses = np.empty(len(people))
        step = max(1, MOST_CELLS // self.n_classes)
        for start in range(0, len(people), step):
            part = people[start : start + step]
            score = np.tile(self.prior, (len(part), 1))
            for column, table in self.tables.items():
                score += table[self._binned(part, column)]
            guesses[start : start + step] = self._value(np.argmax(score, axis=1))
        return guesses

    def _is_cut(self, column: int) -> bool:
        return bool(self.scene.ordered[column]) and int(self.scene.sizes[column]) > N_BINS

    def _n_values(self, column: int) -> int:
        size = N_BINS if self._is_cut(column) else int(self.scene.sizes[column])
        return size + 1  # missing is last

    def _binned(self, table: Floats, column: int) -> Integers:
        values, size = table[:, column], int(self.scene.sizes[column])
        missing = np.isnan(values)
        filled = np.where(missing, 0.0, values)
        if self._is_cut(column):
            codes = np.minimum(filled * N_BINS, N_BINS - 1)
        elif self.scene.ordered[column]:
            codes = np.rint(filled * max(size - 1, 1))
        else:
            codes = filled
        return np.where(missing, self._n_values(column) - 1, codes).astype(np.int64)

    def _value(self, classes: Integers) -> Floats:
        size = int(self.scene.sizes[self.place])
        values = classes.astype(np.float64)
        if self._is_cut(self.place):
            values = (values + 0.5) / N_BINS
        elif self.scene.ordered[self.place]:
            values /= max(size - 1, 1)
        return np.where(classes == self.n_classes - 1, np.nan, values)
