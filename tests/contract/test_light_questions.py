"""Imports of a query on a release: nothing that only publishing needs.

Importing numba or pandas takes longer than most answers. Analysts may not have installed the
libraries of an engine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contract.examples import EXAMPLES, schema, table
from hushtable import Degrees, publish, publish_graph

HEAVY = ("duckdb", "ibis", "numba", "pandas", "polars", "pyspark", "scipy.stats")

FIRST = {method.name: method for method in reversed(EXAMPLES)}

ASKING = """
import sys
import hushtable
release, heavy, *questions = sys.argv[1:]
asked = hushtable.Release.load(release)
for where in questions:
    answer = asked.count(where)
    assert answer.low <= answer.value <= answer.high
try:
    asked.mean("age", by="sex")
    asked.regression("age ~ C(sex)")
    asked.median("age")
except hushtable.HushtableError:
    pass  # some releases cannot tell
print(*sorted(set(heavy.split()) & set(sys.modules)))
"""


def imported(release: Path, *questions: str) -> str:
    """Run queries in a new process, and return the heavy modules that they import."""
    command = [sys.executable, "-c", ASKING, str(release), " ".join(HEAVY), *questions]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("name", sorted(FIRST))
def test_a_count_imports_no_engine_and_no_compiler(name, tmp_path):
    method = FIRST[name]
    publish(table(method), schema(method), method, out=tmp_path / "release")
    # The second one splits published groups: it computes the error of uneven values in a group.
    assert imported(tmp_path / "release", "age >= 40", "age >= 41 AND sex = 'F'") == ""


def test_a_count_of_degrees_imports_no_engine_and_no_compiler(tmp_path):
    edges = [(f"n{i}", f"n{(7 * i + j) % 50}") for i in range(50) for j in (1, 2, 3)]
    method = Degrees(epsilon=1, population="endpoints")
    publish_graph(edges, method, out=tmp_path / "release")
    assert imported(tmp_path / "release", "degree >= 3") == ""


QUERYING = """
import sys
from hushtable.cli.app import main
try:
    main()
finally:
    slow = {"numpy.random", "pyarrow.compute", "rich", "yaml"}
    sys.stderr.write(" ".join(slow & {*sys.modules}))
"""


def test_a_query_imports_no_console_and_nothing_that_it_does_not_ask(tmp_path):
    method = FIRST["noisy-counts"]
    publish(table(method), schema(method), method, out=tmp_path / "release")
    command = [sys.executable, "-c", QUERYING, "query", str(tmp_path / "release"), "sex = 'F'"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "rows (95% interval" in done.stdout
    assert done.stderr == ""
