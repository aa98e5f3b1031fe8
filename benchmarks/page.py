"""One page of ratios against peers, measured in one run: ``python -m benchmarks.page --out FILE``.

Compares noise with OpenDP, and synthetic rows with AIM, MST and PrivBayes of `dpmm` and AIM and MST
of SmartNoise, on the embedded sample. CPU time and peak memory (from the kernel) are for a
separate process with one thread, including imports, reading and writing. Ratios divide the other
library by hushtable: above 1, hushtable needs less. dpmm and smartnoise-synth need other library
versions than hushtable: pass interpreters that have them (``--peers-python`` and
``--smartnoise-python``, or ``$HUSHTABLE_PEERS_PYTHON`` and ``$HUSHTABLE_SMARTNOISE_PYTHON``), or
select the installed ones with ``--peers``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from benchmarks.peers.__main__ import DELTA, run, run_alone
from benchmarks.peers.data import Column, Table
from benchmarks.peers.metrics import pairs_distance
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect

EPSILON = "1.0"
PEERS = ("aim-lite", "aim", "mst", "privbayes", "smartnoise-mst", "smartnoise-aim")
LITE = "aim-lite is AIM with 40 rounds, 250 iterations and 4 MB; its defaults take hours."
DEALT = (
    "The model of SmartNoise fits better than its rows show: mbi 1.1.0 assigns values in the same "
    "order in all columns that depend on the same column, which makes these columns dependent."
)
HEAD = "| what | CPU s | peak MB | ratio of CPU | ratio of memory |"
RULE = "| --- | --- | --- | --- | --- |"

DRAWS = """
from fractions import Fraction
from {module} import {name}
noise = {name}()
for _ in range({times}):
    noise.discrete_laplace(Fraction(10), size={size})
"""


def noise_lines() -> list[str]:
    """Measure a million draws of each sampler, and fewer of OpenDP's to save time."""
    drawn = {}
    for name, module, times, size in (
        ("SecureNoise", "hushtable.privacy.noise.sources", 10, 10**6),
        ("OpenDPNoise", "hushtable.privacy.noise.sources", 1, 10**5),
    ):
        given = {"module": module, "name": name, "size": size}
        base, full = (
            run_alone([sys.executable, "-c", DRAWS.format(times=n, **given)]) for n in (0, times)
        )
        full["cpu_s"] = (full["cpu_s"] - base["cpu_s"]) * 10**6 / (times * size)
        drawn[name] = full
    return _table(
        {"hushtable, a million draws of the discrete Laplace": [drawn["SecureNoise"]],
         "OpenDP, the same": [drawn["OpenDPNoise"]]}
    )  # fmt: skip


def sample_table() -> Table:
    """Return the embedded sample as codes, the input of every synthesizer."""
    schema = sample_schema()
    engine = connect(sample(), schema, engine="memory")
    columns = tuple(
        Column(name, column.size, name == "age") for name, column in schema.attributes.items()
    )
    coded = engine.codes(list(schema.attributes))  # type: ignore[attr-defined]
    codes = np.stack([coded[column.name] for column in columns], axis=1).astype(np.int64)
    return Table("sample", columns, len(columns) - 1, codes, codes[:0])


def synthesis_lines(given: argparse.Namespace) -> list[str]:
    """Publish synthetic rows of the sample, and compare all pairs of columns with its rows."""
    table = sample_table()
    # The first run on a machine compiles; do not count it.
    run(table, "quilt", EPSILON, 0, given.peers_python)
    found: dict[str, list[dict[str, float]]] = {}
    for method in ("quilt", *given.peers):
        smartnoise = method.startswith("smartnoise")
        python = given.smartnoise_python if smartnoise else given.peers_python
        for seed in range(given.runs):
            rows, used = run(table, method, EPSILON, seed, python)
            used["error"] = pairs_distance(table, rows)
            print(method, used, file=sys.stderr)
            found.setdefault(method, []).append(used)
    rows, _ = run(table, "rows", EPSILON, 0, given.peers_python)
    fresh = pairs_distance(table, rows)
    lines = [f"{HEAD} error of pairs | ratio of error |", f"{RULE} --- | --- |"]
    ours = {name: mean(one[name] for one in found["quilt"]) for name in found["quilt"][0]}
    for method, used in found.items():
        cells = [_figure([one[name] for one in used], name) for name in ours]
        ratios = [f"{mean(one[name] for one in used) / ours[name]:.2f}" for name in ours]
        cpu, memory, error = cells
        lines.append(
            f"| {method} | {cpu} | {memory} | {ratios[0]} | {ratios[1]} | {error} | {ratios[2]} |"
        )
    lines.append(f"| fresh rows of the same table | | | | | {fresh:.4f} | |")
    return lines


