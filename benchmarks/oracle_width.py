"""Width of intervals of counts, compared with those of an oracle that lacks only the noise.

``python -m benchmarks.oracle_width [--runs N] [--epsilon E]`` publishes the embedded sample with
each method and asks random counts. It prints a line for each method, number of columns, and whether
conditions split published groups: the coverage, the median half-width, that of the oracle, and the
median ratio of the two. The oracle knows the distribution of rows inside groups, the suppressed
rows, and the error of the model. Its interval has noise only: 1.96 times the standard deviation
that the release states for the noise.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from benchmarks.answer_coverage import Truth, released
from benchmarks.drawn_questions import drawn
from hushtable.datasets import sample, sample_schema
from hushtable.errors import HushtableError
from hushtable.methods import Columns, DiffGen, NoisyCounts, Partition, Quilt
from hushtable.methods.base import Method
from hushtable.numeric import NORMAL
from hushtable.query.where import parse
from hushtable.schema import Schema

KEPT = ["age", "sex", "region", "smoker"]
CUT_NOTES = ("The condition splits", "selects part of a public bin")
"""Texts of notes on conditions that are true for only a part of a published group."""


def methods(epsilon: str) -> dict[str, Method]:
    return {
        "noisy-counts": NoisyCounts(
            epsilon=epsilon,
            delta="1e-6",
            k=10,
            row_count_share="1/20",
            generalize={"age": list(range(10, 100, 10))},
        ),
        "columns": Columns(
            epsilon=epsilon,
            delta="1e-6",
            k=10,
            max_columns=2,
            columns=[["age", "sex"], ["region", "smoker"]],
            count_share="1/10",
        ),
        "diffgen": DiffGen(epsilon=epsilon, target="smoker"),
        "partition": Partition(epsilon=epsilon),
        "quilt": Quilt(epsilon=epsilon, delta="1e-9", particles=5000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracle_width")
    parser.add_argument("--runs", type=int, default=3, help="releases of each method")
    parser.add_argument("--epsilon", default="1")
    given = parser.parse_args()
    table, columns = sample().select(KEPT), sample_schema().to_dict()["columns"]
    schema = Schema.from_dict({"name": "sample", "columns": {n: columns[n] for n in KEPT}})
    truth = Truth(table, schema)
    print("| method | columns | cut | n | hold | half width | the oracle's | ratio |")
    print("|" + " --- |" * 8)
    for name, method in methods(given.epsilon).items():
        seen: dict[tuple[int, bool], list[tuple[bool, float, float]]] = defaultdict(list)
        try:
            for run in range(given.runs):
                release = released(method, table, schema)
                for where in drawn(table, schema, run, counts=60).counts:
                    answer, true = release.count(where), truth.count(where)[0]
                    half = (answer.high - answer.low) / 2
                    oracle = NORMAL * answer.privacy_std
                    held = answer.low <= true <= answer.high
                    cut = any(text in note for note in answer.notes for text in CUT_NOTES)
                    seen[len(parse(where, schema).columns), cut].append((held, half, oracle))
        except HushtableError as error:
            print(f"| {name} | refused: {error} |")
        for (n_columns, cut), found in sorted(seen.items()):
            held, half, oracle = np.array(found, float).T
            ratio = half[oracle > 0] / oracle[oracle > 0]
            print(
                f"| {name} | {n_columns} | {'yes' if cut else ''} | {len(held)} | "
                f"{100 * held.mean():.0f} % | "
                f"{np.median(half):.3g} | {np.median(oracle):.3g} | {np.median(ratio):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
