"""Evaluation of a release against the original: utility and disclosure risk."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.engine.edges import EDGE_COLUMNS
from hushtable.engine.output_guard import logged, silenced
from hushtable.engine.sources.header import Data
from hushtable.errors import ParameterError
from hushtable.evaluation.findings import Findings
from hushtable.evaluation.inputs import AlignedTables, CodedRows, align_tables, read_rows
from hushtable.evaluation.risk.attacks import Risk, anonymity_of, assess
from hushtable.evaluation.risk.control_group import HELD_BACK, ControlGroup, make_control_group
from hushtable.evaluation.utility.closeness import Utility, measure_utility
from hushtable.extras import require
from hushtable.files.html import html_table
from hushtable.files.progress import Progress, silent
from hushtable.release.release import Release
from hushtable.release.statement import SEEDED, Statement
from hushtable.schema import Schema

INTERNAL = (
    "Internal. This report compares a release with the private table. The promise does not cover "
    "this comparison: do not publish any part of it."
)
NO_ROWS = (
    "The attacks need published rows with all columns, and this release has none: {what}. Only the "
    "promise limits what it reveals about a person."
)


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
        Results of the attacks; None if there are no rows to attack.
    why_no_risk : str
        Reason why there are no attacks, or empty.
    seed : int
        Seed of the evaluation's own randomness.
    command : str
        Command that repeats the evaluation.
    control : bool
        Whether a control table was given.
    held_back : int
        Rows held back from a second run of the method, as control group of the attacks; 0 if there
        was no second run.
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
            "release": self._release(),
            "promise": self._promise(),
            "spent": self._spent(),
            "utility": self.utility.to_dict(),
            "risk": self.risk.to_dict() if self.risk else {"not_assessed": self.why_no_risk},
            "parameters": dict(self.statement.parameters) if self.statement else {},
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

    def _release(self) -> dict[str, Any]:
        if self.statement is None:
            return {"method": None, "paper": None, "created": None, "tables": {}}
        return {
            "method": self.statement.method,
            "paper": self.statement.paper,
            "created": self.statement.created,
            "tables": {
                name: {"rows": table.rows, "sha256": table.sha256}
                for name, table in self.statement.tables.items()
            },
        }

    def _promise(self) -> dict[str, Any]:
        if self.statement is None:
            return {
                "sentences": ["None. This is a plain table, published without a statement."],
                "unprotected": ["Everything: this table has no promise."],
                "seeded": False,
            }
        return {
            "sentences": [promise.explain() for promise in self.statement.guarantees],
            "unprotected": list(self.statement.unprotected),
            "seeded": self.statement.guarantee == SEEDED,
        }

    def _spent(self) -> dict[str, Any]:
        if self.statement is None:
            return {"split": {}, "ledger": None}
        ledger = self.statement.ledger
        return {
            "split": dict(self.statement.split),
            "ledger": ledger and ledger.model_dump(),
        }

    def to_html(self) -> str:
        """Return the report as one self-contained HTML page."""
        from hushtable.evaluation.report.pages import render  # noqa: PLC0415 - needs jinja2, an extra

        return render(self.to_dict())


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
            raise ParameterError(
                "a control table requires a release of rows; omit it for graphs and for item "
                "groups."
            )
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
    wanted = hold_back and held_out is None
    with _held_back(opened, wanted=wanted, rng=rng_risk) as back:
        risk, why_not = _risk(opened, held_out, back, rng_risk, progress)
    return Evaluation(
        name=opened.schema.name,
        statement=opened.release.statement if opened.release else None,
        utility=utility,
        risk=risk,
        why_no_risk=why_not,
        seed=seed,
        command=command or f"hushtable evaluate RELEASE DATA --seed {seed}",
        control=control is not None,
        held_back=back.control.n_rows if back else 0,
    )


@contextmanager
def _held_back(
    opened: AlignedTables, *, wanted: bool, rng: np.random.Generator
) -> Iterator[ControlGroup | None]:
    """Hold rows back if there is something to attack."""
    rows, release = opened.all_rows, opened.release
    if not wanted or rows is None or release is None or opened.published.whole_rows is None:
        yield None
        return
    with make_control_group(release, rows, rng) as found:
        yield found


def _risk(
    opened: AlignedTables,
    control: CodedRows | None,
    back: ControlGroup | None,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Risk | None, str]:
    rows = opened.published.whole_rows
    if rows is None or opened.all_rows is None:
        degrees = opened.published.about == "nodes"
        what = "it contains degrees" if degrees else "it contains groups of columns or items"
        return None, NO_ROWS.format(what=what)
    progress("attacks", 0.0)
    steps = 5 + len(opened.published.schema.attributes)
    done = iter(range(1, 10 * steps))
    schema = opened.schema.of_rows(opened.published.schema.attributes)

    def tell(_: str) -> None:
        progress("attacks", min(next(done) / (steps + 1), 1.0))

    if back is None:
        found = assess(
            opened.all_rows.table(), rows, control and control.table(), schema, opened.release, rng,
            tell,
        )  # fmt: skip
    else:
        found = assess(
            back.original.table(), back.published, back.control.table(), schema, back.release, rng,
            tell,
        )  # fmt: skip
        # Anonymity is measured on the actual release, not on the second run.
        recode = {} if opened.release is None else opened.release.recode
        found = replace(
            found,
            anonymity=anonymity_of(rows, schema, recode),
            notes=(HELD_BACK.format(n=back.control.n_rows), *found.notes),
        )
    progress("attacks", 1.0)
    return found, ""


def _target(target: str | None, schema: Schema) -> str | None:
    if target is not None and target not in schema.attributes:
        raise ParameterError(
            f"target {target!r} is not a published column; the published columns are "
            f"{', '.join(schema.attributes)}."
        )
    return target or schema.target


def _require_counts(**given: int) -> None:
    problems = [f"{name} is {n}; it must be at least 1." for name, n in given.items() if n < 1]
    if problems:
        raise ParameterError(problems)


def _versions() -> dict[str, str]:
    names = ("hushtable", "numpy", "scipy", "scikit-learn", "pyarrow")
    return {name: version(name) for name in names} | {"python": platform.python_version()}
