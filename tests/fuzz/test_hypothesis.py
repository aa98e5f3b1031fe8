"""Mutated inputs: targets raise nothing but a `HushtableError`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import corpus, targets

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def mutations(name: str) -> st.SearchStrategy[bytes]:
    """Cut, repeat and replace pieces of valid inputs, or insert dangerous words."""
    words = [word.encode("utf-8", "surrogatepass") for word in corpus.WORDS.get(name, [])]
    piece = st.binary(max_size=8) | (st.sampled_from(words) if words else st.nothing())
    edit = st.tuples(st.floats(0, 1), st.integers(0, 24), piece, st.booleans())

    def apply(seed: bytes, edits: list[tuple[float, int, bytes, bool]]) -> bytes:
        for place, n_dropped, added, twice in edits:
            start = int(place * len(seed))
            rest = seed[start if twice else start + n_dropped :]
            seed = seed[: start + (n_dropped if twice else 0)] + added + rest
        return seed

    seeds = st.sampled_from(corpus.seeds()[name])
    joined = st.lists(piece, min_size=1, max_size=12).map(b" ".join)
    return st.builds(apply, seeds, st.lists(edit, min_size=1, max_size=6)) | joined


def fuzz(name: str, n_examples: int, *, repeatable: bool) -> None:
    @settings(
        max_examples=n_examples, database=None,
        suppress_health_check=_QUIET, derandomize=repeatable, print_blob=True,
    )  # fmt: skip
    @given(mutations(name))
    def check(data: bytes) -> None:
        targets.run(name, data)

    check()


# The number of runs in CI depends on how long one run of a target takes.
QUICK = {"schema": 60, "taxonomy_csv": 60, "taxonomy_nested": 80, "where": 150, "lookup": 40,
         "csv": 12, "gzipped_csv": 12, "parquet": 15, "edges": 60, "ledger": 40, "statement": 40,
         "released_table": 25}  # fmt: skip


@pytest.mark.parametrize("name", targets.TARGETS)
def test_mutated_inputs(name: str) -> None:
    fuzz(name, QUICK[name], repeatable=True)


@pytest.mark.long
@pytest.mark.parametrize("name", targets.TARGETS)
def test_many_mutated_inputs(name: str) -> None:
    fuzz(name, 100 * QUICK[name], repeatable=False)
