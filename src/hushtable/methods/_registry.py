"""Which methods there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import hushtable.methods
from hushtable.methods.base import Method

_CLASSES = {
    "alpha-beta": "AlphaBeta",
    "columns": "Columns",
    "condensation": "Condensation",
    "contingency-table": "ContingencyTable",
    "diffgen": "DiffGen",
    "frapp": "Frapp",
    "generalize-suppress": "GeneralizeSuppress",
    "noisy-counts": "NoisyCounts",
    "partition": "Partition",
    "quilt": "Quilt",
    "top-down-specialization": "TopDownSpecialization",
    "uncertain": "Uncertain",
}


class _Methods(Mapping[str, type[Method]]):
    """Import a method when it is asked for."""

    def __getitem__(self, name: str) -> type[Method]:
        kind: type[Method] = getattr(hushtable.methods, _CLASSES[name])
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


METHODS = _Methods()
"""Every method by the name it has on the command line."""
