"""``hushtable demo``: all steps on the embedded sample, from the promise to an attack."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table
from rich.text import Text

import hushtable as ht
from hushtable.cli.options import AsJson
from hushtable.cli.plain import print_json
from hushtable.cli.screen import console, one_bar, text
from hushtable.errors import ReleaseError
from hushtable.extras import require
from hushtable.files import svg
from hushtable.files.writing import write_whole

if TYPE_CHECKING:
    import pyarrow as pa

QUESTIONS = (
    "sex = 'F'",
    "age >= 40 AND smoker = 'yes'",
    "smoker IS NULL",
    "diagnosis IN ('fracture', 'sprain') AND age < 18",
)
MEANS = (("age", "smoker = 'yes'"), ("age", "diagnosis = 'fracture'"))

_ATTACKED_ROWS, _ROUNDS = 1000, 30


def demo(*, out: Path | None = None, as_json: AsJson = False) -> None:
    """Publish the embedded sample, query the release, and attack it.

    Parameters
    ----------
    out
        New folder for the results.
    """
    from hushtable.web.explorer_page import explorer_page  # noqa: PLC0415 - keeps help quick

    require("publish", "the demo, which publishes a table,")
    folder = _fresh_folder(out)
    console.quiet = as_json  # JSON is printed at the end
    schema, table = ht.sample_schema(), ht.sample()
    method = ht.Quilt(epsilon=1, delta="1e-6")
    _say("table", rows=table.num_rows, columns=", ".join(schema.attributes))
    (promise,) = method.guarantee(schema)
    _say("promise", promise=promise.explain())
    folder.mkdir(parents=True)
    ledger = ht.Ledger.create(folder / "ledger.sqlite", epsilon=2, delta="1e-5", schema=schema)
    (folder / "schema.yaml").write_text(schema.to_yaml(), encoding="utf-8")
    with one_bar("publishing") as progress:
        release = ht.publish(
            table, schema, method, out=folder / "release", ledger=ledger, progress=progress
        )
    _say("charge", left=ledger.left().in_words())
    answers = _answers(release)
    _say("answers")
    shown, n_inside = _beside_the_truth(answers, table)
    console.print(shown)
    console.print(f"   {n_inside} of {len(answers)} intervals contain the truth.\n")
    with one_bar("attacking") as progress:
        progress("attacking", 0.0)
        quick = replace(method, particles=1000)  # for the rows; the noisy tables are the same
        n_right = _attack(table.slice(0, _ATTACKED_ROWS), schema, quick, progress)
    _say("attack", rows=_ATTACKED_ROWS, rounds=_ROUNDS, right=n_right, chance=_ROUNDS // 2)
    write_whole(folder / "answer.svg", _picture(release, promise))
    page = folder / "explore.html"
    with one_bar("computing answers") as progress:
        write_whole(page, explorer_page(release, progress))
    _say("look", statement=release.folder / "STATEMENT.md", release=release.folder, page=page)
    if as_json:
        told: dict[str, Any] = {q: answer.to_dict() for q, answer in answers.items()}
        attack = {"rounds": _ROUNDS, "right": n_right}
        print_json(
            {"release": str(release.folder), "page": str(page), "answers": told, "attack": attack}
        )


def _answers(release: ht.Release) -> dict[str, ht.Estimate]:
    counts = {f"count(*) where {where}": release.count(where) for where in QUESTIONS}
    return counts | {
        f"avg({column}) where {where}": cast("ht.Estimate", release.mean(column, where))
        for column, where in MEANS
    }


def _beside_the_truth(answers: Mapping[str, ht.Estimate], private: pa.Table) -> tuple[Table, int]:
    """Return a table of answers and truth, and the number of intervals that contain the truth."""
    import duckdb  # noqa: PLC0415 - slow to import

    shown, n_inside = Table(box=None, header_style="bold", padding=(0, 1, 0, 2)), 0
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
        n_inside += answer.low <= truth <= answer.high
    return shown, n_inside


def _attack(table: pa.Table, schema: ht.Schema, method: ht.Method, progress: Any) -> int:
    """Return how often a guess whether a known person is in the table is right.

    The attacker compares counts of the person's values, and of pairs of them, with the counts of
    everybody else, and weights them by their precision.
    """
    import duckdb  # noqa: PLC0415 - slow to import

    from hushtable.query.answers.questions import literal  # noqa: PLC0415 - keeps help quick

    person, rest = table.slice(0, 1), table.slice(1)
    one = [
        f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"
        for name, (value,) in person.select(list(schema.attributes)).to_pydict().items()
    ]
    clauses = [*one, *(" AND ".join(pair) for pair in combinations(one, 2))]
    relation = duckdb.from_arrow(rest)
    others = [relation.filter(clause).count("*").fetchall()[0][0] for clause in clauses]
    n_right = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(_ROUNDS):
            is_in = bool(secrets.randbits(1))
            release = ht.publish(
                table if is_in else rest, schema, method, out=Path(folder) / str(number)
            )
            score = 0.0
            for clause, known in zip(clauses, others, strict=True):
                found = release.count(clause)
                score += (found.value - known - 0.5) / (found.high - found.low) ** 2
            n_right += (score > 0) == is_in
            progress("attacking", (number + 1) / _ROUNDS)
    return n_right


def _picture(release: ht.Release, promise: ht.Guarantee) -> str:
    """Draw an answer with its intervals, and the promise beside it."""
    drawn = release.mean("age", by="diagnosis").plot().svg
    chart = drawn[drawn.index("</style>") + len("</style>") : drawn.rindex("</svg>")]
    left = 740
    lines = [
        ("The promise", "strong"),
        *((line, "") for line in wrap(promise.explain(), 44)),
        ("", ""),
        ("Published with quilt, from 12,000 visits", "soft"),
        ("to a clinic (generated).", "soft"),
    ]
    beside = [svg.text(left, 20 + 19 * n, line, kind) for n, (line, kind) in enumerate(lines)]
    return svg.document(1090, max(250, 30 + 19 * len(lines)), [chart, *beside])


def _say(step: str, **filled: object) -> None:
    title, said = text["demo"][step]
    console.print(Text(title, "bold"))
    for line in wrap(said.format(**filled), min(console.width, 100) - 3):
        console.print(f"   {line}", soft_wrap=True)
    console.print()


def _fresh_folder(out: Path | None) -> Path:
    if out is not None:
        if out.exists():
            raise ReleaseError(f"{str(out)!r} exists; choose another folder.")
        return out
    number = 1
    while (folder := Path("demo-release" if number == 1 else f"demo-release-{number}")).exists():
        number += 1
    return folder
