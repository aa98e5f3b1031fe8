"""Coverage of intervals in a series of 12 waves: regular, with a break, and with a season.

``python -m benchmarks.series_kinds FOLDER [--kind regular|break|season] [--people N] [--seeds N]``

A generated register of six columns changes by 3% per wave. With ``break``, the number of people
with a benefit doubles in wave 7. With ``season``, one column rises and falls over twelve waves. The
series are published once into FOLDER and reused, so that changed answers are measured on the same
releases. (Projections of earlier waves are part of a release; remove FOLDER to measure changes to
them.)

For waves 3, 6, 7, 9 and 12, as asked right after the wave (levels, changes and trends) and of
releases themselves, the benchmark prints the coverage of 95% intervals, the mean half-width, and
the half-width of an independent release with the same promise for all waves (``alone``).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan
from hushtable.series.plan import largest_epsilon, slope_weights
from hushtable.series.waves import Waves

WAVES, ASKED, BREAK, CHANGE = 12, (3, 6, 7, 9, 12), 7, 0.03
SIZES = {"age": 10, "sex": 2, "region": 8, "benefit": 3, "income": 10, "work": 2}
LISTS = ("sex", "region", "benefit", "work")
QUESTIONS = (
    "sex = '1'", "age >= 6", "age >= 3 AND age <= 5", "region IN ('0', '1')", "region = '5'",
    "benefit = '1'", "benefit = '0'", "income >= 6", "income <= 2", "work = '1'",
    "sex = '1' AND age >= 6", "region = '1' AND income >= 5", "benefit = '1' AND sex = '0'",
    "benefit = '1' AND income <= 3", "work = '1' AND age <= 4", "work = '1' AND region = '0'",
    "age >= 5 AND income >= 5", "sex = '1' AND age >= 4 AND income >= 4",
    "region IN ('2', '3') AND benefit = '1' AND sex = '1'",
)  # fmt: skip


def drawn(rng: np.random.Generator, n: int, wave: int, kind: str) -> np.ndarray[Any, Any]:
    """Draw people as they are in a wave."""
    age = np.minimum(rng.gamma(3, 1.6, n).astype(int), 9)
    sex = rng.integers(0, 2, n)
    region = rng.choice(8, n, p=np.arange(8, 0, -1) / 36)
    income = np.clip(rng.normal(2 + 0.5 * age - 0.04 * age**2 + 0.6 * sex, 2).round(), 0, 9)
    poor = 0.05 + 0.25 * (income <= 2)
    if kind == "break" and wave >= BREAK:
        poor = 2 * poor
    benefit = (rng.random(n) < poor) * np.where(rng.random(n) < 0.7, 1, 2)
    season = 0.08 * np.sin(2 * np.pi * wave / 12) if kind == "season" else 0.0
    work = rng.random(n) < 0.35 + season + 0.03 * (income - 4)
    return np.stack([age, sex, region, benefit, income, work], axis=1).astype(np.int64)


def lived(people: int, kind: str, seed: int) -> list[np.ndarray[Any, Any]]:
    """Simulate all waves; a person's number is the row's place, new people replace old ones."""
    rng = np.random.default_rng(seed)
    ids, table = np.arange(people), drawn(rng, people, 1, kind)
    found = [np.column_stack([ids, table])]
    for wave in range(2, WAVES + 1):
        table, ids = table.copy(), ids.copy()
        moved = rng.choice(people, round(CHANGE * people), replace=False)
        table[moved] = drawn(rng, len(moved), wave, kind)
        ids[moved[::2]] = ids.max() + 1 + np.arange(len(moved[::2]))
        if kind == "break" and wave == BREAK:
            new = drawn(rng, people, wave, kind)[:, 3]
            table[:, 3] = np.where(table[:, 3] > 0, table[:, 3], new)
        if kind == "season":
            table[:, 5] = drawn(rng, people, wave, kind)[:, 5]
        found.append(np.column_stack([ids, table]))
    return found


def schema() -> Schema:
    """Return the schema of the register."""
    columns: dict[str, Any] = {"id": {"role": "identifier"}}
    for name, size in SIZES.items():
        listed = {"type": "categorical", "values": [str(v) for v in range(size)]}
        columns[name] = listed if name in LISTS else {"type": "integer", "low": 0, "high": size - 1}
    unit = {"kind": "person", "column": "id", "max_rows": 1}
    return Schema.from_dict({"name": "register", "unit": unit, "columns": columns})


def table_of(rows: np.ndarray[Any, Any]) -> pa.Table:
    """Return a wave as a table of the schema."""
    columns: dict[str, Any] = {"id": rows[:, 0]}
    for place, name in enumerate(SIZES, 1):
        columns[name] = rows[:, place].astype(str) if name in LISTS else rows[:, place]
    return pa.table(columns)


def answers_after(series: Series, wave: int) -> Any:
    """Return the answers as they were right after a wave."""
    from hushtable.series.estimates import SeriesAnswers

    whole = series.waves()
    known = [one for one in whole.waves if one.number <= wave]
    return SeriesAnswers(Waves(known, whole.first, whole.supposed))


def main() -> None:
    """Publish what is missing, ask, and print a line per kind of answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", default="regular", choices=("regular", "break", "season"))
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=1)
    given = parser.parse_args()
    held: dict[Any, list[bool]] = defaultdict(list)
    widths: dict[Any, list[float]] = defaultdict(list)
    plan = SeriesPlan(epsilon=2, delta="1e-6", waves=WAVES, change=CHANGE)
    alone = Quilt(epsilon=largest_epsilon(plan.rho / WAVES, plan.wave_delta, plan.epsilon),
                  delta=plan.wave_delta, accounting="concentrated")  # fmt: skip
    for seed in range(given.first, given.first + given.seeds):
        tables = lived(given.people, given.kind, seed)
        folder = given.folder / f"{given.kind}-{seed}"
        given.folder.mkdir(parents=True, exist_ok=True)
        there = folder.exists()
        series = Series.open(folder) if there else Series.create(folder, schema(), plan)
        for wave in range(1 + max(series.published(), default=0), WAVES + 1):
            series.publish(table_of(tables[wave - 1]), wave=wave)
        one = folder / "alone"
        if not one.exists():
            noise = SeededNoise(1000 + seed)
            publish(table_of(tables[-1]), schema(), alone, out=one, noise=noise, anyway=True)

        single = Release.load(one)
        for wave in ASKED:
            after, own = answers_after(series, wave), series.release(wave)
            for where in QUESTIONS:
                query = where.replace("=", "==").replace(">==", ">=").replace("<==", "<=")
                frames = [table_of(rows).to_pandas() for rows in tables[:wave]]
                true = np.array(
                    [
                        len(f.query(query.replace(" IN ", " in ").replace("AND", "and")))
                        for f in frames
                    ]
                )
                columns = where.count("AND") + 1 - ("age <= 5" in where)
                of = "benefit" if "benefit" in where else "work" if "work" in where else "others"
                found = {
                    "release": (own.count(where), true[-1]),
                    "level": (after.level(where), true[-1]),
                    "change": (after.change(where, wave - 1), true[-1] - true[-2]),
                    "trend": (after.trend(where), float(slope_weights(after.numbers) @ true)),
                }
                if wave == WAVES:
                    found["alone"] = (single.count(where), true[-1])
                for name, (answer, truth) in found.items():
                    for key in (
                        (name, wave),
                        (name, f"{columns} columns"),
                        (name, of),
                        (name, "all"),
                    ):
                        held[key].append(answer.low <= truth <= answer.high)
                        widths[key].append((answer.high - answer.low) / 2)
                    widths[name, "width", wave, min(columns, 2), of].append(
                        (answer.high - answer.low) / 2
                    )
    for key, hits in sorted(held.items(), key=str):
        print(f"{key[0]:8} {key[1]!s:10} {100 * np.mean(hits):6.1f}% of {len(hits):4} "
              f"half-width {np.mean(widths[key]):8.1f}")  # fmt: skip
    for key in sorted((k for k in widths if "width" in k), key=str):
        print(*key, f"{np.mean(widths[key]):.1f}")


if __name__ == "__main__":
    main()
