"""Show the whole way on the embedded sample: schema, plan, ledger, release, questions."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hushtable.datasets import sample, sample_schema
from hushtable.errors import ReleaseError
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.pipeline import publish
from hushtable.privacy.ledger import Ledger

QUESTIONS = (
    "sex = 'F'",
    "age >= 40 AND smoker = 'yes'",
    "smoker IS NULL",
    "diagnosis IN ('fracture', 'sprain') AND age < 18",
)


def run_demo(out: Path | None, console: Console) -> None:
    """Publish the sample into a new folder and print questions with answers."""
    folder = _fresh_folder(out)
    schema = sample_schema()
    method = NoisyCounts(
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        k=10,
        generalize={"age": [18, 40, 65], "region": 2, "diagnosis": 1},
        row_count_share=Fraction(1, 20),
    )
    console.print(
        f"[bold]1.[/bold] The private table: {sample().num_rows:,} generated visits to a clinic; "
        f"public schema with {', '.join(schema.attributes)}."
    )
    console.print("[bold]2.[/bold] The promise, before any data is read:")
    for promise in method.guarantee(schema):
        console.print(f"   {promise.explain()}", highlight=False)
    folder.mkdir(parents=True)
    ledger = Ledger.create(folder / "ledger.sqlite", epsilon=2, delta="1e-5", schema=schema)
    (folder / "schema.yaml").write_text(schema.to_yaml(), encoding="utf-8")
    release = publish(sample(), schema, method, out=folder / "release", ledger=ledger)
    left = ledger.remaining()
    console.print(
        f"[bold]3.[/bold] Charged to the ledger, then published. Left to spend: epsilon "
        f"{float(left.epsilon):g}, delta {float(left.delta):g}.",
        highlight=False,
    )
    console.print("[bold]4.[/bold] An analyst asks the release alone:")
    table = Table("how many", "estimate", "95 % interval", box=None, header_style="bold")
    for question in QUESTIONS:
        answer = release.count(question)
        table.add_row(question, f"{answer.value:,.0f}", f"{answer.low:,.0f} to {answer.high:,.0f}")
    console.print(table)
    console.print(
        f"[bold]5.[/bold] The release lies in {release.folder} "
        f"(read {release.folder / 'STATEMENT.md'}); the ledger and the schema are beside it.",
        highlight=False,
        soft_wrap=True,
    )


def _fresh_folder(out: Path | None) -> Path:
    if out is not None:
        if out.exists():
            raise ReleaseError(f"{str(out)!r} exists; choose another folder.")
        return out
    number = 1
    while (folder := Path("demo-release" if number == 1 else f"demo-release-{number}")).exists():
        number += 1
    return folder
