"""The five papers: modules that measure their figures, and the CPU time this takes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from hushtable_papers.figure import Figure


class Paper(NamedTuple):
    """A paper: its reference, its modules of figures, and CPU seconds (full and reduced)."""

    reference: str
    modules: tuple[str, ...]
    full_seconds: int
    reduced_seconds: int


PAPERS = {
    "li-2009": Paper(
        "Li and Li, Microdata Publishing with Algorithmic Privacy Guarantees (2009)",
        ("li_2009",), 181, 90,
    ),
    "qardaji-2012": Paper(
        "Qardaji and Li, Recursive Partitioning and Summarization, ASIACCS 2012",
        ("qardaji_2012_tables", "qardaji_2012_graphs"), 320, 80,
    ),
    "aggarwal-2008": Paper(
        "Aggarwal, On Unifying Privacy and Uncertain Data Models, ICDE 2008",
        ("aggarwal_2008",), 900, 100,
    ),
    "mohammed-2011": Paper(
        "Mohammed et al., Differentially Private Data Release for Data Mining, KDD 2011",
        ("mohammed_2011",), 180, 50,
    ),
    "rastogi-2007": Paper(
        "Rastogi et al., The Boundary Between Privacy and Utility in Data Publishing, VLDB 2007",
        ("rastogi_2007",), 66, 30,
    ),
}  # fmt: skip


def measures(paper: str) -> dict[str, tuple[Callable[[], Figure], str | None]]:
    """Return for each figure of a paper its measurement and the data set that it needs."""
    found = {}
    for name in PAPERS[paper].modules:
        module = import_module(f"hushtable_papers.{name}")
        for number, measure in module.FIGURES.items():
            found[number] = measure, module.DATA_OF_FIGURES.get(number)
    return found