def _figure(values: Sequence[float], name: str) -> str:
    digits = {"cpu_s": 2, "peak_mb": 0}.get(name, 4)
    told = f"{mean(values):.{digits}f}"
    return told if len(values) < 2 else f"{told} ± {stdev(values) / len(values) ** 0.5:.{digits}f}"


def _table(found: dict[str, list[dict[str, float]]]) -> list[str]:
    """Return a table of resources used, and their ratios to those of the first entry."""
    first = next(iter(found.values()))[0]
    lines = [HEAD, RULE]
    for name, (used, *_) in found.items():
        ratios = [f"{used[key] / first[key]:.2f}" for key in ("cpu_s", "peak_mb")]
        lines.append(
            f"| {name} | {used['cpu_s']:.3f} | {used['peak_mb']:.0f} | {' | '.join(ratios)} |"
        )
    return lines


def versions(given: argparse.Namespace) -> str:
    """Return the versions of all libraries that were run."""
    named = {name: importlib.metadata.version(name) for name in ("numpy", "numba", "opendp")}
    for python, name in (
        (given.peers_python, "dpmm"),
        *((given.smartnoise_python, name) for name in ("smartnoise-synth", "mbi", "jax")),
    ):
        ask = f"import importlib.metadata as m; print(m.version('{name}'))"
        told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if told.returncode == 0:
            named[name] = told.stdout.strip()
    listed = ", ".join(f"{name} {version}" for name, version in named.items())
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    return f"Python {platform.python_version()}, {listed}; {system}."


def page(given: argparse.Namespace) -> str:
    """Run all measurements, and return the page."""
    parts = [
        "# Comparison with other libraries",
        "Measured in one run by `python -m benchmarks.page`. " + versions(given),
        "CPU seconds and peak memory are for a whole process with one thread, including imports, "
        "reading and writing; for noise, CPU time is that of the draws alone. Ratios divide the "
        "other library by hushtable: above 1, hushtable needs less or has a smaller error.",
        "## Exact noise",
        "\n".join(noise_lines()),
        "## Synthetic rows",
        f"The embedded sample, 12,000 rows of 5 columns, epsilon {EPSILON}, delta {DELTA}, means "
        f"of {given.runs} runs with their standard errors. The error is the mean total variation "
        f"distance over all pairs of columns.{' ' + LITE if 'aim-lite' in given.peers else ''}",
        "\n".join(synthesis_lines(given)),
        *([DEALT] if any(peer.startswith("smartnoise") for peer in given.peers) else []),
        "For larger tables, machine learning and AIM, see `python -m benchmarks.peers` and "
        "[quilt](../src/hushtable/methods/quilt/quilt.md). SWIFT is not included: no package of it "
        "was found in the package index.",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Parse the command line, measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    for peer, package in (("peers", "dpmm"), ("smartnoise", "smartnoise-synth")):
        usual = os.environ.get(f"HUSHTABLE_{peer.upper()}_PYTHON", sys.executable)
        parser.add_argument(
            f"--{peer}-python", default=usual, help=f"interpreter that has {package}"
        )
    usual_peers = ["aim-lite", "mst", "smartnoise-mst", "smartnoise-aim"]
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=usual_peers)
    parser.add_argument("--runs", type=int, default=3, help="runs of each synthesizer")
    parser.add_argument("--out", type=Path, help="file of the page; printed without it")
    given = parser.parse_args()
    written = page(given)
    if given.out:
        given.out.write_text(written)
    else:
        print(written)


if __name__ == "__main__":
    main()
