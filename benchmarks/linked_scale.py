"""Time and memory of linked tables with ten million visits of 1.5 million persons.

``python -m benchmarks.linked_scale [--rows 10000000] [--engine duckdb spark] [--limit 4GB]
[--folder DIR]``

Persons and visits are generated as Parquet files, which are kept and reused if ``--folder`` is
given. Each measurement runs in a separate process. It includes CPU seconds and peak memory of child
processes, except Spark's Java process, which continues after the measurement.

- *pass*: one counting pass: visits joined to their persons, encoded, and counted once by each
  column. It is the unit of the ratio that is printed.
- *publish*: the whole of `publish_linked`, including writing the synthetic rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from hushtable import Linked, LinkedSchema, publish_linked
from hushtable.engine.linked_tables import open_linked

SCHEMA = """
name: hospital
tables:
  persons:
    key: person
    columns:
      age: {type: integer, low: 0, high: 99, missing: other}
      sex: {type: categorical, values: [F, M], missing: other}
      region: {type: integer, low: 0, high: 11, missing: other}
  visits:
    parent: persons
    foreign_key: person
    max_children: 12
    order: day
    facts: {any_icu: ward = 'icu'}
    columns:
      day: {type: integer, low: 0, high: 364, missing: other}
      ward: {type: categorical, values: [er, general, icu, surgery, ob], missing: other}
      cost: {type: integer, low: 0, high: 99, missing: other}
      outcome: {type: categorical, values: [home, transfer, death], missing: other}
"""
VISITS_EACH = 20 / 3

_PERSONS = """
select i as person, cast(floor(100 * random()) as int) as age,
    if(random() < 0.5, 'F', 'M') as sex, cast(floor(12 * random() * random()) as int) as region
from range({n}) t(i)
"""
_VISITS = """
select cast(floor({n} * pow(random(), 1.2)) as bigint) as person,
    cast(floor(365 * random()) as int) as day,
    ['er', 'general', 'icu', 'surgery', 'ob'][cast(1 + floor(5 * random() * random()) as int)]
        as ward,
    cast(floor(100 * random() * random()) as int) as cost,
    ['home', 'transfer', 'death'][cast(1 + floor(3 * random() * random()) as int)] as outcome
from range({rows})
"""


def generate(folder: Path, rows: int) -> dict[str, Path]:
    """Write both tables unless they exist."""
    n = round(rows / VISITS_EACH)
    files = {name: folder / f"{name}-{rows}.parquet" for name in ("persons", "visits")}
    for (name, path), query in zip(files.items(), (_PERSONS, _VISITS), strict=True):
        if not path.exists():
            duckdb.sql(query.format(n=n, rows=rows)).write_parquet(str(path))
            print(f"made {name}", flush=True)
    return files


def one(what: str, files: dict[str, Path], engine: str, limit: str) -> None:
    """Run one measurement, and print its CPU seconds and peak memory."""
    schema = LinkedSchema.parse(SCHEMA)
    how: dict[str, Any] = {"engine": engine, "memory_limit": limit}
    with tempfile.TemporaryDirectory() as folder:
        if what == "pass":
            counts = open_linked(files, schema, **how).connect(schema).engine("visits")
            counts.marginals([[name] for name in schema.wide("visits").attributes])
        else:
            publish_linked(
                files, schema, Linked(epsilon=1, delta="1e-9"), out=Path(folder, "release"), **how
            )
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent = sum(one.ru_utime + one.ru_stime for one in used)
    print(json.dumps({"CPU s": spent, "MB": max(one.ru_maxrss for one in used) / 1024}))


def main() -> None:
    """Parse the options, generate the tables, and run each measurement in a separate process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engine", nargs="+", default=["duckdb"], choices=("duckdb", "spark"))
    parser.add_argument("--limit", default="4GB")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=("pass", "publish"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        files = generate(folder, options.rows)
        if options.only is not None:
            one(options.only, files, options.engine[0], options.limit)
            return
        for engine in options.engine:
            took: dict[str, dict[str, float]] = {}
            for what in ("pass", "publish"):
                command = [
                    sys.executable, "-m", "benchmarks.linked_scale", "--only", what, "--rows",
                    str(options.rows), "--engine", engine, "--limit", options.limit, "--folder",
                    str(folder),
                ]  # fmt: skip
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                took[what] = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"{options.rows:,} visits, {engine}, {what}: {took[what]['CPU s']:.1f} CPU s, "
                    f"{took[what]['MB']:,.0f} MB",
                    flush=True,
                )
            times = took["publish"]["CPU s"] / took["pass"]["CPU s"]
            print(f"{engine}: publishing is {times:.1f} passes", flush=True)


if __name__ == "__main__":
    main()
