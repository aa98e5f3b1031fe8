"""Run time of alpha-beta on domains of 648,023,040 tuples (Adult) and more.

Run as ``python -m benchmarks.alpha_beta_scale``; needs Adult under ``$HUSHTABLE_DATA`` or
``../shared/data``. For comparison, one pass over the domain samples a random bit for each tuple
with the same sampler and counts the ones. Two faster passes are included: "unpacked" reads one
random bit per tuple into an array element, "packed" counts the ones of 64 bits at a time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.domain import Domain
from hushtable.methods import AlphaBeta
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.privacy.noise.sparse_subset import sparse_subset
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hushtable_papers.rastogi_2007 import DATA, N_DOMAIN, N_PAPER, adult_of_the_paper

REPETITIONS = 3
CHUNK = 1 << 22
METHOD = AlphaBeta(d=Fraction(10 * N_PAPER, N_DOMAIN), n_public=30_200, gamma="1/5")

PUBLISH = """
import sys
from pathlib import Path
from benchmarks.__main__ import peak_mb
from benchmarks.alpha_beta_scale import METHOD
from hushtable.publishing.publish import publish
from hushtable.schema import Schema
loaded = peak_mb()
publish(sys.argv[1], Schema.load(sys.argv[2]), METHOD, out=sys.argv[3])
print(f"imports {loaded:.0f} MB, peak {peak_mb():.0f} MB")
"""


def seconds(act: Callable[[], object]) -> float:
    """Return the median time of several runs, after one for compilation."""
    act()
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def one_coin_per_tuple() -> int:
    noise, heads = SecureNoise(), 0
    for start in range(0, N_DOMAIN, CHUNK):
        coins = noise.bernoulli(Fraction(1, 2), size=min(CHUNK, N_DOMAIN - start))
        heads += int(np.count_nonzero(coins))
    return heads


def one_bit_per_tuple() -> int:
    noise, ones = SecureNoise(), 0
    for start in range(0, N_DOMAIN, CHUNK):
        words = noise._words(min(CHUNK, N_DOMAIN - start) // 64)
        ones += int(np.count_nonzero(np.unpackbits(words.view(np.uint8))))
    return ones


def publish_once(table: pa.Table, schema: Schema) -> Release:
    with tempfile.TemporaryDirectory() as folder:
        return publish(table, schema, METHOD, out=Path(folder) / "r")


def peak_memory(table: pa.Table, schema: Schema) -> str:
    with tempfile.TemporaryDirectory() as folder:
        data, public = Path(folder) / "t.parquet", Path(folder) / "schema.yaml"
        pq.write_table(table, data)
        public.write_text(schema.to_yaml())
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PUBLISH, data, public, Path(folder) / "r"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parents[1],
        )
    return done.stdout.strip()


def main() -> None:
    table, schema = adult_of_the_paper(DATA)
    law = METHOD.plan(schema).noise
    passes = {
        "coins": seconds(one_coin_per_tuple),
        "unpacked": seconds(one_bit_per_tuple),
    }
    for name, took in passes.items():
        print(f"one random bit for each of {N_DOMAIN:,} tuples, {name}: {took:.2f} s")
    acts: dict[str, Callable[[], object]] = {
        f"drawing {law.expected:,.0f} insertions": lambda: law.insert(SecureNoise()),
        "publishing, all in all": lambda: publish_once(table, schema),
    }
    for name, act in acts.items():
        took = seconds(act)
        ratios = ", ".join(f"{took / one:.2f} x {kind}" for kind, one in passes.items())
        print(f"{name}: {took:.2f} s ({ratios})")
    print(f"memory of publishing: {peak_memory(table, schema)}")
    rng = np.random.default_rng(1)
    for n_columns in (10, 20, 40):
        domain = Domain({f"x{i}": 40 for i in range(n_columns)})
        p = Fraction(100_000, domain.size)
        took = seconds(lambda p=p, domain=domain: sparse_subset(domain, p=p, noise=SecureNoise()))
        print(f"100,000 insertions into 40^{n_columns} tuples: {took:.2f} s")
        columns = {
            name: {"type": "integer", "low": 0, "high": size - 1}
            for name, size in domain.sizes.items()
        }
        wide = Schema.from_dict({"name": "wide", "columns": columns})
        rows = pa.table({name: rng.integers(0, 40, 1000) for name in columns})
        method = AlphaBeta(prior_factor=10, n_public=1000, gamma="1/5")
        with tempfile.TemporaryDirectory() as folder:
            release = publish(rows, wide, method, out=Path(folder) / "r")
            release.count("x0 < 3 * x1")
            start = time.perf_counter()
            release.count("x0 < 3 * x1 AND (x2 + x3) % 2 = 0 OR x4 = 7")
            print(f"  a count over it: {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()
