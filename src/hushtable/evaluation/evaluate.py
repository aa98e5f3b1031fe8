"""Evaluation of a release against the original: utility and disclosure risk."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.engine.graph import EDGE_COLUMNS
from hushtable.engine.output_guard import logged, silenced
from hushtable.engine.sources.header import Data
from hushtable.errors import ParameterError, unpublished
from hushtable.evaluation.findings import PACKAGED, TEXTS, Findings
from hushtable.evaluation.inputs import AlignedTables, CodedRows, align_tables, read_rows
from hushtable.evaluation.risk.attacks import (
    HELD_BACK,
    AttackedRows,
    Risk,
    anonymity_of,
    assess,
    make_control_group,
)
from hushtable.evaluation.utility.closeness import Utility, measure_utility
from hushtable.extras import require
from hushtable.files.html import html_table
from hushtable.files.progress import Progress, silent
from hushtable.release.release import Release
from hushtable.release.statement import SEEDED, Statement
from hushtable.schema import Schema

INTERNAL = TEXTS["internal report"]
NO_ROWS = TEXTS["no rows to attack"]

PLAIN_TABLE: dict[str, Any] = PACKAGED["plain_table"]
"""Entries of a report about a table without statement, in place of those from a statement."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation(Findings):
    """Results of an evaluation; internal, because they depend on the private table.

    Attributes
    ----------
    name : str
        Name of the table.
    statement : Statement or None
        Statement of the release; None for a plain table.
    utility : Utility
        Closeness of the release to the original.
    risk : Risk or None
        Results of the attacks; None without rows to attack.
    why_no_risk : str
        Reason why nothing was attacked, or empty.
    seed : int
        Seed of the evaluation's own randomness.
    command : str
        Command that repeats the evaluation.
    control : bool
        Whether a control table was given.
    held_back : int
        Rows held back from a second run of the method, as control group of the attacks; 0 without
        a second run.
    internal : str
        Notice at the top of the report.
    """

    name: str
    statement: Statement | None
    utility: Utility
    risk: Risk | None
    why_no_risk: str
    seed: int
    command: str
    control: bool
    held_back: int = 0
    internal: str = INTERNAL

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the report shows as plain data."""
        return {
            "format": 1,
            "internal": self.internal,
            "name": self.name,
            **(_of_statement(self.statement) if self.statement else PLAIN_TABLE),
            "utility": self.utility.to_dict(),
            "risk": self.risk.to_dict() if self.risk else {"not_assessed": self.why_no_risk},
            "reproduce": {
                "command": self.command,
                "seed": self.seed,
                "control": self.control,
                "held_back": self.held_back,
                "versions": _versions(),
                "created": datetime.datetime.now(datetime.UTC).date().isoformat(),
            },
        }

    def _repr_html_(self) -> str:
        from hushtable.evaluation.report.pages import headlines  # noqa: PLC0415 - see `to_html`

        found = ([one["what"], one["value"], one["note"]] for one in headlines(self.to_dict()))
        return f"<p><b>{escape(self.internal)}</b></p>{html_table(['', 'found', ''], found)}"

    def to_html(self) -> str:
        """Return the report as one self-contained HTML page."""
        from hushtable.evaluation.report.pages import render  # noqa: PLC0415 - needs jinja2, an extra

        return render(self.to_dict())


def _of_statement(statement: Statement) -> dict[str, Any]:
    """Return what a report shows of a release's statement."""
    return {
        "release": {
            "method": statement.method,
            "paper": statement.paper,
            "created": statement.created,
            "tables": {
                name: {"rows": table.rows, "sha256": table.sha256}
                for name, table in statement.tables.items()
            },
        },
        "promise": {
            "sentences": [promise.explain() for promise in statement.guarantees],
            "unprotected": list(statement.unprotected),
            "seeded": statement.guarantee == SEEDED,
        },
        "spent": {
            "split": dict(statement.split),
            "ledger": statement.ledger and statement.ledger.model_dump(),
        },
        "parameters": dict(statement.parameters),
    }


