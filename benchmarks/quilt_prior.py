"""Accuracy of quilt with a prior, and its loss with a wrong prior.

``python -m benchmarks.quilt_prior [--data FOLDER] [--runs N] [--questions N]``

The private table is the part of Adult that was used for tuning (`benchmarks.peers.data.half`). In
the previous year, 5% of its rows were different, all of young people, and it was published at
epsilon 1. Now it is published at epsilon 0.1:

- ``none``: without a prior, and for comparison also at epsilon 0.5;
- ``year before``: with the release of the previous year;
- ``sample``: with a public sample of 1,000 other people;
- ``shuffled``: with independent columns that have the true one-way shares;
- ``relabeled``: with the table itself, after a random permutation of each column's values;
- ``even``: with 5,000 uniform rows from the domain;
- ``women``: with a different population, the women among other people.

Errors are mean total variation distances of the published rows, over single columns and over all
pairs. Coverage is that of the 95% intervals of random conditions (`benchmarks.quilt_coverage`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.peers.data import Codes, Table, half, load
from benchmarks.quilt_coverage import SHARED, questions, truths
from hushtable.methods.quilt.quilt import Quilt
from hushtable.publishing.publish import publish
from hushtable.release.release import Release

CHANGED = 0.05
DELTA = "1e-9"


def errors(table: Table, rows: Codes) -> tuple[float, float]:
    """Return the mean total variation distances of single columns and of pairs."""
    return _distance(table, rows, 1), _distance(table, rows, 2)


def _distance(table: Table, rows: Codes, order: int) -> float:
    found = []
    for group in combinations(range(len(table.sizes)), order):
        shares = []
        for codes in (table.train, rows):
            cells = np.zeros(len(codes), np.int64)
            for column in group:
                cells = cells * table.sizes[column] + codes[:, column]
            size = int(np.prod([table.sizes[column] for column in group]))
            shares.append(np.bincount(cells, minlength=size) / len(codes))
        found.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(found))


def year_before(table: Table, rng: np.random.Generator) -> Codes:
    """Return the table with some rows replaced by young people who are not in it."""
    before = table.train.copy()
    n_changed = int(CHANGED * len(before))
    age = next(i for i, column in enumerate(table.columns) if column.name == "age")
    young = table.test[np.argsort(table.test[:, age], kind="stable")[: len(table.test) // 3]]
    gone = rng.choice(len(before), n_changed, replace=False)
    before[gone] = young[rng.choice(len(young), n_changed)]
    return before


def wrong(table: Table, rng: np.random.Generator) -> Iterator[tuple[str, Codes]]:
    """Yield public tables with little information, with none, and with wrong information."""
    yield "sample", table.test[rng.choice(len(table.test), 1000, replace=False)]
    yield "shuffled", np.stack([rng.permutation(codes) for codes in table.train.T], axis=1)
    renamed = [
        rng.permutation(size)[codes] for size, codes in zip(table.sizes, table.train.T, strict=True)
    ]
    yield "relabeled", np.stack(renamed, axis=1)
    yield "even", np.stack([rng.integers(0, size, 5000) for size in table.sizes], axis=1)
    sex = next(i for i, column in enumerate(table.columns) if column.name == "sex")
    yield "women", table.test[table.test[:, sex] == table.test[:, sex].min()]


class Scores:
    """Errors and coverage of releases, by case."""

    def __init__(self, table: Table, n_questions: int) -> None:
        self.table, self.n_questions = table, n_questions
        self.found: dict[str, list[tuple[float, ...]]] = {}

    def add(self, case: str, make: Callable[[], Release], seed: int) -> None:
        start = time.process_time()
        release = make()
        spent = time.process_time() - start
        asked = list(questions(self.table, self.n_questions, seed))
        answers = [release.count(where) for where, _ in asked]
        held = [
            a.low <= t <= a.high for a, t in zip(answers, truths(self.table, asked), strict=True)
        ]
        width = float(np.median([(a.high - a.low) / 2 for a in answers])) if answers else np.nan
        scores = errors(self.table, self.table.codes(release.frame()))
        coverage = float(np.mean(held)) if held else np.nan
        self.found.setdefault(case, []).append((*scores, coverage, width, spent))
        print(f"  {case}: {scores[1]:.4f}, held {coverage:.3f}, {spent:.1f} s", flush=True)

    def show(self) -> None:
        print("| prior | epsilon | single columns | pairs | coverage | half width | CPU s |")
        print("|" + " --- |" * 7)
        for case, rows in self.found.items():
            one, two, held, width, spent = np.mean(rows, axis=0)
            off = np.std(np.array(rows)[:, 1], ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else 0.0
            print(
                f"| {case} | {one:.4f} | {two:.4f} +- {off:.4f} | {100 * held:.1f} % | "
                f"{width:.0f} | {spent:.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quilt_prior")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HUSHTABLE_DATA", SHARED)))
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--questions", type=int, default=100, help="questions to each release")
    given = parser.parse_args()
    table = half(load("adult", given.data))
    scores = Scores(table, given.questions)
    for run in range(given.runs):
        rng = np.random.default_rng(run)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)

            def released(
                case: str, epsilon: str, prior: Path | None, folder: Path = folder
            ) -> Release:
                why = "made for this benchmark" if prior and prior.is_file() else None
                method = Quilt(epsilon=epsilon, delta=DELTA, prior=prior, prior_public=why)
                rows = table.arrow(table.train)
                return publish(rows, table.schema, method, out=folder / f"{case}-{epsilon}")

            for epsilon in ("0.1", "0.5"):
                scores.add(f"none | {epsilon}", lambda e=epsilon: released("none", e, None), run)
            before = table.arrow(year_before(table, rng))
            last = folder / "last"
            publish(before, table.schema, Quilt(epsilon=1, delta=DELTA), out=last)
            scores.add("year before | 0.1", lambda p=last: released("year", "0.1", p), run)
            for case, rows in wrong(table, rng):
                file = folder / f"{case}.parquet"
                pq.write_table(table.arrow(rows), file)
                scores.add(f"{case} | 0.1", lambda c=case, f=file: released(c, "0.1", f), run)
    scores.show()


if __name__ == "__main__":
    main()
