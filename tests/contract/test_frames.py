"""`Release.frame`: the same meaning for every release; every answer states what it counts."""

from __future__ import annotations

import pytest

from contract.examples import EXAMPLES, schema, table
from hushtable import publish
from hushtable.methods.base import Method
from hushtable.privacy.noise.sources import SeededNoise

FIRST = {method.name: method for method in reversed(EXAMPLES)}


@pytest.mark.parametrize("method", FIRST.values(), ids=lambda method: method.name)
def test_the_columns_of_a_frame_are_those_of_the_schema(method: Method, tmp_path) -> None:  # type: ignore[no-untyped-def]
    public = schema(method)
    rows = table(method).slice(0, 800)
    release = publish(rows, public, method, out=tmp_path / "r", noise=SeededNoise(1), anyway=True)
    frame = release.frame()
    named = [public.unit.column, *public.attributes]
    assert frame.column_names == [name for name in named if name in frame.column_names]
    assert set(frame.column_names) <= set(named)
    assert frame.num_rows == release.n_rows
    first = next(iter(frame.column_names))
    answer = release.count(f'"{first}" IS NOT NULL OR TRUE')
    assert answer.what in {"rows", "distinct tuples", "people", "nodes"}
    assert f" {answer.what} (95% interval" in str(answer)
