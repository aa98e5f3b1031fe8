"""Coverage of the 95% intervals of counts, cells, means, medians and slopes.

``python -m benchmarks.answer_coverage [--method quilt] [--runs N] [--epsilons ...] [--tables ...]``

There are three tables: *numeric* (correlated, skewed and normal numbers with many values), *people*
(numbers and categories) and *adult* (six columns of the census table). The first two are generated
again for each release. Constants for answers other than counts were not tuned on them. Each release
gets the same questions about all rows and about groups. The output shows the median half-width of
the intervals next to that of the estimate without privacy, which has sampling error only.

``--slope`` publishes a generated table several times and asks for its slopes: y = x / 2 + z + noise
with 100 values per column and 40,000 rows. ``--time`` measures the time of wide questions to one
release of all of Adult.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.population import SCHEMA as PEOPLE
from tests.population import people

from hushtable.engine import connect
from hushtable.errors import Refused
from hushtable.methods import METHODS, Method, Quilt
from hushtable.methods.registry import estimator_for
from hushtable.numeric import NORMAL
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.query.answers.table import EstimateTable
from hushtable.query.where import parse
from hushtable.schema import Schema
from hushtable_papers.adult import adult

SHARED = Path(__file__).parents[2] / "shared" / "data"
KINDS = ("counts", "cells", "means", "medians", "slopes")


def numeric(seed: int, n: int = 20_000) -> tuple[pa.Table, Schema]:
    """Generate numbers: pay is skewed and depends on age and hours, which have many 40s.

    Size depends on age.
    """
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.gamma(6, 7, n)), 0, 99)
    hours = np.where(rng.random(n) < 0.5, 40, np.clip(np.round(rng.normal(35, 12, n)), 0, 80))
    pay = np.clip(np.round(np.exp(rng.normal(2.5, 0.6, n)) + hours / 2 + age / 4), 0, 199)
    size = np.clip(np.round(170 + 8 * rng.normal(0, 1, n) - 0.05 * age), 130, 210)
    table = pa.table({"age": age, "hours": hours, "pay": pay, "size": size})
    bounds = {"age": (0, 99), "hours": (0, 80), "pay": (0, 199), "size": (130, 210)}
    columns = {n: {"type": "integer", "low": a, "high": b} for n, (a, b) in bounds.items()}
    return table.cast(pa.schema([(name, pa.int64()) for name in bounds])), Schema.from_dict(
        {"name": "numeric", "columns": columns}
    )


def adult_columns(folder: Path) -> tuple[pa.Table, Schema]:
    """Return six columns of Adult, with their schema."""
    table, schema = adult(folder)
    names = ["age", "education-num", "hours-per-week", "sex", "marital-status", "income"]
    columns = schema.to_dict()["columns"]
    kept = {name: columns[name] for name in names}
    return table.select(names), Schema.from_dict({"name": "adult", "columns": kept})


def made(name: str, run: int, folder: Path) -> tuple[pa.Table, Schema]:
    """Return a table and its schema; `run` is the seed of generated tables."""
    if name == "numeric":
        return numeric(run)
    if name == "people":
        return people(20_000, run), PEOPLE
    return adult_columns(folder)


QUESTIONS: dict[str, dict[str, list[tuple[Any, ...]]]] = {
    "numeric": {
        "counts": [("age >= 50",), ("pay < 30 AND hours >= 40",), ("size > 175 AND age < 30",)],
        "cells": [],
        "means": [("pay", None), ("pay", "hours >= 40"), ("age", "pay > 60"), ("hours", None)],
        "medians": [("pay", None), ("age", None), ("pay", "age >= 50")],
        "slopes": [("pay ~ age",), ("pay ~ age + hours",), ("size ~ age + pay",)],
    },
    "people": {
        "counts": [("sex = 'F'",), ("age >= 60 AND sex = 'M'",), ("city = 'city 3'",)],
        "cells": [("sex", "grade"), ("job", "sex")],
        "means": [("weight", None), ("weight", "sex = 'F'"), ("age", "grade = 'c'")],
        "medians": [("weight", None), ("age", "sex = 'M'")],
        "slopes": [("weight ~ age",), ("weight ~ age + C(sex)",)],
    },
    "adult": {
        "counts": [
            ("sex = 'Female'",), ("age BETWEEN 30 AND 44 AND income = '>50K'",),
            ("\"hours-per-week\" > 40 AND sex = 'Male'",),
        ],
        "cells": [("sex", "income"), ("marital-status", "income")],
        "means": [("age", None), ("hours-per-week", "sex = 'Female'"), ("age", "income = '>50K'")],
        "medians": [("age", None), ("hours-per-week", None), ("age", "income = '<=50K'")],
        "slopes": [('"hours-per-week" ~ age',), ('"education-num" ~ age + C(sex) + C(income)',)],
    },
}  # fmt: skip


class Truth:
    """True answers from the private rows, each with its standard deviation of sampling."""

    def __init__(self, table: pa.Table, schema: Schema) -> None:
        engine = connect(table, schema, engine="memory")
        self.schema = schema
        self.codes = engine.codes(list(schema.attributes))  # type: ignore[attr-defined]
        self.frame = {name: table.column(name).to_numpy(zero_copy_only=False) for name in
                      schema.attributes}  # fmt: skip

    def mask(self, where: str | None) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if where is None:
            return np.ones(len(next(iter(self.codes.values()))), bool)
        return parse(where, self.schema).mask(self.codes)

    def count(self, where: str | None) -> tuple[float, float]:
        held = float(self.mask(where).sum())
        n = len(next(iter(self.codes.values())))
        return held, math.sqrt(held * (1 - held / n))

    def mean(self, column: str, where: str | None) -> tuple[float, float]:
        values = self.frame[column][self.mask(where)].astype(float)
        values = values[~np.isnan(values)]
        return float(values.mean()), float(values.std() / math.sqrt(len(values)))

    def median(self, column: str, where: str | None) -> tuple[float, float]:
        values = self.frame[column][self.mask(where)].astype(float)
        values = np.sort(values[~np.isnan(values)])
        n = len(values)
        at = math.ceil(n / 2) - 1
        reach = int(NORMAL * math.sqrt(n) / 2)
        width = values[min(at + reach, n - 1)] - values[max(at - reach, 0)]
        return float(values[at]), float(width / 2 / NORMAL)

    def slopes(self, terms: list[str], outcome: str) -> tuple[dict[str, float], dict[str, float]]:
        parts = [np.ones(len(self.frame[outcome]))]
        for term in terms[1:]:
            if term.startswith("C("):
                name, value = term[2:-1].split(")[")
                named = np.array([str(one).lower() for one in self.frame[name]])
                parts.append((named == value.lower()).astype(float))
            else:
                parts.append(self.frame[term].astype(float))
        design, y = np.stack(parts, axis=1), self.frame[outcome].astype(float)
        whole = ~np.isnan(design).any(axis=1) & ~np.isnan(y)
        design, y = design[whole], y[whole]
        inverse = np.linalg.inv(design.T @ design)
        found = inverse @ design.T @ y
        spread = float(np.mean((y - design @ found) ** 2))
        std = np.sqrt(spread * inverse.diagonal())
        return dict(zip(terms, found, strict=True)), dict(zip(terms, std, strict=True))


def asked(
    answers: ReleaseQuestions, truth: Truth, name: str
) -> Iterator[tuple[str, Estimate, float, float]]:
    """Ask all questions; yield kind, answer, true value and its standard deviation of sampling."""
    questions = QUESTIONS[name]
    for (where,) in questions["counts"]:
        yield "counts", answers.count(where, "people"), *truth.count(where)
    for by in questions["cells"]:
        table = answers.crosstab(by, None, family="each", margins=False, scope="people")
        for key, estimate in table:
            clause = " AND ".join(
                f'"{n}" IS NULL' if v is None else f"\"{n}\" = '{v}'"
                for n, v in zip(by, key, strict=True)
            )
            yield "cells", estimate, *truth.count(clause)
    for column, where in questions["means"]:
        found = answers.statistic("mean", column, where, (), "people")
        assert isinstance(found, Estimate)
        yield "means", found, *truth.mean(column, where)
    for column, where in questions["medians"]:
        found = answers.quantile(column, 0.5, where, (), "people")
        assert isinstance(found, Estimate)
        yield "medians", found, *truth.median(column, where)
    for (formula,) in questions["slopes"]:
        fitted = answers.regression(formula, None, logistic=False, scope="people")
        terms = [str(key[0]) for key, _ in fitted]
        true, std = truth.slopes(terms, formula.split("~")[0].strip().strip('"'))
        for key, estimate in fitted:
            if key[0] != "(intercept)":
                yield "slopes", estimate, true[str(key[0])], std[str(key[0])]


def released(method: Method, table: pa.Table, schema: Schema) -> Estimator:
    """Publish, and return an estimator of the release."""
    engine = connect(table, schema, engine="memory")
    found = method.run(engine, SecureNoise())
    settings = {"kind": method.estimator_kind, **found.settings}
    return estimator_for(settings, schema, method.parameters(), found.tables)


def coverage(given: argparse.Namespace) -> None:
    print("| table | epsilon | answers | n | refused | hold | half width | without privacy |")
    print("|" + " --- |" * 8)
    for name in given.tables:
        for epsilon in given.epsilons:
            seen: dict[str, list[tuple[bool, float, float]]] = {kind: [] for kind in KINDS}
            refused = 0
            for run in range(given.runs):
                table, schema = made(name, given.seed + run, given.data)
                answers = ReleaseQuestions(released(_method(given, epsilon), table, schema))
                truth = Truth(table, schema)
                try:
                    for kind, estimate, true, std in asked(answers, truth, name):
                        slack = 1e-9 * max(1.0, abs(true))
                        held = estimate.low - slack <= true <= estimate.high + slack
                        width = (estimate.high - estimate.low) / 2
                        seen[kind].append((held, width, NORMAL * std))
                except Refused as error:
                    refused += 1
                    print("refused:", str(error)[:150])
            for kind, found in seen.items():
                if found:
                    held, width, sampling = np.array(found, float).T
                    print(
                        f"| {name} | {epsilon} | {kind} | {len(held)} | {refused} | "
                        f"{100 * held.mean():.1f} % | {np.median(width):.3g} | "
                        f"{np.median(sampling):.3g} |",
                        flush=True,
                    )


def _method(given: argparse.Namespace, epsilon: str) -> Method:
    if given.method == "quilt":
        return Quilt(epsilon=epsilon, delta="1e-9", particles=given.particles)
    return METHODS[given.method](epsilon=epsilon)


def toy(seed: int, n: int = 40_000) -> tuple[pa.Table, Schema]:
    """Generate y = x / 2 + z + noise, with 100 values per column."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(50, 15, n), rng.normal(50, 10, n)
    y = x / 2 + (z - 50) + 25 + rng.normal(0, 8, n)
    columns = {
        name: np.clip(np.round(values), 0, 99).astype(np.int64)
        for name, values in {"x": x, "z": z, "y": y}.items()
    }
    described = {name: {"type": "integer", "low": 0, "high": 99} for name in columns}
    return pa.table(columns), Schema.from_dict({"name": "toy", "columns": described})


