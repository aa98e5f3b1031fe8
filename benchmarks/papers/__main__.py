"""Full measurement of a paper's figures for the documents: points, drawings and tables.

``python -m benchmarks.papers mohammed-2011`` measures one paper and replaces its saved points, the
drawings in ``docs/papers/images`` and the tables of its page. ``--figures 3a 4`` selects figures,
and ``--draw`` draws the saved points without measuring. The real tables must be under
``$HUSHTABLE_DATA`` or ``../shared/data``. To measure without changing documents, use ``hushtable
reproduce``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from hushtable_papers.drawing import drawn
from hushtable_papers.figure import POINTS, kept, save
from hushtable_papers.page import filled
from hushtable_papers.papers import PAPERS, measures

PAGES = Path(__file__).resolve().parents[2] / "docs" / "papers"


def page_of(paper: str) -> Path:
    """Return the page of a paper; its name continues with the method."""
    (page,) = PAGES.glob(f"{paper}-*.md")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--figures", nargs="*", help="Some figures alone, by their number.")
    parser.add_argument("--draw", action="store_true", help="Measure nothing.")
    given = parser.parse_args()
    if not given.draw:
        available = measures(given.paper)
        for number in given.figures or available:
            start = time.process_time()
            figure = available[number][0]()
            save(POINTS / f"{given.paper}.json", {**kept(given.paper), number: figure})
            print(f"figure {number}: {time.process_time() - start:.0f} s of CPU", flush=True)
    figures = kept(given.paper)
    for number, figure in figures.items():
        (PAGES / "images" / f"{given.paper}-{number}.svg").write_text(drawn(figure))
    page = page_of(given.paper)
    page.write_text(filled(page.read_text(), figures))


if __name__ == "__main__":
    main()
