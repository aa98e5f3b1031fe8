"""Measurement of a paper's figures: measures every point, draws the figures, fills the page.

``python -m benchmarks.papers mohammed-2011`` measures one paper. ``--figures 3a 4`` selects
figures, and ``--draw`` draws saved points of ``docs/papers/data`` without measuring. The real
tables must be under ``$HUSHTABLE_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module

from benchmarks.papers.drawing import drawn
from benchmarks.papers.figure import PAGES, Figure, keep, kept, page_of
from benchmarks.papers.page import filled

PAPERS = {
    "li-2009": ("columns_figures",),
    "qardaji-2012": ("rps_figures_1_2_3", "rps_figures_4_5"),
    "aggarwal-2008": ("uncertain_figures",),
    "mohammed-2011": ("diffgen_figures",),
    "rastogi-2007": ("alpha_beta_figures",),
}
"""Modules that measure the figures of each paper; each module lists them in `FIGURES`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--figures", nargs="*", help="Some figures alone, by their number.")
    parser.add_argument("--draw", action="store_true", help="Measure nothing.")
    given = parser.parse_args()
    if not given.draw:
        measures = {}
        for module in PAPERS[given.paper]:
            measures |= import_module(f"benchmarks.papers.{module}").FIGURES
        for number in given.figures or measures:
            start = time.process_time()
            figure = measures[number]()
            keep(given.paper, {**kept(given.paper), number: figure})
            print(f"figure {number}: {time.process_time() - start:.0f} s of CPU", flush=True)
    figures = kept(given.paper)
    for number, figure in figures.items():
        write(given.paper, number, figure)
    page = page_of(given.paper)
    page.write_text(filled(page.read_text(), figures))


def write(paper: str, number: str, figure: Figure) -> None:
    (PAGES / "images" / f"{paper}-{number}.svg").write_text(drawn(figure))


if __name__ == "__main__":
    main()
