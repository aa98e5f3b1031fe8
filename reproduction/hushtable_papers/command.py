"""``hushtable reproduce``: measure figures of a paper again, and compare them with saved points."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from hushtable.cli.ending import warn
from hushtable.cli.plain import REFUSED, print_json
from hushtable.cli.screen import console
from hushtable.errors import ParameterError
from hushtable.files.writing import require_new
from hushtable_papers import data_sets
from hushtable_papers.comparison import Difference, differences
from hushtable_papers.drawing import drawn
from hushtable_papers.figure import kept, save
from hushtable_papers.page import tables
from hushtable_papers.papers import PAPERS, measures
from hushtable_papers.repetitions import reduce_repetitions


def run(
    paper: str | None,
    figures: list[str] | None,
    *,
    out: Path | None,
    full: bool,
    download: bool,
    as_json: bool,
) -> None:
    """Run the command."""
    console.quiet = as_json  # JSON is printed at the end
    if paper is None:
        _list_papers()
        if as_json:
            print_json({name: about._asdict() for name, about in PAPERS.items()})
        return
    if paper not in PAPERS:
        raise ParameterError(f"{paper!r} is not one of the papers {', '.join(PAPERS)}.")
    folder = require_new(out or Path(f"{paper}-figures"))
    if not full:
        reduce_repetitions()
    available = measures(paper)
    chosen = list(dict.fromkeys(figures or available))
    if unknown := [number for number in chosen if number not in available]:
        raise ParameterError(
            f"{paper} has no figure {', '.join(unknown)} here; it has {', '.join(available)}."
        )
    if download:
        data_sets.download("adult")
    missing = {
        name: problems
        for name in sorted({available[number][1] or "" for number in chosen} - {""})
        if (problems := data_sets.problems(name))
    }
    for problems in missing.values():
        warn("\n  ".join(problems))
    measurable = [number for number in chosen if available[number][1] not in missing]
    if not measurable:
        raise ParameterError("No figure is left to measure.")
    seconds = PAPERS[paper].full_seconds if full else PAPERS[paper].reduced_seconds
    console.print(f"All figures of {paper} take about {seconds} CPU seconds.")
    found = _measure(paper, measurable, folder)
    skipped = [number for number in chosen if number not in measurable]
    if skipped:
        console.print(f"Skipped, since data are missing: {', '.join(skipped)}.")
    console.print(f"Wrote {folder}. The pages of the papers explain each figure.")
    if as_json:
        figures_found = {
            number: {"compared": len(compared), "outside": [one.where for one in outside]}
            for number, (compared, outside) in found.items()
        }
        print_json({"folder": str(folder), "figures": figures_found, "skipped": skipped})
    if any(outside for _, outside in found.values()):
        raise typer.Exit(REFUSED)


def _list_papers() -> None:
    for name, paper in PAPERS.items():
        console.print(f"{name}: {paper.reference}")
        console.print(
            f"    {paper.reduced_seconds} CPU seconds, with --full {paper.full_seconds}\n"
        )


def _measure(
    paper: str, numbers: list[str], folder: Path
) -> dict[str, tuple[list[Difference], list[Difference]]]:
    """Measure figures, write each as soon as it is done; return compared and unexplained points."""
    folder.mkdir()
    saved, done, report = kept(paper), {}, [f"# {PAPERS[paper].reference}\n"]
    found = {}
    for number in numbers:
        start = time.process_time()
        figure = measures(paper)[number][0]()
        took = time.process_time() - start
        done[number] = figure
        save(folder / "points.json", done)
        (folder / f"figure-{number}.svg").write_text(drawn(figure), encoding="utf-8")
        compared = differences(figure, saved[number])
        outside = [one for one in compared if not one.is_explained]
        found[number] = compared, outside
        verdict = (
            f"{len(compared) - len(outside)} of {len(compared)} points agree with the saved ones"
            if compared
            else "not compared: its values depend on the machine"
        )
        console.print(f"figure {number}: {verdict} ({took:.0f} CPU seconds)")
        for one in outside:
            console.print(
                f"    {one.where}: {one.measured:.4g}, saved {one.saved:.4g}, "
                f"expected within {one.allowed:.2g}"
            )
        report.append(f"## Figure {number}: {figure.title}\n\n![Figure](figure-{number}.svg)\n")
        report.append(f"{verdict.capitalize()}.\n{tables(figure)}")
        (folder / "report.md").write_text("\n".join(report), encoding="utf-8")
    return found
