"""``hushtable demo``: all steps on the embedded sample, from schema to evaluation report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table
from rich.text import Text

import hushtable as ht
from hushtable.cli.options import AsJson
from hushtable.cli.plain import print_json
from hushtable.cli.screen import bar_for_each_part, console, one_bar
from hushtable.errors import ReleaseError
from hushtable.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

QUESTIONS = (
    "sex = 'F'",
    "age >= 40 AND smoker = 'yes'",
    "smoker IS NULL",
    "diagnosis IN ('fracture', 'sprain') AND age < 18",
)
MEANS = (("age", "smoker = 'yes'"), ("age", "diagnosis = 'fracture'"))


def demo(
    out: Annotated[Path | None, typer.Option(help="New folder for the results.")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish the embedded sample, query the release, and write an evaluation report."""
    require("eval", "the demo, which writes an evaluation report,")
    folder = _fresh_folder(out)
    console.quiet = as_json  # JSON is printed at the end
    schema, table = ht.sample_schema(), ht.sample()
    method = ht.Quilt(epsilon=1, delta="1e-6")
    _say(
        1,
        f"The private table: {table.num_rows:,} generated visits to a clinic; "
        f"public schema with {', '.join(schema.attributes)}.",
    )
    _say(2, "The promise, before any data is read:")
    for promise in method.guarantee(schema):
        console.print(f"   {promise.explain()}")
    folder.mkdir(parents=True)
    ledger = ht.Ledger.create(folder / "ledger.sqlite", epsilon=2, delta="1e-5", schema=schema)
    (folder / "schema.yaml").write_text(schema.to_yaml(), encoding="utf-8")
    with one_bar("publishing") as progress:
        release = ht.publish(
            table, schema, method, out=folder / "release", ledger=ledger, progress=progress
        )
    _say(3, f"Charged to the ledger, then published. Left: {ledger.left().in_words()}")
    _say(4, "Queries of the release (the truth is shown because the sample is generated):")
    answers = _answers(release)
    console.print(_beside_the_truth(answers, table))
    page = _page(release, table, folder / "report.html")
    _say(
        5,
        f"The release is in {release.folder} "
        f"(read {release.folder / 'STATEMENT.md'}), next to the ledger and the schema.",
    )
    _say(6, f"Evaluation report: open {page}")
    if as_json:
        told = {question: answer.to_dict() for question, answer in answers.items()}
        print_json({"release": str(release.folder), "page": str(page), "answers": told})


def _answers(release: ht.Release) -> dict[str, ht.Estimate]:
    counts = {f"count(*) where {where}": release.count(where) for where in QUESTIONS}
    return counts | {
        f"avg({column}) where {where}": cast("ht.Estimate", release.mean(column, where=where))
        for column, where in MEANS
    }


def _beside_the_truth(answers: Mapping[str, ht.Estimate], private: pa.Table) -> Table:
    import duckdb  # noqa: PLC0415 - slow to import

    shown = Table(box=None, header_style="bold")
    shown.add_column("question", max_width=44)
    for name in ("estimate", "95% interval", "truth"):
        shown.add_column(name, justify="right", no_wrap=True)
    relation = duckdb.from_arrow(private)
    for question, answer in answers.items():
        what, where = question.split(" where ")
        truth = relation.filter(where).aggregate(what).fetchall()[0][0]
        form = ",.0f" if what == "count(*)" else ".2f"
        interval = f"{answer.low:{form}} to {answer.high:{form}}"
        shown.add_row(question, f"{answer.value:{form}}", interval, f"{truth:{form}}")
    return shown


def _page(release: ht.Release, private: pa.Table, page: Path) -> Path:
    """Write a report that compares the release with the private table."""
    from hushtable.evaluation.evaluate import evaluate  # noqa: PLC0415 - slow to import

    with bar_for_each_part() as progress:
        found = evaluate(
            release, private, n_draws=1, n_repeats=1, hold_back=False, progress=progress
        )
    found.write_html(page)
    return page


def _say(number: int, text: str) -> None:
    console.print(Text.assemble((f"{number}.", "bold"), f" {text}"), soft_wrap=True)


def _fresh_folder(out: Path | None) -> Path:
    if out is not None:
        if out.exists():
            raise ReleaseError(f"{str(out)!r} exists; choose another folder.")
        return out
    number = 1
    while (folder := Path("demo-release" if number == 1 else f"demo-release-{number}")).exists():
        number += 1
    return folder
