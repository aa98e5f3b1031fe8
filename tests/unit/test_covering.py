"""Sets of codes that overlap: their share of a clause's classes, and of whole clauses."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.query.where import parse
from hushtable.query.where.code_classes import CodeSets
from hushtable.schema import Schema

SCHEMA = Schema.from_dict(
    {"name": "t", "columns": {
        "x": {"type": "integer", "low": 0, "high": 11, "missing": "category"},
        "y": {"type": "categorical", "values": ["a", "b", "c", "d"]}}}
)  # fmt: skip
CLAUSES = ["x < 4", "x IS NULL OR y = 'b'", "x % 3 = 1 AND NOT y IN ('a', 'd')", "TRUE",
           "x > 5 AND x < 2", "(x = 3 AND y = 'a') OR (x = 7 AND y = 'c')"]  # fmt: skip


def covering(sets: list[set[int]]) -> CodeSets:
    pairs = [(owner, code) for owner, codes in enumerate(sets) for code in sorted(codes)]
    owner, codes = np.array(pairs, np.int64).T
    return CodeSets(len(sets), owner, codes, codes)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=4),
    st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=3),
    st.sampled_from(CLAUSES),
)
def test_shares_of_boxes_are_those_of_their_combinations(
    of_x: list[set[int]], of_y: list[set[int]], where: str
) -> None:
    predicate = parse(where, SCHEMA)
    box = np.array([(i, j) for i in range(len(of_x)) for j in range(len(of_y))], np.int64)
    found = predicate.shares(
        {"x": covering(of_x), "y": covering(of_y)}, {"x": box[:, 0], "y": box[:, 1]}
    )
    for (i, j), share in zip(box.tolist(), found.tolist(), strict=True):
        inside = np.array([(x, y) for x in of_x[i] for y in of_y[j]], np.int64)
        matches = predicate.mask({"x": inside[:, 0], "y": inside[:, 1]})
        assert abs(share - matches.mean()) < 1e-12
        assert (share == 1.0) == bool(matches.all())
        assert (share == 0.0) == (not matches.any())
