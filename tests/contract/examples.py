"""Every registered method with parameters to try it by; a new method only adds its line here."""

from __future__ import annotations

from hushtable.datasets import sample_schema
from hushtable.methods import Method, NoisyCounts
from hushtable.schema import Schema

COARSE = {"age": 20, "region": 1, "diagnosis": 1}

EXAMPLES: list[Method] = [
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE),
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE, row_count_share="1/20"),
    NoisyCounts(epsilon="1/2", delta="1e-6", k=5, mechanism="paper", generalize=COARSE),
    NoisyCounts(epsilon=1, mechanism="pure", generalize=COARSE),
]


def label(method: Method) -> str:
    """Name an example in test output."""
    return "-".join([method.name, *(str(v) for v in method.parameters().values())])[:60]


def schema() -> Schema:
    """Give the schema all examples are valid for."""
    return sample_schema()
