"""What ``hushtable query`` may ask: one question, read from its options, and how it is printed."""

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
    from hushtable.estimate.estimate_table import EstimateTable


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """A question to a release.

    Parameters
    ----------
    where : str or None
        The condition.
    by : tuple of str
        Columns whose groups are answered one by one.
    mean, quantile, regress : str or None
        What to compute: the mean of a column, a quantile given as COLUMN:PROBABILITY, a regression
        given as a formula. A count, if it is none of them.
    logistic : bool
        Whether the regression is logistic.
    scope : {"people", "population"}
        What the interval is about.
    """

    where: str | None
    by: tuple[str, ...] = ()
    mean: str | None = None
    quantile: str | None = None
    regress: str | None = None
    logistic: bool = False
    scope: Literal["people", "population"] = "people"

    def problems(self) -> list[str]:
        """List what does not go together."""
        asked = [name for name in ("mean", "quantile", "regress") if getattr(self, name)]
        found = []
        if len(asked) > 1:
            found.append(f"--{' and --'.join(asked)} are several questions; ask one at a time.")
        if self.logistic and not self.regress:
            found.append("--logistic is about --regress; give a formula.")
        if self.regress and self.by:
            found.append(
                "a regression has its groups in the formula, as C(column); leave out --by."
            )
        if self.where is None and not asked and not self.by:
            found.append("nothing is asked: give a WHERE clause, --by, --mean, --quantile or "
                         "--regress.")  # fmt: skip
        if self.quantile:
            _, sign, probability = self.quantile.rpartition(":")
            if not sign or _number(probability) is None:
                found.append(f"--quantile is COLUMN:PROBABILITY, such as age:0.5, not "
                             f"{self.quantile!r}.")  # fmt: skip
        return found

    def ask(
        self, release: ht.Release, tables: Mapping[str, pa.Table]
    ) -> ht.Estimate | EstimateTable:
        """Ask a release; `tables` are the analyst's own, which a count may look values up in."""
        where = self.where
        if where is not None and tables:
            from hushtable.predicate.lookup import look_up  # noqa: PLC0415 - slow to import

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
    """Print an answer: as JSON, as a line, or as a table to paste."""
    if as_json:
        print_json(answer.to_dict())
        return
    print_line(str(answer))
    for note in answer.notes:
        print_folded(f"  {note}")


def write(answer: ht.Estimate | EstimateTable, csv: Path | None, plot: Path | None) -> None:
    """Write an answer to new files: as comma-separated values, as a drawing."""
    from hushtable.estimate.base import Estimate  # noqa: PLC0415 - slow to import
    from hushtable.estimate.estimate_table import EstimateTable  # noqa: PLC0415
    from hushtable.estimate.interval_plot import drawing  # noqa: PLC0415
    from hushtable.files.whole_file import write_whole  # noqa: PLC0415

    if csv is not None:
        table = EstimateTable((), ((),), (answer,)) if isinstance(answer, Estimate) else answer
        write_whole(csv, table.to_csv())
    if plot is not None:
        write_whole(plot, drawing(answer))


def require(asked: QueryOptions, csv: Path | None, plot: Path | None) -> None:
    """Refuse questions that do not go together and files that cannot be written, all at once."""
    from hushtable.files.whole_file import require_new  # noqa: PLC0415 - slow to import

    problems = asked.problems()
    for path in (csv, plot):
        try:
            if path is not None:
                require_new(path)
        except ParameterError as error:
            problems += error.problems
    if plot is not None and plot.suffix != ".svg":
        problems.append(f"a drawing goes into an .svg file, not {plot.name!r}.")
    if problems:
        raise ParameterError(problems)
