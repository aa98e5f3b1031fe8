"""Options of ``hushtable query`` as one question, and the output of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hushtable.cli.plain import print_folded, print_json, print_line
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    import hushtable as ht
    from hushtable.query.answers.table import EstimateTable


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Question to a release: a count, unless `mean`, `quantile` or `regress` is set."""

    where: str | None
    by: tuple[str, ...] = ()
    mean: str | None = None  # column
    quantile: str | None = None  # COLUMN:PROBABILITY
    regress: str | None = None  # formula
    logistic: bool = False
    scope: Literal["people", "population"] = "people"

    def problems(self) -> list[str]:
        """Return a message for each invalid or conflicting option."""
        asked = [name for name in ("mean", "quantile", "regress") if getattr(self, name)]
        found = []
        if len(asked) > 1:
            found.append(f"--{' and --'.join(asked)} cannot be combined; choose one.")
        if self.logistic and not self.regress:
            found.append("--logistic requires --regress; give a formula.")
        if self.regress and self.by:
            found.append(
                "--by cannot be combined with --regress; put the column in the formula as "
                "C(column)."
            )
        if self.where is None and not asked and not self.by:
            found.append("no question is given; add a WHERE clause, --by, --mean, --quantile or "
                         "--regress.")  # fmt: skip
        if self.quantile:
            _, sign, probability = self.quantile.rpartition(":")
            if not sign or _number(probability) is None:
                found.append(f"--quantile is {self.quantile!r}; it must be COLUMN:PROBABILITY, "
                             "such as age:0.5.")  # fmt: skip
        return found

    def ask(
        self, release: ht.Release, tables: Mapping[str, pa.Table]
    ) -> ht.Estimate | EstimateTable:
        """Query a release; the condition may look up values in the analyst's `tables`."""
        where = self.where
        if where is not None and tables:
            from hushtable.query.where.lookup import look_up  # noqa: PLC0415 - slow to import

            where = look_up(where, release.schema, tables)
        if self.mean:
            return release.mean(self.mean, where, by=self.by, scope=self.scope)
        if self.quantile:
            column, _, probability = self.quantile.rpartition(":")
            return release.quantile(column, float(probability), where, by=self.by, scope=self.scope)
        if self.regress:
            return release.regression(self.regress, where, logistic=self.logistic, scope=self.scope)
        if self.by:
            return release.crosstab(self.by, where, scope=self.scope)
        if self.scope == "population":
            return release.total(where, scope="population")
        return release.count(str(where))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def show(answer: ht.Estimate | EstimateTable, *, as_json: bool) -> None:
    """Print an answer as JSON, or as text with its notes."""
    if as_json:
        print_json(answer.to_dict())
        return
    print_line(str(answer))
    for note in answer.notes:
        print_folded(f"  {note}")


def write(answer: ht.Estimate | EstimateTable, csv: Path | None, plot: Path | None) -> None:
    """Write an answer to a new CSV file and draw it to a new SVG file, where given."""
    from hushtable.files.whole_file import write_whole  # noqa: PLC0415
    from hushtable.query.answers.estimator import Estimate  # noqa: PLC0415 - slow to import
    from hushtable.query.answers.interval_plot import drawing  # noqa: PLC0415
    from hushtable.query.answers.table import EstimateTable  # noqa: PLC0415

    if csv is not None:
        table = EstimateTable((), ((),), (answer,)) if isinstance(answer, Estimate) else answer
        write_whole(csv, table.to_csv())
    if plot is not None:
        write_whole(plot, drawing(answer))


def require(asked: QueryOptions, csv: Path | None, plot: Path | None) -> None:
    """Raise one error that lists conflicting options and files that cannot be written."""
    from hushtable.files.whole_file import require_new  # noqa: PLC0415 - slow to import

    problems = asked.problems()
    for path in (csv, plot):
        try:
            if path is not None:
                require_new(path)
        except ParameterError as error:
            problems += error.problems
    if plot is not None and plot.suffix != ".svg":
        problems.append(f"--plot is {plot.name!r}; it must end in .svg.")
    if problems:
        raise ParameterError(problems)