@silenced
@logged("evaluate")
def evaluate(
    release: Release | str | Path | Any,
    data: Data,
    *,
    schema: Schema | None = None,
    control: Data | None = None,
    target: str | None = None,
    nodes: Any = None,
    edge_columns: tuple[str, str] = EDGE_COLUMNS,
    columns: Sequence[str] | None = None,
    seed: int = 0,
    n_draws: int = 3,
    n_repeats: int = 5,
    questions: int = 20,
    hold_back: bool = True,
    command: str | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Compare a release with the original: measure utility and run attacks.

    The result is internal: it is computed from the private table, and the promise does not cover
    it.

    Parameters
    ----------
    release : Release, path or table
        A release or its folder; or any table with the same columns, together with `schema`.
    data : path or frame
        The private table, or the edge list of a private graph.
    schema : Schema, optional
        Schema of a plain table. A release contains its own.
    control : path or frame, optional
        Rows of the same population that the release was not made from. Models are tested on them,
        and attacks are compared with attacks on them.
    target : str, optional
        Column that models predict. By default, the schema's target.
    nodes : path or sequence, optional
        All nodes, for a graph that was published with a list of nodes.
    edge_columns : pair of str
        Columns of an edge list.
    columns : sequence of str, optional
        Columns to compare. By default, all published columns.
    seed : int, default=0
        Seed of the evaluation. It has no effect on privacy.
    n_draws : int, default=3
        Number of times that values inside generalized cells are sampled.
    n_repeats : int, default=5
        Number of times that each model is trained.
    questions : int, default=20
        Count queries for each number of conditions and range of selectivity.
    hold_back : bool, default=True
        If no control is given, run the method again on three quarters of the rows and attack that
        release, with the other rows as control, if the method and the table allow it. Otherwise
        attacks are only compared with a naive attacker, which says nothing about privacy.
    command : str, optional
        Command that repeats the evaluation, shown in the report.
    progress : Progress, optional
        Callback for progress.

    Returns
    -------
    Evaluation
        The results. Write them with ``write_html`` or ``write_json``.

    Raises
    ------
    ParameterError
        If a parameter is invalid or does not apply to this kind of release. All problems are
        listed.

    Examples
    --------
    >>> from hushtable import sample, sample_schema
    >>> visits = sample().slice(0, 500)
    >>> same = evaluate(visits, visits, schema=sample_schema(), n_repeats=1, questions=2)
    >>> same.to_dict()["utility"]["pairs"]["largest"]
    0.0
    """
    require("eval", "evaluation")
    _require_counts(n_draws=n_draws, n_repeats=n_repeats, questions=questions)
    rng_utility, rng_risk = np.random.default_rng(seed).spawn(2)
    progress("reading", 0.0)
    opened = align_tables(
        release, data, schema=schema, nodes=nodes, edge_columns=edge_columns, columns=columns
    )
    progress("reading", 0.6)
    held_out = None
    if control is not None:
        if opened.whole is None or opened.published.about == "nodes":
            raise ParameterError(TEXTS["no control table possible"])
        held_out = read_rows(control, opened.published.schema, opened.schema.reading)
    progress("reading", 1.0)
    utility = measure_utility(
        opened,
        held_out,
        _target(target, opened.published.schema),
        rng_utility,
        n_draws=n_draws,
        n_repeats=n_repeats,
        per_cell=questions,
        progress=progress,
    )
    risk, why_not, n_held_back = _risk(opened, held_out, rng_risk, progress, hold_back=hold_back)
    return Evaluation(
        name=opened.schema.name,
        statement=opened.release.statement if opened.release else None,
        utility=utility,
        risk=risk,
        why_no_risk=why_not,
        seed=seed,
        command=command or f"hushtable evaluate RELEASE DATA --seed {seed}",
        control=control is not None,
        held_back=n_held_back,
    )


def _risk(
    opened: AlignedTables,
    control: CodedRows | None,
    rng: np.random.Generator,
    progress: Progress,
    *,
    hold_back: bool,
) -> tuple[Risk | None, str, int]:
    """Return the results of the attacks or why there are none, and the number of rows held back."""
    rows, original, release = opened.published.whole_rows, opened.all_rows, opened.release
    if rows is None or original is None:
        degrees = opened.published.about == "nodes"
        what = "it contains degrees" if degrees else "it contains groups of columns or items"
        return None, NO_ROWS.format(what=what), 0
    steps = 5 + len(opened.published.schema.attributes)
    done = iter(range(1, 10 * steps))
    schema = opened.schema.of_rows(opened.published.schema.attributes)

    def step(_: str) -> None:
        progress("attacks", min(next(done) / (steps + 1), 1.0))

    def attack(on: AttackedRows) -> Risk:
        control = on.control and on.control.table()
        return assess(on.original.table(), on.published, control, schema, on.release, rng, step)

    progress("attacks", 0.0)
    n_back = 0
    with ExitStack() as second_run:
        back = None
        if hold_back and control is None and release is not None:
            back = second_run.enter_context(make_control_group(release, original, rng))
        found = attack(back or AttackedRows(release, rows, original, control))
        if back is not None and back.control is not None:
            n_back = back.control.n_rows
            found = replace(
                found,
                # Anonymity is measured on the actual release, not on the second run.
                anonymity=anonymity_of(rows, schema, {} if release is None else release.recode),
                notes=(HELD_BACK.format(n=n_back), *found.notes),
            )
    progress("attacks", 1.0)
    return found, "", n_back


def _target(target: str | None, schema: Schema) -> str | None:
    if target is not None:
        ParameterError.raise_if_any(unpublished([target], schema.attributes, "target"))
    return target or schema.target


def _require_counts(**given: int) -> None:
    problems = [f"{name} is {n}; it must be at least 1." for name, n in given.items() if n < 1]
    ParameterError.raise_if_any(problems)


def _versions() -> dict[str, str]:
    names = ("hushtable", "numpy", "scipy", "scikit-learn", "pyarrow")
    return {name: version(name) for name in names} | {"python": platform.python_version()}
