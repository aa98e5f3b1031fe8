"""Order of rows: codes of a frame are in the frame's order, whatever the engine does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.engine import MemoryEngine, connect
from hushtable.schema import Schema


def test_codes_keep_the_order_of_the_frame() -> None:
    values = [f"v{number}" for number in range(50)]
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "a": {"type": "categorical", "values": values},
                "b": {"type": "categorical", "values": values[::-1]},
                "n": {"type": "integer", "low": 0, "high": 299_999},
            },
        }
    )
    n = np.arange(300_000)[::-1]
    texts = np.array(values)[n * 7 % 50]
    engine = connect(pa.table({"a": texts, "b": texts, "n": n}), schema, engine="memory")
    assert isinstance(engine, MemoryEngine)
    codes = engine.codes(["a", "b", "n"])
    assert np.array_equal(codes["n"], n)
    assert np.array_equal(codes["a"], n * 7 % 50)
    assert np.array_equal(codes["b"], 49 - n * 7 % 50)