def slope(given: argparse.Namespace) -> None:
    held: dict[str, list[bool]] = {"x": [], "z": []}
    off: dict[str, list[float]] = {"x": [], "z": []}
    rows: dict[str, list[float]] = {"x": [], "z": []}
    widths: dict[str, list[float]] = {"x": [], "z": []}
    for run in range(given.runs):
        table, schema = toy(given.seed + run)
        estimator = released(_method(given, "1"), table, schema)
        truth = Truth(table, schema)
        terms = ["(intercept)", "x", "z"]
        true, _ = truth.slopes(terms, "y")
        fitted = ReleaseQuestions(estimator).regression(
            "y ~ x + z", None, logistic=False, scope="people"
        )
        of_rows, _ = Truth(estimator.frame(), schema).slopes(terms, "y")
        for name, hits in held.items():
            answer = fitted[name]
            hits.append(answer.low <= true[name] <= answer.high)
            off[name].append(answer.value / true[name] - 1)
            rows[name].append(of_rows[name] / true[name] - 1)
            widths[name].append((answer.high - answer.low) / 2)
    print("| slope | releases | hold | mean error | mean absolute error | half width | of rows |")
    print("|" + " --- |" * 7)
    for name, hits in held.items():
        print(
            f"| {name} | {len(hits)} | {100 * np.mean(hits):.1f} % | {np.mean(off[name]):+.2%} | "
            f"{np.mean(np.abs(off[name])):.2%} | {np.median(widths[name]):.3g} | "
            f"{np.mean(rows[name]):+.1%} |"
        )


