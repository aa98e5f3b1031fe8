"""Coverage of the 95% intervals of generalized releases, for conditions that split groups.

``python -m benchmarks.group_coverage [--data FOLDER] [--tables ...] [--runs N]``

There are two kinds of questions about one to three columns. *even*: ranges and values sampled
uniformly from the domain. *of rows*: the questions of ``hushtable evaluate``, which at least one
row satisfies, with rare and frequent answers equally likely. The weights in
``query/answers/cell_sums.py`` were tuned on br2000 and census (Census-Income, without the bins of
the peers' benchmark). Adult was not used for tuning.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from benchmarks.peers.data import _KDD_NAMES, load
from hushtable.engine import connect
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.utility.workload import Condition, CountQuestion, draw_questions
from hushtable.methods import DiffGen, Partition
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from hushtable_papers.adult import adult

SHARED = Path(__file__).parents[2] / "shared" / "data"
TABLES = ("census", "br2000", "adult")
METHODS: dict[str, Any] = {
    "diffgen": lambda epsilon: DiffGen(epsilon=epsilon),
    "diffgen, 10 cuts": lambda epsilon: DiffGen(epsilon=epsilon, specializations=10),
    "partition": lambda epsilon: Partition(epsilon=epsilon),
}
_NUMBERS = {
    "age": 90, "wage-per-hour": 9999, "capital-gains": 99_999, "capital-losses": 5000,
    "dividends": 100_000, "weeks-worked": 52, "employer-size": 6,
}  # fmt: skip
_TEXTS = ("marital-status", "race", "sex", "citizenship", "income")


def census(folder: Path, n_rows: int = 45_000) -> tuple[pa.Table, Schema]:
    """Read some rows of Census-Income (KDD), without binning numbers."""
    read = pa_csv.ReadOptions(column_names=_KDD_NAMES.split())
    table = pa_csv.read_csv(folder / "kdd" / "census-income.data.gz", read_options=read)
    some = np.random.default_rng(7).choice(table.num_rows, n_rows, replace=False)
    table = table.take(pa.array(some))
    described: dict[str, Any] = {
        name: {"type": "integer", "low": 0, "high": high} for name, high in _NUMBERS.items()
    }
    made = {name: table[name] for name in _NUMBERS}
    for name in _TEXTS:
        made[name] = pc.utf8_trim_whitespace(table[name].cast(pa.string()))
        values = sorted(set(made[name].to_pylist()))
        described[name] = {"type": "categorical", "values": values}
    described["income"]["role"] = "target"
    return pa.table(made), Schema.from_dict({"name": "census", "columns": described})


def table_of(name: str, folder: Path) -> tuple[pa.Table, Schema]:
    """Read a table and its schema."""
    if name == "census":
        return census(folder)
    if name == "adult":
        return adult(folder)
    table = load(name, folder)
    return table.arrow(table.train), table.schema


def even_questions(
    rows: CodedRows, n: int, rng: np.random.Generator
) -> list[tuple[CountQuestion, int]]:
    """Return questions with ranges and values sampled uniformly, and their true counts."""
    asked = []
    for _ in range(n):
        names = rng.choice(list(rows.schema.attributes), int(rng.integers(1, 4)), replace=False)
        conditions = []
        for name in names.tolist():
            column = rows.schema.attributes[name]
            ordered, n_values = column.is_line, column.n_values
            half = n_values // 2 if n_values > 2 and rng.random() < 0.5 else 1
            drawn = rng.integers(0, n_values, 2) if ordered else rng.choice(n_values, half, False)
            codes = tuple(sorted(int(code) for code in drawn))
            conditions.append(Condition(name, column, codes, interval=ordered))
        question = CountQuestion(tuple(conditions))
        asked.append((question, question.count(rows)))
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.group_coverage")
    folder = Path(os.environ.get("HUSHTABLE_DATA", SHARED))
    parser.add_argument("--data", type=Path, default=folder)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["adult"])
    parser.add_argument("--epsilons", nargs="+", default=["0.1", "1"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--runs", type=int, default=2, help="releases, each with new questions")
    given = parser.parse_args()
    print("| table | method | epsilon | questions | n | coverage | half width, share of rows |")
    print("|" + " --- |" * 7)
    for name in given.tables:
        table, schema = table_of(name, given.data)
        engine = connect(table, schema, engine="memory")
        assert isinstance(engine, MemoryEngine)
        rows = CodedRows.of(schema, engine.codes(list(schema.attributes)))
        for label in given.methods:
            for epsilon in given.epsilons:
                held: dict[str, list[bool]] = {"even": [], "of rows": []}
                widths: dict[str, list[float]] = {"even": [], "of rows": []}
                for run in range(given.runs):
                    method, rng = METHODS[label](epsilon), np.random.default_rng(run)
                    found = method.run(engine, SecureNoise())
                    settings = {"kind": method.estimator_kind, **found.settings}
                    estimator = estimator_for(settings, schema, method.parameters(), found.tables)
                    for kind, asked in (
                        ("even", even_questions(rows, 100, rng)),
                        ("of rows", draw_questions(rows, rng, per_cell=10)),
                    ):
                        for question, truth in asked:
                            answer = estimator.count(question.sql)
                            held[kind].append(answer.low <= truth <= answer.high)
                            widths[kind].append((answer.high - answer.low) / 2 / rows.n_rows)
                for kind, hits in held.items():
                    print(
                        f"| {name} | {label} | {epsilon} | {kind} | {len(hits)} | "
                        f"{100 * np.mean(hits):.1f} % | {np.median(widths[kind]):.3f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
