"""Show the whole way on the embedded sample: schema, plan, ledger, release, questions."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import hushtable as ht
from hushtable.cli.options import AsJson
from hushtable.cli.screen import console, print_json
from hushtable.errors import ReleaseError

QUESTIONS = (
    "sex = 'F'",
    "age >= 40 AND smoker = 'yes'",
    "smoker IS NULL",
    "diagnosis IN ('fracture', 'sprain') AND age < 18",
)


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the release.")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish the embedded sample and ask it a few questions."""
    folder = _fresh_folder(out)
    console.quiet = as_json  # the same way, told at its end
    schema = ht.sample_schema()
    method = ht.NoisyCounts(
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        k=10,
        generalize={"age": [18, 40, 65], "region": 2, "diagnosis": 1},
        row_count_share=Fraction(1, 20),
    )
    _say(
        1,
        f"The private table: {ht.sample().num_rows:,} generated visits to a clinic; "
        f"public schema with {', '.join(schema.attributes)}.",
    )
    _say(2, "The promise, before any data is read:")
    for promise in method.guarantee(schema):
        console.print(f"   {promise.explain()}", highlight=False)
    folder.mkdir(parents=True)
    ledger = ht.Ledger.create(folder / "ledger.sqlite", epsilon=2, delta="1e-5", schema=schema)
    (folder / "schema.yaml").write_text(schema.to_yaml(), encoding="utf-8")
    release = ht.publish(ht.sample(), schema, method, out=folder / "release", ledger=ledger)
    _say(3, f"Charged to the ledger, then published. Left: {ledger.left().in_words()}")
    _say(4, "An analyst asks the release alone:")
    table = Table("how many", "estimate", "95 % interval", box=None, header_style="bold")
    for question in QUESTIONS:
        answer = release.count(question)
        table.add_row(question, f"{answer.value:,.0f}", f"{answer.low:,.0f} to {answer.high:,.0f}")
    console.print(table)
    _say(
        5,
        f"The release lies in {release.folder} "
        f"(read {release.folder / 'STATEMENT.md'}); the ledger and the schema are beside it.",
    )
    if as_json:
        answers = {question: release.count(question).to_dict() for question in QUESTIONS}
        print_json({"release": str(release.folder), "answers": answers})


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