def timing(given: argparse.Namespace) -> None:
    table, schema = adult(given.data)
    answers = ReleaseQuestions(released(_method(given, "1"), table, schema))
    names = [n for n in schema.attributes if n not in ("education-num", "capital-loss")]
    clauses = []
    for name in names:
        column = schema.attributes[name]
        middle = column.value(column.n_values // 2)
        clauses.append(f"\"{name}\" <> '{middle}'" if isinstance(middle, str) else
                       f'"{name}" < {middle}')  # fmt: skip
    wide = " AND ".join(clauses)
    questions: dict[str, Callable[[], Any]] = {
        f"{len(names)} columns, first": lambda: answers.estimator.count(wide),
        f"{len(names)} columns, again": lambda: answers.estimator.count(f"NOT ({wide})"),
        "1,036 cells": lambda: _cells(answers, ("age", "occupation")),
        "1,024 cells measured or not": lambda: _cells(answers, ("education", "race", "workclass")),
        "mean by group": lambda: answers.statistic("mean", "age", None, ("education",), "people"),
        "regression": lambda: answers.regression(
            '"hours-per-week" ~ age + "education-num" + C(sex)', None, logistic=False,
            scope="people",
        ),
    }  # fmt: skip
    answers.estimator.count("age < 40")  # the first answer loads the tables
    for name, question in questions.items():
        wall, cpu = time.perf_counter(), time.process_time()
        question()
        print(f"{name}: {time.process_time() - cpu:.2f} s of processor, "
              f"{time.perf_counter() - wall:.2f} s")  # fmt: skip


def _cells(answers: ReleaseQuestions, by: tuple[str, ...]) -> EstimateTable:
    return answers.crosstab(by, None, family="each", margins=False, scope="people")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answer_coverage")
    folder = Path(os.environ.get("HUSHTABLE_DATA", SHARED))
    parser.add_argument("--data", type=Path, default=folder)
    parser.add_argument("--method", choices=list(METHODS), default="quilt")
    parser.add_argument("--tables", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--epsilons", nargs="+", default=["0.1", "0.5", "1", "5"])
    parser.add_argument("--runs", type=int, default=20, help="releases of each kind")
    parser.add_argument("--particles", type=int, default=20_000, help="particles of quilt's model")
    parser.add_argument("--seed", type=int, default=1000, help="first seed of generated tables")
    parser.add_argument("--slope", action="store_true", help="measure slopes of a generated table")
    parser.add_argument("--time", action="store_true", help="measure the time of answers")
    given = parser.parse_args()
    if given.slope:
        slope(given)
    elif given.time:
        timing(given)
    else:
        coverage(given)


if __name__ == "__main__":
    main()
